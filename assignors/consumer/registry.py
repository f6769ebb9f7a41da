"""The assignors of consumer groups by name, Kafka's and ours; most are options of one engine.

The leader of a group, what-if queries and client plug-ins choose an assignor here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from samerack.assignors.consumer import kafkas, optimal
from samerack.assignors.consumer.optimal import DEFAULTS, Options

if TYPE_CHECKING:
    from collections.abc import Callable

    from samerack.assignors.problem import Int32Array, Problem


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

__all__ = ["ASSIGNORS", "DEFAULTS", "Assignor", "Options"]
