"""Computes loads if balance comes second: the least unequal loads among all minimum-cost flows.

The minimum-cost flows are exactly the flows that fill the arcs with negative reduced cost, leave those with positive
reduced cost empty, and are free elsewhere. So they are the flows of a smaller network, and `assignors.balance` finds
the least unequal of them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from samerack.assignors.balance import Spread, Ways, least_unequal_loads
from samerack.assignors.model import NOBODY, Int64Array
from samerack.assignors.solvers import Network, reduced_costs, solve


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
    network = Network(
        supply=np.append(ways.supply, -total),
        tail=np.concatenate([ways.tail, ways.group]).astype(np.int32),
        head=np.concatenate([ways.head, np.full(groups, nodes)]).astype(np.int32),
        capacity=np.concatenate([ways.limit, room]),
        costs=np.concatenate([cost, np.zeros(groups, np.int64)])[np.newaxis],
    )
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
