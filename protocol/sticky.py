"""The user data of Kafka's `sticky` and `cooperative-sticky` assignors: what a member held, and since which generation.

Kafka writes the topics in the iteration order of a `HashMap`, so that map is imitated here, and reads leniently: what
it cannot understand means that the member held nothing, never an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from protocol.errors import ProtocolError
from protocol.java import buckets_for, spread_hash
from protocol.model import NO_PARTITIONS, StickyUserData, TopicPartitions
from protocol.wire import INT32, read_integer, read_runs, write_integer, write_runs

if TYPE_CHECKING:
    from protocol.model import Int32Array

UNKNOWN_GENERATION: Final = -1
"""Kafka's DEFAULT_GENERATION: what an assignor without a generation writes, and how unreadable user data counts."""


def encode_sticky(owned: TopicPartitions, generation: int | None, version: int = 1) -> bytes:
    """The user data of Kafka's `sticky` assignor.

    Version 1 (since Kafka 2.3) lists the topics in HashMap order and ends with the generation, None being -1. Version 0
    has no generation and lists the topics in the order in which they first occur.

    Raises:
        ProtocolError: There is no such version, or a value does not fit its field.
    """
    if version not in (0, 1):
        message = f"version {version}; sticky user data has the versions 0 and 1"
        raise ProtocolError(message, field="version")
    runs = [(topic, numbers) for topic, numbers in zip(owned.topics, owned.numbers, strict=True) if len(numbers)]
    numbers_of: dict[str, list[Int32Array]] = {}
    for topic, numbers in runs:
        numbers_of.setdefault(topic, []).append(numbers)
    topics = list(numbers_of)
    if version == 1 and topics:
        # the map grows when it is next asked, so a topic that comes with the last partition of all does not count yet
        is_last_partition = len(numbers_of[topics[-1]]) == 1 and len(runs[-1][1]) == 1 and runs[-1][0] == topics[-1]
        topics = _java_hash_map_order(topics, asked_again=not is_last_partition)
    encoded = write_runs(((topic, np.concatenate(numbers_of[topic])) for topic in topics), "owned")
    if version == 0:
        return encoded
    return encoded + encode_cooperative_sticky(generation)


def decode_sticky(data: bytes | None) -> StickyUserData:
    """What a member held, by the user data of its `sticky` assignor, read as leniently as Kafka reads it.

    Version 1 is tried first, then version 0; bytes behind either are ignored. Bytes that are neither count as no
    partitions in generation -1. Bytes that are no UTF-8 become U+FFFD, and so name a topic that does not exist.
    """
    if not data:
        return StickyUserData(owned=NO_PARTITIONS, generation=None)
    try:
        owned, at = read_runs(data, 0, "owned", bad_utf8="replace")
    except ProtocolError:
        return StickyUserData(owned=NO_PARTITIONS, generation=UNKNOWN_GENERATION)
    if len(data) - at < INT32.size:
        return StickyUserData(owned=owned, generation=None)
    generation, _ = read_integer(data, at, INT32, "generation")
    return StickyUserData(owned=owned, generation=generation)


def encode_cooperative_sticky(generation: int | None) -> bytes:
    """The user data of Kafka's `cooperative-sticky` assignor: its generation, None being -1.

    Raises:
        ProtocolError: The generation does not fit into 32 bits.
    """
    return write_integer(UNKNOWN_GENERATION if generation is None else generation, INT32, "generation")


def decode_cooperative_sticky(data: bytes | None) -> int | None:
    """The generation in the user data of a `cooperative-sticky` member; None without user data, -1 if unreadable.

    Kafka asks the user data only where the subscription itself has no generation (before version 2).
    """
    if data is None:
        return None
    try:
        return read_integer(data, 0, INT32, "generation")[0]
    except ProtocolError:
        return UNKNOWN_GENERATION


def _java_hash_map_order(keys: list[str], *, asked_again: bool) -> list[str]:
    """The iteration order of a HashMap that was filled through `computeIfAbsent` with these keys in this order.

    `computeIfAbsent` puts a new key at the head of its bucket, and growing keeps the order within a bucket, so a bucket
    lists its keys latest first. It grows before it looks, when more keys than three quarters of the buckets were there
    by then; `asked_again` tells whether it was called after the last key had come in. Buckets of eight keys and more
    become trees in Java, which can list their keys otherwise; readers do not mind the order, so that is left out.
    """
    buckets = buckets_for(len(keys) if asked_again else len(keys) - 1)
    latest_first = keys[::-1]
    return sorted(latest_first, key=lambda key: spread_hash(key) & (buckets - 1))
