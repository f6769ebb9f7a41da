"""Keeps the arrays of a settled cluster's topics from one plan to the next: only what has changed is converted again.

A topic's rows are the same object in every settled cluster until they change, and so are a group's weights.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import count
from typing import TypeAlias

import numpy as np

from samerack.assignors.build import weights_of
from samerack.assignors.model import Int64Array
from samerack.assignors.topics import TopicTable, table_of_patterns
from samerack.cluster.view import NoRack, SettledCluster, SettledPartition

_Rows: TypeAlias = tuple[SettledPartition, ...]
_Placement: TypeAlias = tuple[int, tuple[int, ...]]
"""Leader and replicas of a partition."""


class TopicTables:
    """The last table of one group's topics; any thread may ask for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._placements: defaultdict[_Placement, int] = defaultdict(count().__next__)
        self._codes: dict[str, tuple[_Rows, Int64Array]] = {}
        self._cluster: SettledCluster | None = None
        self._topics: frozenset[str] = frozenset()
        self._table: TopicTable | None = None
        self._weighted: tuple[object, TopicTable, Int64Array] | None = None

    def table(self, cluster: SettledCluster, topics: frozenset[str]) -> TopicTable:
        """Return the table of these topics, without those that the cluster does not have."""
        with self._lock:
            if self._table is None or cluster is not self._cluster or topics != self._topics:
                self._table = self._made(cluster, topics)
                self._cluster, self._topics = cluster, topics
            return self._table

    def _made(self, cluster: SettledCluster, topics: frozenset[str]) -> TopicTable:
        names = tuple(sorted(topics & cluster.topics.keys()))
        codes = {name: self._codes_of(name, cluster.topics[name]) for name in names}
        self._codes = codes
        return table_of_patterns(
            names,
            [len(rows) for rows, _ in codes.values()],
            np.concatenate([np.empty(0, np.int64), *(known for _, known in codes.values())]),
            [_racks(cluster, leader, replicas) for leader, replicas in self._placements],
        )

    def _codes_of(self, topic: str, rows: _Rows) -> tuple[_Rows, Int64Array]:
        known = self._codes.get(topic)
        if known is not None and known[0] is rows:
            return known
        placements = self._placements
        return rows, np.fromiter((placements[row.leader, row.replicas] for row in rows), np.int64, len(rows))

    def weights(self, weights: Mapping[str, Sequence[int]], table: TopicTable) -> Int64Array:
        """Return [P] the weights of the table's partitions.

        Raises:
            AssignmentError: A weight is not positive, or their sum is too large.
        """
        with self._lock:
            last = self._weighted
            if last is not None and last[0] is weights and last[1] is table:
                return last[2]
            counts = dict(zip(table.names, table.counts.tolist(), strict=True))
            fitted = weights_of(fit_weights(weights, counts), table)
            self._weighted = (weights, table, fitted)
            return fitted


def _racks(cluster: SettledCluster, leader: int, replicas: tuple[int, ...]) -> tuple[str | None, ...]:
    """Return the racks of the replicas, the leader's first; None if a rack is unset or unknown."""
    brokers = (leader, *(replica for replica in replicas if replica != leader))
    racks = (cluster.brokers.get(broker, NoRack.UNKNOWN) for broker in brokers)
    return tuple(rack if isinstance(rack, str) else None for rack in racks)


def fit_weights(weights: Mapping[str, Sequence[int]], counts: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Fit weights to topics that have `counts` partitions now: cut, or filled up with the topic's median weight."""
    result = {}
    for topic, row in weights.items():
        count = counts.get(topic)
        if count is None:
            continue
        usual = sorted(row)[len(row) // 2] if row else 1
        result[topic] = (*row[:count], *((usual,) * (count - len(row))))
    return result
