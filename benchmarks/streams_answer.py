"""`scripts/bench streams --answer`: what the answer to `POST /v1/streams/assign` costs, from JSON to JSON.

Processor time of the process that plans, with everything that it does: reads, plans, checks, adds up and writes. The
collector of unused objects is off, as it is in the agent's process while it plans.
"""

from __future__ import annotations

import gc
import json
import random
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from http import HTTPStatus
from multiprocessing import get_context
from statistics import median
from typing import Any, Final
from uuid import UUID

from samerack.agent.streams.choice import Known
from samerack.agent.streams.worker import Planner
from samerack.assignors.solvers import min_cost_flow
from samerack.assignors.streams.model import LATEST_OFFSET

TASKS: Final = 10_000
CLIENTS: Final = 1_000
RUNS: Final = 9
_RACKS: Final = ("a", "b", "c")
_SUBTOPOLOGIES: Final = 10
_END: Final = 50_000
"""Records of each changelog: the lag of every client that has no state of the task."""
_SOURCE, _CHANGELOG = 1, 2


def body(tasks: int = TASKS, clients: int = CLIENTS) -> bytes:
    """Returns the question of an application whose tasks are all stateful, as the jar posts it.

    Each task has a source and a changelog, with replicas in two of three racks, and had an active and a standby on two
    clients at random, of which the standby lags a little.
    """
    rng = random.Random(tasks * clients)  # noqa: S311 - repeatable, not secret
    listed: list[list[Any]] = []
    active, standby = [list[int]() for _ in range(clients)], [list[int]() for _ in range(clients)]
    for number in range(tasks):
        partition, subtopology = divmod(number, _SUBTOPOLOGIES)
        parts = [
            [subtopology + _SUBTOPOLOGIES * (kind == _CHANGELOG), partition, kind, rng.sample(range(len(_RACKS)), 2)]
            for kind in (_SOURCE, _CHANGELOG)
        ]
        listed.append([f"{subtopology}_{partition}", 1, parts])
        for held, client in zip((active, standby), rng.sample(range(clients), 2), strict=True):
            held[client].append(number)
    question = {
        "version": 1,
        "application": "orders",
        "release": "4.3.1",
        "configs": {"num_standby_replicas": 1, "rack_aware_strategy": "min_traffic"},
        "topics": [f"orders-{kind}-{number}" for kind in ("in", "store-changelog") for number in range(_SUBTOPOLOGIES)],
        "racks": list(_RACKS),
        "tasks": listed,
        "lags": [[task, _END] for task in range(tasks)],
        "clients": [
            {
                "process": str(UUID(int=rng.getrandbits(128))),
                "threads": 1,
                "consumers": [f"orders-{client}-consumer"],
                "active": active[client],
                "standby": standby[client],
                "lags": [[task, LATEST_OFFSET] for task in active[client]]
                + [[task, rng.randrange(1_000)] for task in standby[client]],
                "host": None,
                "tags": {},
                "rack": client % len(_RACKS),
            }
            for client in range(clients)
        ],
    }
    return json.dumps(question, separators=(",", ":")).encode()


def measure() -> dict[str, float]:
    """Returns the first, the best and the median run, and the most memory, of a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return {"tasks": TASKS, "clients": CLIENTS, "runs": RUNS} | pool.submit(_measured, body()).result()


def _measured(question: bytes) -> dict[str, float]:
    min_cost_flow()  # as the process that plans does before its first question
    planner = Planner(Known, lambda _heading: None)
    runs = [_seconds(planner, question) for _ in range(RUNS)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"first": runs[0], "best": min(runs), "median": median(runs), "peak_bytes": peak}


def _seconds(planner: Planner, question: bytes) -> float:
    """Returns the processor seconds of one answer.

    Raises:
        RuntimeError: It is no plan.
    """
    gc.collect()
    gc.disable()
    begun = time.process_time()
    status, *answer = planner._answer("plan", question)  # noqa: SLF001 - the whole work of the process
    seconds = time.process_time() - begun
    gc.enable()
    if status != HTTPStatus.OK:
        raise RuntimeError(f"{status}: {answer[0]}")
    return seconds
