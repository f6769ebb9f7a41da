"""The protocol from the worker to its supervisor, line by line over a socket.

An empty line is a sign of life; any other is JSON: either a list of all member ids of the worker, so that another
process can leave for it, or a text about whether brokers accept it: empty once they do, before that why they refuse it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final

ALIVE: Final = b"\n"
RENEWS: Final = 75
"""Exit code of a worker whose settings have changed: the next one begins with the new settings."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class MemberIdentity:
    """One member id of the worker.

    Attributes:
        instance_id: `group.instance.id`, or None.
        pending: reserved, not joined: it delays every rebalance of the group until it is released.
    """

    group: str
    member_id: str
    instance_id: str | None = None
    pending: bool = False


def encode(member_ids: Iterable[MemberIdentity]) -> bytes:
    """Return all member ids as one line."""
    return json.dumps([asdict(one) for one in sorted(member_ids, key=_order)]).encode() + b"\n"


def encode_reception(text: str) -> bytes:
    """Return the text about whether brokers accept the worker, as one line."""
    return json.dumps(text).encode() + b"\n"


def decode(line: bytes) -> frozenset[MemberIdentity] | str | None:
    """Return the content of a line; None for a sign of life.

    Raises:
        ValueError: The line is not valid.
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
