"""The base class and common types of the sections of the settings, Kafka's settings among them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from samerack.common.words import is_utf8
from samerack.settings.sources import IN_QUOTES, is_like_a_list

Seconds = Annotated[float, Field(gt=0)]


def _split(value: object) -> object:
    if not isinstance(value, str):
        return value
    if is_like_a_list(value):
        raise ValueError(IN_QUOTES)
    return [part.strip() for part in value.split(",") if part.strip()]


def _all_named(names: tuple[str, ...]) -> tuple[str, ...]:
    if not all(name.strip() for name in names):
        raise ValueError("contains an empty name; remove it")
    return names


Names = Annotated[tuple[str, ...], BeforeValidator(_split), AfterValidator(_all_named)]
"""Several names, as a list or as one comma-separated text."""


REFUSED: Final = "refused"


def refused(reason: str, key: str = "") -> PydanticCustomError:
    """Return the error of a validator whose value is not shown, because it may hold passwords.

    Args:
        reason: what is wrong, and what is expected.
        key: the key with the wrong value, where the value is a map.
    """
    text = f"{key and '.'}{key}: {reason}".encode(errors="replace").decode()  # pydantic fails on a key beyond UTF-8
    return PydanticCustomError(REFUSED, "{text}", {"text": text})


SCALARS: Final = ["string", "number", "boolean"]
"""What a value for another library may be in JSON Schema: it becomes a text."""


HAS_USER: Final = "has a user or password"


def check_address(url: str, expected: str, cure: str) -> None:
    """Check that a text is an address of HTTP, without a user or password: it is logged and shown.

    Args:
        url: The text.
        expected: What it should look like.
        cure: What to do with a user or password.

    Raises:
        ValueError: It is not one; the message says what is wrong, or what is expected.
    """
    if "@" in url:  # anywhere: of a wrong address, the part with the password is not known
        raise refused(f"{HAS_USER}; {cure}")
    address = urlsplit(url)  # its ValueError names what is wrong; so does that of the port
    if address.scheme not in ("http", "https") or not address.hostname or address.port == 0:
        raise ValueError(f"expected {expected}")


class Section(BaseModel):
    """A named part of the settings: no unknown keys, no later changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


_Kind = TypeVar("_Kind", bound=Section)


def with_rules(section: _Kind, rules: Section | None) -> _Kind:
    """Return a section with the values that the rules of a group set, or the section itself without any rules."""
    if rules is None:
        return section
    return section.model_copy(update={name: getattr(rules, name) for name in rules.model_fields_set})


_SERVER: Final = re.compile(
    r"(?:(?i:PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)://)?(?:\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[\w.-]+)(?::(?P<port>[0-9]{1,20}))?"
)
"""Without a port it is 9092; a protocol of Kafka before it is allowed, and left to `security.protocol`."""
_MAX_PORTS: Final = 65_535
_EXPECTED: Final = "expected HOST:PORT[,HOST:PORT...], e.g. kafka-1:9092,kafka-2:9092"


def _texts(value: object) -> object:
    """Return the values of a map as texts, a list with commas; what is not a map as it is."""
    if not isinstance(value, Mapping):
        return value
    texts = {str(key): _as_text(str(key), item) for key, item in value.items()}
    if wrong := _wrong_servers(texts["bootstrap.servers"]) if texts.get("bootstrap.servers") else "":
        raise refused(wrong, "bootstrap.servers")
    return texts


def _as_text(key: str, value: object) -> str:
    if isinstance(value, list) and not any(isinstance(item, list) for item in value):
        return ",".join(_as_text(key, item) for item in value)
    if value is None or isinstance(value, Mapping | list):
        has = "no value" if value is None else "lists in a list" if isinstance(value, list) else "keys of its own"
        raise refused(f"has {has}; expected a string", key)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not is_utf8(text):
        raise refused("contains characters that UTF-8 cannot encode; expected a string", key)
    return text


_SCHEMA: Final = {"type": "object", "additionalProperties": {"type": [*SCALARS, "array"], "items": {"type": SCALARS}}}
Texts = Annotated[dict[str, str], BeforeValidator(_texts), WithJsonSchema(_SCHEMA)]
"""Settings of another library, Kafka's clients or Spark, by its own names."""


def _wrong_servers(servers: str) -> str:
    """Return what is wrong with a list of servers as both clients read it, and what is expected; "" if it is valid."""
    for server in map(str.strip, servers.split(",")):
        match = _SERVER.fullmatch(server)
        if "@" in server:
            return f"{HAS_USER}; use sasl.username and sasl.password; {_EXPECTED}"
        if not server:
            return f"has a comma without a server; {_EXPECTED}"
        if match is None:
            return f"{server[:100]!r} is not a server; {_EXPECTED}"
        if match["port"] is not None and not 1 <= int(match["port"]) <= _MAX_PORTS:
            return f"{server[:100]!r}: the port must be from 1 to {_MAX_PORTS}; {_EXPECTED}"
    return ""
