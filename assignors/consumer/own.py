"""Computes the plan of a group's own assignor: the baseline for the agent's savings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from samerack.assignors.consumer.registry import ASSIGNORS, Options
from samerack.assignors.model import NOBODY, BoolArray, Int32Array, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

_ALIASES: Final[Mapping[str, str]] = {"RoundRobinAssigner": "roundrobin"}
"""Other clients' names for Kafka's assignors."""
_FRESH: Final = Options(stickiness=False)


def own_plan(problem: Problem, assignor: str, tells_rack: BoolArray) -> Int32Array | None:
    """Computes the plan that the group's own assignor would make.

    The assignor knows only the racks in the members' subscriptions (KIP-881), and counts partitions: no assignor of
    Kafka knows bytes. A sticky assignor runs on a group without current owners, as after a deployment: with the plan in
    force it would only repeat that plan.

    Args:
        problem: the group.
        assignor: protocol name in the group.
        tells_rack: [M] whether the member's subscription contains its rack.

    Returns:
        [P] owner of each partition; None if the assignor is not known here or the group is empty.

    Raises:
        AssignmentError: as the assignor.
    """
    known = ASSIGNORS.get(_ALIASES.get(assignor, assignor))
    if known is None or not problem.members:
        return None
    racks = np.where(tells_rack, problem.member_rack, NOBODY).astype(problem.member_rack.dtype)
    owner = np.full_like(problem.owner, NOBODY)
    return known.assign(replace(problem, member_rack=racks, weights=None, owner=owner, contested=None), _FRESH)
