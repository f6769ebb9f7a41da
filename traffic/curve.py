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
_MOST_POINTS: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLook:
    """One poll of a partition's leader replica: first offset, offset after the last, bytes in between, leader."""

    start: int
    end: int
    size_bytes: int
    leader: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """What is known of one partition.

    Attributes:
        offsets: Ascending offsets at which cumulative bytes are known; the first is not below the log's start.
        cumulative: Bytes up to each of `offsets`, counted from an arbitrary origin.
        look: The last poll.
        known_from: The end at the first poll: offsets below have only an average density.
        densities: Bytes per offset of the last believed growths.
        refused: Refused growths in a row.
        hidden: Whether growth was ever refused because the log shrank without losing its start: it is compacted.
    """

    offsets: tuple[int, ...]
    cumulative: tuple[float, ...]
    look: LogLook
    known_from: int
    densities: tuple[float, ...] = ()
    refused: int = 0
    hidden: bool = False

    @property
    def density(self) -> float:
        """The usual bytes per offset: the running median, else the average of the whole log."""
        if self.densities:
            return median(self.densities)
        return _average(self.look)


def begin(look: LogLook) -> Curve:
    """Return the curve after the first poll."""
    offsets = (look.start, look.end) if look.end > look.start else (look.end,)
    cumulative = (0.0, float(look.size_bytes)) if look.end > look.start else (0.0,)
    return Curve(offsets=offsets, cumulative=cumulative, look=look, known_from=look.end)


def extend(curve: Curve | None, look: LogLook) -> Curve:
    """Return the curve after one more poll; the same object where nothing has changed.

    A log whose end went back is another log (deleted and created again, or truncated): the curve starts again.
    """
    if curve is None or look.end < curve.look.end:
        return begin(look)
    if look == curve.look:
        return curve
    records = look.end - curve.look.end
    if not records:
        shrunk = look.size_bytes < curve.look.size_bytes and look.start == curve.look.start
        return _trim(replace(curve, look=look, hidden=curve.hidden or (shrunk and look.leader == curve.look.leader)))
    growth = look.size_bytes - curve.look.size_bytes
    comparable = look.start == curve.look.start and look.leader == curve.look.leader
    believed = comparable and _believable(curve, growth / records)
    if believed:
        curve = replace(curve, densities=(*curve.densities, growth / records)[-_REMEMBERED:], refused=0)
    elif comparable:
        curve = replace(curve, refused=curve.refused + 1, hidden=curve.hidden or growth < 0)
    added = growth if believed else records * curve.density
    return _trim(_append(replace(curve, look=look), look.end, added))


def bytes_between(curve: Curve, first: int, end: int) -> float:
    """Return the bytes of the log from offset `first` to before `end`; 0 where the log does not have them."""
    return max(0.0, _at(curve, end) - _at(curve, first)) if end > first else 0.0


def _average(look: LogLook) -> float:
    return look.size_bytes / (look.end - look.start) if look.end > look.start else 0.0


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
    if len(offsets) > _MOST_POINTS:  # old stretches get coarser; reads are mostly near the end
        half = _MOST_POINTS // 2
        offsets = (*offsets[:half:2], *offsets[half:])
        cumulative = (*cumulative[:half:2], *cumulative[half:])
    return replace(curve, offsets=offsets, cumulative=cumulative)


def _trim(curve: Curve) -> Curve:
    """Drop what lies below the log's start."""
    start = curve.look.start
    if start <= curve.offsets[0]:
        return curve
    keep = bisect_right(curve.offsets, start)
    at_start = _at(curve, start)
    offsets, cumulative = curve.offsets[keep:], curve.cumulative[keep:]
    return replace(curve, offsets=(start, *offsets), cumulative=(at_start, *cumulative))


def _at(curve: Curve, offset: int) -> float:
    offsets, cumulative = curve.offsets, curve.cumulative
    if offset <= offsets[0]:
        return cumulative[0]
    if offset >= offsets[-1]:  # committed since the last poll
        return cumulative[-1] + (offset - offsets[-1]) * curve.density
    right = bisect_right(offsets, offset)
    left = right - 1
    share = (offset - offsets[left]) / (offsets[right] - offsets[left])
    return cumulative[left] + share * (cumulative[right] - cumulative[left])
