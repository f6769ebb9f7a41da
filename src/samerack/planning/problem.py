"""Builds a group's assignment problem from its members and the cluster, and compares the two.

Only topics that are in the cluster count: the agent waits for the others before it plans (`planning.coverage`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from samerack.assignors.build import Claims, MemberInput, assemble
from samerack.assignors.model import NOBODY, BoolArray, Int64Array, Problem
from samerack.assignors.topics import TopicTable
from samerack.cluster.group import topics_of
from samerack.cluster.view import SettledCluster
from samerack.planning.members import PlanMember
from samerack.planning.mode import Mode
from samerack.planning.topic_tables import TopicTables
from samerack.protocol.model import TopicPartitions


def problem_of(
    members: Sequence[PlanMember],
    cluster: SettledCluster,
    mode: Mode,
    *,
    weights: Mapping[str, Sequence[int]] | None = None,
    tables: TopicTables | None = None,
) -> Problem:
    """Return the assignment problem of these members on this cluster, weighted by measured byte rates if given.

    Topics that are not in the cluster are left out; `planning.coverage` decides which those may be.

    Args:
        members: The group's members.
        cluster: The racks, and the replicas of the topics.
        mode: How the group is planned.
        weights: Weights of partitions by topic.
        tables: The group's tables, if more problems of it are built.
    """
    tables = tables or TopicTables()
    table = tables.table(cluster, topics_of(member.topics for member in members))
    return assemble(
        table,
        [
            MemberInput(
                id=member.id,
                instance_id=member.instance_id,
                topics=member.topics,
                rack=member.rack.rack,
                reads_any_replica=mode.rack_aware_fetch and member.rack.fetches_with_rack,
                generation=member.generation,
            )
            for member in members
        ],
        claims_of([member.owned for member in members], table),
        weights=tables.weights(weights, table) if weights else None,
    )


def claims_of(owned: Sequence[TopicPartitions], table: TopicTable) -> Claims:
    """Return what each member owns as claims; names that members share are looked up once."""
    position = table.position
    place_of: dict[int, Int64Array] = {}
    topics, sizes = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for one in owned:
        places = place_of.get(id(one.names))
        if places is None:
            places = place_of[id(one.names)] = np.array([position.get(name, NOBODY) for name in one.names], np.int64)
        if len(one.run_names):
            topics.append(places[one.run_names])
            sizes.append(one.run_sizes)
    counts = np.fromiter(map(len, owned), np.int64, len(owned))
    return Claims(
        member=np.repeat(np.arange(len(owned)), counts),
        topic=np.repeat(np.concatenate(topics), np.concatenate(sizes)),
        number=np.concatenate([np.empty(0, np.int64), *(one.flat for one in owned)], dtype=np.int64),
    )


def partitions_changed(problem: Problem, members: Sequence[PlanMember], cluster: SettledCluster) -> bool:
    """Return whether, for known topics, the present assignment lacks partitions or has some that no longer exist."""
    seen: BoolArray = np.array([topic in cluster.topics for topic in problem.topics], dtype=np.bool_)
    read: BoolArray = np.any(problem.subscriptions[np.unique(problem.subscription_of)], axis=0, keepdims=True)[0]
    if bool(np.any((seen & read)[problem.topic_of] & (problem.owner == NOBODY))):
        return True
    assigned = sum(_known_partitions(member.owned, cluster) for member in members)
    return assigned != int(np.count_nonzero(seen[problem.topic_of] & (problem.owner != NOBODY)))


def _known_partitions(owned: TopicPartitions, cluster: SettledCluster) -> int:
    known: BoolArray = np.array([name in cluster.topics for name in owned.names], dtype=np.bool_)
    return int(owned.run_sizes[known[owned.run_names]].sum())
