"""Solves a network with very many ends by the node prices of a sample of them.

An end is a node where units leave, with seats in front of it. A plan for a tenth of the ends, with a tenth of all
units, takes a fraction of the time, and nodes before the seats, which are few, have nearly the same prices in it. Given
these, the best response of each end is a matter of sorting, and gives the prices of all other nodes. By complementary
slackness a flow is optimal if it fills the arcs of negative reduced cost and leaves those of positive reduced cost
empty; to find it on the other arcs takes no costs, and the prices are corrected until there is one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from samerack.assignors.arrays import SCATTER, IntArray, ranges
from samerack.assignors.problem import AssignmentError, Int32Array, Int64Array
from samerack.assignors.solvers import (
    Network,
    fold,
    greatest_flow,
    has_ortools,
    left_over,
    node_prices,
    residual_closure,
    solve,
)

MIN_ARCS: Final = 30_000
"""Number of arcs below which a solver finishes within 0.1 s anyway."""
_SHARE: Final = 10
"""One end of so many is in the sample, up to a limit."""
_MAX_CORRECTIONS: Final = 8
"""One is usual where prices are not right at once; after these the whole network is solved."""
_MIN_ENDS: Final = 100
_MAX_ENDS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The last two layers of a network: seats, each with one arc to an end, and ends, where all units leave.

    Attributes:
        first_seat: node of the first seat; nodes before it are few.
        first_end: node of the first end; the rest of the nodes are ends.
        stratum: [X] a number for each end; a sample has some of each.
    """

    first_seat: int
    first_end: int
    stratum: Int32Array


def solve_by_sample(network: Network, ends: Ends) -> Int64Array:
    """Compute an optimal flow, as `solve`; the flow may be another one of equal cost.

    Args:
        network: the problem.
        ends: its last two layers.

    Returns:
        [A] units on each arc.

    Raises:
        AssignmentError: no flow takes all supplies to demands.

    Complexity: a flow to a tenth of the ends, two sorts of the arcs, and mostly one or two flows without costs.
    """
    count = len(ends.stratum)
    size = min(max(count // _SHARE, _MIN_ENDS), _MAX_ENDS)
    worth_it = len(network.tail) >= MIN_ARCS and size * 2 <= count
    folded = fold(network) if worth_it and has_ortools() else None
    if folded is None:
        return solve(network)
    question = replace(network, costs=folded[np.newaxis])
    try:
        first = _prices_of_sample(question, ends, size)
    except AssignmentError:  # the sample has no flow; the whole may have one
        return solve(network)
    flow = _complementary(question, _all_prices(question, ends, first))
    return solve(network) if flow is None else flow


def _prices_of_sample(network: Network, ends: Ends, size: int) -> Int64Array:
    """Return the prices of the nodes before the seats if the network had only some of the ends, [first seat].

    The units that enter are in proportion to what these ends take. So that all numbers are integers, they are
    multiplied by the number of all units.
    """
    kept = np.zeros(len(network.supply), np.bool_)
    kept[: ends.first_seat] = True
    kept[ends.first_end + _sample(ends.stratum, size)] = True
    behind = network.tail >= ends.first_seat
    kept[network.tail[behind]] = kept[network.head[behind]]
    arcs = kept[network.tail] & kept[network.head]
    number = np.cumsum(kept) - 1
    leaving = np.where(kept & (network.supply < 0), network.supply, 0)
    everything = int(network.supply[: ends.first_seat].sum())
    supply = np.where(network.supply > 0, network.supply * -int(leaving.sum()), leaving * everything)
    part = Network(
        supply=supply[kept],
        tail=number[network.tail[arcs]].astype(np.int32),
        head=number[network.head[arcs]].astype(np.int32),
        capacity=network.capacity[arcs] * everything,
        costs=network.costs[:, arcs],
    )
    return node_prices(part, solve(part))[: ends.first_seat]


def _sample(stratum: Int32Array, size: int) -> Int64Array:
    """Return some ends, the same share of every stratum but at least one, and not at equal distances."""
    scattered = np.argsort(np.arange(len(stratum)) * SCATTER % (1 << 32), kind="stable")
    order = scattered[np.argsort(stratum[scattered], kind="stable")]
    count = np.bincount(stratum)
    rank = ranges(np.zeros(len(count), np.int64), count)
    return order[rank * len(stratum) < size * np.repeat(count, count)]


def _all_prices(network: Network, ends: Ends, first: Int64Array) -> Int64Array:
    """Return the prices of all nodes, [N], from those before the seats: ends take the units of least price.

    A seat takes its cheapest units up to the capacity of its arc, and has the price of the last one; an end takes the
    cheapest units of its seats, and has the price of the last one. A seat is not more expensive than its end.
    """
    into = np.flatnonzero((network.head >= ends.first_seat) & (network.head < ends.first_end))
    behind = np.flatnonzero(network.tail >= ends.first_seat)
    seats = ends.first_end - ends.first_seat
    room, end_of = np.zeros(seats, np.int64), np.zeros(seats, np.int64)
    room[network.tail[behind] - ends.first_seat] = network.capacity[behind]
    end_of[network.tail[behind] - ends.first_seat] = network.head[behind] - ends.first_end
    seat = network.head[into] - ends.first_seat
    offer = first[network.tail[into]] + network.costs[0][into]
    at_seat, taken = _cheapest(seat, offer, network.capacity[into], room)
    at_end, _ = _cheapest(end_of[seat], offer, taken, -network.supply[ends.first_end :])
    return np.concatenate([first, np.minimum(at_seat, at_end[end_of]), at_end])


def _cheapest(
    taker: IntArray, price: Int64Array, offered: Int64Array, wanted: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Return the price of the last unit that each taker takes, and how many units of each offer it takes.

    Args:
        taker: [A] taker to whom the units are offered, each at least once.
        price: [A] price of a unit.
        offered: [A] number of units.
        wanted: [T] units that each taker takes, at most.

    Returns:
        [T] prices, that of the first unit for a taker who wants none, and [A] units.
    """
    order = np.lexsort((price, taker))
    ordered = taker[order]
    until = np.cumsum(offered[order])
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    before = until - offered[order]
    before -= np.repeat(before[starts], np.diff(starts, append=len(ordered)))
    taken = np.clip(wanted[ordered] - before, 0, offered[order])
    last = np.full(len(wanted), np.iinfo(np.int64).max // 4)
    last[ordered[starts]] = price[order][starts]
    some = taken > 0
    last[ordered[some]] = price[order][some]  # ascending: the last write wins
    units = np.empty(len(taken), np.int64)
    units[order] = taken
    return last, units


def _complementary(network: Network, price: Int64Array) -> Int64Array | None:
    """Return an optimal flow, [A], if these node prices need few corrections, else None.

    As long as the arcs without reduced cost do not carry all units, the nodes that units left over can reach become
    cheaper, by as much as opens one more arc to the others (the primal-dual method of Ford and Fulkerson).
    """
    for _ in range(_MAX_CORRECTIONS):
        reduced = network.costs[0] + price[network.tail] - price[network.head]
        free, filled = reduced == 0, reduced < 0
        flow = np.where(filled, network.capacity, 0)
        part = replace(
            network,
            supply=left_over(network, flow),
            tail=network.tail[free],
            head=network.head[free],
            capacity=network.capacity[free],
            costs=network.costs[:, free],
        )
        flow[free] = greatest_flow(part)
        start = left_over(network, flow) > 0
        if not start.any():
            return flow
        reached = residual_closure(
            tail=part.tail,
            head=part.head,
            more=flow[free] < part.capacity,
            less=flow[free] > 0,
            start=start,
        )
        here, there = reached[network.tail], reached[network.head]
        opening = np.concatenate([reduced[here & ~there & (reduced > 0)], -reduced[there & ~here & filled]])
        if not len(opening):
            return None
        price = price - reached * opening.min()
    return None
