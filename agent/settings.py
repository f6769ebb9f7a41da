"""Every setting of the agent: one model, filled from flags, environment, a YAML file and defaults, in that order.

The descriptions here are the reference documentation (docs/configuration.md is generated from them). What the
settings do lives in the rooms that use them; nothing here talks to a broker.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from agent.errors import SettingsError
from agent.sources import CONFIG_VARIABLE, from_environment, from_file, under

Seconds = Annotated[float, Field(gt=0)]


def _names(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


class Section(BaseModel):
    """A named part of the settings: no unknown keys, no later changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RackSettings(Section):
    """Where the rack of a member comes from when its subscription names none."""

    client_ids: dict[str, str] = Field(
        default_factory=dict,
        description="Rack by client id: shell patterns (`*`, `?`, `[...]`) to rack; the first that matches counts.",
        examples=[{"*-rack-a": "rack-a"}],
    )
    networks: dict[str, str] = Field(
        default_factory=dict,
        description="Rack by client host: network to rack; the longest prefix that holds the host counts.",
        examples=[{"10.1.0.0/16": "rack-a"}],
    )
    fetch_with_rack: tuple[str, ...] = Field(
        default=(),
        description="Client id patterns of members that fetch with their rack (KIP-392) although their subscription "
        "carries none; for all other members without RackId only leader replicas count as near.",
        examples=[["orders-*"]],
    )
    replica_selector: Literal["auto", "rack-aware", "leader"] = Field(
        default="auto",
        description="Which replicas may serve a fetch: `auto` reads the brokers' `replica.selector.class`; "
        "`rack-aware` and `leader` say it where the agent may not read configurations.",
    )

    @field_validator("networks")
    @classmethod
    def _networks_parse(cls, networks: dict[str, str]) -> dict[str, str]:
        for network in networks:
            ip_network(network)  # its ValueError names what is wrong
        return networks


class LeadingSettings(Section):
    """How the agent is present in a group."""

    instance_id: str = Field(
        default="samerack",
        min_length=1,
        description="`group.instance.id` of the agent in every group it leads. One running agent per group and id.",
    )
    session_timeout_seconds: Seconds = Field(
        default=6.0,
        description="Session timeout of the agent's membership; brokers refuse less than "
        "`group.min.session.timeout.ms`.",
    )
    heartbeat_seconds: Seconds = Field(default=0.5, description="Time between two heartbeats of the agent.")
    rebalance_timeout_seconds: Seconds = Field(
        default=10.0, description="The agent's own rebalance timeout; the group's is the largest of its members."
    )
    protocols: tuple[str, ...] = Field(
        default=("range", "roundrobin", "sticky", "cooperative-sticky", "RoundRobinAssigner"),
        min_length=1,
        description="Protocol names the agent offers, the group's present one always first. A group can only be joined "
        "when all its members share one of them.",
    )
    cooperative_protocols: tuple[str, ...] = Field(
        default=("cooperative-sticky",),
        description="Protocol names whose members rebalance incrementally (KIP-429): moving partitions are withheld "
        "for one round.",
    )
    roundrobin_tolerates: bool = Field(
        default=False,
        description="Whether the agent may join a group that uses `roundrobin` and has members with subscription v0. "
        "kafka-python 3's roundrobin fails on the agent (a member without topics); say true if no member is "
        "kafka-python 3 (aiokafka's is sound).",
    )
    keep_copartitioned: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="Whether partition i of co-partitioned topics stays on one member: `auto` does so where the "
        "group's protocol is `range`.",
    )
    weigh_by: Literal["bytes", "partitions"] = Field(
        default="bytes",
        description="What a partition read across racks costs: its measured bytes per second (to powers of two) as "
        "soon as they are known, or one for each partition.",
    )
    max_skew: int = Field(
        default=0,
        ge=0,
        description="How many partitions more than its fair share a member may get, so that fewer are read across "
        "racks; `samerack plan GROUP --curve` shows what that saves. Not where co-partitioned topics stay together.",
    )
    deadline_seconds: Seconds = Field(
        default=5.0,
        description="How long planning may take at most: without an optimal plan by then the group gets the one of "
        "`range`. Keep it below the members' session timeout.",
    )
    roll_seconds: Seconds = Field(
        default=30.0, description="Pause after an attempt to get to the front of the broker's order that failed."
    )


class PolicySettings(Section):
    """When a rebalance is worth it."""

    least_saving: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="Least saving, as a share of all partitions of the group (0.05: 5 points of cross-rack share), "
        "for which the agent triggers a rebalance. It acts when the saving is greater.",
    )
    settling_seconds: float = Field(
        default=1.0, ge=0, description="How long a change of racks or replicas must persist before it counts."
    )
    leader_settling_seconds: float = Field(
        default=600.0,
        ge=0,
        description="How long leadership must stay away from the preferred replica before it counts.",
    )
    burst: int = Field(default=3, ge=1, description="Rebalances that may follow each other without a pause.")
    refill_seconds: Seconds = Field(default=60.0, description="Time in which the budget gains one rebalance.")


class WatchSettings(Section):
    """How often the agent looks."""

    cluster_seconds: Seconds = Field(
        default=0.5,
        description="Time between two looks at racks and replicas; stretched so that looking takes a tenth of the time "
        "at most.",
    )
    group_seconds: Seconds = Field(default=1.0, description="Time between two looks at a group.")


class WebSettings(Section):
    """The agent's own HTTP port: the page, `/v1/…`, `/metrics`, `/healthz`, `/readyz`."""

    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=9464, ge=0, le=65535, description="Port to listen on; 0 takes a free one and logs it.")


class ClientEndpoint(Section):
    """Where one Java client shows its own metrics."""

    url: str = Field(description="Address of its metrics in the text format of Prometheus.")
    group: str = Field(description="Its consumer group.")
    client_id: str = Field(default="", description="Its `client.id`, where the page shows several clients.")


class TrafficSettings(Section):
    """What is measured of consumer traffic."""

    enabled: bool = Field(default=True, description="Whether to measure.")
    groups: Annotated[tuple[str, ...], BeforeValidator(_names)] = Field(
        default=(),
        description="Groups to observe, as shell patterns; `*` is every group. Empty: the groups that are led. "
        "Observed groups are never joined.",
        examples=[["orders-*", "payments"]],
    )
    poll_seconds: Seconds = Field(
        default=5.0,
        description="Time between two looks at offsets and log sizes; stretched so that looking takes a third of the "
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
    most_series: int = Field(
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


class LogSettings(Section):
    """Structured logs on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Least level shown.")
    format: Literal["auto", "console", "json"] = Field(
        default="auto", description="`auto`: colours on a terminal, one JSON object a line otherwise."
    )


class Settings(BaseSettings):
    """The whole."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    kafka: dict[str, str] = Field(
        description="Kafka settings in librdkafka's names, for both clients; `bootstrap.servers` is required. In the "
        "environment dots are underscores: `SAMERACK_KAFKA__BOOTSTRAP_SERVERS`.",
        examples=[{"bootstrap.servers": "127.0.0.1:9092"}],
    )
    groups: Annotated[tuple[str, ...], BeforeValidator(_names)] = Field(
        default=(), description="Consumer groups to lead.", examples=[["orders", "payments"]]
    )
    racks: RackSettings = RackSettings()
    leading: LeadingSettings = LeadingSettings()
    policy: PolicySettings = PolicySettings()
    watch: WatchSettings = WatchSettings()
    web: WebSettings = WebSettings()
    traffic: TrafficSettings = TrafficSettings()
    money: MoneySettings = MoneySettings()
    log: LogSettings = LogSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the library passes all of its sources by name
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - see above
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - see above
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - see above
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what `load` gives: it reads the other sources itself, because Kafka's keys have dots."""
        return (init_settings,)

    @field_validator("kafka", mode="before")
    @classmethod
    def _kafka_as_text(cls, value: object) -> object:
        if isinstance(value, Mapping):
            return {str(key): _as_text(str(key), item) for key, item in value.items()}
        return value


def _as_text(key: str, value: object) -> str:
    if isinstance(value, list):
        return ",".join(_as_text(key, item) for item in value)
    if value is None or isinstance(value, Mapping):
        # not a ValueError: that would be shown with all of `kafka`, passwords too
        raise SettingsError(f"kafka.{key}: has {'no value' if value is None else 'keys of its own'}; expected a text")
    return str(value).lower() if isinstance(value, bool) else str(value)


def load(
    *,
    path: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """The settings from flags, environment and file, the first that names a key winning, nested keys one by one.

    Args:
        path: YAML file; without it the variable SAMERACK_CONFIG may name one.
        flags: Nested mapping of what the command line said.
        environment: Defaults to the process's own.

    Raises:
        SettingsError: With the key and the nearest right one, or the value and what would be right.
    """
    environment = os.environ if environment is None else environment
    if path is None and environment.get(CONFIG_VARIABLE):
        path = Path(environment[CONFIG_VARIABLE])
    layers: dict[str, Mapping[str, Any]] = {
        "the command line": dict(flags or {}),
        "the environment": from_environment(environment),
        str(path): from_file(path),
    }
    merged: dict[str, Any] = {}
    for origin, layer in layers.items():
        _check_names(layer, origin)
        merged = under(merged, layer)

    try:
        settings = Settings(**merged)
    except ValidationError as error:
        raise SettingsError(_explain(error)) from None
    if not settings.kafka.get("bootstrap.servers"):
        raise SettingsError(
            "kafka: bootstrap.servers is missing; give --bootstrap-servers, SAMERACK_KAFKA__BOOTSTRAP_SERVERS or "
            "kafka: {bootstrap.servers: HOST:PORT} in the file"
        )
    return settings


def sections() -> dict[str, type[BaseModel]]:
    """The models by their place: "" for the top, then each section."""
    return {
        "": Settings,
        **{
            name: info.annotation
            for name, info in Settings.model_fields.items()
            if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel)
        },
    }


def _check_names(layer: Mapping[str, Any], origin: str) -> None:
    models = sections()
    for place, model in models.items():
        part = layer if place == "" else layer.get(place)
        if not isinstance(part, Mapping):
            continue
        for key in part:
            if key not in model.model_fields:
                dotted = f"{place}.{key}" if place else str(key)
                raise SettingsError(f"{dotted} (from {origin}): no such setting{_nearest(dotted)}")


def _nearest(dotted: str) -> str:
    names = [
        f"{place}.{field}" if place else field for place, model in sections().items() for field in model.model_fields
    ]
    elsewhere = [name for name in names if name.rpartition(".")[2] == dotted.rpartition(".")[2]][:1]
    close = elsewhere or get_close_matches(dotted, names, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else f"; settings are {', '.join(sorted(Settings.model_fields))}"


def _explain(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return (
            f"{place}: is missing; give kafka: {{bootstrap.servers: HOST:PORT}} in the file, "
            "SAMERACK_KAFKA__BOOTSTRAP_SERVERS or --bootstrap-servers"
        )
    return f"{place}: {first['msg'].removeprefix('Value error, ')}, got {first.get('input')!r}"
