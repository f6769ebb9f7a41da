"""Assigns a whole group in one call, for programs that use samerack as a library and for the plug-ins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.check import round_to_send
from samerack.assignors.consumer.registry import ASSIGNORS, DEFAULTS, Options
from samerack.assignors.problem import NOBODY, AssignmentError, Int32Array, Problem
from samerack.protocol.consumer import encode_assignments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OPTIMAL: Final = "optimal"


def assign_group(  # noqa: PLR0913 - what there is to say of a group
    members: Sequence[MemberInput],
    topics: Mapping[str, Sequence[Sequence[str | None]]],
    *,
    assignor: str = OPTIMAL,
    weights: Mapping[str, Sequence[int]] | None = None,
    loads: Mapping[str, Sequence[int]] | None = None,
    options: Options = DEFAULTS,
) -> dict[str, dict[str, list[int]]]:
    """Assign the partitions of a consumer group to its members.

    Args:
        members: the members with their topics, racks and owned partitions.
        topics: for each topic and partition the racks of the replicas, the leader's first; None for an unknown rack.
        assignor: `optimal`, or the protocol name of the group's members, such as `range` or `cooperative-sticky`. With
            a cooperative one a partition that moves is left out until its owner has given it up (KIP-429).
        weights: for topics that have them, the cost of each partition when it is read across racks; 1 elsewhere.
        loads: for topics that have them, the load of each partition: members are balanced by these, and by their
            capacities and limits, instead of by counts.
        options: see `Options`.

    Returns:
        For each member id the partition numbers by topic, both sorted; a member without partitions has an empty dict.

    Raises:
        AssignmentError: there is no such assignor, a member id occurs twice, or weights, loads or options do not fit.
    """
    if assignor not in ASSIGNORS:
        raise AssignmentError(f"assignor {assignor!r} is unknown; give one of {', '.join(ASSIGNORS)}")
    problem = build_problem(topics=topics, members=members, weights=weights, loads=loads)
    owner = assign_problem(problem, assignor, options)
    result: dict[str, dict[str, list[int]]] = {}
    for member, partitions in partitions_by_member(problem, owner).items():
        result[member] = {}
        for topic, number in partitions:
            result[member].setdefault(topic, []).append(number)
    return result


def assign_problem(problem: Problem, assignor: str, options: Options) -> Int32Array:
    """Compute and check the plan that the members get now.

    Returns:
        [P] owner of each partition; NOBODY for one without a subscriber, or that its owner has to give up first.

    Raises:
        AssignmentError: there is no plan that may be sent.
    """
    known = ASSIGNORS[assignor]
    return round_to_send(problem, known.assign(problem, options), cooperative=known.cooperative)


def encode_owners(problem: Problem, owner: Int32Array, *, version: int) -> dict[str, bytes]:
    """Return the encoded assignment of every member of the problem, without user data."""
    encoded = encode_assignments(
        topics=problem.topics,
        topic_of=problem.topic_of,
        number_of=problem.number_of,
        owner=owner,
        members=len(problem.members),
        version=version,
    )
    return dict(zip(problem.members, encoded, strict=True))


def partitions_by_member(problem: Problem, owner: Int32Array) -> dict[str, list[tuple[str, int]]]:
    """Return the partitions of every member of the problem, sorted by topic and number."""
    result: dict[str, list[tuple[str, int]]] = {member: [] for member in problem.members}
    for partition, index in enumerate(owner.tolist()):
        if index != NOBODY:
            result[problem.members[index]].append(name_of(problem, partition))
    return result


def name_of(problem: Problem, partition: int) -> tuple[str, int]:
    """Return topic and number of a partition of the problem."""
    return problem.topics[problem.topic_of[partition]], int(problem.number_of[partition])
