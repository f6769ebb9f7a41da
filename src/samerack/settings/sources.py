"""Reads settings as plain nested mappings from a YAML file, the environment, and values of the command line.

`settings` defines the keys; this module knows only `kafka`, whose keys contain dots.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

import yaml

from samerack.auth.kafka_config import KNOWN
from samerack.common.errors import SettingsError
from samerack.common.words import is_utf8, kind_of

ENV_PREFIX: Final = "SAMERACK_"
CONFIG_VARIABLE: Final = "SAMERACK_CONFIG"
"""Variable with the path of the YAML file, used without `--config`."""
_SERVICE_LINK: Final = re.compile(
    rf"{ENV_PREFIX}(?:[A-Z0-9]+_)*"
    r"(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)"
)
_SERVICE_ADDRESS: Final = re.compile(rf"{ENV_PREFIX}(?:[A-Z0-9]+_)*PORT=(?:tcp|udp|sctp)://.*")
"""Variables that Kubernetes sets in every pod for a Service whose name starts with `samerack` (`enableServiceLinks`).

No setting looks like these: a section ends with two underscores, and no port is an address.
"""
_LIKE_A_LIST: Final = re.compile(r"\[.*\]|\{.*\}|\[[^\]]*|\{[^}]*|\[[^\]]*[,'\"].*|\{[^}]*[,:'\"].*", re.DOTALL)
"""In brackets, with one that nothing closes, or with text behind a list; `[ab]*` is a pattern."""
_QUOTED: Final = re.compile(r"(['\"]).*\1", re.DOTALL)


_TAG: Final = "tag:yaml.org,2002:"
_NUMBERS: Final = (f"{_TAG}int", f"{_TAG}float", f"{_TAG}timestamp")


class _TwiceError(yaml.YAMLError):
    """A key occurs twice in one map; dropping one value silently would be wrong."""


class _Loader(yaml.SafeLoader):
    """YAML's safe loader, but it refuses duplicate keys, of which the safe loader silently takes the last.

    Numbers and dates of keys with dots, which are settings of other libraries and become texts, stay as they are
    written: a password 0123 is an octal number in YAML.
    """

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Return the node of the map that comes next."""
        node = super().compose_mapping_node(anchor)
        node.value = [(key, _as_written(value) if "." in key.value else value) for key, value in node.value]
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - its base's
        """Return the map of a node."""
        keys = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != f"{_TAG}merge":
                if key.value in keys:
                    line = key.start_mark.line + 1
                    raise _TwiceError(f"{key.value} occurs twice in one section (again on line {line}); keep one")
                keys.add(key.value)
        return super().construct_mapping(node, deep)


def _as_written(node: yaml.Node) -> yaml.Node:
    """Return the node of a text for that of a number or a date."""
    if isinstance(node, yaml.ScalarNode) and node.tag in _NUMBERS:
        return yaml.ScalarNode(f"{_TAG}str", node.value, node.start_mark, node.end_mark)
    return node


def _parsed(text: str) -> Any:
    """Parse a YAML text; a YAMLError is raised for whatever is wrong with it."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a safe loader
    except RecursionError:
        raise yaml.YAMLError("it is nested too deeply") from None
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):  # 2026-99-99, !!int x
        raise yaml.YAMLError("a value looks like a date or a number but is not valid; put it in quotes") from None


_SIGN: Final = "a value that begins with ! or * is a YAML tag or alias; put it in quotes"
_MEANINGS: Final = {
    "found undefined alias": _SIGN,
    "could not determine a constructor for the tag": _SIGN,
    "expected ',' or ']'": "a list is not closed; expected , or ]",
    "expected ',' or '}'": "a map is not closed; expected , or }",
    "expected <block end>": "expected a key or an item in the same column as those before it",
    "expected the node content": "expected a value or a closing bracket",
    "expected '<document start>'": "expected the end of the file",
    "but found another document": "found a second document; expected the end of the file",
    "mapping values are not allowed": "unexpected colon; put the key in the same column as those before it, and quote "
    "a value that contains a colon",
    "sequence entries are not allowed": "unexpected dash; put each item on its own line",
    "could not find expected ':'": "expected a colon and a space after the key",
    "found character '\\t'": "unexpected tab; indent with spaces",
    "found character": "a value cannot begin with this character; put it in quotes",
    "found unexpected end of stream": "a quoted string is not closed before the end of the file",
}
"""What the parser's messages mean, by their beginnings."""


def _explained(error: yaml.YAMLError | UnicodeDecodeError) -> str:
    """Return the error and its position, without the text at that position, which may be a password."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())
    problem, mark, opened = str(error.problem), error.problem_mark, error.context_mark
    if sign := opened if str(error.context).startswith(_SCANNING_SIGNS) else _swallowing(problem, mark):
        return f"{_SIGN} (line {sign.line + 1}, column {sign.column + 1})"
    meaning = next((words for begins, words in _MEANINGS.items() if problem.startswith(begins)), "")
    since = (
        f", in the block that begins on line {opened.line + 1}"
        if meaning and opened and opened.line < mark.line
        else ""
    )
    return f"{meaning or _without_values(problem)} (line {mark.line + 1}, column {mark.column + 1}{since})"


_SCANNING_SIGNS: Final = ("while scanning an alias", "while scanning a tag")


def _swallowing(problem: str, mark: yaml.Mark) -> yaml.Mark | None:
    """Return the place of a value such as `!tmp-*]`, where a list is not closed: to YAML the bracket is part of it."""
    if not problem.startswith("expected ',' or ']'") or mark.buffer is None:
        return None
    with suppress(yaml.YAMLError):
        for token in yaml.scan(mark.buffer.rstrip("\0"), yaml.SafeLoader):
            if isinstance(token, yaml.TagToken) and token.value[1].endswith("]"):
                return cast("yaml.Mark", token.start_mark)
    return None


def _without_values(problem: str) -> str:
    """Return what the parser says without what it found: what it expected are signs of YAML, not of the file."""
    return problem.partition(", but ")[0] if problem.startswith("expected ") else problem.partition(" '")[0]


def from_file(path: Path | None) -> dict[str, Any]:
    """Return the keys in a YAML file; none without a file.

    Raises:
        SettingsError: The file cannot be read, is not YAML or holds no keys.
    """
    if path is None:
        return {}
    try:
        content = _parsed(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(
            f"{path}: cannot be read ({error.strerror}); give the path of an existing YAML file"
        ) from None
    except _TwiceError as error:
        raise SettingsError(f"{path}: {error}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: is not YAML: {_explained(error)}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise SettingsError(f"{path}: holds {kind_of(content)}; expected settings such as kafka and groups")
    return {str(key): value for key, value in content.items() if value is not None}  # a section may be all comments


def from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the keys in variables named SAMERACK_SECTION__KEY, without those that Kubernetes sets for Services.

    Raises:
        SettingsError: Two variables contradict each other, or one is not text.
    """
    result: dict[str, Any] = {}
    for variable, text in sorted(environment.items()):
        if not variable.startswith(ENV_PREFIX) or variable == CONFIG_VARIABLE or _is_service_link(variable, text):
            continue
        if not is_utf8(variable + text):
            raise SettingsError(f"{ascii(variable)[1:-1]}: contains bytes that are not UTF-8; expected text")
        keys = variable.removeprefix(ENV_PREFIX).lower().split("__")
        value: Any
        above = _above_kafka(keys)
        if above is not None:
            keys, value = [*above, kafka_key("__".join(keys[len(above) :]))], text
        else:
            try:
                value = parse_text(text)
            except SettingsError as error:
                raise SettingsError(f"{variable}: {error}") from None
        place = result
        for key in keys[:-1]:
            place = place.setdefault(key, {})
            if not isinstance(place, dict):
                raise SettingsError(f"{variable}: {key} is set as a whole by another variable; set only one of them")
        place[keys[-1]] = value
    return result


def _above_kafka(keys: list[str]) -> list[str] | None:
    """Return the sections above a Kafka setting; None if the keys are those of another setting."""
    length = {"kafka": 1, "publishing": 2, "clusters": 3}.get(keys[0], len(keys))
    return keys[:length] if len(keys) > length and keys[length - 1] == "kafka" else None


def _is_service_link(variable: str, text: str) -> bool:
    return bool(_SERVICE_LINK.fullmatch(variable) or _SERVICE_ADDRESS.fullmatch(f"{variable}={text}"))


def kafka_key(name: str) -> str:
    """Return Kafka's name of a setting whose dots may be written as underscores."""
    return name if name in KNOWN else name.replace("_", ".")


def parse_text(text: str) -> Any:
    """Return what a list, a map or a text in quotes holds, else the unchanged text: the model converts other types.

    Raises:
        SettingsError: A map has a duplicate key, or what looks like a list or a map is not one: as a text it would be a
            name that nobody meant, or a pattern of one character.
    """
    try:
        parsed = _parsed(text)
    except _TwiceError as error:
        raise SettingsError(str(error)) from None  # without the text, which may hold a password
    except yaml.YAMLError:
        if is_like_a_list(text):
            raise SettingsError(
                "looks like a list or a map but is not valid; close its brackets, and put values with a star or other "
                'signs of YAML in quotes, as in ["*"]'
            ) from None  # without the text, see above
        return text
    if isinstance(parsed, (list, dict)):
        return parsed
    if not isinstance(parsed, str) or not _QUOTED.fullmatch(text.strip()):
        return text
    if is_like_a_list(parsed):
        raise SettingsError(IN_QUOTES)
    return parsed


IN_QUOTES: Final = "is a list or a map in quotes, which would be read as a single string; remove the quotes around it"


def is_like_a_list(text: str) -> bool:
    """Return whether a text looks like a list or a map of YAML, whole or broken."""
    return bool(_LIKE_A_LIST.fullmatch(text.strip()))
