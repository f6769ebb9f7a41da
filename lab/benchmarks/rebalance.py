"""Rebalances of a real Kafka Streams application with 600 tasks: Kafka's own `min_traffic` beside samerack.

Both are started anew on one cluster, one after the other; one process is killed and started again. The longest
rebalance and samerack's part of it are by the instances' own metrics, from joining to having the assignment.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Final

from lab.benchmarks.shared import Found, Parts, measured_on, show_progress, table
from lab.sandbox.admin import Admin
from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.cluster import Cluster
from lab.sandbox.errors import SandboxError
from lab.sandbox.settings import free_ports
from lab.sandbox.streams import CLASS, Place, StreamsApplication

_TASKS: Final = 600
_PLACED: Final = [[1 + number * 3 // _TASKS] for number in range(_TASKS)]
_PATIENCE_SECONDS: Final = 280.0  # in which all tasks must run
_PROPERTIES: Final = {
    "rack.aware.assignment.strategy": "min_traffic",
    "num.stream.threads": "1",
    "num.standby.replicas": "0",
    "session.timeout.ms": "10000",
    "processing.guarantee": "at_least_once",  # there is no load
}


def restarts() -> Found:
    """Start groups of three and of six instances, and kill a process of each (a quarter of an hour)."""
    rows = []
    for instances in (1, 2):
        with Cluster(heap_megabytes=512) as cluster, Admin(cluster.bootstrap) as admin:
            admin.create_topic("many", _PLACED)
            rows += [_measured(cluster.bootstrap, admin, name, instances) for name in ("Kafka", "samerack")]
    return {"rows": rows}


def _measured(bootstrap: str, admin: Admin, planner: str, instances: int) -> Found:
    name, port = f"rebalance-{planner}", free_ports(1)[0]
    admin.create_topic(f"{name}-ledger-changelog", _PLACED, config={"cleanup.policy": "compact"})
    admin.create_topic(f"{name}-output", [[1]])
    asks = {"task.assignor.class": CLASS, "samerack.url": f"http://127.0.0.1:{port}"} if planner == "samerack" else {}
    settings = {"web.port": port, "traffic.groups": [name], "streams.applications": {name: {}}}
    with tempfile.TemporaryDirectory() as folder:
        application = StreamsApplication(
            [Place(name=f"many-{rack}", rack=f"rack-{rack}", instances=instances) for rack in "abc"],
            bootstrap=bootstrap,
            application=name,
            topic="many",
            folder=Path(folder),
            properties=_PROPERTIES | asks,
            heap_megabytes=768,
            options=("-XX:TieredStopAtLevel=4",),  # as outside the sandbox: Kafka's assignor computes for long
        )
        with (
            AgentProcess(bootstrap, groups=(), log=Path(folder) / "agent.log", settings=settings) as agent,
            application,
        ):
            agent.wait(lambda: agent.get("/healthz")[0] == 200, "the agent answers")
            found = {"planner": planner, "clients": 3 * instances, **_seconds(application)}
    show_progress(found)
    return found


def _seconds(application: StreamsApplication) -> dict[str, float]:
    """Return the figures of one application, without those of what does not end in time."""
    found: dict[str, float] = {}
    application.start_all()
    try:
        found["first_start"] = application.wait_complete(_TASKS, standbys=0, timeout=_PATIENCE_SECONDS)
        application.stop("many-c", kill=True)
        killed = time.monotonic()
        application.start("many-c")
        application.wait_complete(_TASKS, standbys=0, timeout=_PATIENCE_SECONDS)
        found["after_kill"] = time.monotonic() - killed - 2  # it waits two seconds to see that nothing changes
        found["rebalance"] = max(float(event.message) for event in application.events("rebalanced")) / 1000
        found["assignment"] = application.counts().get("LongestAssignmentMilliseconds", 0) / 1000
    except SandboxError as error:
        show_progress(str(error).partition("\n")[0])
    return {figure: round(seconds, 2) for figure, seconds in found.items()}


def _show(found: Found) -> str:
    rows = []
    for row in found["rows"]:
        seconds = [row.get(figure) or "" for figure in ("first_start", "after_kill", "rebalance", "assignment")]
        first = seconds[0] or f"not within {_PATIENCE_SECONDS:.0f}"
        rows.append((f"{row['clients']} instances, {row['planner']}", first, *seconds[1:]))
    head = f"{_TASKS} tasks|first start, s|after the kill|longest rebalance|of it samerack's part"
    return f"{table(head, rows)}\n\n{measured_on(found)}"


PARTS: Final[Parts] = {"restarts": (restarts, _show)}
