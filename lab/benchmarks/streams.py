"""How fast tasks of Kafka Streams are placed: beside Kafka's Java, and from JSON to JSON as the agent answers."""

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
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from lab.benchmarks.shared import Found, Parts, measured_on, show_progress, table
from samerack.agent.streams.context import PlanContext
from samerack.agent.streams.worker import plan, warm_up
from samerack.assignors.streams.active import Costs
from samerack.assignors.streams.application import LATEST_OFFSET
from samerack.offline.streams import OPTIMIZE, answer_line
from tests.parity.peer import Peer

if TYPE_CHECKING:
    from tests.streams_http import Endpoint

STRATEGIES: Final = ("min_traffic", "balance_subtopology")
BESIDE_JAVA: Final = ((100, 10), (200, 10), (500, 10), (1_000, 10))
COSTS: Final = Costs(traffic=10, non_overlap=1)
ANSWER: Final = (10_000, 1_000)
ANSWER_RUNS: Final = 9
_NAME: Final = "orders"
_RACKS: Final = ("a", "b", "c")
_SUBTOPOLOGIES: Final = 10
_END: Final = 50_000
"""Records of each changelog: the lag of every client that has no state of the task."""
_SOURCE, _CHANGELOG = 1, 2


def java() -> Found:
    """Put the same questions in JSON to Kafka and to samerack, whose plans must cost the same (five minutes)."""
    with Peer("StreamsPeer") as peer:
        peer.ask({**_question(20, 4, STRATEGIES[0]), "cmd": OPTIMIZE})  # Java loads its classes
        return {"rows": [_beside(peer, *size, strategy) for strategy in STRATEGIES for size in BESIDE_JAVA]}


def _beside(peer: Peer, tasks: int, clients: int, strategy: str) -> Found:
    asked = _question(tasks, clients, strategy)
    begun = time.perf_counter()
    theirs = peer.ask({**asked, "cmd": OPTIMIZE})
    java = time.perf_counter() - begun
    line = json.dumps(asked).encode()
    answer_line(line, OPTIMIZE)  # the first one loads the solver
    begun = time.perf_counter()
    ours = answer_line(line, OPTIMIZE)
    own = time.perf_counter() - begun
    if ours["cost"] != (cost := _cost(asked, theirs["active"])):
        raise RuntimeError(f"{tasks} x {clients} {strategy}: costs differ: Kafka {cost}, ours {ours['cost']}")
    found = {"tasks": tasks, "clients": clients, "strategy": strategy, "java": java, "own": own, "cost": cost}
    show_progress(found)
    return found


def _question(tasks: int, clients: int, strategy: str) -> dict[str, Any]:
    """Return one application in the format of `samerack assign --lines`."""
    rng = random.Random(tasks * clients)  # noqa: S311 - repeatable, not secret
    racks = [f"r{number}" for number in range(len(_RACKS))]
    names = [f"c{number}" for number in range(clients)]
    listed, owned = [], {name: list[str]() for name in names}
    for number in range(tasks):
        partition, subtopology = divmod(number, _SUBTOPOLOGIES)
        source = {"topic": f"t{subtopology}", "partition": partition, "racks": rng.sample(racks, 2)}
        partitions = [{**source, "source": True, "changelog": False}]
        listed.append({"subtopology": subtopology, "partition": partition, "stateful": False, "partitions": partitions})
        owned[rng.choice(names)].append(f"{subtopology}_{partition}")
    return {
        "kind": "active",
        "strategy": strategy,
        "traffic_cost": COSTS.traffic,
        "non_overlap_cost": COSTS.non_overlap,
        "clients": [{"id": name, "rack": racks[at % len(racks)], "threads": 1} for at, name in enumerate(names)],
        "tasks": listed,
        "assignment": owned,
        "standby": {name: [] for name in names},
        "compatible": True,
    }


def _cost(asked: dict[str, Any], plan: dict[str, list[str]]) -> int:
    """Return what a plan costs, counted from its reads across racks and its moves."""
    rack = {client["id"]: client["rack"] for client in asked["clients"]}
    before = {task: client for client, tasks in asked["assignment"].items() for task in tasks}
    near = {f"{task['subtopology']}_{task['partition']}": task["partitions"][0]["racks"] for task in asked["tasks"]}
    return sum(
        COSTS.traffic * (rack[client] not in near[task]) + COSTS.non_overlap * (before[task] != client)
        for client, tasks in plan.items()
        for task in tasks
    )


def answer() -> Found:
    """Answer `POST /v1/streams/assign`: from request to answer, and what the process that plans spends."""
    tasks, clients = ANSWER
    body = _body(tasks, clients)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:  # its memory is that of nothing else
        found = {"tasks": tasks, "clients": clients, **pool.submit(_answer, body).result()}
    from tests.streams_http import endpoint  # noqa: PLC0415 - not in the process whose memory is measured

    with endpoint({"applications": {_NAME: {}}, "deadline_seconds": 30}) as agent:
        agent.prepare()
        found["whole"] = [_posted(agent, body) for _ in range(ANSWER_RUNS)]
    show_progress(found)
    return found


def _posted(agent: Endpoint, body: bytes) -> float:
    """Return the seconds from the request to the whole answer."""
    begun = time.perf_counter()
    status, answered = agent.post(f"/v1/streams/assign?application={_NAME}", body)
    took = time.perf_counter() - begun
    if status != HTTPStatus.OK:
        raise RuntimeError(f"{status}: {answered}")
    return took


def _answer(question: bytes) -> Found:
    warm_up()  # as the process that plans does before its first question
    runs = []
    for _ in range(ANSWER_RUNS):
        gc.collect()
        gc.disable()  # as it is in the agent's process while it plans
        begun = time.process_time()
        status, *content = next(plan(_NAME, question, PlanContext()))
        runs.append(time.process_time() - begun)
        gc.enable()
        if status != HTTPStatus.OK:
            raise RuntimeError(f"{status}: {content[0]}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"first": runs[0], "best": min(runs), "median": median(runs), "peak_bytes": peak}


def _body(tasks: int, clients: int) -> bytes:
    """Return the question of an application whose tasks are all stateful, as the jar posts it.

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
        "application": _NAME,
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


def _show_beside(found: Found) -> str:
    rows = [
        (
            f"{one['tasks']:,}",
            f"{one['clients']:,}",
            one["strategy"],
            f"{one['java']:.2f}",
            f"{one['own']:.3f}",
            f"{one['java'] / one['own']:,.0f}",
        )
        for one in found["rows"]
    ]
    return f"{table('tasks|clients|strategy|Kafka, s|samerack, s|times faster', rows)}\n\n{measured_on(found)}"


def _show_answer(found: Found) -> str:
    whole = found["whole"]
    seconds = (median(whole), max(whole), *(found[run] for run in ("first", "best", "median")))
    sizes, memory = (f"{found['tasks']:,}", f"{found['clients']:,}"), f"{found['peak_bytes'] / 2**20:.0f}"
    head = "tasks|clients|answered after s, median|slowest|processor seconds at first|at best|in the median|MiB"
    return f"{table(head, [(*sizes, *(f'{one:.2f}' for one in seconds), memory)])}\n\n{measured_on(found)}"


PARTS: Final[Parts] = {"java": (java, _show_beside), "answer": (answer, _show_answer)}
