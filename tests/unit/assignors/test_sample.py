"""Networks that are solved by a sample of their ends cost what they cost when they are solved whole."""

from __future__ import annotations

import numpy as np
import pytest

from samerack.assignors import sample
from samerack.assignors.problem import AssignmentError, Int64Array
from samerack.assignors.sample import Ends, solve_by_sample
from samerack.assignors.solvers import Network, solve
from samerack.assignors.streams.active import Costs, optimize_active
from tests.unit.assignors import groups
from tests.unit.assignors.streams.test_active import cost, fits, random_tasks

COSTS = Costs(traffic=10, non_overlap=1)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Every network counts as one of many arcs, and a few ends are enough for a sample."""
    monkeypatch.setattr(sample, "MIN_ARCS", 0)
    monkeypatch.setattr(sample, "_MIN_ENDS", 4)
    return monkeypatch


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("costs", [COSTS, Costs(traffic=1, non_overlap=10), Costs(traffic=1, non_overlap=0)])
def test_a_sample_costs_what_the_whole_costs(monkeypatch: pytest.MonkeyPatch, costs: Costs, *, portable: bool) -> None:
    """Of many random applications each costs the same with a sample and without, and keeps all limits."""
    for seed in range(6):
        tasks = random_tasks(seed, tasks=150, clients=9 + seed)
        with groups.solver(portable=portable):
            found = optimize_active(tasks, costs, balance=True)
        with monkeypatch.context() as patch:
            patch.setattr(sample, "MIN_ARCS", 10**9)
            whole = optimize_active(tasks, costs, balance=True)
        assert fits(tasks, found, balance=True)
        assert cost(tasks, costs, found) == cost(tasks, costs, whole)


def test_a_sample_answers_for_the_whole(small: pytest.MonkeyPatch) -> None:
    """Of a thousand clients a tenth is enough: only its network is solved with costs."""
    solved = []

    def noted(network: Network) -> Int64Array:
        solved.append(len(network.supply))
        return solve(network)

    small.setattr(sample, "solve", noted)
    optimize_active(random_tasks(1, tasks=20_000, clients=1_000), COSTS, balance=True)
    assert len(solved) == 1
    assert solved[0] < 1_000


@pytest.mark.parametrize("corrections", [0, 1, 100])
def test_wrong_prices_are_corrected(small: pytest.MonkeyPatch, corrections: int) -> None:
    """From useless prices the cost is the same, by corrections or, if there are too many, by the whole network."""
    tasks = random_tasks(2, tasks=300, clients=30)
    minimum = cost(tasks, COSTS, optimize_active(tasks, COSTS, balance=True))
    small.setattr(sample, "_prices_of_sample", lambda _, ends, __: np.zeros(ends.first_seat, np.int64))
    small.setattr(sample, "_MAX_CORRECTIONS", corrections)
    found = optimize_active(tasks, COSTS, balance=True)
    assert fits(tasks, found, balance=True)
    assert cost(tasks, COSTS, found) == minimum


def shop(*, room: int, wanted: int) -> tuple[Network, Ends]:
    """Two sources with 12 units for 12 ends with a seat each; the second costs more, at odd ends twice."""
    seats, ends = np.arange(2, 14), np.arange(14, 26)
    price = np.where(seats % 2 == 0, 1, 2)
    return Network(
        supply=np.concatenate([[6, 6], np.zeros(12, np.int64), np.full(12, -wanted)]),
        tail=np.concatenate([np.zeros(12), np.ones(12), seats]).astype(np.int32),
        head=np.concatenate([seats, seats, ends]).astype(np.int32),
        capacity=np.full(36, room),
        costs=np.concatenate([np.zeros(12, np.int64), price, np.zeros(12, np.int64)])[np.newaxis],
    ), Ends(first_seat=2, first_end=14, stratum=np.zeros(12, np.int32))


@pytest.mark.usefixtures("small")
def test_no_flow_is_an_error() -> None:
    """Ends that cannot get what they want are an error, as without a sample."""
    network, ends = shop(room=0, wanted=1)
    with pytest.raises(AssignmentError, match="no flow"):
        solve_by_sample(network, ends)
