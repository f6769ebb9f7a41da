"""What the working process tells the one that watches over it, line by line over a socket.

An empty line is a sign of life; any other is JSON: a list of everything that the worker is in groups by, so that
somebody can leave for it, or a text, how brokers received it: empty once they let it in, before that why they refuse
it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final

ALIVE: Final = b"\n"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class MemberIdentity:
    """One member id that brokers know the worker by.

    Attributes:
        group: the consumer group.
        member_id: the id.
        instance_id: `group.instance.id`, or None.
        pending: reserved, not joined: it holds up every rebalance of the group until it is released.
    """

    group: str
    member_id: str
    instance_id: str | None = None
    pending: bool = False


def encode(present: Iterable[MemberIdentity]) -> bytes:
    """All presences as one line."""
    return json.dumps([asdict(one) for one in sorted(present, key=_order)]).encode() + b"\n"


def encode_reception(text: str) -> bytes:
    """How brokers received it, as one line."""
    return json.dumps(text).encode() + b"\n"


def decode(line: bytes) -> frozenset[MemberIdentity] | str | None:
    """What a line says; None for a mere sign of life.

    Raises:
        ValueError: It says nothing that makes sense.
    """
    if not line.strip():
        return None
    said = json.loads(line)
    if isinstance(said, str):
        return said
    try:
        return frozenset(MemberIdentity(**one) for one in said)
    except TypeError as error:
        raise ValueError(str(error)) from None


def _order(one: MemberIdentity) -> tuple[str, str]:
    return one.group, one.member_id
