"""Worlds of a group against all possibilities and plain rules: leaders that are spread evenly, and one more rack."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given

from samerack.common.records import LEADING, UNKNOWN, GroupState, TopicState
from samerack.pipeline.problem import GroupProblem, group_of
from samerack.pipeline.whatif_group import ELECT, LEAD, MOVE, RACK, Questions, outcomes
from samerack.pipeline.whatif_worlds import placements, with_even_leaders, with_rack
from tests.unit.pipeline.fleets import RACKS, states
from tests.unit.pipeline.test_whatif_changes import found, group

NEW = "rack-new"


def uneven(leaders: list[int], racks: int) -> int:
    """Leaders of one topic beyond an even share, those beyond it rounded up twice."""
    share = len(leaders) // racks
    return sum(max(count - share, 0) + max(count - share - 1, 0) for count in Counter(leaders).values())


@given(states())
def test_no_choice_of_leaders_is_more_even_with_fewer_changes(state: GroupState) -> None:
    """Of all choices of a leader among each partition's replicas."""
    one = group_of(state)
    made = with_even_leaders(one).problem
    for topic in range(len(made.topics)):
        mine = np.flatnonzero(made.topic_of == topic)
        hosts = [np.flatnonzero(made.replica_racks[at]).tolist() for at in mine]
        now, then = one.problem.leader_rack[mine].tolist(), made.leader_rack[mine].tolist()
        racks = len({rack for there in hosts for rack in there})

        def cost(leaders: list[int], now: list[int] = now, racks: int = racks) -> tuple[int, int]:
            return uneven(leaders, racks), sum(a != b for a, b in zip(now, leaders, strict=True))

        assert all(leader in there for leader, there in zip(then, hosts, strict=True))
        assert cost(then) == min(cost(list(choice)) for choice in product(*hosts))


@given(states())
def test_a_new_rack_gets_its_part_of_leaders_and_copies(state: GroupState) -> None:
    """One leader of R; each partition keeps its number of replicas, in as many racks as it can have."""
    world, copying = with_rack(group_of(state), NEW)
    problem, count = world.problem, state.broker_racks + 1
    names = problem.racks
    at = 0
    for topic in state.topics:
        rates = topic.bytes_per_second
        for number, replicas in enumerate(topic.replicas):
            leader = NEW if number % count == count - 1 else state.racks[replicas[0]]
            places = {name for name, here in zip(names, problem.replica_racks[at], strict=True) if here}
            assert names[problem.leader_rack[at]] == leader
            assert leader in places
            assert len(places) == min(len(replicas), count)
            assert copying[at] == rates[number] * (len(places) - len(set(replicas)))
            at += 1


def as_published(state: GroupState, world: GroupProblem) -> GroupState:
    """The state that an agent would publish if the world were as supposed."""
    problem = world.problem
    rows = iter(range(len(problem.leader_rack)))

    def replicas(at: int) -> tuple[int, ...]:
        leader = int(problem.leader_rack[at])
        others = [rack for rack in np.flatnonzero(problem.replica_racks[at]).tolist() if rack != leader]
        return (UNKNOWN if leader < 0 else leader, *others)

    topics: list[TopicState] = [
        topic.model_copy(update={"replicas": tuple(replicas(next(rows)) for _ in topic.owner)})
        for topic in sorted(state.topics, key=lambda topic: topic.name)
    ]
    racks = dict(zip(problem.members, problem.member_rack.tolist(), strict=True))
    members = tuple(one.model_copy(update={"rack": racks[one.id]}) for one in state.members)
    known = {"racks": problem.racks, "broker_racks": len(world.broker_racks)}
    return state.model_copy(update={"topics": tuple(topics), "members": members, **known})


def read_in_the_best_of(state: GroupState, world: GroupProblem) -> float:
    """What the agent would read across racks in the best even placement of the members in a world."""
    there = (outcomes(as_published(state, one), Questions()) for one in placements(world, {}))
    return min(next(one.reads.crossing for one in seen if one.scenario == LEAD) for seen in there)


@given(states())
def test_leaders_that_moved_are_promised_what_the_agent_reads_then(state: GroupState) -> None:
    """The same as from a state of such a cluster; nothing is promised where leaders are even already."""
    state = state.model_copy(update={"role": "", "assignor": "sticky"})
    seen = {one.scenario: one for one in outcomes(state, Questions())}
    if ELECT in seen:
        then = as_published(state, with_even_leaders(group_of(state)))
        there = {one.scenario: one for one in outcomes(then, Questions())}
        assert seen[ELECT].reads.crossing == pytest.approx(there[LEAD].reads.crossing)
        assert seen[ELECT].before == seen[LEAD].reads.crossing
        assert ELECT not in there


def test_a_third_rack_takes_a_third_of_the_leaders() -> None:
    """Of six partitions of one replica; of four members the best rack for the second one has two."""
    racks = {"racks": ("a", "b"), "broker_racks": 2, "role": LEADING}
    two, four = (group(members, "ababab", [1.0] * 6).model_copy(update=racks) for members in ("ab", "abab"))
    few, more = (found(state, Questions(new_rack="c"))[RACK] for state in (two, four))
    assert (few.placed, few.reads.crossing) == ("a 1, b 1", 2.0)
    assert (more.placed, more.reads.crossing) == ("a 2, b 1, c 1", 0.0)
    assert RACK not in found(four, Questions(new_rack="a"))
    assert RACK not in found(four)


@given(states())
def test_places_and_racks_are_promised_what_the_agent_reads_then(state: GroupState) -> None:
    """The same as from a state of such a cluster, with members evenly in all racks at the best of such places."""
    state = state.model_copy(update={"role": "", "assignor": "sticky"})
    seen = {one.scenario: one for one in outcomes(state, Questions(new_rack=NEW))}
    if MOVE in seen:
        assert seen[MOVE].reads.crossing == pytest.approx(read_in_the_best_of(state, group_of(state)))
    assert (RACK in seen) == bool(state.broker_racks)
    world, copying = with_rack(group_of(state), NEW)
    assert seen[RACK].copying == pytest.approx(copying.sum())
    assert seen[RACK].reads.crossing == pytest.approx(read_in_the_best_of(state, world))
    counts = [int(part.split()[-1]) for part in seen[RACK].placed.split(", ")]
    assert sum(counts) == len(state.members)
    assert max(counts) <= -(-len(state.members) // (len(set(RACKS[: state.broker_racks])) + 1))
