"""Derives group states from a published snapshot, and which of them are due. Pure but for what was published last.

A state is due at each interval, and at once when members, their racks or subscriptions, the assignment or the racks of
replicas changed, but once in MIN_SECONDS per group at most: a rebalance in many rounds is published at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, TypedDict

from samerack.assignors.problem import NO_LIMIT, Int32Array, Int64Array, Problem
from samerack.cluster.view import ClusterView, PartitionView, Rack
from samerack.common.records import UNKNOWN, MemberState, PlanningState, TopicState
from samerack.settings.leading import LeadingSettings
from samerack.traffic.joining import refusal_of
from samerack.traffic.shares import mode_of_group
from samerack.traffic.snapshot import GroupTraffic, ObservedMember, PartitionTraffic

MIN_SECONDS: Final = 5.0
"""Between two states of one group."""

Shape: TypeAlias = tuple[object, ...]
"""The parts of a state whose change is published at once."""


class StateRecord(NamedTuple):
    """The parts of a state that are computed; see `common.records.GroupState`."""

    racks: tuple[str, ...]
    broker_racks: int
    members: tuple[MemberState, ...]
    topics: tuple[TopicState, ...]
    planning: PlanningState
    refusal: str | None


class LastPublished:
    """What was published last of each group, and when (seconds, monotonic or since 1970)."""

    def __init__(self, min_seconds: float = MIN_SECONDS) -> None:
        self._min_seconds = min_seconds
        self._last: dict[str, tuple[Shape, float]] = {}

    def due(
        self, groups: Sequence[GroupTraffic], cluster: ClusterView, *, at: float, interval: bool
    ) -> list[GroupTraffic]:
        """Return the groups whose state is to be published now: all at the end of an `interval`, else those changed.

        While a group rebalances its owners are unknown; it is published once that is over, or at the interval.
        """
        replicas: dict[str, Shape] = {}
        found = []
        for group in groups:
            shape = _shape(group, cluster, replicas)
            last = self._last.get(group.group)
            changed = last is None or (
                shape != last[0] and _is_known(group) and not 0 <= at - last[1] < self._min_seconds
            )
            if interval or changed:
                self._last[group.group] = (shape, at)
                found.append(group)
        for gone in self._last.keys() - {group.group for group in groups}:
            del self._last[gone]
        return found


def state_record(group: GroupTraffic, cluster: ClusterView, leading: LeadingSettings) -> StateRecord:
    """Convert a group to members, topics and racks that refer to each other by index, and to how it is planned."""
    broker_racks = sorted({rack for rack in cluster.brokers.values() if isinstance(rack, str)})
    others = {member.rack.rack for member in group.members if member.rack.rack} - set(broker_racks)
    racks = (*broker_racks, *sorted(others))
    rack_index = {rack: index for index, rack in enumerate(racks)}
    subscribed = _subscriptions(group.problem)
    names = sorted({partition.topic for partition in group.partitions}.union(*subscribed.values()))
    topic_index = {name: index for index, name in enumerate(names)}
    clients, tasks = _whole_tasks(group)
    weights, loads, carried = _weights(group.problem), _loads(group.problem), _carried(group.problem)
    mode = mode_of_group(group, leading, rack_aware_fetch=True)
    return StateRecord(
        racks=racks,
        broker_racks=len(broker_racks),
        members=tuple(
            MemberState(
                id=member.id,
                client_id=member.client_id,
                rack=rack_index.get(member.rack.rack or "", UNKNOWN),
                fetches_with_rack=member.rack.fetches_with_rack,
                topics=tuple(topic_index[name] for name in subscribed.get(member.id, ())),
                tells_rack=_sends_rack(member),
                client=clients.get(member.id),
                **carried.get(member.id, {}),
            )
            for member in group.members
        ),
        topics=tuple(
            topic.model_copy(
                update={
                    "tasks": tasks.get(topic.name),
                    "weights": weights.get(topic.name),
                    "loads": loads.get(topic.name),
                }
            )
            for topic in _topics(group, names, cluster, rack_index)
        ),
        planning=PlanningState(
            by_bytes=mode.weighs_bytes,
            keep_copartitioned=mode.options.keep_copartitioned,
            max_skew=mode.options.max_skew,
            balance_tolerance=mode.options.balance_tolerance if group.problem and group.problem.by_load else None,
        ),
        refusal=refusal_of(group, leading),
    )


def _whole_tasks(group: GroupTraffic) -> tuple[dict[str, int], dict[str, tuple[int, ...]]]:
    """Return Kafka Streams' clients by member id, and by topic the task of each partition; empty for other groups."""
    problem, whole = group.problem, group.whole_tasks
    if problem is None or whole is None:
        return {}, {}
    return dict(zip(problem.members, whole.client.tolist(), strict=True)), _by_topic(problem, whole.task)


def _weights(problem: Problem | None) -> dict[str, tuple[int, ...]]:
    """Return by topic what planning counts each partition as; empty where all count alike."""
    return {} if problem is None or problem.weights is None else _by_topic(problem, problem.weights)


def _loads(problem: Problem | None) -> dict[str, tuple[int, ...]]:
    """Return by topic what members are balanced by; empty where counts decide."""
    return {} if problem is None or problem.loads is None else _by_topic(problem, problem.loads)


class _Carried(TypedDict, total=False):
    capacity: float
    max_partitions: int


def _carried(problem: Problem | None) -> dict[str, _Carried]:
    """Return by member id what members can carry, as far as they differ."""
    carried: dict[str, _Carried] = {}
    if problem is not None and problem.capacity is not None:
        for member, capacity in zip(problem.members, problem.capacity.tolist(), strict=True):
            carried.setdefault(member, {})["capacity"] = capacity
    if problem is not None and problem.max_partitions is not None:
        for member, most in zip(problem.members, problem.max_partitions.tolist(), strict=True):
            if most < NO_LIMIT:
                carried.setdefault(member, {})["max_partitions"] = most
    return carried


def _by_topic(problem: Problem, values: Int32Array | Int64Array) -> dict[str, tuple[int, ...]]:
    """Return [P] values of partitions by topic."""
    rows: dict[str, list[int]] = {topic: [] for topic in problem.topics}
    for topic, value in zip(problem.topic_of.tolist(), values.tolist(), strict=True):
        rows[problem.topics[topic]].append(value)
    return {topic: tuple(row) for topic, row in rows.items()}


def _subscriptions(problem: Problem | None) -> dict[str, list[str]]:
    """Return the subscribed topics by member id; empty where the members do not show them."""
    if problem is None:
        return {}
    named = [
        [topic for topic, reads in zip(problem.topics, row, strict=True) if reads] for row in problem.subscriptions
    ]
    return {member: named[row] for member, row in zip(problem.members, problem.subscription_of, strict=True)}


def _topics(
    group: GroupTraffic, names: Iterable[str], cluster: ClusterView, racks: Mapping[str, int]
) -> Iterable[TopicState]:
    members = {member.id: index for index, member in enumerate(group.members)}
    read: dict[str, dict[int, PartitionTraffic]] = {name: {} for name in names}
    for partition in group.partitions:
        read[partition.topic][partition.number] = partition
    for name, partitions in read.items():
        views = cluster.topics.get(name, ())
        # as many as metadata shows: partitions beyond belong to a deleted topic
        rates = [seen.bytes_per_second if (seen := partitions.get(number)) else None for number in range(len(views))]
        yield TopicState(
            name=name,
            replicas=tuple(_replicas(view, cluster.brokers, racks) for view in views),
            owner=tuple(
                members.get(seen.member or "", UNKNOWN) if (seen := partitions.get(number)) else UNKNOWN
                for number in range(len(views))
            ),
            bytes_per_second=tuple(rate or 0.0 for rate in rates) if any(rate is not None for rate in rates) else (),
        )


def _replicas(view: PartitionView, brokers: Mapping[int, Rack], racks: Mapping[str, int]) -> tuple[int, ...]:
    """Return the replicas' racks, the leader's first; without a leader that one is UNKNOWN."""
    placed = (view.leader, *(replica for replica in view.replicas if replica != view.leader))
    found = (brokers.get(broker) for broker in placed)
    return tuple(racks[rack] if isinstance(rack, str) else UNKNOWN for rack in found)


def _is_known(group: GroupTraffic) -> bool:
    """Return whether the members show what they own; a group without members has nothing to show."""
    return group.problem is not None or not group.members


def _shape(group: GroupTraffic, cluster: ClusterView, replicas: dict[str, Shape]) -> Shape:
    """Return a value that is equal for equal members, assignment and racks of replicas; `replicas` is a cache."""
    topics = sorted({partition.topic for partition in group.partitions})
    for topic in topics:
        if topic not in replicas:
            replicas[topic] = tuple(
                tuple(cluster.brokers.get(broker) for broker in (view.leader, *view.replicas))
                for view in cluster.topics.get(topic, ())
            )
    subscriptions = _subscriptions(group.problem)
    return (
        group.kind,
        group.assignor,
        tuple(map(_member, group.members)),
        tuple(tuple(subscriptions.get(member.id, ())) for member in group.members),
        tuple(
            (partition.topic, partition.number, partition.member)
            for partition in group.partitions
            if partition.member is not None
        ),
        tuple(replicas[topic] for topic in topics),
    )


def _member(member: ObservedMember) -> Shape:
    return (member.id, member.rack.rack, member.rack.fetches_with_rack, _sends_rack(member))


def _sends_rack(member: ObservedMember) -> bool:
    return member.rack.source == "subscription"
