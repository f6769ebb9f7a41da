"""Describes where the replicas of all topics are, without an object for each: large clusters have many.

The response is of a version that every supported broker has, with fields of fixed sizes, and is read in one pass.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from kafka.protocol.metadata import MetadataRequest

from samerack.cluster.errors import error_text
from samerack.cluster.raw_request import RawRequest
from samerack.cluster.wire import ANSWER_SECONDS, ANY_BROKER, Question, Wire
from samerack.common.errors import AgentError

_VERSION: Final = 8
_PARTITION: Final = Struct(">hiiii")
"""Error code, number, leader, leader epoch, and how many replicas follow."""
_INT32: Final = Struct(">i")
_INT16: Final = Struct(">h")
_FLAG: Final = Struct(">?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placements:
    """Every partition that this principal may describe has a row; those of a topic follow each other by number.

    Attributes:
        rows: the rows of each topic.
        internal: the topics that brokers write for clients.
        placement: index into `brokers`, by row.
        brokers: each placement once: broker ids, the leader first; NO_LEADER where there is none.
    """

    rows: Mapping[str, range]
    internal: frozenset[str]
    placement: array[int]
    brokers: tuple[tuple[int, ...], ...]


def all_placements(wire: Wire) -> Placements:
    """Ask for the placement of all replicas.

    Raises:
        RefusedError: TLS or SASL failed.
        AgentError: The cluster did not answer.
    """
    (answer,) = wire.ask([Question(broker=ANY_BROKER, request=request())])
    if answer.error is not None:
        raise AgentError(f"kafka: metadata: {error_text(answer.error, ANSWER_SECONDS)}") from answer.error
    found: Placements = answer.response
    return found


def request() -> RawRequest:
    """Return the request, whose response is a `Placements`."""
    return RawRequest(
        api_key=MetadataRequest.API_KEY,
        version=_VERSION,
        flexible=False,
        body=MetadataRequest(topics=None, allow_auto_topic_creation=False).encode(version=_VERSION),
        read=read,
    )


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Reads fields one after the other."""

    content: bytes
    at: int = 0

    def number(self, kind: Struct = _INT32) -> int:
        (value,) = kind.unpack_from(self.content, self.at)
        self.at += kind.size
        return int(value)

    def text(self) -> str:
        length = max(0, self.number(_INT16))  # -1 is none
        self.at += length
        return self.content[self.at - length : self.at].decode()


@dataclass(slots=True, kw_only=True)
class _Interned:
    """Numbers of placements: thousands of partitions share few."""

    numbers: dict[tuple[int, bytes], int] = field(default_factory=dict)

    def of(self, leader: int, replicas: bytes) -> int:
        return self.numbers.setdefault((leader, replicas), len(self.numbers))

    def brokers(self) -> tuple[tuple[int, ...], ...]:
        found = []
        for leader, replicas in self.numbers:
            followers = (broker for (broker,) in _INT32.iter_unpack(replicas) if broker != leader)
            found.append((leader, *followers))
        return tuple(found)


def read(content: bytes) -> Placements:
    """Return the placements of a Metadata response of the request's version.

    Raises:
        ValueError, struct.error: It is none.
    """
    reader = _Reader(content=content)
    reader.number()  # throttle time
    for _ in range(reader.number()):
        reader.number()
        reader.text()
        reader.number()
        reader.text()
    reader.text()
    reader.number()
    rows: dict[str, range] = {}
    internal: list[str] = []
    placement = array("i")
    interned = _Interned()
    for _ in range(reader.number()):
        error = reader.number(_INT16)
        topic = reader.text()
        if reader.number(_FLAG):
            internal.append(topic)
        begin = len(placement)
        placement.extend(_partitions(reader, interned))
        reader.number()  # authorized operations
        if error:
            del placement[begin:]
        else:
            rows[topic] = range(begin, len(placement))
    return Placements(rows=rows, internal=frozenset(internal), placement=placement, brokers=interned.brokers())


def _partitions(reader: _Reader, interned: _Interned) -> list[int]:
    """Return the placements of a topic's partitions, by number."""
    content = reader.content
    found: list[tuple[int, int]] = []
    for _ in range(reader.number()):
        _, number, leader, _, count = _PARTITION.unpack_from(content, reader.at)
        at = reader.at + _PARTITION.size
        end = at + 4 * count
        found.append((number, interned.of(leader, content[at:end])))
        for _ in range(2):  # in-sync and offline replicas
            (count,) = _INT32.unpack_from(content, end)
            end += 4 + 4 * count
        reader.at = end
    return [placement for _, placement in sorted(found)]
