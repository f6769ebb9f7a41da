"""Loads the settings from flags, environment and file, and explains what is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from reprlib import Repr
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from samerack.auth.kafka_config import KNOWN, wrong_key
from samerack.common.errors import SettingsError
from samerack.common.texts import kind_of
from samerack.settings.all_settings import Settings, may_hold_secrets, model_at, sections
from samerack.settings.clusters import check_clusters, check_common_brokers, of_cluster, only_cluster, under_common
from samerack.settings.sources import CONFIG_VARIABLE, from_environment, from_file, kafka_key, under

_REPR: Final = Repr()
_REPR.maxstring = _REPR.maxother = 200
_LONGEST_MESSAGE: Final = 2_000
_LONGEST_NAME: Final = 200


def load(
    *,
    path: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    needs_kafka: bool = True,
    several: bool = False,
) -> Settings:
    """Load the settings from flags, environment and file; the first source with a key wins, nested keys separately.

    Within a source, a cluster's `kafka` goes before the common one.

    Args:
        path: YAML file; without it the variable SAMERACK_CONFIG may name one.
        flags: Nested mapping of the command-line flags.
        environment: Defaults to the process's own.
        needs_kafka: Whether `bootstrap.servers` is required.
        several: Whether these may be settings of several clusters, see `clusters`.

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
    wrong: list[str] = []
    try:
        for origin, layer in layers.items():
            wrong += _wrong_names(layer, origin)
            merged = under(merged, under_common(merged.get("kafka"), layer))
        if not needs_kafka or merged.get("clusters"):
            merged = under(merged, {"kafka": {}})
        settings = Settings(**_known(merged))
    except SettingsError as error:
        raise SettingsError(_together([*wrong, str(error)])) from None
    except ValidationError as error:
        raise SettingsError(_together([*wrong, *_explained(error, misspelt=wrong)])) from None
    except RecursionError:
        raise SettingsError("the settings are nested too deeply; a YAML alias may refer to what it is in") from None
    if wrong:
        raise SettingsError(_together(wrong))
    check_clusters(settings)
    if settings.cluster and settings.clusters:
        settings = of_cluster(settings, settings.cluster)
    elif needs_kafka and not several:
        settings = only_cluster(settings)
    elif several:
        check_common_brokers(layers)
    if needs_kafka and not settings.clusters and not settings.kafka.get("bootstrap.servers"):
        raise SettingsError(
            "kafka: bootstrap.servers is missing; give --bootstrap-servers, SAMERACK_KAFKA__BOOTSTRAP_SERVERS or "
            "kafka: {bootstrap.servers: HOST:PORT} in the file"
        )
    if own := next((group for group in settings.groups if settings.election.owns(group)), ""):
        raise SettingsError(
            f"groups: {own!r} is the agents' own group (election.group is {settings.election.group!r}); name groups of "
            "consumers"
        )
    return settings


def _together(wrong: list[str]) -> str:
    """Return everything that is wrong in one message, so that a user corrects it in one go."""
    if len(wrong) == 1:
        return wrong[0]
    text = f"{len(wrong)} settings are wrong: " + " ".join(f"({at}) {one}" for at, one in enumerate(wrong, 1))
    return text[:_LONGEST_MESSAGE]


def _known(merged: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without the keys that `_wrong_names` names."""
    models = sections()
    return {
        name: {key: value for key, value in part.items() if key in models[name].model_fields}
        if name in models and isinstance(part, Mapping)
        else part
        for name, part in merged.items()
        if name in Settings.model_fields
    }


def _wrong_names(layer: Mapping[str, Any], origin: str) -> list[str]:
    """Return a text for each key of the two upper levels that is no setting, and for each that Kafka does not have."""
    wrong, models = [], sections()
    for place, model in models.items():
        part = layer if place == "" else layer.get(place)
        if not isinstance(part, Mapping):
            continue
        for key in part:
            if key not in model.model_fields:
                dotted = (f"{place}.{key}" if place else str(key))[:_LONGEST_NAME]
                wrong.append(f"{dotted} (from {origin}): no such setting{_nearest([place] if place else [], str(key))}")
    wrong += [
        f"{f'{place}.{key}'[:_LONGEST_NAME]} (from {origin}): {reason}"
        for place, part in _kafka_maps(layer)
        for key in part
        if (reason := wrong_key(str(key), place))
    ]
    return wrong


def _kafka_maps(layer: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """Return the places of settings for the client that leads groups, and what a source says of them.

    Those of `publishing` are librdkafka's alone, which refuses what it does not know when publishing begins.
    """
    clusters = layer.get("clusters")
    owners: list[tuple[str, object]] = [("", layer)]
    owners += [(f"clusters.{name}.", each) for name, each in clusters.items()] if isinstance(clusters, Mapping) else []
    for prefix, owner in owners:
        if isinstance(owner, Mapping) and isinstance(part := owner.get("kafka"), Mapping):
            yield f"{prefix}kafka", part


_RENAMED: Final = {
    "leading.roundrobin_tolerates": "leading.allow_roundrobin_v0",
    "policy.least_saving": "policy.min_saving",
    "policy.least_saving_bytes_per_second": "policy.min_saving_bytes_per_second",
    "policy.least_saving_dollars_per_day": "policy.min_saving_dollars_per_day",
    "policy.most_per_hour": "policy.max_per_hour",
    "publishing.groups_topic": "publishing.states_topic",
    "publishing.most_buffered_bytes": "publishing.max_buffered_bytes",
    "publishing.most_buffered_records": "publishing.max_buffered_records",
    "leading.roll_seconds": "leading.position_retry_seconds",
    "supervisor.calm_seconds": "supervisor.restart_window_seconds",
    "supervisor.most_deaths": "supervisor.max_restarts",
    "traffic.most_series": "traffic.max_series",
}
"""Former names of settings; each is refused with a hint at its current name."""


_SIMILAR: Final = 0.7
"""From 0 to 1; below it a hint would name something that was not meant."""


def _nearest(above: Sequence[int | str], key: str) -> str:
    """Return a hint at the setting that was meant by an unknown key: of the same section, else of the same name."""
    key, prefix = key[:_LONGEST_NAME].lower(), "".join(f"{part}." for part in above)[:_LONGEST_NAME]
    if renamed := _RENAMED.get(f"{prefix}{key}"):
        return f"; it is called {renamed} now"
    here = list(model_at(above).model_fields)
    close = [f"{prefix}{name}" for name in get_close_matches(key, here, n=1, cutoff=_SIMILAR)]
    if not close and "kafka" in here:
        close = [f"{prefix}{name}" for name in _kafka_name(key)]
    close = close or _elsewhere(prefix, key) or [f"{prefix}{name}" for name in here if key.startswith(name)]
    if close:
        return f"; did you mean {close[0]}?"
    return f"; settings {f'of {prefix[:-1]} ' if prefix else ''}are {', '.join(sorted(here))}"


def _kafka_name(key: str) -> list[str]:
    """Return the setting of Kafka that a key means, in librdkafka's name or with underscores as in the environment."""
    name = kafka_key(key)
    if get_close_matches(name.partition(".")[0], ["bootstrap"], cutoff=_SIMILAR):
        return ["kafka.bootstrap.servers"]
    return [f"kafka.{name}"] if name in KNOWN else []


def _elsewhere(prefix: str, key: str) -> list[str]:
    """Return the setting that has this name in another section, or with an underscore for the section's dot.

    Where several have it, only that of the same section may be meant.
    """
    names = [
        f"{place}.{field}" if place else field for place, model in sections().items() for field in model.model_fields
    ]
    same = [name for name in names if key in (name.rpartition(".")[2], name.replace(".", "_"))]
    return same if len(same) == 1 else [name for name in same if prefix.startswith(f"{name.partition('.')[0]}.")]


def _explained(error: ValidationError, *, misspelt: Sequence[str]) -> list[str]:
    """Return a text for each error; a key that was meant by one of those misspelt is not called missing too."""
    errors = error.errors()
    beside = {one["loc"][:-1] for one in errors if one["type"] == "extra_forbidden"} | ({()} if misspelt else set())
    return [_explain(one) for one in errors if not (one["type"] == "missing" and one["loc"][:-1] in beside)]


def _explain(first: ErrorDetails) -> str:
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing" and place != "kafka":
        return f"{place}: is missing"
    if first["type"] == "missing":
        return (
            f"{place}: is missing; give kafka: {{bootstrap.servers: HOST:PORT}} in the file, "
            "SAMERACK_KAFKA__BOOTSTRAP_SERVERS or --bootstrap-servers"
        )
    if first["type"] == "extra_forbidden":
        *above, key = first["loc"]
        return f"{place}: no such setting{_nearest(above, str(key))}"
    value = first.get("input")
    got = kind_of(value) if value is None or may_hold_secrets(first["loc"]) else _REPR.repr(value)
    said = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return f"{place}: {_EXPECTED.get(first['type'], said)}, got {got}"[:_LONGEST_MESSAGE]


_A_MAP: Final = "must be a map of keys and values"
_A_LIST: Final = "must be a list"
_A_NUMBER: Final = "must be a number"
_WHOLE: Final = "must be a whole number"
_YES_OR_NO: Final = "must be true or false"
_EXPECTED: Final = {
    "tuple_type": _A_LIST,
    "dict_type": _A_MAP,
    "model_type": _A_MAP,
    "string_type": "must be a text",
    "string_too_short": "must not be empty",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _A_NUMBER,
    "float_parsing": _A_NUMBER,
    "finite_number": _A_NUMBER,
    "bool_type": _YES_OR_NO,
    "bool_parsing": _YES_OR_NO,
}
"""What is wrong with a value, by pydantic's name of the error: its own words are Python's."""
