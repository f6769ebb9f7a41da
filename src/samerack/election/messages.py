"""Messages between agents in their own Kafka group, as values, and as JSON in the group's metadata.

Each member sends its identity, rack, the addresses of its host and possible responsibilities; the group's leader
answers each with a verdict.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from concurrent.futures import Future
from ipaddress import ip_address
from typing import Annotated, Final
from zlib import crc32

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from samerack.cluster.names import LOOKUPS, Address, address_of
from samerack.settings.all_settings import Settings

PROTOCOL_TYPE: Final = "samerack"
PROTOCOL: Final = "samerack-v1"
"""Raised when older agents could no longer read newer messages; a group uses a protocol that all its members offer."""
WAITING_PROTOCOL: Final = "samerack-waiting-v1"
"""The same for the groups of agents that wait outside the election."""

_MAX_BYTES: Final = 1 << 20
"""No message is longer: brokers take no larger record by default (`message.max.bytes`)."""
_Text = Annotated[str, Field(max_length=1000)]
_Number = Annotated[int, Field(ge=0, lt=1 << 31)]
"""The range of Kafka's generations; no message may set a term that no later election can exceed."""

_LOOKUP_SECONDS: Final = 2.0

_LEAD: Final = "lead "
_OBSERVE: Final = "observe "


def lead(group: str) -> str:
    """Return the responsibility to lead a group."""
    return f"{_LEAD}{group}"


def observe(pattern: str) -> str:
    """Return the responsibility to measure the groups of a pattern."""
    return f"{_OBSERVE}{pattern}"


def led_by(responsibilities: Iterable[str]) -> list[str]:
    """Return the groups to lead."""
    return [
        responsibility.removeprefix(_LEAD) for responsibility in responsibilities if responsibility.startswith(_LEAD)
    ]


def observed_by(responsibilities: Iterable[str]) -> list[str]:
    """Return the patterns of groups to measure."""
    return [
        responsibility.removeprefix(_OBSERVE)
        for responsibility in responsibilities
        if responsibility.startswith(_OBSERVE)
    ]


class Advertisement(BaseModel):
    """What one agent advertises about itself.

    Attributes:
        identity: its name; not sent outside the election, where it is not needed.
        rack: rack of its host, "" where unknown.
        addresses: addresses of its host, as brokers may see consumers on it.
        responsibilities: responsibilities that it could take.
        held: responsibilities that it is active for.
        term: the election that gave it `held`; of two agents with one responsibility, the later counts.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    identity: _Text = ""
    rack: _Text = ""
    addresses: Annotated[tuple[_Text, ...], Field(max_length=100)] = ()
    responsibilities: tuple[_Text, ...] = ()
    held: tuple[_Text, ...] = ()
    term: _Number = 0


class Verdict(BaseModel):
    """The responsibilities of one agent until the next election.

    Attributes:
        term: number of the election; grows.
        agents: how many took part.
        active: responsibilities that it is active for.
        with_standby: those of them that another agent would take over.
        racks: rack by address of every agent's host; only for an active agent, and only while few agents take part:
            with many, an active one reads it from the groups (`election.registry`).
        measuring: the responsibilities by which groups are measured, as far as they may affect this agent's groups.
        waits: whether the election does not need this agent, so that it should wait outside.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    term: _Number
    agents: _Number
    active: frozenset[str] = frozenset()
    with_standby: frozenset[str] = frozenset()
    racks: dict[str, str] = {}
    measuring: frozenset[str] = frozenset()
    waits: bool = False


def encode(said: Advertisement | Verdict) -> bytes:
    """Encode one message."""
    return said.model_dump_json(exclude_defaults=True).encode()


def decode_advertisement(member: str, content: bytes) -> Advertisement:
    """Decode what a member advertises; without responsibilities where that is invalid."""
    try:
        return Advertisement.model_validate_json(content if len(content) <= _MAX_BYTES else b"")
    except ValidationError:
        return Advertisement(identity=member[:1000])


def decode_verdict(content: bytes) -> Verdict | None:
    """Decode what the group's leader answered; None where that is invalid."""
    try:
        return Verdict.model_validate_json(content if len(content) <= _MAX_BYTES else b"")
    except ValidationError:
        return None


def identifies_host(address: str) -> bool:
    """Return whether an address identifies a host: not loopback, link-local, unspecified or multicast."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    return not (parsed.is_loopback or parsed.is_link_local or parsed.is_unspecified or parsed.is_multicast)


def identity_of(settings: Settings) -> str:
    """Return `election.identity`, or a name of the host and of what distinguishes the agents on it."""
    name = f"{settings.web.port} {' '.join(settings.groups)}"
    return settings.election.identity or f"{socket.gethostname()}-{crc32(name.encode()):08x}"


def of_this_host(bootstrap: str) -> tuple[str, ...]:
    """Return the addresses of this host, as brokers may see consumers on it, without loopback; there may be none.

    The address from which the first of the bootstrap servers would be reached comes first. Containers of one pod share
    them. What the name service does not answer within two seconds is left out: the agent's start must not wait for it.
    """
    found: list[str] = []
    until = time.monotonic() + _LOOKUP_SECONDS
    server, own = LOOKUPS.begin(*address_of(bootstrap.partition(",")[0])), LOOKUPS.begin(socket.gethostname(), 0)
    for family, *_, address in _found(server, until):
        try:
            # a datagram socket learns its own address from the routes; nothing is sent
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect(address)
                found.append(probe.getsockname()[0])
        except OSError:
            continue
    found += [str(address[0]) for *_, address in _found(own, until)]
    return tuple(dict.fromkeys(address for address in found if identifies_host(address)))


def _found(lookup: Future[list[Address]], until: float) -> list[Address]:
    """Return the addresses that a lookup finds until then (monotonic seconds); none if it fails."""
    try:
        return lookup.result(max(0.0, until - time.monotonic()))
    except (OSError, UnicodeError):  # a TimeoutError is an OSError
        return []
