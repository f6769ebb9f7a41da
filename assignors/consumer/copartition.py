"""Co-partitioned topics, kept together: the bundles behind `optimal`'s option `keep_copartitioned`.

Topics with equal partition counts and equal subscribers form a league; partition i of all its topics is one bundle and
goes to one member, as Kafka's range assignor guarantees and as joins between topics need. Objective, lexicographic and
exact:

1. each league is spread evenly: its members get the floor of bundles per member, or one more,
2. the extra bundles are spread over all members as evenly as subscriptions allow,
3. cross-rack weight,
4. moved partitions.

What must not enter: partitions on their own; they are `optimal`'s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from assignors.arrays import combine, dense_rank, first_of_each, row_codes, starts_of
from assignors.balance import Spread, least_unequal
from assignors.consumer.locality import Locality, locality
from assignors.flow import Claims, Seats, Units, place
from assignors.model import NOBODY, Int32Array, Int64Array, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class _League:
    """Topics that are assigned together.

    Attributes:
        partitions: [topics, bundles] partition indices: a column is a bundle.
        members: [C] subscribers, ascending.
        subscriptions: [S] true for the subscriptions that name the topics.
    """

    partitions: Int64Array
    members: Int64Array
    subscriptions: Int64Array


def assign_bundles(problem: Problem, *, portable: bool = False) -> Int32Array:
    """Owner of each partition by the objective above, [P].

    Args:
        problem: the group, its members in the order that decides ties; every topic with partitions has a subscriber.
        portable: solve with networkx.

    Raises:
        AssignmentError: the weights are too great to be added up.

    Complexity: O(P) in numpy, and a flow with arcs in the number of classes of bundles and of leagues * members.
    """
    leagues = _leagues(problem)
    near = locality(problem)
    sizes = np.array([league.partitions.shape[1] for league in leagues])
    first_seat = starts_of(np.array([len(league.members) for league in leagues]))
    price, prices = _bundle_prices(leagues, near)
    claim, claims = _bundle_claims(leagues, problem.owner, first_seat)
    units = Units(
        kind=np.repeat(np.arange(len(leagues), dtype=np.int32), sizes),
        kinds=len(leagues),
        price=price,
        prices=prices,
        claim=claim,
        claims=claims,
    )
    seat = place(units, _seats(problem, leagues, near, first_seat), portable=portable)
    member = np.concatenate([league.members for league in leagues])[seat]
    owner = np.empty(len(problem.topic_of), np.int32)
    for league, taken in zip(leagues, np.split(member, np.cumsum(sizes)[:-1]), strict=True):
        owner[league.partitions] = taken
    return owner


def _leagues(problem: Problem) -> list[_League]:
    counts = np.bincount(problem.topic_of, minlength=len(problem.topics))
    starts = starts_of(counts)
    audience, wanted_by = row_codes(list(problem.subscriptions))
    groups: dict[tuple[int, int], list[int]] = {}
    for topic, (kind, count) in enumerate(zip(audience.tolist(), counts.tolist(), strict=True)):
        if count:
            groups.setdefault((kind, count), []).append(topic)
    return [
        _League(
            partitions=starts[topics][:, np.newaxis] + np.arange(count),
            members=np.flatnonzero(wanted_by[kind][problem.subscription_of]),
            subscriptions=np.flatnonzero(wanted_by[kind]),
        )
        for (kind, count), topics in groups.items()
    ]


def _bundle_prices(leagues: list[_League], near: Locality) -> tuple[Int32Array, Int64Array]:
    """Sums over the partitions of each bundle, as rows of few distinct prices."""
    sums = np.concatenate([near.prices[near.price[league.partitions]].sum(axis=0) for league in leagues])
    sums -= sums.min(axis=1, keepdims=True)
    code, count = np.zeros(len(sums), np.int32), 1
    for column in sums.T:
        rank, values = dense_rank(column, int(column.max()) + 1)
        code, count = combine(code, count, rank, len(values))
    return code, sums[first_of_each(code, count)]


def _bundle_claims(leagues: list[_League], owner: Int32Array, first_seat: Int64Array) -> tuple[Int32Array, Claims]:
    """A claim for every present owner of a part of the bundle: as many moves as parts are spared there."""
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
    return np.concatenate(rows), Claims(
        start=starts_of(np.array(lengths)),
        seat=np.concatenate(seats).astype(np.int32),
        kept=np.concatenate(kept),
    )


def _seats(problem: Problem, leagues: list[_League], near: Locality, first_seat: Int64Array) -> Seats:
    """A seat for every league and member of it, which takes the floor; a node for every member, which takes extras."""
    league_of = np.repeat(np.arange(len(leagues)), np.diff(first_seat))
    member = np.concatenate([league.members for league in leagues])
    columns = near.prices.shape[1]
    group, groups = combine(league_of, len(leagues), near.column[member], columns)
    some = first_of_each(group, groups)
    bundles = np.array([league.partitions.shape[1] for league in leagues])
    floor, extras = np.divmod(bundles, np.diff(first_seat))
    spread = _spread_extras(problem, leagues, extras)
    members, band = len(problem.members), spread.band[problem.subscription_of]
    stretching, seats = np.flatnonzero(extras[league_of] > 0), len(member)
    generous = np.flatnonzero(spread.extras[band] > 0)
    return Seats(
        group=group,
        column=near.column[member[some]],
        edge_kind=league_of[some].astype(np.int32),
        edge_group=np.arange(groups, dtype=np.int32),
        demand=np.concatenate([floor[league_of], spread.floor[problem.subscription_of], spread.extras]),
        tail=np.concatenate([stretching, seats + generous]).astype(np.int32),
        head=np.concatenate([seats + member[stretching], seats + members + band[generous]]).astype(np.int32),
        capacity=np.ones(len(stretching) + len(generous), np.int64),
    )


def _spread_extras(problem: Problem, leagues: list[_League], extras: Int64Array) -> Spread:
    """The least unequal numbers of extra bundles per member, at most one of each league."""
    size = np.bincount(problem.subscription_of, minlength=len(problem.subscriptions))
    edge_kind = np.repeat(np.arange(len(leagues)), [len(league.subscriptions) for league in leagues])
    edge_group = np.concatenate([league.subscriptions for league in leagues])
    return least_unequal(
        supply=extras,
        edge_kind=edge_kind.astype(np.int32),
        edge_group=edge_group.astype(np.int32),
        edge_limit=size[edge_group],
        size=size,
    )
