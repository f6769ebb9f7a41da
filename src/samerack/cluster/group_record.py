"""How large a classic group's record in `__consumer_offsets` is: one record holds all subscriptions and assignments.

The leader's SyncGroup writes it. Beyond `max.message.bytes` of that topic brokers answer all members with an unknown
error, at which Java's consumers end (KAFKA-3590). Sizes are upper bounds of `GroupMetadataValue` version 3 with its
batch, uncompressed; a few hundred bytes more than brokers count.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

OFFSETS_TOPIC: Final = "__consumer_offsets"
LIMIT_KEY: Final = "max.message.bytes"
_RECORD_BYTES: Final = 256
"""For the batch's header (61), the record's lengths, and the fields of the group that have a fixed size."""
_MEMBER_BYTES: Final = 32
"""For a member's timeouts and the lengths of its fields (24)."""
_NAMES_BYTES: Final = 160
"""For client id and host of a member that no description of the group has shown."""
GUEST_BYTES: Final = 512
"""For the agent's own member: a subscription without topics, and its names."""


def member_bytes(member_id: str, instance_id: str | None, client: tuple[str, str] | None, content: int) -> int:
    """Return what a member adds to the record.

    Args:
        member_id: Its id.
        instance_id: Its `group.instance.id`, or None.
        client: Its client id and host; None if they are not known.
        content: Bytes of its subscription and its assignment.
    """
    names = _NAMES_BYTES if client is None else _text(client[0]) + _text(client[1])
    return _MEMBER_BYTES + _text(member_id) + _text(instance_id or "") + names + content


def record_bytes(group: str, members: Iterable[int]) -> int:
    """Return the size of the record of a group whose members add so much each."""
    return _RECORD_BYTES + 2 * _text(group) + sum(members)


def too_large_reason(size: int, limit: int | None) -> str:
    """Return why a record of this size cannot be written, and what to set; empty if it can, or if that is not known."""
    if limit is None or size <= limit:
        return ""
    return (
        f"the group's record in {OFFSETS_TOPIC} would have {size} bytes, and {LIMIT_KEY} of that topic is {limit}: "
        "brokers would answer all members with an unknown error (KAFKA-3590); raise it, or use fewer members or topics"
    )


def _text(text: str) -> int:
    return len(text.encode())
