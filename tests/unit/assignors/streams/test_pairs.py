"""Plans that start with a few pairs of subtopology and client cost what plans with all pairs cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from samerack.assignors.streams import active
from samerack.assignors.streams.active import Costs, optimize_active
from tests.unit.assignors.streams.test_active import cost, fits, random_tasks


@pytest.mark.parametrize("costs", [Costs(traffic=10, non_overlap=1), Costs(traffic=1, non_overlap=0)])
@pytest.mark.parametrize("few", [1, 3])
def test_a_few_pairs_cost_what_all_cost(monkeypatch: pytest.MonkeyPatch, few: int, costs: Costs) -> None:
    """Of many subtopologies on many clients the plan has the same cost, within all limits."""
    monkeypatch.setattr(active, "A_FEW", few)
    for seed in range(8):
        tasks = random_tasks(seed, tasks=200, clients=40)
        tasks = replace(tasks, subtopology=np.sort(np.arange(200) % 30).astype(np.int32))
        whole = optimize_active(tasks, costs, balance=True)
        with monkeypatch.context() as patch:
            patch.setattr(active, "MAX_PAIRS", 0)
            found = optimize_active(tasks, costs, balance=True)
        assert fits(tasks, found, balance=True)
        assert cost(tasks, costs, found) == cost(tasks, costs, whole)
