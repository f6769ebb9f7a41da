"""Walks through random histories with our assignor and Kafka's of the same name, and counts the differences.

In a history members join, leave and restart one after the other, and replicas move. It is a pure function of its seed:
groups in the JSON format of `samerack assign`, whose members own no partitions. The walk through it sets what members
own from the assignor's previous plan: both assign each group with the owners of our plans; Kafka's also assigns it with
the owners of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeAlias

from samerack.assignors.evaluate import evaluate
from samerack.assignors.problem import NOBODY, Int32Array, Problem
from tests.parity.cases import Case, random_case
from tests.parity.plans import kafkas_plan, max_of_a_topic, ours, problem_of, rank

if TYPE_CHECKING:
    from tests.parity.peer import Peer

Owned: TypeAlias = dict[str, list[tuple[str, int]]]
STEPS = 20


def random_history(seed: int, assignor: str) -> list[Case]:
    """The groups of a history, first a new one; a step adds one group, a rolling restart two for each member."""
    dice = random.Random(seed)  # noqa: S311 - reproducible histories, not secrets
    group = random_case(seed, assignor)
    group["members"] = [member | {"owned": [], "generation": -1} for member in group["members"]]
    groups = [group]
    for _ in range(STEPS):
        groups.extend(dice.choice(_CHANGES)(dice, groups[-1]))
    return groups


def _join(dice: random.Random, group: Case) -> Iterator[Case]:
    like = dice.choice(group["members"])
    yield group | {"members": [*group["members"], _renamed(dice, like) | {"instance_id": None}]}


def _leave(dice: random.Random, group: Case) -> Iterator[Case]:
    if len(group["members"]) > 1:
        gone = dice.randrange(len(group["members"]))
        yield group | {"members": group["members"][:gone] + group["members"][gone + 1 :]}


def _restart(dice: random.Random, group: Case) -> Iterator[Case]:
    """Each member in turn leaves and returns under another id."""
    members = group["members"]
    for number, member in enumerate(members):
        others = members[:number] + members[number + 1 :]
        if others:
            yield group | {"members": others}
        members = [*members[:number], _renamed(dice, member), *members[number + 1 :]]
        yield group | {"members": members}


def _move_replicas(dice: random.Random, group: Case) -> Iterator[Case]:
    """Some partitions get replicas on other brokers."""
    brokers = [broker["id"] for broker in group["brokers"]]
    yield group | {
        "topics": {
            topic: [
                dice.sample(brokers, min(len(brokers), max(1, len(replicas)))) if dice.random() < 0.1 else replicas
                for replicas in partitions
            ]
            for topic, partitions in group["topics"].items()
        }
    }


_CHANGES: tuple[Callable[[random.Random, Case], Iterator[Case]], ...] = (_join, _leave, _restart, _move_replicas)


def _renamed(dice: random.Random, member: Case) -> Case:
    return member | {"id": f"{member['id'].rsplit('-', 1)[0]}-{dice.randrange(10**9)}"}


@dataclass(slots=True, kw_only=True)
class Walk:
    """Counts of plans."""

    plans: int = 0  # plans that were compared
    worse: int = 0  # ours is worse in (balance, cross-rack, moves) than Kafka's for the same group
    better: int = 0  # ours is better in them
    equal_lumpier: int = 0  # they are equal, and our largest count of a topic on one member exceeds Kafka's
    better_lumpier: int = 0  # ours is better, and its largest count exceeds Kafka's all the same
    ever_lumpier: int = 0  # our largest count exceeds that of a history with Kafka's assignor alone
    ever_less_lumpy: int = 0  # our largest count is smaller than that
    moves: int = 0  # partitions that our plans moved in total
    kafkas_moves: int = 0  # partitions moved in a history with Kafka's assignor alone
    cross_rack: int = 0  # partitions read across racks in all our plans
    kafkas_cross_rack: int = 0  # the same in a history with Kafka's assignor alone
    not_comparable: int = 0  # groups for which Kafka's plan was wrong; both continued from our plan

    def add(self, other: Walk) -> None:
        """Add another walk's counts."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


def walk(peer: Peer, seed: int, assignor: str) -> Walk:
    """Walk through one history, from its new group to its last."""
    counted, mine, theirs = Walk(), Owned(), Owned()
    for generation, group in enumerate(random_history(seed, assignor), start=1):
        case, kafkas_case = (_owning(group, owned, generation) for owned in (mine, theirs))
        solution = ours(case)
        problem, plan = solution.problem, solution.owner
        kafkas, alone = kafkas_plan(peer, case, problem), kafkas_plan(peer, kafkas_case, problem)
        mine = _owned(problem, plan)
        if kafkas is None or alone is None:
            counted.not_comparable += 1
            theirs = mine
            continue
        theirs = _owned(problem, alone)
        cost, kafkas_cost = evaluate(problem, plan), evaluate(problem, kafkas)
        alone_cost = evaluate(problem_of(kafkas_case), alone)
        largest, kafkas_largest, alone_largest = (max_of_a_topic(problem, owner) for owner in (plan, kafkas, alone))
        counted.plans += 1
        counted.worse += rank(cost) > rank(kafkas_cost)
        counted.better += rank(cost) < rank(kafkas_cost)
        counted.equal_lumpier += rank(cost) == rank(kafkas_cost) and largest > kafkas_largest
        counted.better_lumpier += rank(cost) < rank(kafkas_cost) and largest > kafkas_largest
        counted.ever_lumpier += largest > alone_largest
        counted.ever_less_lumpy += largest < alone_largest
        counted.moves += cost.moved
        counted.kafkas_moves += alone_cost.moved
        counted.cross_rack += cost.cross_rack
        counted.kafkas_cross_rack += alone_cost.cross_rack
    return counted


def _owning(group: Case, owned: Owned, generation: int) -> Case:
    """The group with the partitions that its members got in the generation before."""
    return group | {
        "members": [
            member | ({"owned": owned[member["id"]], "generation": generation - 1} if member["id"] in owned else {})
            for member in group["members"]
        ]
    }


def _owned(problem: Problem, plan: Int32Array) -> Owned:
    owned: Owned = {member: [] for member in problem.members}
    for owner, topic, number in zip(plan.tolist(), problem.topic_of.tolist(), problem.number_of.tolist(), strict=True):
        if owner != NOBODY:
            owned[problem.members[owner]].append((problem.topics[topic], number))
    return owned
