"""Plans of any group: each partition goes once to a subscriber, and encoded bytes match what is remembered."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from samerack.assignors.consumer.registry import Options
from samerack.cluster.racks import MemberRack
from samerack.cluster.view import SettledCluster
from samerack.planning import planner
from samerack.planning.members import PlanMember
from samerack.planning.problem import Mode, partitions_changed, problem_of
from samerack.protocol.consumer import decode_assignment
from samerack.protocol.values import from_pairs, to_pairs
from tests.unit.agent.values import cluster

TOPICS = ("t", "u", "v", "absent")
SIZES = {"t": 5, "u": 3, "v": 0}
PAIRS = [(topic, number) for topic in TOPICS for number in range(6)]


@st.composite
def groups(draw: st.DrawFn) -> list[PlanMember]:
    """Members with any subscriptions and racks; owned partitions may be gone, unsubscribed or claimed twice."""
    members = []
    for index in range(draw(st.integers(0, 5))):
        rack = draw(st.sampled_from([None, "a", "b", "x"]))
        members.append(
            PlanMember(
                id=f"m-{index}",
                instance_id=draw(st.sampled_from([None, f"pod-{index}"])),
                version=draw(st.integers(0, 4)),
                topics=tuple(draw(st.lists(st.sampled_from(TOPICS), unique=True))),
                rack=MemberRack(rack=rack, source="network" if rack else "none", fetches_with_rack=draw(st.booleans())),
                owned=from_pairs(draw(st.lists(st.sampled_from(PAIRS), max_size=6, unique=True))),
                generation=draw(st.integers(-1, 2)),
            )
        )
    return members


@st.composite
def settled_clusters(draw: st.DrawFn) -> SettledCluster:
    """Three brokers, one of them without a known rack, with any replicas."""
    replicas = st.lists(st.sampled_from([1, 2, 9]), min_size=1, max_size=3, unique=True)
    return cluster({1: "a", 2: "b"}, **{topic: [draw(replicas) for _ in range(size)] for topic, size in SIZES.items()})


MODES = st.builds(
    Mode,
    cooperative=st.booleans(),
    options=st.builds(Options, keep_copartitioned=st.booleans()) | st.builds(Options, max_skew=st.integers(1, 3)),
    rack_aware_fetch=st.booleans(),
)


@given(members=groups(), there=settled_clusters(), mode=MODES, prefer=st.sampled_from(["optimal", "range"]))
def test_any_group_gets_each_partition_once(
    members: list[PlanMember], there: SettledCluster, mode: Mode, prefer: planner.AssignorName
) -> None:
    """The preferred assignor's plan passes the check, covers all subscriptions, and equals the remembered one."""
    problem = problem_of(members, there, mode)
    plan = planner.make_plan(problem, mode, prefer=prefer)
    assert (plan.assignor, plan.failure) == (prefer, None)
    encoded = planner.encode(plan, members)
    assert encoded.keys() == {member.id for member in members}
    given_to = {name: to_pairs(decode_assignment(content).partitions) for name, content in encoded.items()}

    sent = planner.sent_partitions(plan)
    for member in members:
        assert to_pairs(sent[member.id]) == given_to[member.id]
        assert member.instance_id is None or sent[member.instance_id] == sent[member.id]
        assert {topic for topic, _ in given_to[member.id]} <= set(member.topics)

    counts = Counter(pair for pairs in given_to.values() for pair in pairs if pair[0] in SIZES)
    wanted = {topic for member in members for topic in member.topics}
    expected = {(topic, number) for topic in wanted & SIZES.keys() for number in range(SIZES[topic])}
    assert set(counts.values()) <= {1}
    assert counts.keys() <= expected
    seen = np.isin(problem.topic_of, [index for index, topic in enumerate(problem.topics) if topic in SIZES])
    assert len(counts) + int(np.count_nonzero((plan.sent != plan.final) & seen)) == len(expected)
    assert plan.withheld == 0 or mode.cooperative


@given(members=groups(), there=settled_clusters(), mode=MODES)
def test_a_plan_in_force_needs_no_rebalance(members: list[PlanMember], there: SettledCluster, mode: Mode) -> None:
    """Once members own the final plan, no partition has changed and a new plan moves nothing."""
    eager = Mode(cooperative=False, options=mode.options, rack_aware_fetch=mode.rack_aware_fetch)
    sent = planner.sent_partitions(planner.make_plan(problem_of(members, there, eager), eager))
    after = [
        PlanMember(
            id=member.id,
            instance_id=member.instance_id,
            topics=member.topics,
            rack=member.rack,
            owned=sent[member.id],
        )
        for member in members
    ]
    problem = problem_of(after, there, mode)
    assert not partitions_changed(problem, after, there)
    assert planner.make_plan(problem, mode).after.moved == 0
