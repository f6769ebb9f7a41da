"""What a group would read across racks under other plans: its own assignor's (what the agent saves), less even ones.

The plan is worked out on the same members, replicas and byte rates by running the assignor. What must not enter:
measuring, prices, and any decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from agent.policy import share
from agent.traffic.model import GroupTraffic
from assignors.consumer.curve import curve
from assignors.consumer.registry import ASSIGNORS, Options
from assignors.evaluate import evaluate
from assignors.model import NOBODY, AssignmentError, Problem

_ALIASES: Final[Mapping[str, str]] = {"RoundRobinAssigner": "roundrobin"}
"""Other clients' names for Kafka's assignors."""
_FRESH: Final = Options(stickiness=False)

_MOST_PARTITIONS: Final = 20_000
"""Larger groups get no curve on a page: its dozen plans would keep a reader waiting for seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """A plan less even by `max_skew`: its cross-rack share, and the partitions of its fullest and emptiest member."""

    max_skew: int
    share: float
    fullest: int
    emptiest: int


def curve_of(problem: Problem) -> tuple[CurvePoint, ...]:
    """Balance against locality, from a fair share to as near as can be; empty where the group is too large to ask."""
    if not problem.members or len(problem.owner) > _MOST_PARTITIONS:
        return ()
    try:
        return tuple(
            CurvePoint(max_skew=point.max_skew, share=share(point.cost), fullest=point.fullest, emptiest=point.emptiest)
            for point in curve(problem)
        )
    except AssignmentError:
        return ()


def own_share(group: GroupTraffic) -> float | None:
    """The cross-rack share of what the group's own assignor would deal, by the weights of the group's problem.

    The assignor knows the racks that members tell in their subscriptions (KIP-881) and no others: what the agent
    learned elsewhere it could not use. A sticky assignor is run on a group without present owners, as after a deploy:
    from the plan in force it would only repeat what the agent made.

    Returns:
        A share between 0 and 1; None where the assignor or the group's members are not known.
    """
    assignor = ASSIGNORS.get(_ALIASES.get(group.assignor, group.assignor))
    if group.problem is None or assignor is None or not group.problem.members:
        return None
    as_members_tell = _without_present(_without_learned_racks(group.problem, group))
    try:
        owner = assignor.assign(as_members_tell, _FRESH)
    except AssignmentError:
        return None
    return share(evaluate(group.problem, owner))


def _without_learned_racks(problem: Problem, group: GroupTraffic) -> Problem:
    told = {member.id for member in group.members if member.rack.source == "subscription"}
    tells = np.array([member in told for member in problem.members], dtype=np.bool_)
    racks = np.where(tells, problem.member_rack, NOBODY).astype(problem.member_rack.dtype)
    # by partitions, as Kafka's assignors do: none of them knows bytes
    return replace(problem, member_rack=racks, weights=None)


def _without_present(problem: Problem) -> Problem:
    return replace(problem, owner=np.full_like(problem.owner, NOBODY), contested=None)
