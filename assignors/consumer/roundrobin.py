"""Kafka's `roundrobin`, with the same result: partitions dealt in turn, whatever their racks and current owners."""

from __future__ import annotations

import numpy as np

from samerack.assignors.arrays import starts_of
from samerack.assignors.consumer.order import member_order, utf16_order
from samerack.assignors.model import NOBODY, Int32Array, Problem


def assign(problem: Problem) -> Int32Array:
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
