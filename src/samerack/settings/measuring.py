"""Settings of the measurement of consumer traffic, of its prices, and of several clusters that one agent measures."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from samerack.common.errors import SettingsError
from samerack.common.money import DECIMAL_GB, PriceTable, shipped
from samerack.common.patterns import wrong_selection
from samerack.settings.base import Names, Seconds, Section, Texts, check_address


class ClientEndpoint(Section):
    """Where one Java client shows its own metrics."""

    url: str = Field(description="Address of its metrics in the text format of Prometheus.")
    group: str = Field(description="Its consumer group.")
    client_id: str = Field(default="", description="Its `client.id`, where the page shows several clients.")

    @field_validator("url")
    @classmethod
    def _url_parses(cls, url: str) -> str:
        check_address(
            url, "http://HOST:PORT/PATH", "the agent sends none: remove them, and let the endpoint answer without them"
        )
        return url


class TrafficSettings(Section):
    """What is measured of consumer traffic."""

    groups: Names = Field(
        default=(),
        description="Groups to observe, as in `groups`; by default those to lead. The agent never joins observed "
        "groups.",
        examples=[["orders-*", "payments"]],
    )
    poll_seconds: Seconds = Field(
        default=5.0,
        le=60,
        description="Interval between polls of offsets and log sizes, at most 60, extended so that polling takes at "
        "most a third of the time, unless rates would be lost by that.",
    )
    window_seconds: Seconds = Field(default=60.0, description="Length of the window for shares and rates.")
    history_step_seconds: float = Field(
        default=300.0, ge=1, le=86_400, description="Time between points of a group's history; 288 points are kept."
    )
    rack: str = Field(default="", description="The agent's own rack; it samples logs from replicas there.")
    sample_bytes: int = Field(
        default=4_194_304, ge=0, description="Maximum bytes of logs that one poll may read; 0 reads none."
    )
    client_endpoints: tuple[ClientEndpoint, ...] = Field(
        default=(),
        description="Metrics endpoints of Java clients, whose bytes are then exact.",
        examples=[[{"url": "http://127.0.0.1:9404/metrics", "group": "orders"}]],
    )
    replication: bool = Field(
        default=True,
        description="Whether to measure replication and producers if `groups` contains `*`, by two polls of all logs "
        "per `window_seconds`.",
    )
    readers_without_members: Names = Field(
        default=(),
        description="Groups that read without ever having members, as in `groups`: Flink's, for example. Offsets of "
        "other such groups may come from a tool such as MirrorMaker, and count as read only with a leader epoch.",
        examples=[["flink-*"]],
    )

    @field_validator("groups")
    @classmethod
    def _something_is_included(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := wrong_selection(names):
            raise ValueError(wrong)
        return names


class MoneySettings(Section):
    """What a byte costs that crosses racks."""

    prices: Literal["aws", "google-cloud", "azure", "custom"] = Field(
        default="aws",
        description="A provider's price table, or `custom` for negotiated prices, other regions and other clouds.",
    )
    dollars_per_gb_sent: float | None = Field(
        default=None, ge=0, description="Custom prices: dollars per 10^9 bytes that leave a rack for another."
    )
    dollars_per_gb_received: float | None = Field(
        default=None, ge=0, description="Custom prices: dollars per 10^9 bytes that enter a rack from another."
    )


class ClusterSettings(Section):
    """One of several clusters that an agent observes."""

    kafka: Texts = Field(
        description="Kafka settings of this cluster, which override those of `kafka` from the same source; one of the "
        "two has `bootstrap.servers`.",
        examples=[{"bootstrap.servers": "east-1:9092"}],
    )
    groups: Names = Field(
        default=(),
        description="Groups to observe there, as in `traffic.groups`, which applies if this is empty; all groups if "
        "both are.",
        examples=[["payments-*"]],
    )


def price_table(settings: MoneySettings) -> PriceTable:
    """Return the table that the settings name, or a table of their own prices.

    Raises:
        SettingsError: Custom prices without a price, or a price beside a provider's table.
    """
    given = (settings.dollars_per_gb_sent, settings.dollars_per_gb_received)
    if settings.prices != "custom":
        if given != (None, None):
            raise SettingsError(
                f"money.prices: is {settings.prices}, whose prices are known; set it to custom to use "
                "money.dollars_per_gb_sent and money.dollars_per_gb_received"
            )
        return shipped(settings.prices)
    if given == (None, None):
        raise SettingsError(
            "money.prices: is custom; set money.dollars_per_gb_sent, money.dollars_per_gb_received or both"
        )
    sent, received = given
    return PriceTable(
        provider="custom",
        scope="between racks",
        currency="USD",
        dollars_per_gb_sent=sent or 0.0,
        dollars_per_gb_received=received or 0.0,
        bytes_per_gb=DECIMAL_GB,
        source="settings",
        as_of=None,
    )
