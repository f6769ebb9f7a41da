"""Changes one fact of a group: which replicas may serve, how many copies topics have, or where members run.

Every function takes a group and returns one that differs only in this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from samerack.assignors.problem import NOBODY, BoolArray, FloatArray, Int32Array
from samerack.common.errors import SettingsError
from samerack.pipeline.problem import GroupProblem


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


def replicated(group: GroupProblem, copies: int, partitions: BoolArray) -> tuple[GroupProblem, FloatArray]:
    """Return the group with copies of partitions in at least so many racks; new ones are placed as Kafka would.

    That is in the next racks after the leader's, shifted by one with every round of partitions, so that followers are
    spread. A partition with an unknown leader rack is not changed.

    Args:
        group: the group.
        copies: racks that must have a copy.
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


def moved(group: GroupProblem, shares: Mapping[str, float]) -> GroupProblem:
    """Return the group with members in racks by these shares; move as few as possible, none of unknown rack.

    Args:
        group: the group.
        shares: parts by rack, with any sum; none means equal in every rack of the brokers.

    Raises:
        SettingsError: a rack is not one of the group's, or no share is positive.
    """
    problem = group.problem
    racks = problem.member_rack.copy()
    quota = _quota(_parts(group, shares), int(np.count_nonzero(racks != NOBODY)))
    leaving = []
    for member, rack in enumerate(racks.tolist()):
        if rack == NOBODY:
            continue
        if quota[rack] > 0:
            quota[rack] -= 1
        else:
            leaving.append(member)
    racks[leaving] = np.repeat(np.arange(len(quota), dtype=np.int32), quota)
    return replace(group, problem=replace(problem, member_rack=racks))


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


def _quota(parts: FloatArray, members: int) -> Int32Array:
    """Return [R] the number of members in each rack, by largest remainders; ties go to the first rack."""
    exact = parts * members
    quota = np.floor(exact + 1e-9).astype(np.int32)
    order = np.argsort(quota - exact, kind="stable")
    quota[order[: members - int(quota.sum())]] += 1
    return quota
