"""Worlds of one group: the group with one fact changed, such as who may serve, and where copies or members are.

Pure functions: a group's problem in, the changed one out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations, islice
from typing import Final

import numpy as np

from samerack.assignors.arrays import combine, first_of_each
from samerack.assignors.build import with_racks
from samerack.assignors.problem import NOBODY, BoolArray, FloatArray, Int64Array
from samerack.assignors.solvers import Layer, solve_layers
from samerack.common.errors import SettingsError
from samerack.pipeline.problem import GroupProblem, by_name

_MAX_PLACEMENTS: Final = 20
"""Even placements of members that are compared: all of them in up to six racks."""


def leaders_only(group: GroupProblem) -> GroupProblem:
    """Return the group with brokers that serve from leaders only."""
    problem = group.problem
    return replace(group, problem=replace(problem, reads_any_replica=np.zeros_like(problem.reads_any_replica)))


def near(group: GroupProblem) -> GroupProblem:
    """Return the group with all members sending and fetching with their rack, and brokers that serve from it.

    This is KIP-881 and KIP-392. Members of unknown rack are assumed to be spread evenly over the brokers' racks.
    """
    problem = group.problem
    racks = problem.member_rack.copy()
    unknown = np.flatnonzero(racks == NOBODY)
    if len(group.broker_racks):
        racks[unknown] = group.broker_racks[np.arange(len(unknown)) % len(group.broker_racks)]
    everyone = np.ones(len(racks), np.bool_)
    return replace(group, problem=replace(problem, member_rack=racks, reads_any_replica=everyone), tells_rack=everyone)


def replicated(group: GroupProblem, copies: int | Int64Array, partitions: BoolArray) -> tuple[GroupProblem, FloatArray]:
    """Return the group with copies of partitions in at least `copies` racks; new ones are placed as Kafka would.

    That is in the next racks after the leader's, shifted by one with every round of partitions, so that followers are
    spread. A partition with an unknown leader rack is not changed.

    Args:
        group: the group.
        copies: racks that must have a copy, of each partition or [P].
        partitions: [P] which partitions may get more.

    Returns:
        The group, and [P] bytes per second that the new copies would fetch across racks. The bytes written to a
        partition are assumed to equal those that the group reads of it.
    """
    problem, racks = group.problem, group.broker_racks
    count = len(racks)
    places = problem.replica_racks.copy()
    fetched = np.zeros(len(group.rates))
    position = np.full(len(problem.racks) + 1, NOBODY)  # the last entry is for NOBODY
    position[racks] = np.arange(count)
    leader = position[problem.leader_rack]
    for step in range(1, count):
        # the same order for all steps of a partition: its next rack, the one after it ...
        shifted = (problem.number_of // count + step - 1) % (count - 1) + 1
        target = racks[(leader + shifted) % count]
        rows = np.flatnonzero(partitions & (leader != NOBODY) & (places.sum(axis=1) < copies))
        rows = rows[~places[rows, target[rows]]]
        places[rows, target[rows]] = True
        fetched[rows] += group.rates[rows]
    return replace(group, problem=replace(problem, replica_racks=places)), fetched


def with_even_leaders(group: GroupProblem) -> GroupProblem:
    """Return the group with leaders of each topic spread evenly over its racks, by the fewest changes.

    As few as its replicas allow are beyond an even share. Leaders depend on the topic alone, so they are the same for
    all groups that read it.
    """
    problem = group.problem
    racks = len(problem.racks)
    of = np.flatnonzero(problem.replica_racks.any(axis=1) & (problem.leader_rack != NOBODY))
    if not len(of):
        return group
    patterns, pattern = np.unique(problem.replica_racks[of], axis=0, return_inverse=True)
    alike, count = combine(problem.topic_of[of], len(problem.topics), pattern.ravel(), len(patterns))
    alike, count = combine(alike, count, problem.leader_rack[of], racks)
    some = first_of_each(alike, count)
    topic, now = problem.topic_of[of][some], problem.leader_rack[of][some]
    one, to = np.nonzero(patterns[pattern.ravel()[some]])
    # partitions that are alike, then each topic's part of each rack: an even share is free, one more cheaper than two
    parts = count + np.arange(len(problem.topics) * racks)
    sizes = np.bincount(alike, minlength=count)
    hosts = np.bincount(topic[one] * racks + to, minlength=len(parts)).reshape(-1, racks).astype(np.bool_)
    share = np.bincount(problem.topic_of[of], minlength=len(problem.topics)) // np.maximum(hosts.sum(axis=1), 1)
    end = np.full(len(parts), count + len(parts))
    choices = Layer(one, parts[topic[one] * racks + to], len(of), (0, to != now[one]))
    shares = [Layer(parts, end, np.repeat(share, racks)), Layer(parts, end, 1, (1,)), Layer(parts, end, len(of), (2,))]
    supply = np.concatenate([sizes, np.zeros(len(parts), np.int64), [-len(of)]]).astype(np.int64)
    flow = solve_layers(supply, [choices, *shares])[0]
    leaders = problem.leader_rack.copy()
    leaders[of[np.argsort(alike, kind="stable")]] = np.repeat(to, flow)
    return replace(group, problem=replace(problem, leader_rack=leaders))


def with_rack(group: GroupProblem, rack: str) -> tuple[GroupProblem, FloatArray]:
    """Return the group with brokers in one more rack, over which its replicas are spread as Kafka would place them.

    One leader of R is in the new rack, of R racks then; the others stay. Copies follow the leader as in `replicated`,
    as many as now. Members stay where they are.

    Returns:
        The group, and [P] bytes per second that copies would fetch across racks beyond today's.
    """
    problem = with_racks(group.problem, [rack])
    names = {group.problem.racks[index] for index in group.broker_racks} | {rack}
    racks = np.array([index for index, name in enumerate(problem.racks) if name in names], np.int32)
    known = np.isin(problem.leader_rack, racks)
    new = known & (problem.number_of % len(racks) == len(racks) - 1)
    leaders = np.where(new, problem.racks.index(rack), problem.leader_rack).astype(np.int32)
    alone = np.arange(len(problem.racks)) == leaders[:, np.newaxis]
    places = np.where(known[:, np.newaxis], alone, problem.replica_racks)
    copies = np.array([len(row) for topic in by_name(group.state.topics) for row in topic.replicas], np.int64)
    moved = replace(problem, leader_rack=leaders, replica_racks=places)
    world, _ = replicated(replace(group, problem=moved, broker_racks=racks), np.minimum(copies, len(racks)), known)
    more = world.problem.replica_racks.sum(axis=1) - problem.replica_racks.sum(axis=1)
    return world, group.rates * np.maximum(more, 0)


def placements(group: GroupProblem, shares: Mapping[str, float]) -> list[GroupProblem]:
    """Return the group with members in racks by these shares, in each way if racks are few; fewest moves first.

    As few members as possible move in each, none of unknown rack.

    Args:
        group: the group.
        shares: parts by rack, with any sum; none means equal in every rack of the brokers.

    Raises:
        SettingsError: a rack is not one of the group's, or no share is positive.
    """
    problem = group.problem
    here = np.bincount(problem.member_rack[problem.member_rack != NOBODY], minlength=len(problem.racks))
    found = []
    for quota in islice(_quotas(group, _parts(group, shares) * here.sum()), _MAX_PLACEMENTS):
        racks = problem.member_rack.copy()
        leaving = [np.flatnonzero(problem.member_rack == rack)[most:] for rack, most in enumerate(quota)]
        free = np.maximum(quota - here, 0)
        racks[np.concatenate(leaving)] = np.repeat(np.arange(len(free), dtype=np.int32), free)
        found.append((int(free.sum()), replace(group, problem=replace(problem, member_rack=racks))))
    return [placed for _, placed in sorted(found, key=lambda one: one[0])]


def _parts(group: GroupProblem, shares: Mapping[str, float]) -> FloatArray:
    """Return [R] the share of the members in each rack of the problem."""
    names = group.problem.racks
    parts = np.zeros(len(names))
    if not shares:
        parts[group.broker_racks] = 1.0
    for rack, part in shares.items():
        if rack not in names:
            raise SettingsError(
                f"rack {rack!r} is not one of the group's racks, which are {', '.join(names) or 'unknown'}"
            )
        parts[names.index(rack)] = part
    if not parts.sum() > 0:
        raise SettingsError("no rack to move members to: no rack of a broker is known, or no share is above 0")
    normal: FloatArray = parts / parts.sum()
    return normal


def _quotas(group: GroupProblem, exact: FloatArray) -> Iterator[Int64Array]:
    """Yield [R] numbers of members by rack, by largest remainders; of equal ones, racks that lead most bytes first."""
    whole = np.floor(exact + 1e-9).astype(np.int64)
    remainder = (exact - whole).round(9)
    rest = round(remainder.sum())
    led = np.bincount(group.problem.leader_rack + 1, weights=group.rates, minlength=len(exact) + 1)[1:]
    order = np.lexsort((-led, -remainder))
    least = remainder[order[rest - 1]] if rest else np.inf
    sure = order[remainder[order] > least]
    for more in combinations(order[remainder[order] == least].tolist(), rest - len(sure)):
        quota = whole.copy()
        quota[[*sure, *more]] += 1
        yield quota
