"""One event of a group or of the agent, as a value and in words; HTTP, file and command line share its JSON.

Fields may be added; a reader ignores those that it does not know.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from pydantic import TypeAdapter

from samerack.common import words
from samerack.common.records import JsonAnswer

MAX_ASKED: Final = 10_000
"""The most events in one answer."""

Kind: TypeAlias = Literal[
    "rebalance", "decision", "plan", "role", "back-off", "takeover", "worker", "breaker", "streams-plan"
]
"""rebalance: the group had one, whatever caused it. decision: the policy followed a trigger or suppressed it. plan: one
was sent to the group. role: the agent's role in the group from now on. back-off: the agent backs off from the group, or
is fenced. takeover: a step of it. worker: the worker process was replaced. breaker: rebalances were stopped, or are
allowed again. streams-plan: a Kafka Streams application asked for a plan, and got or used it, or did not."""

Cause: TypeAlias = Literal[
    "",
    "agent",
    "member-joined",
    "member-left",
    "session-expired",
    "member-gone",
    "subscription-changed",
    "partitions-changed",
    "second-round",
    "leader",
    "unknown",
]
"""The cause of a rebalance; "" for other events. member-gone: a member left or died. second-round: cooperative members
have revoked what moves, and receive it now. leader: nothing about the group changed, so its leader (not the agent), or
a member whose metadata changed, requested it."""


def new_id() -> str:
    """Return a unique id."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event; a field is None where it is not known or does not apply.

    Attributes:
        id: globally unique.
        at: when, in seconds since 1970; of a rebalance, when it was over.
        group: its group; "" where it concerns the agent.
        kind: the kind of event.
        action: what was done: rebalance, suppress or propose; of a plan, whose it is; of a role, the new one.
        reason: why, as in the metrics or in a few words.
        cause: of a rebalance, its cause.
        generation: the group's, where the agent is a member.
        missed: rebalances not seen since the one recorded before.
        seconds: how long the rebalance took.
        pause_seconds: the longest time that a partition had no owner in it, as far as was seen; of a decision, the one
            that is expected.
        members: how many the group has after it, without the agent.
        joined: client ids of those that were not in it before.
        left: client ids of those that are no longer in it.
        partitions: how many are assigned after it.
        moved: how many of them have another owner than before.
        share_before: cross-rack share of the assignment that was in force.
        share_after: of the one that is now, or of the plan.
        bytes_per_second: what the group read at that time, where it was measured: the shares refer to it.
        dollars_per_day_before: what crossed racks costs a day at that share and rate.
        dollars_per_day_after: the same after it.
        assignor: the plan's assignor, where the agent made it.
        failure: why the plan is not the preferred assignor's, or "".
        detail: further text.
    """

    id: str = field(default_factory=new_id)
    at: float
    group: str
    kind: Kind
    action: str = ""
    reason: str = ""
    cause: Cause = ""
    generation: int | None = None
    missed: int = 0
    seconds: float | None = None
    pause_seconds: float | None = None
    members: int | None = None
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    partitions: int | None = None
    moved: int | None = None
    share_before: float | None = None
    share_after: float | None = None
    bytes_per_second: float | None = None
    dollars_per_day_before: float | None = None
    dollars_per_day_after: float | None = None
    assignor: str = ""
    failure: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventList:
    """An answer of `GET /v1/events`, the newest first."""

    events: tuple[Event, ...]


_EVENT: Final = TypeAdapter(Event)
to_json, from_json = _EVENT.dump_json, _EVENT.validate_json
_RECORD: Final = TypeAdapter(dict[str, object])
EVENT_LIST: Final = JsonAnswer(EventList, "has no events")
"""What `GET /v1/events` answers and `samerack events --json` prints."""

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


def to_record(event: Event, **first: object) -> bytes:
    """Return the JSON of an event's record: `first`, the event's own id as `event`, and its other fields.

    `at` is in milliseconds since 1970.
    """
    values = _EVENT.dump_python(event, mode="json")
    own = {"event": values.pop("id"), **values, "at": int(event.at * 1000)}
    return _RECORD.dump_json(first | own)


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
    """Return what caused a rebalance, the agent's reason, and who came and went; ± where a client id did both."""
    text = CAUSES.get(event.cause, event.cause)
    if event.reason:
        text += f" ({event.reason})"
    joined, left = Counter(event.joined), Counter(event.left)
    for mark, names in (("±", joined & left), ("+", joined - left), ("-", left - joined)):
        if names:
            each = [name if times == 1 else f"{name} ({times})" for name, times in names.items()]
            text += f" {mark}{words.listed(each, _NAMED)}"
    return text
