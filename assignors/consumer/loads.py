"""Computes how many partitions each member gets: a fair share, or more where that reduces cross-rack reads.

Where balance comes second, the loads are the least unequal among all minimum-cost flows. These are exactly the flows
that fill the arcs with negative reduced cost, leave those with positive reduced cost empty, and are free elsewhere. So
they are the flows of a smaller network, and `assignors.balance` finds the least unequal of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from samerack.assignors.arrays import combine, first_of_each, ranges
from samerack.assignors.balance import Spread, Ways, least_unequal, least_unequal_loads
from samerack.assignors.consumer.locality import Locality
from samerack.assignors.problem import NOBODY, Int32Array, Int64Array, Problem
from samerack.assignors.solvers import Network, reduced_costs, solve


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedMembers:
    """The group as kinds of partitions and groups of members.

    Attributes:
        kind: [P] partitions of topics with equal subscribers have the same kind.
        supply: [K] number of partitions of each kind.
        edge_kind: [E] a kind that a subscription contains.
        edge_subscription: [E] the subscription.
        members: [S] number of members with each subscription.
        near: columns of members, and prices of partitions there.
    """

    kind: Int32Array
    supply: Int64Array
    edge_kind: Int64Array
    edge_subscription: Int64Array
    members: Int64Array
    near: Locality


def fair_loads(group: GroupedMembers) -> Spread:
    """Compute the least unequal loads that the subscriptions allow, by subscription."""
    return least_unequal(
        supply=group.supply,
        edge_kind=group.edge_kind.astype(np.int32),
        edge_group=group.edge_subscription.astype(np.int32),
        edge_limit=group.supply[group.edge_kind],
        size=group.members,
    )


def skewed_loads(problem: Problem, group: GroupedMembers, fair: Spread, max_skew: int) -> tuple[Int32Array, Spread]:
    """Return [M] the group of each member (subscription and column), and the groups' loads with `max_skew`.

    The loads are the least unequal ones of least cross-rack weight.
    """
    columns = group.near.prices.shape[1]
    group_of, groups = combine(problem.subscription_of, len(problem.subscriptions), group.near.column, columns)
    some = first_of_each(group_of, groups)
    subscription, column = problem.subscription_of[some], group.near.column[some]
    share = fair.floor + (fair.extras[fair.band] > 0)
    pool_of, pools = combine(group.kind, len(group.supply), group.near.price, len(group.near.prices))
    one = first_of_each(pool_of, pools)
    kinds = len(group.supply)
    pool, hub_column = (index.ravel() for index in np.indices((pools, columns)))
    first = np.searchsorted(subscription, group.edge_subscription)
    parts = np.bincount(subscription, minlength=len(problem.subscriptions))[group.edge_subscription]
    edge_group = ranges(first, parts)
    edge_hub = np.repeat(group.edge_kind, parts) * columns + column[edge_group]
    hub_node, group_node = pools, pools + kinds * columns
    beyond = len(group.kind) + 1
    ways = Ways(
        supply=np.concatenate([np.bincount(pool_of, minlength=pools), np.zeros(kinds * columns + groups, np.int64)]),
        tail=np.concatenate([pool, hub_node + edge_hub]).astype(np.int32),
        head=np.concatenate([hub_node + group.kind[one][pool] * columns + hub_column, group_node + edge_group]).astype(
            np.int32
        ),
        limit=np.full(len(pool) + len(edge_hub), beyond),
        group=group_node + np.arange(groups),
        size=np.bincount(group_of, minlength=groups),
        most=share[subscription] + min(max_skew, len(group.kind)),
    )
    cost = np.concatenate([group.near.prices[group.near.price[one]].ravel(), np.zeros(len(edge_hub), np.int64)])
    return group_of, cheapest_spread(ways, cost)


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
