"""Builds a group's assignment problem from its members and the cluster, and compares the two.

Only topics that are in the cluster count: the agent waits for the others before it plans (`planning.coverage`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.model import NOBODY, BoolArray, Int32Array, Problem
from samerack.cluster.group import topics_of
from samerack.cluster.view import SettledCluster, replica_racks
from samerack.planning.members import PlanMember
from samerack.planning.mode import Mode
from samerack.protocol.model import TopicPartitions


def problem_of(
    members: Sequence[PlanMember],
    cluster: SettledCluster,
    mode: Mode,
    *,
    weights: Mapping[str, Sequence[int]] | None = None,
) -> Problem:
    """Returns the assignment problem of these members on this cluster, weighted by measured byte rates if given.

    Topics that are not in the cluster are left out; `planning.coverage` decides which those may be.
    """
    topics = {
        topic: replica_racks(cluster, topic)
        for topic in topics_of(member.subscription for member in members) & cluster.topics.keys()
    }
    return build_problem(
        topics=topics,
        members=[
            MemberInput(
                id=member.id,
                instance_id=member.instance_id,
                topics=tuple(topic for topic in member.subscription.topics if topic in topics),
                rack=member.rack.rack,
                reads_any_replica=mode.rack_aware_fetch and member.rack.fetches_with_rack,
                owned=_by_topic(member.owned, topics.keys()),
                generation=member.generation,
            )
            for member in members
        ],
        weights=fit_weights(weights, {topic: len(replicas) for topic, replicas in topics.items()}) if weights else None,
    )


def _by_topic(owned: TopicPartitions, topics: AbstractSet[str]) -> dict[str, Int32Array]:
    result: dict[str, Int32Array] = {}
    for topic, numbers in zip(owned.topics, owned.numbers, strict=True):
        if topic in topics:
            result[topic] = np.concatenate((result[topic], numbers)) if topic in result else numbers
    return result


def fit_weights(weights: Mapping[str, Sequence[int]], counts: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Fits weights to topics that have `counts` partitions now: cut, or filled up with the topic's median weight."""
    result = {}
    for topic, row in weights.items():
        count = counts.get(topic)
        if count is None:
            continue
        usual = sorted(row)[len(row) // 2] if row else 1
        result[topic] = (*row[:count], *((usual,) * (count - len(row))))
    return result


def partitions_changed(problem: Problem, members: Sequence[PlanMember], cluster: SettledCluster) -> bool:
    """Returns whether, for known topics, the present assignment lacks partitions or has some that no longer exist."""
    seen: BoolArray = np.array([topic in cluster.topics for topic in problem.topics], dtype=np.bool_)
    read: BoolArray = np.any(problem.subscriptions[np.unique(problem.subscription_of)], axis=0, keepdims=True)[0]
    if bool(np.any((seen & read)[problem.topic_of] & (problem.owner == NOBODY))):
        return True
    assigned = sum(
        len(numbers)
        for member in members
        for topic, numbers in zip(member.owned.topics, member.owned.numbers, strict=True)
        if topic in cluster.topics
    )
    return assigned != int(np.count_nonzero(seen[problem.topic_of] & (problem.owner != NOBODY)))
