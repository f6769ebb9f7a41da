"""Metrics of consumer traffic: consumed bytes and records, shares, the cost of measuring, failures by family.

They are read from one publication, so that a scrape never sees half of an update. Series are bounded
(`traffic.max_series`): what is beyond is added up under the group and topic `(other)`, without gauges of groups.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Self, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from samerack.traffic.board import TrafficBoard
from samerack.traffic.gaps import HAND_OVER
from samerack.traffic.lag import lag_by_key, oldest_by_key
from samerack.traffic.lower_bound import LowerBound, Number
from samerack.traffic.series import OTHER, BoundedCounters, Places, SeriesLimits
from samerack.traffic.snapshot import Family, FlowKey, GroupTraffic, Totals, TrafficSnapshot

_Topic: TypeAlias = tuple[str, str]
"""A group and one of its topics."""

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_TOPIC_LABELS: Final = ("group", "topic")
_FLOW_LABELS: Final = ("group", "topic", "client_rack", "replica_rack", "method")
_INTERNAL: Final = "internal"


class TrafficCollector(Collector):
    """Exports the board as metrics."""

    def __init__(
        self,
        board: TrafficBoard,
        *,
        limits: SeriesLimits,
        mine: Callable[[str], bool] = lambda _group: True,
    ) -> None:
        """Prepare; `mine` says whether this agent exports a group: the totals of others are empty anyway."""
        self._board = board
        self._mine = mine
        self._max_topics = limits.topics
        self._flows: BoundedCounters[FlowKey] = BoundedCounters(limits.flows, _other)
        self._groups: Places[str] = Places(limits.groups)
        self._lock = threading.Lock()

    def describe(self) -> Iterable[Metric]:
        """Return names only: nothing is known at registration."""
        return self._families(TrafficSnapshot(), {})

    def collect(self) -> Iterator[Metric]:
        """Return all families from one publication."""
        published = self._board.published()
        return self._families(published.snapshot, published.totals)

    def _families(self, snapshot: TrafficSnapshot, totals: Totals) -> Iterator[Metric]:
        yield from self._consumed(totals, {group.group for group in snapshot.groups})
        mine = [group for group in snapshot.groups if self._mine(group.group)]
        with self._lock:
            places = self._groups.seen({group.group: group.bytes_per_second or 0.0 for group in mine})
        groups = [group for group in mine if places[group.group]]
        yield _share(
            "samerack_cross_rack_ratio",
            "Share of consumed bytes that crossed racks in traffic.window_seconds.",
            ((group, group.shares.present_bytes) for group in groups),
        )
        yield _share(
            "samerack_cross_rack_partition_ratio",
            "Share of assigned partitions that are read from another rack.",
            ((group, group.shares.present_partitions) for group in groups),
        )
        yield _share(
            "samerack_optimal_ratio",
            "Share that the best balanced assignment would read across racks.",
            ((group, group.shares.optimal) for group in groups),
        )
        yield _share(
            "samerack_random_ratio",
            "1 - 1/R with R racks of brokers: the share without regard to racks.",
            ((group, group.shares.random) for group in groups),
        )
        yield _share(
            "samerack_largest_topic_ratio",
            "Largest share of a topic's partitions on one member.",
            ((group, group.topic_share.share if group.topic_share else None) for group in groups),
        )
        yield _share(
            "samerack_busiest_member_times_mean",
            "Bytes per second of the busiest member, over the mean.",
            ((group, group.busiest.times_mean if group.busiest else None) for group in groups),
        )
        records = self._by_topic(((group.group, group.lag) for group in mine), lag_by_key)
        yield _lag("samerack_lag_records", "Records of a topic that the group has not read yet, at least.", records)
        yield _unknown("samerack_lag_unknown_partitions", "Partitions that samerack_lag_records lacks.", records)
        ages = self._by_topic(((group.group, group.lag_seconds) for group in mine), oldest_by_key)
        yield _lag(
            "samerack_lag_seconds", "Age of a topic's oldest record that the group has not read yet, at least.", ages
        )
        yield _unknown("samerack_lag_seconds_unknown_partitions", "Partitions that samerack_lag_seconds lacks.", ages)
        left = CounterMetricFamily(
            "samerack_not_counted_records",
            "Upper bound of records that no figure includes, by reason.",
            labels=["group", "reason"],
        )
        for group in groups:
            for why, count in sorted(group.not_counted.items()):
                left.add_metric([group.group, why.value], count)
        yield left
        observed = GaugeMetricFamily("samerack_observed_groups", "Groups that are observed, by kind.", labels=["kind"])
        kinds: dict[str, int] = {}
        for group in mine:
            kinds[group.kind] = kinds.get(group.kind, 0) + 1
        for kind, number in sorted(kinds.items()):
            observed.add_metric([kind], number)
        yield observed
        missing = GaugeMetricFamily(
            "samerack_missing_permissions", "Questions that the brokers refused in the last cycle.", labels=["family"]
        )
        for family in Family:
            missing.add_metric([family.value], sum(gap.refused for gap in snapshot.gaps if gap.what == family))
        yield missing

    def _by_topic(
        self,
        groups: Iterable[tuple[str, Mapping[str, LowerBound[Number]]]],
        together: Callable[[Iterable[tuple[_Topic, LowerBound[Number]]]], Mapping[_Topic, LowerBound[Number]]],
    ) -> Mapping[_Topic, LowerBound[Number]]:
        """Return the lag of each topic of a group, beyond the bound that of all further ones."""
        lags = ((group, topic, lag) for group, topics in groups for topic, lag in topics.items())
        named = (
            ((group, topic) if number < self._max_topics else (OTHER, OTHER), lag)
            for number, (group, topic, lag) in enumerate(lags)
        )
        return together(named)

    def _consumed(self, totals: Totals, there: Collection[str]) -> Iterator[Metric]:
        wire_bytes = CounterMetricFamily(
            "samerack_consumed_bytes",
            "Bytes on the wire that consumers read.",
            labels=_FLOW_LABELS,
        )
        records = CounterMetricFamily(
            "samerack_consumed_records",
            "Records that consumers read, by offsets.",
            labels=_FLOW_LABELS,
        )
        counted = {key: (float(volume.wire_bytes), float(volume.records)) for key, volume in totals.items()}
        for key, (size, count) in self._flows.series(counted, lambda key: key.group not in there).items():
            labels = [getattr(key, label) for label in _FLOW_LABELS]
            wire_bytes.add_metric(labels, size)
            records.add_metric(labels, count)
        yield wire_bytes
        yield records


def _other(key: FlowKey) -> FlowKey:
    return replace(key, group=OTHER, topic=OTHER)


def _lag(name: str, text: str, lags: Mapping[_Topic, LowerBound[Number]]) -> Metric:
    return _gauge(name, text, _TOPIC_LABELS, ((key, lag.value) for key, lag in lags.items()))


def _unknown(name: str, text: str, lags: Mapping[_Topic, LowerBound[Number]]) -> Metric:
    return _gauge(name, text, _TOPIC_LABELS, ((key, lag.unknown) for key, lag in lags.items()))


def _share(name: str, text: str, values: Iterable[tuple[GroupTraffic, float | None]]) -> Metric:
    return _gauge(name, text, ("group",), (((group.group,), value) for group, value in values))


def _gauge(name: str, text: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float | None]]) -> Metric:
    """Return a family of gauges, without what is not known."""
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values:
        if value is not None:
            family.add_metric(key, value)
    return family


class TrafficMetrics:
    """The measuring thread's own metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._cycles = Histogram(
            "samerack_traffic_cycle_seconds",
            "Time of one poll of offsets, log sizes and groups.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._errors = Counter(
            "samerack_traffic_errors",
            "Questions that failed or were refused, by family, and hand-overs between agents.",
            ["family"],
            registry=registry,
        )
        for what in (*Family, HAND_OVER, _INTERNAL):
            self._errors.labels(what)

    @classmethod
    def silent(cls) -> Self:
        """Return metrics that are not exported."""
        return cls(CollectorRegistry())

    def polled(self, seconds: float) -> None:
        """Record how long a cycle took."""
        self._cycles.observe(seconds)

    def failed(self, what: str | None) -> None:
        """Count a gap by what it is of, a `Family` mostly; None for an error in the agent."""
        self._errors.labels(what if what is not None else _INTERNAL).inc()
