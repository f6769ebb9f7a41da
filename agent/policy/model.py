"""The policy's inputs, rules and decisions: values without behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from samerack.assignors.model import Cost
from samerack.common.settings import PolicyRules, WindowSettings

SECONDS_PER_DAY: Final = 86_400.0


class Reason(Enum):
    """Why a rebalance is triggered or proposed, or was not."""

    PARTITIONS_CHANGED = "partitions-changed"
    SECOND_ROUND = "second-round"
    RACKS_CHANGED = "racks-changed"
    MEMBERS_RACKS_CHANGED = "member-racks-changed"
    TRAFFIC_CHANGED = "traffic-changed"
    CHEAPER_PLAN = "cheaper-plan"
    BELOW_LEAST_SAVING = "below-least-saving"
    NOT_MEASURED = "not-measured"
    OUTSIDE_WINDOW = "outside-window"
    BREAKER_OPEN = "breaker-open"
    OUT_OF_BUDGET = "out-of-budget"
    HOURLY_CAP = "hourly-cap"
    PROPOSED = "proposed"
    NOTHING_TO_GAIN = "nothing-to-gain"


class Action(Enum):
    """What to do now."""

    REBALANCE = "rebalance"
    PROPOSE = "propose"
    SUPPRESS = "suppress"
    NOTHING = "nothing"


EXEMPT: Final = frozenset({Reason.PARTITIONS_CHANGED, Reason.SECOND_ROUND})
"""Reasons that always cause a rebalance, whatever mode, windows, budget and breaker say."""
MAX_ROUNDS: Final = 5
"""A cooperative rebalance needs two rounds; a member that never revokes a partition must not cause endless rounds."""
TOLERANCE: Final = 1e-9
"""Shares are quotients of integers: rounding must not make a saving of exactly the least saving cause a rebalance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """One group's rules: those of its settings, with the least savings in bytes and in dollars merged into bytes.

    Attributes:
        proposes: Whether rebalances for racks and traffic are proposed instead of triggered.
        min_saving: As a share of partitions, by weight.
        min_bytes_per_second: 0 if no saving in bytes is required.
        unmeasured_seconds: How long to wait for bytes to be measured.
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
    windows: tuple[WindowSettings, ...] = ()
    breaker_failures: int = 3
    breaker_seconds: float = 3600.0


def rules_of(policy: PolicyRules, *, dollars_per_byte: float) -> Rules:
    """Returns the rules for these settings and prices."""
    min_dollars = policy.min_saving_dollars_per_day
    min_priced = min_dollars / (SECONDS_PER_DAY * dollars_per_byte) if min_dollars else 0.0
    return Rules(
        proposes=policy.mode == "propose",
        min_saving=policy.min_saving,
        min_bytes_per_second=max(policy.min_saving_bytes_per_second, min_priced),
        unmeasured_seconds=policy.unmeasured_seconds,
        burst=policy.burst,
        refill_seconds=policy.refill_seconds,
        max_per_hour=policy.max_per_hour,
        windows=policy.windows,
        breaker_failures=policy.breaker_failures,
        breaker_seconds=policy.breaker_seconds,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteRates:
    """Measured bytes per second of a group: all, those across racks with the present assignment, and with the plan."""

    whole: float
    present: float
    possible: float

    @property
    def saving(self) -> float:
        """Bytes per second that would stay in their rack."""
        return self.present - self.possible


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """What was measured to cross racks: a share of all bytes, from `since` (seconds since 1970) until now."""

    share: float
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCondition:
    """What is known of a Stable group that the agent leads.

    Attributes:
        present: Cost of the assignment in force, under the racks that count now.
        possible: Cost of the plan that a rebalance would bring.
        partitions_changed: Whether the assignment in force lacks partitions that exist, or has some that do not.
        withheld: Partitions that the last cooperative round withheld.
        rounds: Rounds in a row that withheld partitions.
        racks_changed: Whether racks, replicas or leaders changed since the assignment was made; None if that is not
            known, as this process did not make it.
        traffic_changed: Whether the weights of partitions changed.
        rates: Bytes per second under either plan; None while they are not measured.
        crossing: What crossed racks in the last minutes; None if it is not measured.
        generation: The group's generation; 0 if it is not known.
        conditions: A number that changes whenever members, cluster or the racks of hosts change.
    """

    present: Cost
    possible: Cost
    partitions_changed: bool
    withheld: int
    rounds: int
    racks_changed: bool | None
    traffic_changed: bool = False
    rates: ByteRates | None = None
    crossing: Crossing | None = None
    generation: int = 0
    conditions: int = 0

    @property
    def stuck(self) -> bool:
        """Whether partitions are withheld that more rounds will not assign."""
        return bool(self.withheld) and self.rounds > MAX_ROUNDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do and why.

    Attributes:
        action: What to do.
        reason: Why.
        before: Cross-rack share of the assignment in force.
        after: Cross-rack share of the plan.
        until: When the wait ends (seconds since 1970), if known.
    """

    action: Action
    reason: Reason
    before: float
    after: float
    until: float | None = None
