"""Checks a list of servers as both Kafka clients read it: HOST:PORT, [IPV6]:PORT, separated by commas."""

from __future__ import annotations

import re
from typing import Final

_SERVER: Final = re.compile(
    r"(?:(?i:PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)://)?(?:\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[\w.-]+)(?::(?P<port>[0-9]{1,20}))?"
)
"""Without a port it is 9092; a protocol of Kafka before it is allowed, and left to `security.protocol`."""
_MAX_PORTS: Final = 65_535
_EXPECTED: Final = "expected HOST:PORT[,HOST:PORT...], e.g. kafka-1:9092,kafka-2:9092"


def wrong_servers(servers: str) -> str:
    """Returns what is wrong with a list of servers and what is expected; "" if it is valid."""
    for server in map(str.strip, servers.split(",")):
        match = _SERVER.fullmatch(server)
        if not server:
            return f"has a comma with no server beside it; {_EXPECTED}"
        if match is None:
            return f"{server[:100]!r} is no server; {_EXPECTED}"
        if match["port"] is not None and not 1 <= int(match["port"]) <= _MAX_PORTS:
            return f"{server[:100]!r}: a port is a number from 1 to {_MAX_PORTS}; {_EXPECTED}"
    return ""
