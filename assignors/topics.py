"""The topics of a group as arrays: what a plan takes from the cluster, and not from the members.

A group's topics change seldom, its members often: these arrays are made once and used for many problems.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from samerack.assignors.arrays import starts_of
from samerack.assignors.problem import NOBODY, BoolArray, Int32Array, Int64Array

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TopicTable:
    """T topics with P partitions on replicas in R racks; names are sorted, partitions by (topic, number).

    Attributes:
        names: T names.
        position: index of each topic by name.
        counts: [T] partitions of each topic.
        topic_of: [P] index into `names`.
        number_of: [P] partition number within its topic.
        racks: R names of the replicas' racks.
        replica_racks: [P, R] true where a replica of the partition is in the rack.
        leader_rack: [P] rack of the leader replica, or NOBODY if it is unset or unknown.
    """

    names: tuple[str, ...]
    position: Mapping[str, int]
    counts: Int64Array
    topic_of: Int32Array
    number_of: Int32Array
    racks: tuple[str, ...]
    replica_racks: BoolArray
    leader_rack: Int32Array

    def with_racks(self, racks: tuple[str, ...]) -> tuple[BoolArray, Int32Array]:
        """Return `replica_racks` and `leader_rack` for these racks, which must include those of the replicas."""
        if racks == self.racks:
            return self.replica_racks, self.leader_rack
        index = {rack: number for number, rack in enumerate(racks)}
        places = np.array([index[rack] for rack in self.racks], np.int32)
        replica_racks = np.zeros((len(self.topic_of), len(racks)), np.bool_)
        replica_racks[:, places] = self.replica_racks
        return replica_racks, np.append(places, np.int32(NOBODY))[self.leader_rack]


def topic_table(topics: Mapping[str, Sequence[Sequence[str | None]]]) -> TopicTable:
    """Make the table of topics that are given by the racks of each partition's replicas, the leader's first.

    None (or empty) is a rack that is unset or unknown; a partition without a known replica has an empty sequence.

    Complexity: linear in replicas.
    """
    names = tuple(sorted(topics))
    patterns: defaultdict[tuple[str | None, ...], int] = defaultdict(count().__next__)
    replicas = [racks_of for name in names for racks_of in topics[name]]
    codes = np.fromiter(map(patterns.__getitem__, map(tuple, replicas)), np.int64, len(replicas))
    return table_of_patterns(names, [len(topics[name]) for name in names], codes, list(patterns))


def table_of_patterns(
    names: tuple[str, ...],
    counts: Sequence[int],
    codes: Int64Array,
    patterns: Sequence[Sequence[str | None]],
) -> TopicTable:
    """Make a table from replica lists that are numbered: a cluster has few distinct ones.

    Args:
        names: T names, sorted.
        counts: [T] partitions of each topic.
        codes: [P] index into `patterns`, by (topic, number).
        patterns: distinct lists of the replicas' racks, the leader's first.
    """
    racks = tuple(sorted({rack for pattern in patterns for rack in pattern if rack}))
    index: dict[str | None, int] = {rack: number for number, rack in enumerate(racks)}
    in_rack = np.zeros((len(patterns), len(racks)), np.bool_)
    leader = np.full(len(patterns), NOBODY, np.int32)
    for code, replicas in enumerate(patterns):
        in_rack[code, [index[rack] for rack in replicas if rack]] = True
        if replicas and replicas[0]:
            leader[code] = index[replicas[0]]
    sizes = np.array(counts, np.int64)
    return TopicTable(
        names=names,
        position={name: index for index, name in enumerate(names)},
        counts=sizes,
        topic_of=np.repeat(np.arange(len(names), dtype=np.int32), sizes),
        number_of=(np.arange(sizes.sum()) - np.repeat(starts_of(sizes)[:-1], sizes)).astype(np.int32),
        racks=racks,
        replica_racks=in_rack[codes],
        leader_rack=leader[codes],
    )
