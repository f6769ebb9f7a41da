"""The assignors of consumer groups by name, Kafka's and ours; most are options of one engine.

The leader of a group, what-if queries and client plug-ins choose an assignor here. Comparisons ask for the plans of
those that know less than the agent: the group's own, and samerack's in the brokers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from samerack.assignors.consumer import kafkas, optimal
from samerack.assignors.consumer.optimal import DEFAULTS, Options
from samerack.assignors.problem import NOBODY, BoolArray, Int32Array, Problem, by_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignor:
    """An assignor of consumer groups.

    Attributes:
        name: the protocol name that members agree on.
        about: a short description of its plans for users.
        assign: computes the plan of a problem; an assignor that decides exactly as Kafka's ignores the options.
        cooperative: whether members rebalance incrementally (KIP-429), so that moving partitions are withheld.
        as_kafka: whether it decides exactly as Kafka's assignor of that name.
        for_members: whether members may agree on it; else only a what-if query or a leader can use it.
        asks_claims: whether members put their owned partitions into the subscription, so that these can stay.
    """

    name: str
    about: str
    assign: Callable[[Problem, Options], Int32Array]
    cooperative: bool = False
    as_kafka: bool = False
    for_members: bool = True
    asks_claims: bool = False


def _optimal(problem: Problem, options: Options) -> Int32Array:
    return optimal.assign(problem, options)


def _range(problem: Problem, _options: Options) -> Int32Array:
    return kafkas.assign_range(problem)


def _roundrobin(problem: Problem, _options: Options) -> Int32Array:
    return kafkas.assign_roundrobin(problem)


def _range_optimal(problem: Problem, options: Options) -> Int32Array:
    """Keep `range`'s guarantee, one owner for partition i of co-partitioned topics, at the least cost it allows."""
    return optimal.assign(problem, replace(options, keep_copartitioned=True, near_first=True))


ASSIGNORS: Final = {
    assignor.name: assignor
    for assignor in (
        Assignor(
            name="optimal",
            about="even loads, then fewest reads across racks, then fewest moves, then topics spread over members",
            assign=_optimal,
            for_members=False,
        ),
        Assignor(name="range", about="exactly Kafka's `range` with racks", assign=_range, as_kafka=True),
        Assignor(
            name="range-optimal",
            about="keeps partition i of co-partitioned topics on one member, with the fewest reads across racks",
            assign=_range_optimal,
            asks_claims=True,
        ),
        Assignor(name="roundrobin", about="exactly Kafka's; ignores racks", assign=_roundrobin, as_kafka=True),
        # KIP-54's two goals in their order, with KIP-881's between them if there are racks
        Assignor(name="sticky", about="like `optimal`; members stop for a rebalance (KIP-54)", assign=_optimal),
        Assignor(
            name="cooperative-sticky",
            about="like `optimal`; members keep what stays (KIP-429)",
            assign=_optimal,
            cooperative=True,
            asks_claims=True,
        ),
    )
}
"""The assignors by name."""

_Assign: TypeAlias = "Callable[[str, Problem, Options], Int32Array]"
"""Computes the plan of the assignor of this name."""
_ALIASES: Final[Mapping[str, str]] = {"RoundRobinAssigner": "roundrobin"}
"""Other clients' names for Kafka's assignors."""
_FRESH: Final = Options(stickiness=False)


def _assign_here(name: str, problem: Problem, options: Options) -> Int32Array:
    """Compute the plan of an assignor in this process."""
    return ASSIGNORS[name].assign(problem, options)


def own_plan(
    problem: Problem, assignor: str, sends_rack: BoolArray, *, assign: _Assign = _assign_here
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
    return assign(name, _as_sent(problem, sends_rack), _FRESH)


def server_plan(problem: Problem, sends_rack: BoolArray, *, assign: _Assign = _assign_here) -> Int32Array:
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
    """Return the problem without what only the agent knows: racks that members do not send, bytes, capacities."""
    racks = np.where(sends_rack, problem.member_rack, NOBODY).astype(problem.member_rack.dtype)
    return replace(by_counts(problem), member_rack=racks, weights=None)


__all__ = ["ASSIGNORS", "DEFAULTS", "Assignor", "Options", "own_plan", "server_plan"]
