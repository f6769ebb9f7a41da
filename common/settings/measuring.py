"""Settings of the measurement of consumer traffic, and of its prices."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from samerack.common.settings.base import Names, Seconds, Section


class ClientEndpoint(Section):
    """Where one Java client shows its own metrics."""

    url: str = Field(description="Address of its metrics in the text format of Prometheus.")
    group: str = Field(description="Its consumer group.")
    client_id: str = Field(default="", description="Its `client.id`, where the page shows several clients.")

    @field_validator("url")
    @classmethod
    def _url_parses(cls, url: str) -> str:
        address = urlsplit(url)  # its ValueError names what is wrong; so does that of the port
        if address.scheme not in ("http", "https") or not address.hostname or address.port == 0:
            raise ValueError("expected http://HOST:PORT/PATH")
        return url


class TrafficSettings(Section):
    """What is measured of consumer traffic."""

    enabled: bool = Field(default=True, description="Whether to measure.")
    groups: Names = Field(
        default=(),
        description="Groups to observe, as shell patterns; `*` is every group. Empty: the groups that are led. "
        "Observed groups are never joined.",
        examples=[["orders-*", "payments"]],
    )
    poll_seconds: Seconds = Field(
        default=5.0,
        description="Time between two polls of offsets and log sizes; stretched so that polling takes a third of the "
        "time at most.",
    )
    window_seconds: Seconds = Field(
        default=60.0, description="Length of the window that shares and rates are shown for."
    )
    probe_seconds: Seconds = Field(
        default=60.0,
        description="How often the leader is asked anew which replica serves a rack; changed replicas ask at once.",
    )
    rack: str = Field(
        default="",
        description="The agent's own rack: samples of logs are read from a replica there where there is one.",
    )
    sample_bytes: int = Field(
        default=4_194_304,
        ge=0,
        description="Most bytes of logs that one look may read, for compacted topics, old data and sizes of batches; 0 "
        "reads none.",
    )
    client_endpoints: tuple[ClientEndpoint, ...] = Field(
        default=(),
        description="Metrics of Java clients, whose bytes are then exact: `consumer-node-metrics incoming-byte-total`.",
        examples=[[{"url": "http://127.0.0.1:9404/metrics", "group": "orders"}]],
    )
    max_series: int = Field(
        default=20_000,
        ge=1,
        description="Most series of `samerack_consumed_bytes_total` and of `samerack_consumed_records_total`; what "
        "goes beyond is added up under the topic `(other)`.",
    )


class MoneySettings(Section):
    """What a byte costs that crosses racks."""

    prices: Literal["aws", "google-cloud", "azure", "custom"] = Field(
        default="aws",
        description="Price table: a provider's, each with source and date, or `custom`. Negotiated prices, other "
        "regions and other clouds are custom.",
    )
    dollars_per_gb_sent: float | None = Field(
        default=None, ge=0, description="Custom prices: dollars per 10^9 bytes that leave a rack for another."
    )
    dollars_per_gb_received: float | None = Field(
        default=None, ge=0, description="Custom prices: dollars per 10^9 bytes that enter a rack from another."
    )
