"""Reads the subscriptions of a whole group at once, while its members wait for their assignments.

A group may own a million partitions in as many runs, and a Python step for each would take seconds. So run k of all
members is read in one numpy step, names of topics are compared as 64-bit words, and members with equal topic lists
share one tuple. Whatever is irregular is read again by `decode_subscription`, whose errors name field and offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import error as StructError  # noqa: N812 - the library's name says too little
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from samerack.protocol.consumer import (
    GENERATION_SINCE,
    NO_GENERATION,
    OWNED_SINCE,
    RACK_SINCE,
    decode_subscription,
    read_topics,
)
from samerack.protocol.values import Int32Array, Subscription, TopicPartitions, no_partitions
from samerack.protocol.wire import BIG_INT16, BIG_INT32, INT16, INT32, SMALLEST_RUN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

Int64Array: TypeAlias = "npt.NDArray[np.int64]"
Words: TypeAlias = "npt.NDArray[np.uint64]"

_RECENT: Final = 8
"""Distinct topic lists that the next message is compared with before its own is read."""
_WORD: Final = 8
"""Bytes of a word; that number follows the messages, so that a word can be read at every byte."""
_CHUNK: Final = 1 << 16
_MIX: Final = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio: its multiples have well-mixed high bits."""


_INT16, _INT32 = INT16.unpack_from, INT32.unpack_from


class _IrregularError(Exception):
    """A message must be read by itself: it is invalid, or two names have the same hash."""


@dataclass(slots=True, kw_only=True)
class _Runs:
    """Runs of all messages, in the order of the messages: [K] places in the joined bytes, and sizes."""

    name_at: Int64Array
    name_size: Int64Array
    number_at: Int64Array
    size: Int64Array


class SubscriptionReader:
    """Reads the subscriptions of one group; topic lists are kept from one generation to the next."""

    def __init__(self) -> None:
        self._lists: dict[bytes, tuple[str, ...]] = {}

    def read(self, messages: Sequence[bytes]) -> list[Subscription]:
        """Decode the subscriptions of all members of the group, as `decode_subscription` does.

        Equal topic lists are one object, and the owned partitions of all members share their `names`.

        Raises:
            ProtocolError: One of the messages is not a subscription.

        Complexity: numpy passes over the bytes, and as many numpy steps as the longest message has runs.
        """
        try:
            return self._read(messages)
        except (_IrregularError, StructError, UnicodeDecodeError):
            return [decode_subscription(message) for message in messages]

    def _read(self, messages: Sequence[bytes]) -> list[Subscription]:
        lists = _TopicLists(self._lists)
        heads = [_head(message, lists) for message in messages]
        self._lists = lists.used
        ends = [head.end for head in heads]
        owned: list[TopicPartitions] = [no_partitions()] * len(messages)
        owning = [
            index
            for index, (message, head) in enumerate(zip(messages, heads, strict=True))
            if head.version >= OWNED_SINCE and head.end < len(message)
        ]
        if owning:
            found, after = _read_owned([messages[index] for index in owning], [ends[index] for index in owning])
            for index, partitions, end in zip(owning, found, after, strict=True):
                owned[index], ends[index] = partitions, end
        return list(map(_subscription, messages, heads, owned, ends))


class _Head(NamedTuple):
    """The first fields of a message, and the offset after them."""

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None
    end: int


def _head(message: bytes, lists: _TopicLists) -> _Head:
    (version,) = _INT16(message)
    if version < 0:
        raise _IrregularError
    topics, at = lists.read(message, INT16.size)
    if at >= len(message):
        return _Head(version, topics, None, at)
    (size,) = _INT32(message, at)
    at += INT32.size
    if size < 0:
        return _Head(version, topics, None, at)
    if at + size > len(message):
        raise _IrregularError
    return _Head(version, topics, message[at : at + size], at + size)


def _subscription(message: bytes, head: _Head, owned: TopicPartitions, at: int) -> Subscription:
    """Read the fields after the owned partitions, and return the whole."""
    generation, rack = NO_GENERATION, None
    if head.version >= GENERATION_SINCE and at < len(message):
        (generation,) = _INT32(message, at)
        at += INT32.size
    if head.version >= RACK_SINCE and at < len(message):
        (size,) = _INT16(message, at)
        at += INT16.size
        if size > 0:
            if at + size > len(message):
                raise _IrregularError
            rack = message[at : at + size].decode()
            at += size
    return Subscription(
        version=head.version,
        topics=head.topics,
        user_data=head.user_data,
        owned=owned,
        generation=max(generation, NO_GENERATION),
        rack=rack,
        trailing=message[at:],
    )


class _TopicLists:
    """Reads the topics of messages; equal bytes are read once."""

    def __init__(self, known: Mapping[bytes, tuple[str, ...]]) -> None:
        self._recent = list(known.items())[-_RECENT:]
        self._known = known
        self.used: dict[bytes, tuple[str, ...]] = {}

    def read(self, message: bytes, begin: int) -> tuple[tuple[str, ...], int]:
        """Return the topics that begin at an offset, and the offset after them."""
        for data, topics in self._recent:
            if message.startswith(data, begin):
                self.used[data] = topics
                return topics, begin + len(data)
        read, end = read_topics(message, begin)
        data = message[begin:end]
        topics = self.used.get(data) or self._known.get(data) or read
        self.used[data] = topics
        self._recent = [(data, topics), *self._recent[: _RECENT - 1]]
        return topics, end


def _read_owned(messages: Sequence[bytes], at: Sequence[int]) -> tuple[list[TopicPartitions], list[int]]:
    """Read the owned partitions that begin at these offsets; return them, and the offsets after them."""
    rest = [memoryview(message)[begin:] for message, begin in zip(messages, at, strict=True)]
    joined = b"".join((*rest, bytes(_WORD)))
    sizes = np.fromiter(map(len, rest), np.int64, len(rest))
    ends = np.cumsum(sizes)
    begins = ends - sizes
    runs, counts, position = _walk(joined, begins, ends)
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
    return found, (position - begins + np.array(at, np.int64)).tolist()


def _walk(joined: bytes, position: Int64Array, ends: Int64Array) -> tuple[_Runs, Int64Array, Int64Array]:
    """Find all runs: those that come first in their messages in one step, then the second ones, and so on.

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
    nothing = np.empty(0, np.int64)
    name_at, number_at, size = (
        np.concatenate([nothing, *parts])[by_message] for parts in (name_lengths, numbers, sizes)
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
    """Return the partition numbers of all runs."""
    int32 = np.ndarray((len(joined) - INT32.size + 1,), BIG_INT32, joined, strides=(1,))
    before = np.cumsum(runs.size) - runs.size
    places = np.repeat(runs.number_at - before * INT32.size, runs.size)
    places += np.arange(len(places)) * INT32.size
    flat: Int32Array = int32[places].astype(np.int32)
    flat.setflags(write=False)
    return flat


def _names(joined: bytes, runs: _Runs) -> tuple[tuple[str, ...], Int32Array]:
    """Return the distinct names, and [K] the index of each run's name."""
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
        """Return the number of the name at each place; new names get the next numbers."""
        words = np.ndarray((len(joined) - _WORD + 1,), "<u8", joined, strides=(1,))
        read = [self._word(words, at, number) for number in range(self._words)]
        hashes: Words = np.zeros(len(at), np.uint64)
        for word in read:
            hashes = (hashes ^ word) * np.uint64(_MIX)
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
        """Return a word of the names at these places; of the last one only the bytes that belong to the name."""
        word = words[at + number * _WORD]
        return word & self._last if number == self._words - 1 else word

    def _learn(self, hashes: Words, at: Int64Array) -> None:
        new, first = np.unique(hashes, return_index=True)
        numbers = len(self.first_at) + np.arange(len(new), dtype=np.int32)
        self.first_at += at[first].tolist()
        order = np.argsort(all_hashes := np.concatenate((self._hashes, new)))
        self._hashes, self._numbers = all_hashes[order], np.concatenate((self._numbers, numbers))[order]
