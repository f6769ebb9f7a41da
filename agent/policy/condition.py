"""The condition of a group that the agent leads: what has changed, and what a rebalance would bring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from samerack.agent.policy.lag_guard import GrowingLag
from samerack.agent.policy.requests import OperatorRequest
from samerack.assignors.problem import Cost
from samerack.common import words

_NOISE: Final = 1e-9
_FULL: Final = 0.97
"""A member with more than this part of its capacity has no room: what waits would not be read."""
MAX_ROUNDS: Final = 5
"""A cooperative rebalance needs two rounds; a member that never revokes a partition must not cause endless rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteRates:
    """Measured bytes per second of a group.

    Attributes:
        whole: All.
        present: Those across racks with the present assignment.
        possible: Those across racks with the plan.
        error: The standard error of what the plan saves; twice that in the first minutes.
    """

    whole: float
    present: float
    possible: float
    error: float = 0.0

    @property
    def saving(self) -> float:
        """Bytes per second that would stay in their rack."""
        return self.present - self.possible


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossRackShare:
    """What crosses racks: a share of what is written to the partitions, by the brokers that serve their owners.

    It does not depend on when members commit.

    Attributes:
        share: The part, from 0 to 1.
        at: When it was asked for (seconds since 1970): brokers answered after that.
    """

    share: float
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What has changed since the plan in force was made: the trigger of a rebalance, its reason, and the event's text.

    Attributes:
        topics: Topics with other partitions, or with replicas or leaders in other racks.
        members: Members in another rack: static ones by instance id, others by member id.
        traffic: Whether the weights of partitions changed.
    """

    topics: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    traffic: bool = False

    @property
    def text(self) -> str:
        """The changes in a few words; empty without any."""
        parts = [words.some(self.topics, "topic")] if self.topics else []
        parts += [words.some(tuple(map(words.short_id, self.members)), "member")] if self.members else []
        return "; ".join((*parts, "traffic") if self.traffic else parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCondition:
    """What is known of a Stable group that the agent leads.

    Attributes:
        present: Cost of the assignment in force, under the racks that count now.
        possible: Cost of the plan that a rebalance would bring.
        partitions_changed: Whether partitions that exist have no owner, or one that cannot keep them.
        owns_deleted: Whether members own partitions that do not exist, or that brokers have not shown yet.
        withheld: Partitions that the last cooperative round withheld.
        rounds: Rounds in a row that withheld partitions.
        changes: What has changed since the assignment was made; None if that is not known, as this process did not make
            it.
        rates: Bytes per second under either plan; None while they are not measured.
        crossing: What crosses racks; None if it is not measured.
        generation: The group's generation; 0 if it is not known.
        conditions: A number that changes whenever members, cluster or the racks of hosts change.
        pause_seconds: How long partitions would have no owner in a rebalance, by the group's last ones; None if there
            were none.
        away_until: Until when a rebalance may have to wait for a member that is away (seconds, monotonic).
        uneven: How far the most loaded member is above the least possible now, and with the plan, as a share of that;
            None where counts of partitions decide.
        tolerance: `leading.balance_tolerance` of the group.
        growing: Lag that is beyond the group's limit and grows; None without any.
        greatest_loads: The load of the most loaded member relative to its learned capacity, now and with the plan; None
            where capacities were not learned.
        pause: The operator's request to start no rebalance for racks or traffic; None without one.
    """

    present: Cost
    possible: Cost
    partitions_changed: bool
    withheld: int
    rounds: int
    changes: Changes | None
    rates: ByteRates | None = None
    crossing: CrossRackShare | None = None
    generation: int = 0
    conditions: int = 0
    pause_seconds: float | None = None
    away_until: float = float("-inf")
    uneven: tuple[float, float] | None = None
    tolerance: float = 0.0
    growing: GrowingLag | None = None
    greatest_loads: tuple[float, float] | None = None
    pause: OperatorRequest | None = None
    owns_deleted: bool = False

    @property
    def shares(self) -> tuple[float | None, float | None]:
        """The parts of all that is read that cross racks now, and with the plan; None where racks are not known.

        They are of bytes where those are measured, and else of the weights of planning, which are rounded.
        """
        rates = self.rates
        if rates is None or not rates.whole:
            return self.present.min_share, self.possible.min_share
        return (
            rates.present / rates.whole if self.present.known else None,
            rates.possible / rates.whole if self.possible.known else None,
        )

    @property
    def saving(self) -> float:
        """What the plan saves, from 0 to 1: the smaller of the shares by weights, and by bytes if measured."""
        weighed = self.present.cross_rack_share - self.possible.cross_rack_share
        if self.rates is None or not self.rates.whole:
            return weighed
        return min(weighed, self.rates.saving / self.rates.whole)

    @property
    def relieves(self) -> bool:
        """Whether the most loaded member has more than the tolerance above what one would have with the plan."""
        if self.uneven is None:
            return False
        now, then = self.uneven
        return 1.0 + now > (1.0 + then) * (1.0 + self.tolerance) * (1.0 + _NOISE)

    @property
    def ends_lag(self) -> bool:
        """Whether lag grows that need not: with the plan no member would have more than it can read."""
        if self.growing is None or self.greatest_loads is None:
            return False
        now, then = self.greatest_loads
        return then < min(_FULL, now)

    @property
    def stuck(self) -> bool:
        """Whether partitions are withheld that more rounds will not assign."""
        return bool(self.withheld) and self.rounds > MAX_ROUNDS
