"""Prometheus metrics of replication and producers: what they carry in the whole cluster, and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from samerack.reporting.report_service import ReportService
from samerack.traffic.log_growth import RackPair
from samerack.traffic.series import OTHER, BoundedCounters, SeriesLimits

_PAIR: Final = ("leader_rack", "follower_rack")


class BillCollector(Collector):
    """Exports what the measuring agent counted; an agent that does not measure it has no series."""

    def __init__(self, reports: ReportService, *, limits: SeriesLimits) -> None:
        """Prepare.

        Args:
            reports: The bill and the prices.
            limits: How many pairs of racks have series of their own; further ones are added up.
        """
        self._reports = reports
        self._pairs: BoundedCounters[RackPair] = BoundedCounters(limits.pairs, lambda _: (OTHER, OTHER))

    def collect(self) -> Iterator[Metric]:
        """Yields all families from one snapshot."""
        totals = self._reports.board.latest().replication.totals
        known = self._pairs.series({pair: (size, self._dollars(pair, size)) for pair, size in totals.carried.items()})
        carried = ((pair, size) for pair, (size, _) in known.items())
        dollars = ((pair, cost) for pair, (_, cost) in known.items() if cost)
        yield _counter("samerack_replication_bytes", "Bytes of logs that followers copied.", _PAIR, carried)
        yield _counter(
            "samerack_replication_dollars", "Dollars for what followers copied across racks.", _PAIR, dollars
        )
        produced = (((rack,), size) for rack, size in totals.produced.items())
        yield _counter("samerack_produced_bytes", "Bytes of logs that producers sent.", ("leader_rack",), produced)
        yield self._producers()

    def _dollars(self, pair: RackPair, size: float) -> float:
        return self._reports.prices.dollars(size) if "" not in pair and pair[0] != pair[1] else 0.0

    def _producers(self) -> Metric:
        family = GaugeMetricFamily(
            "samerack_producer_dollars_per_month",
            "Dollars a month if the least, a random part or most of what producers send crosses racks.",
            labels=("case",),
        )
        bill = self._reports.report().bill
        producers = bill.producers if bill is not None else None
        for case in ("least", "random", "most"):
            crossing = getattr(producers, case, None)
            if crossing is not None:
                family.add_metric((case,), crossing.dollars_per_month)
        return family


def _counter(name: str, text: str, labels: tuple[str, ...], values: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for key, value in sorted(values):
        family.add_metric(key, value)
    return family
