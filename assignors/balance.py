"""Which loads are as even as possible when not everybody may take everything.

Loads of a flow form the bases of an integral polymatroid. Among them the least unequal vectors (least sum of squares,
which is also the least maximum, then the fewest members at it, and so on) are exactly those in which every member of a
band has the band's floor or one more, and the band as a whole its fixed total (Frank and Murota, "Decreasing
minimization on M-convex sets", 2022). So balance is settled before anything else is looked at: as a floor for each
group of members and a number of extra units for each band. What must not enter: racks, owners, any cost but balance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from assignors.arrays import dense_rank
from assignors.model import BoolArray, Int32Array, Int64Array
from assignors.solvers import Network, residual_closure, solve

ROUNDS_AT_MEAN: Final = 4
"""Rounds that cut bands at their mean, which settles most groups in two; later ones halve, which bounds the rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The least unequal loads of groups of interchangeable members.

    Attributes:
        floor: [S] units that every member of the group gets at least.
        band: [S] band of the group; each member gets its floor or, from the extras of its band, one more.
        extras: [B] members of the band that get one more.
        usable: [E] edges that may carry units in a least unequal flow; the others never do.
    """

    floor: Int64Array
    band: Int32Array
    extras: Int64Array
    usable: BoolArray


@dataclass(slots=True)
class _Bands:
    """Groups sorted into bands; every member of a band gets low..high units, the band together `total`."""

    of: Int32Array
    low: Int64Array
    high: Int64Array
    total: Int64Array

    def open(self) -> BoolArray:
        return self.high - self.low > 1


@dataclass(slots=True)
class _Edges:
    """Who may take what. An edge is settled once least unequal flows all use it alike: not at all, or to its limit."""

    kind: Int32Array
    group: Int32Array
    limit: Int64Array
    settled: BoolArray


def least_unequal(
    *, supply: Int64Array, edge_kind: Int32Array, edge_group: Int32Array, edge_limit: Int64Array, size: Int64Array
) -> Spread:
    """The least unequal way to hand out units of several kinds to groups of members.

    Args:
        supply: [K] units of each kind; each kind with units has an edge.
        edge_kind: [E] a kind that a group may take.
        edge_group: [E] the group.
        edge_limit: [E] units of the kind that the whole group may take.
        size: [S] members of each group, at least 1.

    Returns:
        The spread that all least unequal load vectors share.

    Raises:
        AssignmentError: the limits do not let every unit go to somebody.

    Complexity: a few flows over E + S arcs; their number grows with the logarithm of the greatest load.
    """
    total = int(supply.sum())
    if len(size) == 1:
        floor, extras = divmod(total, int(size[0]))
        return Spread(
            floor=np.array([floor]),
            band=np.zeros(1, np.int32),
            extras=np.array([extras]),
            usable=np.ones(len(edge_kind), np.bool_),
        )
    bands = _Bands(
        of=np.zeros(len(size), np.int32),
        low=np.zeros(1, np.int64),
        high=np.array([total]),
        total=np.array([total]),
    )
    edges = _Edges(kind=edge_kind, group=edge_group, limit=edge_limit, settled=np.zeros(len(edge_kind), np.bool_))
    usable = np.ones(len(edge_kind), np.bool_)
    rounds = 0
    while bands.open().any():
        cut = _cuts(bands, size, at_mean=rounds < ROUNDS_AT_MEAN)
        units, load, above = _split(supply, edges, size, bands, cut)
        edges.settled |= above[edges.kind] != above[len(supply) + edges.group]
        usable = ~edges.settled | (units > 0)
        bands = _refine(bands, cut, above[len(supply) :], load)
        rounds += 1
    members = np.bincount(bands.of, weights=size, minlength=len(bands.total)).astype(np.int64)
    return Spread(floor=bands.low[bands.of], band=bands.of, extras=bands.total - bands.low * members, usable=usable)


def _cuts(bands: _Bands, size: Int64Array, *, at_mean: bool) -> Int64Array:
    """[B] a load strictly between low and high of each open band; the high of the others."""
    members = np.bincount(bands.of, weights=size, minlength=len(bands.total)).astype(np.int64)
    mean = bands.total // np.maximum(members, 1)
    # above the mean first: if nobody needs more than one above it, the next round asks for the mean itself
    wanted = np.where(mean + 1 < bands.high, mean + 1, mean) if at_mean else (bands.low + bands.high) // 2
    return np.where(bands.open(), np.clip(wanted, bands.low + 1, bands.high - 1), bands.high)


def _split(
    supply: Int64Array, edges: _Edges, size: Int64Array, bands: _Bands, cut: Int64Array
) -> tuple[Int64Array, Int64Array, BoolArray]:
    """One flow with as few units above the cuts as can be.

    Whoever is above its band's cut then, and whoever could take a unit over from those, has at least the cut in every
    least unequal vector, and the others at most.

    Returns:
        [E] units on each edge, [S] units of each group, and [K + S] which kinds and groups are above.
    """
    kinds, groups, count = len(supply), len(size), len(edges.kind)
    group_node = np.arange(kinds, kinds + groups, dtype=np.int32)
    band_node = (kinds + groups + bands.of).astype(np.int32)
    within = size * cut[bands.of]
    network = Network(
        supply=np.concatenate([supply, np.zeros(groups, np.int64), -bands.total]),
        tail=np.concatenate([edges.kind, group_node, group_node]).astype(np.int32),
        head=np.concatenate([edges.group + kinds, band_node, band_node]).astype(np.int32),
        capacity=np.concatenate([edges.limit, within, size * (bands.high - cut)[bands.of]]),
        costs=np.concatenate([np.zeros(count + groups, np.int64), np.ones(groups, np.int64)])[np.newaxis],
    )
    flow = solve(network)
    load = flow[count : count + groups] + flow[count + groups :]
    start = np.zeros(len(network.supply), np.bool_)
    start[group_node] = load > within
    # settled edges lead from one band to another: what is above in its own band says nothing about the next
    handing = np.flatnonzero(~edges.settled)
    above = residual_closure(
        tail=network.tail[handing],
        head=network.head[handing],
        more=flow[handing] < network.capacity[handing],
        less=flow[handing] > 0,
        start=start,
    )
    return flow[:count], load, above[: kinds + groups]


def _refine(bands: _Bands, cut: Int64Array, above: BoolArray, load: Int64Array) -> _Bands:
    """Split every open band at its cut into those above and the rest."""
    parts = 2 * bands.of + above
    of, old = dense_rank(parts, 2 * len(bands.total))
    upper, parent = old % 2 == 1, old // 2
    closed = ~bands.open()[parent]
    return _Bands(
        of=of,
        low=np.where(upper & ~closed, cut[parent], bands.low[parent]),
        high=np.where(upper | closed, bands.high[parent], cut[parent]),
        total=np.bincount(of, weights=load, minlength=len(old)).astype(np.int64),
    )
