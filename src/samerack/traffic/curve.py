"""Maps offsets to bytes of one partition, learned from polls of its leader's log; pure values and functions.

Each poll shows the log's start, end and size. Between two polls the log grew by some offsets and some bytes; a
consumer's bytes are the difference of the curve at two committed offsets. A growth that cannot be right (deleted
segments, compaction, another leader) is replaced by the usual density.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

_REMEMBERED: Final = 9
"""The running median is of the densities of this many growths."""
_FAR_BELOW: Final = 0.02
"""A growth with less than this share of the median density is not believed: compaction hides growth that way."""
_PATIENCE: Final = 3
"""After this many refused growths in a row the next is believed: the records did become smaller."""
_ALIKE: Final = 0.01
"""Neighbouring stretches whose densities differ by less are one stretch."""
_MAX_POINTS: Final = 128


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
        offsets: Ascending offsets at which cumulative bytes are known; the first is not below the log's start.
        cumulative: Bytes up to each of `offsets`, counted from an arbitrary origin.
        extent: The last poll.
        known_from: The end at the first poll: offsets below have only an average density.
        densities: Bytes per offset of the last believed growths.
        refused: Refused growths in a row.
        hidden: Whether growth was ever refused because the log shrank without losing its start: it is compacted.
    """

    offsets: tuple[int, ...]
    cumulative: tuple[float, ...]
    extent: LogExtent
    known_from: int
    densities: tuple[float, ...] = ()
    refused: int = 0
    hidden: bool = False

    @property
    def density(self) -> float:
        """The usual bytes per offset: the running median, else the average of the whole log."""
        if self.densities:
            return median(self.densities)
        records = self.extent.end - self.extent.start
        return self.extent.size_bytes / records if records > 0 else 0.0


def begin(extent: LogExtent) -> Curve:
    """Return the curve after the first poll."""
    offsets = (extent.start, extent.end) if extent.end > extent.start else (extent.end,)
    cumulative = (0.0, float(extent.size_bytes)) if extent.end > extent.start else (0.0,)
    return Curve(offsets=offsets, cumulative=cumulative, extent=extent, known_from=extent.end)


def extend(curve: Curve | None, extent: LogExtent) -> Curve:
    """Return the curve after one more poll; the same object where nothing has changed.

    A log whose end went back is another log (deleted and created again, or truncated): the curve starts again.
    """
    if curve is None or extent.end < curve.extent.end:
        return begin(extent)
    if extent == curve.extent:
        return curve
    records = extent.end - curve.extent.end
    if not records:
        shrunk = extent.size_bytes < curve.extent.size_bytes and extent.start == curve.extent.start
        return _trim(
            replace(curve, extent=extent, hidden=curve.hidden or (shrunk and extent.leader == curve.extent.leader))
        )
    growth = extent.size_bytes - curve.extent.size_bytes
    comparable = extent.start == curve.extent.start and extent.leader == curve.extent.leader
    believed = comparable and _believable(curve, growth / records)
    if believed:
        curve = replace(curve, densities=(*curve.densities, growth / records)[-_REMEMBERED:], refused=0)
    elif comparable:
        curve = replace(curve, refused=curve.refused + 1, hidden=curve.hidden or growth < 0)
    added = growth if believed else records * curve.density
    return _trim(_append(replace(curve, extent=extent), extent.end, added))


def bytes_between(curve: Curve, first: int, end: int) -> float:
    """Return the bytes of the log from offset `first` to before `end`; 0 where the log does not have them.

    What is in remote storage only has the usual density.
    """
    return max(0.0, _at(curve, end) - _at(curve, first)) if end > first else 0.0


def _believable(curve: Curve, density: float) -> bool:
    if density <= 0:
        return False
    return density >= _FAR_BELOW * curve.density or curve.refused >= _PATIENCE


def _append(curve: Curve, offset: int, added: float) -> Curve:
    offsets, cumulative = curve.offsets, curve.cumulative
    total = cumulative[-1] + added
    if len(offsets) > 1 and offsets[-1] > curve.known_from:
        before = (cumulative[-1] - cumulative[-2]) / (offsets[-1] - offsets[-2])
        now = added / (offset - offsets[-1])
        if abs(now - before) <= _ALIKE * before:
            return replace(curve, offsets=(*offsets[:-1], offset), cumulative=(*cumulative[:-1], total))
    offsets, cumulative = (*offsets, offset), (*cumulative, total)
    if len(offsets) > _MAX_POINTS:  # old stretches get coarser; reads are mostly near the end
        half = _MAX_POINTS // 2
        offsets = (*offsets[:half:2], *offsets[half:])
        cumulative = (*cumulative[:half:2], *cumulative[half:])
    return replace(curve, offsets=offsets, cumulative=cumulative)


def _trim(curve: Curve) -> Curve:
    """Drop what lies below the log's start."""
    start = curve.extent.start
    if start <= curve.offsets[0]:
        return curve
    keep = bisect_right(curve.offsets, start)
    at_start = _at(curve, start)
    offsets, cumulative = curve.offsets[keep:], curve.cumulative[keep:]
    return replace(curve, offsets=(start, *offsets), cumulative=(at_start, *cumulative))


def _at(curve: Curve, offset: int) -> float:
    offsets, cumulative = curve.offsets, curve.cumulative
    if offset <= offsets[0]:
        remote = offsets[0] if curve.extent.remote_start is None else curve.extent.remote_start
        return cumulative[0] - max(0, offsets[0] - max(offset, remote)) * curve.density
    if offset >= offsets[-1]:  # committed since the last poll
        return cumulative[-1] + (offset - offsets[-1]) * curve.density
    right = bisect_right(offsets, offset)
    left = right - 1
    share = (offset - offsets[left]) / (offsets[right] - offsets[left])
    return cumulative[left] + share * (cumulative[right] - cumulative[left])
