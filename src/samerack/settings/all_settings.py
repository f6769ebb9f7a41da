"""All settings of the agent: one model, filled from flags, environment, a YAML file and defaults, in that order.

The descriptions here are the reference documentation (docs/configuration.md is generated from them). The packages that
use a setting implement it; nothing here connects to a broker. One agent may observe several Kafka clusters: what the
settings are for each of them is here too.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast, get_args, get_origin

import yaml
from pydantic import BaseModel, Field, field_validator
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from samerack.auth.identities import other_names
from samerack.auth.kafka_config import over
from samerack.common.errors import SettingsError
from samerack.common.patterns import EVERY, is_pattern, wrong_selection
from samerack.settings.base import Names, Texts
from samerack.settings.leading import ElectionSettings, LeadingSettings, PodSettings, RackSettings, SupervisorSettings
from samerack.settings.measuring import ClusterSettings, MoneySettings, TrafficSettings
from samerack.settings.pipeline import PipelineSettings
from samerack.settings.policy import LagSettings, PolicySettings
from samerack.settings.publishing import (
    IN_MEMORY,
    EventSettings,
    LogSettings,
    OtelSettings,
    PublishingSettings,
    WebSettings,
)
from samerack.settings.streams import StreamsSettings

_SECRET: Final = (("kafka",), ("clusters", "*", "kafka"), ("publishing", "kafka"), ("pipeline", "conf"))
"""Settings that may hold passwords, `*` for any key: error messages do not repeat their values."""

_HIDDEN: Final = "(not shown)"
_ABSENT: Final = "(not set)"


class Settings(BaseSettings):
    """The whole."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        case_sensitive=True,  # `GROUPS` in a file is a mistake
        validate_default=False,  # as in the sections: defaults are ours
    )

    def __init__(self, *places: PydanticBaseSettingsSource, **values: Any) -> None:
        """Make settings of what places say, the strongest first; without any place, of the values alone.

        The base class's own sources are not used: they read no YAML, and ignore unknown variables.
        """
        super().__init__(_build_sources=(places or (InitSettingsSource(type(self), values),), values))

    kafka: Texts = Field(
        description="Kafka settings by librdkafka's names, for both clients; `bootstrap.servers` is required. In "
        "environment variables, underscores stand for dots: `SAMERACK_KAFKA__BOOTSTRAP_SERVERS`.",
        examples=[{"bootstrap.servers": "127.0.0.1:9092"}],
    )
    groups: Names = Field(
        default=(),
        description="Consumer groups to lead: names and shell patterns; a leading `!` excludes groups, `\\!` is a "
        "literal `!`. The agent waits for a named group that does not exist, and never creates one.",
        examples=[["orders", "payments-*", "!payments-test-*"]],
    )
    clusters: dict[str, ClusterSettings] = Field(
        default_factory=dict,
        description="Several Kafka clusters by name, which one agent observes independently: a failure in one does not "
        "affect the others. Such an agent leads no groups. Page, API and metrics name the cluster.",
        examples=[{"east": {"kafka": {"bootstrap.servers": "east-1:9092"}}}],
    )
    cluster: str = Field(
        default="",
        description="Which of `clusters` a command uses, or the name of a cluster of the agent that it asks; `samerack "
        "run` is for only that one, and may lead `groups` there.",
        examples=["east"],
    )
    racks: RackSettings = RackSettings()
    pod: PodSettings = PodSettings()
    leading: LeadingSettings = LeadingSettings()
    policy: PolicySettings = PolicySettings()
    lag: LagSettings = LagSettings()
    election: ElectionSettings = ElectionSettings()
    supervisor: SupervisorSettings = SupervisorSettings()
    web: WebSettings = WebSettings()
    otel: OtelSettings = OtelSettings()
    traffic: TrafficSettings = TrafficSettings()
    streams: StreamsSettings = StreamsSettings()
    money: MoneySettings = MoneySettings()
    publishing: PublishingSettings = PublishingSettings()
    events: EventSettings = EventSettings()
    log: LogSettings = LogSettings()
    pipeline: PipelineSettings = PipelineSettings()

    @field_validator("groups")
    @classmethod
    def _each_group_once(cls, groups: tuple[str, ...]) -> tuple[str, ...]:
        if twice := [group for group, count in Counter(groups).items() if count > 1]:
            raise ValueError(f"{twice[0]!r} is listed twice; keep one")
        if wrong := wrong_selection(groups):
            raise ValueError(wrong)
        return groups


def sections() -> dict[str, type[BaseModel]]:
    """Return the models by section name: "" for the top level, then each section."""
    return {
        "": Settings,
        **{
            name: info.annotation
            for name, info in Settings.model_fields.items()
            if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel)
        },
    }


def model_at(place: Sequence[int | str]) -> type[BaseModel]:
    """Return the model of a part of the settings, by the keys above it; a list's or map's values have one model."""
    found: Any = Settings
    for part in place:
        if isinstance(found, type) and issubclass(found, BaseModel):
            found = found.model_fields[str(part)].annotation
        else:
            found = next(of for of in get_args(found) if isinstance(of, type) and issubclass(of, BaseModel))
    return cast("type[BaseModel]", found)


def may_hold_secrets(place: Sequence[int | str]) -> bool:
    """Return whether a setting may hold passwords, by its keys: it is in such a section, or contains one."""
    return any(all(key in ("*", part) for key, part in zip(keys, place, strict=False)) for keys in _SECRET)


def as_map(dotted: str, value: object) -> str:
    """Return a key below SECTION.KEY as SECTION.KEY=MAP, which sets the same; "" for any other key.

    Args:
        dotted: The key, with dots between its parts; names such as those of groups may have dots too.
        value: What it is set to; a text is repeated, unless it may be a secret.
    """
    first, *parts = dotted.split(".")
    if first not in Settings.model_fields or not parts:
        return ""
    of = Settings.model_fields[first].annotation
    shown = value if isinstance(value, str) and not may_hold_secrets([first, parts[0]]) else "VALUE"
    nested = _nested(of, parts, shown)
    if not isinstance(nested, dict) or nested == {".".join(parts): shown}:
        return ""
    ((key, below),) = nested.items()
    return f"{first}.{key}={yaml.safe_dump(below, default_flow_style=True, width=math.inf).strip()}"


def _nested(of: Any, parts: Sequence[str], value: str) -> Any:
    """Return a value within maps, by the keys above it; None where the type has no such keys."""
    if not parts:
        return value
    if isinstance(of, type) and issubclass(of, BaseModel):
        field = of.model_fields.get(parts[0])
        below = _nested(field.annotation, parts[1:], value) if field else None
        return None if below is None else {parts[0]: below}
    if get_origin(of) is not dict:
        return None
    _, values = get_args(of)
    if values is str:
        return {".".join(parts): value}
    at = next((at for at in range(1, len(parts)) if parts[at] in values.model_fields), None)
    return None if at is None else {".".join(parts[:at]): _nested(values, parts[at:], value)}


def difference(before: Settings, now: Settings) -> dict[str, tuple[Any, Any]]:
    """Return each setting that differs, by dotted key, with its value before and now.

    Values of sections that may hold passwords are not shown, only that they differ. What each cluster takes from the
    whole is named once, and so is what is the first or last in a mapping. Patterns in another order differ, too.
    """
    was, is_now = (settings.model_dump(mode="json") for settings in (before, now))
    old, new = (dict(_flat(one)) for one in (was, is_now))
    changes = {
        key: (old.get(key, _ABSENT), new.get(key, _ABSENT))
        for key in sorted(old.keys() | new.keys())
        if old.get(key, _ABSENT) != new.get(key, _ABSENT)
    } | dict(_reordered(was, is_now))
    return {
        ".".join(key): (_HIDDEN, _HIDDEN) if may_hold_secrets(key) else change
        for key, change in changes.items()
        if not (key[0] == "clusters" and change == changes.get(key[2:])) and {} not in change
    }


def _flat(value: Mapping[str, Any], place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            yield from _flat(inner, (*place, key))
        else:
            yield (*place, key), inner


def _reordered(
    before: Mapping[str, Any], now: Mapping[str, Any], place: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], tuple[list[str], list[str]]]]:
    """Yield the mappings that have the same patterns in another order: the first that fits a name counts."""
    if before.keys() == now.keys() and [*before] != [*now] and any(map(is_pattern, now)):
        yield place, ([*before], [*now])
    for key, inner in now.items():
        if isinstance(inner, Mapping) and isinstance(former := before.get(key), Mapping):
            yield from _reordered(former, inner, (*place, key))


_BROKERS: Final = "bootstrap.servers"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def under_common(common: object, layer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a source says, with `kafka` of the stronger sources over that of each cluster.

    Otherwise a cluster's key in the file would win over the same key of the command line.
    """
    clusters = dict(mapping(layer.get("clusters")))
    if not isinstance(common, Mapping) or not clusters:
        return layer
    for name, cluster in clusters.items():
        if isinstance(own := mapping(cluster).get("kafka"), Mapping):
            own = {key: value for key, value in own.items() if key not in other_names(common)}
            clusters[name] = {**cluster, "kafka": {**own, **common}}
    return {**layer, "clusters": clusters}


def check_common_brokers(layers: Mapping[str, Mapping[str, Any]]) -> None:
    """Check that brokers of a stronger source do not take the place of those of several clusters.

    Args:
        layers: What each source says, by its name, the strongest first.

    Raises:
        SettingsError: They do.
    """
    common = ""
    for origin, layer in layers.items():
        for name, cluster in mapping(layer.get("clusters")).items():
            if common and _BROKERS in mapping(mapping(cluster).get("kafka")):
                raise SettingsError(
                    f"kafka.{_BROKERS} (from {common}): cluster {str(name)[:100]!r} has its own brokers; select the "
                    "cluster with --set cluster=NAME, or remove one of the two"
                )
        common = common or (origin if _BROKERS in mapping(layer.get("kafka")) else "")


def mapping(value: object) -> Mapping[str, Any]:
    """Return a map of settings; an empty one for what is not a map, which the model refuses."""
    return value if isinstance(value, Mapping) else {}


def check_clusters(settings: Settings) -> None:
    """Check what is true of all clusters together.

    Raises:
        SettingsError: A name is no word, a cluster has no brokers, or another setting is that of a single cluster.
    """
    for name, cluster in settings.clusters.items():
        if not _NAME.fullmatch(name):
            raise SettingsError(
                f"clusters: {name[:100]!r} is not a valid name; expected letters, digits, dots, dashes and underscores"
            )
        if not {**settings.kafka, **cluster.kafka}.get(_BROKERS):
            raise SettingsError(
                f"clusters.{name}.kafka: bootstrap.servers is missing; give {name}: {{kafka: {{bootstrap.servers: "
                "HOST:PORT}}"
            )
    if settings.clusters and settings.groups and not settings.cluster:
        raise SettingsError(
            "groups: an agent of several clusters leads no groups; put names into clusters.NAME.groups to observe "
            "them, and run one agent per cluster, with --set cluster=NAME, to lead"
        )
    if settings.clusters and settings.publishing.cluster:
        raise SettingsError(
            "publishing.cluster: names one cluster, but clusters has several; remove it: each uses its id"
        )
    if settings.cluster and settings.clusters and settings.cluster not in settings.clusters:
        known = ", ".join(sorted(settings.clusters))
        raise SettingsError(f"cluster: {settings.cluster[:100]!r} is not among clusters, which are {known}")


def cluster_path(name: str) -> str:
    """Return the path below which an agent shows a cluster; empty for the cluster of an agent that has one."""
    return f"/clusters/{name}" if name else ""


def of_cluster(settings: Settings, name: str) -> Settings:
    """Return the settings of an agent that observes one of the clusters.

    Kafka Streams applications ask the agent of their own host, which is none of several clusters.
    """
    cluster = settings.clusters[name]
    groups = cluster.groups or settings.traffic.groups or (EVERY,)
    return settings.model_copy(
        update={
            "kafka": over(settings.kafka, cluster.kafka),
            "clusters": {},
            "cluster": name,
            "traffic": settings.traffic.model_copy(update={"groups": groups}),
            "streams": settings.streams.model_copy(update={"enabled": False}),
            "events": settings.events.model_copy(update={"path": _path_of(settings.events.path, name)}),
        }
    )


def only_cluster(settings: Settings) -> Settings:
    """Return the settings of a command that is about one cluster.

    Raises:
        SettingsError: There are several, and none of them is named.
    """
    if settings.clusters:
        raise SettingsError(
            f"clusters: are {', '.join(sorted(settings.clusters))}, but this command needs one; select it with --set "
            "cluster=NAME or SAMERACK_CLUSTER"
        )
    return settings


def _path_of(path: str, name: str) -> str:
    """Return the file of one cluster's events beside that of all."""
    if not path or path == IN_MEMORY:
        return path
    whole = Path(path)
    return str(whole.with_name(f"{whole.stem}-{name}{whole.suffix}"))
