"""One thing that happened to a group or to the agent, as a value; its JSON is what HTTP, file and command line share.

Fields may be added; a reader ignores those that it does not know.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from pydantic import TypeAdapter

from agent.answers import read

MOST_ASKED: Final = 10_000
"""So many events are told at a time, at most."""

Kind: TypeAlias = Literal["rebalance", "decision", "plan", "role", "back-off", "takeover", "worker", "breaker"]
"""rebalance: the group had one, whoever caused it. decision: the policy followed a trigger or would not. plan: one went
to the group. role: what the agent is to the group from now on. back-off: it leaves the group alone for a while, or is
fenced. takeover: a step of it. worker: the process that works was replaced. breaker: rebalances were stopped, or are
let again."""

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
"""Who or what a rebalance began with; "" for events that are none. member-gone: a member left or died. second-round:
cooperative members have given up what moves, and take it now. leader: nothing about the group changed, so its leader
(not the agent), or a member whose metadata did, asked for it."""


def new_id() -> str:
    """An id that no other event has."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened; None where it is not known or makes no sense.

    Attributes:
        id: unique for ever.
        at: when, in seconds since 1970; of a rebalance, when it was over.
        group: whose; "" where it concerns the agent.
        kind: what sort of thing.
        action: what was done: rebalance, suppress or propose; of a plan, whose it is; of a role, the new one.
        reason: why, in one word as in the metrics or in a few.
        cause: of a rebalance, who or what it began with.
        generation: the group's, where the agent is a member.
        missed: rebalances since the one told before that nobody saw.
        seconds: how long the rebalance took.
        pause_seconds: the longest time that a partition had no owner in it, as far as was seen.
        members: how many the group has after it, without the agent.
        joined: client ids of those that were not in it before.
        left: client ids of those that are no more.
        partitions: how many are assigned after it.
        moved: how many of them have another owner than before.
        share_before: cross-rack share of the assignment that was in force.
        share_after: of the one that is, or of the plan.
        bytes_per_second: what the group read at that time, where it was measured: what the shares are of.
        dollars_per_day_before: what crossed racks costs a day at that share and rate.
        dollars_per_day_after: the same after it.
        assignor: whose plan it was, where the agent made it.
        failure: why the plan is not the preferred assignor's, or "".
        detail: more, for people.
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
_LIST: Final = TypeAdapter(EventList)


def to_json(event: Event) -> bytes:
    """One event."""
    return _EVENT.dump_json(event)


def from_json(text: bytes | str) -> Event:
    """The event of such a text.

    Raises:
        ValueError: It is none.
    """
    return _EVENT.validate_json(text)


def all_to_json(events: Iterable[Event]) -> bytes:
    """Events as `GET /v1/events` answers them and `samerack events --json` prints them."""
    return _LIST.dump_json(EventList(events=tuple(events)))


def all_from_json(text: bytes | str) -> tuple[Event, ...]:
    """The events of such a text.

    Raises:
        AgentError: It has none.
    """
    return read(_LIST, text, "tells no events").events
