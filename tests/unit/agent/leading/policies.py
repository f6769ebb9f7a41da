"""Helpers that build conditions of a group, and a group with a series of decisions, without rules of their own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from samerack.agent.policy import (
    ByteRates,
    Changes,
    CrossRackShare,
    Decision,
    GroupCondition,
    PolicyState,
    decide,
    fresh,
)
from samerack.assignors.problem import Cost
from samerack.settings.policy import PolicyRules, WindowSettings

RULES = PolicyRules(max_per_hour=100, max_pause_seconds=0.0)
MIDNIGHT = 1_800_057_600.0  # 2027-01-16 00:00 UTC
RACKS_CHANGED = Changes(topics=("orders",))
NIGHT = WindowSettings(cron="0 2 * * *", minutes=120)


def ruled(**changes: object) -> PolicyRules:
    """These rules with other values, which need not be possible as settings."""
    return RULES.model_copy(update=changes)


def cost(cross_rack: int, assigned: int = 100) -> Cost:
    """A plan that reads this many of its partitions across racks."""
    return Cost(
        imbalance=0,
        sum_of_squares=0,
        cross_rack=cross_rack,
        cross_rack_weight=cross_rack,
        moved=0,
        unassigned=0,
        assigned_weight=assigned,
        known=assigned,
        known_cross_rack=cross_rack,
        known_weight=assigned,
        known_cross_rack_weight=cross_rack,
    )


def condition(
    present: int = 0,
    possible: int = 0,
    *,
    partitions_changed: bool = False,
    withheld: int = 0,
    rounds: int = 0,
    changes: Changes | None = RACKS_CHANGED,
    rates: tuple[float, float] | None = None,
    error: float = 0.0,
    crossing: tuple[float, float] | None = None,
    generation: int = 0,
    conditions: int = 0,
    pause_seconds: float | None = None,
    owns_deleted: bool = False,
    uneven: tuple[float, float] | None = None,
) -> GroupCondition:
    """A led group of 100 partitions that reads 1,000 bytes per second: `rates` are those across racks, now and then.

    `error` is the standard error of what is between them.
    """
    return GroupCondition(
        present=cost(present),
        possible=cost(possible),
        partitions_changed=partitions_changed,
        withheld=withheld,
        rounds=rounds,
        changes=changes,
        rates=ByteRates(whole=1000.0, present=rates[0], possible=rates[1], error=error) if rates is not None else None,
        crossing=CrossRackShare(share=crossing[0], at=crossing[1]) if crossing is not None else None,
        generation=generation,
        conditions=conditions,
        pause_seconds=pause_seconds,
        owns_deleted=owns_deleted,
        uneven=uneven,
        tolerance=0.1,
    )


@dataclass(slots=True, kw_only=True)
class Decisions:
    """A series of decisions; the wall clock was at `wall` when the monotonic one was 0."""

    rules: PolicyRules = RULES
    wall: float = MIDNIGHT
    now: float = 0.0
    state: PolicyState = field(init=False)

    def __post_init__(self) -> None:
        self.state = fresh(self.rules, self.now)

    def decide(self, case: GroupCondition, *, after: float = 0.0) -> Decision:
        """The decision this many seconds after the last one."""
        self.now += after
        self.state, decision = decide(self.state, case, self.now, self.wall + self.now, self.rules)
        return decision

    def spend(self, tokens: float) -> None:
        """Take tokens out of the bucket."""
        budget = self.state.budget
        self.state = replace(self.state, budget=replace(budget, tokens=budget.tokens - tokens))
