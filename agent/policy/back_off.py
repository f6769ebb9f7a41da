"""Whether the agent backs off from a group, for how long, and when it returns, as pure state machines.

One has how the agent's plans and memberships succeed: too many failures in a row are a cause to back off. The other has
the pauses for each cause; outside the group the agent continues to poll it. `BackOff` keeps both for one group, and
`agent.policy.back_off_causes` has the rules. Time is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from samerack.agent.policy.back_off_causes import (
    LOST_SECONDS,
    MAX_FAILED,
    MAX_LOST,
    MAX_REJECTED,
    RULES,
    SOON_SECONDS,
    BackOffError,
    Cause,
)

REFRESH_SECONDS: Final = 600.0
"""Within twice the clients' default `metadata.max.age.ms` every member has seen a change of the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """One plan that went to the group.

    Attributes:
        at: when, in seconds.
        subscriptions: topics by key of the members that it was for. Members with a pattern rejoin once each when a
            topic appears, each after its own metadata refresh: that is no rejection of the plan.
        failed: it is a plan of the fall-back.
        withheld: partitions were withheld for the next round.
        asked: the agent itself had asked for the rebalance.
        changed: partitions or replicas of its topics differ from the plan before. Each librdkafka member rejoins once
            for that too, after its own metadata refresh, with an unchanged subscription.
    """

    at: float
    subscriptions: Mapping[str, frozenset[str]]
    failed: bool = False
    withheld: bool = False
    asked: bool = False
    changed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanHealth:
    """How the plans and memberships of one group succeed.

    Attributes:
        failed: plans in a row that were the fall-back's.
        rejected: plans in a row after each of which the group rebalanced soon.
        expected: rebalances that members may still start because partitions or replicas have changed.
        expected_until: until when they are expected.
        last: the last plan.
        lost: when memberships were lost.
    """

    failed: int = 0
    rejected: int = 0
    expected: int = 0
    expected_until: float = 0.0
    last: PlanRecord | None = None
    lost: tuple[float, ...] = ()

    @property
    def cause(self) -> Cause | None:
        """The cause to back off, or None."""
        if self.failed >= MAX_FAILED:
            return Cause.PLANS_FAILED
        if self.rejected >= MAX_REJECTED:
            return Cause.PLANS_REJECTED
        return Cause.EVICTED if len(self.lost) >= MAX_LOST else None


def planned(health: PlanHealth, sent: PlanRecord) -> PlanHealth:
    """Return the health after a plan."""
    last = health.last
    rejected = (
        last is not None
        and not last.withheld
        and not sent.asked
        and sent.subscriptions == last.subscriptions
        and sent.at - last.at < SOON_SECONDS
    )
    expected, until = health.expected, health.expected_until
    if sent.changed:
        expected, until = len(sent.subscriptions), sent.at + REFRESH_SECONDS
    if rejected and expected and sent.at < until:
        rejected, expected = False, expected - 1
    return replace(
        health,
        failed=health.failed + 1 if sent.failed else 0,
        rejected=health.rejected + 1 if rejected else 0,
        expected=expected,
        expected_until=until,
        last=sent,
    )


def lost(health: PlanHealth, now: float) -> PlanHealth:
    """Return the health after the membership was lost although the agent did not leave."""
    return replace(health, lost=(*(one for one in health.lost if now - one < LOST_SECONDS), now))


RESET_SECONDS: Final = 600.0
"""After this time since the last pause, or the length of that pause if longer, pauses have the first length again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """The last pause for one cause."""

    seconds: float
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BackOffState:
    """The state of one group: the last pause for each cause, and the last cause."""

    pauses: Mapping[Cause, Pause] = field(default_factory=dict)
    last: Cause | None = None

    def is_out(self, now: float) -> bool:
        """Return whether a pause is in effect."""
        return any(now < pause.until for pause in self.pauses.values())

    def seconds(self, cause: Cause) -> float:
        """Return the length of the last pause for a cause."""
        pause = self.pauses.get(cause)
        return pause.seconds if pause is not None else 0.0


def backed_off(state: BackOffState, cause: Cause, now: float) -> BackOffState:
    """Return the state after a cause has occurred, for the first time or again."""
    rule, last = RULES[cause], state.pauses.get(cause)
    again = last is not None and now - last.until < max(RESET_SECONDS, last.seconds)
    seconds = min(rule.max_seconds, 2 * last.seconds) if last is not None and again else rule.first_seconds
    return BackOffState(pauses={**state.pauses, cause: Pause(seconds=seconds, until=now + seconds)}, last=cause)


class BackOff:
    """Back-offs and plan health of one group for as long as the agent runs."""

    def __init__(self, clock: Callable[[], float], *, requested: Callable[[], str] = lambda: "") -> None:
        """Start without pauses and failures.

        Args:
            clock: Seconds, monotonic.
            requested: Why an operator wants the agent out of the group; empty while nobody does.
        """
        self._clock = clock
        self._requested = requested
        self._state = BackOffState()
        self._health = PlanHealth()
        self._reason = ""

    @property
    def is_out(self) -> bool:
        """Whether a pause is in effect, or an operator wants the agent out."""
        return bool(self._requested()) or self._state.is_out(self._clock())

    @property
    def requested(self) -> str:
        """Why an operator wants the agent out; empty while nobody does."""
        return self._requested()

    @property
    def reason(self) -> str:
        """Why the agent is out, or was last."""
        return self._requested() or self._reason

    @property
    def last(self) -> Cause | None:
        """The cause of the last back-off: after its pause too the agent stays out while some causes last."""
        return self._state.last

    def start(self, cause: Cause, reason: str) -> float:
        """Start a pause for this cause; return its length in seconds."""
        self._state = backed_off(self._state, cause, self._clock())
        self._health = replace(self._health, failed=0, rejected=0, expected=0, last=None, lost=self._health.lost[1:])
        self._reason = reason
        return self._state.seconds(cause)

    def planned(self, sent: PlanRecord) -> None:
        """Record a plan that was sent to the group.

        Raises:
            BackOffError: Too many plans in a row failed or were rejected.
        """
        self._update_health(planned(self._health, sent))

    def lost(self) -> None:
        """Record that the membership was lost although the agent did not leave.

        Raises:
            BackOffError: That happened too often.
        """
        self._update_health(lost(self._health, self._clock()))

    def _update_health(self, health: PlanHealth) -> None:
        self._health = health
        if health.cause is not None:
            raise BackOffError(health.cause)
