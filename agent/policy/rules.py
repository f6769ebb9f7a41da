"""The policy's rules, as the settings give them, and its decisions: values without behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from samerack.agent.policy.condition import Changes
from samerack.agent.policy.reasons import Reason
from samerack.settings.policy import PolicyRules, WindowSettings

SECONDS_PER_DAY: Final = 86_400.0


class Action(Enum):
    """What to do now."""

    REBALANCE = "rebalance"
    PROPOSE = "propose"
    SUPPRESS = "suppress"
    NOTHING = "nothing"


TOLERANCE: Final = 1e-9
"""Shares are quotients of integers: rounding must not make a saving of exactly the minimum saving cause a rebalance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """One group's rules: those of its settings, with the minimum savings in bytes and in dollars merged into bytes.

    Attributes:
        proposes: Whether rebalances for racks and traffic are proposed instead of triggered.
        min_saving: As a share of partitions, by weight.
        min_bytes_per_second: 0 if no saving in bytes is required.
        unmeasured_seconds: How long to wait for bytes to be measured.
        max_pause_seconds: Longest pause that a rebalance may be expected to cost; 0: any.
        burst: The size of the token bucket.
        refill_seconds: Seconds per new token.
        max_per_hour: Most rebalances within any hour.
        windows: When rebalances may be triggered; none: always.
        breaker_failures: Failures in a row that open the breaker.
        breaker_seconds: How long it stays open.
    """

    min_saving: float
    burst: int
    refill_seconds: float
    max_per_hour: int
    proposes: bool = False
    min_bytes_per_second: float = 0.0
    unmeasured_seconds: float = 0.0
    max_pause_seconds: float = 0.0
    windows: tuple[WindowSettings, ...] = ()
    breaker_failures: int = 2
    breaker_seconds: float = 3600.0


def rules_of(policy: PolicyRules, *, dollars_per_byte: float) -> Rules:
    """Return the rules for these settings and prices."""
    min_dollars = policy.min_saving_dollars_per_day
    min_priced = min_dollars / (SECONDS_PER_DAY * dollars_per_byte) if min_dollars else 0.0
    return Rules(
        proposes=policy.mode == "propose",
        min_saving=policy.min_saving,
        min_bytes_per_second=max(policy.min_saving_bytes_per_second, min_priced),
        unmeasured_seconds=policy.unmeasured_seconds,
        max_pause_seconds=policy.max_pause_seconds,
        burst=policy.burst,
        refill_seconds=policy.refill_seconds,
        max_per_hour=policy.max_per_hour,
        windows=policy.windows,
        breaker_failures=policy.breaker_failures,
        breaker_seconds=policy.breaker_seconds,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do and why.

    Attributes:
        action: What to do.
        reason: Why.
        before: Cross-rack share of the assignment in force, by weight; None if it is not known.
        after: The same of the plan.
        until: When the wait ends (seconds since 1970), if known.
        pause_seconds: How long partitions would have no owner, by the group's last rebalances; None if not known.
        changes: What has changed since the plan in force was made; None if that is not known.
    """

    action: Action
    reason: Reason
    before: float | None
    after: float | None
    until: float | None = None
    pause_seconds: float | None = None
    changes: Changes | None = None
