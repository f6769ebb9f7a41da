"""Every example of the documents on consumer assignors, under the assignors' own names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.consumer.registry import ASSIGNORS, DEFAULTS
from samerack.assignors.evaluate import evaluate
from samerack.assignors.problem import Int32Array, Problem
from tests.unit.assignors import groups
from tests.unit.assignors.groups import RackConfig

STICKY = ("sticky", "cooperative-sticky", "optimal")
FOUR_TOPICS = {f"t{number}": 2 for number in range(4)}
LADDER = {"t0": 1, "t1": 2, "t2": 3}
RUNGS = {"C0": ["t0"], "C1": ["t0", "t1"], "C2": ["t0", "t1", "t2"]}
TWO_TOPICS = {"t0": 2, "t1": 2}


def plan(name: str, problem: Problem) -> Int32Array:
    """The plan of the assignor with this name."""
    return ASSIGNORS[name].assign(problem, DEFAULTS)


def loads(problem: Problem, owner: Int32Array) -> list[int]:
    """The number of partitions of each member."""
    counts: list[int] = np.bincount(owner, minlength=len(problem.members)).tolist()
    return counts


def table(problem: Problem, owner: Int32Array) -> dict[str, set[str]]:
    """A plan as the documents print it: partitions such as `t0p1` of each member."""
    names = [
        f"{problem.topics[topic]}p{number}" for topic, number in zip(problem.topic_of, problem.number_of, strict=True)
    ]
    return {
        member: {name for name, at in zip(names, owner.tolist(), strict=True) if at == index}
        for index, member in enumerate(problem.members)
    }


def preserved(problem: Problem, owner: Int32Array) -> int:
    """The number of partitions that stay with their owner."""
    return int((owner == problem.owner).sum())


def everybody(topics: dict[str, int], *names: str) -> dict[str, list[str]]:
    """Members that subscribe to all topics."""
    return {name: list(topics) for name in names}


@pytest.mark.parametrize("name", STICKY)
@pytest.mark.parametrize("racks", RackConfig)
def test_kip_54_example_1(racks: RackConfig, name: str) -> None:
    """KIP-54, example 1: the document's first table; after C1 leaves, its last one: the others keep all 5."""
    before = groups.plain(FOUR_TOPICS, everybody(FOUR_TOPICS, "C0", "C1", "C2"), {})
    first = groups.with_racks(racks, before)
    assert table(first, plan(name, first)) == {
        "C0": {"t0p0", "t1p1", "t3p0"},
        "C1": {"t0p1", "t2p0", "t3p1"},
        "C2": {"t1p0", "t2p1"},
    }
    owned = {"C0": {"t0": [0], "t1": [1], "t3": [0]}, "C2": {"t1": [0], "t2": [1]}}
    after = groups.with_racks(racks, groups.plain(FOUR_TOPICS, everybody(FOUR_TOPICS, "C0", "C2"), owned))
    owner = plan(name, after)
    assert table(after, owner) == {"C0": {"t0p0", "t1p1", "t3p0", "t2p0"}, "C2": {"t1p0", "t2p1", "t0p1", "t3p1"}}
    assert preserved(after, owner) == 5


@pytest.mark.parametrize("racks", RackConfig)
def test_kip_54_example_1_round_robin(racks: RackConfig) -> None:
    """KIP-54, example 1: round robin gives the document's table, and after C1 leaves keeps only 3 of 5."""
    before = groups.with_racks(racks, groups.plain(FOUR_TOPICS, everybody(FOUR_TOPICS, "C0", "C1", "C2"), {}))
    assert plan("roundrobin", before).tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    owned = {"C0": {"t0": [0], "t1": [1], "t3": [0]}, "C2": {"t1": [0], "t2": [1]}}
    after = groups.with_racks(racks, groups.plain(FOUR_TOPICS, everybody(FOUR_TOPICS, "C0", "C2"), owned))
    owner = plan("roundrobin", after)
    assert owner.tolist() == [0, 1] * 4
    assert preserved(after, owner) == 3


@pytest.mark.parametrize("name", STICKY)
@pytest.mark.parametrize("racks", RackConfig)
def test_kip_54_example_2(racks: RackConfig, name: str) -> None:
    """KIP-54, example 2: 1, 2 and 3 as far as subscriptions allow; after C0 leaves, all 5 partitions stay."""
    before = groups.with_racks(racks, groups.plain(LADDER, RUNGS, {}))
    assert plan(name, before).tolist() == [0, 1, 1, 2, 2, 2]
    owned = {"C1": {"t1": [0, 1]}, "C2": {"t2": [0, 1, 2]}}
    left = {name: RUNGS[name] for name in ("C1", "C2")}
    after = groups.with_racks(racks, groups.plain(LADDER, left, owned))
    owner = plan(name, after)
    assert owner.tolist() == [0, 0, 0, 1, 1, 1]
    assert preserved(after, owner) == 5


@pytest.mark.parametrize("racks", RackConfig)
def test_kip_54_example_2_round_robin(racks: RackConfig) -> None:
    """KIP-54, example 2: round robin gives 1, 1 and 4, and without C0 2 and 4, where 3 partitions stay."""
    before = groups.with_racks(racks, groups.plain(LADDER, RUNGS, {}))
    owner = plan("roundrobin", before)
    assert owner.tolist() == [0, 1, 2, 2, 2, 2]
    owned = {"C1": {"t1": [0]}, "C2": {"t1": [1], "t2": [0, 1, 2]}}
    left = {name: RUNGS[name] for name in ("C1", "C2")}
    after = groups.with_racks(racks, groups.plain(LADDER, left, owned))
    assert plan("roundrobin", after).tolist() == [0, 1, 0, 1, 1, 1]
    assert preserved(after, plan("roundrobin", after)) == 3


@pytest.mark.parametrize("name", STICKY)
@pytest.mark.parametrize("racks", RackConfig)
def test_kip_54_example_3(racks: RackConfig, name: str) -> None:
    """KIP-54, example 3: the document's tables; a third consumer gets one partition, the other 3 stay."""
    two = groups.with_racks(racks, groups.plain(TWO_TOPICS, everybody(TWO_TOPICS, "C0", "C1"), {}))
    assert table(two, plan(name, two)) == {"C0": {"t0p0", "t1p0"}, "C1": {"t0p1", "t1p1"}}
    owned = {"C0": {"t0": [0], "t1": [0]}, "C1": {"t0": [1], "t1": [1]}}
    after = groups.with_racks(racks, groups.plain(TWO_TOPICS, everybody(TWO_TOPICS, "C0", "C1", "C2"), owned))
    owner = plan(name, after)
    assert table(after, owner) in (
        {"C0": {"t0p0", "t1p0"}, "C1": {"t0p1"}, "C2": {"t1p1"}},
        {"C0": {"t0p0"}, "C1": {"t0p1", "t1p1"}, "C2": {"t1p0"}},
    )  # "something like this", says the document
    assert preserved(after, owner) == 3


@pytest.mark.parametrize("racks", RackConfig)
def test_kip_54_example_3_range_and_round_robin(racks: RackConfig) -> None:
    """KIP-54, example 3: for two consumers both are equal; for three range leaves C2 idle, round robin moves 2."""
    two = groups.with_racks(racks, groups.plain(TWO_TOPICS, everybody(TWO_TOPICS, "C0", "C1"), {}))
    owned = {"C0": {"t0": [0], "t1": [0]}, "C1": {"t0": [1], "t1": [1]}}
    three = groups.with_racks(racks, groups.plain(TWO_TOPICS, everybody(TWO_TOPICS, "C0", "C1", "C2"), owned))
    assert plan("range", two).tolist() == plan("roundrobin", two).tolist() == [0, 1, 0, 1]
    assert plan("range", three).tolist() == [0, 1, 0, 1]
    assert plan("roundrobin", three).tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize("name", STICKY)
def test_kip_54_balanced_means_nothing_can_be_handed_on(name: str) -> None:
    """KIP-54, "Proposed Changes": a member with 2 fewer than another cannot take any of the other's partitions."""
    topics = {"t0": 1, "t1": 6}
    problem = groups.plain(topics, {"A": ["t0"], "B": ["t1"], "C": ["t0", "t1"]}, {})
    assert loads(problem, plan(name, problem)) == [1, 3, 3]


RACKS = ("a", "b", "c")


@pytest.mark.parametrize("name", [*STICKY, "range", "range-optimal"])
def test_kip_881_one_consumer_without_a_local_replica(name: str) -> None:
    """KIP-881, "Proposed Changes": a single partition without a replica in the only consumer's rack is assigned."""
    problem = build_problem(topics={"t": [["b"]]}, members=[MemberInput(id="C0", topics=("t",), rack="a")])
    owner = plan(name, problem)
    assert owner.tolist() == [0]
    assert evaluate(problem, owner).cross_rack == 1


@pytest.mark.parametrize("name", [*STICKY, "range", "range-optimal"])
def test_kip_881_replicas_in_every_zone(name: str) -> None:
    """KIP-881, "Motivation": with three replicas on three zones every consumer reads in its own zone, as before."""
    problem = build_problem(
        topics={"t": [list(RACKS)] * 6},
        members=[MemberInput(id=f"C{rack}", topics=("t",), rack=rack) for rack in RACKS],
    )
    owner = plan(name, problem)
    # one topic: dealing in turns spreads it as well as dealing in runs, as `range` does
    assert owner.tolist() == ([0, 1, 2] * 2 if name in STICKY else [0, 0, 1, 1, 2, 2])
    assert evaluate(problem, owner).cross_rack == 0
    without = replace(problem, member_rack=np.full(3, -1, np.int32))
    assert plan(name, without).tolist() == owner.tolist()


@pytest.mark.parametrize("name", [*STICKY, "range", "range-optimal"])
def test_kip_881_fewer_replicas_than_zones(name: str) -> None:
    """KIP-881, "Motivation": if some zones have no replica, consumers get the partitions of their own zone."""
    problem = build_problem(
        topics={"t": [[RACKS[number % 3]] for number in range(6)]},
        members=[MemberInput(id=f"C{rack}", topics=("t",), rack=rack) for rack in RACKS],
    )
    owner = plan(name, problem)
    assert owner.tolist() == [0, 1, 2, 0, 1, 2]
    assert evaluate(problem, owner).cross_rack == 0


@pytest.mark.parametrize("name", [*STICKY, "range", "range-optimal"])
def test_kip_881_balance_comes_before_locality(name: str) -> None:
    """KIP-881, "Proposed Changes": with too few partitions in its rack a consumer also gets some of another rack."""
    problem = build_problem(
        topics={"t": [["a"]] * 5 + [["b"]]},
        members=[MemberInput(id=f"C{rack}", topics=("t",), rack=rack) for rack in "ab"],
    )
    owner = plan(name, problem)
    assert loads(problem, owner) == [3, 3]
    assert evaluate(problem, owner).cross_rack == 2


@pytest.mark.parametrize("name", [*STICKY, "range-optimal"])
def test_kip_881_racks_come_before_stickiness(name: str) -> None:
    """KIP-881, "Rebalance to Improve Locality After Reassignments": the next plan follows replicas that moved."""
    members = [
        MemberInput(id=f"C{rack}", topics=("t",), rack=rack, owned={"t": owned}, generation=1)
        for rack, owned in (("a", [0, 1]), ("b", [2, 3]))
    ]
    problem = build_problem(topics={"t": [["b"], ["a"], ["b"], ["a"]]}, members=members)
    owner = plan(name, problem)
    assert evaluate(problem, owner).cross_rack == 0
    assert evaluate(problem, owner).moved == 2
