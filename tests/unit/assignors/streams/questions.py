"""Random Streams questions of many families, as the JSON objects that `samerack streams ... --lines` reads.

Families: even and skewed racks, replication 1 to 3, 1 to 5 racks, several partitions per task, stateful and stateless
tasks, tags with one or two keys, missing racks, clients with many threads and clients without tasks.
"""

from __future__ import annotations

from random import Random
from typing import Any

Question = dict[str, Any]

COSTS = (0, 1, 10, 100)


def application(random: Random, *, largest: int = 12, missing: bool = False) -> Question:
    """Clients with racks, threads and tags, and tasks with their partitions."""
    racks = [f"r{number}" for number in range(random.randint(1, 5))]
    weights = [random.choice((1, 1, 1, 6)) for _ in racks]
    replication = random.randint(1, min(3, len(racks)))
    keys = random.choice(([], [], ["zone"], ["zone", "cluster"]))
    clients = [
        {
            "id": f"c{number}",
            "rack": None if missing and random.random() < 0.05 else random.choices(racks, weights)[0],
            "threads": random.choice((1, 1, 1, 2, 4)),
            "tags": {key: f"{key[0]}{random.randint(0, 2)}" for key in keys if random.random() < 0.95},
        }
        for number in range(random.randint(1, 8))
    ]
    tasks = []
    for subtopology in range(random.randint(1, 4)):
        stateful = random.random() < 0.7
        sources, changelogs = random.randint(1, 2), random.randint(1, 2) if stateful else 0
        for partition in range(random.randint(1, largest)):
            parts = [(f"s{subtopology}-{number}", True, False) for number in range(sources)]
            parts += [(f"app-{subtopology}-{number}-changelog", False, True) for number in range(changelogs)]
            tasks.append(
                {
                    "subtopology": subtopology,
                    "partition": partition,
                    "stateful": stateful,
                    "partitions": [
                        {
                            "topic": topic,
                            "partition": partition,
                            "racks": _replicas(random, racks, 0 if missing and random.random() < 0.01 else replication),
                            "source": source,
                            "changelog": changelog,
                        }
                        for topic, source, changelog in parts
                    ],
                }
            )
    return {"clients": clients, "tasks": tasks, "rack_aware_assignment_tags": keys}


def _replicas(random: Random, racks: list[str], replication: int) -> list[str]:
    first = random.randrange(len(racks))
    return sorted({racks[(first + step) % len(racks)] for step in range(replication)})


def names(question: Question) -> list[str]:
    """The task ids of a question."""
    return [f"{task['subtopology']}_{task['partition']}" for task in question["tasks"]]


def placed(random: Random, question: Question, *, standbys: int, spare: bool = False) -> tuple[Question, Question]:
    """Actives placed at random, with `spare` some clients empty, and up to `standbys` standbys per stateful task."""
    clients = [client["id"] for client in question["clients"]]
    busy = random.sample(clients, random.randint(1, len(clients))) if spare else clients
    active: Question = {client: [] for client in clients}
    standby: Question = {client: [] for client in clients}
    for name, task in zip(names(question), question["tasks"], strict=True):
        home = random.choice(busy)
        active[home].append(name)
        others = [client for client in clients if client != home]
        if task["stateful"]:
            for client in random.sample(others, min(len(others), random.randint(0, standbys))):
                standby[client].append(name)
    return active, standby


def _dice(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - reproducible cases, not secrets


def optimize_question(seed: int, kind: str, *, missing: bool = False) -> Question:
    """A question for `streams-optimize` with `compatible`, so that Kafka's answer and ours can be compared."""
    random = _dice(seed)
    question = application(random, missing=missing)
    active, standby = placed(random, question, standbys=2 if kind == "standby" else random.choice((0, 1)), spare=True)
    question |= {
        "kind": kind,
        "strategy": random.choice(("min_traffic", "balance_subtopology")),
        "traffic_cost": random.choice(COSTS),
        "non_overlap_cost": random.choice(COSTS),
        "assignment": active,
        "standby": standby,
        "compatible": True,
    }
    if kind == "active" and random.random() < 0.2:
        question["tasks_to_optimize"] = random.choice(("stateful", "stateless"))
    if kind == "active" and random.random() < 0.1:
        question["tasks_to_optimize"] = sorted(random.sample(names(question), random.randint(1, len(names(question)))))
    return question


def standby_question(seed: int) -> Question:
    """A question for `streams-default-standby`."""
    random = _dice(seed)
    question = application(random)
    active, _ = placed(random, question, standbys=0)
    return question | {
        "assignment": active,
        "standby": {},
        "num_standby_replicas": random.randint(0, 3),
        "compatible": True,
    }
