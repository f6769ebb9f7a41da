"""Prometheus metrics of money, findings, replication and producers, computed from the report at each scrape."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from samerack.cluster.view import NoRack
from samerack.common.money import PriceTable
from samerack.common.records import LEADING
from samerack.reporting.costs import summed
from samerack.reporting.evidence import Code
from samerack.reporting.report import Report
from samerack.reporting.report_service import ReportService
from samerack.traffic.board import Published
from samerack.traffic.log_growth import RackPair
from samerack.traffic.metrics import OTHER, BoundedCounters, Places, SeriesLimits, counter, gauge
from samerack.traffic.snapshot import GroupTraffic

_VERDICT_SECONDS: Final = 60.0
"""Findings of a scrape may be this old: a verdict over thousands of groups takes longer than a scrape should."""
_Labels: TypeAlias = tuple[str, str, str, str]
_PAIR: Final = ("leader_rack", "follower_rack")
_FLOW_LABELS: Final = ("group", "topic", "client_rack", "replica_rack")


@dataclass(eq=False, repr=False)
class Ledger:
    """Dollars by group since the agent's start that its bytes would have cost under the group's own assignor.

    They never decrease while the board has the group's bytes; it receives every publication of the board.

    `own_share` returns the cross-rack share of a group's own assignor.
    """

    prices: PriceTable
    roles: Callable[[], Mapping[str, str]]
    own_share: Callable[[GroupTraffic], float | None]
    _dollars: dict[str, float] = field(default_factory=dict, init=False)
    _unknown: set[str] = field(default_factory=set, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def take(self, published: Published) -> None:
        """Add what groups that this agent counts have read since the last publication.

        While the agent leads, it adds the share of the group's own assignor, or nothing if that is not known; else
        what really crossed, since the group's own assignor caused that.
        """
        roles = self.roles()
        groups = {group.group: group for group in published.snapshot.groups}
        with self._lock:
            kept = groups.keys() | {key.group for key in published.totals}
            self._dollars = {name: dollars for name, dollars in self._dollars.items() if name in kept}
            self._unknown &= kept
        for name, read in summed(published.counted, lambda flow: flow.key.group).items():
            group = groups.get(name)
            booked: float | None = read.known_crossing
            if group is not None and roles.get(name) == LEADING:
                booked = read.crossing_at(self.own_share(group))
            with self._lock:
                if booked is None:
                    self._unknown.add(name)
                else:
                    self._unknown.discard(name)
                    self._dollars[name] = self._dollars.get(name, 0.0) + self.prices.dollars(booked)

    def dollars(self) -> dict[str, float]:
        """Return dollars by group since the agent's start, without groups for which they are not known now."""
        with self._lock:
            return {group: dollars for group, dollars in self._dollars.items() if group not in self._unknown}


class MoneyCollector(Collector):
    """Collects the metric families of this module."""

    def __init__(
        self,
        reports: ReportService,
        ledger: Ledger,
        *,
        limits: SeriesLimits,
        active: Callable[[], bool] = lambda: True,
    ) -> None:
        """Prepare; `active` says whether this agent counts any group.

        A standby shows no findings, as it lacks the racks from others.
        """
        self._active = active
        self._reports = reports
        self._ledger = ledger
        self._flows: BoundedCounters[_Labels] = BoundedCounters(limits.flows, _other)
        self._groups: Places[str] = Places(limits.groups)
        self._lock = threading.Lock()

    def collect(self) -> Iterator[Metric]:
        """Yield all families from one report."""
        report = self._reports.report()
        with self._lock:
            groups = self._groups.seen({group.group: group.wire_bytes or 0 for group in report.groups})
        crossing = self._crossing()
        known = self._flows.series(crossing, lambda labels: labels[0] not in groups)
        yield self._cross_rack_dollars(known)
        # nothing could be taken off what a group would have cost for what it cost in a common series
        parted = {labels[0] for labels in crossing.keys() - known.keys()}
        yield self._own_dollars({group for group, has in groups.items() if has and group not in parted})
        yield _own_shares(report, groups)
        yield _prices(report)
        yield self._brokers()
        yield self._findings()

    def _crossing(self) -> dict[_Labels, tuple[float]]:
        """Return the bytes that crossed racks."""
        sums: dict[_Labels, float] = defaultdict(float)
        for key, volume in self._reports.board.totals().items():
            if key.cross_rack:
                sums[key.group, key.topic, key.client_rack, key.replica_rack] += volume.wire_bytes
        return {labels: (wire_bytes,) for labels, wire_bytes in sums.items()}

    def _cross_rack_dollars(self, known: Mapping[_Labels, tuple[float, ...]]) -> Metric:
        return counter(
            "samerack_cross_rack_dollars",
            "Dollars for bytes that crossed racks.",
            _FLOW_LABELS,
            ((labels, self._reports.prices.dollars(wire_bytes)) for labels, (wire_bytes,) in sorted(known.items())),
        )

    def _own_dollars(self, groups: Collection[str]) -> Metric:
        return counter(
            "samerack_own_assignor_dollars",
            "Dollars that the same bytes would have cost with the group's own assignor.",
            ("group",),
            (((group,), dollars) for group, dollars in sorted(self._ledger.dollars().items()) if group in groups),
        )

    def _brokers(self) -> Metric:
        brokers = self._reports.board.latest().cluster.brokers.values()
        racks = Counter("" if isinstance(rack, NoRack) else rack for rack in brokers if rack is not NoRack.UNKNOWN)
        by_rack = (((rack,), count) for rack, count in sorted(racks.items()))
        return gauge("samerack_brokers", "Brokers by rack.", ("rack",), by_rack)

    def _findings(self) -> Metric:
        series: list[tuple[tuple[str], int]] = []
        if self._active():
            findings = self._reports.verdict(max_age_seconds=_VERDICT_SECONDS).findings
            found = Counter(finding.code for finding in findings)
            series = [((code.value,), found[code]) for code in Code]
        return gauge("samerack_findings", "Findings of `samerack verify`, by kind.", ("finding",), series)


def _other(labels: _Labels) -> _Labels:
    _, _, client_rack, replica_rack = labels
    return OTHER, OTHER, client_rack, replica_rack


def _own_shares(report: Report, groups: Mapping[str, bool]) -> Metric:
    return gauge(
        "samerack_own_assignor_ratio",
        "Cross-rack share with the group's own assignor.",
        ("group",),
        (((group.group,), group.own_share) for group in report.groups if groups[group.group]),
    )


def _prices(report: Report) -> Metric:
    prices = report.prices
    directions = {"sent": prices.dollars_per_gb_sent, "received": prices.dollars_per_gb_received}
    return gauge(
        "samerack_price_dollars_per_gigabyte",
        "Price per GB that leaves a rack (sent) or enters it (received).",
        ("provider", "direction"),
        (((prices.provider, direction), price) for direction, price in directions.items()),
    )


class BillCollector(Collector):
    """Exports what the measuring agent counted; an agent that does not measure it has no series."""

    def __init__(self, reports: ReportService, *, limits: SeriesLimits) -> None:
        """Prepare; pairs of racks beyond the limit are added up."""
        self._reports = reports
        self._pairs: BoundedCounters[RackPair] = BoundedCounters(limits.pairs, lambda _: (OTHER, OTHER))

    def collect(self) -> Iterator[Metric]:
        """Yield all families from one snapshot."""
        totals = self._reports.board.latest().replication.totals
        known = self._pairs.series({pair: (size, self._dollars(pair, size)) for pair, size in totals.carried.items()})
        carried = ((pair, size) for pair, (size, _) in sorted(known.items()))
        dollars = ((pair, cost) for pair, (_, cost) in sorted(known.items()) if cost)
        yield counter("samerack_replication_bytes", "Bytes of logs that followers copied.", _PAIR, carried)
        yield counter("samerack_replication_dollars", "Dollars for what followers copied across racks.", _PAIR, dollars)
        produced = (((rack,), size) for rack, size in sorted(totals.produced.items()))
        yield counter("samerack_produced_bytes", "Bytes of logs that producers sent.", ("leader_rack",), produced)
        yield self._producers()

    def _dollars(self, pair: RackPair, size: float) -> float:
        return self._reports.prices.dollars(size) if "" not in pair and pair[0] != pair[1] else 0.0

    def _producers(self) -> Metric:
        bill = self._reports.report().bill
        producers = bill.producers if bill is not None else None
        cases = {case: getattr(producers, case, None) for case in ("least", "random", "most")}
        return gauge(
            "samerack_producer_dollars_per_month",
            "Dollars a month if the minimum, a random part or the maximum of what producers send crosses racks.",
            ("case",),
            (((case,), crossing.dollars_per_month) for case, crossing in cases.items() if crossing is not None),
        )
