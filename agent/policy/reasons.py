"""What the policy may decide, and why: each reason with its condition or its text for the page, in one place.

The decision, the metrics, the web page and two tables in docs/metrics.md go by `TRIGGERS` and `REFUSALS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from samerack.agent.policy.condition import Changes, GroupCondition
from samerack.agent.policy.lag_guard import GrowingLag
from samerack.settings.policy import PolicyRules

SECONDS_PER_DAY: Final = 86_400.0
TOLERANCE: Final = 1e-9
"""Shares are quotients of integers: rounding must not make a saving of exactly the minimum saving cause a rebalance."""


class Action(Enum):
    """What to do now."""

    REBALANCE = "rebalance"
    PROPOSE = "propose"
    SUPPRESS = "suppress"
    NOTHING = "nothing"


class Reason(Enum):
    """Why a rebalance is triggered or proposed, or was not."""

    PARTITIONS_CHANGED = "partitions-changed"
    SECOND_ROUND = "second-round"
    RACKS_CHANGED = "racks-changed"
    MEMBERS_RACKS_CHANGED = "member-racks-changed"
    TRAFFIC_CHANGED = "traffic-changed"
    CHEAPER_PLAN = "cheaper-plan"
    UNEVEN_LOAD = "uneven-load"
    LAG_GROWS = "lag-grows"
    BELOW_MIN_SAVING = "below-min-saving"
    NOT_MEASURED = "not-measured"
    NO_ROOM = "no-room"
    PAUSE_TOO_LONG = "pause-too-long"
    TOPIC_DELETED = "topic-deleted"
    OUTSIDE_WINDOW = "outside-window"
    PAUSED = "paused"
    BREAKER_OPEN = "breaker-open"
    OUT_OF_BUDGET = "out-of-budget"
    HOURLY_CAP = "hourly-cap"
    MEMBER_MAY_BE_AWAY = "member-may-be-away"
    PROPOSED = "proposed"
    NOTHING_TO_GAIN = "nothing-to-gain"


TRIGGERS: Final[Mapping[Reason, Callable[[Changes], bool] | None]] = {
    Reason.PARTITIONS_CHANGED: None,
    Reason.SECOND_ROUND: None,
    Reason.RACKS_CHANGED: lambda changes: bool(changes.topics),
    Reason.TRAFFIC_CHANGED: lambda changes: changes.traffic,
    Reason.MEMBERS_RACKS_CHANGED: lambda changes: bool(changes.members),
    Reason.CHEAPER_PLAN: lambda _: True,
    Reason.UNEVEN_LOAD: lambda _: False,
    Reason.LAG_GROWS: lambda _: False,
}
"""Reasons to rebalance. The function of one that counts only if another plan costs less returns whether the changes
since the plan in force are why; the first that does counts. One without always causes a rebalance."""
_UNKNOWN: Final = Changes()
EXEMPT: Final = frozenset(reason for reason, made_cheaper in TRIGGERS.items() if made_cheaper is None)
"""Reasons that always cause a rebalance, whatever mode, windows, budget and breaker say."""
REFUSALS: Final[Mapping[Reason, str]] = {
    Reason.BELOW_MIN_SAVING: "a rebalance would save less than the configured minimum",
    Reason.NOT_MEASURED: "a rebalance waits until bytes are measured",
    Reason.NO_ROOM: "no rebalance is triggered for the lag that grows, because no member has room for more",
    Reason.PAUSE_TOO_LONG: "no rebalance is triggered, because it would pause the group for too long",
    Reason.TOPIC_DELETED: "a rebalance waits for the members' next one, because they own partitions of a deleted topic",
    Reason.OUTSIDE_WINDOW: "a rebalance waits for the next window",
    Reason.PAUSED: "no rebalance is triggered, because an operator has paused the agent in this group",
    Reason.BREAKER_OPEN: "no rebalance is triggered, because the last ones brought too little",
    Reason.OUT_OF_BUDGET: "a rebalance waits for the budget to refill",
    Reason.HOURLY_CAP: "a rebalance waits, because the last hour had enough of them",
    Reason.MEMBER_MAY_BE_AWAY: "a rebalance waits until all members have shown that they run",
}
"""Reasons why a trigger is not followed, with the text for the group's page."""
WAITS: Final[Mapping[str, str]] = {
    **{reason.value: text for reason, text in REFUSALS.items()},
    Reason.PROPOSED.value: "a rebalance is proposed, and in mode propose not triggered",
}
"""Texts for the reasons why a rebalance that would save something is not made."""


def why_cheaper(condition: GroupCondition) -> Reason:
    """Return why another plan is cheaper than the one in force, or less uneven."""
    if condition.growing is not None:
        return Reason.LAG_GROWS
    if condition.relieves:
        return Reason.UNEVEN_LOAD
    return next(
        reason
        for reason, made_cheaper in TRIGGERS.items()
        if made_cheaper is not None and made_cheaper(condition.changes or _UNKNOWN)
    )


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
        before: Cross-rack share of the assignment in force, by weight; None if it is not known.
        after: The same of the plan.
        until: When the wait ends (seconds since 1970), if known.
        pause_seconds: How long partitions would have no owner, by the group's last rebalances; None if not known.
        changes: What has changed since the plan in force was made; None if that is not known.
        uneven: How far the most loaded member is above the least possible now, and with the plan; None where counts of
            partitions decide.
        growing: Lag that is beyond the group's limit and grows; None without any.
    """

    action: Action
    reason: Reason
    before: float | None
    after: float | None
    until: float | None = None
    pause_seconds: float | None = None
    changes: Changes | None = None
    uneven: tuple[float, float] | None = None
    growing: GrowingLag | None = None
