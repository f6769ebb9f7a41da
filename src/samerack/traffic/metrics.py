"""Metrics of consumer traffic: consumed bytes and records, shares, the cost of measuring, failures by family.

They are read from one publication, so that a scrape never sees half of an update. Series are bounded
(`MAX_SERIES`): that number of keys have their own, the largest first, and others are added up under the group
and topic `(other)`, without gauges of groups. A key that is gone leaves its place to another. Counters never go down:
a key that gets a place later begins at 0 there, and what it had been before stays in the common series.
"""

from __future__ import annotations

import threading
from collections import Counter as Count
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from operator import add, sub
from typing import Final, Generic, Self, TypeAlias, TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from samerack.traffic.board import TrafficBoard
from samerack.traffic.gaps import HAND_OVER
from samerack.traffic.lag import lag_by_key, oldest_by_key
from samerack.traffic.snapshot import Family, FlowKey, GroupTraffic, LowerBound, Number, Totals, TrafficSnapshot

Key = TypeVar("Key")

MAX_SERIES: Final = 50_000
"""Series of traffic and money together: more is a burden to Prometheus and to a scrape."""
OTHER: Final = "(other)"
"""The name under which series beyond the bound are added up; no topic, group or rack can have it."""

_PER_FLOW: Final = 3
"""Bytes, records and dollars."""
_PER_TOPIC: Final = 4
"""Lag in records and in seconds, and the partitions that each lacks."""
_PER_GROUP: Final = 11
"""Shares, what is not counted by reason, and two of money."""
_PER_PAIR: Final = 2
"""Bytes and dollars of replication."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesLimits:
    """How many flows (groups with topic, racks and method), topics of groups, groups and pairs of racks have series.

    All metrics together stay below a bound.
    """

    flows: int
    topics: int
    groups: int
    pairs: int

    @classmethod
    def of(cls, most: int) -> Self:
        """Divide a number of series: 55 of 100 are for flows, 25 for topics, the rest for groups and racks."""
        return cls(
            flows=max(1, most * 55 // 100 // _PER_FLOW),
            topics=max(1, most * 25 // 100 // _PER_TOPIC),
            groups=max(1, most * 16 // 100 // _PER_GROUP),
            pairs=max(1, most * 4 // 100 // _PER_PAIR),
        )


class Places(Generic[Key]):
    """Which keys have series of their own: the largest of those that come first, as long as they are there."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.known: Mapping[Key, bool] = {}
        """Whether a key has a place."""

    def seen(self, sizes: Mapping[Key, float], gone: Callable[[Key], bool] = lambda _: False) -> Mapping[Key, bool]:
        """Take all keys that there are now, with their sizes; return which have a place, in their order.

        A key that is `gone`, and only counted still, has no place any more once another one needs it.
        """
        held = [key for key in sizes if self.known.get(key)]
        waiting = [key for key in sizes if not self.known.get(key) and not gone(key)]
        over = len(held) + len(waiting) - self._most
        if over > 0:
            left = set(sorted(filter(gone, held), key=lambda key: sizes[key])[:over])
            held = [key for key in held if key not in left]
            waiting = sorted(waiting, key=lambda key: -sizes[key])[: self._most - len(held)]
        places = {*held, *waiting}
        self.known = {key: key in places for key in sizes}
        return self.known


class BoundedCounters(Generic[Key]):
    """Counters by key, each of several numbers, with common ones for keys beyond the bound.

    A key that gets a place later begins at 0 there; what it had added to a common series stays in that.
    """

    def __init__(self, most: int, other: Callable[[Key], Key]) -> None:
        """Prepare: `most` keys have series of their own; `other` returns the common series of a further one."""
        self._places: Places[Key] = Places(most)
        self._other = other
        self._last: dict[Key, tuple[float, ...]] = {}
        self._added: dict[Key, tuple[float, ...]] = {}
        """What each key has added to a common series."""
        self._common: dict[Key, tuple[float, ...]] = {}
        self._lock = threading.Lock()

    def series(
        self, values: Mapping[Key, tuple[float, ...]], gone: Callable[[Key], bool] = lambda _: False
    ) -> dict[Key, tuple[float, ...]]:
        """Take all counters that there are now; return those of each series.

        The common ones keep what keys that are gone had added.
        """
        with self._lock:
            before = {key for key, has in self._places.known.items() if has}
            places = self._places.seen({key: now[0] for key, now in values.items()}, gone)
            added: dict[Key, tuple[float, ...]] = {}
            own: dict[Key, tuple[float, ...]] = {}
            for key, now in values.items():
                nothing = (0.0,) * len(now)
                last, shared = self._last.get(key, nothing), self._added.get(key, nothing)
                if not places[key] or (key in self._last and key not in before):
                    step, name = _less(now, last), self._other(key)
                    shared = _more(shared, step)
                    self._common[name] = _more(self._common.get(name, nothing), step)
                added[key] = shared
                if places[key]:
                    own[key] = _less(now, shared)
            self._added, self._last = added, dict(values)
            return own | self._common


def _more(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(map(add, one, other))


def _less(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(map(sub, one, other))


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
        self._flows: BoundedCounters[FlowKey] = BoundedCounters(limits.flows, _other)
        self._groups: Places[str] = Places(limits.groups)
        self._topics: Places[_Topic] = Places(limits.topics)
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
            topics = self._topics.seen(
                {
                    (group.group, topic): inf if lag.value is None else lag.value
                    for group in mine
                    for topic, lag in group.lag.items()
                }
            )
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
        records = lag_by_key(_by_topic(((group.group, group.lag) for group in mine), topics))
        yield _lag("samerack_lag_records", "Records of a topic that the group has not read yet, at least.", records)
        yield _unknown("samerack_lag_unknown_partitions", "Partitions that samerack_lag_records lacks.", records)
        ages = oldest_by_key(_by_topic(((group.group, group.lag_seconds) for group in mine), topics))
        yield _lag(
            "samerack_lag_seconds", "Age of a topic's oldest record that the group has not read yet, at least.", ages
        )
        yield _unknown("samerack_lag_seconds_unknown_partitions", "Partitions that samerack_lag_seconds lacks.", ages)
        yield counter(
            "samerack_not_counted_records",
            "Upper bound of records that no figure includes, by reason.",
            ("group", "reason"),
            (((group.group, why.value), count) for group in groups for why, count in sorted(group.not_counted.items())),
        )
        kinds = Count(group.kind for group in mine)
        yield gauge(
            "samerack_observed_groups",
            "Groups that are observed, by kind.",
            ("kind",),
            (((kind,), number) for kind, number in sorted(kinds.items())),
        )
        refused = Count(gap.what for gap in snapshot.gaps if gap.refused)
        yield gauge(
            "samerack_missing_permissions",
            "Questions that the brokers refused in the last cycle.",
            ("family",),
            (((family.value,), refused[family]) for family in Family),
        )

    def _consumed(self, totals: Totals, there: Collection[str]) -> Iterator[Metric]:
        counted = {key: (float(volume.wire_bytes), float(volume.records)) for key, volume in totals.items()}
        series = self._flows.series(counted, lambda key: key.group not in there)
        labels = {key: [getattr(key, label) for label in _FLOW_LABELS] for key in series}
        sizes = ((labels[key], size) for key, (size, _) in series.items())
        counts = ((labels[key], count) for key, (_, count) in series.items())
        yield counter("samerack_consumed_bytes", "Bytes on the wire that consumers read.", _FLOW_LABELS, sizes)
        yield counter("samerack_consumed_records", "Records that consumers read, by offsets.", _FLOW_LABELS, counts)


def _by_topic(
    groups: Iterable[tuple[str, Mapping[str, LowerBound[Number]]]], places: Mapping[_Topic, bool]
) -> Iterator[tuple[_Topic, LowerBound[Number]]]:
    """Yield the lag of each topic of a group, under a common key that of those without a place."""
    for group, topics in groups:
        for topic, lag in topics.items():
            yield (group, topic) if places.get((group, topic)) else (OTHER, OTHER), lag


def _other(key: FlowKey) -> FlowKey:
    return replace(key, group=OTHER, topic=OTHER)


def _lag(name: str, text: str, lags: Mapping[_Topic, LowerBound[Number]]) -> Metric:
    return gauge(name, text, _TOPIC_LABELS, ((key, lag.value) for key, lag in lags.items()))


def _unknown(name: str, text: str, lags: Mapping[_Topic, LowerBound[Number]]) -> Metric:
    return gauge(name, text, _TOPIC_LABELS, ((key, lag.unknown) for key, lag in lags.items()))


def _share(name: str, text: str, values: Iterable[tuple[GroupTraffic, float | None]]) -> Metric:
    return gauge(name, text, ("group",), (((group.group,), value) for group, value in values))


Series: TypeAlias = Iterable[tuple[Sequence[str], float | None]]
"""Values by their labels; one that is not known has no series."""


def gauge(name: str, text: str, labels: Sequence[str], series: Series) -> Metric:
    """Return a family of gauges."""
    return _filled(GaugeMetricFamily(name, text, labels=labels), series)


def counter(name: str, text: str, labels: Sequence[str], series: Series) -> Metric:
    """Return a family of counters."""
    return _filled(CounterMetricFamily(name, text, labels=labels), series)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, series: Series) -> Metric:
    for labels, value in series:
        if value is not None:
            family.add_metric(labels, float(value))
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
