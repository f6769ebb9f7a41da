"""How many members are wanted in which rack: stories, and brute force over all numbers of members of small groups."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.problem import NOBODY
from samerack.cluster.view import NoRack
from samerack.common.weights import FULL_LOAD
from samerack.planning import members_wanted as module
from samerack.planning.members_wanted import RackMembers, members_wanted
from tests.unit.planning.test_rack_spread import BROKERS, cluster, problem

FULL = 20
"""What a plan gives a member at most, in these tests."""
CAPACITY = FULL / FULL_LOAD


def wanted(
    replicas: Sequence[Sequence[int]], racks: str, loads: Sequence[float], *, any_replica: bool = True
) -> dict[str, int] | None:
    """How many members are wanted by rack, of members in these racks."""
    view = cluster(replicas)
    found = members_wanted(problem(view, racks, any_replica=any_replica), view, rates(loads), CAPACITY)
    return None if found is None else {one.rack: one.wanted for one in found}


def rates(loads: Sequence[float]) -> dict[tuple[str, int], float]:
    """The rates of the partitions of `t`."""
    return {("t", at): float(load) for at, load in enumerate(loads)}


def test_a_rack_gets_members_for_what_is_near_it() -> None:
    """Partitions with one replica are read where it is; what a rack has too many of goes."""
    assert wanted(((1,), (1,), (1,), (2,), (3,)), "abccc", [15, 15, 15, 10, 10]) == {"a": 3, "b": 1, "c": 1}


def test_partitions_do_not_divide() -> None:
    """Three times 12 of 20 are less than two members' loads, and need three."""
    assert wanted(((1,),) * 3, "a", [12, 12, 12]) == {"a": 3, "b": 0, "c": 0}


def test_a_heavy_partition_has_a_member_of_its_own() -> None:
    """Whatever it weighs; the others share what is beside it."""
    assert wanted(((1,),) * 3, "a", [100, 5, 15]) == {"a": 2, "b": 0, "c": 0}


def test_members_stay_where_that_costs_none() -> None:
    """Where every rack has every replica, as many as now do it where they are."""
    everywhere = ((1, 2, 3),) * 6
    assert wanted(everywhere, "aab", [9, 9, 9, 9, 9, 9]) == {"a": 2, "b": 1, "c": 0}


def test_a_rack_with_members_keeps_one() -> None:
    """Also where nothing is near it, and where one member could read everything."""
    assert wanted(((1,), (1,)), "aabb", [1, 1]) == {"a": 1, "b": 1, "c": 0}
    assert wanted(((1, 2, 3),) * 2, "abc", [0, 0]) == {"a": 1, "b": 1, "c": 1}


def test_members_that_read_leaders_are_near_leaders() -> None:
    """Their replicas in other racks do not count; nor where only some read any replica."""
    followed = ((1, 2, 3),) * 4
    assert wanted(followed, "ac", [15] * 4, any_replica=False) == {"a": 4, "b": 0, "c": 1}
    view = cluster(followed)
    made = problem(view, "ac")
    some = replace(made, reads_any_replica=np.array([True, False]))
    found = members_wanted(some, view, rates([15] * 4), CAPACITY)
    assert found is not None
    assert [one.wanted for one in found] == [4, 0, 1]


def test_what_there_is_now_is_beside_what_is_wanted() -> None:
    """Racks are those of the brokers, by name."""
    view = cluster(((1,), (3,)))
    assert members_wanted(problem(view, "aa"), view, rates([1, 1]), CAPACITY) == (
        RackMembers(rack="a", members=2, wanted=1),
        RackMembers(rack="b", members=0, wanted=0),
        RackMembers(rack="c", members=0, wanted=1),
    )


@pytest.mark.parametrize("capacity", [None, 0.0, -1.0, float("nan"), float("inf")])
def test_without_a_capacity_nothing_is_known(capacity: float | None) -> None:
    """A capacity that is none is not known."""
    view = cluster(((1,),))
    assert members_wanted(problem(view, "a"), view, rates([1]), capacity) is None


def test_what_is_not_known_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Racks of members and brokers, loads, leaders, and how members with several subscriptions are to be counted."""
    replicas = ((1,), (2,))
    assert wanted(replicas, "ab", [1, 1]) is not None
    assert wanted(replicas, "ab", [1]) is None
    assert wanted(replicas, "ax", [1, 1]) is None
    assert wanted((), "ab", []) is None
    for brokers in ({**BROKERS, 2: NoRack.UNSET}, {**BROKERS, 2: NoRack.UNKNOWN}, {1: "a"}):
        view = cluster(replicas, brokers)
        assert members_wanted(problem(view, "aa"), view, rates([1, 1]), CAPACITY) is None
    view = cluster(replicas)
    nowhere = problem(view, [None, "a"])
    assert members_wanted(nowhere, view, rates([1, 1]), CAPACITY) is None
    leaderless = replace(problem(view, "ab", any_replica=False), leader_rack=np.array([0, NOBODY], np.int32))
    assert members_wanted(leaderless, view, rates([1, 1]), CAPACITY) is None
    two = build_problem(
        topics={"t": [["a"], ["b"]], "u": []},
        members=[
            MemberInput(id="one", topics=("t",), rack="a", reads_any_replica=True),
            MemberInput(id="two", topics=("t", "u"), rack="b", reads_any_replica=True),
        ],
    )
    assert members_wanted(two, view, rates([1, 1]), CAPACITY) is None
    monkeypatch.setattr(module, "module_of_ortools", lambda _: None)
    assert wanted(replicas, "ab", [1, 1]) is None


def test_a_group_without_members_is_unknown() -> None:
    """How they read, and what they subscribe to, is not known."""
    view = cluster(((1,),))
    assert members_wanted(problem(view, ""), view, rates([1]), CAPACITY) is None


def test_a_large_group_needs_little_more_than_its_load() -> None:
    """A thousand partitions with two replicas in three racks: no member more than their load and one."""
    rng = np.random.default_rng(7)
    replicas = [(at % 3 + 1, (at + 1) % 3 + 1) for at in range(1000)]
    loads = rng.lognormal(0, 1, 1000)
    loads *= 50.5 * FULL / loads.sum()
    found = wanted(replicas, "aaab", loads.tolist())
    assert found is not None
    assert sum(found.values()) in (51, 52)


def test_many_partitions_of_more_than_half_a_member() -> None:
    """Each needs its own, which their sum does not show; those that are there stay."""
    racks = "a" * 50 + "b" * 30 + "c" * 10
    assert wanted(((1, 2, 3),) * 90, racks, [12] * 90) == {"a": 50, "b": 30, "c": 10}


def test_few_partitions_are_tried_in_all_numbers_of_members() -> None:
    """No four members can have them, in any racks; of five, those with the fewest changes are the last to be tried."""
    replicas = ((1, 2), (1, 2), (1,), (1, 2), (1, 3), (1, 2, 3))
    assert wanted(replicas, "aa", [10, 11, 0, 11, 11, 11]) == {"a": 5, "b": 0, "c": 0}


replica_lists = st.lists(st.sampled_from([(1,), (2,), (3,), (1, 2), (2, 3), (1, 3), (1, 2, 3)]), min_size=1, max_size=6)


@settings(deadline=None)
@given(st.data())
def test_no_fewer_members_and_no_fewer_changes_do(data: st.DataObject) -> None:
    """The numbers are the best of all that brute force finds, and partitions fit them."""
    replicas = data.draw(replica_lists)
    loads = data.draw(st.lists(st.integers(0, 25), min_size=len(replicas), max_size=len(replicas)))
    racks = data.draw(st.text("abc", min_size=1, max_size=5))
    found = wanted(replicas, racks, loads)
    assert found is not None
    now = [racks.count(rack) for rack in "abc"]
    numbers = tuple(found[rack] for rack in "abc")
    assert all(number >= min(1, here) for number, here in zip(numbers, now, strict=True))
    sizes = [min(load, FULL) for load in loads]
    assert fits(replicas, sizes, numbers)
    best = rank(numbers, now)
    for other in itertools.product(*(range(min(1, here), best[0] + 1) for here in now)):
        assert rank(other, now) >= best or not fits(replicas, sizes, other)


def rank(numbers: Sequence[int], now: Sequence[int]) -> tuple[int, int]:
    """Members in total, and changes."""
    return sum(numbers), sum(abs(number - here) for number, here in zip(numbers, now, strict=True))


def fits(replicas: Sequence[Sequence[int]], sizes: Sequence[int], numbers: Sequence[int]) -> bool:
    """Whether some plan with so many members reads all near, and gives none more than it may have: all are tried."""
    places = [rack for rack, number in enumerate(numbers, start=1) for _ in range(number)]
    left = [FULL] * len(places)
    order = sorted(range(len(sizes)), key=lambda at: -sizes[at])

    def place(at: int) -> bool:
        if at == len(order):
            return True
        tried = set()
        for seat, rack in enumerate(places):
            size = sizes[order[at]]
            if rack not in replicas[order[at]] or left[seat] < size or (rack, left[seat]) in tried:
                continue
            tried.add((rack, left[seat]))
            left[seat] -= size
            if place(at + 1):
                return True
            left[seat] += size
        return False

    return place(0)


@given(st.permutations(range(6)), st.lists(st.integers(0, 25), min_size=6, max_size=6))
@settings(deadline=None, max_examples=20)
def test_the_order_of_members_and_replicas_does_not_matter(order: Sequence[int], loads: Sequence[int]) -> None:
    """Equal groups have equal answers."""
    replicas = ((1, 2), (2, 3), (3,), (1, 2, 3), (2,), (1, 3))
    racks = "aabccc"
    turned = [tuple(reversed(one)) for one in replicas]
    assert wanted(replicas, racks, loads) == wanted(turned, "".join(racks[at] for at in order), loads)
