"""Assigns co-partitioned topics together: implements `optimal`'s option `keep_copartitioned`.

Topics with equal partition counts and equal subscribers form a league; partition i of all its topics is one bundle and
goes to one member, as Kafka's range assignor guarantees and as joins between topics need. Objective, lexicographic and
exact:

1. each league is spread evenly: its members get the floor of bundles per member, or one more,
2. the extra bundles are spread over all members as evenly as subscriptions allow,
3. cross-rack weight,
4. moved partitions.

With `near_first` cross-rack weight comes before 2: Kafka's range guarantees only 1, and no plan with that guarantee
reads less across racks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from samerack.assignors.arrays import combine, count_rows, first_of_each, row_codes, starts_of
from samerack.assignors.balance import Spread, Ways, cheapest_spread, least_unequal
from samerack.assignors.consumer.locality import Locality, locality
from samerack.assignors.flow import SeatClaims, Seats, Units, place, seats_by_kind
from samerack.assignors.problem import NOBODY, Int32Array, Int64Array, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class League:
    """Topics that are assigned together.

    Attributes:
        partitions: [topics, bundles] partition indices: a column is a bundle.
        members: [C] subscribers, ascending.
        subscriptions: [S] the subscriptions that contain the topics.
    """

    partitions: Int64Array
    members: Int64Array
    subscriptions: Int64Array


def assign_bundles(problem: Problem, *, near_first: bool = False) -> Int32Array:
    """Compute the owner of each partition by the objective above, [P].

    Args:
        problem: the group, its members in the order that decides ties; every topic with partitions has a subscriber.
        near_first: least cross-rack weight comes before spreading extra bundles.

    Raises:
        AssignmentError: the sum of the weights is too large.

    Complexity: O(P) in numpy, and a flow with arcs in the number of classes of bundles and of leagues * members.
    """
    leagues = leagues_of(problem)
    near = locality(problem)
    sizes = np.array([league.partitions.shape[1] for league in leagues])
    first_seat = starts_of(np.array([len(league.members) for league in leagues]))
    price, prices = bundle_prices(leagues, near)
    claim, claims = _bundle_claims(leagues, problem.owner, first_seat)
    units = Units(
        kind=np.repeat(np.arange(len(leagues), dtype=np.int32), sizes),
        kinds=len(leagues),
        price=price,
        prices=prices,
        claim=claim,
        claims=claims,
    )
    if near_first:
        share_of, spread = _extras_after_racks(problem, leagues, near, units)
    else:
        share_of, spread = problem.subscription_of, _extras_before_racks(problem, leagues)
    seats = _seats(leagues, near.column, first_seat, share_of, spread)
    seat = place(units, seats)
    member = np.concatenate([league.members for league in leagues])[seat]
    owner = np.empty(len(problem.topic_of), np.int32)
    for league, taken in zip(leagues, np.split(member, np.cumsum(sizes)[:-1]), strict=True):
        owner[league.partitions] = taken
    return owner


def leagues_of(problem: Problem) -> list[League]:
    """Return the sets of topics with equal partition counts and equal subscribers."""
    counts = np.bincount(problem.topic_of, minlength=len(problem.topics))
    starts = starts_of(counts)
    audience, wanted_by = row_codes(list(problem.subscriptions))
    groups: dict[tuple[int, int], list[int]] = {}
    for topic, (kind, count) in enumerate(zip(audience.tolist(), counts.tolist(), strict=True)):
        if count:
            groups.setdefault((kind, count), []).append(topic)
    return [
        League(
            partitions=starts[topics][:, np.newaxis] + np.arange(count),
            members=np.flatnonzero(wanted_by[kind][problem.subscription_of]),
            subscriptions=np.flatnonzero(wanted_by[kind]),
        )
        for (kind, count), topics in groups.items()
    ]


def bundle_prices(leagues: list[League], near: Locality) -> tuple[Int32Array, Int64Array]:
    """Return the price row of each bundle (sums over its partitions), and the distinct rows."""
    sums = np.concatenate([near.prices[near.price[league.partitions]].sum(axis=0) for league in leagues])
    sums -= sums.min(axis=1, keepdims=True)
    return count_rows(list(sums.T))


def _bundle_claims(leagues: list[League], owner: Int32Array, first_seat: Int64Array) -> tuple[Int32Array, SeatClaims]:
    """Return claims for the current owners of partitions of each bundle; a claim saves one move per such partition."""
    rows: list[Int32Array] = []
    seats, kept, lengths = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [0]
    for league, first in zip(leagues, first_seat.tolist(), strict=False):
        present = np.sort(owner[league.partitions], axis=0)
        distinct, row = np.unique(present, axis=1, return_inverse=True)
        rows.append((row + len(lengths)).astype(np.int32))
        for holders in distinct.T:
            members, parts = np.unique(holders[holders != NOBODY], return_counts=True)
            seats.append(first + np.searchsorted(league.members, members))
            kept.append(parts)
            lengths.append(len(members))
    return np.concatenate(rows), SeatClaims(
        start=starts_of(np.array(lengths)),
        seat=np.concatenate(seats).astype(np.int32),
        kept=np.concatenate(kept),
    )


def _seats(
    leagues: list[League], column: Int32Array, first_seat: Int64Array, share_of: Int32Array, spread: Spread
) -> Seats:
    """Return one seat per league and member, which takes the floor, and one node per member, which takes extras."""
    league_of = np.repeat(np.arange(len(leagues)), np.diff(first_seat))
    member = np.concatenate([league.members for league in leagues])
    floor, extras = _shares(leagues)
    members, band = len(column), spread.band[share_of]
    stretching, seats = np.flatnonzero(extras[league_of] > 0), len(member)
    generous = np.flatnonzero(spread.extras[band] > 0)
    return seats_by_kind(
        league_of,
        column[member],
        demand=np.concatenate([floor[league_of], spread.floor[share_of], spread.extras]),
        tail=np.concatenate([stretching, seats + generous]).astype(np.int32),
        head=np.concatenate([seats + member[stretching], seats + members + band[generous]]).astype(np.int32),
        capacity=np.ones(len(stretching) + len(generous), np.int64),
    )


def _shares(leagues: list[League]) -> tuple[Int64Array, Int64Array]:
    """Return, for each league, the least number of bundles per member and the number of members with one more."""
    bundles = np.array([league.partitions.shape[1] for league in leagues])
    floor, extras = np.divmod(bundles, np.array([len(league.members) for league in leagues]))
    return floor, extras


def _extras_before_racks(problem: Problem, leagues: list[League]) -> Spread:
    """Compute the least unequal numbers of extra bundles per member, at most one per league, by subscription."""
    size = np.bincount(problem.subscription_of, minlength=len(problem.subscriptions))
    edge_kind = np.repeat(np.arange(len(leagues)), [len(league.subscriptions) for league in leagues])
    edge_group = np.concatenate([league.subscriptions for league in leagues])
    return least_unequal(
        supply=_shares(leagues)[1],
        edge_kind=edge_kind.astype(np.int32),
        edge_group=edge_group.astype(np.int32),
        edge_limit=size[edge_group],
        size=size,
    )


def _extras_after_racks(
    problem: Problem, leagues: list[League], near: Locality, units: Units
) -> tuple[Int32Array, Spread]:
    """Return [M] the group of each member (subscription and column), and the extra bundles of the groups' members.

    pool (league, price) -> hub (league, column) -> part (league, group), where the floor leaves -> group
    """
    columns = near.prices.shape[1]
    group_of, groups = combine(problem.subscription_of, len(problem.subscriptions), near.column, columns)
    some, size = first_of_each(group_of, groups), np.bincount(group_of, minlength=groups)
    wanted = [np.isin(problem.subscription_of[some], league.subscriptions) for league in leagues]
    part_league, part_group = np.nonzero(np.stack(wanted))
    pool_of, pools = combine(units.kind, units.kinds, units.price, len(units.prices))
    one = first_of_each(pool_of, pools)
    pool, column = (index.ravel() for index in np.indices((pools, columns)))
    hubs, parts = len(leagues) * columns, len(part_league)
    hub_of_part = part_league * columns + near.column[some][part_group]
    part_node, group_node = pools + hubs + np.arange(parts), pools + hubs + parts
    floor, extras = _shares(leagues)
    anything = len(units.kind) + 1
    # a part takes extras only if its league has some, and at most one for each of its members
    room = np.where(extras[part_league] > 0, size[part_group], 0)
    ways = Ways(
        supply=np.concatenate(
            [
                np.bincount(pool_of, minlength=pools),
                np.zeros(hubs, np.int64),
                -floor[part_league] * size[part_group],
                np.zeros(groups, np.int64),
            ]
        ),
        tail=np.concatenate([pool, pools + hub_of_part, part_node]).astype(np.int32),
        head=np.concatenate(
            [pools + units.kind[one][pool] * columns + column, part_node, group_node + part_group]
        ).astype(np.int32),
        limit=np.concatenate([np.full(len(pool) + parts, anything), room]),
        group=group_node + np.arange(groups),
        size=size,
    )
    cost = np.concatenate([units.prices[units.price[one]].ravel(), np.zeros(2 * parts, np.int64)])
    return group_of, cheapest_spread(ways, cost)
