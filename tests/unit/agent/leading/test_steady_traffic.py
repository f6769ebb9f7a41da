"""No rebalance for traffic while production is steady, and one for a lasting shift: from logs to the decision.

Commits are not in these worlds: nothing that is decided here comes from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

import pytest

from samerack.agent.leading.assigning import Sent
from samerack.agent.leading.rebalance_evaluator import Evaluation
from samerack.agent.policy import Action, Reason
from samerack.agent.policy.measured import Measured, byte_rates
from samerack.cluster.group import GroupView
from samerack.common.weights import GroupWeights
from samerack.planning import planner
from samerack.settings.policy import PolicySettings
from samerack.traffic.collect import Partition
from samerack.traffic.throughput import Production, Rate
from samerack.traffic.weights import WeightBook
from tests import effort
from tests.unit.agent.leading.bench import Bench
from tests.unit.agent.values import RACKS, cluster, group, member
from tests.unit.traffic.worlds import DAY, polls, true_rates

_DECIDED_SECONDS: Final = 60.0
"""Between two decisions under the same weights: they differ by the rates only."""
_WARMING_SECONDS: Final = 900.0
"""The first weights are known after some seconds, and better after some minutes; bursts take longest."""
_MIN_SAVING: Final = PolicySettings().min_saving
_ROUGHLY: Final = 0.02
"""A saving is measured: one that is close to the minimum may be taken for more, soon or late."""


@dataclass(kw_only=True)
class World:
    """A group of one member in each rack that the agent leads, with the production of a seed."""

    seed: int
    production: Production = field(default_factory=Production)
    book: WeightBook = field(default_factory=WeightBook)
    bench: Bench = field(init=False)
    view: GroupView = field(init=False)

    def run(self, *, seconds: float, shifted_after: float = float("inf")) -> Iterator[tuple[float, Evaluation]]:
        """Yield the time of each rebalance for traffic, and what it was decided by."""
        seen, due = None, 0.0
        for step, appended in polls(self.seed, seconds=seconds, shifted_after=shifted_after):
            if not step:
                self._begin(len(appended))
            self.bench.now += step
            self.production.polled(appended, appended.values(), step)
            self.book.measured("orders-eu", self.production.rates(appended))
            weights = self.book.weights("orders-eu")
            if weights is seen and self.bench.now < due:
                continue
            seen, due = weights, self.bench.now + _DECIDED_SECONDS
            evaluation = self.bench.evaluation(self.view)
            decision, _ = self.bench.evaluator.decide(evaluation)
            if decision.action is Action.REBALANCE:
                assert decision.reason is Reason.TRAFFIC_CHANGED
                yield self.bench.now, evaluation
                self._take(evaluation.plan, weights)

    def _begin(self, count: int) -> None:
        """The group starts before its traffic is known."""
        dice = Random(self.seed)  # noqa: S311 - reproducible worlds, not secrets
        racks = cluster(RACKS, t=[[dice.choice([1, 1, 1, 1, 2, 3])] for _ in range(count)])
        self.bench = Bench(now=0.0, cluster=racks, weigh=self.book.weights, measured=Measured(rates=self.book.rates))
        self.view = group(*(member(f"m-{rack}", "t", rack=str(rack)) for rack in RACKS.values()))
        self._take(self.bench.evaluation(self.view).plan, None)

    def _take(self, plan: planner.Plan, weights: GroupWeights | None) -> None:
        """The group has this plan."""
        self.bench.assigning.sent = Sent(
            generation=1, plan=plan, cluster=self.bench.cluster, seconds=0.0, members=3, subscriptions={},
            weights=weights,
        )  # fmt: skip
        owned = planner.sent_partitions(plan)
        self.view = group(
            *(member(one.id, "t", rack=one.subscription.rack, assigned=owned[one.id])
              for one in self.view.members if one.subscription is not None)
        )  # fmt: skip


def _true_saving(plan: planner.Plan, rates: Mapping[Partition, float]) -> float:
    """Return what a plan really saves, as a share of all that is read."""
    true = byte_rates(plan, {partition: Rate(value=rate, error=0.0, seconds=DAY) for partition, rate in rates.items()})
    return true.saving / true.whole


def _error(evaluation: Evaluation) -> float:
    """Return the error of what a plan saves, as it is measured, in the same unit."""
    rates = evaluation.condition.rates
    assert rates is not None
    return rates.error / rates.whole


@pytest.mark.parametrize("seed", [*range(effort.of(100, minimum=4)), 1849, 2837, 3941, 5122, 5681])
def test_steady_traffic_causes_no_rebalance(seed: int) -> None:
    """In a day at most one, when the traffic has become known, and that one is worth it.

    After 55 seconds, by what is measured then, a plan of seed 5681 saves 5.9 points, which is 2.2 times the error of
    before, and truly nothing; 2837 was planned after 26 seconds, and 1849 twice.
    After 20 hours the plan of seed 3941 saves 5.1 +- 1.0 points by what is measured then, and truly 2.6.
    A plan has to save the minimum and the error: that of seed 5122 truly saves 7.2 points, of which bursts leave 4.0
    uncertain even after 17 minutes, when it is made.
    """
    first = [
        (now, _true_saving(evaluation.plan, true_rates(seed)), _error(evaluation))
        for now, evaluation in World(seed=seed).run(seconds=DAY if effort.ALL else DAY / 8)
    ]
    assert len(first) <= 1
    assert all(saving > _MIN_SAVING - _ROUGHLY for _, saving, _ in first), first
    assert all(now < _WARMING_SECONDS for now, saving, error in first if saving > _MIN_SAVING + max(_ROUGHLY, error)), (
        first
    )


@pytest.mark.parametrize("seed", [*range(effort.of(100, minimum=4)), 242, 1650, 3578, 4429, 6636, 7350, 7515, 7640])
def test_a_lasting_shift_is_worth_one_rebalance_at_most(seed: int) -> None:
    """It comes within ten minutes where it is clearly worth it, and nothing is left that is worth another one.

    By the rounded weights the plan of seed 7350 saves 7.3 points and is not worth anything, and one of seed 1650 too.
    The shift of seed 3578 was found after 12 minutes: what was known before it had an error of 21 %.
    Without any shift that is worth it, the plan of seed 4429 saves 5.4 +- 1.3 points, and truly 2.3.
    A plan has to save the minimum by the rounded weights, too: that of seed 6636 saves 5.09 points, by those 4.65,
    and those of 7515 and 7640 save 5.4 and 5.04 points, by those 4.1 and 2.7.
    What was decided before the shift is judged by `test_steady_traffic_causes_no_rebalance`, by the rates of then: seed
    242 is planned after 917 seconds for 4.0 points, of which the shift leaves 2.0.
    """
    shift = 1800.0
    world = World(seed=seed)
    after = [
        (now, _true_saving(evaluation.plan, true_rates(seed, shifted=True)))
        for now, evaluation in world.run(seconds=shift + DAY / 8, shifted_after=shift)
        if now > shift
    ]
    assert len(after) <= 1
    assert all(saving > _MIN_SAVING - _ROUGHLY for _, saving in after), after
    assert all(now <= shift + 660.0 for now, saving in after if saving > _MIN_SAVING + _ROUGHLY), after
    left = world.bench.evaluation(world.view)
    truly, counted = _true_saving(left.plan, true_rates(seed, shifted=True)), left.condition.saving
    assert min(truly, counted) <= _MIN_SAVING + 2 * _error(left), (truly, counted)
