"""Metrics for OpenTelemetry: the values of /metrics, in its form, and what is said when nobody takes them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families

from samerack.agent.metrics import Metrics
from samerack.agent.otel import MetricsExport
from samerack.common.errors import AgentError, SettingsError
from samerack.settings.loading import load
from samerack.settings.publishing import OtelSettings
from tests.collector import Collector


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector."""
    with Collector() as opened:
        yield opened


def shown(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """The values of /metrics, by name and labels."""

    def bound(labels: dict[str, str]) -> dict[str, str]:
        return {**labels, "le": str(float(labels["le"]))} if "le" in labels else labels

    return {
        (sample.name, frozenset(bound(sample.labels).items())): sample.value
        for family in text_string_to_metric_families(metrics.exposition().decode())
        for sample in family.samples
    }


def test_a_collector_gets_what_prometheus_gets(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counters are monotonic sums since the start, histograms keep their buckets, gauges their labels."""
    metrics = Metrics()
    metrics.expect("orders")
    metrics.rebalances.labels("orders", "racks-changed").inc()
    for seconds in (0.002, 0.3, 9.0):
        metrics.planned("orders", "optimal", seconds)
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "7000")
    export = MetricsExport(OtelSettings(endpoint=collector.endpoint), metrics.registry.collect)
    assert export.turn() == 7
    sent, expected = collector.samples(), shown(metrics)
    memory = ("samerack_memory_bytes", frozenset[tuple[str, str]]())
    assert abs(sent.pop(memory) - expected.pop(memory)) < 50e6
    assert sent == expected
    (resource,) = collector.requests[-1].resource_metrics
    named = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert named["service.name"] == "samerack"
    for metric in resource.scope_metrics[0].metrics:
        if metric.WhichOneof("data") == "sum":
            assert metric.sum.is_monotonic
            assert metric.sum.aggregation_temporality == 2, "cumulative"
    export.stop()


def test_a_collector_that_refuses_gets_the_sums_later(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the address, the reason and the cure; the variables of OpenTelemetry count, as in any program."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=team-a")
    registry = CollectorRegistry()
    counter = Counter("samerack_reads", "Reads.", registry=registry)
    export = MetricsExport(OtelSettings(endpoint=collector.endpoint), registry.collect)
    collector.status = 401
    counter.inc()
    with pytest.raises(AgentError, match=r"otel http://127.0.0.1:\d+/v1/metrics: .*(401|[Uu]nauthorized).*check otel"):
        export.turn()
    collector.status = 200
    counter.inc()
    export.turn()
    assert collector.headers["x-tenant"] == "team-a"
    assert collector.samples() == {("samerack_reads_total", frozenset()): 2}
    export.stop()


@pytest.mark.parametrize("endpoint", ["collector:4318", "ftp://collector/x", "http://collector:99999/v1/metrics"])
def test_a_wrong_endpoint_is_refused(endpoint: str) -> None:
    """The message has what is expected."""
    with pytest.raises(SettingsError, match=r"otel\.endpoint: .*, got"):
        load(flags={"kafka": {"bootstrap.servers": "x"}, "otel": {"endpoint": endpoint}}, environment={})


def test_without_an_endpoint_nothing_of_it_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that does not use it has none of its memory; it is an extra, and without it the message has the cure."""
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None)
    with pytest.raises(SettingsError, match=r"pip install 'samerack\[otel\]'"):
        MetricsExport(OtelSettings(endpoint="http://127.0.0.1:1/v1/metrics"), tuple)
    program = (
        "import sys, samerack.agent.program; print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    assert subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout == b"[]\n"
