"""Builds a group's assignment problem from its members and the cluster, and decides how it is planned.

Only topics that are in the cluster count: the agent waits for the others before it plans (`planner.coverage`). The
arrays of a settled cluster's topics are kept from one plan to the next, and only what has changed is converted again:
a topic's rows are the same object in every settled cluster until they change, and so are a group's weights.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from statistics import median
from types import MappingProxyType
from typing import Final, TypeAlias, TypedDict

import numpy as np

from samerack.assignors.build import (
    MemberInput,
    OwnedClaims,
    TopicTable,
    assemble,
    loads_of,
    table_of_patterns,
    weights_of,
)
from samerack.assignors.consumer.registry import DEFAULTS, Options
from samerack.assignors.problem import NOBODY, BoolArray, Int64Array, Problem
from samerack.cluster.group import member_key, topics_of
from samerack.cluster.view import NoRack, SettledCluster, SettledPartition
from samerack.common.patterns import fits
from samerack.common.weights import FULL_LOAD, GroupWeights, Rows
from samerack.planning.deadline import DEADLINE_SECONDS
from samerack.planning.members import PlanMember
from samerack.protocol.values import TopicPartitions
from samerack.settings.leading import COOPERATIVE_PROTOCOLS, LeadingSettings, MemberRule

_Rows: TypeAlias = tuple[SettledPartition, ...]
_Fit: TypeAlias = Callable[[Rows, TopicTable], Int64Array]
_NOTHING: Final[Mapping[str, float]] = MappingProxyType({})
_Placement: TypeAlias = tuple[int, tuple[int, ...]]
"""Leader and replicas of a partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """How a group is to be planned.

    Attributes:
        cooperative: Members rebalance incrementally (KIP-429).
        rack_aware_fetch: Whether replicas in the member's rack may serve reads, or leaders only.
        options: Options of the optimal assignor.
        weighs_bytes: Whether a partition that is read across racks costs its bytes, or 1.
        balances_traffic: Whether members are balanced by bytes or records, or by numbers of partitions.
        members: What some members can carry; the first rule that fits counts.
        deadline_seconds: How long planning may take.
    """

    cooperative: bool
    rack_aware_fetch: bool
    options: Options = DEFAULTS
    weighs_bytes: bool = True
    balances_traffic: bool = False
    members: tuple[MemberRule, ...] = ()
    deadline_seconds: float = DEADLINE_SECONDS


def mode_of(
    protocol: str,
    leading: LeadingSettings,
    *,
    rack_aware_fetch: bool,
    weights: GroupWeights | None = None,
    classic: bool = True,
) -> Mode:
    """Return how to plan for a group whose members chose this protocol name; `leading` are the group's settings.

    Bundles of partitions have no skew. Where `weights` have capacities, members may be filled up to `FULL_LOAD` of
    these. In a group that is not `classic` no topics stay together, and counts decide.
    """
    keep = leading.keep_copartitioned
    together = classic and (keep == "always" or (keep == "auto" and protocol == "range"))
    return Mode(
        cooperative=protocol in COOPERATIVE_PROTOCOLS,
        rack_aware_fetch=rack_aware_fetch,
        options=Options(
            keep_copartitioned=together,
            max_skew=0 if together else leading.max_skew,
            balance_tolerance=leading.balance_tolerance,
            full_load=FULL_LOAD if weights is not None and weights.capacities else 0.0,
        ),
        weighs_bytes=leading.weigh_by == "bytes",
        balances_traffic=classic and leading.balance != "partitions",
        members=leading.members if classic else (),
        deadline_seconds=leading.deadline_seconds,
    )


class TopicTables:
    """The last table of one group's topics; any thread may ask for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._placements: defaultdict[_Placement, int] = defaultdict(count().__next__)
        self._codes: dict[str, tuple[_Rows, Int64Array]] = {}
        self._cluster: SettledCluster | None = None
        self._topics: frozenset[str] = frozenset()
        self._table: TopicTable | None = None
        self._fitted: dict[_Fit, tuple[object, TopicTable, Int64Array]] = {}

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

    def weights(self, weights: Rows, table: TopicTable) -> Int64Array:
        """Return [P] the weights of the table's partitions.

        Raises:
            AssignmentError: A weight is not positive, or their sum is too large.
        """
        return self._fit(weights_of, weights, table)

    def loads(self, loads: Rows, table: TopicTable) -> Int64Array:
        """Return [P] the loads of the table's partitions.

        Raises:
            AssignmentError: A load is negative, or their sum is too large.
        """
        return self._fit(loads_of, loads, table)

    def _fit(self, fit: _Fit, values: Rows, table: TopicTable) -> Int64Array:
        with self._lock:
            last = self._fitted.get(fit)
            if last is not None and last[0] is values and last[1] is table:
                return last[2]
            counts = dict(zip(table.names, table.counts.tolist(), strict=True))
            fitted = fit(fit_weights(values, counts), table)
            self._fitted[fit] = (values, table, fitted)
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


def problem_of(
    members: Sequence[PlanMember],
    cluster: SettledCluster,
    mode: Mode,
    *,
    weights: GroupWeights | None = None,
    tables: TopicTables | None = None,
) -> Problem:
    """Return the assignment problem of these members on this cluster, by measured bytes where these are used and given.

    Topics that are not in the cluster are left out; `planner.coverage` decides which those may be.

    Args:
        members: The group's members.
        cluster: The racks, and the replicas of the topics.
        mode: How the group is planned.
        weights: Weights and loads of partitions by topic.
        tables: The group's tables, if more problems of it are built.
    """
    tables = tables or TopicTables()
    learned = weights.capacities if weights is not None else _NOTHING
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
                **_carries(member, mode.members, learned),
            )
            for member in members
        ],
        claims_of([member.owned for member in members], table),
        weights=tables.weights(weights, table) if weights and mode.weighs_bytes else None,
        loads=tables.loads(weights.loads, table)
        if weights is not None and (learned or (weights and mode.balances_traffic))
        else None,
    )


class _Carried(TypedDict, total=False):
    capacity: float
    max_partitions: int | None


def _carries(member: PlanMember, rules: Sequence[MemberRule], learned: Mapping[str, float]) -> _Carried:
    """Return what the first rule that fits says of a member; capacities that were learned count for more."""
    names = (member.client_id, member.instance_id or "", member.client_host.removeprefix("/"))
    carried: _Carried = {}
    for rule in rules:
        if any(name and fits(rule.match, name) for name in names):
            carried = {"capacity": rule.capacity, "max_partitions": rule.max_partitions}
            break
    if learned:
        carried["capacity"] = learned.get(member_key(member.id, member.instance_id)) or median(learned.values())
    return carried


def claims_of(owned: Sequence[TopicPartitions], table: TopicTable) -> OwnedClaims:
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
    return OwnedClaims(
        member=np.repeat(np.arange(len(owned)), counts),
        topic=np.repeat(np.concatenate(topics), np.concatenate(sizes)),
        number=np.concatenate([np.empty(0, np.int64), *(one.flat for one in owned)], dtype=np.int64),
    )


def partitions_changed(problem: Problem, members: Sequence[PlanMember], cluster: SettledCluster) -> bool:
    """Return whether partitions that exist lack an owner, or have one that cannot keep them.

    Owned partitions that no longer exist are no change: members have nothing to do about them.
    """
    read: BoolArray = np.any(problem.subscriptions, axis=0)
    if bool(np.any(read[problem.topic_of] & (problem.owner == NOBODY))):
        return True
    return sum(_existing(member.owned, cluster) for member in members) != int(np.count_nonzero(problem.owner != NOBODY))


def _existing(owned: TopicPartitions, cluster: SettledCluster) -> int:
    counts = np.array([len(cluster.topics.get(name, ())) for name in owned.names], np.int64)
    return int(np.count_nonzero(owned.flat < np.repeat(counts[owned.run_names], owned.run_sizes)))
