"""States of groups: their content, and when one is due."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from samerack.agent.publishing.states import LastPublished, state_record
from samerack.assignors.streams.whole_tasks import WholeTasks
from samerack.traffic.model import TrafficSnapshot
from tests.unit.agent.measured import A, B, C, group, member, snapshot

AT = 1_800_000_000.0


def due(told: LastPublished, seen: TrafficSnapshot, after: float, *, interval: bool = False) -> list[str]:
    """Names of the groups that are due so many seconds after the first poll."""
    return [one.group for one in told.due(seen.groups, seen.cluster, at=AT + after, interval=interval)]


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


def test_a_state_is_due_at_first_and_at_each_interval() -> None:
    """Between intervals an unchanged group is not due."""
    told, seen = LastPublished(), snapshot(group("orders"), group("payments"))
    assert due(told, seen, 0) == ["orders", "payments"]
    assert due(told, seen, 30) == []
    assert due(told, seen, 60, interval=True) == ["orders", "payments"]


def test_members_assignment_and_replica_racks_are_told_at_once() -> None:
    """Each of these changes alone makes the group due; changed rates do not."""
    told, first = LastPublished(), group()
    due(told, snapshot(first), 0)
    faster = replace(first, partitions=tuple(replace(one, bytes_per_second=9.0) for one in first.partitions))
    assert due(told, snapshot(faster), 10) == []
    moved = replace(first, partitions=tuple(replace(one, member="m2") for one in first.partitions))
    assert due(told, snapshot(moved), 20) == ["orders"]
    elsewhere = replace(moved, members=(*moved.members[:2], member("m3", A)))
    assert due(told, snapshot(elsewhere), 30) == ["orders"]
    assert due(told, snapshot(elsewhere, brokers={1: A, 2: B, 3: A}), 40) == ["orders"]
    assert due(told, snapshot(elsewhere, brokers={1: A, 2: B, 3: A}), 50) == []
    mapped = replace(elsewhere, members=(*moved.members[:2], member("m3", A, source="network")))
    assert due(told, snapshot(mapped, brokers={1: A, 2: B, 3: A}), 60) == ["orders"]


def test_a_group_is_not_told_twice_in_some_seconds() -> None:
    """A group that changes again and again is due once, after some seconds."""
    told, first = LastPublished(), group()
    due(told, snapshot(first), 0)
    for second in range(1, 5):
        moving = replace(first, partitions=tuple(replace(one, member=f"m{2 + second % 2}") for one in first.partitions))
        assert due(told, snapshot(moving), second) == []
    assert due(told, snapshot(moving), 5) == ["orders"]


def test_a_rebalance_is_told_when_it_is_over() -> None:
    """While members do not show what they own, a group is due at the interval only."""
    told, first = LastPublished(), group()
    due(told, snapshot(first), 0)
    busy = replace(first, problem=None, state="PreparingRebalance", partitions=())
    assert due(told, snapshot(busy), 10) == []
    assert due(told, snapshot(busy), 20, interval=True) == ["orders"]
    assert due(told, snapshot(first), 30) == ["orders"]
    assert due(told, snapshot(replace(first, members=(), problem=None)), 40) == ["orders"]


def test_a_group_that_went_is_new_when_it_comes_back() -> None:
    """A group that is gone is forgotten."""
    told = LastPublished()
    due(told, snapshot(group()), 0)
    assert due(told, snapshot(), 1) == []
    assert due(told, snapshot(group()), 2) == ["orders"]
