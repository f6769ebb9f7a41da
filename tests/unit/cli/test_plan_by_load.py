"""`samerack plan --balance records`: measures records for the group, and shows the plan by them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from samerack.cli import live_group, live_plan
from samerack.cli.live_group import Subject
from samerack.cli.main import app
from samerack.cluster.racks import NO_HOSTS
from samerack.common.errors import AgentError
from samerack.planning.members import members_of_view
from samerack.protocol.values import from_pairs
from samerack.settings.all_settings import Settings
from samerack.settings.leading import RackSettings
from samerack.traffic.collect import Partition
from samerack.traffic.snapshot import GroupTraffic, PartitionTraffic, TrafficSnapshot
from tests.unit.agent.values import RACKS, group, member, partition, view_of

PARTITIONS = [("t", number) for number in range(4)]
RECORDS = dict(zip(PARTITIONS, (900.0, 900.0, 100.0, 100.0), strict=True))


def _observe(records: Mapping[Partition, float], settings: Settings, *, seconds: float) -> TrafficSnapshot:
    """What is measured: equal bytes; and records, if the group is balanced by them."""
    assert seconds == 30
    measured = [
        PartitionTraffic(
            partition=one,
            member=None,
            serving_rack=None,
            bytes_per_second=1000.0,
            lag_records=None,
        )
        for one in PARTITIONS
    ]
    records = records if settings.leading.of("orders").balance == "records" else {}
    seen = GroupTraffic(group="orders", kind="classic", state="Stable", partitions=measured, record_rates=records)
    return TrafficSnapshot(groups=(seen,))


def _plan(
    monkeypatch: pytest.MonkeyPatch, *options: str, records: Mapping[Partition, float] = RECORDS, role: str = ""
) -> dict[str, Any]:
    """The plan of a group of two members, of which one has the partitions with many records."""
    view = group(
        member("m-a", "t", rack="a", assigned=from_pairs(PARTITIONS[:2])),
        member("m-b", "t", rack="a", assigned=from_pairs(PARTITIONS[2:])),
    )
    known = {
        "hosts_known": (NO_HOSTS, ""),
        "subject_of": Subject(protocol="range", members=members_of_view(view, RackSettings()), view=view),
        "read_metadata": view_of(RACKS, (), t=[partition(1)] * 4),
        "asked_configs": (True, None, []),
        "agent_says": {"role": role},
    }
    for name, answer in known.items():
        monkeypatch.setattr(live_plan, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(live_group, "observe", partial(_observe, records))
    done = CliRunner().invoke(app, ["plan", "orders", "-b", "h:1", "--json", *options])
    assert done.exit_code == 0, done.output
    shown: dict[str, Any] = json.loads(done.stdout)
    return shown


@pytest.mark.parametrize(
    ("balance", "above", "moved"),
    [("records", (0.8, 0.1), 1), ("bytes", (0.0, 0.0), 0), ("partitions", (None, None), 0)],
)
def test_a_plan_is_by_what_it_is_to_be_balanced_by(
    monkeypatch: pytest.MonkeyPatch, balance: str, above: tuple[float | None, float | None], moved: int
) -> None:
    """By bytes and by counts the group is even; by records one member has nine tenths."""
    shown = _plan(monkeypatch, "--balance", balance, "--seconds", "30")
    assert (shown["present"]["load_above_least"], shown["proposed"]["load_above_least"]) == pytest.approx(above)
    assert (shown["proposed"]["moved"], shown["warnings"]) == (moved, [])


def test_a_plan_without_the_agents_file_is_not_the_agents(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its figures differ from those of an agent with other settings, which leads the group."""
    for name in [one for one in os.environ if one.startswith("SAMERACK_")]:
        monkeypatch.delenv(name)
    (warning,) = _plan(monkeypatch, role="leading")["warnings"]
    assert warning.startswith("planned by this command's settings, which may not be those of the running agent")
    assert _plan(monkeypatch, role="following")["warnings"] == []
    file = tmp_path / "samerack.yaml"
    file.write_text("leading: {balance: partitions}\n")
    assert _plan(monkeypatch, "--config", str(file), role="leading")["warnings"] == []
    monkeypatch.setenv("SAMERACK_LEADING__BALANCE", "partitions")
    assert _plan(monkeypatch, role="leading")["warnings"] == [], "as in the agent's container, which has no file"


def test_a_group_that_cannot_be_planned_is_refused_before_the_time_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt group was refused after --seconds."""
    observe = Mock()
    monkeypatch.setattr(live_group, "observe", observe)
    monkeypatch.setattr(live_plan, "hosts_known", lambda *_: (NO_HOSTS, ""))
    monkeypatch.setattr(live_plan, "subject_of", Mock(side_effect=AgentError("group order: does not exist")))
    done = CliRunner().invoke(app, ["plan", "order", "-b", "h:1", "--seconds", "30"])
    assert (done.exit_code, done.stderr) == (1, "samerack: group order: does not exist\n")
    observe.assert_not_called()


def test_records_that_were_not_measured_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan is by counts, and says why."""
    for options in ([], ["--seconds", "30"]):
        (warning,) = _plan(monkeypatch, "--balance", "records", *options, records={})["warnings"]
        assert warning.startswith("leading.balance is records, and records are not measured: give --seconds")
