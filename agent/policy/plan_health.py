"""Whether a group accepts the agent's plans, and whether the agent keeps its membership: a pure state machine.

Each plan and each lost membership gives a new state, which has a cause to back off once too many failed in a row. Time
is an argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from samerack.agent.policy.back_off_causes import (
    LOST_SECONDS,
    MAX_FAILED,
    MAX_LOST,
    MAX_REJECTED,
    SOON_SECONDS,
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
