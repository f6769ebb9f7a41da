"""Both solvers find the minimum cost, and levels of cost are exact whether folded into one or solved one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.assignors import solvers
from samerack.assignors.problem import AssignmentError, Int64Array
from samerack.assignors.solvers import Network, residual_closure, solve
from tests.unit.assignors import groups


def network(supply: list[int], arcs: list[tuple[int, int, int, list[int]]]) -> Network:
    """A network of arcs (tail, head, capacity, costs)."""
    return Network(
        supply=np.array(supply, np.int64),
        tail=np.array([arc[0] for arc in arcs], np.int32),
        head=np.array([arc[1] for arc in arcs], np.int32),
        capacity=np.array([arc[2] for arc in arcs], np.int64),
        costs=np.array([arc[3] for arc in arcs], np.int64).T,
    )


@st.composite
def transports(draw: st.DrawFn, greatest: int = 3) -> Network:
    """Units on up to 4 sources for up to 3 sinks, with two levels of cost."""
    sources, sinks = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    supply = [draw(st.integers(0, 2)) for _ in range(sources)]
    takers = [draw(st.integers(0, sinks - 1)) for _ in range(sum(supply))]
    cost = st.integers(0, greatest)
    arcs = [(i, sources + j, 2, [draw(cost), draw(cost)]) for i in range(sources) for j in range(sinks)]
    return network(supply + [-takers.count(j) for j in range(sinks)], arcs)


def totals(question: Network, flow: Int64Array) -> list[int]:
    """The cost of each level."""
    totals: list[int] = (question.costs * flow).sum(axis=1).tolist()
    return totals


def min_totals(question: Network) -> list[int]:
    """The costs of the best flow, by brute force."""
    sinks = int((question.supply < 0).sum()) or 1
    sources = question.supply[: int(question.tail.max()) + 1]
    sinks = len(question.supply) - len(sources)
    splits = [
        [split for split in itertools.product(range(3), repeat=sinks) if sum(split) == supply] for supply in sources
    ]
    flows = [np.concatenate([np.array(split) for split in choice]) for choice in itertools.product(*splits)]
    arrive = -question.supply[len(sources) :]
    right = [flow for flow in flows if (flow.reshape(-1, sinks).sum(axis=0) == arrive).all()]
    return min(totals(question, flow) for flow in right)


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("limit", [solvers.LIMIT, 0], ids=["folded", "by level"])
@given(question=transports())
def test_flow_is_the_best_there_is(question: Network, limit: int, *, portable: bool) -> None:
    """Brute force finds no flow with a lower first cost, nor one with an equal first and a lower second cost."""
    with pytest.MonkeyPatch.context() as patch, groups.solver(portable=portable):
        patch.setattr(solvers, "LIMIT", limit)
        flow = solve(question)
    assert totals(question, flow) == min_totals(question)
    assert (flow >= 0).all()
    assert (flow <= question.capacity).all()


@given(transports(greatest=1 << 58))
def test_costs_beyond_the_solver(question: Network) -> None:
    """Costs beyond the 64 bits of the default solver are still exact."""
    assert totals(question, solve(question)) == min_totals(question)


def test_first_level_is_never_traded() -> None:
    """Any saving on the second level is worth less than one unit of the first."""
    question = network([1000, -1000], [(0, 1, 1000, [1, 0]), (0, 1, 1000, [0, 10**6])])
    assert solve(question).tolist() == [0, 1000]


def test_weights_do_not_grow_with_units() -> None:
    """Two flows between the same ends differ by one cycle: a million units need the weights of one."""
    for units in (1, 10**6):
        folded = solvers.fold(network([units, -units], [(0, 1, units, [1, 0]), (0, 1, units, [0, 7])]))
        assert folded is not None
        assert folded.tolist() == [8, 7]


@pytest.mark.parametrize("portable", [False, True])
def test_units_that_cannot_leave(*, portable: bool) -> None:
    """A network that is too narrow is an error, not a partial flow."""
    with groups.solver(portable=portable), pytest.raises(AssignmentError, match="no flow"):
        solve(network([3, -3], [(0, 1, 2, [0])]))
    with groups.solver(portable=portable), pytest.raises(AssignmentError, match="no arcs"):
        solve(network([3, -3], []))


def test_nothing_to_carry() -> None:
    """A network without units and arcs has an empty flow."""
    assert solve(network([0], [])).tolist() == []


def test_closure_goes_both_ways() -> None:
    """Units may follow an arc with free capacity, and an arc with units backwards, but no other."""
    reached = residual_closure(
        tail=np.array([0, 2, 1, 4], np.int32),
        head=np.array([1, 1, 3, 0], np.int32),
        more=np.array([True, False, False, True]),
        less=np.array([False, True, True, False]),
        start=np.array([True, False, False, False, False]),
    )
    assert reached.tolist() == [True, True, True, False, False]


@st.composite
def relays(draw: st.DrawFn) -> Network:
    """Units on 3 sources that go over 2 or 3 middle nodes to 3 sinks, each level charged on one layer of arcs."""
    middles = draw(st.integers(2, 3))
    takers = draw(st.lists(st.integers(0, 2), min_size=1, max_size=12))
    givers = [draw(st.integers(0, 2)) for _ in takers]
    cost = st.integers(0, 5)
    first = [(i, 3 + j, 4, [0, draw(cost), 0]) for i in range(3) for j in range(middles)]
    second = [(3 + i, 3 + middles + j, 12, [draw(cost), 0, draw(cost)]) for i in range(middles) for j in range(3)]
    wide = [(i, 3 + middles + j, 12, [5, 5, 5]) for i in range(3) for j in range(3)]
    supply = [givers.count(i) for i in range(3)] + [0] * middles + [-takers.count(j) for j in range(3)]
    return network(supply, [*first, *second, *wide])


@given(relays())
def test_folded_levels_are_the_levels_one_by_one(question: Network) -> None:
    """One cost with weights that bound a cycle, not all units, finds the totals that the levels have one by one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solvers, "LIMIT", 0)
        by_level = totals(question, solve(question))
    assert totals(question, solve(question)) == by_level
