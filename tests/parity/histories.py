"""Random histories of consumer groups: members join, leave and restart one after the other, replicas move.

A history is a pure function of its seed: groups in the JSON format of `samerack assign`, whose members own no
partitions. The walk through a history sets what members own from the assignor's previous plan.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from tests.parity.cases import Case, random_case

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
