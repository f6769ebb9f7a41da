"""What agents tell each other in their own Kafka group, as values, and as JSON in the group's metadata.

Each member says who it is, where it is, and what it could do; the group's leader answers each with what it is to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Annotated, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

PROTOCOL_TYPE: Final = "samerack"
PROTOCOL: Final = "samerack-v1"
"""Raised when older agents could no longer read what newer ones say; a group uses what all its members offer."""
WAITING_PROTOCOL: Final = "samerack-waiting-v1"
"""The same for the groups of agents that wait outside the election."""

Told: TypeAlias = tuple[str, str]
"""A group, and the id of a member of it whose client tells an agent itself what it reads."""
NO_TOLD: Final[frozenset[Told]] = frozenset()

_MOST_BYTES: Final = 1 << 20
"""No message is longer: brokers take no larger record by default (`message.max.bytes`)."""
_Text = Annotated[str, Field(max_length=1000)]
_Number = Annotated[int, Field(ge=0, lt=1 << 31)]
"""As Kafka counts generations; what others say must not make an election that no later one can outdo."""

_LEAD: Final = "lead "
_OBSERVE: Final = "observe "


def lead(group: str) -> str:
    """The duty to lead a group."""
    return f"{_LEAD}{group}"


def observe(pattern: str) -> str:
    """The duty to measure the groups of a pattern."""
    return f"{_OBSERVE}{pattern}"


def led_by(duties: Iterable[str]) -> list[str]:
    """The groups that are to be led."""
    return [duty.removeprefix(_LEAD) for duty in duties if duty.startswith(_LEAD)]


def observed_by(duties: Iterable[str]) -> list[str]:
    """The patterns that are to be measured."""
    return [duty.removeprefix(_OBSERVE) for duty in duties if duty.startswith(_OBSERVE)]


class Advertisement(BaseModel):
    """What one agent says of itself.

    Attributes:
        identity: its name; not said outside the election, where nobody asks for it.
        rack: of the host it runs on, "" where unknown.
        addresses: of that host, as brokers may see consumers on it.
        duties: what it could do.
        held: what it is active for.
        term: the election that gave it `held`; of two that hold one duty, the later counts.
        told: members whose clients bring it their own counters.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    identity: _Text = ""
    rack: _Text = ""
    addresses: Annotated[tuple[_Text, ...], Field(max_length=100)] = ()
    duties: tuple[_Text, ...] = ()
    held: tuple[_Text, ...] = ()
    term: _Number = 0
    told: tuple[Told, ...] = ()

    @property
    def told_set(self) -> frozenset[Told]:
        """`told` without its order."""
        return frozenset(self.told)


class Verdict(BaseModel):
    """What one agent is to do until the next election.

    Attributes:
        term: number of the election; grows.
        agents: how many took part.
        active: what it is to do.
        deputized: those of them that another agent would take over.
        racks: rack by address of every agent's host; only for an agent that has something to do, and only while few
            agents take part: an active one of many reads it from the groups (`agent.election.registry`).
        counting: the duties by which groups are counted, as far as this agent's groups may be concerned.
        told: of what this agent is told by clients, what it is to count.
        elsewhere: what other agents are told and count, of groups that this agent might count.
        waits: whether the election can do without this agent, so that it had better wait outside.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    term: _Number
    agents: _Number
    active: frozenset[str] = frozenset()
    deputized: frozenset[str] = frozenset()
    racks: dict[str, str] = {}
    counting: frozenset[str] = frozenset()
    told: frozenset[Told] = frozenset()
    elsewhere: frozenset[Told] = frozenset()
    waits: bool = False


def encode(said: Advertisement | Verdict) -> bytes:
    """One message."""
    return said.model_dump_json(exclude_defaults=True).encode()


def decode_presence(member: str, content: bytes) -> Advertisement:
    """What a member said; of one that makes no sense, that it can do nothing."""
    try:
        return Advertisement.model_validate_json(content if len(content) <= _MOST_BYTES else b"")
    except ValidationError:
        return Advertisement(identity=member[:1000])


def decode_verdict(content: bytes) -> Verdict | None:
    """What the group's leader answered; None where it makes no sense."""
    try:
        return Verdict.model_validate_json(content if len(content) <= _MOST_BYTES else b"")
    except ValidationError:
        return None


def is_told(address: str) -> bool:
    """Whether an address tells one host from another: not loopback, not of one link only."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    return not (parsed.is_loopback or parsed.is_link_local or parsed.is_unspecified or parsed.is_multicast)
