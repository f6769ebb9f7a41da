"""Formats events as text: the same for the command line and the web page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from samerack.common import words
from samerack.events.event import Cause, Event

CAUSES: Final[Mapping[Cause, str]] = {
    "": "",
    "agent": "the agent",
    "member-joined": "a member joined",
    "member-left": "a member left",
    "session-expired": "a member's session ran out",
    "member-gone": "a member left or died",
    "subscription-changed": "a member changed its topics",
    "partitions-changed": "partitions changed",
    "second-round": "what moves has been given up",
    "leader": "the group's leader, or a member's metadata",
    "unknown": "not known",
}
_DECISIONS: Final[Mapping[str, str]] = {
    "rebalance": "asks to rebalance",
    "suppress": "not followed",
    "propose": "would rebalance",
    "leave": "asked to leave",
    "pause": "asked to pause",
    "resume": "asked to resume",
}
_NAMED: Final = 3


def happened(event: Event) -> str:
    """Return what happened, in a few words."""
    if event.kind == "rebalance":
        number = f" {event.generation}" if event.generation is not None else ""
        return f"rebalance{number}"
    if event.kind == "plan":
        return "plan sent"
    if event.kind == "decision":
        return _DECISIONS.get(event.action, event.action)
    return f"{event.kind}: {event.action}" if event.action else event.kind


def reason(event: Event) -> str:
    """Return why, and with what outcome."""
    parts = []
    if event.kind == "rebalance":
        parts.append(cause(event))
        if event.moved is not None and event.partitions is not None:
            parts.append(f"{event.moved} of {event.partitions} partitions moved")
        if event.members is not None:
            parts.append(f"{event.members} member{'' if event.members == 1 else 's'}")
        if event.missed:
            parts.append(f"{event.missed} more before it that were not seen")
    elif event.kind == "plan":
        parts += [event.action, event.failure]
    else:
        parts += [event.reason, event.failure]
    parts.append(event.detail)
    return "; ".join(filter(None, parts))


def duration(seconds: float | None) -> str:
    """Format a length of time, in milliseconds where it is short."""
    if seconds is None:
        return words.UNKNOWN
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 90 else words.span(seconds)


def figures(event: Event) -> str:
    """Return duration, pause and cost in one line, as far as they are known."""
    parts = [
        f"{name} {duration(seconds)}"
        for name, seconds in (("took", event.seconds), ("pause", event.pause_seconds))
        if seconds is not None
    ]
    if event.share_before is not None or event.share_after is not None:
        parts.append(f"across racks {words.percent(event.share_before)} > {words.percent(event.share_after)}")
    if event.dollars_per_day_before is not None or event.dollars_per_day_after is not None:
        costs = f"{words.money(event.dollars_per_day_before)} to {words.money(event.dollars_per_day_after)}"
        parts.append(f"from {costs} a day")
    return ", ".join(parts)


def cause(event: Event) -> str:
    """Return what caused a rebalance, the agent's reason, and who came and went."""
    text = CAUSES.get(event.cause, event.cause)
    if event.reason:
        text += f" ({event.reason})"
    for mark, names in (("+", event.joined), ("-", event.left)):
        if names:
            text += f" {mark}{words.listed(names, _NAMED)}"
    return text
