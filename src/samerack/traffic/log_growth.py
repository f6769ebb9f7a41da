"""Computes how many bytes were appended to each log of a cluster between two polls, and where they were copied.

All partitions lie in arrays, a row each, topics one after the other: hundreds of thousands of them are added up in
milliseconds. As in `curve`, a growth that cannot be right (deleted or compacted segments, another leader) is replaced
by the usual bytes per offset. Pure: no I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from samerack.cluster.metadata import Placements

if TYPE_CHECKING:
    import numpy.typing as npt

Integers: TypeAlias = "npt.NDArray[np.int64]"
Reals: TypeAlias = "npt.NDArray[np.float64]"
RackPair: TypeAlias = tuple[str, str]
"""The leader's rack and a follower's; "" where unknown."""

UNKNOWN: Final = -1
"""A size or an offset that could not be requested, and the leader of a partition without one."""
_AT_ONCE: Final = 20_000
"""Rows that are computed together: arrays in between stay small."""
_FAR_BELOW: Final = 0.02
"""A growth below this share of the usual bytes per offset is not believed: compaction hides growth that way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """One poll of all partitions: bytes, first offset and offset after the last record of each leader's log, by row.

    UNKNOWN where not known. `placed` has the rows of each topic, and where replicas are.
    """

    placed: Placements
    size: Integers
    start: Integers
    end: Integers

    @property
    def placement(self) -> npt.NDArray[np.int32]:
        """Index into the brokers of `placed`, by row."""
        return np.asarray(self.placed.placement, dtype=np.int32)

    def leaders(self, rows: slice | Integers) -> Integers:
        """Return the leaders' broker ids; UNKNOWN where there is none."""
        return np.array([brokers[0] for brokers in self.placed.brokers], dtype=np.int64)[self.placement[rows]]

    def known(self, rows: slice | Integers) -> npt.NDArray[np.bool_]:
        """Return whether size and offsets are known."""
        return np.asarray((self.size[rows] >= 0) & (self.start[rows] >= 0) & (self.end[rows] >= 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Bytes appended between two polls, and the usual bytes per offset, an input of the next step; by row.

    NaN where not known.
    """

    appended: Reals
    density: Reals


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """Where appended bytes went; unknown racks are "".

    Attributes:
        carried: Bytes that followers got, by the racks of leader and follower, the same rack included.
        produced: Bytes that producers sent, by the rack of the leader; those of internal topics are left out.
    """

    carried: Mapping[RackPair, float]
    produced: Mapping[str, float]

    def __add__(self, other: Copied) -> Copied:
        carried, produced = dict(self.carried), dict(self.produced)
        for pair, size in other.carried.items():
            carried[pair] = carried.get(pair, 0.0) + size
        for rack, size in other.produced.items():
            produced[rack] = produced.get(rack, 0.0) + size
        return Copied(carried=carried, produced=produced)


NOTHING: Final = Copied(carried={}, produced={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Replication:
    """What replication carried and producers sent.

    Attributes:
        unknown: Why nothing is known, or "".
        seconds: Length of the window of `copied`.
        copied: Bytes in the window.
        totals: Bytes that this agent counted since it started; they never go down.
        partitions: All partitions of the cluster.
        unknown_partitions: Those of them that have a leader, and whose growth was not known in some part of the window.
    """

    unknown: str = ""
    seconds: float = 0.0
    copied: Copied = NOTHING
    totals: Copied = NOTHING
    partitions: int = 0
    unknown_partitions: int = 0


NOT_MEASURED: Final = Replication(unknown="nothing has been measured yet")


def first_growth(logs: Logs) -> Growth:
    """Return the growth at a first poll: nothing is known."""
    appended, density = np.full((2, len(logs.size)), np.nan)
    return Growth(appended=appended, density=density)


def growth(before: Logs, density: Reals, now: Logs) -> Growth:
    """Return what was appended to each log since the poll before, given its usual bytes per offset by row.

    A partition that is new, or was deleted and created again, has no growth until the next poll.
    """
    found = first_growth(now)
    old = rows_before(before, now)
    for begin in range(0, len(old), _AT_ONCE):
        rows = slice(begin, begin + _AT_ONCE)
        if (old[rows] >= 0).any():
            found.appended[rows], found.density[rows] = _grown(before, density, now, old[rows], rows)
    return found


def _grown(before: Logs, density: Reals, now: Logs, old: Integers, rows: slice) -> tuple[Reals, Reals]:
    """Return growth and density of some rows, whose places in the poll before are `old`."""
    size, start, end = now.size[rows], now.start[rows], now.end[rows]
    seen = now.known(rows)
    known = seen & (old >= 0) & before.known(old) & (end >= before.end[old])
    records = np.where(known, end - before.end[old], 0)
    grown = size - before.size[old]
    held = end - start
    former = np.where(old >= 0, density[old], np.nan)
    average = np.divide(size, held, out=np.zeros(len(held)), where=(held > 0) & seen)
    usual = np.where(former > 0, former, average)  # an empty log had none
    same_leader = now.leaders(rows) == before.leaders(old)
    comparable = known & (records > 0) & (start == before.start[old]) & same_leader
    believed = comparable & (grown > 0) & (grown >= _FAR_BELOW * usual * records)
    appended = np.where(believed, grown, records * usual)
    measured = np.divide(grown, records, out=np.zeros(len(held)), where=believed)
    # what is refused again and again is believed in the end: the records did become smaller
    usual = np.where(believed, measured, np.where(comparable, usual / 2, usual))
    return np.where(known, appended, np.nan), np.where(seen, usual, former)


def carried(before: Logs, now: Logs) -> Logs:
    """Return a poll in which rows that are not known have what they had at the poll before: the next growth spans both.

    A broker that answers late once would lose two steps of all that it leads.
    """
    missing = ~now.known(slice(None))
    if not missing.any():
        return now
    old = rows_before(before, now)
    missing &= old >= 0
    size, start, end = (
        np.where(missing, former[old] if len(former) else UNKNOWN, present)
        for former, present in ((before.size, now.size), (before.start, now.start), (before.end, now.end))
    )
    return Logs(placed=now.placed, size=size, start=start, end=end)


def rows_before(before: Logs, now: Logs) -> Integers:
    """Return each row's place in the poll before, UNKNOWN for new partitions."""
    if before.placed.rows == now.placed.rows:
        return np.arange(len(now.size))
    old = np.full(len(now.size), UNKNOWN, dtype=np.int64)
    for topic, rows in now.placed.rows.items():
        last = before.placed.rows.get(topic, range(0))
        both = min(len(rows), len(last))
        old[rows.start : rows.start + both] = np.arange(last.start, last.start + both)
    return old


def copied(logs: Logs, appended: Reals, rack_of: Callable[[int], str]) -> Copied:
    """Return where appended bytes went: from each leader to each of its followers, and from producers to the leader.

    `appended` is bytes by row of the poll; rows with NaN are left out. `rack_of` returns "" where unknown.
    """
    sizes = np.nan_to_num(appended)
    placed, kinds = logs.placed, len(logs.placed.brokers)
    all_bytes = np.bincount(logs.placement, weights=sizes, minlength=kinds)
    for topic in placed.internal & placed.rows.keys():
        rows = placed.rows[topic]
        sizes[rows.start : rows.stop] = 0.0
    sent_bytes = np.bincount(logs.placement, weights=sizes, minlength=kinds)
    carried: dict[RackPair, float] = {}
    produced: dict[str, float] = {}
    for brokers, size, sent in zip(placed.brokers, all_bytes.tolist(), sent_bytes.tolist(), strict=True):
        if not size:
            continue
        leader, *followers = map(rack_of, brokers)
        produced[leader] = produced.get(leader, 0.0) + sent
        for follower in followers:
            carried[leader, follower] = carried.get((leader, follower), 0.0) + size
    return Copied(carried=carried, produced=produced)
