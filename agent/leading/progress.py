"""The progress of a takeover and what it would gain, as values; HTTP and the command line use them as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from samerack.common.records import JsonAnswer


class TakeoverOutcome(Enum):
    """The state of a takeover. ASKED and RUNNING are not final; WOULD is the result of a successful dry run."""

    NONE = "none"
    ASKED = "asked"
    RUNNING = "running"
    LEADS = "leads"
    WOULD = "would"
    REFUSED = "refused"
    UNDONE = "undone"


UNDER_WAY: Final = frozenset({TakeoverOutcome.ASKED, TakeoverOutcome.RUNNING})
PATH: Final = "/v1/takeover"
"""Where the agent is asked for a takeover and its progress."""
GOOD: Final = frozenset({TakeoverOutcome.LEADS, TakeoverOutcome.WOULD})


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What a takeover gains and costs; None if that is not known.

    Attributes:
        members: how many would pause: in an eager group all of them.
        cross_rack_now: partitions read across racks.
        cross_rack_then: the same under the agent's plan.
        share_now: what is read across racks, as a share of all that is read.
        share_then: the same under the agent's plan.
        saved_bytes_per_second: measured bytes that would stay in their rack.
        saved_dollars_per_day: the same in dollars.
        rejoin_seconds: the longest time that the members took to rejoin in recent rebalances.
        held_seconds_at_most: how long the pending member may make them wait in addition.
        pause_seconds_at_most: how long they pause in total, by these figures.
        moved: partitions that get another owner.
        rebalances: how many there are if every evicted member is back in time; a late one begins another.
    """

    members: int
    cross_rack_now: int | None
    cross_rack_then: int | None
    share_now: float | None
    share_then: float | None
    saved_bytes_per_second: float | None
    saved_dollars_per_day: float | None
    rejoin_seconds: float | None
    held_seconds_at_most: float
    pause_seconds_at_most: float | None
    moved: int | None = None
    rebalances: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Did:
    """A finished step, and how long it took."""

    step: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of one takeover.

    Attributes:
        number: counts the takeovers and dry runs of one agent and group.
        reason: why it was refused or undone.
        dry_run: whether only the gain was requested.
        step: the present step; "" before and after.
        did: the finished steps.
        seconds: how long it has taken so far.
        held_seconds: how long the pending member held the group.
        rebalances: how many there were.
        late: evicted members that were not back when the agent came to lead.
        late_seconds: how long the last of them was outside.
        outside: those that were not back at the end.
        gain: what it would gain; None before that is computed.
    """

    group: str
    number: int = 0
    outcome: TakeoverOutcome = TakeoverOutcome.NONE
    reason: str = ""
    dry_run: bool = False
    step: str = ""
    did: tuple[Did, ...] = ()
    seconds: float = 0.0
    held_seconds: float = 0.0
    rebalances: int = 0
    late: int = 0
    late_seconds: float = 0.0
    outside: int = 0
    gain: Gain | None = None


_JSON: Final = JsonAnswer(Progress, "reports no takeover")
to_json, from_json = _JSON.to_json, _JSON.from_json
"""The JSON of `POST /v1/takeover` and `samerack lead --json`."""
