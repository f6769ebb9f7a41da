"""The values that consumers embed in JoinGroup and SyncGroup (KIP-54, KIP-429, KIP-792, KIP-881), without encoding.

Everything here is frozen. Partitions are stored as runs of one topic, as in the messages, but all runs of a member in
three numpy arrays, so that a member that owns 100,000 partitions of 1,000 topics costs a few objects.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from samerack.protocol.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

Int32Array: TypeAlias = "npt.NDArray[np.int32]"

MAX_VERSION: Final = 3
"""The newest version of Subscription and Assignment whose fields are known (KIP-881)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TopicPartitions:
    """Partitions in the order of a message: run k holds `numbers[k]` of `topics[k]`; a topic may have several runs.

    Kept as arrays over all runs, and with names that many members may share, as a group may have a million runs. Two
    values are equal if they have the same runs; compare their `to_pairs` to see if the partitions are the same.

    Attributes:
        names: Names of topics.
        run_names: [K] index into `names` of each run's topic.
        run_sizes: [K] number of partitions of each run.
        flat: The partition numbers of all runs, one run after the other: native int32, read-only by convention (arrays
            made by this package are marked read-only).
    """

    names: tuple[str, ...]
    run_names: Int32Array
    run_sizes: Int32Array
    flat: Int32Array

    @property
    def topics(self) -> tuple[str, ...]:
        """The topic of each run."""
        return tuple(map(self.names.__getitem__, self.run_names.tolist()))

    @property
    def numbers(self) -> tuple[Int32Array, ...]:
        """The partition numbers of each run."""
        ends = np.cumsum(self.run_sizes).tolist()
        return tuple(self.flat[begin:end] for begin, end in zip([0, *ends], ends, strict=False))

    def __len__(self) -> int:
        return len(self.flat)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TopicPartitions):
            return NotImplemented
        return (
            np.array_equal(self.flat, other.flat)
            and np.array_equal(self.run_sizes, other.run_sizes)
            and self.topics == other.topics
        )

    def __hash__(self) -> int:
        return hash((self.topics, self.run_sizes.tobytes(), self.flat.tobytes()))


def from_flat(topics: Sequence[str], sizes: Sequence[int], numbers: Int32Array) -> TopicPartitions:
    """Make runs of the given sizes from one array of all numbers; the array is frozen and shared, not copied."""
    numbers.setflags(write=False)
    return TopicPartitions(
        names=tuple(topics),
        run_names=np.arange(len(topics), dtype=np.int32),
        run_sizes=np.array(sizes, dtype=np.int32),
        flat=numbers,
    )


def from_pairs(pairs: Iterable[tuple[str, int]]) -> TopicPartitions:
    """Make runs of (topic, number) pairs: adjacent pairs of one topic form a run, so `to_pairs` returns the same list.

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
        flat = np.array(numbers, dtype=np.int32)
    except OverflowError:
        wrong = next(number for number in numbers if not -(2**31) <= number < 2**31)
        raise ProtocolError(f"partition {wrong} does not fit into 32 bits", field="numbers") from None
    return from_flat(topics, sizes, flat)


def to_pairs(partitions: TopicPartitions) -> list[tuple[str, int]]:
    """Return the (topic, number) pairs in the order of the message."""
    runs = zip(partitions.topics, partitions.numbers, strict=True)
    return [(topic, number) for topic, run in runs for number in run.tolist()]


@cache
def no_partitions() -> TopicPartitions:
    """Return no runs: one value for all who have none."""
    return from_flat((), (), np.empty(0, np.int32))


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A member's subscription in JoinGroup (`ConsumerProtocolSubscription`).

    Attributes:
        version: Version of the message; newer fields are not written.
        topics: The topics that the member subscribes to.
        user_data: Data of the member's assignor for the leader's, or None.
        owned: The member's owned partitions (since version 1, KIP-429).
        generation: The generation in which it got them, or -1 (since version 2, KIP-792).
        rack: The member's rack, or None (since version 3, KIP-881).
        trailing: Bytes after the last known field: fields of versions that are newer than this program.
    """

    version: int = MAX_VERSION
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: TopicPartitions = field(default_factory=no_partitions)
    generation: int = -1
    rack: str | None = None
    trailing: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A member's assignment in SyncGroup, made by the leader (`ConsumerProtocolAssignment`).

    Attributes:
        version: Version of the message.
        partitions: The partitions that the member must read.
        user_data: Data of the leader's assignor for the member's, or None.
        trailing: Bytes after the last known field: fields of versions that are newer than this program.
    """

    version: int = MAX_VERSION
    partitions: TopicPartitions
    user_data: bytes | None = None
    trailing: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class StickyUserData:
    """The content of the user data that Kafka's `sticky` assignor puts into a subscription (KIP-54, KIP-341).

    Attributes:
        owned: The member's owned partitions.
        generation: The generation in which it got them; -1 if the bytes could not be read, None if they contain no
            generation (no bytes at all, or the format of clients before 2.3).
    """

    owned: TopicPartitions
    generation: int | None
