"""Minimum-cost flow on arrays: one network type, two solvers, and exact lexicographic costs on top of both.

OR-Tools' cost-scaling solver is the default. networkx' network simplex checks it in tests, and is used on platforms
without a wheel of OR-Tools.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from samerack.assignors.arrays import IntArray
from samerack.assignors.problem import AssignmentError, BoolArray, Int32Array, Int64Array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import networkx as nx
    import numpy.typing as npt

LIMIT: Final = 1 << 62
"""Arc cost * 4 * (nodes + 1) stays below this: OR-Tools multiplies costs by the number of nodes, and prices add up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A minimum-cost flow problem: N nodes, A arcs, L costs per arc, the first of which matters most.

    Attributes:
        supply: [N] units that enter at the node, negative where they leave. The sum is 0.
        tail: [A] node where the arc starts.
        head: [A] node where it ends.
        capacity: [A] units that it may carry.
        costs: [L, A] cost of one unit, never negative; level 0 first, ties by level 1, and so on. No path through the
            network charges the same level on more than one arc: that bounds the total cost of a level.
    """

    supply: Int64Array
    tail: Int32Array
    head: Int32Array
    capacity: Int64Array
    costs: Int64Array


@dataclass(frozen=True, slots=True)
class Layer:
    """Arcs of one layer of a network: [A] nodes, and what each may carry and costs at each level; a number is for all.

    Levels that are left out cost nothing.
    """

    tail: IntArray
    head: IntArray
    capacity: IntArray | int
    costs: tuple[IntArray | int, ...] = ()


def network_of(supply: Int64Array, layers: Sequence[Layer]) -> Network:
    """Return the network with the arcs of these layers, in this order."""
    starts = np.cumsum([0, *(len(arcs.tail) for arcs in layers)]).tolist()

    def joined(values: Iterable[IntArray | int], dtype: type[np.int32 | np.int64]) -> npt.NDArray[Any]:
        full = np.empty(starts[-1], dtype)
        for value, begin, end in zip(values, starts, starts[1:], strict=False):
            full[begin:end] = value
        return full

    levels = max(1, *(len(arcs.costs) for arcs in layers))
    costs = [(*arcs.costs, *[0] * (levels - len(arcs.costs))) for arcs in layers]
    return Network(
        supply=supply,
        tail=joined((arcs.tail for arcs in layers), np.int32),
        head=joined((arcs.head for arcs in layers), np.int32),
        capacity=joined((arcs.capacity for arcs in layers), np.int64),
        costs=np.stack([joined(level, np.int64) for level in zip(*costs, strict=True)]),
    )


def solve_layers(supply: Int64Array, layers: Sequence[Layer]) -> list[Int64Array]:
    """Return the units on the arcs of each layer in an optimal flow; errors are those of `solve`."""
    flow = solve(network_of(supply, layers))
    return np.split(flow, np.cumsum([len(arcs.tail) for arcs in layers])[:-1])


@cache
def module_of_ortools(name: str) -> Any:
    """Return a module of OR-Tools without its type stubs (they refuse its own examples), or None if not installed.

    The first call loads it, with 12 MiB of its libraries: an agent that stands by solves nothing.
    """
    try:
        return importlib.import_module(f"ortools.{name}")
    except ImportError:
        return None


def min_cost_flow() -> Any:
    """Return OR-Tools' solver of flows, or None if it is not installed."""
    return module_of_ortools("graph.python.min_cost_flow")


def has_ortools() -> bool:
    """Return whether OR-Tools solves; networkx does in its place, at the same cost with other ties."""
    return min_cost_flow() is not None


class _OutOfRangeError(Exception):
    """These costs do not fit the solver's 64-bit arithmetic."""


def solve(network: Network) -> Int64Array:
    """Compute an optimal flow: least total cost of level 0, then of level 1, and so on; exact.

    If they fit in 64 bits, the levels are folded into one cost with integer weights: one unit of level k weighs more
    than the levels after it can cost on any cycle by which flows differ. Otherwise the levels are solved one after the
    other, each on the arcs that the optimal solutions of the levels before it leave free (complementary slackness). A
    single level beyond 64 bits is solved by networkx, whose integers have no bound.

    Args:
        network: the problem.

    Returns:
        [A] units on each arc.

    Raises:
        AssignmentError: no flow takes all supplies to demands.
    """
    if not network.tail.size:
        if network.supply.any():
            raise AssignmentError("no flow: there are supplies but no arcs")
        return np.zeros(0, np.int64)
    solver = _ortools_flow if has_ortools() else _networkx_flow
    folded = fold(network)
    if folded is not None:
        try:
            return solver(replace(network, costs=folded[np.newaxis]))
        except _OutOfRangeError:
            pass  # a node potential left 64 bits although the costs fit; potentials of single levels are smaller
    return _solve_by_level(network, solver)


def fold(network: Network) -> Int64Array | None:
    """Return one cost per arc that orders flows like all levels together, or None if it could leave 64 bits."""
    folded = np.zeros(len(network.tail), np.int64)
    greatest = rise = 0
    for number, level in enumerate(network.costs[::-1]):
        weight = rise + 1
        greatest += int(level.max()) * weight
        if greatest * 4 * (len(network.supply) + 1) >= LIMIT:
            return None
        folded = folded + level * weight
        if number + 1 < len(network.costs):
            rise += weight * _greatest_rise(network, level)
    return folded


def _greatest_rise(network: Network, level: Int64Array) -> int:
    """Return a bound for the cost at this level that one unit can add on its way around a simple cycle.

    A flow is optimal if no residual cycle improves it, so a unit of the level above need not weigh more than this. A
    simple cycle enters and leaves a node once: it has at most one arc with cost for each of their tails, and for each
    of their heads. The flow after it is a flow, too: its cost at this level is at most that of all units.
    """
    charged = np.flatnonzero(level)
    if not charged.size:
        return 0
    ends = [int((np.bincount(nodes[charged]) > 0).sum()) for nodes in (network.tail, network.head)]
    return int(level.max()) * min(*ends, int(network.supply[network.supply > 0].sum()))


def _solve_by_level(network: Network, solver: Callable[[Network], Int64Array]) -> Int64Array:
    capacity, fixed = network.capacity.copy(), np.zeros(len(network.tail), np.int64)
    supply = network.supply.copy()
    for level in network.costs:
        question = replace(network, supply=supply, capacity=capacity, costs=level[np.newaxis])
        try:
            flow = solver(question)
        except _OutOfRangeError:
            flow = _networkx_flow(question)
        reduced = reduced_costs(question, flow)
        full = reduced < 0
        fixed[full] += flow[full]
        np.subtract.at(supply, network.tail[full], flow[full])
        np.add.at(supply, network.head[full], flow[full])
        capacity = np.where(reduced == 0, capacity, 0)
    free = capacity > 0
    return fixed + np.where(free, flow, 0)


def reduced_costs(network: Network, flow: Int64Array) -> Int64Array:
    """Return the reduced cost of each arc at level 0 under optimal node prices, [A].

    All optimal flows fill the arcs below zero, leave those above zero empty, and are free on the others (complementary
    slackness).

    Args:
        network: the problem.
        flow: [A] a flow that is optimal at level 0.
    """
    price = node_prices(network, flow)
    reduced: Int64Array = network.costs[0] + price[network.tail] - price[network.head]
    return reduced


def node_prices(network: Network, flow: Int64Array) -> Int64Array:
    """Return optimal node prices at level 0, [N]: no arc with free capacity has a negative reduced cost.

    Args:
        network: the problem.
        flow: [A] a flow that is optimal at level 0.

    Bellman-Ford on the residual network, all arcs at once per round; one round more than the longest shortest path.
    """
    forward, backward = flow < network.capacity, flow > 0
    tail = np.concatenate([network.tail[forward], network.head[backward]])
    head = np.concatenate([network.head[forward], network.tail[backward]])
    cost = np.concatenate([network.costs[0][forward], -network.costs[0][backward]])
    price = np.zeros(len(network.supply), np.int64)
    while True:
        before = price.copy()
        np.minimum.at(price, head, before[tail] + cost)
        if np.array_equal(before, price):
            return price


def _ortools_flow(network: Network) -> Int64Array:
    solver = min_cost_flow().SimpleMinCostFlow()
    arcs = solver.add_arcs_with_capacity_and_unit_cost(network.tail, network.head, network.capacity, network.costs[0])
    solver.set_nodes_supplies(np.arange(len(network.supply), dtype=np.int32), network.supply)
    status = solver.solve()
    if status == solver.BAD_COST_RANGE:
        raise _OutOfRangeError
    if status != solver.OPTIMAL:
        raise AssignmentError(f"no flow: OR-Tools says {status.name}")
    flow: Int64Array = solver.flows(arcs)
    return flow


def _networkx_flow(network: Network) -> Int64Array:
    import networkx as nx  # noqa: PLC0415 - takes 20 MiB and 0.25 s, and OR-Tools nearly always does this work

    graph: nx.MultiDiGraph[int] = nx.MultiDiGraph()
    for node, supply in enumerate(network.supply.tolist()):
        graph.add_node(node, demand=-supply)
    arcs = zip(
        network.tail.tolist(), network.head.tolist(), network.capacity.tolist(), network.costs[0].tolist(), strict=True
    )
    for key, (tail, head, capacity, cost) in enumerate(arcs):
        graph.add_edge(tail, head, key=key, capacity=capacity, weight=cost)
    try:
        _, flow = nx.network_simplex(graph)
    except nx.NetworkXUnfeasible as cause:
        raise AssignmentError("no flow: networkx says infeasible") from cause
    result = np.zeros(len(network.tail), np.int64)
    for heads in flow.values():
        for keys in heads.values():
            for key, units in keys.items():
                result[key] = units
    return result


def residual_closure(
    *, tail: Int32Array, head: Int32Array, more: BoolArray, less: BoolArray, start: BoolArray
) -> BoolArray:
    """Return [N] true for `start` and all nodes that are reachable from it in the residual network.

    Args:
        tail: [A] node where the arc starts.
        head: [A] node where it ends.
        more: [A] whether the arc could carry more.
        less: [A] whether it could carry less.
        start: [N] nodes to start from.
    """
    begins = np.concatenate([tail[more], head[less]])
    ends = np.concatenate([head[more], tail[less]])
    reached = start.copy()
    while True:
        grown = reached.copy()
        grown[ends[reached[begins]]] = True
        if np.array_equal(grown, reached):
            return reached
        reached = grown
