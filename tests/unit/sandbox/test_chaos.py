"""The schedule of a chaos run, and the verdict on two runs."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sandbox.chaos import guests
from sandbox.chaos.fault import Drawn
from sandbox.chaos.judging import as_json, judge
from sandbox.chaos.means import Means
from sandbox.chaos.run import Outcome, Run, longest, own_waits
from sandbox.chaos.schedule import KINDS, draw, possible
from sandbox.errors import SandboxError
from sandbox.history.harm import Harm, harm
from sandbox.history.model import Finding, Kind
from sandbox.members.process import Event
from tests.unit.sandbox.histories import T0, history, ran, wrote

_ALL = Means(network=True, clock=True, disk=True)
_NONE = Means(network=False, clock=False, disk=False)


def _outcome(
    number: int, kind: str, stop: float, *, unexplained: Mapping[str, tuple[int, ...]] | None = None
) -> Outcome:
    return Outcome(
        drawn=Drawn(number=number, kind=kind, group="eager", pick=0),
        target="agent one",
        seconds=5.0,
        stops={"eager": stop, "cooperative": 0.1},
        rebalances={"eager": 1},
        unexplained=unexplained or {},
        led=3,
        since_ns=number * 10_000_000_000,
        until_ns=number * 10_000_000_000 + 5_000_000_000,
    )


def _run(*outcomes: Outcome) -> Run:
    return Run(outcomes=outcomes, findings={"eager": ()}, records=1000, rebalances=len(outcomes), told=0, seconds=60.0)


def test_a_group_that_no_agent_was_in_is_held_against_none() -> None:
    """A kafkajs group that leads itself and is only observed by the agent does not count, however long it stops."""
    own = replace(_outcome(1, "broker-killed", 30.0), beside=frozenset({"eager"}))
    assert own.stop == 0.1
    assert judge(_run(own), _run(_outcome(1, "broker-killed", 1.0))).complaints == ()


def test_a_seed_draws_the_same_faults_again() -> None:
    """Another seed draws other faults; all faults are numbered."""
    drawn = draw(1, faults=70, kinds=list(KINDS), groups=["a", "b"])
    assert drawn == draw(1, faults=70, kinds=list(KINDS), groups=["a", "b"])
    assert drawn != draw(2, faults=70, kinds=list(KINDS), groups=["a", "b"])
    assert [one.number for one in drawn] == list(range(1, 71))


def test_no_kind_is_left_out_for_long() -> None:
    """Every round of a schedule contains each kind once."""
    kinds = list(KINDS)
    drawn = draw(7, faults=2 * len(kinds), kinds=kinds, groups=["a"])
    for begin in (0, len(kinds)):
        assert {one.kind for one in drawn[begin : begin + len(kinds)]} == set(kinds)


def test_an_unknown_kind_is_refused() -> None:
    """The error lists the known kinds."""
    with pytest.raises(SandboxError, match="no such kind of fault: earthquake; there are worker-killed"):
        draw(1, faults=1, kinds=["earthquake"], groups=["a"])


def test_what_a_machine_cannot_do_is_left_out_and_said() -> None:
    """Without root and a compiler, faults of network, clock and disk are left out; all others are possible."""
    assert possible(_ALL) == list(KINDS)
    assert _ALL.missing() == []
    left = set(KINDS) - set(possible(_NONE))
    assert {kind.partition("-")[0] for kind in left} == {"network", "joined", "clock", "disk"}
    assert len(_NONE.missing()) == 3


def test_two_seconds_more_than_without_an_agent_are_too_long() -> None:
    """A run is compared with the longest stop of the run without an agent, and each kind with the same kind there."""
    without = _run(_outcome(1, "worker-killed", 1.0), _outcome(2, "member-killed", 6.0))
    fine = judge(_run(_outcome(1, "worker-killed", 2.9), _outcome(2, "member-killed", 7.9)), without)
    assert (fine.complaints, [row.too_long for row in fine.rows]) == ((), [False, False])
    row = next(row for row in fine.rows if row.kind == "worker-killed")
    assert (row.faults, row.with_agents, row.without) == (1, 2.9, 1.0)
    worse = judge(_run(_outcome(1, "worker-killed", 3.1), _outcome(2, "member-killed", 6.0)), without)
    assert (worse.complaints, {row.kind for row in worse.rows if row.too_long}) == ((), {"worker-killed"})
    slow = judge(_run(_outcome(1, "worker-killed", 8.1), _outcome(2, "member-killed", 6.0)), without)
    (complaint,) = slow.complaints
    assert complaint == ("fault 1 (worker killed; eager, agent one): stopped 8.10 s, no fault without an agent 6.00 s")


def test_a_rebalance_that_nobody_explains_is_wrong() -> None:
    """The complaint names the generations."""
    run = _run(_outcome(3, "broker-killed", 0.1, unexplained={"cooperative": (7, 8)}))
    (complaint,) = judge(run, None).complaints
    assert "nothing explains why cooperative went to generation 7, 8" in complaint


def test_a_member_that_ends_by_itself_is_wrong_unless_its_client_is_known_for_it() -> None:
    """Agents must not end applications; kafka-python ends by itself if a broker stops that it asks for metadata."""
    own = "kafka-python-4-rack-a ended by itself: kafka.errors.KafkaConnectionError: 111 ECONNREFUSED"
    other = "kafka-python-4-rack-a ended by itself: IllegalStateError: no topic"
    outcomes = [
        replace(_outcome(1, "coordinator-killed", 0.1), crashes=(own,)),
        replace(_outcome(2, "coordinator-killed", 0.1), crashes=(other,)),
        replace(_outcome(3, "worker-killed", 0.1), crashes=(own,)),
    ]
    complaints = judge(_run(*outcomes), _run()).complaints
    assert [complaint.endswith(crash) for complaint, crash in zip(complaints, (other, own), strict=True)] == [
        True,
        True,
    ]
    assert as_json(judge(_run(*outcomes), None), seed=1)["with_agents"]["faults"][0]["crashes"] == [own]


def test_a_group_without_consumers_that_is_not_as_without_agents_is_wrong() -> None:
    """Each violation is a complaint, of the fault or of the end of the run, and violations are counted."""
    emptied = replace(_outcome(4, "group-emptied", 0.1), violations=("idle cannot be deleted",))
    verdict = judge(replace(_run(emptied), violations=("eager is not empty",)), _run(_outcome(4, "group-emptied", 0.1)))
    assert verdict.complaints == (
        "fault 4 (all members end in good order, and come back; eager, agent one): idle cannot be deleted",
        "at the end: eager is not empty",
    )
    assert as_json(verdict, seed=1)["with_agents"]["violations"] == 2


def test_what_the_histories_hold_is_counted_and_told_with_its_fault() -> None:
    """Lost records are counted one by one, each finding names the fault before it; one run alone is judged too."""
    skipped = Finding(
        kind=Kind.SKIPPED, partition=("eager", 0), since_ns=21_000_000_000, until_ns=21_000_000_000, offsets=(5, 9)
    )
    twice = Finding(kind=Kind.OWNED_TWICE, partition=("eager", 0), since_ns=1, until_ns=2, members=("a", "b"))
    run = replace(
        _run(_outcome(1, "worker-killed", 0.1), _outcome(2, "broker-killed", 0.1)), findings={"eager": (twice, skipped)}
    )
    assert harm(run.findings) == Harm(lost=5, owned_twice=1, read_again=0, forgotten=0)
    verdict = judge(run, None)
    assert [complaint.startswith("eager: ") for complaint in verdict.complaints] == [True, True]
    assert verdict.complaints[1].endswith("after fault 2 (broker killed and started; eager, agent one)")
    told = json.loads(json.dumps(as_json(verdict, seed=4)))
    assert (told["seed"], told["with_agents"]["lost"], told["without"]) == (4, 5, None)
    assert [fault["kind"] for fault in told["with_agents"]["faults"]] == ["worker-killed", "broker-killed"]


@pytest.mark.parametrize(
    ("kind", "member", "complaints"),
    [
        ("coordinator-moved", "kafkajs-2-rack-b-2", 0),
        ("broker-killed", "kafkajs-2-rack-b-2", 0),
        ("worker-killed", "kafkajs-2-rack-b-2", 1),
        ("coordinator-moved", "java-1-rack-a-1", 1),
    ],
)
def test_kafkajs_reads_again_where_a_coordinator_moves(kind: str, member: str, complaints: int) -> None:
    """Its coordinator moved, generation 1 continued, and both members began below their commits: no complaint."""
    again = Finding(
        kind=Kind.READ_AGAIN,
        partition=("kafkajs", 5),
        since_ns=13_000_000_000,
        until_ns=13_000_000_000,
        members=(member,),
        offsets=(98, 98),
    )
    run = replace(_run(_outcome(1, kind, 0.1)), findings={"kafkajs": (again,)})
    assert len(judge(run, None).complaints) == complaints


def test_a_kept_run_says_all_that_it_said(tmp_path: Path) -> None:
    """A saved run is loaded unchanged; a comparison once lost one half when the other broke after an hour."""
    again = Finding(kind=Kind.READ_AGAIN, partition=("t", 0), since_ns=1, until_ns=2, members=("a",), offsets=(7, 7))
    led = replace(_run(_outcome(1, "broker-killed", 0.1, unexplained={"eager": (4, 5)})), findings={"eager": (again,)})
    alone = replace(led, outcomes=tuple(replace(outcome, led=None) for outcome in led.outcomes))
    for run in (led, alone):
        run.save(tmp_path / "run.json")
        assert Run.load(tmp_path / "run.json") == run
    assert (led.with_agents, alone.with_agents) == (True, False)


def test_what_kafkajs_waits_by_its_own_choice_is_no_stop() -> None:
    """The client restarts its consumer after a random time, which is subtracted; the rest of the stop counts."""
    second = 1_000_000_000
    said = Event(kind="error", ms=0, ns=2 * second, message="Restarting the consumer in 12390ms")
    read = history([wrote(1.0, T0, 0, 0), wrote(1.5, T0, 1, 1)], one=[ran(1.1, T0, 0, 0), said, ran(20.0, T0, 1, 1)])
    assert own_waits(read) == [(2 * second, 14_390_000_000)]
    assert longest(read, 0, 0, 30 * second) == pytest.approx(18.5 - 12.39)


@pytest.mark.parametrize(("client", "violations"), [("kafka-go-2-rack-b", 0), ("java-1-rack-a", 1)])
def test_a_member_of_kafka_go_that_stays_is_waited_for(client: str, violations: int) -> None:
    """It leaves when its session has ended, with agents and without; any other member that stays is a violation."""
    state = iter([("STABLE", [client])] * (1_000 if violations else 4))

    class Leaving:
        name = "go"

        def describe(self) -> SimpleNamespace:
            name, members = next(state, ("EMPTY", []))
            found = [SimpleNamespace(client_id=one) for one in members]
            return SimpleNamespace(state=SimpleNamespace(name=name), members=found)

    group: Any = Leaving()
    assert len(guests.wait_empty(group, time.monotonic() - 10, seconds=2.0)) == violations
