"""What a group would read across racks under other plans: its own assignor's (what the agent saves), less even ones.

The plan is worked out on the same members, replicas and byte rates by running the assignor. What must not enter:
measuring, prices, and any decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.leading.policy import share
from agent.traffic.model import GroupTraffic
from assignors.consumer.curve import curve
from assignors.consumer.own import own_plan
from assignors.evaluate import evaluate
from assignors.model import AssignmentError, Problem

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

    What the agent learned of racks elsewhere the assignor could not use.

    Returns:
        A share between 0 and 1; None where the assignor or the group's members are not known.
    """
    if group.problem is None:
        return None
    told = {member.id for member in group.members if member.rack.source == "subscription"}
    tells = np.array([member in told for member in group.problem.members], dtype=np.bool_)
    try:
        owner = own_plan(group.problem, group.assignor, tells)
    except AssignmentError:
        return None
    return share(evaluate(group.problem, owner)) if owner is not None else None
