"""The assignors of consumer groups by name: Kafka's own names and ours, each a setting of one engine where it can be.

Who leads a group, answers a question or sits in a client picks an assignor here. What must not enter: an algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from assignors.consumer import optimal, roundrobin
from assignors.consumer import range as range_assignor
from assignors.consumer.optimal import DEFAULTS, Options

if TYPE_CHECKING:
    from collections.abc import Callable

    from assignors.model import Int32Array, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignor:
    """An assignor of consumer groups.

    Attributes:
        name: the protocol name that members agree on.
        assign: the plan of a problem; an assignor that deals as Kafka does, decision for decision, heeds no option.
        cooperative: whether members rebalance incrementally (KIP-429), so that moving partitions are withheld.
        as_kafka: whether it decides exactly as Kafka's assignor of the name.
    """

    name: str
    assign: Callable[[Problem, Options], Int32Array]
    cooperative: bool = False
    as_kafka: bool = False


def _optimal(problem: Problem, options: Options) -> Int32Array:
    return optimal.assign(problem, options)


def _range(problem: Problem, _options: Options) -> Int32Array:
    return range_assignor.assign(problem)


def _roundrobin(problem: Problem, _options: Options) -> Int32Array:
    return roundrobin.assign(problem)


def _range_optimal(problem: Problem, options: Options) -> Int32Array:
    """`range`'s promise, that partition i of co-partitioned topics has one owner, at the least cost it allows."""
    return optimal.assign(problem, replace(options, keep_copartitioned=True, near_first=True))


ASSIGNORS: Final = {
    assignor.name: assignor
    for assignor in (
        Assignor(name="optimal", assign=_optimal),
        Assignor(name="range", assign=_range, as_kafka=True),
        Assignor(name="range-optimal", assign=_range_optimal),
        Assignor(name="roundrobin", assign=_roundrobin, as_kafka=True),
        # KIP-54's two promises in their order, with KIP-881's between them where there are racks
        Assignor(name="sticky", assign=_optimal),
        Assignor(name="cooperative-sticky", assign=_optimal, cooperative=True),
    )
}
"""By name."""

__all__ = ["ASSIGNORS", "DEFAULTS", "Assignor", "Options"]
