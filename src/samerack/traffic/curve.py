"""Maps offsets to bytes of one partition, learned from polls of its leader's log; pure values and functions.

Each poll shows the log's start, end and size. Between two polls the log grew by some offsets and some bytes; a
consumer's bytes are the difference of the curve at two committed offsets. A growth that cannot be right (deleted
segments, compaction, another leader) is replaced by the usual density.

There are hundreds of thousands of curves. Stretches between polls are kept where somebody has still to read; those that
all have read are merged, the more the farther they lie back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final

_REMEMBERED: Final = 9
"""The running median is of the densities of this many growths."""
_FAR_BELOW: Final = 0.02
"""A growth with less than this share of the median density is not believed: compaction hides growth that way."""
_PATIENCE: Final = 3
"""After this many refused growths in a row the next is believed: the records did become smaller."""
_ALIKE: Final = 0.01
"""Neighbouring stretches whose densities differ by less are one stretch."""
_STRETCH: Final = Struct("=If")
"""Offsets and bytes: eight bytes a stretch; the bytes are off by less than a ten-millionth."""
_DENSITY: Final = Struct("=f")
_LARGEST: Final = 2**32 - 1
_MAX_STRETCHES: Final = 127
_MERGED_EVERY: Final = 8
"""Merging looks at all stretches, so it waits for this number more: of a log that all keep up with, an hour leaves
a dozen, and two weeks of polls twenty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogExtent:
    """One poll of a partition's leader replica: first offset, offset after the last, bytes in between, leader.

    `remote_start` is the first offset that can be read at all: with tiered storage (KIP-405) it may be below `start`.
    """

    start: int
    end: int
    size_bytes: int
    leader: int
    remote_start: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """What is known of one partition.

    Attributes:
        extent: The last poll.
        known_from: The end at the first poll: offsets below have only an average density.
        stretches: Offsets and bytes of neighbouring parts of the log, the oldest first; the last one ends at its end.
        densities: Bytes per offset of the last believed growths, the newest last.
        refused: Refused growths in a row.
        hidden: Whether growth was ever refused because the log shrank without losing its start: it is compacted.
    """

    extent: LogExtent
    known_from: int
    stretches: bytes = b""
    densities: bytes = b""
    refused: int = 0
    hidden: bool = False

    @property
    def density(self) -> float:
        """The usual bytes per offset: the running median, else the average of the whole log."""
        if self.densities:
            ordered = sorted(memoryview(self.densities).cast("f"))
            return (ordered[len(ordered) // 2] + ordered[(len(ordered) - 1) // 2]) / 2
        records = self.extent.end - self.extent.start
        return self.extent.size_bytes / records if records > 0 else 0.0


def begin(extent: LogExtent) -> Curve:
    """Return the curve after the first poll."""
    stretches = _packed(max(0, extent.end - extent.start), extent.size_bytes)
    return Curve(extent=extent, known_from=extent.end, stretches=stretches)


def extend(curve: Curve | None, extent: LogExtent, *, needed_from: int = 0) -> Curve:
    """Return the curve after one more poll; the same object where nothing has changed.

    `needed_from` is the lowest offset that is still to be read, as far as commits show: what lies below gets coarse. A
    log whose end went back is another log (deleted and created again, or truncated): the curve starts again.
    """
    if curve is None or extent.end < curve.extent.end:
        return begin(extent)
    before = curve.extent
    if extent == before:
        return curve
    records, growth = extent.end - before.end, extent.size_bytes - before.size_bytes
    comparable = extent.start == before.start and extent.leader == before.leader
    stretches, densities, refused, hidden = curve.stretches, curve.densities, curve.refused, curve.hidden
    if records:
        usual = curve.density
        believed = comparable and growth > 0 and (growth / records >= _FAR_BELOW * usual or refused >= _PATIENCE)
        if believed:
            densities = (densities + _DENSITY.pack(growth / records))[-_REMEMBERED * _DENSITY.size :]
            refused = 0
        elif comparable:
            refused += 1
        stretches = _appended(curve, records, growth if believed else records * usual)
        if len(stretches) > len(curve.stretches) and len(stretches) // _STRETCH.size % _MERGED_EVERY == 0:
            stretches = _merged(stretches, end=extent.end, needed_from=needed_from, known_from=curve.known_from)
    if extent.start != before.start:
        stretches = _trimmed(stretches, extent.end - extent.start)
    return Curve(
        extent=extent,
        known_from=curve.known_from,
        stretches=stretches,
        densities=densities,
        refused=refused,
        hidden=hidden or (comparable and growth < 0),
    )


def bytes_between(curve: Curve, first: int, end: int) -> float:
    """Return the bytes of the log from offset `first` to before `end`; 0 where the log does not have them.

    What is in remote storage only has the usual density.
    """
    return max(0.0, _bytes_after(curve, first) - _bytes_after(curve, end)) if end > first else 0.0


def _packed(records: int, size: float) -> bytes:
    """Return stretches of this number of offsets and bytes: one, unless the offsets need more than 32 bits."""
    many, rest = divmod(records, _LARGEST)
    whole = _STRETCH.pack(_LARGEST, size * _LARGEST / records) * many if many else b""
    return whole + _STRETCH.pack(rest, size * rest / records) if rest else whole


def _newest_first(stretches: bytes) -> Iterator[tuple[int, float]]:
    """Yield the stretches; most readers are near the end, and need one or two."""
    for place in range(len(stretches) - _STRETCH.size, -1, -_STRETCH.size):
        yield _STRETCH.unpack_from(stretches, place)


def _appended(curve: Curve, records: int, added: float) -> bytes:
    """Return the stretches with one more, which may continue the last one."""
    stretches = curve.stretches
    if stretches and curve.extent.end > curve.known_from:
        last, size = _STRETCH.unpack_from(stretches, len(stretches) - _STRETCH.size)
        before = size / last
        if abs(added / records - before) <= _ALIKE * before and last + records <= _LARGEST:
            return stretches[: -_STRETCH.size] + _STRETCH.pack(last + records, size + added)
    return stretches + _packed(records, added)


def _merged(stretches: bytes, *, end: int, needed_from: int, known_from: int) -> bytes:
    """Merge neighbours that all have read, where they are together no longer than what has come since.

    If more than `_MAX_STRETCHES` remain, each two of the older half become one.
    """
    kept: list[tuple[int, float]] = []
    first = until = end
    """Where the last one that is kept begins and ends."""
    for records, size in _newest_first(stretches):
        read = kept and until <= needed_from and first != known_from
        if read and until - first + records <= min(end - until, _LARGEST):
            kept[-1] = _both(kept[-1], (records, size))
        else:
            kept.append((records, size))
            until = first
        first -= records
    if len(kept) > _MAX_STRETCHES:
        newer, older = kept[: _MAX_STRETCHES // 2], kept[_MAX_STRETCHES // 2 :]
        kept = newer + [_both(*older[place : place + 2]) for place in range(0, len(older), 2)]
    return b"".join(_packed(*one) for one in reversed(kept))


def _both(*stretches: tuple[int, float]) -> tuple[int, float]:
    return sum(records for records, _ in stretches), sum(size for _, size in stretches)


def _trimmed(stretches: bytes, records: int) -> bytes:
    """Return the newest stretches, of this number of offsets together: what lies below the log's start is dropped."""
    place = len(stretches)
    for one, size in _newest_first(stretches):
        if one >= records:
            return _packed(records, size * records / one) + stretches[place:] if records else stretches[place:]
        place, records = place - _STRETCH.size, records - one
    return stretches


def _bytes_after(curve: Curve, offset: int) -> float:
    """Return the bytes from an offset to the end of the log; less than 0 for one that was committed since the poll."""
    end, rest = curve.extent.end, 0.0
    if offset >= end:
        return (end - offset) * curve.density
    for records, size in _newest_first(curve.stretches):
        if offset >= end - records:
            return rest + size * (end - offset) / records
        end, rest = end - records, rest + size
    remote = end if curve.extent.remote_start is None else curve.extent.remote_start
    return rest + max(0, end - max(offset, remote)) * curve.density
