"""All settings of the agent: one model, filled from flags, environment, a YAML file and defaults, in that order.

The descriptions here are the reference documentation (docs/configuration.md is generated from them). The packages that
use a setting implement it; nothing here connects to a broker.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast, get_args, get_origin

import yaml
from pydantic import BaseModel, Field, field_validator
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from samerack.common.patterns import wrong_selection
from samerack.settings.base import KafkaTexts, Names
from samerack.settings.leading import ElectionSettings, LeadingSettings, PodSettings, RackSettings, SupervisorSettings
from samerack.settings.measuring import ClusterSettings, MoneySettings, TrafficSettings
from samerack.settings.pipeline import PipelineSettings
from samerack.settings.policy import PolicySettings
from samerack.settings.publishing import EventSettings, LogSettings, OtelSettings, PublishingSettings, WebSettings
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

    kafka: KafkaTexts = Field(
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
        "run` observes only that one.",
        examples=["east"],
    )
    racks: RackSettings = RackSettings()
    pod: PodSettings = PodSettings()
    leading: LeadingSettings = LeadingSettings()
    policy: PolicySettings = PolicySettings()
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
    whole is named once, and so is what is the first or last in a mapping.
    """
    old, new = (dict(_flat(settings.model_dump(mode="json"))) for settings in (before, now))
    changes = {
        key: (old.get(key, _ABSENT), new.get(key, _ABSENT))
        for key in sorted(old.keys() | new.keys())
        if old.get(key, _ABSENT) != new.get(key, _ABSENT)
    }
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
