"""Settings of the agent's HTTP port, its metrics for OpenTelemetry, and its log."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from samerack.settings.base import Names, Section, check_address


class WebSettings(Section):
    """The agent's own HTTP port: the page, `/v1/…`, `/metrics`, `/healthz`, `/readyz`."""

    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    hosts: Names = Field(
        default=(), description="Additional host names that requests may use.", examples=[["samerack.example.org"]]
    )
    port: int = Field(default=9464, ge=0, le=65535, description="Port to listen on; 0 picks a free port and logs it.")
    socket: str = Field(
        default="",
        description="Path of an additional Unix socket to listen on, for programs of the agent's user and group.",
        examples=["/run/samerack/agent.sock"],
    )


class OtelSettings(Section):
    """Metrics for an OpenTelemetry collector, beside `/metrics`.

    The variables `OTEL_METRIC_EXPORT_INTERVAL`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_EXPORTER_OTLP_CERTIFICATE` and
    `OTEL_RESOURCE_ATTRIBUTES` count.
    """

    endpoint: str = Field(
        default="",
        description="Where to send metrics by OTLP over HTTP (`samerack[otel]`, included in the image). Empty: "
        "nowhere. OpenTelemetry's variables for the interval, headers, certificates and resource attributes apply.",
        examples=["http://collector:4318/v1/metrics"],
    )

    @field_validator("endpoint")
    @classmethod
    def _endpoint_is_an_address(cls, endpoint: str) -> str:
        if endpoint:
            check_address(endpoint, "http://HOST:PORT/v1/metrics")
        return endpoint


class LogSettings(Section):
    """Structured logs on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Minimum level to log.")
    format: Literal["auto", "console", "json"] = Field(
        default="auto", description="`auto`: text on a terminal and from commands, otherwise one JSON object per line."
    )
