"""`scripts/bench streams`: compares the optimisation of active tasks with Kafka's Java; alone where Java is too slow.

Both get the same input in one run and must reach equal costs. Writes docs/benchmarks-streams.md and .json.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.report import machine
from samerack.assignors.streams.active import ActiveTasks, Costs, optimize_active, remote_rows
from samerack.offline.streams_answers import OPTIMIZE, answer_line
from tests.parity.peer import Peer

BESIDE_JAVA: Final = ((100, 10), (200, 10), (500, 10), (1_000, 10))
ALONE: Final = ((1_000, 100), (10_000, 1_000), (100_000, 1_000), (1_000_000, 10_000))
STRATEGIES: Final = ("min_traffic", "balance_subtopology")
RACKS: Final = 3
SUBTOPOLOGIES: Final = 10
RUNS: Final = 5
DOCS: Final = Path(__file__).parents[1] / "docs"

_PAGE: Final = """# Benchmarks: Streams tasks

Rack-aware optimisation of active tasks (KIP-925): how long it takes to find the cheapest plan with as many tasks per
client as before. Three racks, one source partition a task on two random racks, tasks dealt to clients at random,
{size} subtopologies, traffic cost 10, non-overlap cost 1.

## Beside Kafka's own `TaskAssignmentUtils`

Both answer the same JSON questions in one run; seconds are those of the whole answer, reading the question included.
Plans cost the same.

| tasks x clients | strategy | Kafka 4.3.0, s | samerack, s | times faster | cost |
|---|---|--:|--:|--:|--:|
{beside}

## Alone, from arrays

The fastest of {runs} runs; Kafka's needs minutes for the first row already.

| tasks x clients | strategy | seconds |
|---|---|--:|
{alone}

## Repeat it

```
scripts/bench streams
```

Measured on: {machine}
"""


def question(tasks: int, clients: int, strategy: str) -> dict[str, Any]:
    """Returns one application in the format of `samerack streams optimize --lines`."""
    rng = random.Random(tasks * clients)  # noqa: S311 - repeatable, not secret
    racks = [f"r{number}" for number in range(RACKS)]
    names = [f"c{number}" for number in range(clients)]
    listed, owned = [], {name: list[str]() for name in names}
    for number in range(tasks):
        partition, subtopology = divmod(number, SUBTOPOLOGIES)
        source = {"topic": f"t{subtopology}", "partition": partition, "racks": rng.sample(racks, 2)}
        listed.append(
            {
                "subtopology": subtopology,
                "partition": partition,
                "stateful": False,
                "partitions": [{**source, "source": True, "changelog": False}],
            }
        )
        owned[rng.choice(names)].append(f"{subtopology}_{partition}")
    return {
        "kind": "active",
        "strategy": strategy,
        "traffic_cost": 10,
        "non_overlap_cost": 1,
        "clients": [{"id": name, "rack": racks[at % RACKS], "threads": 1} for at, name in enumerate(names)],
        "tasks": listed,
        "assignment": owned,
        "standby": {name: [] for name in names},
        "compatible": True,
    }


def beside_java(peer: Peer, tasks: int, clients: int, strategy: str) -> dict[str, Any]:
    """Returns the seconds of both and the cost of our plan.

    Raises:
        RuntimeError: Kafka's plan has another cost, computed from its reads across racks and its moves.
    """
    asked = question(tasks, clients, strategy)
    begun = time.perf_counter()
    theirs = peer.ask({**asked, "cmd": OPTIMIZE})
    java = time.perf_counter() - begun
    line = json.dumps(asked).encode()
    answer_line(line, [OPTIMIZE])  # the first one loads the solver
    begun = time.perf_counter()
    ours = answer_line(line, [OPTIMIZE])
    own = time.perf_counter() - begun
    cost = _cost(asked, theirs["active"])
    if ours["cost"] != cost:
        raise RuntimeError(f"{tasks} x {clients} {strategy}: costs differ: Kafka {cost}, ours {ours['cost']}")
    return {"tasks": tasks, "clients": clients, "strategy": strategy, "java": java, "own": own, "cost": cost}


def _cost(asked: dict[str, Any], plan: dict[str, list[str]]) -> int:
    rack = {client["id"]: client["rack"] for client in asked["clients"]}
    before = {task: client for client, tasks in asked["assignment"].items() for task in tasks}
    near = {f"{task['subtopology']}_{task['partition']}": task["partitions"][0]["racks"] for task in asked["tasks"]}
    return sum(
        10 * (rack[client] not in near[task]) + (before[task] != client)
        for client, tasks in plan.items()
        for task in tasks
    )


def alone(tasks: int, clients: int, strategy: str) -> dict[str, Any]:
    """Returns the fastest run from arrays to arrays."""
    rng = np.random.default_rng(tasks)
    missing = rng.integers(0, RACKS, tasks)
    remote, remotes = remote_rows([(missing == rack).astype(np.int64) for rack in range(RACKS)])
    problem = ActiveTasks(
        subtopology=(np.arange(tasks) % SUBTOPOLOGIES).astype(np.int32),
        remote=remote,
        remotes=remotes,
        rack=(np.arange(clients) % RACKS).astype(np.int32),
        client=rng.integers(0, clients, tasks).astype(np.int32),
    )
    seconds = []
    for _ in range(RUNS):
        begun = time.perf_counter()
        optimize_active(problem, Costs(traffic=10, non_overlap=1), balance=strategy == "balance_subtopology")
        seconds.append(time.perf_counter() - begun)
    return {"tasks": tasks, "clients": clients, "strategy": strategy, "own": min(seconds)}


def main() -> int:
    """Measure everything and write the page."""
    with Peer("StreamsPeer") as peer:
        peer.ask({**question(20, 4, "min_traffic"), "cmd": OPTIMIZE})  # Java loads its classes
        beside = [_told(beside_java(peer, *shape, name)) for name in STRATEGIES for shape in BESIDE_JAVA]
    lonely = [_told(alone(*shape, name)) for name in STRATEGIES for shape in ALONE]
    results = {"machine": machine(), "beside_java": beside, "alone": lonely}
    (DOCS / "benchmarks-streams.json").write_text(json.dumps(results, indent=2) + "\n")
    (DOCS / "benchmarks-streams.md").write_text(page(results))
    return 0


def _told(result: dict[str, Any]) -> dict[str, Any]:
    sys.stderr.write(json.dumps(result) + "\n")
    return result


def page(results: dict[str, Any]) -> str:
    """Returns the page of one run."""
    return _PAGE.format(
        size=SUBTOPOLOGIES,
        runs=RUNS,
        beside="\n".join(
            f"| {row['tasks']:,} x {row['clients']:,} | {row['strategy']} | {row['java']:.2f} | {row['own']:.3f} "
            f"| {row['java'] / row['own']:,.0f} | {row['cost']:,} |"
            for row in results["beside_java"]
        ),
        alone="\n".join(
            f"| {row['tasks']:,} x {row['clients']:,} | {row['strategy']} | {row['own']:.4f} |"
            for row in results["alone"]
        ),
        machine=", ".join(f"{name} {value}" for name, value in results["machine"].items()),
    )
