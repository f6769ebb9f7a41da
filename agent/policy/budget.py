"""The rebalance budget: a token bucket for bursts, and a cap for any hour."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from samerack.agent.policy.reasons import Reason
from samerack.settings.policy import PolicyRules

HOUR_SECONDS: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """`tokens` at time `at` (seconds, monotonic), and `spent`, the times of the last hour's rebalances."""

    tokens: float
    at: float
    spent: tuple[float, ...] = ()


def full(rules: PolicyRules, now: float) -> Budget:
    """Return the budget at the start."""
    return Budget(tokens=float(rules.burst), at=now)


def remembering(budget: Budget, times: Iterable[float]) -> Budget:
    """Add rebalances that were triggered before the start: they count for the hourly cap, not for the bucket."""
    return replace(budget, spent=tuple(sorted({*budget.spent, *times})))


def refilled(budget: Budget, now: float, rules: PolicyRules) -> Budget:
    """Return the budget as it is now."""
    at = max(budget.at, now)
    return Budget(
        tokens=min(float(rules.burst), budget.tokens + (at - budget.at) / rules.refill_seconds),
        at=at,
        spent=tuple(time for time in budget.spent if time > at - HOUR_SECONDS),
    )


def refusal(budget: Budget, rules: PolicyRules) -> tuple[Reason, float] | None:
    """Return why a refilled budget does not allow a rebalance, and until when; None if it does."""
    if len(budget.spent) >= rules.max_per_hour:
        return Reason.HOURLY_CAP, budget.spent[-rules.max_per_hour] + HOUR_SECONDS
    if budget.tokens < 1:
        return Reason.OUT_OF_BUDGET, budget.at + (1 - budget.tokens) * rules.refill_seconds
    return None


def spent(budget: Budget) -> Budget:
    """Return the budget after a rebalance."""
    return replace(budget, tokens=budget.tokens - 1, spent=(*budget.spent, budget.at))
