"""Builds the snapshot of one group from what a cycle read: members, partitions, shares, blind spots.

The best plan is computed again only where the group, its replicas or its weights have changed, and within a time budget
per cycle; until then the last one counts. Its share is by what is read now, not by the weights that it was made with.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from math import isnan
from typing import Final

import numpy as np

from samerack.assignors.evaluate import evaluate, share_of_owners
from samerack.assignors.problem import Int32Array, Problem
from samerack.assignors.streams.whole_tasks import WholeTasks
from samerack.cluster.view import ClusterView, SettledCluster
from samerack.common.weights import GroupWeights
from samerack.settings.all_settings import Settings
from samerack.traffic import shares
from samerack.traffic.broker_poller import BrokerPoller, GroupReading
from samerack.traffic.lag import Paces, lag_by_key, lag_records, lag_seconds, oldest_by_key
from samerack.traffic.snapshot import (
    BlindSpot,
    GroupTraffic,
    ObservedGroup,
    PartitionTraffic,
    Shares,
    Uncounted,
    long_run_rates,
)
from samerack.traffic.throughput import ReadRates
from samerack.traffic.weights import WeightBook

# Keeps the partitions of a group's snapshot as rows of numbers; each object is made when it is read.
#
# There are hundreds of thousands of partitions, and the last snapshot is there until the next one is published. As
# objects with their numbers they take four times as much.

_NONE: Final = -1
"""For None: no offset and no lag is negative."""


class PartitionRows(Collection[PartitionTraffic]):
    """The partitions of one group."""

    __slots__ = ("_keys", "_numbers", "_readers", "_records")

    def __init__(self, partitions: Collection[PartitionTraffic]) -> None:
        shared: dict[tuple[str | None, str | None], tuple[str | None, str | None]] = {}
        readers = ((partition.member, partition.serving_rack) for partition in partitions)
        self._keys = tuple(partition.partition for partition in partitions)
        self._readers = tuple(shared.setdefault(reader, reader) for reader in readers)
        self._records = np.array(
            [
                [
                    _NONE if count is None else count
                    for count in (partition.lag_records, partition.readable_records, partition.committed)
                ]
                for partition in partitions
            ],
            dtype=np.int64,
        )
        # None gets not a number
        self._numbers = np.array(
            [
                (partition.bytes_per_second, partition.written_per_second, partition.lag_seconds)
                for partition in partitions
            ],
            dtype=np.float64,
        )

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, partition: object) -> bool:
        """Whether one of them is as this one."""
        return any(one == partition for one in self)

    def __iter__(self) -> Iterator[PartitionTraffic]:
        rows = zip(self._keys, self._readers, self._records.tolist(), self._numbers.tolist(), strict=True)
        for key, (member, rack), records, numbers in rows:
            lag, readable, committed = (None if count == _NONE else count for count in records)
            read, written, seconds = (None if isnan(number) else number for number in numbers)
            yield PartitionTraffic(
                partition=key,
                member=member,
                serving_rack=rack,
                bytes_per_second=read,
                written_per_second=written,
                lag_records=lag,
                lag_seconds=seconds,
                readable_records=readable,
                committed=committed,
            )


_SOLVING_SECONDS: Final = 1.0
"""One cycle spends no more on best shares; with thousands of new groups the rest follows in the next cycles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Best:
    """The best plan: its cross-rack share by the weights that it was made by, and whether these are of bytes.

    `plan` are problem and owners, if the share depends on what is read now: owners of thousands of groups are kept only
    where they read across racks.
    """

    share: float | None = None
    by_bytes: bool = False
    plan: tuple[Problem, Int32Array] | None = None

    def share_now(self, partitions: Iterable[PartitionTraffic]) -> float | None:
        """Return its cross-rack share by what is read in the long run."""
        return self.share if self.plan is None else share_of_owners(*self.plan, long_run_rates(partitions))


def _best(problem: Problem, owner: Int32Array | None) -> _Best:
    if owner is None:
        return _Best(by_bytes=problem.weights is not None)
    cost, by_bytes = evaluate(problem, owner), problem.weights is not None
    depends = by_bytes and cost.known_cross_rack
    return _Best(share=cost.known_share, by_bytes=by_bytes, plan=(problem, owner) if depends else None)


@dataclass(slots=True, kw_only=True)
class _Solved:
    """A problem with its inputs, and its best plan."""

    group: ObservedGroup
    topics: tuple[object, ...]
    weights: GroupWeights | None
    rack_aware: bool
    problem: Problem | None
    whole: WholeTasks | None
    best: _Best = field(default_factory=_Best)
    solved: bool = False


class SnapshotBuilder:
    """Builds snapshots; caches problems and best plans by group."""

    def __init__(self, settings: Settings, weights: WeightBook, read_rates: ReadRates) -> None:
        self._leading = settings.leading
        self._weights = weights
        self._read_rates = read_rates
        self._paces = Paces()
        self._solved: dict[str, _Solved] = {}
        self._spent_seconds = 0.0
        self._view: ClusterView | None = None
        self._as_last_seen = SettledCluster()
        self._rewound: set[str] = set()
        self._sampled: set[str] = set()
        self._left: dict[str, Counter[Uncounted]] = {}

    def _cluster(self, view: ClusterView) -> SettledCluster:
        """Return the cluster as planning takes it; the same object while the view is the same."""
        if view is not self._view:
            self._view, self._as_last_seen = view, shares.as_last_seen(view)
        return self._as_last_seen

    def forget(self, groups: Iterable[str]) -> None:
        """Forget groups that are gone."""
        groups = tuple(groups)
        self._paces.forget(groups)
        for group in groups:
            self._solved.pop(group, None)
            self._rewound.discard(group)
            self._sampled.discard(group)
            self._left.pop(group, None)

    def rest(self) -> None:
        """End the cycle: the next one may spend time on best shares again."""
        self._spent_seconds = 0.0

    def build(
        self, reading: GroupReading, poller: BrokerPoller, *, now: float, window_seconds: float, counts: bool = True
    ) -> GroupTraffic:
        """Build the snapshot of one group from what was read of it, and of the cluster at `now` (monotonic).

        `counts` is whether this agent has measured since the last poll: else another one names what is not counted.
        """
        group, state = reading.group, poller.state
        name = group.group
        partitions = self._partitions(reading, poller, now=now)
        solved = self._solve(group, state.cluster, rack_aware=poller.rack_aware)
        racks = {member.id: member.rack.rack for member in group.members}
        self._left.setdefault(name, Counter()).update(reading.spans.left if counts else {})
        flows = reading.flows if reading.answered else ()
        read = sum(flow.volume.wire_bytes for flow in flows)
        is_measured = reading.answered and window_seconds > 0 and state.curves
        return GroupTraffic(
            group=name,
            kind=group.kind,
            state=group.state,
            assignor=group.assignor,
            members=tuple(sorted(group.members, key=lambda member: member.id)),
            exact_members=reading.exact_members,
            partitions=PartitionRows(partitions),
            lag=lag_by_key((one.topic, one.lag_records) for one in partitions),
            lag_seconds=oldest_by_key((one.topic, one.lag_seconds) for one in partitions),
            flows=flows,
            shares=Shares(
                present_bytes=shares.measured(flows),
                present_partitions=shares.by_partitions(partitions, racks),
                optimal=solved.best.share_now(partitions),
                optimal_by="bytes" if solved.best.by_bytes else "partitions",
                random=shares.random_share(state.cluster),
            ),
            bytes_per_second=read / window_seconds if is_measured else None,
            blind_spots=self._blind_spots(reading, poller, behind=any(one.lag_records for one in partitions)),
            problem=solved.problem,
            whole_tasks=solved.whole,
            not_counted=dict(self._left[name]),
            paces=self._paces.measured(
                name, partitions, now=now, poll_seconds=0.0 if state.at is None else now - state.at
            )
            if reading.answered
            else {},
            note=group.note,
            record_rates={partition: rate.value for partition, rate in reading.records.items()},
        )

    def _partitions(self, reading: GroupReading, poller: BrokerPoller, *, now: float) -> list[PartitionTraffic]:
        result = []
        state, timelines = poller.state, poller.timelines.known
        partitions = sorted({*reading.owners, *reading.committed})
        rates = poller.production.rates(partitions)
        read = self._read_rates.rates(reading.group.group) if reading.answered else {}
        for partition in partitions:
            owner = reading.owners.get(partition)
            log, offset = state.logs.get(partition), reading.committed.get(partition)
            records = readable = None
            if log is not None and reading.answered:  # the log has grown, and what is read of it meanwhile is not known
                records = lag_records(log.start, log.end, offset)
                if offset is not None:
                    readable = max(0, state.stable.get(partition, log.end) - max(offset, log.start))
            written = rates.get(partition)
            seconds = lag_seconds(records, offset, timelines.get(partition), now=now)
            result.append(
                PartitionTraffic(
                    partition=partition,
                    member=owner.id or None if owner is not None else None,
                    serving_rack=poller.rack_of(poller.serving(partition, owner)) or None,
                    bytes_per_second=None if partition in poller.rate_lost else read.get(partition),
                    written_per_second=written.value if written is not None else None,
                    lag_records=records,
                    lag_seconds=seconds,
                    readable_records=readable,
                    committed=offset,
                )
            )
        return result

    def _solve(self, group: ObservedGroup, view: ClusterView, *, rack_aware: bool) -> _Solved:
        cluster = self._cluster(view)
        weights = self._weights.weights(group.group) if self._leading.of(group.group).uses_traffic else None
        topics = tuple(
            cluster.topics.get(topic) for topic in sorted({t for member in group.members for t in member.topics})
        )
        last = self._solved.get(group.group)
        same = (
            last is not None
            and last.group is group
            and last.weights is weights
            and last.rack_aware == rack_aware
            and last.topics == topics
        )
        if last is None or not same:
            problem = shares.problem_of(
                group, cluster, rack_aware_fetch=rack_aware, leading=self._leading, weights=weights
            )
            last = _Solved(
                group=group,
                topics=topics,
                weights=weights,
                rack_aware=rack_aware,
                problem=problem,
                whole=None if problem is None else shares.whole_tasks_of(group, problem),
                best=last.best if last is not None and problem is not None else _Best(),
            )
            self._solved[group.group] = last
        if not last.solved and last.problem is not None and self._spent_seconds < _SOLVING_SECONDS:
            begun = time.perf_counter()
            last.best = _best(last.problem, shares.solve(group, last.problem, last.whole, self._leading))
            last.solved = True
            self._spent_seconds += time.perf_counter() - begun
        return last

    def _blind_spots(self, reading: GroupReading, poller: BrokerPoller, *, behind: bool) -> tuple[BlindSpot, ...]:
        group, name, state = reading.group, reading.group.group, poller.state
        if reading.spans.rewound:
            self._rewound.add(name)
        if any(span.partition in poller.sizes.sampled_partitions for span in reading.spans.spans):
            self._sampled.add(name)
        guessed = any(
            member.rack.rack is not None
            and member.rack.fetches_with_rack
            and not poller.is_probed(partition, member.rack.rack)
            for partition, member in reading.owners.items()
        )
        racks_unknown = any(member.rack.rack is None for member in group.members) or any(
            not isinstance(rack, str) for rack in state.cluster.brokers.values()
        )
        estimated = any(member.id not in reading.exact_members for member in group.members)
        found = {
            BlindSpot.NO_COMMITS: bool(reading.spans.uncommitted),
            BlindSpot.REWOUND: name in self._rewound,
            BlindSpot.PREFETCHED: estimated,
            BlindSpot.RACKS_UNKNOWN: racks_unknown,
            BlindSpot.SERVING_GUESSED: guessed,
            BlindSpot.SIZES_UNKNOWN: not state.curves and bool(reading.owners or reading.committed),
            BlindSpot.SAMPLED: name in self._sampled,
            BlindSpot.STATE: any(one.streams is not None and one.streams.standby for one in group.members),
            BlindSpot.SHARED: group.kind == "share",
            BlindSpot.YOUNG: not reading.is_whole and (behind or any(flow.volume.records for flow in reading.flows)),
            BlindSpot.PARTITIONS_UNKNOWN: not group.owned_known,
        }
        return tuple(spot for spot, holds in found.items() if holds)
