"""The assignor of samerack: optimal in balance, then cross-rack weight, then moves.

Objective, lexicographic and exact:

1. balance: the least unequal loads that the subscriptions allow (least sum of squares),
2. cross-rack weight: partitions, times their weights, read by a member whose rack has no replica that may serve it,
3. moves: partitions whose new owner is not the current one.

Among the plans that are equal in all of these, topics are spread over members: minimal are the largest number of a
topic's partitions on one member, then the sum of squares of all such numbers; then weights are spread, until no
exchange of two partitions improves the plan (`assignors.consumer.spread`). In large groups exchanges spread topics
too, which is exact for new groups whose members are alike.

With `max_skew` k above 0 a member may have up to k partitions more than its fair share, which is the most that it has
in any plan of least unequal loads. Among all plans within that limit, again lexicographic and exact:

1. cross-rack weight,
2. balance: the least sum of squares,
3. moves.

With `keep_copartitioned` whole bundles are balanced (`assignors.consumer.copartition`). Where partitions have loads, or
members capacities or limits, members are balanced by these (`assignors.consumer.load.plan`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from samerack.assignors.arrays import combine, first_of_each, ranges, row_codes
from samerack.assignors.balance import Spread, Ways, cheapest_spread, least_unequal
from samerack.assignors.consumer.copartition import assign_bundles
from samerack.assignors.consumer.kafkas import member_order
from samerack.assignors.consumer.load.plan import assign_by_load
from samerack.assignors.consumer.locality import Locality, locality
from samerack.assignors.consumer.spread import Room, spread_exactly, spread_topics
from samerack.assignors.flow import Seats, Units, one_claim_each, place
from samerack.assignors.problem import NOBODY, AssignmentError, BoolArray, Int32Array, Int64Array, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The assignor's options of one group.

    Attributes:
        keep_copartitioned: topics with equal partition counts and equal subscribers are assigned together: partition i
            of all of them goes to one member.
        stickiness: whether current owners count; without it every run ignores them (KIP-54, "Alternatives Yet to be
            Considered": fairness only).
        near_first: with `keep_copartitioned`: least cross-rack weight comes before spreading extra bundles over all
            members; each league by itself is still even, as with Kafka's range.
        max_skew: how many partitions more than its fair share a member may have, so that fewer are read across racks;
            0 for none. Not allowed with `keep_copartitioned`.
        balance_tolerance: where the problem has loads, capacities or limits: how far the most loaded member may be
            above the least possible, as a share of that, so that fewer bytes are read across racks.
        full_load: load, relative to its capacity, to which any member may be filled for that, though less is possible.
        spread: whether topics and weights are spread over members, among plans that are equal in the objective. A
            caller that only wants to know the cost saves half of the time without it.
    """

    keep_copartitioned: bool = False
    near_first: bool = False
    stickiness: bool = True
    max_skew: int = 0
    balance_tolerance: float = 0.1
    full_load: float = 0.0
    spread: bool = True


DEFAULTS = Options()


def assign(problem: Problem, options: Options = DEFAULTS) -> Int32Array:
    """Compute the optimal assignment (objective above); its goals include those of KIP-54 and KIP-881.

    It depends only on the group: equal problems get equal plans, static members are ordered by their group instance id,
    and a second run on its own output moves nothing.

    Args:
        problem: the group, with current owners.
        options: the group's options.

    Returns:
        [P] owner of each partition, NOBODY if no member subscribes to the topic.

    Raises:
        AssignmentError: the sum of the weights is too large, or the options contradict each other.

    Complexity: O(P * member racks) in numpy, and a flow whose arcs grow with the number of classes (distinct replica
    racks * weights * current owners), not with P.
    """
    _refuse_what_contradicts(options)
    nobody = np.full(len(problem.topic_of), NOBODY, np.int32)
    read = np.logical_or.reduce(problem.subscriptions, axis=0)[problem.topic_of]
    if not read.any():
        return nobody
    if not options.stickiness:
        problem = replace(problem, owner=nobody)
    order = member_order(problem)
    ranked = _in_order(problem if read.all() else _only(problem, read), order)
    if problem.by_load:
        plan = assign_by_load(
            ranked,
            tolerance=options.balance_tolerance,
            full=options.full_load,
            keep_copartitioned=options.keep_copartitioned,
        )
    elif options.keep_copartitioned:
        plan = assign_bundles(ranked, near_first=options.near_first)
    else:
        plan = _assign(ranked, options)
    owner = nobody.copy()
    owner[read] = order[plan]
    return owner


def _only(problem: Problem, read: BoolArray) -> Problem:
    """Return the problem without the partitions that no member reads."""
    return replace(
        problem,
        topic_of=problem.topic_of[read],
        number_of=problem.number_of[read],
        replica_racks=problem.replica_racks[read],
        leader_rack=problem.leader_rack[read],
        weights=None if problem.weights is None else problem.weights[read],
        owner=problem.owner[read],
        loads=None if problem.loads is None else problem.loads[read],
        contested=None,
    )


def _in_order(problem: Problem, order: Int32Array) -> Problem:
    """Return the problem with its members in this order, which does not depend on generated member ids."""
    if np.array_equal(order, np.arange(len(order))):
        return problem
    rank = np.full(len(order) + 1, NOBODY, np.int32)  # the last one stands for NOBODY
    rank[order] = np.arange(len(order), dtype=np.int32)
    return replace(
        problem,
        members=tuple(problem.members[index] for index in order),
        instance_ids=tuple(problem.instance_ids[index] for index in order),
        member_rack=problem.member_rack[order],
        reads_any_replica=problem.reads_any_replica[order],
        subscription_of=problem.subscription_of[order],
        owner=rank[problem.owner],
        capacity=None if problem.capacity is None else problem.capacity[order],
        max_partitions=None if problem.max_partitions is None else problem.max_partitions[order],
    )


def _refuse_what_contradicts(options: Options) -> None:
    if options.max_skew < 0:
        raise AssignmentError(f"max_skew {options.max_skew}: expected partitions beyond a fair share, 0 or more")
    if not options.balance_tolerance >= 0:
        raise AssignmentError(f"balance_tolerance {options.balance_tolerance}: expected a share, 0 or more")
    if options.max_skew and options.keep_copartitioned:
        raise AssignmentError("max_skew and keep_copartitioned do not go together: bundles are always dealt evenly")


def _assign(problem: Problem, options: Options) -> Int32Array:
    """Return the owner of each partition; every topic must have a subscriber, and members must be in order.

    Partitions of topics with equal subscribers have the same kind.
    """
    kind_of_topic, wanted_by, kind, (edge_kind, edge_subscription), spread = _evenly(problem)
    near = locality(problem)
    units = Units(
        kind=kind,
        kinds=len(wanted_by),
        price=near.price,
        prices=near.prices,
        claim=problem.owner + np.int32(1),
        claims=one_claim_each(len(problem.members)),
    )
    share_of, enough = problem.subscription_of, spread.enough
    edges = (edge_kind[spread.usable], edge_subscription[spread.usable])
    if options.max_skew:
        enough, edges = None, (edge_kind, edge_subscription)
        share_of, spread = _skewed_loads(problem, near.column, units, edges, spread, max_skew=options.max_skew)
    if _stays(problem, near, share_of, spread):
        return problem.owner.copy()
    seats = _seats(problem, near.column, edges, share_of, spread)
    if enough is not None:  # it is by edge of a subscription; `place` needs it for each column of its members
        enough = np.repeat(enough[spread.usable], _parts(problem, near.column)[edges[1]])
    plan = place(units, seats, enough=enough, interleaved=True)
    if not options.spread or np.array_equal(plan, problem.owner):
        return plan
    plan = spread_topics(problem, near, plan)
    may_have = np.zeros((len(wanted_by), len(problem.subscriptions)), np.bool_)
    may_have[edges] = True
    room = Room(may_have=may_have[kind_of_topic].T, share_of=share_of, spread=spread)
    best = spread_exactly(problem, near, plan, room)
    return plan if best is plan else spread_topics(problem, near, best)


def _evenly(
    problem: Problem,
) -> tuple[Int32Array, BoolArray, Int32Array, tuple[Int64Array, Int64Array], Spread]:
    """Return the kinds of topics, who wants them, the kinds of partitions, these as edges, and the even loads."""
    kind_of_topic, wanted_by = row_codes(list(problem.subscriptions))
    kind = kind_of_topic[problem.topic_of] if len(wanted_by) > 1 else np.zeros(len(problem.topic_of), np.int32)
    supply = np.bincount(kind, minlength=len(wanted_by))
    edge_kind, edge_subscription = np.nonzero(wanted_by & (supply > 0)[:, np.newaxis])
    spread = least_unequal(
        supply=supply,
        edge_kind=edge_kind.astype(np.int32),
        edge_group=edge_subscription.astype(np.int32),
        edge_limit=supply[edge_kind],
        size=np.bincount(problem.subscription_of, minlength=len(problem.subscriptions)),
    )
    return kind_of_topic, wanted_by, kind, (edge_kind, edge_subscription), spread


def fair_shares(problem: Problem) -> Int64Array:
    """Return [M] the most partitions that each member has in any plan of least unequal loads, by counts.

    Every topic must have a subscriber.
    """
    *_, spread = _evenly(problem)
    return _shares(spread)[problem.subscription_of]


def _shares(fair: Spread) -> Int64Array:
    share: Int64Array = fair.floor + (fair.extras[fair.band] > 0)
    return share


def _skewed_loads(  # noqa: PLR0913 - the group, as units and members
    problem: Problem,
    column: Int32Array,
    units: Units,
    edges: tuple[Int64Array, Int64Array],
    fair: Spread,
    *,
    max_skew: int,
) -> tuple[Int32Array, Spread]:
    """Return [M] the group of each member (subscription and column), and the groups' loads with `max_skew`.

    The loads are the least unequal ones of least cross-rack weight. `edges` are as of `_seats`, `fair` are the loads
    without skew.
    """
    edge_kind, edge_subscription = edges
    columns = units.prices.shape[1]
    group_of, groups = combine(problem.subscription_of, len(problem.subscriptions), column, columns)
    some = first_of_each(group_of, groups)
    subscription = problem.subscription_of[some]
    share = _shares(fair)
    pool_of, pools = combine(units.kind, units.kinds, units.price, len(units.prices))
    one = first_of_each(pool_of, pools)
    pool, hub_column = (index.ravel() for index in np.indices((pools, columns)))
    first = np.searchsorted(subscription, edge_subscription)
    parts = np.bincount(subscription, minlength=len(problem.subscriptions))[edge_subscription]
    edge_group = ranges(first, parts)
    edge_hub = np.repeat(edge_kind, parts) * columns + column[some][edge_group]
    hubs = units.kinds * columns
    hub_node, group_node = pools, pools + hubs
    beyond = len(units.kind) + 1
    ways = Ways(
        supply=np.concatenate([np.bincount(pool_of, minlength=pools), np.zeros(hubs + groups, np.int64)]),
        tail=np.concatenate([pool, hub_node + edge_hub]).astype(np.int32),
        head=np.concatenate([hub_node + units.kind[one][pool] * columns + hub_column, group_node + edge_group]).astype(
            np.int32
        ),
        limit=np.full(len(pool) + len(edge_hub), beyond),
        group=group_node + np.arange(groups),
        size=np.bincount(group_of, minlength=groups),
        most=share[subscription] + min(max_skew, len(units.kind)),
    )
    cost = np.concatenate([units.prices[units.price[one]].ravel(), np.zeros(len(edge_hub), np.int64)])
    return group_of, cheapest_spread(ways, cost)


def _stays(problem: Problem, near: Locality, share_of: Int32Array, spread: Spread) -> bool:
    """Return whether the current owners have these loads and read nothing across racks: no other plan is as good."""
    owner = problem.owner
    if owner.min() == NOBODY or near.prices[near.price, near.column[owner]].any():
        return False
    over = np.bincount(owner, minlength=len(share_of)) - spread.floor[share_of]
    extras = np.bincount(spread.band[share_of], weights=over, minlength=len(spread.extras))
    return bool(over.min() >= 0 and over.max() <= 1) and np.array_equal(extras, spread.extras)


def _parts(problem: Problem, column: Int32Array) -> Int64Array:
    """Return [S] the number of columns that have members with the subscription."""
    columns = int(column.max()) + 1
    pairs = np.unique(problem.subscription_of * columns + column)
    return np.bincount(pairs // columns, minlength=len(problem.subscriptions))


def _seats(
    problem: Problem, column: Int32Array, edges: tuple[Int64Array, Int64Array], share_of: Int32Array, spread: Spread
) -> Seats:
    """Return one seat per member, which takes the member's floor, and one more if its band has an extra for it.

    `edges` are kinds, and the subscriptions that contain them; `share_of` is the group of `spread` of each member, [M].
    """
    edge_kind, edge_subscription = edges
    columns = int(column.max()) + 1
    group, groups = combine(problem.subscription_of, len(problem.subscriptions), column, columns)
    some = first_of_each(group, groups)
    subscription_of_group = problem.subscription_of[some]
    first = np.searchsorted(subscription_of_group, edge_subscription)
    parts = np.bincount(subscription_of_group, minlength=len(problem.subscriptions))[edge_subscription]
    band = spread.band[share_of]
    stretching = np.flatnonzero(spread.extras[band] > 0)
    return Seats(
        group=group,
        column=column[some],
        edge_kind=np.repeat(edge_kind, parts).astype(np.int32),
        edge_group=ranges(first, parts).astype(np.int32),
        demand=np.concatenate([spread.floor[share_of], spread.extras]),
        tail=stretching.astype(np.int32),
        head=(len(band) + band[stretching]).astype(np.int32),
        capacity=np.ones(len(stretching), np.int64),
    )
