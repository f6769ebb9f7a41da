"""Measures rebalances of a real Kafka Streams application with many tasks: Kafka's own `min_traffic` beside samerack.

`scripts/bench rebalance` (a quarter of an hour) writes docs/benchmarks-rebalance.json and prints the table of
docs/streams.md. Both applications are started anew on one cluster, one after the other. A process is killed and started
again; the figures are those of the instances' own metrics: the longest rebalance from joining the group to having the
assignment, and for samerack the time of its part.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from benchmarks.report import machine
from sandbox.admin import Admin
from sandbox.agent_process import AgentProcess
from sandbox.cluster import Cluster
from sandbox.demo import Story
from sandbox.errors import SandboxError
from sandbox.settings import free_ports
from sandbox.streams import CLASS, Place, StreamsApplication

_RESULTS: Final = Path(__file__).parents[1] / "docs" / "benchmarks-rebalance.json"
_RACKS: Final = ("rack-a", "rack-b", "rack-c")
_TASKS: Final = 600
_PATIENCE_SECONDS: Final = 280.0
"""In which all tasks must run."""


def measure(story: Story, *, instances: int) -> list[dict[str, Any]]:
    """Returns the figures of both.

    Args:
        story: where progress goes.
        instances: of Kafka Streams in each of three processes.
    """
    found: list[dict[str, Any]] = []
    placed = [[1 + number * 3 // _TASKS] for number in range(_TASKS)]
    places = [Place(name=f"many-{rack[-1]}", rack=rack, instances=instances) for rack in _RACKS]
    with (
        tempfile.TemporaryDirectory(prefix="samerack-rebalance-") as folder,
        Cluster(heap_megabytes=512) as cluster,
        Admin(cluster.bootstrap) as admin,
    ):
        (port,) = free_ports(1)
        admin.create_topic("many", placed)
        for planner in ("kafka", "samerack"):
            name = f"rebalance-{planner}"
            admin.create_topic(f"{name}-ledger-changelog", placed, config={"cleanup.policy": "compact"})
            admin.create_topic(f"{name}-output", [[1]])
            application = StreamsApplication(
                places,
                bootstrap=cluster.bootstrap,
                application=name,
                topic="many",
                folder=Path(folder),
                properties={
                    "rack.aware.assignment.strategy": "min_traffic",
                    "num.stream.threads": "1",
                    "num.standby.replicas": "0",
                    "session.timeout.ms": "10000",
                    "processing.guarantee": "at_least_once",  # there is no load: only the rebalances count
                    **(
                        {"task.assignor.class": CLASS, "samerack.url": f"http://127.0.0.1:{port}"}
                        if planner == "samerack"
                        else {}
                    ),
                },
                heap_megabytes=768,
                options=("-XX:TieredStopAtLevel=4",),  # as outside the sandbox: Kafka's assignor computes for long
            )
            log = Path(folder) / "agent.log"
            with (
                AgentProcess(
                    cluster.bootstrap,
                    groups=(),
                    log=log,
                    settings={"web.port": port, "traffic.groups": [name], "streams.applications": {name: {}}},
                ) as agent,
                application,
            ):
                agent.wait(lambda agent=agent: agent.get("/healthz")[0] == 200, "the agent answers")  # type: ignore[misc]  # mypy drops the default
                found.append(
                    {"planner": planner, "tasks": _TASKS, "clients": 3 * instances} | _rebalances(story, application)
                )
                story.tell(json.dumps(found[-1]))
    return found


def _rebalances(story: Story, application: StreamsApplication) -> dict[str, Any]:
    """Returns the figures of one application; those of what does not end in time are null."""
    application.start_all()
    first = after_kill = None
    try:
        first = application.wait_complete(_TASKS, standbys=0, timeout=_PATIENCE_SECONDS)
        last = list(application.places)[-1]
        application.stop(last, kill=True)
        killed = time.monotonic()
        application.start(last)
        application.wait_complete(_TASKS, standbys=0, timeout=_PATIENCE_SECONDS)
        after_kill = time.monotonic() - killed - 2  # it waits two seconds to see that nothing changes
    except SandboxError as error:
        story.tell(str(error).partition("\n")[0])
    counts = application.counts()
    longest = [float(event.message) for event in application.events("rebalanced")]
    return {
        "first_start_seconds": first and round(first, 1),
        "after_kill_seconds": after_kill and round(after_kill, 1),
        "longest_rebalance_ms": max(longest) if after_kill else None,
        "longest_assignment_ms": counts.get("LongestAssignmentMilliseconds"),
        "agent_plans": counts.get("AgentPlans"),
        "fallbacks": counts.get("Fallbacks"),
    }


def table(results: dict[str, Any]) -> str:
    """Returns the measured figures as a table in Markdown."""
    header = (f"{_TASKS} tasks", "first start", "after the kill", "longest rebalance", "of it samerack's part")
    lines = [f"| {' | '.join(header)} |", "|---|---|---|---|---|"]
    for row in results["rows"]:
        planner = "samerack" if row["planner"] == "samerack" else "Kafka's own"
        plan = row["longest_assignment_ms"]
        cells = [
            f"{row['clients']} instances, {planner}",
            _seconds(row["first_start_seconds"], f"not within {results['patience_seconds']:.0f} s"),
            _seconds(row["after_kill_seconds"]),
            _seconds(row["longest_rebalance_ms"] and row["longest_rebalance_ms"] / 1000),
            "" if plan is None else f"{plan / 1000:.2f} s",
        ]
        lines.append(f"| {' | '.join(cells)} |".replace("  ", " "))
    return "\n".join(lines)


def _seconds(value: float | None, otherwise: str = "") -> str:
    return otherwise if value is None else f"{value:.1f} s"


def main(arguments: list[str]) -> int:
    """Measures groups of three and of six instances."""
    if arguments:
        sys.stderr.write("rebalance takes no arguments\n")
        return 2
    story = Story(Console(stderr=True))
    results = {
        "machine": machine(),
        "patience_seconds": _PATIENCE_SECONDS,
        "rows": [row for instances in (1, 2) for row in measure(story, instances=instances)],
    }
    _RESULTS.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(f"{table(results)}\n")
    return 0
