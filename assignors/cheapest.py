"""Loads where balance comes second: the least unequal ones among all flows that cost least.

Flows of least cost are those that use full the arcs that all of them use full, leave empty what all of them leave
empty, and are free elsewhere; so they are flows again, and `assignors.balance` finds the least unequal of them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from assignors.balance import Spread, Ways, least_unequal_loads
from assignors.model import NOBODY, Int64Array
from assignors.solvers import Network, reduced_costs, solve


def cheapest_spread(ways: Ways, cost: Int64Array, *, portable: bool = False) -> Spread:
    """The least unequal loads of the groups' members among all flows of least cost.

    Args:
        ways: how units get to the groups; its arcs' limits exceed what they can carry, or are meant.
        cost: [E] cost of a unit on each arc, not negative.
        portable: solve with networkx even where OR-Tools is there.

    Returns:
        The loads that all of these flows share; `usable` says nothing here.

    Raises:
        AssignmentError: no flow fits.

    Complexity: one flow of least cost, Bellman-Ford over its arcs, and those of `least_unequal_loads`.
    """
    nodes, groups, count = len(ways.supply), len(ways.size), len(ways.tail)
    total = int(ways.supply.sum())
    room = np.full(groups, total + 1) if ways.most is None else ways.size * ways.most
    network = Network(
        supply=np.append(ways.supply, -total),
        tail=np.concatenate([ways.tail, ways.group]).astype(np.int32),
        head=np.concatenate([ways.head, np.full(groups, nodes)]).astype(np.int32),
        capacity=np.concatenate([ways.limit, room]),
        costs=np.concatenate([cost, np.zeros(groups, np.int64)])[np.newaxis],
    )
    reduced = reduced_costs(network, solve(network, portable=portable))
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
