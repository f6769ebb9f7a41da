"""What one group read in the last day, how much of it crossed racks, and when it rebalanced, for its page and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter

from samerack.events import Event, Kind
from samerack.events.history import HistoryPoint

MARKED: Final[tuple[Kind, ...]] = ("rebalance", "plan")
MIN_POINTS: Final = 12
"""So many points are shown at least, an hour of five minutes: the first of a new agent do not fill the time axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A rebalance, or a plan that was sent; `GET /v1/events` has what is known of it."""

    at: float
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHistory:
    """The points of one group without a gap between them, and the marks of the same time, both the oldest first."""

    group: str
    step_seconds: float
    points: tuple[HistoryPoint, ...]
    marks: tuple[Mark, ...]

    @property
    def begin(self) -> float:
        """When the first point begins."""
        return self.points[0].at

    @property
    def end(self) -> float:
        """When the last point ends."""
        return self.points[-1].at + self.step_seconds


def group_history(
    group: str, points: Sequence[HistoryPoint], events: Iterable[Event], *, step_seconds: float
) -> GroupHistory:
    """Return the history from the first known point on.

    `points` are MIN_POINTS at least, the oldest first; `events` are of the kinds that are marked.
    """
    known = next((place for place, point in enumerate(points) if point.bytes_per_second is not None), len(points))
    shown = points[min(known, len(points) - MIN_POINTS) :]
    begin, end = shown[0].at, shown[-1].at + step_seconds
    marks = [Mark(at=event.at, kind=event.kind) for event in events if begin <= event.at < end]
    return GroupHistory(
        group=group,
        step_seconds=step_seconds,
        points=tuple(shown),
        marks=tuple(sorted(marks, key=lambda mark: mark.at)),
    )


_JSON: Final = TypeAdapter(GroupHistory)


def to_json(history: GroupHistory) -> bytes:
    """Return it as JSON, for `GET /v1/history`."""
    return _JSON.dump_json(history)
