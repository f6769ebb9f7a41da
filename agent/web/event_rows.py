"""Rows of the page's list of events: what belongs to one rebalance or one takeover is one row, which unfolds.

Pure: from events to rows. An event belongs to the open row of its group if it began soon after the last event there. A
row is over with its rebalance; then it takes only what the same generation or the same takeover brings later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from samerack.agent.group_status import INSIDE
from samerack.common import words
from samerack.events.event import Event, cause, duration, figures, happened, reason

_NEAR_SECONDS: Final = 10.0
"""What begins later than this after the last event of a row, or after the end of its takeover, has another cause."""
_ENDS: Final = {"leads": "took over the lead", "undone": "takeover undone"}
"""The actions that end a takeover, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One row: a single event, or all that belongs to one rebalance or takeover.

    Attributes:
        events: the oldest first.
        mark: the kind of its most important event, by which it is marked.
        what: what happened, in a few words.
        figures: what crossed racks before and after, what moved, and how long it paused, as far as known.
    """

    events: tuple[Event, ...]
    mark: str
    what: str
    why: str
    figures: str

    @property
    def parts(self) -> tuple[EventRow, ...]:
        """Each of its events as a row of its own."""
        return tuple(_row((event,)) for event in self.events)

    @property
    def at(self) -> float:
        """When it was over, in seconds since 1970."""
        return self.events[-1].at

    @property
    def group(self) -> str:
        """Its group; "" where it concerns the agent."""
        return self.events[-1].group


@dataclass(slots=True)
class _Open:
    """A row to which other events may belong."""

    events: list[Event] = field(default_factory=list)

    def takes(self, event: Event) -> bool:
        """Return whether an event that is not older than those in it belongs to it."""
        began = event.at - (event.seconds or 0.0)
        if began - self.events[-1].at > _NEAR_SECONDS:
            return False
        if event.kind == "role":
            return event.action in INSIDE
        if event.kind == "takeover":
            return event.action != "refused" and (event.action != "begin" or not self._is_over())
        if event.kind not in ("plan", "rebalance"):
            return False
        steps = [one for one in self.events if one.kind == "takeover"]
        if steps:
            return steps[-1].action not in _ENDS or began - steps[-1].at <= _NEAR_SECONDS
        same = event.generation is not None and any(one.generation == event.generation for one in self.events)
        return same or event.cause == "second-round" or not self._is_over()

    def _is_over(self) -> bool:
        return bool(_outcomes(self.events))


def event_rows(events: Sequence[Event]) -> tuple[EventRow, ...]:
    """Return the rows of events of any groups; both have the newest first."""
    rows: list[_Open] = []
    last: dict[str, _Open] = {}
    for event in reversed(events):
        row = last.get(event.group)
        if row is None or not row.takes(event):
            row = _Open()
            rows.append(row)
            if _may_begin(event):
                last[event.group] = row
        row.events.append(event)
    return tuple(sorted((_row(tuple(one.events)) for one in rows), key=lambda row: row.at, reverse=True))


def _may_begin(event: Event) -> bool:
    """Return whether other events may belong to it: nothing follows what was refused or suppressed."""
    if event.kind == "decision":
        return event.action == "rebalance"
    return event.kind in ("plan", "rebalance") or (event.kind == "takeover" and event.action != "refused")


def _outcomes(events: Iterable[Event]) -> list[Event]:
    """Return the rebalances after which members had partitions; others were overtaken by the next one."""
    return [event for event in events if event.kind == "rebalance" and event.members is not None]


def _row(events: tuple[Event, ...]) -> EventRow:
    if len(events) == 1:
        (event,) = events
        mark = event.action if event.kind == "decision" else event.kind
        return EventRow(events=events, mark=mark, what=happened(event), why=reason(event), figures=figures(event))
    return EventRow(
        events=events,
        mark="rebalance",
        what=_what(events),
        why=_why(events),
        figures=", ".join(filter(None, (_across(events), _moved(events), _pause(events)))),
    )


def _what(events: tuple[Event, ...]) -> str:
    steps = [event for event in events if event.kind == "takeover"]
    if steps:
        return _ENDS.get(steps[-1].action, "takes over the lead")
    return happened(max(events, key=lambda event: (event.kind == "rebalance", event.kind == "plan", event.at)))


def _why(events: tuple[Event, ...]) -> str:
    for kind in ("takeover", "rebalance", "decision"):
        given = [event for event in events if event.kind == kind]
        if kind == "rebalance":
            texts = [cause(one) for one in given if one.cause != "second-round"]
        else:
            texts = [one.reason for one in reversed(given) if one.reason]
        if texts:
            return texts[0]
    return ""


def _across(events: tuple[Event, ...]) -> str:
    """Return the shares before and after: of what happened, else of the plan, else what was expected."""
    kinds = ("rebalance", "plan", "decision")
    known = [event for kind in kinds for event in events if event.kind == kind and event.share_before is not None]
    before = known[0].share_before if known else None
    known = [
        event for kind in kinds for event in reversed(events) if event.kind == kind and event.share_after is not None
    ]
    after = known[0].share_after if known else None
    return "" if before is after is None else f"across racks {words.percent(before)} > {words.percent(after)}"


def _moved(events: tuple[Event, ...]) -> str:
    outcomes = _outcomes(events)
    moved = [outcome.moved for outcome in outcomes if outcome.moved is not None]
    if not outcomes or len(moved) < len(outcomes):
        return ""
    each = " and ".join(str(number) for number in moved if number) or "0"  # twice may be the same partition
    return f"{each} of {outcomes[-1].partitions} partitions moved"


def _pause(events: tuple[Event, ...]) -> str:
    outcomes = _outcomes(events)
    pauses = [outcome.pause_seconds for outcome in outcomes if outcome.pause_seconds is not None]
    return "" if not outcomes or len(pauses) < len(outcomes) else f"pause {duration(max(pauses))}"
