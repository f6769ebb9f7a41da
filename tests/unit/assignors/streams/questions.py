"""Random questions about Streams plans, as the JSON objects that `samerack assign --lines` reads.

Clients and tasks are those of the random applications that whole assignments are compared on.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.parity.streams_cases import random_case

Question = dict[str, Any]

COSTS = (0, 1, 10, 100)


def application(seed: int) -> Question:
    """Clients with racks, threads and tags, and tasks with their partitions."""
    case = random_case(seed, "optimize")
    clients = [{key: value for key, value in client.items() if key != "uuid"} for client in case["clients"]]
    tags = case.get("rack_aware_assignment_tags", [])
    return {"clients": clients, "tasks": case["tasks"], "rack_aware_assignment_tags": tags}


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


def optimize_question(seed: int, kind: str) -> Question:
    """A question for `streams-optimize` with `compatible`, so that Kafka's answer and ours can be compared."""
    random = _dice(seed)
    question = application(seed)
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
    question = application(seed)
    active, _ = placed(random, question, standbys=0)
    return question | {
        "assignment": active,
        "standby": {},
        "num_standby_replicas": random.randint(0, 3),
        "compatible": True,
    }
