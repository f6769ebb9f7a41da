"""`samerack move`: exit codes, the page, JSON, and the roll as it is followed; brokers are not asked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Self

import pytest
from typer.testing import CliRunner

from samerack.cli import move
from samerack.cli.main import app
from samerack.cluster.errors import CoordinatorMovesError
from samerack.cluster.group_protocols import GroupProtocols
from samerack.common.errors import AgentError
from samerack.traffic.snapshot import GroupTraffic
from tests.unit.agent.test_moving import FAR, MOVED, broker, protocols

ABSENT = GroupProtocols(kind="", state="Dead")


class _Measuring:
    """A measurement that always shows the same group."""

    def __init__(self, group: GroupTraffic | None) -> None:
        self.snapshot = SimpleNamespace(groups=() if group is None else (group,))

    def measure(self) -> None:
        """Take no time."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the command on a group that has these members' protocols, one after another; the last ones stay."""

    def runs(
        *options: str,
        group: GroupTraffic | None = FAR,
        members: Sequence[GroupProtocols | BaseException] = (protocols(),),
        policy: str = "bidirectional",
    ) -> Any:
        left = list(members)

        def ask_members(*_: object) -> GroupProtocols:
            found = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(found, BaseException):
                raise found
            return found

        def unknown_group(name: str, _: object) -> AgentError:
            return AgentError(f"group {name}: does not exist")

        known: dict[str, object] = {
            "measuring_group": lambda *_: _Measuring(group),
            "ask_members": ask_members,
            "ask_brokers": lambda *_: ({1: broker(policy=policy)}, ()),
            "ask_group_configs": lambda *_: ({}, ()),
            "agent_says": lambda *_: {},
            "unknown_group": unknown_group,
        }
        for name, answer in known.items():
            monkeypatch.setattr(move, name, answer)
        return CliRunner().invoke(app, ["move", "orders", "-b", "h:1", *options], env={"COLUMNS": "100"})

    return runs


def test_nothing_in_the_way_is_exit_code_0(run: Any) -> None:
    """The page has shares, settings, steps with exact lines that can be copied, signs to stop at, and the way back."""
    done = run()
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("group orders to the new protocol: nothing in the way; 3 members on the classic")
    for part in ("67 %", "heartbeat.interval.ms", "1. samerack's jar", "(done)", "stop if:", "the way back:"):
        assert part in done.stdout
    assert "       samerack move orders --watch -b h:1\n" in done.stdout


def test_an_obstacle_is_exit_code_1(run: Any) -> None:
    """It comes first, with its cure; JSON has the same."""
    done = run(policy="disabled")
    assert done.exit_code == 1
    assert "1 obstacle in the way" in done.stdout
    assert done.stdout.index("cure: set group.consumer.migration.policy=bidirectional") < done.stdout.index("plan ")
    done = run("--json", policy="disabled")
    assert done.exit_code == 1
    assert len(json.loads(done.stdout)["obstacles"]) == 1


def test_a_group_that_has_moved_needs_nothing(run: Any) -> None:
    """Exit code 0, no steps; the way back is there."""
    done = run(group=MOVED, members=[protocols("nn")])
    assert done.exit_code == 0
    assert "it has moved" in done.stdout
    assert "1. " not in done.stdout
    assert "the way back:" in done.stdout


@pytest.mark.parametrize(
    ("group", "members", "why"),
    [
        (None, ABSENT, "does not exist"),
        (replace(FAR, kind="streams"), ABSENT, "is of kind streams; only groups of consumers move"),
        (FAR, GroupProtocols(kind="classic", state="Empty"), "has no members"),
        (FAR, GroupProtocols(kind="classic", state="PreparingRebalance", members=protocols().members), "try again"),
    ],
)
def test_a_group_of_which_nothing_can_be_shown_is_an_error(
    run: Any, group: GroupTraffic | None, members: GroupProtocols, why: str
) -> None:
    """Classic members show what they have only between rebalances."""
    done = run(group=group, members=[members])
    assert done.exit_code == 1
    assert why in done.stderr


ROLL = (
    protocols("cc"),
    CoordinatorMovesError("moves"),
    protocols("cn"),
    protocols("nn"),
)


def test_the_roll_is_followed_until_it_is_done(run: Any) -> None:
    """A line for each change; a coordinator that moves is waited for."""
    done = run("--watch", members=ROLL)
    assert done.exit_code == 0, done.output
    lines = done.stdout
    assert "2 members on the classic protocol, 0 on the new one; across racks 67 %, before 67 %; lag 120" in lines
    assert "goes on: 1 of 2 members are left" in lines
    assert "done: all 2 members have moved" in lines
    done = run("--watch", "--json", members=ROLL)
    assert [json.loads(line)["outcome"] for line in done.stdout.splitlines()] == ["goes on", "goes on", "done"]


def test_a_roll_that_went_wrong_is_exit_code_1(run: Any) -> None:
    """The last line says what, and the way back follows."""
    done = run("--watch", members=[*ROLL[:3], protocols("cc")])
    assert done.exit_code == 1
    assert "went wrong: the group is classic again" in done.stdout
    assert "samerack move orders --back -b h:1" in done.stdout
    assert run("--watch", group=None, members=[ABSENT]).exit_code == 1


def test_the_roll_back_has_its_own_end(run: Any) -> None:
    """All members are classic again, and the group too."""
    done = run("--back", "--watch", members=[*reversed(ROLL[2:]), protocols("cc")])
    assert done.exit_code == 0, done.output


def test_ctrl_c_ends_the_watch(run: Any) -> None:
    """With the exit code of a shell."""
    assert run("--watch", members=[KeyboardInterrupt()]).exit_code == 130
