"""Sends the agent's metrics to an OpenTelemetry collector, by OTLP over HTTP: the same that `/metrics` shows.

OpenTelemetry's own variables count as in any program: `OTEL_METRIC_EXPORT_INTERVAL`, `OTEL_EXPORTER_OTLP_HEADERS`,
`OTEL_EXPORTER_OTLP_CERTIFICATE`, `OTEL_RESOURCE_ATTRIBUTES`. The library is imported where an endpoint is set only.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from prometheus_client import Metric
from prometheus_client.samples import Sample

from samerack.common.errors import AgentError, SettingsError
from samerack.common.service import Service
from samerack.settings.publishing import OtelSettings

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import export as sdk

_SCOPE: Final = "samerack"
_TIMEOUT_SECONDS: Final = 5.0
_INTERVAL_VARIABLE: Final = "OTEL_METRIC_EXPORT_INTERVAL"
_INTERVAL_MS: Final = "60000"
"""Without the variable, as OpenTelemetry's specification has it."""


class MetricsExport(Service):
    """Sends all metrics every so often; what is sent while the collector is away is not made up for: sums go on."""

    failure_event = "otel-export-failed"

    def __init__(self, settings: OtelSettings, collect: Callable[[], Iterable[Metric]]) -> None:
        """Prepare the exporter; `start` begins to send what `collect` returns at each time.

        Raises:
            SettingsError: The library is not installed.
        """
        super().__init__("otel")
        try:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415 - see the module
                OTLPMetricExporter,
            )
        except ImportError:
            raise SettingsError(
                "otel.endpoint: is set, but OpenTelemetry's exporter is not installed; pip install 'samerack[otel]'"
            ) from None
        # the exporter says what failed there alone, and with each try
        self._said = _LastWords()
        library = logging.getLogger("opentelemetry")
        library.propagate = False
        library.handlers = [self._said]
        self._exporter = OTLPMetricExporter(endpoint=settings.endpoint, timeout=_TIMEOUT_SECONDS)
        self._endpoint = settings.endpoint
        self._pause = _interval_seconds()
        self._collect = collect
        self._began_ns = time.time_ns()

    def turn(self) -> float:
        """Send once; return the pause.

        Raises:
            AgentError: The collector does not take it.
        """
        from opentelemetry.sdk.metrics.export import MetricExportResult  # noqa: PLC0415 - see the module

        self._said.last = ""
        data = metrics_data(self._collect(), began_ns=self._began_ns, now_ns=time.time_ns())
        if self._exporter.export(data) is not MetricExportResult.SUCCESS:
            raise AgentError(
                f"otel {self._endpoint}: {self._said.last or 'does not accept the metrics'}; check otel.endpoint, "
                "which usually ends with /v1/metrics"
            )
        return self._pause

    def stop(self) -> None:
        """End a try that is under way, and the thread."""
        super().stop()
        self._exporter.shutdown()


def _interval_seconds() -> float:
    """Return the interval between exports.

    Raises:
        SettingsError: The variable is not a number of milliseconds.
    """
    text = os.environ.get(_INTERVAL_VARIABLE, "").strip() or _INTERVAL_MS
    try:
        milliseconds = int(text)
    except ValueError:
        milliseconds = 0
    if milliseconds <= 0:
        raise SettingsError(f"{_INTERVAL_VARIABLE}: {text[:100]!r} is not a number of milliseconds; set {_INTERVAL_MS}")
    return milliseconds / 1000


class _LastWords(logging.Handler):
    """Keeps the library's last message."""

    last = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.last = " ".join(record.getMessage().split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """One histogram: bounds of its buckets but the last, which is open; observations in each bucket; and their sum."""

    labels: Mapping[str, str]
    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float


def distributions(family: Metric) -> Iterator[Distribution]:
    """Yield the histograms of a family, one for each combination of labels.

    Its samples have Prometheus' form: `_bucket` with all observations up to the label `le`, and `_sum`.
    """
    buckets: dict[tuple[tuple[str, str], ...], dict[float, float]] = {}
    sums: dict[tuple[tuple[str, str], ...], float] = {}
    for sample in family.samples:
        labels = tuple(sorted((key, value) for key, value in sample.labels.items() if key != "le"))
        if sample.name.endswith("_bucket"):
            buckets.setdefault(labels, {})[float(sample.labels["le"])] = sample.value
        elif sample.name.endswith("_sum"):
            sums[labels] = sample.value
    for labels, found in buckets.items():
        bounds = sorted(found)
        below = [0, *(int(found[bound]) for bound in bounds)]
        yield Distribution(
            labels=dict(labels),
            bounds=tuple(bounds[:-1]),
            counts=tuple(after - before for before, after in pairwise(below)),
            total=sums[labels],
        )


def metrics_data(families: Iterable[Metric], *, began_ns: int, now_ns: int) -> sdk.MetricsData:
    """Return metrics in OpenTelemetry's form: counters are monotonic sums since `began_ns` (nanoseconds since 1970)."""
    from opentelemetry.sdk.metrics import export as sdk  # noqa: PLC0415 - see the module
    from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource  # noqa: PLC0415 - see the module
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415 - see the module

    def numbers(samples: Iterable[Sample]) -> list[sdk.NumberDataPoint]:
        return [
            sdk.NumberDataPoint(
                attributes=sample.labels, start_time_unix_nano=began_ns, time_unix_nano=now_ns, value=sample.value
            )
            for sample in samples
        ]

    def data(family: Metric) -> sdk.Sum | sdk.Gauge | sdk.Histogram:
        cumulative = sdk.AggregationTemporality.CUMULATIVE
        if family.type == "counter":
            totals = (sample for sample in family.samples if sample.name.endswith("_total"))
            return sdk.Sum(data_points=numbers(totals), aggregation_temporality=cumulative, is_monotonic=True)
        if family.type == "histogram":
            points = [
                sdk.HistogramDataPoint(
                    attributes=one.labels,
                    start_time_unix_nano=began_ns,
                    time_unix_nano=now_ns,
                    count=sum(one.counts),
                    sum=one.total,
                    bucket_counts=one.counts,
                    explicit_bounds=one.bounds,
                    min=None,  # type: ignore[arg-type]  # not known, and left out
                    max=None,  # type: ignore[arg-type]  # as above
                )
                for one in distributions(family)
            ]
            return sdk.Histogram(data_points=points, aggregation_temporality=cumulative)
        return sdk.Gauge(data_points=numbers(family.samples))

    shown = [
        sdk.Metric(name=one.name, description=one.documentation, unit=one.unit, data=data(one))
        for one in families
        if one.samples
    ]
    resource = Resource.create({SERVICE_NAME: _SCOPE, SERVICE_VERSION: version("samerack")})
    scope = sdk.ScopeMetrics(scope=InstrumentationScope(_SCOPE), metrics=shown, schema_url="")
    return sdk.MetricsData(
        resource_metrics=[sdk.ResourceMetrics(resource=resource, scope_metrics=[scope], schema_url="")]
    )
