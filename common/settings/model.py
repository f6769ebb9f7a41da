"""All settings of the agent: one model, filled from flags, environment, a YAML file and defaults, in that order.

The descriptions here are the reference documentation (docs/configuration.md is generated from them). The packages that
use a setting implement it; nothing here connects to a broker.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from reprlib import Repr
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from samerack.common.errors import SettingsError
from samerack.common.servers import wrong_servers
from samerack.common.settings.base import Names
from samerack.common.settings.election import ElectionSettings
from samerack.common.settings.events import EventSettings
from samerack.common.settings.leading import LeadingSettings, RackSettings, WatchSettings
from samerack.common.settings.measuring import MoneySettings, TrafficSettings
from samerack.common.settings.pipeline import PipelineSettings
from samerack.common.settings.pod import PodSettings
from samerack.common.settings.policy import PolicySettings
from samerack.common.settings.publishing import PublishingSettings
from samerack.common.settings.showing import LogSettings, WebSettings
from samerack.common.settings.supervisor import SupervisorSettings
from samerack.common.sources import CONFIG_VARIABLE, from_environment, from_file, is_utf8, under

_SECRET: Final = (("kafka",), ("publishing", "kafka"), ("pipeline", "conf"))
"""Settings that may hold passwords: error messages do not repeat their values, nor values that contain them."""
_REPR: Final = Repr()
_REPR.maxstring = _REPR.maxother = 200
_LONGEST_MESSAGE: Final = 2_000
_LONGEST_NAME: Final = 200


class Settings(BaseModel):
    """The whole."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kafka: dict[str, str] = Field(
        description="Kafka settings in librdkafka's names, for both clients; `bootstrap.servers` is required. In the "
        "environment dots are underscores: `SAMERACK_KAFKA__BOOTSTRAP_SERVERS`.",
        examples=[{"bootstrap.servers": "127.0.0.1:9092"}],
    )
    groups: Names = Field(default=(), description="Consumer groups to lead.", examples=[["orders", "payments"]])
    racks: RackSettings = RackSettings()
    pod: PodSettings = PodSettings()
    leading: LeadingSettings = LeadingSettings()
    policy: PolicySettings = PolicySettings()
    election: ElectionSettings = ElectionSettings()
    supervisor: SupervisorSettings = SupervisorSettings()
    watch: WatchSettings = WatchSettings()
    web: WebSettings = WebSettings()
    traffic: TrafficSettings = TrafficSettings()
    money: MoneySettings = MoneySettings()
    publishing: PublishingSettings = PublishingSettings()
    events: EventSettings = EventSettings()
    log: LogSettings = LogSettings()
    pipeline: PipelineSettings = PipelineSettings()

    @field_validator("kafka", mode="before")
    @classmethod
    def _kafka_as_text(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        texts = {str(key): _as_text(str(key), item) for key, item in value.items()}
        if wrong := wrong_servers(texts["bootstrap.servers"]) if texts.get("bootstrap.servers") else "":
            raise SettingsError(f"kafka.bootstrap.servers: {wrong}")
        return texts

    @field_validator("groups")
    @classmethod
    def _each_group_once(cls, groups: tuple[str, ...]) -> tuple[str, ...]:
        if twice := [group for group, count in Counter(groups).items() if count > 1]:
            raise ValueError(f"{twice[0]!r} stands twice; keep one")
        return groups


def _as_text(key: str, value: object) -> str:
    if isinstance(value, list) and not any(isinstance(item, list) for item in value):
        return ",".join(_as_text(key, item) for item in value)
    if value is None or isinstance(value, Mapping | list):
        # not a ValueError: pydantic would show that with the whole of `kafka`, passwords included
        has = "no value" if value is None else "lists in a list" if isinstance(value, list) else "keys of its own"
        raise SettingsError(f"kafka.{key}: has {has}; expected a text")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not is_utf8(text):
        raise SettingsError(f"kafka.{key}: holds what cannot be written in UTF-8; expected a text")
    return text


def load(
    *,
    path: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    needs_kafka: bool = True,
) -> Settings:
    """Loads the settings from flags, environment and file; the first source with a key wins, nested keys separately.

    Args:
        path: YAML file; without it the variable SAMERACK_CONFIG may name one.
        flags: Nested mapping of the command-line flags.
        environment: Defaults to the process's own.
        needs_kafka: Whether `bootstrap.servers` is required.

    Raises:
        SettingsError: A setting is unknown, missing or wrong; the message has the key and the most similar known key,
            or the value and what is expected.
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
    try:
        for origin, layer in layers.items():
            _check_names(layer, origin)
            merged = under(merged, layer)
        if not needs_kafka:
            merged = under(merged, {"kafka": {}})
        settings = Settings(**merged)
    except ValidationError as error:
        raise SettingsError(_explain(error)) from None
    except RecursionError:
        raise SettingsError("the settings are nested too deeply; a YAML alias may refer to what it is in") from None
    if needs_kafka and not settings.kafka.get("bootstrap.servers"):
        raise SettingsError(
            "kafka: bootstrap.servers is missing; give --bootstrap-servers, SAMERACK_KAFKA__BOOTSTRAP_SERVERS or "
            "kafka: {bootstrap.servers: HOST:PORT} in the file"
        )
    _check_groups(settings)
    return settings


def _check_groups(settings: Settings) -> None:
    own = settings.election.group
    for group in settings.groups:
        if own and (group == own or group.startswith(f"{own}-waiting-")):
            raise SettingsError(
                f"groups: {group!r} is the agents' own group (election.group is {own!r}); name groups of consumers"
            )


def sections() -> dict[str, type[BaseModel]]:
    """Returns the models by section name: "" for the top level, then each section."""
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
                dotted = (f"{place}.{key}" if place else str(key))[:_LONGEST_NAME]
                raise SettingsError(f"{dotted} (from {origin}): no such setting{_nearest(dotted)}")


_RENAMED: Final = {
    "leading.roundrobin_tolerates": "leading.allow_roundrobin_v0",
    "policy.least_saving": "policy.min_saving",
    "policy.least_saving_bytes_per_second": "policy.min_saving_bytes_per_second",
    "policy.least_saving_dollars_per_day": "policy.min_saving_dollars_per_day",
    "policy.most_per_hour": "policy.max_per_hour",
    "publishing.most_buffered_bytes": "publishing.max_buffered_bytes",
    "publishing.most_buffered_records": "publishing.max_buffered_records",
    "leading.roll_seconds": "leading.position_retry_seconds",
    "supervisor.calm_seconds": "supervisor.restart_window_seconds",
    "supervisor.most_deaths": "supervisor.max_restarts",
    "traffic.most_series": "traffic.max_series",
}
"""Former names of settings; each is refused with a hint at its current name."""


def _nearest(dotted: str) -> str:
    if dotted in _RENAMED:
        return f"; it is called {_RENAMED[dotted]} now"
    names = [
        f"{place}.{field}" if place else field for place, model in sections().items() for field in model.model_fields
    ]
    elsewhere = [name for name in names if name.rpartition(".")[2] == dotted.rpartition(".")[2]][:1]
    close = elsewhere or get_close_matches(dotted, names, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else f"; settings are {', '.join(sorted(Settings.model_fields))}"


def _explain(error: ValidationError) -> str:
    errors = error.errors()
    # report a misspelt key first: the key that was meant is reported as missing too
    first = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing" and place != "kafka":
        return f"{place}: is missing"
    if first["type"] == "missing":
        return (
            f"{place}: is missing; give kafka: {{bootstrap.servers: HOST:PORT}} in the file, "
            "SAMERACK_KAFKA__BOOTSTRAP_SERVERS or --bootstrap-servers"
        )
    if first["type"] == "extra_forbidden":
        section, key = first["loc"][0], first["loc"][-1]
        return f"{place}: no such setting{_nearest(f'{section}.{key}')}"
    value = first.get("input")
    loc = first["loc"]
    secret = any(loc[: len(keys)] == keys or keys[: len(loc)] == loc for keys in _SECRET)
    got = f"a {type(value).__name__}" if secret else _REPR.repr(value)
    return f"{place}: {first['msg'].removeprefix('Value error, ')}, got {got}"[:_LONGEST_MESSAGE]
