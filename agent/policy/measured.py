"""What the policy knows from traffic measurement: bytes per second by partition, and what really crosses racks.

It is read from memory that the measuring cycle updates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from samerack.agent.policy import ByteRates, CrossRackShare
from samerack.agent.policy.lag_guard import GrowingLag
from samerack.assignors.evaluate import Rates, cross_rack_mask, known_crossing, row_of, share_of_owners
from samerack.common.errors import SettingsError
from samerack.common.money import PriceTable
from samerack.planning.planner import Plan
from samerack.settings.all_settings import Settings
from samerack.traffic import shares
from samerack.traffic.board import TrafficBoard
from samerack.traffic.throughput import Rates as UncertainRates
from samerack.traffic.weights import WeightBook


def _nothing(_group: str) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Functions that return a group's figures, or None while there are none.

    Attributes:
        rates: what is written to its partitions, in bytes per second.
        crossing: what crosses racks by the brokers that serve its members.
        growing: lag that is beyond the group's limit and grows.
    """

    rates: Callable[[str], UncertainRates | None] = _nothing
    crossing: Callable[[str], CrossRackShare | None] = _nothing
    growing: Callable[[str], GrowingLag | None] = _nothing


UNMEASURED = Measured()
_FIRST_MINUTES: Final = 2.0
"""Factor for the error while some rate was measured for a shorter time than rates ever are.

The error is estimated from short blocks then, and a plan is compared with it every few seconds.
"""


def measured(
    board: TrafficBoard, weights: WeightBook, growing: Callable[[str], GrowingLag | None] = _nothing
) -> Measured:
    """Return the functions that read the measured figures."""

    def crossing(name: str) -> CrossRackShare | None:
        group = board.group(name)
        if group is None:
            return None
        share = shares.by_long_run(group.partitions, {member.id: member.rack.rack for member in group.members})
        return None if share is None else CrossRackShare(share=share, at=board.latest().window_end)

    return Measured(rates=weights.rates, crossing=crossing, growing=growing)


def shares_of(plan: Plan, rates: Rates | None) -> tuple[float | None, float | None]:
    """Return the cross-rack shares now and under the plan, of bytes if they were measured; None where not known.

    They are of what is known: members or brokers without a rack have none.

    Planning rounds its weights to powers of two, so that partitions with almost equal traffic may count as 1 and 2.
    """
    return share_of_owners(plan.problem, plan.problem.owner, rates), share_of_owners(plan.problem, plan.final, rates)


def byte_rates(plan: Plan, rates: UncertainRates) -> ByteRates:
    """Return what the group reads in the long run, and what of it crosses racks now and under the plan."""
    problem = plan.problem
    row = row_of(problem, {partition: rate.value for partition, rate in rates.items()})
    errors = row_of(problem, {partition: rate.error for partition, rate in rates.items()})
    is_whole = all(rate.whole for rate in rates.values())
    moved = cross_rack_mask(problem, problem.owner) != cross_rack_mask(problem, plan.final)
    return ByteRates(
        whole=float(row.sum()),
        present=known_crossing(problem, problem.owner, row),
        possible=known_crossing(problem, plan.final, row),
        error=float(np.sqrt((errors[moved] ** 2).sum())) * (1.0 if is_whole else _FIRST_MINUTES),
    )


def check_min_savings(settings: Settings, prices: PriceTable) -> None:
    """Check that every minimum saving can be computed.

    Raises:
        SettingsError: A minimum saving is in dollars although bytes cost nothing.
    """
    for place, rules in (
        ("policy", settings.policy),
        *((f"policy.groups.{pattern}", rules) for pattern, rules in settings.policy.groups.items()),
    ):
        if rules.min_saving_dollars_per_day and not prices.dollars_per_byte:
            raise SettingsError(
                f"{place}.min_saving_dollars_per_day: cross-rack bytes are free at {prices.provider}'s prices, so no "
                "rebalance would ever be worth it; set min_saving_bytes_per_second, or other money.prices"
            )
