"""Random Streams applications of many families, as questions for both Kafka's classes and ours."""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any, Final
from uuid import UUID

Case = dict[str, Any]

FAMILIES: Final = ("even", "skewed", "one-rack", "missing-rack", "left", "joined", "tags", "warm-ups", "crowded", "new")
"""The special feature of a case; everything else also varies."""


def random_case(seed: int, assignor: str) -> Case:
    """An application whose clients had tasks before, and the question how `assignor` assigns it.

    Args:
        seed: equal seeds give equal cases.
        assignor: `ha`, `sticky`, `legacy-sticky` or `fallback-prior`.
    """
    rng = random.Random(f"{seed} {assignor}")  # noqa: S311 - cases, not secrets
    family = FAMILIES[seed % len(FAMILIES)]
    racks = [f"r{number}" for number in range(1 if family == "one-rack" else rng.randint(2, 8))]
    clients = _clients(rng, family, racks)
    tasks = _tasks(rng, family, racks)
    standbys = rng.choice([0, 0, 1, 1, 2])
    case: Case = {
        "case": seed,
        "assignor": assignor,
        "clients": clients,
        "tasks": tasks,
        "strategy": rng.choice(["none", "min_traffic", "min_traffic", "balance_subtopology"]),
        "traffic_cost": rng.choice([None, 1, 10, 100]),
        "non_overlap_cost": rng.choice([None, 0, 1, 10]),
        "num_standby_replicas": standbys,
        "acceptable_recovery_lag": rng.choice([0, 100, 10_000]),
        "max_warmup_replicas": rng.choice([1, 1, 2, 5, 100]),
        "must_preserve_active": rng.random() < 0.1,
    }
    if family == "tags" or rng.random() < 0.1:
        case["rack_aware_assignment_tags"] = rng.choice([["zone"], ["zone", "cluster"], ["cluster", "zone"]])
    if family != "new":
        _remember(rng, family, case)
    _lag(rng, case)
    return case


def _clients(rng: random.Random, family: str, racks: list[str]) -> list[Case]:
    uuids = rng.random() < 0.5
    same_threads = rng.random() < 0.4
    clients: list[Case] = []
    for number in range(rng.randint(1, 9)):
        rack = racks[0] if family == "skewed" and rng.random() < 0.6 else rng.choice(racks)
        client: Case = {"id": f"c{number}", "rack": rack, "threads": 2 if same_threads else rng.randint(1, 4)}
        if rng.random() < 0.9:
            client["tags"] = {"zone": f"z{rng.randrange(3)}", "cluster": f"k{rng.randrange(2)}"}
        if uuids:
            client["uuid"] = str(UUID(int=rng.getrandbits(128)))
        clients.append(client)
    if family == "missing-rack" and rng.random() < 0.5:
        rng.choice(clients)["rack"] = None
    return clients


def _tasks(rng: random.Random, family: str, racks: list[str]) -> list[Case]:
    replicas = rng.randint(1, min(3, len(racks)))
    tasks: list[Case] = []
    for subtopology in range(rng.randint(1, 4)):
        stateful = rng.random() < 0.7
        topics = rng.choice([1, 1, 2])
        for partition in range(rng.randint(1, 30 if family == "crowded" else 8)):

            def somewhere(topic: str, partition: int = partition, *, changelog: bool = False) -> Case:
                favoured = racks[:replicas] if family == "skewed" and rng.random() < 0.6 else racks
                chosen = sorted(rng.sample(favoured, min(replicas, len(favoured))))
                return {
                    "topic": topic,
                    "partition": partition,
                    "racks": chosen,
                    "source": not changelog,
                    "changelog": changelog,
                }

            partitions = [somewhere(f"s{subtopology}-{number}") for number in range(topics)]
            if stateful:
                partitions.append(somewhere(f"app-{subtopology}-changelog", changelog=True))
            tasks.append(
                {"subtopology": subtopology, "partition": partition, "stateful": stateful, "partitions": partitions}
            )
    if family == "missing-rack" and rng.random() < 0.5:
        rng.choice(rng.choice(tasks)["partitions"])["racks"] = []
    return tasks


def _remember(rng: random.Random, family: str, case: Case) -> None:
    """Set the previous tasks: nearly every task has an owner; clients that have just joined had none."""
    names = [client["id"] for client in case["clients"]]
    old = names[: max(1, len(names) // 2)] if family == "joined" else names
    active: dict[str, list[str]] = {name: [] for name in old}
    standby: dict[str, list[str]] = {name: [] for name in old}
    for task in case["tasks"]:
        name = f"{task['subtopology']}_{task['partition']}"
        owner = rng.choice(old)
        if not (family == "left" and rng.random() < 0.4) and rng.random() < 0.95:
            active[owner].append(name)
        others = [other for other in old if other != owner]
        if task["stateful"]:
            for other in rng.sample(others, min(len(others), rng.randint(0, case["num_standby_replicas"] + 1))):
                standby[other].append(name)
    case["previous_active"], case["previous_standby"] = active, standby


def _lag(rng: random.Random, case: Case) -> None:
    """Lags that fit the previous tasks: owners have none, standbys some, all others the full lag."""
    lags: dict[str, dict[str, int]] = {}
    everything = rng.choice([0, 500, 100_000])
    for client in case["clients"]:
        name = client["id"]
        lags[name] = {}
        for task in (f"{task['subtopology']}_{task['partition']}" for task in case["tasks"] if task["stateful"]):
            if task in case.get("previous_active", {}).get(name, ()):
                lags[name][task] = -2
            elif task in case.get("previous_standby", {}).get(name, ()):
                lags[name][task] = rng.choice([0, 0, 50, 5_000, 50_000, -3])
            else:
                lags[name][task] = everything
    case["lags"] = lags


REPORTED: Final = (
    "active",
    "standby",
    "tasks_with_warmups",
    "probing_rebalance",
    "rack_aware_enabled",
    "followup_deadline_ms",
    "validation",
)
"""All parts of an answer; Kafka's public assignor and those before KIP-924 give different subsets."""


def digest(answer: Case, assignor: str) -> str:
    """Sixteen hexadecimal digits of all parts of an answer: equal if and only if plans are equal task by task."""
    unreported = REPORTED[2:5] if assignor == "sticky" else REPORTED[5:]
    decided = {key: answer[key] for key in REPORTED if key not in unreported}
    return hashlib.sha256(json.dumps(decided, sort_keys=True).encode()).hexdigest()[:16]
