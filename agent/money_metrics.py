"""Prometheus' view of money, shares and findings: read from the report and the totals at each scrape.

What must not enter: counting bytes (the measuring room's own metrics) and anything that waits for a broker.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agent.cluster import NoRack
from agent.findings import Code
from agent.ledger import Ledger
from agent.report import Report
from agent.showing import Showing

_VERDICT_SECONDS: Final = 60.0
"""Findings of a scrape may be that old: a verdict over thousands of groups takes longer than a scrape should."""
_FLOW_LABELS: Final = ("group", "topic", "client_rack", "replica_rack")

_SHARES: Final = (
    ("samerack_optimal_share", "That share under the best balanced plan.", "optimal_share"),
    ("samerack_random_share", "That share of placement without regard to racks: 1 - 1/R.", "random_share"),
    (
        "samerack_own_assignor_share",
        "That share under the group's own assignor, of groups that the agent leads.",
        "own_share",
    ),
)


class MoneyCollector(Collector):
    """The families of this room."""

    def __init__(self, showing: Showing, ledger: Ledger) -> None:
        self._showing = showing
        self._ledger = ledger

    def collect(self) -> Iterator[Metric]:
        """All families from one report."""
        report = self._showing.report()
        yield self._cross_rack_dollars()
        yield self._own_dollars()
        yield from _shares(report)
        yield _prices(report)
        yield from self._brokers()
        yield self._findings()

    def _cross_rack_dollars(self) -> Metric:
        family = CounterMetricFamily(
            "samerack_cross_rack_dollars",
            "Dollars for bytes that crossed racks, by the price table of the settings.",
            labels=_FLOW_LABELS,
        )
        sums: dict[tuple[str, str, str, str], int] = defaultdict(int)
        for key, volume in self._showing.board.totals().items():
            if key.cross_rack:
                sums[key.group, key.topic, key.client_rack, key.replica_rack] += volume.wire_bytes
        for labels, wire_bytes in sorted(sums.items()):
            family.add_metric(labels, self._showing.prices.dollars(wire_bytes))
        return family

    def _own_dollars(self) -> Metric:
        family = CounterMetricFamily(
            "samerack_own_assignor_dollars",
            "Dollars that the same bytes would have cost under the group's own assignor; what they cost while the "
            "agent does not lead.",
            labels=("group",),
        )
        for group, dollars in sorted(self._ledger.dollars().items()):
            family.add_metric((group,), dollars)
        return family

    def _brokers(self) -> Iterator[Metric]:
        racks: Counter[str] = Counter()
        for rack in self._showing.board.latest().cluster.brokers.values():
            if rack is not NoRack.UNKNOWN:
                racks["" if isinstance(rack, NoRack) else rack] += 1
        family = GaugeMetricFamily(
            "samerack_brokers", "Brokers by rack; an empty rack for those without.", labels=("rack",)
        )
        for name, count in sorted(racks.items()):
            family.add_metric((name,), count)
        yield family

    def _findings(self) -> Metric:
        family = GaugeMetricFamily(
            "samerack_findings", "What `samerack verify` finds wrong, by kind.", labels=("finding",)
        )
        found = Counter(finding.code for finding in self._showing.verdict(at_most_seconds=_VERDICT_SECONDS).findings)
        for code in Code:
            family.add_metric((code.value,), found[code])
        return family


def _shares(report: Report) -> Iterator[Metric]:
    present = GaugeMetricFamily(
        "samerack_cross_rack_share",
        "Share of what the group reads that crosses racks, by bytes where they are known, else by partitions.",
        labels=("group", "by"),
    )
    for group in report.groups:
        if group.share is not None:
            present.add_metric((group.group, group.share_by), group.share)
    yield present
    for name, text, attribute in _SHARES:
        family = GaugeMetricFamily(name, text, labels=("group",))
        for group in report.groups:
            value = getattr(group, attribute)
            if value is not None:
                family.add_metric((group.group,), value)
        yield family


def _prices(report: Report) -> Metric:
    family = GaugeMetricFamily(
        "samerack_price_dollars_per_gb",
        "Price per GB that leaves a rack (sent) and enters another (received), as the provider counts GB.",
        labels=("provider", "direction"),
    )
    prices = report.prices
    family.add_metric((prices.provider, "sent"), prices.dollars_per_gb_sent)
    family.add_metric((prices.provider, "received"), prices.dollars_per_gb_received)
    return family
