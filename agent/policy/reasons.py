"""What the policy may decide, and why: each reason with its condition and its texts, in one place.

The decision, the metrics, the web page and the tables in docs/ go by `TRIGGERS` and `REFUSALS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

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


class Trigger(NamedTuple):
    """A reason to rebalance.

    Attributes:
        meaning: what has happened, for the table in docs/metrics.md.
        made_cheaper: of a reason that counts only if another plan costs less, whether the changes since the plan in
            force are it; the first that is counts. None for a reason that always causes a rebalance, whatever mode,
            windows, budget and breaker say.
    """

    meaning: str
    made_cheaper: Callable[[Changes], bool] | None = None


class Refusal(NamedTuple):
    """A reason why a trigger is not followed.

    Attributes:
        meaning: for the table in docs/metrics.md.
        waits: for the page of the group.
    """

    meaning: str
    waits: str


TRIGGERS: Final[Mapping[Reason, Trigger]] = {
    Reason.PARTITIONS_CHANGED: Trigger("partitions or topics were added"),
    Reason.SECOND_ROUND: Trigger("a cooperative round withheld partitions; at most five rounds in a row"),
    Reason.RACKS_CHANGED: Trigger(
        "replicas or leaders moved, or a broker came back under another rack",
        lambda changes: bool(changes.topics),
    ),
    Reason.TRAFFIC_CHANGED: Trigger(
        "different partitions carry most bytes now (`leading.weigh_by: bytes`)",
        lambda changes: changes.traffic,
    ),
    Reason.MEMBERS_RACKS_CHANGED: Trigger("members' known racks have changed", lambda changes: bool(changes.members)),
    Reason.CHEAPER_PLAN: Trigger(
        "none of these: the agent has started since the current plan was made, that plan was the fall-back's, or all "
        "members have kept up for `lag.keep_seconds`",
        lambda _: True,
    ),
    Reason.UNEVEN_LOAD: Trigger(
        "the most loaded member has more than `leading.balance_tolerance` above what one would have",
        lambda _: False,
    ),
    Reason.LAG_GROWS: Trigger(
        "lag is beyond `lag.max_seconds` and grows, and other members have room",
        lambda _: False,
    ),
}
_UNKNOWN: Final = Changes()
EXEMPT: Final = frozenset(reason for reason, trigger in TRIGGERS.items() if trigger.made_cheaper is None)
"""Reasons that always cause a rebalance, whatever mode, windows, budget and breaker say."""
REFUSALS: Final[Mapping[Reason, Refusal]] = {
    Reason.BELOW_MIN_SAVING: Refusal(
        "the saving does not exceed every minimum (for `traffic-changed`, plus its uncertainty)",
        "a rebalance would save less than the configured minimum",
    ),
    Reason.NOT_MEASURED: Refusal(
        "a minimum is in bytes or dollars, and bytes are not measured yet",
        "a rebalance waits until bytes are measured",
    ),
    Reason.NO_ROOM: Refusal(
        "lag is beyond `lag.max_seconds` and grows, and no other member is known to have room",
        "no rebalance is triggered for the lag that grows, because no member has room for more",
    ),
    Reason.PAUSE_TOO_LONG: Refusal(
        "rebalances lately paused the group for longer than `policy.max_pause_seconds`, or than the lag is",
        "no rebalance is triggered, because it would pause the group for too long",
    ),
    Reason.TOPIC_DELETED: Refusal(
        "members own partitions of a deleted topic: Java members cannot commit them and would stop until "
        "`max.poll.interval.ms` (KAFKA-20959); their next rebalance ends that",
        "a rebalance waits for the members' next one, because they own partitions of a deleted topic",
    ),
    Reason.OUTSIDE_WINDOW: Refusal("no window of `policy.windows` is open", "a rebalance waits for the next window"),
    Reason.PAUSED: Refusal(
        "an operator has paused rebalances: `samerack pause`",
        "no rebalance is triggered, because an operator has paused the agent in this group",
    ),
    Reason.BREAKER_OPEN: Refusal(
        "`policy.breaker_failures` rebalances in a row brought too little",
        "no rebalance is triggered, because the last ones brought too little",
    ),
    Reason.OUT_OF_BUDGET: Refusal(
        "one more comes every `policy.refill_seconds`; for `lag-grows` there are three a day",
        "a rebalance waits for the budget to refill",
    ),
    Reason.HOURLY_CAP: Refusal(
        "the last hour had `policy.max_per_hour` rebalances",
        "a rebalance waits, because the last hour had enough of them",
    ),
    Reason.MEMBER_MAY_BE_AWAY: Refusal(
        "a member may be dead or restarting: it has not committed lately, and its session may last",
        "a rebalance waits until all members have shown that they run",
    ),
}
WAITS: Final[Mapping[str, str]] = {
    **{reason.value: refusal.waits for reason, refusal in REFUSALS.items()},
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
        for reason, trigger in TRIGGERS.items()
        if trigger.made_cheaper is not None and trigger.made_cheaper(condition.changes or _UNKNOWN)
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
        action: What to do.
        reason: Why.
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
