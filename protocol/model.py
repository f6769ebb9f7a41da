"""The values that consumers embed in JoinGroup and SyncGroup (KIP-54, KIP-429, KIP-792, KIP-881), without their bytes.

Everything here is frozen. Partitions are kept as runs of one topic, as they stand in the messages, with the numbers in
numpy arrays, so that a member that owns 100,000 partitions costs a few objects and not 100,000.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from protocol.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Int32Array: TypeAlias = npt.NDArray[np.int32]

MAX_VERSION: Final = 3
"""The newest version of Subscription and Assignment whose fields are known (KIP-881)."""

_INT32: Final = np.dtype(np.int32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TopicPartitions:
    """Partitions in the order of a message: run k holds `numbers[k]` of `topics[k]`; a topic may have several runs.

    Two values are equal when they have the same runs; `to_pairs` of both tells whether they name the same partitions.

    Attributes:
        topics: The topic of each run.
        numbers: The partition numbers of each run: one-dimensional native int32, read-only by convention (what this
            room makes is read-only in fact).
    """

    topics: tuple[str, ...]
    numbers: tuple[Int32Array, ...]

    def __post_init__(self) -> None:
        """Refuse what could not be told apart or would be cut when written."""
        if len(self.topics) != len(self.numbers):
            message = f"{len(self.topics)} topics with {len(self.numbers)} arrays of numbers; give one array per topic"
            raise ProtocolError(message, field="numbers")
        for topic, run in zip(self.topics, self.numbers, strict=True):
            if run.dtype != _INT32 or run.ndim != 1:
                message = f"topic {topic!r} has {run.ndim}-dimensional {run.dtype}; give one-dimensional native int32"
                raise ProtocolError(message, field="numbers")

    def __len__(self) -> int:
        """The number of partitions."""
        return sum(map(len, self.numbers))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TopicPartitions):
            return NotImplemented
        return self.topics == other.topics and all(map(np.array_equal, self.numbers, other.numbers))

    def __hash__(self) -> int:
        return hash((self.topics, tuple(run.tobytes() for run in self.numbers)))


def from_flat(topics: Sequence[str], sizes: Sequence[int], numbers: Int32Array) -> TopicPartitions:
    """Runs of the given sizes, cut from one array of all numbers; the array is frozen and shared, not copied."""
    numbers.setflags(write=False)
    runs: list[Int32Array] = []
    begin = 0
    for size in sizes:
        end = begin + size
        runs.append(numbers[begin:end])
        begin = end
    return TopicPartitions(topics=tuple(topics), numbers=tuple(runs))


def from_pairs(pairs: Iterable[tuple[str, int]]) -> TopicPartitions:
    """The runs of (topic, number) pairs: neighbours of one topic make a run, so `to_pairs` gives the same list back.

    Raises:
        ProtocolError: A number does not fit into 32 bits.
    """
    topics: list[str] = []
    sizes: list[int] = []
    numbers: list[int] = []
    for topic, run in groupby(pairs, itemgetter(0)):
        before = len(numbers)
        numbers.extend(number for _, number in run)
        topics.append(topic)
        sizes.append(len(numbers) - before)
    try:
        flat = np.array(numbers, dtype=_INT32)
    except OverflowError:
        wrong = next(number for number in numbers if not -(2**31) <= number < 2**31)
        raise ProtocolError(f"partition {wrong} does not fit into 32 bits", field="numbers") from None
    return from_flat(topics, sizes, flat)


def to_pairs(partitions: TopicPartitions) -> list[tuple[str, int]]:
    """The (topic, number) pairs in the order of the message."""
    runs = zip(partitions.topics, partitions.numbers, strict=True)
    return [(topic, number) for topic, run in runs for number in run.tolist()]


NO_PARTITIONS: Final = TopicPartitions(topics=(), numbers=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a member says of itself in JoinGroup (`ConsumerProtocolSubscription`).

    Attributes:
        version: Version of the message; fields newer than it are not written.
        topics: The topics the member wants.
        user_data: What the member's assignor told its peers, or None.
        owned: The partitions the member holds (since version 1, KIP-429).
        generation: The generation in which it got them, or -1 (since version 2, KIP-792).
        rack: The member's rack, or None (since version 3, KIP-881).
        trailing: Bytes behind the last known field: the fields of versions that are newer than this program.
    """

    version: int = MAX_VERSION
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: TopicPartitions = NO_PARTITIONS
    generation: int = -1
    rack: str | None = None
    trailing: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What the leader gives a member in SyncGroup (`ConsumerProtocolAssignment`).

    Attributes:
        version: Version of the message.
        partitions: The partitions the member is to read.
        user_data: What the leader's assignor tells the member's, or None.
        trailing: Bytes behind the last known field: the fields of versions that are newer than this program.
    """

    version: int = MAX_VERSION
    partitions: TopicPartitions
    user_data: bytes | None = None
    trailing: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class StickyUserData:
    """What Kafka's `sticky` assignor keeps in the user data of a subscription (KIP-54, KIP-341).

    Attributes:
        owned: The partitions the member holds.
        generation: The generation in which it got them; -1 where the bytes could not be understood, None where they
            name none (no bytes at all, or the format of clients before 2.3).
    """

    owned: TopicPartitions
    generation: int | None
