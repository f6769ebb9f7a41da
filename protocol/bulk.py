"""Reads the subscriptions of a whole group at once, while its members wait for their assignments.

A group may own a million partitions in as many runs, and a Python step for each would take seconds. So run k of all
members is read in one numpy step, names of topics are compared as 64-bit words, and members with equal topic lists
share one tuple. Whatever is irregular is read again by `decode_subscription`, whose errors name field and offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from samerack.protocol.consumer import (
    GENERATION_SINCE,
    NO_GENERATION,
    OWNED_SINCE,
    RACK_SINCE,
    decode_subscription,
    read_topics,
    read_version,
)
from samerack.protocol.model import NO_PARTITIONS, Subscription, TopicPartitions
from samerack.protocol.wire import (
    BIG_INT16,
    BIG_INT32,
    INT16,
    INT32,
    SMALLEST_RUN,
    read_integer,
    read_optional_bytes,
    read_optional_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

Int64Array: TypeAlias = npt.NDArray[np.int64]
Int32Array: TypeAlias = npt.NDArray[np.int32]
Words: TypeAlias = npt.NDArray[np.uint64]

_RECENT: Final = 8
"""Distinct topic lists that the next message is compared with before its own is read."""
_WORD: Final = 8
"""Bytes of a word; so many follow the messages, so that a word can be read at every byte."""
_CHUNK: Final = 1 << 16
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio: its multiples have well-mixed high bits."""


_NOTHING: Final = np.empty(0, np.int64)


class _IrregularError(Exception):
    """A message must be read by itself: it is invalid, or two names have the same hash."""


@dataclass(slots=True, kw_only=True)
class _Runs:
    """Runs of all messages, in the order of the messages: [K] places in the joined bytes, and sizes."""

    name_at: Int64Array
    name_size: Int64Array
    number_at: Int64Array
    size: Int64Array


def decode_subscriptions(messages: Sequence[bytes]) -> list[Subscription]:
    """Decodes the subscriptions of all members of a group, as `decode_subscription` does.

    Equal topic lists are one object, and the owned partitions of all members share their `names`.

    Raises:
        ProtocolError: One of the messages is not a subscription.

    Complexity: numpy passes over the bytes, and as many numpy steps as the longest message has runs.
    """
    try:
        return _decode(messages)
    except _IrregularError:
        return [decode_subscription(message) for message in messages]


def _decode(messages: Sequence[bytes]) -> list[Subscription]:
    topics_of = _TopicLists()
    heads = []
    with_owned: list[int] = []
    at: list[int] = []
    for index, message in enumerate(messages):
        version, topics, place = topics_of.read(message)
        user_data: bytes | None = None
        if place < len(message):
            user_data, place = read_optional_bytes(message, place, "user_data")
        if version >= OWNED_SINCE and place < len(message):
            with_owned.append(index)
            at.append(place)
        heads.append(_Head(version, topics, user_data, place))
    owned: list[TopicPartitions] = [NO_PARTITIONS] * len(messages)
    if with_owned:
        found, ends = _read_owned([messages[index] for index in with_owned], at)
        for index, partitions, end in zip(with_owned, found, ends, strict=True):
            owned[index] = partitions
            heads[index] = heads[index]._replace(end=end)
    return list(map(_with_rest, messages, heads, owned))


class _Head(NamedTuple):
    """The first fields of a message, and the offset after the last field that was read."""

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None
    end: int


def _with_rest(message: bytes, head: _Head, owned: TopicPartitions) -> Subscription:
    """Reads the fields after the owned partitions."""
    version, topics, user_data, at = head
    generation, rack = NO_GENERATION, None
    if version >= GENERATION_SINCE and at < len(message):
        generation, at = read_integer(message, at, INT32, "generation")
    if version >= RACK_SINCE and at < len(message):
        rack, at = read_optional_text(message, at, "rack")
    return Subscription(
        version=version,
        topics=topics,
        user_data=user_data,
        owned=owned,
        generation=max(generation, NO_GENERATION),
        rack=rack or None,
        trailing=message[at:],
    )


class _TopicLists:
    """Reads the topics of messages; equal bytes are read once."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[str, ...]] = {}
        self._recent: list[tuple[bytes, tuple[str, ...]]] = []

    def read(self, message: bytes) -> tuple[int, tuple[str, ...], int]:
        """Returns version, topics, and the offset after them."""
        version, begin = read_version(message)
        for data, topics in self._recent:
            if message.startswith(data, begin):
                return version, topics, begin + len(data)
        read, end = read_topics(message, begin)
        data = message[begin:end]
        topics = self._known.setdefault(data, read)
        self._recent.insert(0, (data, topics))
        del self._recent[_RECENT:]
        return version, topics, end


def _read_owned(messages: Sequence[bytes], at: Sequence[int]) -> tuple[list[TopicPartitions], list[int]]:
    """Reads the owned partitions that begin at these offsets; returns them, and the offsets after them."""
    joined = b"".join((*messages, bytes(_WORD)))
    sizes = np.fromiter(map(len, messages), np.int64, len(messages))
    ends = np.cumsum(sizes)
    begins = ends - sizes
    position = begins + np.array(at, np.int64)
    runs, counts, position = _walk(joined, position, ends)
    names, run_names = _names(joined, runs)
    flat = _numbers(joined, runs)
    run_sizes = runs.size.astype(np.int32)
    run_ends = np.cumsum(counts)
    flat_ends = np.concatenate(([0], np.cumsum(runs.size)))[run_ends].tolist()
    found = []
    run_begin = flat_begin = 0
    for run_end, flat_end in zip(run_ends.tolist(), flat_ends, strict=True):
        found.append(
            TopicPartitions(
                names=names,
                run_names=run_names[run_begin:run_end],
                run_sizes=run_sizes[run_begin:run_end],
                flat=flat[flat_begin:flat_end],
            )
        )
        run_begin, flat_begin = run_end, flat_end
    return found, (position - begins).tolist()


def _walk(joined: bytes, position: Int64Array, ends: Int64Array) -> tuple[_Runs, Int64Array, Int64Array]:
    """Finds all runs: those that come first in their messages in one step, then the second ones, and so on.

    Lengths are checked afterwards, all at once: until then a forged one leads to other bytes, or beyond them.

    Returns:
        The runs in the order of the messages, [M] how many each message has, and [M] the offset after its runs.
    """
    int16 = np.ndarray((len(joined) - INT16.size + 1,), BIG_INT16, joined, strides=(1,))
    int32 = np.ndarray((len(joined) - INT32.size + 1,), BIG_INT32, joined, strides=(1,))
    _require(position + INT32.size <= ends)
    counts = int32[position].astype(np.int64)
    _require((counts >= 0) & (counts * SMALLEST_RUN <= ends - position - INT32.size))
    # messages with the most runs first: those that have a run k are the first so many
    order = np.argsort(-counts, kind="stable")
    active_in_step = np.searchsorted(-counts[order], -np.arange(int(counts.max())), side="left")
    reached = position[order] + INT32.size
    name_lengths, numbers, sizes = [], [], []
    now = reached.copy()
    try:
        for active in active_in_step.tolist():
            reached[active : len(now)] = now[active:]
            name_lengths.append(now := now[:active])
            numbers.append(after := now + int16[now] + (INT16.size + INT32.size))
            sizes.append(count := int32[after - INT32.size].astype(np.int64))
            now = after + count * INT32.size
    except IndexError:
        raise _IrregularError from None
    reached[: len(now)] = now
    first = np.cumsum(active_in_step) - active_in_step
    of = order[np.arange(active_in_step.sum()) - np.repeat(first, active_in_step)]
    by_message = np.argsort(of.astype(np.uint16) if len(counts) <= 1 << 16 else of, kind="stable")
    name_at, number_at, size = (
        np.concatenate([_NOTHING, *parts])[by_message] for parts in (name_lengths, numbers, sizes)
    )
    name_at += INT16.size
    runs = _Runs(name_at=name_at, name_size=number_at - INT32.size - name_at, number_at=number_at, size=size)
    _require((runs.name_size >= 0) & (size >= 0) & (number_at + size * INT32.size <= np.repeat(ends, counts)))
    position = np.empty_like(position)
    position[order] = reached
    return runs, counts, position


def _require(regular: npt.NDArray[np.bool_]) -> None:
    if not regular.all():
        raise _IrregularError


def _numbers(joined: bytes, runs: _Runs) -> Int32Array:
    """Returns the partition numbers of all runs."""
    int32 = np.ndarray((len(joined) - INT32.size + 1,), BIG_INT32, joined, strides=(1,))
    before = np.cumsum(runs.size) - runs.size
    places = np.repeat(runs.number_at - before * INT32.size, runs.size)
    places += np.arange(len(places)) * INT32.size
    flat: Int32Array = int32[places].astype(np.int32)
    flat.setflags(write=False)
    return flat


def _names(joined: bytes, runs: _Runs) -> tuple[tuple[str, ...], Int32Array]:
    """Returns the distinct names, and [K] the index of each run's name."""
    names: list[str] = []
    index = np.empty(len(runs.size), np.int32)
    for length in np.flatnonzero(np.bincount(runs.name_size)).tolist():
        of_length = np.flatnonzero(runs.name_size == length)
        known = _Known(length)
        for begin in range(0, len(of_length), _CHUNK):
            chunk = of_length[begin : begin + _CHUNK]
            index[chunk] = known.numbers(joined, runs.name_at[chunk]) + len(names)
        try:
            names += [joined[at : at + length].decode() for at in known.first_at]
        except UnicodeDecodeError:
            raise _IrregularError from None
    return tuple(names), index


class _Known:
    """The distinct names of one length: a hash of each, and where it was first seen."""

    def __init__(self, length: int) -> None:
        self._words = -(-length // _WORD)
        rest = length % _WORD
        self._last = np.uint64((1 << (8 * rest)) - 1 if rest else 2**64 - 1)
        self._hashes = np.empty(0, np.uint64)
        self._numbers = np.empty(0, np.int32)
        self.first_at: list[int] = []

    def numbers(self, joined: bytes, at: Int64Array) -> Int32Array:
        """Returns the number of the name at each place; new names get the next numbers."""
        words = np.ndarray((len(joined) - _WORD + 1,), "<u8", joined, strides=(1,))
        read = [self._word(words, at, number) for number in range(self._words)]
        hashes: Words = np.zeros(len(at), np.uint64)
        for word in read:
            hashes = (hashes ^ word) * _MIX
            hashes ^= hashes >> np.uint64(32)
        place = np.minimum(np.searchsorted(self._hashes, hashes), max(0, len(self._hashes) - 1))
        unknown = self._hashes[place] != hashes if len(self._hashes) else np.ones(len(at), np.bool_)
        if unknown.any():
            self._learn(hashes[unknown], at[unknown])
            place = np.searchsorted(self._hashes, hashes)
        numbers: Int32Array = self._numbers[place]
        first = np.array(self.first_at, np.int64)
        for number, word in enumerate(read):
            _require(self._word(words, first, number)[numbers] == word)
        return numbers

    def _word(self, words: Words, at: Int64Array, number: int) -> Words:
        """Returns a word of the names at these places; of the last one only the bytes that belong to the name."""
        word = words[at + number * _WORD]
        return word & self._last if number == self._words - 1 else word

    def _learn(self, hashes: Words, at: Int64Array) -> None:
        new, first = np.unique(hashes, return_index=True)
        numbers = len(self.first_at) + np.arange(len(new), dtype=np.int32)
        self.first_at += at[first].tolist()
        order = np.argsort(all_hashes := np.concatenate((self._hashes, new)))
        self._hashes, self._numbers = all_hashes[order], np.concatenate((self._numbers, numbers))[order]
