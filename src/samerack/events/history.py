"""Remembers what each group read in the last day and how much of it crossed racks: one point for every five minutes.

A point is the mean of what the snapshots of its time show. What was not measured is unknown: a gap, and not 0. A group
costs 2.7 kB of memory, and 3 kB in the events' file, until it was not measured for a day.
"""

from __future__ import annotations

import json
import math
import threading
import time
import zlib
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from samerack.traffic.board import Published

POINTS: Final = 288
"""Points of each group: a day of five minutes."""
STEP_SECONDS: Final = 300.0
MAX_GROUPS: Final = 5_000
_UNKNOWN: Final = array("f", [math.nan])


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Wire bytes per second, and the share of them across racks; None where it is not known."""

    bytes_per_second: float
    share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPoint:
    """The figures of one group from `at` (seconds since 1970) on, for one step; None where they are not known."""

    at: float
    bytes_per_second: float | None
    cross_rack_share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """All groups that were measured from `at` (seconds since 1970) on, for one step."""

    at: float
    groups: Mapping[str, Figures]

    def to_bytes(self) -> bytes:
        """Encode the groups, with four digits of each figure."""
        short = {name: (_short(one.bytes_per_second), _short(one.share)) for name, one in self.groups.items()}
        return zlib.compress(json.dumps(short, separators=(",", ":")).encode())

    @classmethod
    def from_bytes(cls, at: float, body: bytes) -> Self:
        """Decode the groups.

        Raises:
            ValueError: The bytes are no such groups.
        """
        try:
            short = json.loads(zlib.decompress(body))
            groups = {
                str(name): Figures(bytes_per_second=float(rate), share=None if share is None else float(share))
                for name, (rate, share) in short.items()
            }
        except (zlib.error, AttributeError, TypeError) as error:
            raise ValueError(f"no groups of a history: {error}") from None
        return cls(at=at, groups=groups)


@dataclass(kw_only=True, eq=False, repr=False)
class TrafficHistory:
    """The points of all groups; a listener of the traffic board writes them, and any thread reads them.

    Of more than `max_groups` those that were measured longest ago are forgotten. `clock` is in seconds since 1970.
    """

    step_seconds: float = STEP_SECONDS
    max_groups: int = MAX_GROUPS
    clock: Callable[[], float] = time.time
    _series: dict[str, _Series] = field(default_factory=dict, init=False)
    _step: int = field(default=-1, init=False)
    _sums: dict[str, _Sum] = field(default_factory=dict, init=False)
    _listeners: list[Callable[[HistoryRow], None]] = field(default_factory=list, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    @property
    def span_seconds(self) -> float:
        """The time of all points."""
        return self.step_seconds * POINTS

    def listen(self, listener: Callable[[HistoryRow], None]) -> None:
        """Call `listener` (quick, from the thread that measures) with the points of each step that is over."""
        self._listeners.append(listener)

    def take(self, published: Published) -> None:
        """Add what was measured; the first snapshot of a new step ends the one before."""
        snapshot = published.snapshot
        step = self._step_of(snapshot.window_end)
        ended = None
        with self._lock:
            if step != self._step:
                ended = self._end_step() if self._sums else None
                self._step = step
            for group in snapshot.groups:
                if group.bytes_per_second is not None:
                    self._sums.setdefault(group.group, _Sum()).add(group.bytes_per_second, group.shares.present_bytes)
        if ended is not None:
            for listener in self._listeners:
                listener(ended)

    def remember(self, rows: Iterable[HistoryRow]) -> None:
        """Add points of former runs, as far as they are of the time that is shown."""
        now = self._step_of(self.clock())
        for row in rows:
            if now - POINTS < (step := self._step_of(row.at)) <= now:
                with self._lock:
                    self._put(step, row.groups)

    def points(self, group: str) -> tuple[HistoryPoint, ...]:
        """Return the points of one group, the oldest first; the last is that of the present step, as far as it is."""
        now = self._step_of(self.clock())
        with self._lock:
            series, present = self._series.get(group), self._sums.get(group)
            known = {step: series.get(step) if series else None for step in range(now - POINTS + 1, now + 1)}
            if present is not None and self._step in known:
                known[self._step] = present.mean()
        return tuple(
            HistoryPoint(
                at=step * self.step_seconds,
                bytes_per_second=figures.bytes_per_second if figures is not None else None,
                cross_rack_share=figures.share if figures is not None else None,
            )
            for step, figures in known.items()
        )

    def _step_of(self, at: float) -> int:
        return int(at // self.step_seconds)

    def _end_step(self) -> HistoryRow:
        row = HistoryRow(
            at=self._step * self.step_seconds, groups={name: one.mean() for name, one in self._sums.items()}
        )
        self._put(self._step, row.groups)
        self._sums.clear()
        return row

    def _put(self, step: int, groups: Mapping[str, Figures]) -> None:
        for name, figures in groups.items():
            series = self._series.get(name)
            if series is None:
                series = self._series[name] = _Series(step)
            series.put(step, figures)
        shown = [entry for entry in self._series.items() if entry[1].newest > step - POINTS]
        if len(shown) > self.max_groups:
            shown = sorted(shown, key=lambda entry: -entry[1].newest)[: self.max_groups]
        if len(shown) < len(self._series):
            self._series = dict(shown)


@dataclass(slots=True)
class _Sum:
    """What the snapshots of one step show of one group."""

    _count: int = 0
    _read: float = 0.0
    _known: float = 0.0
    _crossing: float = 0.0

    def add(self, rate: float, share: float | None) -> None:
        """Add one snapshot."""
        self._count += 1
        self._read += rate
        if share is not None:
            self._known += rate
            self._crossing += rate * share

    def mean(self) -> Figures:
        """Return the mean rate, and the share of all bytes for which it is known."""
        return Figures(
            bytes_per_second=self._read / self._count, share=self._crossing / self._known if self._known else None
        )


class _Series:
    """The points of one group, each at the place that is its step modulo POINTS."""

    __slots__ = ("_rates", "_shares", "newest")

    def __init__(self, newest: int) -> None:
        self.newest = newest
        """The last step with a point; earlier ones are in the places up to it."""
        self._rates = _UNKNOWN * POINTS
        self._shares = _UNKNOWN * POINTS

    def put(self, step: int, figures: Figures) -> None:
        """Set a point. Steps that are skipped are unknown; a step of another day, after the clock was set, is new."""
        if not self.newest - POINTS < step < self.newest + POINTS:
            self._rates, self._shares, self.newest = _UNKNOWN * POINTS, _UNKNOWN * POINTS, step
        for skipped in range(self.newest + 1, step):
            self._rates[skipped % POINTS] = math.nan
        self.newest = max(self.newest, step)
        self._rates[step % POINTS] = figures.bytes_per_second
        self._shares[step % POINTS] = math.nan if figures.share is None else figures.share

    def get(self, step: int) -> Figures | None:
        """Return a point."""
        if not self.newest - POINTS < step <= self.newest or math.isnan(rate := self._rates[step % POINTS]):
            return None
        share = self._shares[step % POINTS]
        return Figures(bytes_per_second=rate, share=None if math.isnan(share) else share)


def _short(figure: float | None) -> float | None:
    return None if figure is None else float(f"{figure:.4g}")
