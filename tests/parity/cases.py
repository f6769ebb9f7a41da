"""Random consumer groups in the JSON format of `samerack assign`, by family, for comparing assignors.

A case is a pure function of its seed.
"""

from __future__ import annotations

import random
from typing import Any, TypeAlias

Case: TypeAlias = dict[str, Any]

MEMBER_NAMES = ("consumer-", "pod-", "\uff5e", "\U0001f600", "é")
TOPIC_NAMES = ("orders", "clicks", "Zeta", "a.b", "naïve", "\uff5e", "\U0001f600")
FAMILIES = ("even", "skewed", "unset", "unequal", "leaving", "joining", "static", "copartitioned")


def random_case(seed: int, assignor: str) -> Case:
    """A group of the seed's family: 1 to 8 racks, replication 1 to 3, up to 9 members, up to 5 topics."""
    dice = random.Random(seed)  # noqa: S311 - reproducible cases, not secrets
    family = FAMILIES[seed % len(FAMILIES)]
    racks = [f"rack-{number}" for number in range(dice.randint(1, 8))]
    brokers = _brokers(dice, family, racks)
    topics = _topics(dice, family, brokers)
    members = _members(dice, family, racks, list(topics))
    if family in ("leaving", "joining", "static") or dice.random() < 0.5:
        _own(dice, family, topics, members)
    return {"case": seed, "assignor": assignor, "brokers": brokers, "topics": topics, "members": members}


def _brokers(dice: random.Random, family: str, racks: list[str]) -> list[Case]:
    count = max(len(racks), dice.randint(1, 8))
    named: list[str | None] = [racks[number % len(racks)] for number in range(count)]
    if family == "skewed":
        named = [racks[0] if dice.random() < 0.6 else dice.choice(racks) for _ in range(count)]
    if family == "unset":
        named = [None if dice.random() < 0.3 else rack for rack in named]
    return [{"id": number, "rack": rack} for number, rack in enumerate(named)]


def _topics(dice: random.Random, family: str, brokers: list[Case]) -> dict[str, list[list[int]]]:
    names = dice.sample(TOPIC_NAMES, dice.randint(1, 5))
    together, replication = dice.randint(1, 12), dice.randint(1, 3)
    ids = [broker["id"] for broker in brokers] + ([99] if family == "unset" else [])
    return {
        name: [
            dice.sample(ids, min(len(ids), replication if dice.random() < 0.9 else dice.randint(1, 3)))
            for _ in range(together if family == "copartitioned" or dice.random() < 0.3 else dice.randint(0, 15))
        ]
        for name in names
    }


def _members(dice: random.Random, family: str, racks: list[str], topics: list[str]) -> list[Case]:
    homes: list[str | None] = [*racks, "elsewhere"]
    weights = [1.0] * len(racks) + [0.2]
    if family == "skewed":
        weights[-2] = 4.0
    if family == "unset":
        homes.append(None)
        weights.append(2.0)
    all_racks_known = dice.random() < 0.85
    return [
        {
            "id": f"{dice.choice(MEMBER_NAMES)}{dice.randrange(10**6)}-{number}",
            "instance_id": f"{dice.choice(MEMBER_NAMES)}{number}" if _is_static(dice, family) else None,
            "topics": _subscription(dice, family, topics),
            "owned": [],
            "generation": -1,
            "rack": dice.choices(homes, weights)[0] if all_racks_known else None,
        }
        for number in range(dice.randint(1, 9))
    ]


def _is_static(dice: random.Random, family: str) -> bool:
    return family == "static" and dice.random() < 0.6


def _subscription(dice: random.Random, family: str, topics: list[str]) -> list[str]:
    if family != "unequal":
        return list(topics)
    wanted = [topic for topic in topics if dice.random() < 0.6]
    return wanted + (["absent"] if dice.random() < 0.1 else [])


def _own(dice: random.Random, family: str, topics: dict[str, list[list[int]]], members: list[Case]) -> None:
    """Give members owned partitions of an earlier round, in runs as assignors do, or at random."""
    generation = dice.randint(1, 9)
    newcomers = 1 if family == "joining" and len(members) > 1 else 0
    holders = [*members[newcomers:], *([None] if family == "leaving" else [])]
    for member in members[newcomers:]:
        member["generation"] = generation
    turn, in_runs = 0, dice.random() < 0.5
    for topic, partitions in topics.items():
        for number in range(len(partitions)):
            turn += 1
            holder = holders[turn // 3 % len(holders)] if in_runs else dice.choice(holders)
            if holder is not None and topic in holder["topics"]:
                holder["owned"].append([topic, number])
