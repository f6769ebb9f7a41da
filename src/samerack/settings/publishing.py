"""Settings of what the agent shows, logs, keeps and publishes: HTTP port, OpenTelemetry, log, events, records."""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from samerack.settings.base import Names, Section, Texts, check_address


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
            check_address(
                endpoint,
                "http://HOST:PORT/v1/metrics",
                "remove them, and set the header in the variable OTEL_EXPORTER_OTLP_HEADERS",
            )
        return endpoint


class LogSettings(Section):
    """Structured logs on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Minimum level to log.")
    format: Literal["auto", "console", "json"] = Field(
        default="auto", description="`auto`: text on a terminal and from commands, otherwise one JSON object per line."
    )


IN_MEMORY: Final = "memory"
"""`path` of an agent that stores no events."""
_MINUTE: Final = 60


class PublishingSettings(Section):
    """Samples of traffic and states of groups, as records for the fleet pipeline; off without topics."""

    traffic_topic: str = Field(
        default="", description="Topic for traffic samples; empty publishes none.", examples=["samerack-traffic"]
    )
    states_topic: str = Field(
        default="", description="Topic for group states; empty publishes none.", examples=["samerack-states"]
    )
    every_seconds: int = Field(
        default=60,
        ge=1,
        le=_MINUTE,
        description="Window of a sample and interval between states; a divisor of 60.",
    )
    cluster: str = Field(
        default="",
        description="Name of the cluster in all records, the same for all its agents. Empty: the cluster id.",
        examples=["orders-eu"],
    )
    kafka: Texts = Field(
        default_factory=dict,
        description="Kafka settings for the producer only; they override those of `kafka`.",
        examples=[{"bootstrap.servers": "fleet:9092"}],
    )

    @property
    def topics(self) -> tuple[str, ...]:
        """Returns the topics that are written to."""
        return tuple(dict.fromkeys(filter(None, (self.traffic_topic, self.states_topic))))

    @field_validator("every_seconds")
    @classmethod
    def _parts_of_a_minute(cls, seconds: int) -> int:
        if _MINUTE % seconds:
            raise ValueError("must divide 60; set 1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30 or 60")
        return seconds

    @model_validator(mode="after")
    def _two_topics(self) -> Self:
        if self.traffic_topic and self.traffic_topic == self.states_topic:
            raise ValueError(
                f"traffic_topic and states_topic are both {self.traffic_topic}; samples and states need separate topics"
            )
        return self


class EventSettings(Section):
    """What happened to groups and why, as `samerack events` shows it: in memory, in a file, in a topic."""

    path: str = Field(
        default="",
        description="File for events, on a local disk, a separate one for each agent. Empty: `samerack/events-NAME.db` "
        "in `$XDG_STATE_HOME`, `~/.local/state` or `/var/lib`. `memory` keeps them in memory.",
        examples=["/var/lib/samerack/events.db"],
    )
    days: float = Field(
        default=30.0, gt=0, description="How long the file keeps events, of which there are at most 10,000."
    )
    topic: str = Field(
        default="",
        description="Topic for events; empty publishes none. `publishing` configures its producer.",
        examples=["samerack-events"],
    )
