"""The policy's actions and decisions, and its rules as the settings give them: values without behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from samerack.agent.policy.condition import Changes
from samerack.agent.policy.reasons import Reason
from samerack.settings.policy import PolicyRules

SECONDS_PER_DAY: Final = 86_400.0


class Action(Enum):
    """What to do now."""

    REBALANCE = "rebalance"
    PROPOSE = "propose"
    SUPPRESS = "suppress"
    NOTHING = "nothing"


TOLERANCE: Final = 1e-9
"""Shares are quotients of integers: rounding must not make a saving of exactly the minimum saving cause a rebalance."""


def rules_of(policy: PolicyRules, *, dollars_per_byte: float) -> PolicyRules:
    """Return the rules with the minimum saving in dollars, by these prices, merged into the one in bytes."""
    min_dollars = policy.min_saving_dollars_per_day
    min_priced = min_dollars / (SECONDS_PER_DAY * dollars_per_byte) if min_dollars else 0.0
    least = max(policy.min_saving_bytes_per_second, min_priced)
    return policy.model_copy(update={"min_saving_bytes_per_second": least})


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
