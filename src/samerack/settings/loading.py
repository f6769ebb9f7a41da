"""Loads the settings from flags, environment and file, and explains what is wrong with them."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from reprlib import Repr
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import InitSettingsSource

from samerack.auth.identities import other_names
from samerack.auth.kafka_config import KNOWN, wrong_key
from samerack.common.errors import SettingsError
from samerack.common.words import kind_of
from samerack.settings.all_settings import (
    Settings,
    check_clusters,
    check_common_brokers,
    mapping,
    may_hold_secrets,
    model_at,
    of_cluster,
    only_cluster,
    sections,
    under_common,
)
from samerack.settings.base import REFUSED
from samerack.settings.sources import CONFIG_VARIABLE, from_environment, from_file, kafka_key

_REPR: Final = Repr()
_REPR.maxstring = _REPR.maxother = 200
_LONGEST_MESSAGE: Final = 2_000
_LONGEST_NAME: Final = 200
_GIVE_SERVERS: Final = (
    "; give kafka: {bootstrap.servers: HOST:PORT} in the file, SAMERACK_KAFKA__BOOTSTRAP_SERVERS or --bootstrap-servers"
)


def load(  # noqa: PLR0913 - all named
    *,
    path: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    needs_kafka: bool = True,
    several: bool = False,
    section: str = "",
) -> Settings:
    """Load the settings from flags, environment and file; the first source with a key wins, nested keys separately.

    Within a source, a cluster's `kafka` goes before the common one.

    Args:
        path: YAML file; without it the variable SAMERACK_CONFIG may name one.
        flags: Nested mapping of the command-line flags.
        environment: Defaults to the process's own.
        needs_kafka: Whether `bootstrap.servers` is required.
        several: Whether these may be settings of several clusters, see `clusters`.
        section: Load only this section, whatever is wrong in others; an unknown one may be meant as this one, and is
            an error.

    Raises:
        SettingsError: A setting is unknown, missing or wrong; the message has the key and the most similar known key,
            or the value and what is expected.
    """
    environment = os.environ if environment is None else environment
    if path is None and environment.get(CONFIG_VARIABLE):
        path = Path(environment[CONFIG_VARIABLE])
    given, written = flags or {}, from_file(path)
    said: dict[str, Mapping[str, Any]] = {
        "the command line": given,
        "the environment": _with_names_of((given, written), from_environment(environment)),
        str(path): written,
    }
    if section:
        others = Settings.model_fields.keys() - {section}
        said = {
            origin: {key: value for key, value in keys.items() if key not in others} for origin, keys in said.items()
        }
    places = [_Place(Settings, dict(keys)) for keys in said.values()]
    if not needs_kafka or any(keys.get("clusters") for keys in said.values()):
        places.append(_Place(Settings, {"kafka": {}}))
    wrong = list(_wrong_kafka_keys(said))
    try:
        settings = Settings(*places)
    except ValidationError as error:
        raise SettingsError(_together([*wrong, *_explained(error, said, misspelt=bool(wrong))])) from None
    except RecursionError:
        raise SettingsError(
            "the settings are nested too deeply; a YAML alias may refer to a block that contains it"
        ) from None
    if wrong:
        raise SettingsError(_together(wrong))
    check_clusters(settings)
    if settings.cluster and settings.clusters:
        settings = of_cluster(settings, settings.cluster)
    elif needs_kafka and not several:
        settings = only_cluster(settings)
    elif several:
        check_common_brokers(said)
    if needs_kafka and not settings.clusters and not settings.kafka.get("bootstrap.servers"):
        raise SettingsError(f"kafka: bootstrap.servers is missing{_GIVE_SERVERS}")
    if own := next((group for group in settings.groups if settings.election.owns(group)), ""):
        raise SettingsError(
            f"groups: {own!r} is the agents' own group (election.group is {settings.election.group!r}); name groups of "
            "consumers"
        )
    return settings


def _with_names_of(others: Iterable[Mapping[str, Any]], own: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what variables say, with names of clusters as others write them, where only one differs in case alone."""
    names = {str(name) for keys in others for name in mapping(keys.get("clusters"))}
    count = Counter(map(str.lower, names))
    known = {name.lower(): name for name in names if count[name.lower()] == 1}
    clusters = {known.get(name, name): cluster for name, cluster in mapping(own.get("clusters")).items()}
    return {**own, "clusters": clusters} if clusters else own


def _together(wrong: list[str]) -> str:
    """Return everything that is wrong in one message, so that a user corrects it in one go."""
    if len(wrong) == 1:
        return wrong[0]
    text = f"{len(wrong)} settings are wrong: " + " ".join(f"({at}) {one}" for at, one in enumerate(wrong, 1))
    return text[:_LONGEST_MESSAGE]


class _Place(InitSettingsSource):
    """One place that sets keys, as a source for the base class, which merges them."""

    def __call__(self) -> dict[str, Any]:
        """Return its keys behind those of stronger places, because in a map of patterns the first match counts."""
        return _behind(self.current_state, under_common(self.current_state.get("kafka"), self.init_kwargs))


def _behind(stronger: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """Return a map with the keys of a stronger one before its own; merging puts the stronger values there."""
    ordered: dict[str, Any] = {key: {} for key in stronger}
    for key, value in said.items():
        if key in other_names(stronger):
            continue
        above = stronger.get(key)
        ordered[key] = _behind(above, value) if isinstance(above, dict) and isinstance(value, dict) else value
    return ordered


def _wrong_kafka_keys(said: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Return a text for each key of the client that leads groups which Kafka does not have.

    Those of `publishing` are librdkafka's alone, which refuses what it does not know when publishing begins.
    """
    for origin, keys in said.items():
        clusters = mapping(keys.get("clusters")).items()
        owners = {"": keys, **{f"clusters.{name}.": mapping(cluster) for name, cluster in clusters}}
        for owner, part in owners.items():
            for key in mapping(part.get("kafka")):
                if reason := wrong_key(str(key), f"{owner}kafka"):
                    yield f"{f'{owner}kafka.{key}'[:_LONGEST_NAME]} (from {origin}): {reason}"


_SIMILAR: Final = 0.7
"""From 0 to 1; below it a hint would name something that was not meant."""


def _nearest(above: Sequence[int | str], key: str) -> str:
    """Return a hint at the setting that was meant by an unknown key: of the same section, else of the same name."""
    key, prefix = key[:_LONGEST_NAME].lower(), "".join(f"{part}." for part in above)[:_LONGEST_NAME]
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


def _explained(error: ValidationError, said: Mapping[str, Mapping[str, Any]], *, misspelt: bool) -> list[str]:
    """Return a text for each error, unknown keys first; a key that was meant by one of those is not called missing too.

    `misspelt` is whether a key of Kafka is unknown besides.
    """
    errors = sorted(error.errors(), key=lambda one: len(one["loc"]) if one["type"] in _UNKNOWN else math.inf)
    unknown = [one["loc"] for one in errors if one["type"] in _UNKNOWN]
    beside = {loc[:-1] for loc in unknown}
    if misspelt or any(len(loc) <= _NAMED_LEVELS for loc in unknown):
        beside.add(())
    texts = [text for loc in unknown for text in _unknown(loc, said)]
    return texts + [
        _explain(one) for one in errors[len(unknown) :] if not (one["type"] == "missing" and one["loc"][:-1] in beside)
    ]


_UNKNOWN: Final = ("extra_forbidden", "invalid_key")
_NAMED_LEVELS: Final = 2
"""The place that says an unknown key is named for those of the two upper levels, where places are merged key by key."""


def _unknown(loc: Sequence[int | str], said: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a text for each place that says a key which is not a setting."""
    *above, key = loc
    name = ".".join(map(str, loc))[:_LONGEST_NAME]
    hint = f"no such setting{_nearest(above, str(key))}"
    origins = [origin for origin, keys in said.items() if _has(keys, loc)] if len(loc) <= _NAMED_LEVELS else []
    return [f"{name} (from {origin}): {hint}" for origin in origins] or [f"{name}: {hint}"]


def _has(keys: object, loc: Sequence[int | str]) -> bool:
    return not loc or (isinstance(keys, Mapping) and loc[0] in keys and _has(keys[loc[0]], loc[1:]))


def _explain(first: ErrorDetails) -> str:
    place = ".".join(str(part) for part in first["loc"]) or "settings"
    if first["type"] == REFUSED:
        return f"{place}{first['msg']}"[:_LONGEST_MESSAGE]
    if first["type"] == "missing":
        return f"{place}: is missing{_GIVE_SERVERS if place == 'kafka' else ''}"
    value = first.get("input")
    got = kind_of(value) if value is None or may_hold_secrets(first["loc"]) else _REPR.repr(value)
    said = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return f"{place}: {_EXPECTED.get(first['type'], said)}, got {got}"[:_LONGEST_MESSAGE]


_A_MAP: Final = "must be a map"
_A_LIST: Final = "must be a list"
_A_NUMBER: Final = "must be a number"
_WHOLE: Final = "must be a whole number"
_YES_OR_NO: Final = "must be true or false"
_EXPECTED: Final = {
    "tuple_type": _A_LIST,
    "dict_type": _A_MAP,
    "model_type": _A_MAP,
    "string_type": "must be a string",
    "string_too_short": "must not be empty",
    "string_unicode": "contains characters that UTF-8 cannot encode",
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
