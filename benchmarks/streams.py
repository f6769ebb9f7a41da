"""`scripts/bench streams`: compares the optimisation of active tasks with Kafka's Java; alone where Java is too slow.

Both get the same input in one run and must reach equal costs. Writes docs/benchmarks-streams.md and .json.
"""

from __future__ import annotations

import cProfile
import json
import random
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks import streams_answer
from benchmarks.machine import listed
from benchmarks.report import machine
from samerack.assignors.streams.active import ActiveTasks, Costs, optimize_active, remote_rows
from samerack.offline.streams_answers import OPTIMIZE, answer_line
from tests.parity.peer import Peer

BESIDE_JAVA: Final = ((100, 10), (200, 10), (500, 10), (1_000, 10))
ALONE: Final = ((1_000, 100), (10_000, 1_000), (100_000, 1_000), (1_000_000, 10_000), (10_000, 10_000))
MANY: Final = (100, 1_000)
"""More subtopologies, for the last shape under balance_subtopology."""
STRATEGIES: Final = ("min_traffic", "balance_subtopology")
SHOWN_TASKS: Final = 100_000
SHOWN_BESIDE_JAVA: Final = 500
"""The page has the applications with so many tasks or more, the document all."""
RACKS: Final = 3
SUBTOPOLOGIES: Final = 10
RUNS: Final = 5
COSTS: Final = Costs(traffic=10, non_overlap=1)
DOCS: Final = Path(__file__).parents[1] / "docs"

_PAGE: Final = """# Benchmarks: Streams tasks

Finding the cheapest plan of active tasks (KIP-925): three racks, one source partition a task on two random racks,
{size} subtopologies, traffic cost 10, non-overlap cost 1. `scripts/bench streams`, on {machine}.

## Beside Kafka's own `TaskAssignmentUtils`

Both answer the same JSON questions; plans cost the same.

| tasks x clients | strategy | Kafka 4.3.0, s | samerack, s | times faster |
|---|---|--:|--:|--:|
{beside}

## Alone, from arrays

Processor seconds of the fastest of {runs} runs, and the most memory of the process. Kafka's needs
minutes for the first row.

| tasks x clients | subtopologies | strategy | seconds | MiB |
|---|--:|---|--:|--:|
{alone}

## The whole answer

`POST /v1/streams/assign` with {answer[tasks]:,} stateful tasks and {answer[clients]:,} clients, from JSON to JSON:
{answer[best]:.2f} s of processor time at best, {answer[median]:.2f} s in the median, {answer[first]:.2f} s at first,
{answer_mib:.0f} MiB, on {answer_machine}.
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


def alone(tasks: int, clients: int, strategy: str, subtopologies: int = SUBTOPOLOGIES) -> dict[str, Any]:
    """Returns the fastest run from arrays to arrays, in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        measured = pool.submit(_measured, tasks, clients, strategy, subtopologies).result()
    return {"tasks": tasks, "clients": clients, "strategy": strategy, "subtopologies": subtopologies} | measured


def _measured(tasks: int, clients: int, strategy: str, subtopologies: int) -> dict[str, float]:
    rng = np.random.default_rng(tasks)
    missing = rng.integers(0, RACKS, tasks)
    remote, remotes = remote_rows([(missing == rack).astype(np.int64) for rack in range(RACKS)])
    problem = ActiveTasks(
        subtopology=(np.arange(tasks) % subtopologies).astype(np.int32),
        remote=remote,
        remotes=remotes,
        rack=(np.arange(clients) % RACKS).astype(np.int32),
        client=rng.integers(0, clients, tasks).astype(np.int32),
    )
    runs = []
    for _ in range(RUNS):
        profile = cProfile.Profile(time.process_time)
        begun = time.process_time()
        profile.runcall(optimize_active, problem, COSTS, balance=strategy == "balance_subtopology")
        runs.append((time.process_time() - begun, _in_solver(profile)))
    own, solver = min(runs)
    return {"own": own, "solver": solver, "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def _in_solver(profile: cProfile.Profile) -> float:
    """Returns the seconds of OR-Tools' own calls."""
    entries = profile.getstats()
    return sum(entry.inlinetime for entry in entries if "min_cost_flow.solve" in str(entry.code))


def main(arguments: list[str]) -> int:
    """Measure everything and write the page; with `--alone` or `--answer` only that part, without Java."""
    parts = {"beside_java": _beside, "alone": _alone, "answer": _answer}
    if arguments not in ([], ["--alone"], ["--answer"]):
        sys.stderr.write(f"no {' '.join(arguments)!r}; there are --alone and --answer\n")
        return 2
    wanted = [argument.removeprefix("--") for argument in arguments] or list(parts)
    written = json.loads((DOCS / "benchmarks-streams.json").read_text())
    results = written | {name: parts[name]() for name in wanted}
    if wanted != ["answer"]:
        results["machine"] = machine()
    (DOCS / "benchmarks-streams.json").write_text(json.dumps(results, indent=2) + "\n")
    (DOCS / "benchmarks-streams.md").write_text(page(results))
    return 0


def _beside() -> list[dict[str, Any]]:
    with Peer("StreamsPeer") as peer:
        peer.ask({**question(20, 4, "min_traffic"), "cmd": OPTIMIZE})  # Java loads its classes
        return [_told(beside_java(peer, *shape, name)) for name in STRATEGIES for shape in BESIDE_JAVA]


def _alone() -> list[dict[str, Any]]:
    plain = [_told(alone(*shape, name)) for name in STRATEGIES for shape in ALONE]
    return plain + [_told(alone(*ALONE[-1], STRATEGIES[-1], subtopologies)) for subtopologies in MANY]


def _answer() -> dict[str, Any]:
    return {"machine": machine()} | _told(streams_answer.measure())


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
            f"| {row['java'] / row['own']:,.0f} |"
            for row in results["beside_java"]
            if row["tasks"] >= SHOWN_BESIDE_JAVA
        ),
        alone="\n".join(
            f"| {row['tasks']:,} x {row['clients']:,} | {row['subtopologies']:,} | {row['strategy']} "
            f"| {row['own']:.4f} | {row['peak_bytes'] / 2**20:,.0f} |"
            for row in results["alone"]
            if row["tasks"] >= SHOWN_TASKS
        ),
        machine=listed(results["machine"]),
        answer=results["answer"],
        answer_mib=results["answer"]["peak_bytes"] / 2**20,
        answer_machine=listed(results["answer"]["machine"]),
    )
