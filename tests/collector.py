"""A collector of OpenTelemetry on loopback: takes OTLP over HTTP and reads it with OpenTelemetry's own messages."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest


class Collector:
    """What was sent, in order; a context manager that ends it.

    Attributes:
        status: the status of its answers.
        requests: the requests that it has taken.
        headers: those of the last request.
    """

    def __init__(self) -> None:
        self.status = 200
        self.requests: list[Any] = []
        self.headers: Mapping[str, str] = {}
        collector = self

        class Handler(BaseHTTPRequestHandler):
            """Answers one request."""

            def do_POST(self) -> None:
                """Take it."""
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                request = ExportMetricsServiceRequest()
                request.ParseFromString(body)
                collector.headers = dict(self.headers)
                if collector.status == 200:
                    collector.requests.append(request)
                self.send_response(collector.status)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its base's name
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}/v1/metrics"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

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

    def __enter__(self) -> Self:
        """Return the collector."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
