"""States of groups: their content, and when one is due."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from samerack.agent.publishing.states import LastPublished, state_record
from samerack.assignors.streams.whole_tasks import WholeTasks
from samerack.traffic.model import TrafficSnapshot
from tests.unit.agent.measured import A, B, C, group, member, snapshot

AT = 1_800_000_000.0


def test_a_group_is_pictured_by_index() -> None:
    """Racks of brokers are first, the leader's replica is first, and owners and rates are by partition."""
    one = group(members={"m1": A, "m2": "elsewhere", "m3": None})
    placed = ((3, 1), (2,), (9,), (1, 2), (2,), (3,))
    seen = state_record(one, snapshot(one, replicas=placed).cluster)
    assert (seen.racks, seen.broker_racks) == ((A, B, C, "elsewhere"), 3)
    assert [(who.id, who.rack, who.topics) for who in seen.members] == [
        ("m1", 0, (0,)),
        ("m2", 3, (0,)),
        ("m3", -1, (0,)),
    ]
    assert [who.tells_rack for who in seen.members] == [True, True, False]
    (topic,) = seen.topics
    assert topic.name == "clicks"
    assert topic.replicas == ((2, 0), (1,), (-1,), (0, 1), (1,), (2,))
    assert topic.owner == (0,) * 6
    assert topic.bytes_per_second == (1000.0,) * 6


def test_kafka_streams_shows_its_tasks() -> None:
    """Each partition has its task, and each member its client; other groups have neither."""
    one = group()
    assert one.problem is not None
    assert one.problem.members == ("m1", "m2", "m3")
    whole = WholeTasks(task=np.array([0, 1, 0, 1, 2, -1], np.int32), client=np.array([0, 0, 1], np.int32))
    seen = state_record(replace(one, kind="streams-classic", whole_tasks=whole), snapshot(one).cluster)
    assert [who.client for who in seen.members] == [0, 0, 1]
    assert [topic.tasks for topic in seen.topics] == [(0, 1, 0, 1, 2, -1)]
    plain = state_record(one, snapshot(one).cluster)
    assert [who.client for who in plain.members] == [None] * 3
    assert [topic.tasks for topic in plain.topics] == [None]


def test_unknown_rates_and_owners_are_left_out() -> None:
    """A topic without rates has none, and a partition without an owner has none."""
    one = group()
    unread = tuple(replace(part, member=None, bytes_per_second=None) for part in one.partitions[:5])
    (topic,) = state_record(replace(one, partitions=unread), snapshot(one).cluster).topics
    assert topic.owner == (-1,) * 6
    assert topic.bytes_per_second == ()
    assert len(topic.replicas) == 6


ONE = group()
FASTER = replace(ONE, partitions=tuple(replace(one, bytes_per_second=9.0) for one in ONE.partitions))
MOVED = replace(ONE, partitions=tuple(replace(one, member="m2") for one in ONE.partitions))
NEARER = replace(MOVED, members=(*MOVED.members[:2], member("m3", A)))
MAPPED = replace(MOVED, members=(*MOVED.members[:2], member("m3", A, source="network")))
JOINING = replace(ONE, problem=None, state="PreparingRebalance", partitions=())
OTHER_BROKERS = {1: A, 2: B, 3: A}
MOVING = [
    replace(ONE, partitions=tuple(replace(one, member=f"m{2 + second % 2}") for one in ONE.partitions))
    for second in range(5)
]


@pytest.mark.parametrize(
    "steps",
    [
        [(snapshot(ONE), 0, True), (snapshot(ONE), 30, False), (snapshot(ONE), 60, "interval")],
        [
            (snapshot(ONE), 0, True),
            (snapshot(FASTER), 10, False),
            (snapshot(MOVED), 20, True),
            (snapshot(NEARER), 30, True),
            (snapshot(NEARER, brokers=OTHER_BROKERS), 40, True),
            (snapshot(NEARER, brokers=OTHER_BROKERS), 50, False),
            (snapshot(MAPPED, brokers=OTHER_BROKERS), 60, True),
        ],
        [
            (snapshot(ONE), 0, True),
            *((snapshot(MOVING[second]), second, False) for second in range(1, 5)),
            (snapshot(MOVING[4]), 5, True),
        ],
        [
            (snapshot(ONE), 0, True),
            (snapshot(JOINING), 10, False),
            (snapshot(JOINING), 20, "interval"),
            (snapshot(ONE), 30, True),
            (snapshot(replace(ONE, members=(), problem=None)), 40, True),
        ],
        [(snapshot(ONE), 0, True), (snapshot(), 1, False), (snapshot(ONE), 2, True)],
    ],
    ids=[
        "at first and at each interval",
        "members, assignment and racks of replicas at once, rates not",
        "not twice in some seconds",
        "a rebalance when it is over",
        "a group that went is new when it comes back",
    ],
)
def test_when_a_state_is_due(steps: list[tuple[TrafficSnapshot, float, bool | str]]) -> None:
    """After so many seconds each, at an interval or not."""
    told = LastPublished()
    for seen, after, expected in steps:
        found = told.due(seen.groups, seen.cluster, at=AT + after, interval=expected == "interval")
        assert [one.group for one in found] == (["orders"] if expected else []), after
