"""Computes the most even loads of members that may not all take every unit.

The load vectors of a flow are the bases of an integral polymatroid. Among them the least unequal ones (least sum of
squares, which is also the least maximum, then the fewest members at it, and so on) are exactly those in which every
member of a band has the band's floor or one more, and the whole band has its fixed total (Frank and Murota, "Decreasing
minimization on M-convex sets", 2022). So balance is decided before any other objective: as a floor for each group of
members and a number of extra units for each band.

The same holds for the loads of the minimum-cost flows, so balance can also be the second objective
(`cheapest_spread`). These are exactly the flows that fill the arcs with negative reduced cost, leave those with
positive reduced cost empty, and are free elsewhere: the flows of a smaller network.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from samerack.assignors.arrays import dense_rank, ranges, stable_order
from samerack.assignors.problem import NOBODY, AssignmentError, BoolArray, Int32Array, Int64Array
from samerack.assignors.solvers import Layer, network_of, reduced_costs, residual_closure, solve, solve_layers

ROUNDS_AT_MEAN: Final = 4
"""Rounds that cut bands at their mean, which settles most groups in two; later rounds halve, to bound their number."""
DENSE: Final = 50_000
"""Number of edges above which a few of them are tried first."""
A_FEW: Final = 24
"""Edges of each group to try first: enough to connect random subscriptions well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The least unequal loads of groups of interchangeable members.

    Attributes:
        floor: [S] least number of units of every member of the group.
        band: [S] band of the group; each member gets its floor or, from the extras of its band, one more.
        extras: [B] members of the band that get one more.
        usable: [E] arcs that may carry units in a least unequal flow; the others never do.
        enough: [E] arcs that suffice for some least unequal flow, where a few of many were tried and do; else None.
    """

    floor: Int64Array
    band: Int32Array
    extras: Int64Array
    usable: BoolArray
    enough: BoolArray | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """The network through which units reach groups of interchangeable members: N nodes, E arcs, S nodes are groups.

    Attributes:
        supply: [N] units that enter at the node, negative where they leave for good; the rest leave at groups.
        tail: [E] node where the arc starts.
        head: [E] node where it ends.
        limit: [E] its capacity.
        group: [S] node of each group.
        size: [S] members of each group, at least 1.
        most: [S] greatest number of units of one member, or None for no limit.
        pinned: [S] fixed number of units of every member, NOBODY where it is open; None where all are open.
    """

    supply: Int64Array
    tail: Int32Array
    head: Int32Array
    limit: Int64Array
    group: Int64Array
    size: Int64Array
    most: Int64Array | None = None
    pinned: Int64Array | None = None


@dataclass(slots=True)
class _Bands:
    """Groups sorted into bands; every member of a band gets low..high units, the whole band gets `total`."""

    of: Int32Array
    low: Int64Array
    high: Int64Array
    total: Int64Array

    def open(self) -> BoolArray:
        return self.high - self.low > 1


def least_unequal(
    *, supply: Int64Array, edge_kind: Int32Array, edge_group: Int32Array, edge_limit: Int64Array, size: Int64Array
) -> Spread:
    """Compute the least unequal loads when units of several kinds are given to groups of members.

    Args:
        supply: [K] units of each kind; each kind with units has an edge.
        edge_kind: [E] a kind that a group may take.
        edge_group: [E] the group.
        edge_limit: [E] units of the kind that the whole group may take.
        size: [S] members of each group, at least 1.

    Returns:
        The spread that all least unequal load vectors share.

    Raises:
        AssignmentError: the limits do not let every unit be placed.

    Complexity: a few flows over E + S arcs; their number grows with the logarithm of the greatest load.
    """
    if len(size) == 1:
        floor, extras = divmod(int(supply.sum()), int(size[0]))
        return Spread(
            floor=np.array([floor]),
            band=np.zeros(1, np.int32),
            extras=np.array([extras]),
            usable=np.ones(len(edge_kind), np.bool_),
        )
    if len(edge_kind) > DENSE:
        even = _even(supply, edge_kind, edge_group, edge_limit, size)
        if even is not None:
            return even
    kinds, groups = len(supply), len(size)
    return least_unequal_loads(
        Ways(
            supply=np.concatenate([supply, np.zeros(groups, np.int64)]),
            tail=edge_kind,
            head=(edge_group + kinds).astype(np.int32),
            limit=edge_limit,
            group=np.arange(kinds, kinds + groups),
            size=size,
        )
    )


def _even(
    supply: Int64Array, edge_kind: Int32Array, edge_group: Int32Array, edge_limit: Int64Array, size: Int64Array
) -> Spread | None:
    """Return equal loads (or one more), found with a few edges of each group; None where these edges do not suffice.

    If they suffice, all such loads are least unequal, so there is one band and every edge is usable.
    """
    enough = _a_few(edge_group, len(size))
    floor, extras = divmod(int(supply.sum()), int(size.sum()))
    kinds, groups = len(supply), len(size)
    node = np.arange(kinds, kinds + groups)
    edges = Layer(edge_kind[enough], edge_group[enough] + kinds, edge_limit[enough])
    extra = Layer(node, np.full(groups, kinds + groups), size)
    try:
        solve_layers(np.concatenate([supply, -floor * size, [-extras]]), (edges, extra))
    except AssignmentError:
        return None
    return Spread(
        floor=np.full(groups, floor),
        band=np.zeros(groups, np.int32),
        extras=np.array([extras]),
        usable=np.ones(len(edge_kind), np.bool_),
        enough=enough,
    )


def _a_few(edge_group: Int32Array, groups: int) -> BoolArray:
    """Return some edges of each group, spread over its edges, and different ones for neighbouring groups."""
    count = np.bincount(edge_group, minlength=groups)
    order = stable_order(edge_group, groups)
    rank = np.empty(len(edge_group), np.int64)
    rank[order] = ranges(np.zeros(groups, np.int64), count)
    step = np.maximum(1, count // A_FEW)[edge_group]
    few: BoolArray = (rank + edge_group) % step == 0
    return few


def least_unequal_loads(ways: Ways) -> Spread:
    """Compute the least unequal loads of the groups' members that a flow can have.

    Raises:
        AssignmentError: no flow is feasible.

    Complexity: a few flows over E + S arcs; their number grows with the logarithm of the greatest load.
    """
    bands = _first_bands(ways)
    # an arc is settled once all least unequal flows use it in the same way: not at all, or to its limit
    settled = np.zeros(len(ways.tail), np.bool_)
    usable = np.ones(len(ways.tail), np.bool_)
    rounds = 0
    while bands.open().any():
        cut = _cuts(bands, ways.size, at_mean=rounds < ROUNDS_AT_MEAN)
        units, load, above = _split(ways, settled, bands, cut)
        settled |= above[ways.tail] != above[ways.head]
        usable = ~settled | (units > 0)
        bands = _refine(bands, cut, above[ways.group], load, ways.most)
        rounds += 1
    members = np.bincount(bands.of, weights=ways.size, minlength=len(bands.total)).astype(np.int64)
    return Spread(floor=bands.low[bands.of], band=bands.of, extras=bands.total - bands.low * members, usable=usable)


def cheapest_spread(ways: Ways, cost: Int64Array) -> Spread:
    """Compute the least unequal loads of the groups' members among all minimum-cost flows.

    Args:
        ways: how units get to the groups; the limit of an arc is either real or greater than any flow on it.
        cost: [E] cost of a unit on each arc, not negative.

    Returns:
        The least unequal loads among these flows; `usable` has no meaning here.

    Raises:
        AssignmentError: no flow is feasible.

    Complexity: one minimum-cost flow, Bellman-Ford over its arcs, and the flows of `least_unequal_loads`.
    """
    nodes, groups, count = len(ways.supply), len(ways.size), len(ways.tail)
    total = int(ways.supply.sum())
    room = np.full(groups, total + 1) if ways.most is None else ways.size * ways.most
    leave = Layer(ways.group, np.full(groups, nodes), room)
    network = network_of(np.append(ways.supply, -total), (Layer(ways.tail, ways.head, ways.limit, (cost,)), leave))
    reduced = reduced_costs(network, solve(network))
    free, full = reduced[:count] == 0, reduced[:count] < 0
    supply = ways.supply.copy()
    np.subtract.at(supply, ways.tail[full], ways.limit[full])
    np.add.at(supply, ways.head[full], ways.limit[full])
    leaving = reduced[count:]
    most = np.full(groups, total) if ways.most is None else ways.most
    return least_unequal_loads(
        replace(
            ways,
            supply=supply,
            tail=ways.tail[free],
            head=ways.head[free],
            limit=ways.limit[free],
            pinned=np.where(leaving == 0, NOBODY, np.where(leaving < 0, most, 0)),
        )
    )


def _first_bands(ways: Ways) -> _Bands:
    """Return one band of all open groups, and one closed band for each pinned load."""
    pinned = np.full(len(ways.size), NOBODY) if ways.pinned is None else ways.pinned
    of, value = dense_rank(pinned - NOBODY, int(pinned.max(initial=0)) + 2)
    value += NOBODY
    members = np.bincount(of, weights=ways.size, minlength=len(value)).astype(np.int64)
    total = int(ways.supply.sum())
    is_open = value == NOBODY
    rest = total - int((value * members)[~is_open].sum())
    greatest = rest if ways.most is None else min(rest, int(ways.most.max()))
    return _Bands(
        of=of,
        low=np.where(is_open, 0, value),
        high=np.where(is_open, greatest, value),
        total=np.where(is_open, rest, value * members),
    )


def _cuts(bands: _Bands, size: Int64Array, *, at_mean: bool) -> Int64Array:
    """Return [B] a load strictly between low and high for each open band, and high for the others."""
    members = np.bincount(bands.of, weights=size, minlength=len(bands.total)).astype(np.int64)
    mean = bands.total // np.maximum(members, 1)
    # above the mean first: if no member needs more than one above it, the next round cuts at the mean itself
    wanted = np.where(mean + 1 < bands.high, mean + 1, mean) if at_mean else (bands.low + bands.high) // 2
    return np.where(bands.open(), np.clip(wanted, bands.low + 1, bands.high - 1), bands.high)


def _split(ways: Ways, settled: BoolArray, bands: _Bands, cut: Int64Array) -> tuple[Int64Array, Int64Array, BoolArray]:
    """Solve one flow with as few units above the cuts as possible.

    A group that is then above its band's cut, or that could take over a unit from such a group, has at least the cut
    (or the most that it may have) in every least unequal vector; the others have at most the cut.

    Returns:
        [E] units on each arc, [S] units of each group, and [N] which nodes are above.
    """
    nodes, groups, count = len(ways.supply), len(ways.size), len(ways.tail)
    band_node = (nodes + bands.of).astype(np.int32)
    group_node = ways.group.astype(np.int32)
    within, beyond = ways.size * cut[bands.of], ways.size * (bands.high - cut)[bands.of]
    if ways.most is not None:
        within = np.minimum(within, ways.size * ways.most)
        beyond = np.minimum(beyond, ways.size * ways.most - within)
    network = network_of(
        np.concatenate([ways.supply, -bands.total]),
        (
            Layer(ways.tail, ways.head, ways.limit),
            Layer(group_node, band_node, within),
            Layer(group_node, band_node, beyond, (1,)),
        ),
    )
    flow = solve(network)
    over = flow[count + groups :]
    start = np.zeros(len(network.supply), np.bool_)
    start[group_node] = over > 0
    # settled arcs lead from one band to another: a node above the cut in its band implies nothing for the next band
    handing = np.flatnonzero(~settled)
    above = residual_closure(
        tail=network.tail[handing],
        head=network.head[handing],
        more=flow[handing] < network.capacity[handing],
        less=flow[handing] > 0,
        start=start,
    )
    return flow[:count], flow[count : count + groups] + over, above[:nodes]


def _refine(bands: _Bands, cut: Int64Array, above: BoolArray, load: Int64Array, most: Int64Array | None) -> _Bands:
    """Split every open band at its cut into the groups above and the rest; full groups get bands of their own.

    A group counts as full if it is above and its members' limit is not beyond the cut: each has as many as it may.
    """
    part = 2 * bands.of + above
    of, old = dense_rank(part, 2 * len(bands.total))
    upper, parent = old % 2 == 1, old // 2
    closed = ~bands.open()[parent]
    refined = _Bands(
        of=of,
        low=np.where(upper & ~closed, cut[parent], bands.low[parent]),
        high=np.where(upper | closed, bands.high[parent], cut[parent]),
        total=np.bincount(of, weights=load, minlength=len(old)).astype(np.int64),
    )
    if most is None:
        return refined
    short = above & bands.open()[bands.of] & (most <= cut[bands.of])
    return _with_full(refined, short, most, load)


def _with_full(bands: _Bands, full: BoolArray, most: Int64Array, load: Int64Array) -> _Bands:
    """Return the bands with each full group (all members at their limit) moved to a closed band of its limit."""
    if not full.any():
        return bands
    keys = np.where(full, len(bands.total) + most, bands.of)
    of, old = dense_rank(keys, int(keys.max()) + 1)
    kept = np.minimum(old, len(bands.total) - 1)
    is_full = old >= len(bands.total)
    value = old - len(bands.total)
    return replace(
        bands,
        of=of,
        low=np.where(is_full, value, bands.low[kept]),
        high=np.where(is_full, value, bands.high[kept]),
        total=np.bincount(of, weights=load, minlength=len(old)).astype(np.int64),
    )
