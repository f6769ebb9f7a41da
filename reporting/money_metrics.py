"""Prometheus metrics of money and findings: computed from the report and the totals at each scrape."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from samerack.cluster.view import NoRack
from samerack.reporting.findings import Code
from samerack.reporting.ledger import Ledger
from samerack.reporting.report import Report
from samerack.reporting.report_service import ReportService
from samerack.traffic.model import FlowKey
from samerack.traffic.series import OTHER, SeriesLimit

_VERDICT_SECONDS: Final = 60.0
"""Findings of a scrape may be this old: a verdict over thousands of groups takes longer than a scrape should."""
_Labels: TypeAlias = tuple[str, str, str, str]
_FLOW_LABELS: Final = ("group", "topic", "client_rack", "replica_rack")


class MoneyCollector(Collector):
    """Collects the metric families of this module."""

    def __init__(
        self,
        reports: ReportService,
        ledger: Ledger,
        *,
        max_series: int = 20_000,
        active: Callable[[], bool] = lambda: True,
    ) -> None:
        """Prepare.

        Args:
            reports: The report.
            ledger: Money since the agent's start.
            max_series: Most series; further flows are summed under one topic.
            active: Whether this agent counts any group; a standby shows no findings, as it lacks the racks from others.
        """
        self._active = active
        self._reports = reports
        self._ledger = ledger
        self._series: SeriesLimit[_Labels] = SeriesLimit(max_series, _other)

    def collect(self) -> Iterator[Metric]:
        """Yields all families from one report."""
        report = self._reports.report()
        yield self._cross_rack_dollars()
        yield self._own_dollars()
        yield _own_shares(report)
        yield _prices(report)
        yield from self._brokers()
        yield self._findings()

    def _cross_rack_dollars(self) -> Metric:
        family = CounterMetricFamily(
            "samerack_cross_rack_dollars",
            "Dollars for bytes that crossed racks.",
            labels=_FLOW_LABELS,
        )
        sums: dict[_Labels, int] = defaultdict(int)
        for key, volume in self._reports.board.totals().items():
            if key.cross_rack:
                sums[self._series(_labels(key))] += volume.wire_bytes
        for labels, wire_bytes in sorted(sums.items()):
            family.add_metric(labels, self._reports.prices.dollars(wire_bytes))
        return family

    def _own_dollars(self) -> Metric:
        family = CounterMetricFamily(
            "samerack_own_assignor_dollars",
            "Dollars that the same bytes would have cost under the group's own assignor.",
            labels=("group",),
        )
        for group, dollars in sorted(self._ledger.dollars().items()):
            family.add_metric((group,), dollars)
        return family

    def _brokers(self) -> Iterator[Metric]:
        racks: Counter[str] = Counter()
        for rack in self._reports.board.latest().cluster.brokers.values():
            if rack is not NoRack.UNKNOWN:
                racks["" if isinstance(rack, NoRack) else rack] += 1
        family = GaugeMetricFamily("samerack_brokers", "Brokers by rack.", labels=("rack",))
        for name, count in sorted(racks.items()):
            family.add_metric((name,), count)
        yield family

    def _findings(self) -> Metric:
        family = GaugeMetricFamily(
            "samerack_findings", "What `samerack verify` finds wrong, by kind.", labels=("finding",)
        )
        if not self._active():
            return family
        found = Counter(finding.code for finding in self._reports.verdict(max_age_seconds=_VERDICT_SECONDS).findings)
        for code in Code:
            family.add_metric((code.value,), found[code])
        return family


def _labels(key: FlowKey) -> _Labels:
    return key.group, key.topic, key.client_rack, key.replica_rack


def _other(labels: _Labels) -> _Labels:
    group, _, client_rack, replica_rack = labels
    return group, OTHER, client_rack, replica_rack


def _own_shares(report: Report) -> Metric:
    family = GaugeMetricFamily(
        "samerack_own_assignor_ratio",
        "Share across racks of the group's own assignor.",
        labels=("group",),
    )
    for group in report.groups:
        if group.own_share is not None:
            family.add_metric((group.group,), group.own_share)
    return family


def _prices(report: Report) -> Metric:
    family = GaugeMetricFamily(
        "samerack_price_dollars_per_gigabyte",
        "Price per GB that leaves a rack (sent) or enters it (received).",
        labels=("provider", "direction"),
    )
    prices = report.prices
    family.add_metric((prices.provider, "sent"), prices.dollars_per_gb_sent)
    family.add_metric((prices.provider, "received"), prices.dollars_per_gb_received)
    return family
