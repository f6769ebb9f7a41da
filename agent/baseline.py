"""What a group would read across racks under other plans: its own assignor's (what the agent saves), less even ones.

The plan is worked out on the same members, replicas and byte rates by running the assignor. Which one a group's clients
run is believed only as far as it was seen while another member led.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.events.model import Event
from agent.leading.measured import Rates, share_of_owners
from agent.leading.policy import share
from agent.traffic.model import GroupTraffic
from assignors.consumer.curve import curve
from assignors.consumer.own import own_plan
from assignors.evaluate import evaluate
from assignors.model import AssignmentError, BoolArray, Problem

_MOST_PARTITIONS: Final = 20_000
"""Larger groups get no curve on a page: its dozen plans would keep a reader waiting for seconds."""
_ALIKE: Final = 0.02
"""Shares that close are not worth an open question."""
_NEAR: Final = 0.15
"""An assignor's share may be so far from what was seen: other members, other replicas, a history of sticky plans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """A plan less even by `max_skew`: its cross-rack share, and the partitions of its fullest and emptiest member."""

    max_skew: int
    share: float
    fullest: int
    emptiest: int


def curve_of(problem: Problem, rates: Rates | None = None) -> tuple[CurvePoint, ...]:
    """Balance against locality, from a fair share to as near as can be; empty where the group is too large to ask.

    Args:
        problem: the group.
        rates: measured bytes per second, which the shares are of then; by the problem's weights without.
    """
    if not problem.members or len(problem.owner) > _MOST_PARTITIONS:
        return ()
    try:
        return tuple(
            CurvePoint(
                max_skew=point.max_skew,
                share=share_of_owners(problem, point.owner, rates),
                fullest=point.fullest,
                emptiest=point.emptiest,
            )
            for point in curve(problem)
        )
    except AssignmentError:
        return ()


def own_share(group: GroupTraffic, seen: float | None = None) -> float | None:
    """The cross-rack share of what the group's own assignor would deal, by the weights of the group's problem.

    What the agent learned of racks elsewhere the assignor could not use. Racks that members send are heeded by Java's
    and librdkafka's newer assignors (KIP-881), and by those of others not, although they send them: what the group did
    while another member led tells which. Where it did neither, it would do again what it did.

    Args:
        group: as it was measured.
        seen: the share under another leader, see `seen_share`; None where there was none.

    Returns:
        A share between 0 and 1; None where the assignor or the group's members are not known, or nobody has seen
        whether racks are heeded and it makes a difference.
    """
    if group.problem is None:
        return None
    sending = {member.id for member in group.members if member.rack.source == "subscription"}
    tells = np.array([member in sending for member in group.problem.members], dtype=np.bool_)
    heedless = _dealt_share(group.problem, group.assignor, np.zeros_like(tells))
    heeding = _dealt_share(group.problem, group.assignor, tells) if tells.any() else heedless
    if heedless is None or heeding is None or abs(heeding - heedless) <= _ALIKE:
        return heedless
    if seen is None:
        return None
    nearest = min(heeding, heedless, key=lambda one: abs(one - seen))
    return nearest if abs(nearest - seen) <= _NEAR else seen


def seen_share(events: Iterable[Event], assignor: str) -> float | None:
    """The cross-rack share after the last rebalance of a group in which the agent followed; None where it never did.

    Where it was no member, another agent may have led.

    Args:
        events: the group's rebalances, the newest first.
        assignor: of the group. A sticky one keeps much of the agent's plan, so that only what was before counts.
    """
    seen = None
    for event in reversed(tuple(events)):
        if event.assignor and "sticky" in assignor:
            break
        if not event.assignor and event.generation is not None and event.share_after is not None:
            seen = event.share_after
    return seen


def _dealt_share(problem: Problem, assignor: str, tells: BoolArray) -> float | None:
    try:
        owner = own_plan(problem, assignor, tells)
    except AssignmentError:
        return None
    return share(evaluate(problem, owner)) if owner is not None else None
