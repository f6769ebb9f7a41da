"""KIP-925 version 4 and the rejected part of the accepted document, on cases that show the aim of each."""

from __future__ import annotations

import numpy as np
import pytest

from samerack.assignors.streams.active import Costs
from samerack.assignors.streams.standby import Standbys, cost_of, optimize_standby
from samerack.assignors.streams.tags import unrestrained
from samerack.assignors.streams.version4 import (
    PER_PARTITION,
    REJECTED,
    VERSION_4_OPTION_II,
    Reliability,
    Weights,
    prefer_reliability,
    swap_greedily,
)


def one_each(active: list[int], standby: list[int], remotes: list[list[int]], racks: list[int]) -> Standbys:
    """One standby of each task; clients in the given racks, tasks with cost rows of their own."""
    groups = len(racks)
    return unrestrained(
        task=np.arange(len(standby), dtype=np.int32),
        client=np.array(standby, np.int32),
        remote=np.arange(len(standby), dtype=np.int32),
        remotes=np.array(remotes),
        group=np.arange(groups, dtype=np.int32),
        rack=np.array(racks, np.int32),
        fixed_task=np.arange(len(active), dtype=np.int32),
        fixed_client=np.array(active, np.int32),
    )


def test_version_4_counts_one_for_each_partition() -> None:
    """KIP-925 version 4, "Design for rack aware assignment": a place costs its partitions without a replica near."""
    assert Costs(traffic=1, non_overlap=0) == PER_PARTITION
    case = one_each([0, 1], [2, 3], [[0, 2], [3, 0]], [0, 1, 1, 0])
    assert cost_of(case, PER_PARTITION, case.client) == 5


def test_option_i_swaps_what_is_feasible_and_costs_less() -> None:
    """KIP-925 version 4, option I (and 4.C.I): two standbys that both read across racks swap clients."""
    case = one_each([0, 1], [2, 3], [[0, 2], [3, 0]], [0, 1, 1, 0])
    assert swap_greedily(case, PER_PARTITION).tolist() == [3, 2]


def test_option_i_never_puts_a_standby_beside_its_active() -> None:
    """KIP-925, 4.C, constraint 1: a swap that brings a standby to its active's client is not feasible."""
    case = one_each([1, 0], [0, 1], [[9, 0], [0, 9]], [0, 1])
    assert swap_greedily(case, PER_PARTITION).tolist() == [0, 1]


def test_option_i_is_greedy() -> None:
    """KIP-925, 4.C.I says that swaps may miss the optimum: some do, and none beats it."""
    dice = np.random.default_rng(0)
    above = 0
    for _ in range(60):
        clients, tasks = 5, 10
        active, shift = dice.integers(0, clients, tasks), dice.integers(1, clients, tasks)
        case = one_each(
            active.tolist(),
            ((active + shift) % clients).tolist(),
            dice.integers(0, 4, (tasks, 3)).tolist(),
            [0, 1, 2, 0, 1],
        )
        swapped, best = swap_greedily(case, PER_PARTITION), optimize_standby(case, PER_PARTITION)
        assert np.array_equal(np.bincount(swapped, minlength=clients), case.seats)
        assert not (swapped == active).any()
        difference = cost_of(case, PER_PARTITION, swapped) - cost_of(case, PER_PARTITION, best)
        assert difference >= 0
        above += difference > 0
    assert above


@pytest.mark.parametrize("reliability", [VERSION_4_OPTION_II, REJECTED])
def test_the_first_standby_leaves_its_actives_rack(reliability: Reliability) -> None:
    """KIP-925 version 4, option II, and 8.A: the first standby goes to another rack, although its data does not."""
    case = one_each([0, 1], [2, 3], [[0, 1], [1, 0]], [0, 1, 0, 1])
    assert prefer_reliability(case, reliability).tolist() == [3, 2]
    assert optimize_standby(case, PER_PARTITION).tolist() == [2, 3]


def test_8_a_weighs_ten_partitions_against_a_rack() -> None:
    """KIP-925, 8.A: at 1 to 10 more than ten partitions outweigh another rack; in version 4 they never do."""
    case = one_each([0, 1], [2, 3], [[0, 11], [11, 0]], [0, 1, 0, 1])
    assert prefer_reliability(case, REJECTED).tolist() == [2, 3]
    assert prefer_reliability(case, VERSION_4_OPTION_II).tolist() == [3, 2]


def test_later_standbys_prefer_traffic() -> None:
    """KIP-925 version 4, option II: once enough standbys are reliable, the next ones go where they read least."""
    case = one_each([0, 1], [2, 3], [[0, 1], [1, 0]], [0, 1, 0, 1])
    later = VERSION_4_OPTION_II.later
    assert prefer_reliability(case, Reliability(first=later, later=later)).tolist() == [2, 3]
    assert later == Weights(traffic=1_000_000, same_rack=1)


@pytest.mark.parametrize("reliability", [VERSION_4_OPTION_II, REJECTED])
def test_there_is_always_an_answer(reliability: Reliability) -> None:
    """KIP-925, 8.A doubts that each flow has a solution: it has one, and no task is twice on one client."""
    dice = np.random.default_rng(1)
    for _ in range(20):
        clients, tasks, each = 6, 12, 2
        active = dice.integers(0, clients, tasks)
        shifts = np.array([dice.permutation(clients - 1)[:each] + 1 for _ in range(tasks)])
        case = unrestrained(
            task=np.repeat(np.arange(tasks, dtype=np.int32), each),
            client=((active[:, np.newaxis] + shifts) % clients).ravel().astype(np.int32),
            remote=np.arange(tasks, dtype=np.int32),
            remotes=dice.integers(0, 4, (tasks, 3)),
            group=np.arange(clients, dtype=np.int32),
            rack=np.arange(clients, dtype=np.int32) % 3,
            fixed_task=np.arange(tasks, dtype=np.int32),
            fixed_client=active.astype(np.int32),
        )
        placed = prefer_reliability(case, reliability)
        places = [*zip(case.task.tolist(), placed.tolist(), strict=True), *enumerate(active.tolist())]
        assert len(set(places)) == len(places)
        assert np.array_equal(np.bincount(placed, minlength=clients), case.seats)
