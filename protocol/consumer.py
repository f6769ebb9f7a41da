"""Reads and writes the consumer protocol, versions 0 to 3: `Subscription` and `Assignment` as Kafka's clients do.

Kafka sorts the topics and owned partitions in a subscription. It keeps the order of the plan in an assignment, with one
run per topic. This module follows both rules. A version newer than the known ones is read with the newest known format,
and the bytes after it are kept. A message that ends after one of its fields is read as if the later fields were empty:
segmentio/kafka-go writes version 1 and ends after the user data. sarama and franz-go accept that too; Kafka's reader
refuses it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from samerack.protocol.errors import ProtocolError
from samerack.protocol.values import MAX_VERSION, Assignment, Int32Array, Subscription, TopicPartitions, no_partitions
from samerack.protocol.wire import (
    BIG_INT32,
    INT16,
    INT32,
    read_count,
    read_integer,
    read_optional_bytes,
    read_optional_text,
    read_runs,
    read_text,
    write_integer,
    write_optional_bytes,
    write_optional_text,
    write_runs,
    write_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

OWNED_SINCE: Final = 1
GENERATION_SINCE: Final = 2
RACK_SINCE: Final = 3
NO_GENERATION: Final = -1


def decode_subscription(data: bytes) -> Subscription:
    """Decode the subscription in a member's metadata.

    As in Kafka's reader, an empty rack means no rack, a negative generation becomes -1, and a negative length makes an
    optional field absent. Unlike Kafka's reader, it refuses bytes that are not UTF-8 (Kafka replaces them by U+FFFD)
    and accepts a message without the last fields, down to the topics.

    Raises:
        ProtocolError: The bytes are not a subscription of version 0 or newer, or they end within a field.
    """
    version, at = read_version(data)
    topics, at = read_topics(data, at)
    user_data: bytes | None = None
    owned, generation, rack = no_partitions(), NO_GENERATION, None
    if at < len(data):
        user_data, at = read_optional_bytes(data, at, "user_data")
    if version >= OWNED_SINCE and at < len(data):
        owned, at = read_runs(data, at, "owned")
    if version >= GENERATION_SINCE and at < len(data):
        generation, at = read_integer(data, at, INT32, "generation")
    if version >= RACK_SINCE and at < len(data):
        rack, at = read_optional_text(data, at, "rack")
    return Subscription(
        version=version,
        topics=topics,
        user_data=user_data,
        owned=owned,
        generation=max(generation, NO_GENERATION),
        rack=rack or None,
        trailing=data[at:],
    )


def encode_subscription(subscription: Subscription) -> bytes:
    """Encode a subscription in its own version, with topics and owned partitions in Kafka's order.

    Fields newer than the version are left out, as in Kafka. A version above MAX_VERSION is written unchanged, with the
    newest known fields and then the trailing bytes, so that a message of a newer client keeps its content; Kafka's
    own writer would write MAX_VERSION.

    Raises:
        ProtocolError: A value does not fit its field.
    """
    version = subscription.version
    topics = sorted(subscription.topics, key=_java_order)
    parts = [_write_version(version), INT32.pack(len(topics))]
    parts += [write_text(topic, "topics") for topic in topics]
    parts.append(write_optional_bytes(subscription.user_data, "user_data"))
    if version >= OWNED_SINCE:
        numbers_of = _by_topic(subscription.owned)
        order = sorted(numbers_of, key=_java_order)
        parts.append(write_runs(((topic, np.sort(numbers_of[topic])) for topic in order), "owned"))
    if version >= GENERATION_SINCE:
        parts.append(write_integer(max(subscription.generation, NO_GENERATION), INT32, "generation"))
    if version >= RACK_SINCE:
        parts.append(write_optional_text(subscription.rack, "rack"))
    parts.append(subscription.trailing)
    return b"".join(parts)


def decode_assignment(data: bytes) -> Assignment:
    """Decode the assignment that a member gets from SyncGroup; the user data at the end may be missing.

    Raises:
        ProtocolError: The bytes are not an assignment of version 0 or newer, or they end within a field. An empty
            message is not an assignment: the broker sends it to members for which the leader sent nothing.
    """
    version, at = read_version(data)
    partitions, at = read_runs(data, at, "partitions")
    user_data: bytes | None = None
    if at < len(data):
        user_data, at = read_optional_bytes(data, at, "user_data")
    return Assignment(version=version, partitions=partitions, user_data=user_data, trailing=data[at:])


def encode_assignment(assignment: Assignment) -> bytes:
    """Encode an assignment in its own version: one run per topic, in the order in which the topics first occur.

    Raises:
        ProtocolError: A value does not fit its field.
    """
    return b"".join(
        (
            _write_version(assignment.version),
            write_runs(_by_topic(assignment.partitions).items(), "partitions"),
            write_optional_bytes(assignment.user_data, "user_data"),
            assignment.trailing,
        )
    )


def with_user_data(message: bytes, user_data: bytes) -> bytes:
    """Return an encoded assignment without user data with these instead."""
    empty = write_optional_bytes(None, "user_data")
    if not message.endswith(empty):
        raise ProtocolError("the message has user data already", field="user_data")
    return message.removesuffix(empty) + write_optional_bytes(user_data, "user_data")


def encode_assignments(  # noqa: PLR0913 - the arrays of a plan belong together, and all are named
    *,
    topics: Sequence[str],
    topic_of: Int32Array,
    number_of: Int32Array,
    owner: Int32Array,
    members: int,
    version: int = MAX_VERSION,
) -> list[bytes]:
    """Encode all members' assignments, without user data, in O(P) numpy work and no Python step per partition or run.

    All messages share one buffer. Partitions are sorted by owner, the lengths of the runs give the position of each
    header and number, and these are copied there as items of 4 bytes (numbers, lengths) or of a header's size.

    Args:
        topics: T distinct names.
        topic_of: [P] index into `topics`, ascending.
        number_of: [P] partition numbers; a member gets them in this order.
        owner: [P] index of the member that is to read the partition, or -1 for none.
        members: Number of members, and so of messages.
        version: Version of the messages.

    Raises:
        ProtocolError: The arrays do not belong together, or a name or version does not fit its field.
    """
    _check_plan(len(topics), topic_of, number_of, owner, members)
    if not members:
        return []
    order = _stable_order(owner, members)
    member, topic = owner[order], topic_of[order]
    first = _first_of_runs(member, topic)
    run_member, run_topic = member[first].astype(np.int64), topic[first]
    run_length = np.diff(first, append=len(order))

    headers = _headers(tuple(topics))
    header_size = np.array([len(header) for header in headers], dtype=np.int64)
    run_header_size = header_size[run_topic]
    run_size = run_header_size + INT32.size + run_length * INT32.size

    head, tail = _write_version(version), write_optional_bytes(None, "user_data")
    runs_of = np.bincount(run_member, minlength=members)
    # bincount with weights would sum sizes as floats; a cumulative sum, read at the members' limits, is exact
    ends_of_runs = np.concatenate(([0], np.cumsum(run_size)))
    ends = ends_of_runs[np.cumsum(runs_of)] + np.arange(1, members + 1) * (len(head) + INT32.size + len(tail))
    starts = np.concatenate(([0], ends[:-1]))
    run_start = ends_of_runs[:-1] + run_member * (len(head) + INT32.size + len(tail)) + len(head) + INT32.size

    buffer = np.empty(ends[-1], dtype=np.uint8)
    _scatter(buffer, starts, np.full(members, head, dtype=f"V{len(head)}"))
    _scatter(buffer, starts + len(head), runs_of.astype(BIG_INT32))
    _scatter(buffer, ends - len(tail), np.full(members, tail, dtype=f"V{len(tail)}"))
    _scatter_headers(buffer, run_start, run_topic, headers, header_size)
    _scatter(buffer, run_start + run_header_size, run_length.astype(BIG_INT32))
    shift = run_start + run_header_size + INT32.size - first * INT32.size
    place = np.arange(len(order)) * INT32.size + np.repeat(shift, run_length)
    _scatter(buffer, place, number_of[order].astype(BIG_INT32))
    view = buffer.data
    return [bytes(view[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


@lru_cache(maxsize=8)
def _headers(topics: tuple[str, ...]) -> list[bytes]:
    """Return the encoded names of topics: a group's topics are the same in most generations."""
    return [write_text(name, f"topics[{index}]") for index, name in enumerate(topics)]


def read_version(data: bytes) -> tuple[int, int]:
    """Read the version of a message."""
    version, at = read_integer(data, 0, INT16, "version")
    if version < 0:
        message = f"version {version}; the versions of the consumer protocol start at 0"
        raise ProtocolError(message, field="version", offset=0)
    return version, at


def read_topics(data: bytes, at: int) -> tuple[tuple[str, ...], int]:
    """Read the topics of a subscription."""
    count, at = read_count(data, at, "topics", smallest=INT16.size)
    topics: list[str] = []
    for index in range(count):
        topic, at = read_text(data, at, "topics[{}]", index=index)
        topics.append(topic)
    return tuple(topics), at


def _write_version(version: int) -> bytes:
    if version < 0:
        message = f"version {version}; the versions of the consumer protocol start at 0"
        raise ProtocolError(message, field="version")
    return write_integer(version, INT16, "version")


def _java_order(text: str) -> bytes:
    """Return a key that sorts like Java's String.compareTo: by UTF-16 code units (an emoji comes before U+FF5E)."""
    return text.encode("utf-16-be", "surrogatepass")


def _by_topic(partitions: TopicPartitions) -> dict[str, Int32Array]:
    """Return the numbers of each topic, in order, by topic in order of first occurrence; empty runs are dropped."""
    runs: dict[str, list[Int32Array]] = {}
    for topic, numbers in zip(partitions.topics, partitions.numbers, strict=True):
        if len(numbers):
            runs.setdefault(topic, []).append(numbers)
    return {topic: parts[0] if len(parts) == 1 else np.concatenate(parts) for topic, parts in runs.items()}


def _check_plan(topics: int, topic_of: Int32Array, number_of: Int32Array, owner: Int32Array, members: int) -> None:
    if not topic_of.shape == number_of.shape == owner.shape == (len(owner),):
        message = f"shapes {topic_of.shape}, {number_of.shape}, {owner.shape}; give one entry per partition in each"
        raise ProtocolError(message, field="topic_of, number_of, owner")
    if not len(owner):
        return
    if owner.min() < -1 or owner.max() >= members:
        message = f"members {owner.min()}..{owner.max()} of {members}; give -1 for no owner, or 0..{members - 1}"
        raise ProtocolError(message, field="owner")
    if topic_of[0] < 0 or topic_of[-1] >= topics or bool((topic_of[1:] < topic_of[:-1]).any()):
        # clients would still read a topic that has two runs in one message, but no client writes that
        raise ProtocolError(f"not ascending within 0..{topics - 1}; sort partitions by topic", field="topic_of")


def _stable_order(owner: Int32Array, members: int) -> npt.NDArray[np.int64]:
    """Return the partitions that have an owner, sorted by owner; the order is otherwise unchanged.

    numpy radix-sorts 16-bit keys, several times faster than wider ones, so more members take two such passes.
    """
    key = owner + 1
    order = np.argsort(key.astype(np.uint16), kind="stable")
    if members >= 2**16 - 1:
        order = order[np.argsort((key >> 16).astype(np.uint16)[order], kind="stable")]
    return order[np.count_nonzero(key == 0) :]


def _first_of_runs(member: Int32Array, topic: Int32Array) -> npt.NDArray[np.int64]:
    """Return the indices at which the member or the topic differs from the previous entry."""
    changes = np.empty(len(member), dtype=np.bool_)
    changes[:1] = True
    np.not_equal(topic[1:], topic[:-1], out=changes[1:])
    changes[1:] |= member[1:] != member[:-1]
    return np.flatnonzero(changes)


def _scatter(buffer: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], items: npt.NDArray[np.generic]) -> None:
    """Copy items of one size to byte positions, through a view of the buffer with one item starting at each byte."""
    size = items.dtype.itemsize
    if len(at):
        form = np.dtype(f"V{size}")
        every = np.ndarray(shape=(len(buffer) - size + 1,), dtype=form, buffer=buffer.data, strides=(1,))
        every[at] = items.view(form)


def _scatter_headers(
    buffer: npt.NDArray[np.uint8],
    run_start: npt.NDArray[np.int64],
    run_topic: Int32Array,
    headers: list[bytes],
    header_size: npt.NDArray[np.int64],
) -> None:
    """Copy each run's header (topic length and name) to the run's start, one pass per distinct header size."""
    run_header_size = header_size[run_topic]
    # sizes are below 2 + 2**15, so they fit the 16-bit keys that numpy radix-sorts
    by_size = np.argsort(run_header_size.astype(np.uint16), kind="stable")
    sizes, begins = np.unique(run_header_size[by_size], return_index=True)
    limits = [*begins.tolist(), len(by_size)]
    for index, size in enumerate(sizes.tolist()):
        runs = by_size[limits[index] : limits[index + 1]]
        of_size = np.flatnonzero(header_size == size)
        names = np.frombuffer(b"".join(headers[topic] for topic in of_size.tolist()), dtype=f"V{size}")
        rank = np.searchsorted(of_size, run_topic[runs])
        _scatter(buffer, run_start[runs], names[rank])
