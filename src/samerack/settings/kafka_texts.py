"""Kafka settings as texts, whatever YAML made of them: the one form that both clients take."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import BeforeValidator, WithJsonSchema

from samerack.common.texts import is_utf8
from samerack.settings.base import SCALARS, refused

_SERVER: Final = re.compile(
    r"(?:(?i:PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)://)?(?:\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[\w.-]+)(?::(?P<port>[0-9]{1,20}))?"
)
"""Without a port it is 9092; a protocol of Kafka before it is allowed, and left to `security.protocol`."""
_MAX_PORTS: Final = 65_535
_EXPECTED: Final = "expected HOST:PORT[,HOST:PORT...], e.g. kafka-1:9092,kafka-2:9092"


def _texts(value: object) -> object:
    """Return the values of a map as texts, a list with commas; what is no map as it is."""
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
KafkaTexts = Annotated[dict[str, str], BeforeValidator(_texts), WithJsonSchema(_SCHEMA)]


def _wrong_servers(servers: str) -> str:
    """Return what is wrong with a list of servers as both clients read it, and what is expected; "" if it is valid."""
    for server in map(str.strip, servers.split(",")):
        match = _SERVER.fullmatch(server)
        if not server:
            return f"has a comma without a server; {_EXPECTED}"
        if match is None:
            return f"{server[:100]!r} is not a server; {_EXPECTED}"
        if match["port"] is not None and not 1 <= int(match["port"]) <= _MAX_PORTS:
            return f"{server[:100]!r}: the port must be from 1 to {_MAX_PORTS}; {_EXPECTED}"
    return ""
