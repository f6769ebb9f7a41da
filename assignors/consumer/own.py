"""Computes plans of assignors that know less than the agent: the group's own, and samerack's in the brokers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from samerack.assignors.consumer.registry import ASSIGNORS, DEFAULTS, Options
from samerack.assignors.problem import NOBODY, BoolArray, Int32Array, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Assign: TypeAlias = "Callable[[str, Problem, Options], Int32Array]"
"""Computes the plan of the assignor of this name."""
_ALIASES: Final[Mapping[str, str]] = {"RoundRobinAssigner": "roundrobin"}
"""Other clients' names for Kafka's assignors."""
_FRESH: Final = Options(stickiness=False)


def assign_here(name: str, problem: Problem, options: Options) -> Int32Array:
    """Compute the plan of an assignor in this process."""
    return ASSIGNORS[name].assign(problem, options)


def own_plan(
    problem: Problem, assignor: str, sends_rack: BoolArray, *, assign: Assign = assign_here
) -> Int32Array | None:
    """Compute the plan that the group's own assignor would make.

    The assignor knows only the racks in the members' subscriptions (KIP-881), and counts partitions: no assignor of
    Kafka knows bytes. A sticky assignor runs on a group without current owners, as after a deployment: with the plan in
    force it would only repeat that plan.

    Args:
        problem: the group.
        assignor: protocol name in the group.
        sends_rack: [M] whether the member's subscription contains its rack.
        assign: computes a plan.

    Returns:
        [P] owner of each partition; None if the assignor is not known here or the group is empty.

    Raises:
        AssignmentError: as the assignor.
    """
    name = _ALIASES.get(assignor, assignor)
    if name not in ASSIGNORS or not problem.members:
        return None
    owner = np.full_like(problem.owner, NOBODY)
    return assign(name, replace(_as_sent(problem, sends_rack), owner=owner, contested=None), _FRESH)


def server_plan(problem: Problem, sends_rack: BoolArray, *, assign: Assign = assign_here) -> Int32Array:
    """Compute a plan as good as that of samerack's assignor in the brokers (KIP-848), from the present owners.

    Brokers give an assignor the racks that members send and those of all replicas; neither bytes nor leaders. So it
    counts partitions, and takes any replica in a member's rack as near.

    Args:
        problem: the group.
        sends_rack: [M] whether the member sends its rack to the brokers.
        assign: computes a plan.

    Returns:
        [P] owner of each partition.

    Raises:
        AssignmentError: as the assignor.
    """
    known = replace(_as_sent(problem, sends_rack), reads_any_replica=np.ones_like(sends_rack))
    return assign("optimal", known, DEFAULTS)


def _as_sent(problem: Problem, sends_rack: BoolArray) -> Problem:
    """Return the problem without what only the agent knows: racks that members do not send, and bytes."""
    racks = np.where(sends_rack, problem.member_rack, NOBODY).astype(problem.member_rack.dtype)
    return replace(problem, member_rack=racks, weights=None)
