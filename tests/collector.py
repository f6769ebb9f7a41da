"""A collector of OpenTelemetry on loopback: takes OTLP over HTTP and reads it with OpenTelemetry's own messages."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from tests.clouds.http_server import Answer, Asked, Server


class Collector(Server):
    """What was sent, in order; a context manager that ends it."""

    def __init__(self) -> None:
        super().__init__()
        self.status = 200  # the status of its answers
        self.requests: list[Any] = []  # the requests that it has taken
        self.headers: Mapping[str, str] = {}  # those of the last request
        self.endpoint = f"{self.url}/v1/metrics"

    def answer(self, asked: Asked) -> Answer:
        """Take a request."""
        self.headers = asked.headers
        encoding = next((value for name, value in asked.headers.items() if name.lower() == "content-encoding"), "")
        request = ExportMetricsServiceRequest()
        request.ParseFromString(gzip.decompress(asked.content) if encoding == "gzip" else asked.content)
        if self.status == HTTPStatus.OK:
            self.requests.append(request)
        return Answer(status=self.status)

    def samples(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """The values of the last request by name and labels, in Prometheus' names."""
        found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for metric in self.requests[-1].resource_metrics[0].scope_metrics[0].metrics:
            kind = metric.WhichOneof("data")
            for point in getattr(metric, kind).data_points:
                labels = {one.key: one.value.string_value for one in point.attributes}
                if kind == "histogram":
                    assert not point.HasField("min")
                    total = 0
                    for bound, count in zip([*point.explicit_bounds, float("inf")], point.bucket_counts, strict=True):
                        total += count
                        found[f"{metric.name}_bucket", frozenset({**labels, "le": str(bound)}.items())] = total
                    found[f"{metric.name}_count", frozenset(labels.items())] = point.count
                    found[f"{metric.name}_sum", frozenset(labels.items())] = point.sum
                    continue
                name = f"{metric.name}_total" if kind == "sum" else metric.name
                found[name, frozenset(labels.items())] = point.as_double
        return found
