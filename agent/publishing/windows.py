"""Converts totals that only grow to volumes by window: each byte in one window; no step over two minutes is divided.

A sample is the difference of two totals of the same key, and totals never go down: a late correction in measuring,
such as a calibration, counts from then on and takes nothing back. So no difference is negative, and the sum of all
differences is the total. Bytes between two polls on both sides of a boundary are divided by time.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from samerack.traffic.snapshot import FlowKey, Totals, Volume

_LONGEST_STEP_SECONDS: Final = 120.0
"""After a longer pause (a suspended machine) it is unknown when the bytes were read: they count at its end."""
_MILLISECONDS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What was counted of one key between two moments, in milliseconds since 1970."""

    key: FlowKey
    volume: Volume
    begin: int
    end: int


@dataclass(slots=True, kw_only=True)
class _Window:
    """One open window: what was counted, and which part of it the polls covered."""

    begin: int
    end: int
    sums: dict[FlowKey, tuple[int, int]]


class Windows:
    """The open windows. Memory: one entry for each key and open window, and one for each key ever seen."""

    def __init__(self, seconds: int) -> None:
        """Start without open windows; `seconds` is their length, of which a minute is a multiple."""
        self._length = seconds * _MILLISECONDS
        self._totals: Totals = MappingProxyType({})
        self._at: int | None = None
        self._open: dict[int, _Window] = {}

    def add(self, totals: Totals, at: float) -> None:
        """Add the totals at a moment, in seconds since 1970."""
        now = int(at * _MILLISECONDS)
        before = self._at
        if before is None or not 0 <= now - before <= _LONGEST_STEP_SECONDS * _MILLISECONDS:
            before = now  # the first poll, a clock that was set back, a pause
        spans = self._spans(before, now)
        for key, volume in totals.items():
            known = self._totals.get(key)
            wire_bytes = volume.wire_bytes - (known.wire_bytes if known is not None else 0)
            records = volume.records - (known.records if known is not None else 0)
            if wire_bytes or records:
                self._divide(key, wire_bytes, records, spans)
        self._totals, self._at = totals, now

    def closed(self) -> list[Counted]:
        """Remove the windows that have ended by the last moment, and return their content."""
        return self._take([start for start in self._open if self._at is not None and start + self._length <= self._at])

    def rest(self) -> list[Counted]:
        """Remove all windows, ended or not, and return their content: the last samples."""
        return self._take(list(self._open))

    def start_of(self, at: float) -> int:
        """Return when the window of a moment (seconds since 1970) begins, in milliseconds."""
        now = int(at * _MILLISECONDS)
        return now - now % self._length

    def _spans(self, begin: int, end: int) -> list[tuple[_Window, int]]:
        """Return the windows between two moments, with the milliseconds in each; a single moment is in one window."""
        spans = []
        start = begin - begin % self._length
        while True:
            first, last = max(begin, start), min(end, start + self._length)
            window = self._open.get(start)
            if window is None:
                window = self._open[start] = _Window(begin=first, end=first + 1, sums={})
            # a window is not empty, and the last moment belongs to it
            window.begin, window.end = min(window.begin, first), max(window.end, last)
            spans.append((window, last - first))
            start += self._length
            if start >= end:
                return spans

    @staticmethod
    def _divide(key: FlowKey, wire_bytes: int, records: int, spans: list[tuple[_Window, int]]) -> None:
        """Divide a volume by time, in whole bytes and records; the last window gets the rest, so nothing is lost."""
        whole = sum(milliseconds for _, milliseconds in spans)
        for place, (window, milliseconds) in enumerate(spans):
            last = place == len(spans) - 1
            mine = wire_bytes if last else wire_bytes * milliseconds // whole
            counted = records if last else records * milliseconds // whole
            whole -= milliseconds
            wire_bytes, records = wire_bytes - mine, records - counted
            if mine or counted:
                had = window.sums.get(key, (0, 0))
                window.sums[key] = (had[0] + mine, had[1] + counted)

    def _take(self, starts: list[int]) -> list[Counted]:
        return [
            Counted(key=key, volume=Volume(wire_bytes=wire_bytes, records=records), begin=window.begin, end=window.end)
            for window in (self._open.pop(start) for start in sorted(starts))
            for key, (wire_bytes, records) in sorted(window.sums.items())
        ]
