"""The demo of Kafka Streams: an application with state, its tasks by Kafka, then by samerack, and the agent killed.

`scripts/demo --streams` runs it. Bytes are the kernel's counts of what the processes received from each broker; how
they divide between sources and changelogs is what Kafka's own metrics say. At the end the output is compared with the
input.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from sandbox.admin import Admin, wait_until
from sandbox.agent_process import AgentProcess
from sandbox.cluster import Cluster
from sandbox.demo import Story, told
from sandbox.errors import SandboxError
from sandbox.feeder import Feeder
from sandbox.settings import free_ports
from sandbox.sockets import measure
from sandbox.streams import CLASS, Place, StreamsApplication
from sandbox.streams_output import compare

APPLICATION: Final = "payments"
TOPIC: Final = "transactions"
PARTITIONS: Final = 24
SOURCES: Final = [[1]] * 8 + [[2]] * 8 + [[3]] * 8
CHANGELOGS: Final = [[2, 3]] * 8 + [[3, 1]] * 8 + [[1, 2]] * 8
"""Brokers by partition, the leader first: a rack can serve a third of the sources, the two others their changelogs."""
STANDBYS: Final = 2
PLACES: Final = tuple(Place(name=f"payments-{rack[-1]}", rack=rack) for rack in ("rack-a", "rack-b", "rack-c"))
_RECORDS: Final = 2
"""A partition gets so many records of 500 bytes twenty times a second."""
_MEASURE_SECONDS: Final = 5.0
_FLOWING_BYTES: Final = 50_000
"""More than heartbeats and metadata in two seconds, and less than a tenth of the records."""
_DEADLINE_MS: Final = 2000
_KINDS: Final = ("sources", "changelogs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What crossed racks in a time.

    Attributes:
        share: of all bytes that the processes received, by the kernel's counts.
        rate: bytes per second, by the kernel's counts.
        by_kind: bytes per second that consumers of sources, and those of changelogs, received, by Kafka's metrics.
        sources: tasks that read their source across racks.
        changelogs: standbys that read their changelog across racks.
    """

    share: float
    rate: float
    by_kind: Mapping[str, float]
    sources: int
    changelogs: int


def prepare(admin: Admin, application: str) -> None:
    """Creates the topics of an application beside its source."""
    admin.create_topic(f"{application}-ledger-changelog", CHANGELOGS, config={"cleanup.policy": "compact"})
    admin.create_topic(f"{application}-output", [[1, 2], [2, 3], [3, 1]])


def racks_by_task(admin: Admin, topic: str) -> dict[str, frozenset[str]]:
    """Returns the racks of the replicas of each task's partition of a topic."""
    racks = admin.racks()
    return {
        f"0_{partition}": frozenset(rack for broker in placed.replicas if (rack := racks[broker]) is not None)
        for (_, partition), placed in admin.replicas([topic]).items()
    }


def measured(cluster: Cluster, admin: Admin, application: StreamsApplication, *, seconds: float) -> Measured:
    """Measures what crosses racks now."""
    time.sleep(1.0)  # what is under way of the old assignment
    wait_until(lambda: _all_read(application), "all processes read", timeout=60)
    before = application.received()
    begun = time.monotonic()
    kernel = measure(cluster.brokers.values(), application.racks(), seconds=seconds)
    took = time.monotonic() - begun
    racks = {broker.id: broker.rack for broker in cluster.brokers.values()}
    by_kind = dict.fromkeys(_KINDS, 0.0)
    for name, kinds in application.received().items():
        for kind, counts in kinds.items():
            for broker, count in counts.items():
                if racks[broker] != application.places[name].rack:
                    by_kind[kind] += (count - before[name][kind].get(broker, 0)) / took
    total = sum(sum(rates.values()) for rates in kernel.by_rack.values())
    return Measured(
        share=kernel.cross_rack_share,
        rate=kernel.cross_rack_share * total,
        by_kind=by_kind,
        sources=application.crossing(racks_by_task(admin, TOPIC)),
        changelogs=application.crossing(racks_by_task(admin, f"{APPLICATION}-ledger-changelog"), standby=True),
    )


def _all_read(application: StreamsApplication) -> bool:
    """Whether each process has received records of its sources in the last two seconds."""
    before = application.received()
    time.sleep(2.0)
    now = application.received()
    grown = [sum(now[name]["sources"].values()) - sum(before[name]["sources"].values()) for name in now]
    return min(grown) > _FLOWING_BYTES


def play(story: Story, *, seconds: float = _MEASURE_SECONDS) -> dict[str, Any]:
    """Runs the whole demo; returns its measurements.

    Raises:
        SandboxError: Something did not happen in time.
    """
    story.tell("starting three brokers, one in each rack")
    with (
        tempfile.TemporaryDirectory(prefix="samerack-demo-") as folder,
        Cluster(progress=story.tell) as cluster,
        Admin(cluster.bootstrap) as admin,
    ):
        admin.create_topic(TOPIC, SOURCES)
        prepare(admin, APPLICATION)
        story.tell(f"topics: {TOPIC} ({PARTITIONS} partitions), the application's changelog, and its output")
        application = StreamsApplication(
            PLACES, bootstrap=cluster.bootstrap, application=APPLICATION, topic=TOPIC, folder=Path(folder)
        )
        application.properties.update(
            {
                "num.stream.threads": "2",
                "num.standby.replicas": str(STANDBYS),
                # a restarted process gets its tasks back at once: warm-ups would take ten minutes
                "acceptable.recovery.lag": "1000000",
            }
        )
        feeder = Feeder(cluster.bootstrap, {TOPIC: PARTITIONS}, records=lambda _topic, _partition: _RECORDS)
        with application, feeder:
            application.start_all()
            story.tell("a Kafka Streams application starts: three processes, exactly-once, two standbys of each task")
            application.wait_complete(PARTITIONS, standbys=STANDBYS)
            before = measured(cluster, admin, application, seconds=seconds)
            story.tell(f"Kafka's own assignor: [bold]{before.share:.1%}[/bold] of the bytes cross racks")
            (port,) = free_ports(1)
            with AgentProcess(
                cluster.bootstrap,
                groups=(),
                log=Path(folder) / "agent.log",
                settings={"web.port": port, "traffic.groups": [APPLICATION], "streams.applications": {APPLICATION: {}}},
            ) as agent:
                agent.wait(lambda: agent.get("/healthz")[0] == 200, "the agent answers")
                switched = _switch(story, application, port)
                after = measured(cluster, admin, application, seconds=seconds)
                story.tell(f"the agent's plan: [bold]{after.share:.1%}[/bold] of the bytes cross racks")
                gone = _lose_the_agent(story, application, agent)
            feeder.finish()
            story.tell("no more records are sent; the output is compared with the input")
            output = compare(application, admin)
            story.tell(
                f"{output.records:,} records: {output.lost} lost, {output.doubled} doubled, "
                f"{output.miscounted} counted wrong"
            )
    _show(story, before, after)
    return {
        "share_before": before.share,
        "share_after": after.share,
        "rate_before": before.rate,
        "rate_after": after.rate,
        "sources_before": before.sources,
        "sources_after": after.sources,
        "changelogs_before": before.changelogs,
        "changelogs_after": after.changelogs,
        **{f"{kind}_rate_before": before.by_kind[kind] for kind in _KINDS},
        **{f"{kind}_rate_after": after.by_kind[kind] for kind in _KINDS},
        **switched,
        **gone,
        "records": output.records,
        "lost": output.lost,
        "doubled": output.doubled,
        "miscounted": output.miscounted,
    }


def _switch(story: Story, application: StreamsApplication, port: int) -> dict[str, float]:
    """Gives the application the jar and the lines of configuration, process by process, as a deployment does."""
    application.properties.update(
        {
            "task.assignor.class": CLASS,
            "samerack.url": f"http://127.0.0.1:{port}",
            "rack.aware.assignment.strategy": "min_traffic",
        }
    )
    for place in PLACES:
        application.stop(place.name)
        application.start(place.name)
        application.wait_complete(PARTITIONS, standbys=STANDBYS)
        story.tell(f"{place.name} is restarted with the jar and two more lines of configuration")
    if application.counts().get("AgentPlans", 0) == 0:
        raise SandboxError(f"the agent did not plan: {application.counts()}\n{application.errors()}")
    return {"agent_plans": application.counts()["AgentPlans"]}


def _lose_the_agent(story: Story, application: StreamsApplication, agent: AgentProcess) -> dict[str, float]:
    """Stops the agent in the middle of a rebalance, then kills it: the application goes on."""
    agent.pause()
    last = PLACES[-1].name
    application.stop(last)
    application.start(last)
    story.tell("the agent is stopped (SIGSTOP), and a process of the application is restarted: a rebalance")
    wait_until(lambda: application.counts().get("Fallbacks", 0) > 0, "the fall-back plans", timeout=60)
    counts = application.counts()
    story.tell(
        f"the fall-back planned after {counts['LongestAssignmentMilliseconds']:.0f} ms "
        f"(the deadline is {_DEADLINE_MS} ms), and all tasks run"
    )
    application.wait_complete(PARTITIONS, standbys=STANDBYS)
    story.tell("killing the agent with -9")
    agent.kill()
    time.sleep(2.0)
    application.wait_complete(PARTITIONS, standbys=STANDBYS)
    return {
        "fallbacks": counts["Fallbacks"],
        "longest_assignment_ms": counts["LongestAssignmentMilliseconds"],
    }


def _show(story: Story, before: Measured, after: Measured) -> None:
    table = Table(title="what samerack changed")
    for column in ("across racks", "Kafka's assignor", "samerack's plan"):
        table.add_column(column, justify="left" if column == "across racks" else "right")
    table.add_row("all bytes, the kernel's count", f"{before.share:.1%}", f"{after.share:.1%}")
    table.add_row("the same, kB/s", f"{before.rate / 1000:.1f}", f"{after.rate / 1000:.1f}")
    for kind in _KINDS:
        one, other = before.by_kind[kind], after.by_kind[kind]
        table.add_row(f"of them {kind}, kB/s", f"{one / 1000:.1f}", f"{other / 1000:.1f}")
    table.add_row(f"tasks reading their source, of {PARTITIONS}", str(before.sources), str(after.sources))
    standbys = PARTITIONS * STANDBYS
    table.add_row(f"standbys reading their changelog, of {standbys}", str(before.changelogs), str(after.changelogs))
    story.console.print(table)


def main(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON line on standard output.")] = False,
) -> None:
    """See a Kafka Streams application's tasks move into their racks, and the agent die: two minutes."""
    console = Console(stderr=as_json)
    result = told(console, play)
    if as_json:
        typer.echo(json.dumps({key: round(value, 4) for key, value in result.items()}))
    if result["share_after"] >= result["share_before"] or result["lost"] or result["doubled"] or result["miscounted"]:
        raise typer.Exit(1)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
