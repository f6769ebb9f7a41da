"""`samerack plan` names and prices what it costs that co-partitioned topics of a `range` group stay together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from unittest.mock import Mock

import pytest

from samerack.assignors.build import MemberInput, build_problem
from samerack.cli import live_plan
from samerack.cli.live_group import Subject
from samerack.cli.live_plan import Copartitioning, copartitioning, examine, to_json
from samerack.cli.plan import show, show_copartitioning
from samerack.cluster.broker_configs import ServerAssignors
from samerack.cluster.racks import NO_HOSTS
from samerack.common.console import Console
from samerack.planning.deadline import LateError
from samerack.planning.members import members_of_view
from samerack.planning.planner import make_plan
from samerack.planning.problem import mode_of
from samerack.settings.all_settings import Settings
from tests.unit.agent.values import RACKS, group, member, partition, view_of

RATES = {(f"t{at}", 0): 1e6 for at in range(30)}
SECONDS_PER_MONTH = 730 * 3600


def _answer(
    protocol: str, rates: Mapping[tuple[str, int], float] | None, min_saving: float = 0.05
) -> Copartitioning | None:
    """What the plan says of thirty topics of one partition each, a third of them in each member's rack."""
    topics = {f"t{at}": [["abc"[at % 3]]] for at in range(30)}
    problem = build_problem(
        topics=topics,
        members=[
            MemberInput(id=f"m-{rack}", topics=tuple(topics), rack=rack, reads_any_replica=True) for rack in "abc"
        ],
        weights=None if rates is None else {topic: [1] for topic in topics},
    )
    settings = Settings.model_validate({"kafka": {"bootstrap.servers": "h:1"}, "policy": {"min_saving": min_saving}})
    mode = mode_of(protocol, settings.leading, rack_aware_fetch=True)
    return copartitioning(make_plan(problem, mode), mode, settings, "orders", rates)


def test_what_is_saved_is_a_share_bytes_and_dollars(capsys: pytest.CaptureFixture[str]) -> None:
    """All thirty partitions go to one member, so that two thirds cross racks; none would if they need not."""
    apart = _answer("range", RATES)
    assert apart is not None
    assert apart.cross_rack_share == 0
    assert apart.saved_bytes_per_second == pytest.approx(20e6)
    assert apart.saved_dollars_per_month == pytest.approx(20e6 * SECONDS_PER_MONTH * 0.02 / 2**30)
    show_copartitioning(Console(width=400), apart)
    shown = capsys.readouterr().out
    assert "0 % would cross racks if they need not, 20 MB/s less, $" in shown
    assert "leading.keep_copartitioned=never" in shown


def test_without_measured_bytes_it_is_a_share_alone() -> None:
    """What was not measured is not known, not 0."""
    apart = _answer("range", None)
    assert apart is not None
    assert (apart.saved_bytes_per_second, apart.saved_dollars_per_month) == (None, None)


@pytest.mark.parametrize(("protocol", "min_saving"), [("roundrobin", 0.05), ("range", 0.9)])
def test_nothing_is_shown_where_little_is_saved(protocol: str, min_saving: float) -> None:
    """Other protocols keep nothing together, and a saving below the policy's minimum would move nothing."""
    assert _answer(protocol, RATES, min_saving) is None


def _live(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, *, count: int = 30, offered: ServerAssignors | None = None
) -> None:
    """A live `range` group of so many topics of one partition, a third of them in each member's rack."""
    topics = {f"t{at}": [partition(at % 3 + 1)] for at in range(count)}
    view = group(*(member(f"m-{rack}", *topics, rack=rack, client_id=f"app-{rack}") for rack in "abc"))
    members = members_of_view(view, settings.racks)
    subject = Subject(protocol="range", members=members, view=None if offered else view, offered=offered)
    known = {
        "hosts_known": (NO_HOSTS, ""),
        "subject_of": subject,
        "read_metadata": view_of(RACKS, (), **topics),
        "asked_configs": (True, None, []),
        "agent_says": {},
    }
    for name, answer in known.items():
        monkeypatch.setattr(live_plan, name, lambda *_, answer=answer: answer)


def test_brokers_plan_without_the_settings_of_a_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found: the plan of a KIP-848 group named the cost and the cure of what only a leader does."""
    leading = {"balance": "bytes", "members": [{"match": "app-a", "capacity": 2}], "keep_copartitioned": "always"}
    settings = Settings.model_validate({"kafka": {"bootstrap.servers": "h:1"}, "leading": leading})
    _live(monkeypatch, settings, offered=ServerAssignors(unknown="not allowed"))
    made = examine("orders", settings, "optimal", with_curve=True)
    assert (made.copartitioning, made.proposed.load_above_least) == (None, None), "counts decide"
    assert not [one for one in made.warnings if "leading." in one]


def test_the_plan_of_a_range_group_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is in what is examined, and shown after the members; a curve that is late leaves the rest as it is."""
    settings = Settings.model_validate({"kafka": {"bootstrap.servers": "h:1"}})
    _live(monkeypatch, settings)
    made = examine("orders", settings, "optimal")
    show(made)
    assert "0 % would cross racks if they need not" in " ".join(capsys.readouterr().out.split())
    answer = to_json(made)
    assert set(answer) == _KEYS
    assert set(answer["present"]) == set(answer["proposed"]) == _FIGURES
    assert (answer["present"]["cross_rack"], answer["present"]["cross_rack_share"]) == (None, None)
    assert (answer["proposed"]["cross_rack"], answer["proposed"]["known"]) == (20, 30)
    assert set(answer["over_racks"]) == _OVER_RACKS
    assert set(answer["members"][0]["proposed"]) == {"partitions", "cross_rack", "gained"}
    assert to_json(examine("orders", settings, "optimal", with_curve=True))["curve"][0]["max_skew"] == 0
    monkeypatch.setattr(live_plan, "points_of", Mock(side_effect=LateError("no plan within 4 s")))
    late = examine("orders", settings, "optimal", with_curve=True)
    assert replace(late, warnings=()) == replace(made, warnings=()), "the plan is the same"
    assert [one for one in late.warnings if "curve" in one] == [
        "there is no curve, whose plans have leading.deadline_seconds each: no plan within 4 s"
    ]


_KEYS = {
    *("group", "protocol", "assigned_by", "server", "assignor", "weighed_by", "agent_leads", "agent_only_observes"),
    *("agent_is_paused", "replicas_that_serve", "over_racks", "present", "proposed", "copartitioning", "warnings"),
    *("members", "members_wanted"),
}
_FIGURES = {
    *("imbalance", "sum_of_squares", "cross_rack", "cross_rack_weight", "moved", "unassigned", "assigned_weight"),
    *("known", "known_cross_rack", "known_weight", "known_cross_rack_weight", "cross_rack_share", "load_above_least"),
}
_OVER_RACKS = {
    *("racks", "partitions", "across", "share", "across_if_even", "share_if_even", "cause", "cure"),
}
"""The fields of `samerack plan --json`."""
