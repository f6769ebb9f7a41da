"""Kafka's `range` with KIP-881's racks and its `roundrobin`, with the same results, and its order of members.

`range` is the agent's fall-back and the reference for comparisons. Each topic is dealt in consecutive ranges to its
subscribers. If racks can help, partitions that match a member's rack are dealt first; topics with equal partition
counts and equal subscribers are dealt together, so that partition i of all of them goes to one member. `roundrobin`
deals partitions in turn, whatever their racks and current owners. All assignors of samerack use the order of members.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from samerack.assignors.arrays import starts_of
from samerack.assignors.problem import NOBODY, BoolArray, Int32Array, Int64Array, Problem


def utf16_order(name: str) -> bytes:
    """Return a sort key with Java's order of names: by UTF-16 code unit, so U+1F600 comes before U+FF5E."""
    return name.encode("utf-16-be", "surrogatepass")


def member_order(problem: Problem) -> Int32Array:
    """Return member indices [M]: static members by group instance id, then dynamic ones by member id (KIP-345).

    A static member that restarts with a new member id keeps its position, so plans do not depend on generated ids.
    """
    if not any(problem.instance_ids) and "".join(problem.members).isascii():
        return np.array(sorted(range(len(problem.members)), key=problem.members.__getitem__), np.int32)

    def key(index: int) -> tuple[bool, bytes, bytes]:
        instance_id = problem.instance_ids[index]
        member_id = utf16_order(problem.members[index])
        return (True, member_id, b"") if instance_id is None else (False, utf16_order(instance_id), member_id)

    return np.array(sorted(range(len(problem.members)), key=key), np.int32)


@dataclass(frozen=True, slots=True)
class _Deal:
    """Topics of equal subscribers and partition count, so that their ranges are equal too.

    Attributes:
        topics: Topic indices.
        consumers: [C] subscribed members in Kafka's order.
        partitions: partitions of each topic.
    """

    topics: tuple[int, ...]
    consumers: Int32Array
    partitions: int


class _Seats:
    """The number of partitions of one topic that each consumer may still take: a floor for all, one more for some."""

    def __init__(self, consumers: int, partitions: int) -> None:
        self.floor, self.extras = divmod(partitions, consumers)
        self.taken = np.zeros(consumers, np.int64)

    def free(self, consumer: int) -> int:
        return max(0, self.floor + (self.extras > 0) - int(self.taken[consumer]))

    def take(self, consumer: int, count: int) -> None:
        self.taken[consumer] += count
        if self.taken[consumer] > self.floor:
            self.extras -= 1

    def rest(self) -> Int64Array:
        """Return each consumer's share of the remaining partitions; the first consumers take the extra ones."""
        hungry = self.taken <= self.floor
        with_extra = np.cumsum(hungry) <= self.extras
        return np.where(hungry, self.floor - self.taken + with_extra, 0)


def assign_range(problem: Problem) -> Int32Array:
    """Assign as Kafka 4.3's `RangeAssignor` (KIP-881, "Proposed Changes").

    Args:
        problem: the group; current owners, weights and `reads_any_replica` are ignored: any replica counts.

    Returns:
        [P] owner of each partition, NOBODY if no member subscribes to the topic.

    Complexity: O(P * R + T * M).
    """
    starts = starts_of(np.bincount(problem.topic_of, minlength=len(problem.topics)))
    owner = np.full(len(problem.topic_of), NOBODY, np.int32)
    deals = _deals(problem, starts)
    rack_aware = {topic: _racks_can_help(problem, starts, topic, deal) for deal in deals for topic in deal.topics}
    for deal in deals:
        # one topic that needs racks enables co-partitioned matching for the whole group
        together = len(deal.topics) > 1 and any(rack_aware.values()) and _some_rack(problem, deal)
        if together:
            plan = _deal_together(problem, starts, deal)
        for topic in deal.topics:
            if not together:
                plan = _deal_alone(problem, starts, deal, topic, match=rack_aware[topic])
            owner[starts[topic] : starts[topic + 1]] = deal.consumers[plan]
    return owner


def _deals(problem: Problem, starts: Int64Array) -> list[_Deal]:
    order = member_order(problem)
    groups: dict[tuple[bytes, int], list[int]] = {}
    for topic, partitions in enumerate(np.diff(starts).tolist()):
        subscribers = problem.subscriptions[:, topic]
        if partitions and subscribers.any():
            groups.setdefault((subscribers.tobytes(), partitions), []).append(topic)
    return [
        _Deal(
            topics=tuple(topics),
            consumers=order[problem.subscriptions[problem.subscription_of[order], topics[0]]],
            partitions=partitions,
        )
        for (_, partitions), topics in groups.items()
    ]


def _some_rack(problem: Problem, deal: _Deal) -> bool:
    return bool((problem.member_rack[deal.consumers] != NOBODY).any())


def _racks_can_help(problem: Problem, starts: Int64Array, topic: int, deal: _Deal) -> bool:
    """Return whether Kafka matches racks in a topic.

    It does if a consumer shares a rack with a replica, and not all partitions have replicas in the same racks.
    """
    member_racks = problem.member_rack[deal.consumers]
    replica_racks = problem.replica_racks[starts[topic] : starts[topic + 1]]
    everywhere = np.logical_or.reduce(replica_racks, axis=0)
    shared = everywhere[member_racks[member_racks != NOBODY]].any()
    return bool(shared and (replica_racks != everywhere).any())


def _deal_alone(problem: Problem, starts: Int64Array, deal: _Deal, topic: int, *, match: bool) -> Int64Array:
    """Return the consumer position for each partition of one topic."""
    plan = np.full(deal.partitions, NOBODY, np.int64)
    seats = _Seats(len(deal.consumers), deal.partitions)
    if match:
        _match_racks(problem.replica_racks[starts[topic] : starts[topic + 1]], problem, deal, plan, seats)
    plan[plan == NOBODY] = np.repeat(np.arange(len(deal.consumers)), seats.rest())
    return plan


def _match_racks(replica_racks: BoolArray, problem: Problem, deal: _Deal, plan: Int64Array, seats: _Seats) -> None:
    """Give each consumer in turn the first free partitions that match; one without a rack matches every partition."""
    candidates: dict[int, Int64Array] = {NOBODY: np.arange(deal.partitions)}
    seen: dict[int, int] = {}
    for consumer, rack in enumerate(problem.member_rack[deal.consumers].tolist()):
        if rack not in candidates:
            candidates[rack] = np.flatnonzero(replica_racks[:, rack])
        queue, position, wanted = candidates[rack], seen.get(rack, 0), seats.free(consumer)
        taken = 0
        while taken < wanted and position < len(queue):
            chunk = queue[position : position + wanted - taken]
            free = chunk[plan[chunk] == NOBODY]
            plan[free] = consumer
            taken += len(free)
            position += len(chunk)
        seen[rack] = position
        if taken:
            seats.take(consumer, taken)


def _deal_together(problem: Problem, starts: Int64Array, deal: _Deal) -> Int64Array:
    """Return the consumer position for partition i of all topics: the first whose rack has a replica in each topic."""
    in_all = np.ones((deal.partitions, len(problem.racks)), np.bool_)
    for topic in deal.topics:
        in_all &= problem.replica_racks[starts[topic] : starts[topic + 1]]
    plan = np.full(deal.partitions, NOBODY, np.int64)
    seats = _Seats(len(deal.consumers), deal.partitions)
    waiting: dict[int, list[int]] = {}
    for consumer, rack in reversed(list(enumerate(problem.member_rack[deal.consumers].tolist()))):
        waiting.setdefault(rack, []).append(consumer)
    for partition in range(deal.partitions):
        heads = []
        for rack, queue in waiting.items():
            while queue and not seats.free(queue[-1]):
                queue.pop()  # the number that a consumer may still take never grows
            if queue and (rack == NOBODY or in_all[partition, rack]):
                heads.append(queue[-1])
        if heads:
            plan[partition] = min(heads)
            seats.take(min(heads), 1)
    plan[plan == NOBODY] = np.repeat(np.arange(len(deal.consumers)), seats.rest())
    return plan


def assign_roundrobin(problem: Problem) -> Int32Array:
    """Assign as Kafka 4.3's `RoundRobinAssignor` (KIP-54, "Notes": the next partition goes to the next member).

    Topics are in Java's order of names, members in Kafka's order; a member that does not subscribe is skipped.

    Args:
        problem: the group; only topics, subscriptions and the order of members count.

    Returns:
        [P] owner of each partition, NOBODY if no member subscribes to the topic.

    Complexity: O(P + T * M).
    """
    starts = starts_of(np.bincount(problem.topic_of, minlength=len(problem.topics)))
    owner = np.full(len(problem.topic_of), NOBODY, np.int32)
    order = member_order(problem)
    subscription = problem.subscription_of[order]
    turn = 0
    for topic in sorted(range(len(problem.topics)), key=lambda index: utf16_order(problem.topics[index])):
        seats = np.flatnonzero(problem.subscriptions[subscription, topic])
        count = int(starts[topic + 1] - starts[topic])
        if not count or not len(seats):
            continue
        first = np.searchsorted(seats, turn)  # after the last subscriber it starts again with the first
        dealt = seats[(first + np.arange(count)) % len(seats)]
        owner[starts[topic] : starts[topic + 1]] = order[dealt]
        turn = int(dealt[-1]) + 1
    return owner
