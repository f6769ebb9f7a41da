"""What members of Kafka's sticky assignors claim: owned partitions and their generation, in user data or subscription.

Kafka's `sticky` puts both into the user data, `cooperative-sticky` the partitions into the subscription itself, with
the generation in the user data before subscriptions had one (version 2, KIP-792).

Kafka writes the topics in the iteration order of a `HashMap`, which is reproduced here. It reads leniently: bytes that
it cannot read mean that the member owned nothing, never an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from samerack.protocol.consumer import GENERATION_SINCE, NO_GENERATION
from samerack.protocol.errors import ProtocolError
from samerack.protocol.java import computed_order, string_hash
from samerack.protocol.values import StickyUserData, TopicPartitions, no_partitions
from samerack.protocol.wire import INT32, read_integer, read_runs, write_integer, write_runs

if TYPE_CHECKING:
    from samerack.protocol.values import Int32Array, Subscription

STICKY: Final = "sticky"
COOPERATIVE_STICKY: Final = "cooperative-sticky"


def encode_sticky(owned: TopicPartitions, generation: int | None, version: int = 1) -> bytes:
    """Encode the user data of Kafka's `sticky` assignor.

    Version 1 (since Kafka 2.3) lists the topics in HashMap order and ends with the generation, -1 for None. Version 0
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
        # Java's map grows at the next computeIfAbsent: a topic that first occurs at the last partition does not count
        is_last_partition = len(numbers_of[topics[-1]]) == 1 and len(runs[-1][1]) == 1 and runs[-1][0] == topics[-1]
        topics = computed_order(topics, string_hash, asked_again=not is_last_partition)
    encoded = write_runs(((topic, np.concatenate(numbers_of[topic])) for topic in topics), "owned")
    if version == 0:
        return encoded
    return encoded + encode_cooperative_sticky(generation)


def decode_sticky(data: bytes | None) -> StickyUserData:
    """Decode the user data of a member's `sticky` assignor, as leniently as Kafka.

    Version 1 is tried first, then version 0; bytes after either are ignored. Bytes that are neither mean no partitions
    in generation -1. Bytes that are not UTF-8 become U+FFFD, and so name a topic that does not exist.
    """
    if not data:
        return StickyUserData(owned=no_partitions(), generation=None)
    try:
        owned, at = read_runs(data, 0, "owned", bad_utf8="replace")
    except ProtocolError:
        return StickyUserData(owned=no_partitions(), generation=NO_GENERATION)
    if len(data) - at < INT32.size:
        return StickyUserData(owned=owned, generation=None)
    generation, _ = read_integer(data, at, INT32, "generation")
    return StickyUserData(owned=owned, generation=generation)


def encode_cooperative_sticky(generation: int | None) -> bytes:
    """Encode the user data of Kafka's `cooperative-sticky` assignor: its generation, -1 for None.

    Raises:
        ProtocolError: The generation does not fit into 32 bits.
    """
    return write_integer(NO_GENERATION if generation is None else generation, INT32, "generation")


def decode_cooperative_sticky(data: bytes | None) -> int | None:
    """Decode the generation in a `cooperative-sticky` member's user data; None without user data, -1 if unreadable.

    Kafka uses the user data only if the subscription itself has no generation (before version 2).
    """
    if data is None:
        return None
    try:
        return read_integer(data, 0, INT32, "generation")[0]
    except ProtocolError:
        return NO_GENERATION


def claims(subscription: Subscription, assignor: str) -> tuple[TopicPartitions, int]:
    """Return the partitions that a member claims and the generation in which it got them, -1 if unknown.

    Both are read from the same place, so that claims are never combined with the generation of another field: from
    sticky user data that contains partitions, else from the subscription.

    Args:
        subscription: The member's subscription.
        assignor: Protocol name of the subscription.
    """
    if assignor == STICKY:
        decoded = decode_sticky(subscription.user_data)
        if len(decoded.owned):
            known = NO_GENERATION if decoded.generation is None else decoded.generation
            return decoded.owned, max(known, NO_GENERATION)
    generation = subscription.generation
    if subscription.version < GENERATION_SINCE and assignor == COOPERATIVE_STICKY:
        decoded_generation = decode_cooperative_sticky(subscription.user_data)
        generation = NO_GENERATION if decoded_generation is None else decoded_generation
    return subscription.owned, generation
