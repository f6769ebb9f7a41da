"""The groups of the consumer benchmark: a sample of Kafka's own grid, franz-go's sizes, and the largest groups.

Kafka's `ClientSideAssignorBenchmark` crosses members, partitions per member, topics, racks, equal or five disjoint
subscriptions, and a fresh group or one that a member joins.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.consumer import optimal
from samerack.assignors.model import NOBODY, Int32Array, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

RACKS: Final = ("a", "b", "c")
BUCKETS: Final = 5
GENERATION: Final = 7
SEED: Final = 54

Subscriptions = Literal["equal", "buckets", "one extra", "halves"]
KAFKAS: Final[tuple[Subscriptions, ...]] = ("equal", "buckets")
FRANZS: Final[tuple[Subscriptions, ...]] = ("equal", "one extra")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The shape of a group.

    Attributes:
        members: how many.
        topics: how many.
        partitions: of each topic.
        subscriptions: all equal; five disjoint buckets; all equal plus one more member with one topic (franz-go's
            "imbalance"); or a random half of the topics, different for each member.
        racks: whether members and replicas have racks; one replica each, in turn.
        joining: the last member joins a group that has the plan without it; otherwise no partition has an owner.
    """

    members: int
    topics: int
    partitions: int
    subscriptions: Subscriptions
    racks: bool = True
    joining: bool = False

    @property
    def total(self) -> int:
        """Returns the number of partitions of all topics."""
        return self.topics * self.partitions


def grid() -> Iterator[Cell]:
    """Yields the sample: corners and middle of the grid, all subscriptions, both histories; racks off in the middle."""
    for members in (100, 1_000, 10_000):
        sizes = [(ratio, topics) for ratio, topics in product((5, 50), (10, 1_000))]
        for ratio, topics in [(10, 100), *sizes]:
            each = max(1, members * ratio // topics)
            for subscriptions, joining in product(KAFKAS, (False, True)):
                yield Cell(
                    members=members, topics=topics, partitions=each, subscriptions=subscriptions, joining=joining
                )
        yield Cell(members=members, topics=100, partitions=members // 10, subscriptions="equal", racks=False)


FRANZ: Final = tuple(
    Cell(members=members, topics=topics, partitions=partitions, subscriptions=subscriptions)
    for members, topics, partitions in ((800, 50, 800), (1_000, 50, 1_000), (2_000, 500, 2_000))
    for subscriptions in FRANZS
)
"""The sizes of franz-go's `BenchmarkJava`: small, medium, large, each also with "imbalance"."""

GREATEST: Final = (
    Cell(members=2_000, topics=1_000, partitions=1_000, subscriptions="equal", joining=True),
    Cell(members=2_000, topics=1_000, partitions=1_000, subscriptions="buckets", joining=True),
    Cell(members=2_000, topics=1_000, partitions=1_000, subscriptions="halves"),
    Cell(members=2_000, topics=1_000, partitions=1_000, subscriptions="halves", joining=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A cell's group by names: the input of every rival.

    Attributes:
        topics: racks of the replicas of each partition.
        subscriptions: the distinct ones.
        subscription_of: index of each member's subscription.
        racks: rack of each member.
        owned: partitions of each topic that each member owns.
    """

    topics: dict[str, list[tuple[str | None, ...]]]
    subscriptions: list[tuple[str, ...]]
    subscription_of: list[int]
    racks: list[str | None]
    owned: list[dict[str, Int32Array]]

    def members(self) -> list[MemberInput]:
        """Returns the members as the assignors take them."""
        return [
            MemberInput(
                id=f"c{number:05}",
                topics=self.subscriptions[self.subscription_of[number]],
                rack=self.racks[number],
                owned=self.owned[number],
                generation=GENERATION if self.owned[number] else -1,
            )
            for number in range(len(self.subscription_of))
        ]

    def problem(self) -> Problem:
        """Returns the group as arrays."""
        return build_problem(topics=self.topics, members=self.members())

    def question(self, runs: int) -> dict[str, Any]:
        """Returns the group as JSON values, as the peers in Java and Go read it."""
        nodes = {rack: number for number, rack in enumerate((*RACKS, None))}
        return {
            "assignor": "cooperative-sticky",
            "brokers": [{"id": number, **({"rack": rack} if rack else {})} for rack, number in nodes.items()],
            "topics": {topic: [[nodes[racks[0]]] for racks in rows] for topic, rows in self.topics.items()},
            "subscriptions": self.subscriptions,
            "members": [
                {
                    "id": member.id,
                    "subscription": self.subscription_of[number],
                    "generation": member.generation,
                    "owned": [[topic, int(p)] for topic, numbers in self.owned[number].items() for p in numbers],
                    **({"rack": member.rack} if member.rack else {}),
                }
                for number, member in enumerate(self.members())
            ],
            "repeat": runs,
        }


def make(cell: Cell) -> Group:
    """Returns the cell's group."""
    names = [f"t{number:04}" for number in range(cell.topics)]
    racks = RACKS if cell.racks else (None,)
    rows: list[tuple[str | None, ...]] = [(racks[number % len(racks)],) for number in range(cell.partitions)]
    subscriptions, chosen = _subscriptions(cell, names)
    group = Group(
        topics=dict.fromkeys(names, rows),
        subscriptions=subscriptions,
        subscription_of=chosen,
        racks=[racks[number % len(racks)] for number in range(len(chosen))],
        owned=[{}] * len(chosen),
    )
    return _joined(group) if cell.joining else group


def _subscriptions(cell: Cell, names: list[str]) -> tuple[list[tuple[str, ...]], list[int]]:
    if cell.subscriptions == "buckets":
        size, each = -(-cell.topics // BUCKETS), -(-cell.members // BUCKETS)
        buckets = [tuple(names[first : first + size]) for first in range(0, cell.topics, size)]
        return buckets, [min(number // each, len(buckets) - 1) for number in range(cell.members)]
    if cell.subscriptions == "halves":
        wanted = np.random.default_rng(SEED).random((cell.members, cell.topics)) < 0.5
        return [tuple(np.array(names)[row].tolist()) for row in wanted], list(range(cell.members))
    if cell.subscriptions == "one extra":
        return [tuple(names), (names[0],)], [0] * cell.members + [1]
    return [tuple(names)], [0] * cell.members


def _joined(group: Group) -> Group:
    """Returns the group with its last member new: the others own the plan that they had without it."""
    before = Group(
        topics=group.topics,
        subscriptions=group.subscriptions,
        subscription_of=group.subscription_of[:-1],
        racks=group.racks[:-1],
        owned=group.owned[:-1],
    )
    problem = before.problem()
    owner = optimal.assign(problem)
    owned: list[dict[str, Int32Array]] = [{} for _ in group.subscription_of]
    order = np.argsort(owner, kind="stable")
    order = order[owner[order] != NOBODY]
    starts = np.flatnonzero(
        np.diff(owner[order].astype(np.int64) * len(problem.topics) + problem.topic_of[order], prepend=-1)
    )
    for run in np.split(order, starts[1:]):
        if len(run):
            owned[owner[run[0]]][problem.topics[problem.topic_of[run[0]]]] = problem.number_of[run]
    return Group(
        topics=group.topics,
        subscriptions=group.subscriptions,
        subscription_of=group.subscription_of,
        racks=group.racks,
        owned=owned,
    )
