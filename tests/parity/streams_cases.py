"""Random Streams applications, as questions for both Kafka's classes and ours: `random_case` and `deployed_case`."""

from __future__ import annotations

import hashlib
import json
import random
from math import lcm
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


def deployed_case(seed: int, assignor: str) -> Case:
    """An application in zones, with zones as tags or none, whose instances were deployed, replaced or added before.

    It has nothing in common with `random_case`: racks decide in each, sizes and places are those of deployments, and
    `ha` finds everybody caught up.
    """
    rng = random.Random(f"deployed {seed} {assignor}")  # noqa: S311 - cases, not secrets
    zones = [f"zone-{end}" for end in "abcdef"[: rng.choice([2, 3, 3, 3, 4, 5, 6])]]
    clients = _instances(rng, zones)
    tasks = _subtopologies(rng, zones)
    case: Case = {
        "case": seed,
        "assignor": assignor,
        "clients": clients,
        "tasks": tasks,
        "strategy": rng.choice(["min_traffic", "min_traffic", "balance_subtopology"]),
        "traffic_cost": rng.choice([0, 1, 1, 5, 10, 100]),
        "non_overlap_cost": rng.choice([0, 1, 1, 10, 50]),
        "num_standby_replicas": rng.choice([0, 0, 1, 1, 1, 2]),
        "max_warmup_replicas": rng.choice([1, 2, 100]),
    }
    if "tags" in clients[0]:
        case["rack_aware_assignment_tags"] = rng.choice([["zone"], ["zone", "cluster"]])
    active, standby = _dealt_before(rng, case)
    stateful = [_name(task) for task in tasks if task["stateful"]]
    case["previous_active"], case["previous_standby"] = active, standby
    case["lags"] = {name: {task: -2 if task in mine else 0 for task in stateful} for name, mine in active.items()}
    return case


def _name(task: Case) -> str:
    return f"{task['subtopology']}_{task['partition']}"


def _instances(rng: random.Random, zones: list[str]) -> list[Case]:
    each, threads = rng.choice([1, 1, 2, 3]), rng.choice([[1], [2], [4], [1, 2], [1, 8], [2, 3, 5]])
    placed = [zone for zone in zones for _ in range(max(1, each + rng.choice([-1, 0, 0, 0, 1])))]
    rng.shuffle(placed)
    clients: list[Case] = [
        {"id": f"i{number}", "rack": zone, "threads": rng.choice(threads)} for number, zone in enumerate(placed)
    ]
    if rng.random() < 0.35:
        for number, client in enumerate(clients):
            client["tags"] = {"zone": client["rack"], "cluster": f"k{number % 2}"}
    return clients


def _subtopologies(rng: random.Random, zones: list[str]) -> list[Case]:
    """Tasks whose replicas go round the zones, are anywhere, have drifted, or are in one zone."""
    replicas = min(len(zones), rng.choice([1, 1, 2, 3]))
    layout = rng.choice(["round", "anywhere", "drifted", "one-zone"])

    def placed(topic: str, partition: int, turn: int, *, changelog: bool) -> Case:
        if layout == "one-zone" and not changelog:
            racks = zones[:replicas]
        elif layout == "round" or (layout == "drifted" and rng.random() < 0.8):
            racks = [zones[(partition + turn + step) % len(zones)] for step in range(replicas)]
        else:
            racks = rng.sample(zones, replicas)
        place = {"topic": topic, "partition": partition, "racks": sorted(racks)}
        return place | {"source": not changelog, "changelog": changelog}

    tasks = []
    for part in range(rng.choice([1, 2, 2, 3, 5])):
        sources, logs = rng.choice([1, 1, 1, 2, 3]), rng.choice([1, 1, 2]) if rng.random() < 0.65 else 0
        for number in range(rng.choice([1, 3, 6, 8, 12, 17, 24])):
            partitions = [placed(f"in{part}-{topic}", number, topic, changelog=False) for topic in range(sources)]
            partitions += [placed(f"log{part}-{topic}", number, topic + 1, changelog=True) for topic in range(logs)]
            tasks.append({"subtopology": part, "partition": number, "stateful": logs > 0, "partitions": partitions})
    return tasks


def _dealt_before(rng: random.Random, case: Case) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The tasks that clients had: none, in turn, packed, with one that has left or come since, or some that moved."""
    names = [client["id"] for client in case["clients"]]
    active: dict[str, list[str]] = {name: [] for name in names}
    standby: dict[str, list[str]] = {name: [] for name in names}
    history = rng.choice(["none", "in-turn", "in-turn", "packed", "one-left", "one-new", "moved"])
    old = names[:-1] if history == "one-new" and len(names) > 1 else names
    first = rng.randrange(len(old))
    for number, task in enumerate(case["tasks"] if history != "none" else ()):
        at = (number // 7 if history == "packed" else number + first) % len(old)
        owner = rng.choice(old) if history == "moved" and rng.random() < 0.3 else old[at]
        if history != "one-left" or at:
            active[owner].append(_name(task))
        others = [name for name in old if name != owner]
        if task["stateful"] and others:
            begin = rng.randrange(len(others))
            for step in range(min(len(others), case["num_standby_replicas"])):
                standby[others[(begin + step) % len(others)]].append(_name(task))
    return active, standby


def figures(case: Case, answer: Case) -> list[int]:
    """Whether a plan is good: imbalance of actives, tags not met, imbalance of all tasks, cost, reads across racks.

    Imbalance is the sum of squares by thread; a stateless task costs what it reads across racks, and moves freely.
    """
    tasks = {_name(task): task for task in case["tasks"]}
    traffic, move = case["traffic_cost"], case["non_overlap_cost"]
    common = lcm(*(client["threads"] for client in case["clients"]))
    tags: dict[str, set[tuple[str, str]]] = {}
    actives = everything = cost = reads = 0
    for client in case["clients"]:
        name, weight = client["id"], common // client["threads"]
        own = {role: answer[role].get(name, []) for role in ("active", "standby")}
        actives += weight * len(own["active"]) ** 2
        everything += weight * sum(map(len, own.values())) ** 2
        for role, kind in (("active", "source"), ("standby", "changelog")):
            for task in own[role]:
                across = sum(one[kind] and client["rack"] not in one["racks"] for one in tasks[task]["partitions"])
                moved = task not in case[f"previous_{role}"].get(name, ())
                reads += across
                cost += traffic * across + move * moved if tasks[task]["stateful"] else across
                keys = case.get("rack_aware_assignment_tags", ()) if tasks[task]["stateful"] else ()
                tags.setdefault(task, set()).update((key, client["tags"][key]) for key in keys)
    return [actives, -sum(map(len, tags.values())), everything, cost, reads]


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
