"""How far a takeover is and what it would bring, as values; their JSON is what HTTP and the command line share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from pydantic import TypeAdapter

from agent.answers import read


class Outcome(Enum):
    """How a takeover stands. ASKED and RUNNING go on; WOULD answers a dry run that nothing speaks against."""

    NONE = "none"
    ASKED = "asked"
    RUNNING = "running"
    LEADS = "leads"
    WOULD = "would"
    REFUSED = "refused"
    UNDONE = "undone"


UNDER_WAY: Final = frozenset({Outcome.ASKED, Outcome.RUNNING})
GOOD: Final = frozenset({Outcome.LEADS, Outcome.WOULD})


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What it is for, and what it costs; None where that is not known.

    Attributes:
        members: how many would pause: in an eager group everybody.
        cross_rack_now: partitions read across racks.
        cross_rack_then: the same under the agent's plan.
        share_now: what is read across racks, as a share of all that is read.
        share_then: the same under the agent's plan.
        saved_bytes_per_second: measured bytes that would stay in their rack.
        saved_dollars_per_day: the same in dollars.
        rejoin_seconds: how long the members took to rejoin in a rebalance that the agent began.
        held_seconds_at_most: how long the pending member may make them wait beyond that.
        pause_seconds_at_most: how long they pause in all, by these figures.
    """

    members: int
    cross_rack_now: int
    cross_rack_then: int
    share_now: float
    share_then: float
    saved_bytes_per_second: float | None
    saved_dollars_per_day: float | None
    rejoin_seconds: float | None
    held_seconds_at_most: float
    pause_seconds_at_most: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Did:
    """A step that is over, and how long it took."""

    step: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How one takeover stands.

    Attributes:
        group: whose.
        number: counts the takeovers and questions of one agent and group.
        outcome: how it stands.
        reason: why it was refused or undone.
        dry_run: whether it was only a question.
        step: what is being done; "" before and after.
        did: the steps that are over.
        seconds: how long all of it took so far.
        held_seconds: how long the pending member was held.
        gain: what it would bring, as soon as that is worked out.
    """

    group: str
    number: int = 0
    outcome: Outcome = Outcome.NONE
    reason: str = ""
    dry_run: bool = False
    step: str = ""
    did: tuple[Did, ...] = ()
    seconds: float = 0.0
    held_seconds: float = 0.0
    gain: Gain | None = None


_PROGRESS: Final = TypeAdapter(Progress)


def to_json(progress: Progress) -> bytes:
    """One takeover, as `POST /v1/takeover` and `samerack lead --json` tell it."""
    return _PROGRESS.dump_json(progress)


def from_json(text: bytes | str) -> Progress:
    """The takeover of such a text.

    Raises:
        AgentError: It is none.
    """
    return read(_PROGRESS, text, "tells of no takeover")
