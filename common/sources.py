"""Reads settings as plain nested mappings from a YAML file, the environment, and values of the command line.

`common.settings` defines the keys; this module knows only `kafka`, whose keys contain dots.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from samerack.common.errors import SettingsError
from samerack.common.kafka_config import KNOWN

ENV_PREFIX: Final = "SAMERACK_"
CONFIG_VARIABLE: Final = "SAMERACK_CONFIG"
"""Variable with the path of the YAML file, used without `--config`."""
_SERVICE_LINK: Final = re.compile(
    rf"{ENV_PREFIX}(?:[A-Z0-9]+_)*"
    r"(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)"
)
_LIKE_A_LIST: Final = re.compile(r"\[.*\]|\{.*\}", re.DOTALL)
_SERVICE_ADDRESS: Final = re.compile(rf"{ENV_PREFIX}(?:[A-Z0-9]+_)*PORT=(?:tcp|udp|sctp)://.*")
"""Variables that Kubernetes sets in every pod for a Service whose name starts with `samerack` (`enableServiceLinks`).

No setting looks like these: a section ends with two underscores, and no port is an address.
"""


class _TwiceError(yaml.YAMLError):
    """A key occurs twice in one map; dropping one value silently would be wrong."""


class _Loader(yaml.SafeLoader):
    """YAML's safe loader, but it refuses duplicate keys; the safe loader silently takes the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - its base's
        """Returns the map of a node."""
        keys = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in keys:
                    line = key.start_mark.line + 1
                    raise _TwiceError(f"{key.value} stands twice in one section (again in line {line}); keep one")
                keys.add(key.value)
        return super().construct_mapping(node, deep)


def _parsed(text: str) -> Any:
    """Parses a YAML text.

    Raises:
        yaml.YAMLError: It is not YAML.
    """
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a safe loader
    except RecursionError:
        raise yaml.YAMLError("it is nested too deeply") from None
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):  # 2026-99-99, !!int x
        raise yaml.YAMLError("a value looks like a date or a number, and is none; put it in quotes") from None


def _explained(error: yaml.YAMLError | UnicodeDecodeError) -> str:
    """Returns the error and its position, without the text at that position, which may be a password."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())
    problem, mark = str(error.problem).partition(" '")[0], error.problem_mark
    return f"{problem} (line {mark.line + 1}, column {mark.column + 1})"


def from_file(path: Path | None) -> dict[str, Any]:
    """Returns the keys in a YAML file; none without a file.

    Raises:
        SettingsError: The file cannot be read, is not YAML or holds no keys.
    """
    if path is None:
        return {}
    try:
        content = _parsed(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror}); name an existing YAML file") from None
    except _TwiceError as error:
        raise SettingsError(f"{path}: {error}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: is not YAML: {_explained(error)}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise SettingsError(f"{path}: holds a {type(content).__name__}; expected keys such as kafka and groups")
    return {key: value for key, value in content.items() if value is not None}  # a section may be all comments


def is_utf8(text: str) -> bool:
    """Returns whether a text can be encoded in UTF-8; Python reads invalid bytes of the environment as surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Returns the keys in variables named SAMERACK_SECTION__KEY, without those that Kubernetes sets for Services.

    Raises:
        SettingsError: Two variables contradict each other, or one is not text.
    """
    result: dict[str, Any] = {}
    for variable, text in sorted(environment.items()):
        if not variable.startswith(ENV_PREFIX) or variable == CONFIG_VARIABLE or _is_service_link(variable, text):
            continue
        if not is_utf8(variable + text):
            raise SettingsError(f"{ascii(variable)[1:-1]}: holds bytes that are no UTF-8; expected a text")
        keys = variable.removeprefix(ENV_PREFIX).lower().split("__")
        value: Any
        above = _above_kafka(keys)
        if above is not None:
            keys, value = [*above, _kafka_key("__".join(keys[len(above) :]))], text
        else:
            try:
                value = parse_text(text)
            except SettingsError as error:
                raise SettingsError(f"{variable}: {error}") from None
        place = result
        for key in keys[:-1]:
            place = place.setdefault(key, {})
            if not isinstance(place, dict):
                raise SettingsError(f"{variable}: {key} is set as a whole by another variable; set one or the other")
        place[keys[-1]] = value
    return result


def _above_kafka(keys: list[str]) -> list[str] | None:
    """Returns the sections above a Kafka setting; None if the keys are those of another setting."""
    if keys[0] == "kafka" and len(keys) > 1:
        return ["kafka"]
    if keys[0] == "clusters" and keys[2:3] == ["kafka"] and len(keys) > 3:
        return keys[:3]
    return None


def _is_service_link(variable: str, text: str) -> bool:
    return bool(_SERVICE_LINK.fullmatch(variable) or _SERVICE_ADDRESS.fullmatch(f"{variable}={text}"))


def _kafka_key(name: str) -> str:
    return name if name in KNOWN else name.replace("_", ".")


def parse_text(text: str) -> Any:
    """Returns a list or map if the text is YAML for one, else the unchanged text: the model converts other types.

    Raises:
        SettingsError: A map has a duplicate key, or brackets around all of it hold no YAML: as a text it would be a
            pattern of one character.
    """
    try:
        parsed = _parsed(text)
    except _TwiceError as error:
        raise SettingsError(str(error)) from None  # without the text, which may hold a password
    except yaml.YAMLError:
        if _LIKE_A_LIST.fullmatch(text.strip()):
            raise SettingsError(
                "looks like a list or a map and is none; put what has a star or other signs of YAML in quotes, as in "
                '["*"]'
            ) from None  # without the text, see above
        return text
    return parsed if isinstance(parsed, (list, dict)) else text


def under(high: Mapping[str, Any], low: Mapping[str, Any]) -> dict[str, Any]:
    """Merges `low` into `high`, which wins; its keys also come first: in a map of patterns the first match counts."""
    merged = dict(high)
    for key, value in low.items():
        above = merged.get(key)
        if key not in merged:
            merged[key] = value
        elif isinstance(above, Mapping) and isinstance(value, Mapping):
            merged[key] = under(above, value)
    return merged
