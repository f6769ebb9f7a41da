"""Plans that start with a few pairs of subtopology and client cost what plans with all pairs cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from samerack.assignors.streams import active, pairs
from samerack.assignors.streams.active import Costs, optimize_active
from samerack.assignors.streams.pairs import Grid
from tests.unit.assignors.streams.test_active import cost, fits, random_tasks


@pytest.mark.parametrize("costs", [Costs(traffic=10, non_overlap=1), Costs(traffic=1, non_overlap=0)])
@pytest.mark.parametrize("few", [1, 3])
def test_a_few_pairs_cost_what_all_cost(monkeypatch: pytest.MonkeyPatch, few: int, costs: Costs) -> None:
    """Of many subtopologies on many clients the plan has the same cost, within all limits."""
    monkeypatch.setattr(pairs, "A_FEW", few)
    for seed in range(8):
        tasks = random_tasks(seed, tasks=200, clients=40)
        tasks = replace(tasks, subtopology=np.sort(np.arange(200) % 30).astype(np.int32))
        whole = optimize_active(tasks, costs, balance=True)
        with monkeypatch.context() as patch:
            patch.setattr(active, "MAX_PAIRS", 0)
            found = optimize_active(tasks, costs, balance=True)
        assert fits(tasks, found, balance=True)
        assert cost(tasks, costs, found) == cost(tasks, costs, whole)


def test_first_pairs_reach_every_rack(monkeypatch: pytest.MonkeyPatch) -> None:
    """First come pairs in use, some of each client with tasks, and some of each subtopology in each rack."""
    monkeypatch.setattr(pairs, "A_FEW", 2)
    rack = (np.arange(60) % 3).astype(np.int32)
    grid = Grid(subtopologies=50, rack=rack, active=np.arange(1, 60))
    first = grid.first_pairs(np.array([7 * 60 + 9]))
    assert 7 * 60 + 9 in first
    assert set((first % 60).tolist()) == set(range(1, 60))
    assert len(np.unique(first // 60 * 3 + rack[first % 60])) == 50 * 3
    assert np.isin(first, grid.all_pairs()).all()
    assert len(first) < grid.pairs / 4


def test_better_pairs_are_those_of_lower_price() -> None:
    """A pair is better where the hub's price is below the client's; pairs in use are not named again."""
    grid = Grid(subtopologies=2, rack=np.array([0, 0, 1], np.int32), active=np.arange(3))
    better = grid.better_pairs(np.array([0]), np.array([[0, 5], [3, 9]]), np.array([4, 2, 5]))
    assert better.tolist() == [1, 3]
