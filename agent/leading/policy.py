"""When the agent rebalances a group: a pure state machine. Time is an argument; nothing here touches the network.

A trigger is worth acting on when the plan at hand would read a smaller share across racks than the present
assignment, by more than the least saving, and while the budget lasts. Changed partitions and the second round of a
cooperative rebalance are not a matter of cost: they are followed outside the budget, but for a group whose member gives
up nothing round after round.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from assignors.model import Cost


class Reason(Enum):
    """Why a rebalance is triggered, or was not."""

    PARTITIONS_CHANGED = "partitions-changed"
    SECOND_ROUND = "second-round"
    RACKS_CHANGED = "racks-changed"
    MEMBERS_RACKS_CHANGED = "member-racks-changed"
    TRAFFIC_CHANGED = "traffic-changed"
    BELOW_LEAST_SAVING = "below-least-saving"
    OUT_OF_BUDGET = "out-of-budget"
    NOTHING_TO_GAIN = "nothing-to-gain"


class Action(Enum):
    """What to do now."""

    REBALANCE = "rebalance"
    SUPPRESS = "suppress"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The policy's settings: least saving as a share of partitions, the bucket's size, seconds per new token."""

    least_saving: float
    burst: int
    refill_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A token bucket: `tokens` were there at time `at` (seconds, monotonic)."""

    tokens: float
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What is known of a led group in Stable.

    Attributes:
        present: Cost of the assignment in force, under the racks that count now.
        possible: Cost of the plan that a rebalance would bring.
        partitions_changed: Whether the assignment in force lacks partitions that exist, or has some that do not.
        withheld: Partitions that the last cooperative round kept back.
        rounds: Rounds in a row that kept something back.
        racks_changed: Whether racks, replicas or leaders changed since the assignment was made.
        traffic_changed: Whether the weights of partitions did.
    """

    present: Cost
    possible: Cost
    partitions_changed: bool
    withheld: int
    rounds: int
    racks_changed: bool
    traffic_changed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do, why, and the cross-rack share before and after."""

    action: Action
    reason: Reason
    before: float
    after: float


EXEMPT: Final = frozenset({Reason.PARTITIONS_CHANGED, Reason.SECOND_ROUND})
MOST_ROUNDS: Final = 5
"""A cooperative rebalance needs two rounds; a member that never gives up a partition must not cause them for ever."""
_TOLERANCE: Final = 1e-9
"""Shares are quotients of integers: a saving of exactly the least saving must not act because of rounding."""


def full(rules: Rules, now: float) -> Budget:
    """The budget at the start."""
    return Budget(tokens=float(rules.burst), at=now)


def share(cost: Cost) -> float:
    """The cross-rack share of a plan, by weight, between 0 and 1."""
    return cost.cross_rack_weight / cost.assigned_weight if cost.assigned_weight else 0.0


def decide(budget: Budget, situation: Situation, now: float, rules: Rules) -> tuple[Budget, Decision]:
    """One decision, and the budget that is left after it."""
    budget = _refill(budget, now, rules)
    before, after = share(situation.present), share(situation.possible)
    stuck = bool(situation.withheld) and situation.rounds > MOST_ROUNDS
    if situation.withheld and not stuck:
        return budget, Decision(action=Action.REBALANCE, reason=Reason.SECOND_ROUND, before=before, after=after)
    if situation.partitions_changed and (not stuck or budget.tokens >= 1):
        # what is withheld has no owner, which looks like a new partition: followed for ever, but for the budget
        left = replace(budget, tokens=budget.tokens - 1) if stuck else budget
        return left, Decision(action=Action.REBALANCE, reason=Reason.PARTITIONS_CHANGED, before=before, after=after)
    saving = before - after
    if saving <= _TOLERANCE:
        return budget, Decision(action=Action.NOTHING, reason=Reason.NOTHING_TO_GAIN, before=before, after=after)
    if saving <= rules.least_saving + _TOLERANCE:
        return budget, Decision(action=Action.SUPPRESS, reason=Reason.BELOW_LEAST_SAVING, before=before, after=after)
    if budget.tokens < 1:
        return budget, Decision(action=Action.SUPPRESS, reason=Reason.OUT_OF_BUDGET, before=before, after=after)
    reason = Reason.TRAFFIC_CHANGED if situation.traffic_changed else Reason.MEMBERS_RACKS_CHANGED
    reason = Reason.RACKS_CHANGED if situation.racks_changed else reason
    spent = replace(budget, tokens=budget.tokens - 1)
    return spent, Decision(action=Action.REBALANCE, reason=reason, before=before, after=after)


def _refill(budget: Budget, now: float, rules: Rules) -> Budget:
    at = max(budget.at, now)
    return Budget(tokens=min(float(rules.burst), budget.tokens + (at - budget.at) / rules.refill_seconds), at=at)
