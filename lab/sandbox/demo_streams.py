"""The demo of Kafka Streams: an application with state, its tasks by Kafka, then by samerack, and the agent killed.

`scripts/demo --streams` runs it. Bytes are the kernel's counts of what the processes received from each broker. At the
end the output is compared with the input.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from lab.sandbox.admin import Admin, wait_until
from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.cluster import Cluster
from lab.sandbox.errors import SandboxError
from lab.sandbox.feeder import Feeder
from lab.sandbox.settings import free_ports
from lab.sandbox.sockets import measure
from lab.sandbox.story import AsJson, Story, command, conclude, run_story, three_brokers
from lab.sandbox.streams import CLASS, Place, StreamsApplication, compare

APPLICATION: Final = "payments"
TOPIC: Final = "transactions"
PARTITIONS: Final = 24
SOURCES: Final = [[1]] * 8 + [[2]] * 8 + [[3]] * 8
CHANGELOGS: Final = [[2, 3]] * 8 + [[3, 1]] * 8 + [[1, 2]] * 8
"""Brokers by partition, the leader first: a rack can serve a third of the sources, the two others their changelogs."""
STANDBYS: Final = 2
PLACES: Final = tuple(Place(name=f"payments-{rack[-1]}", rack=rack) for rack in ("rack-a", "rack-b", "rack-c"))
_MEASURE_SECONDS: Final = 5.0
_FLOWING_BYTES: Final = 50_000
"""More than heartbeats and metadata in two seconds, and less than a third of the records."""
_DEADLINE_MS: Final = 2000
_READ: Final = ("sources", "changelogs")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """What crossed racks in a time."""

    share: float  # of all bytes that the processes received, by the kernel's counts
    rate: float  # bytes per second, by the kernel's counts
    source_share: float  # of the bytes of sources, by Kafka's own counts
    changelog_share: float  # of the bytes of changelogs, by Kafka's own counts
    sources: int  # tasks that read their source across racks
    changelogs: int  # standbys that read their changelog across racks


def prepare(admin: Admin, application: str, changelogs: Sequence[Sequence[int]] = CHANGELOGS) -> None:
    """Create the topics of an application beside its source; `changelogs` are brokers by partition."""
    admin.create_topic(f"{application}-ledger-changelog", changelogs, config={"cleanup.policy": "compact"})
    admin.create_topic(f"{application}-output", [[1, 2], [2, 3], [3, 1]])


def racks_by_task(admin: Admin, topic: str) -> dict[str, frozenset[str]]:
    """Return the racks of the replicas of each task's partition of a topic."""
    racks = admin.racks()
    return {
        f"0_{partition}": frozenset(rack for broker in placed.replicas if (rack := racks[broker]) is not None)
        for (_, partition), placed in admin.replicas([topic]).items()
    }


def _measured(cluster: Cluster, admin: Admin, application: StreamsApplication) -> _Measured:
    """Measure what crosses racks now."""
    time.sleep(1.0)  # what is under way of the old assignment
    wait_until(lambda: _all_read(application), "all processes read", timeout=60)
    before = {read: application.received(read) for read in _READ}
    kernel = measure(cluster.brokers.values(), application.racks(), seconds=_MEASURE_SECONDS)
    sources, changelogs = (crossing(admin, before[read], application.received(read)) for read in _READ)
    total = sum(sum(rates.values()) for rates in kernel.by_rack.values())
    return _Measured(
        share=kernel.cross_rack_share,
        rate=kernel.cross_rack_share * total,
        source_share=sources,
        changelog_share=changelogs,
        sources=application.crossing(racks_by_task(admin, TOPIC)),
        changelogs=application.crossing(racks_by_task(admin, f"{APPLICATION}-ledger-changelog"), standby=True),
    )


def crossing(admin: Admin, before: Mapping[str, Counter[int]], now: Mapping[str, Counter[int]]) -> float:
    """Return the share of what processes received in between that came from brokers of other racks."""
    racks, own = admin.racks(), {place.name: place.rack for place in PLACES}
    read = {(name, broker): count for name in now for broker, count in (now[name] - before[name]).items()}
    near = sum(count for (name, broker), count in read.items() if racks[broker] == own[name])
    return 1 - near / sum(read.values()) if read else 0.0


def _all_read(application: StreamsApplication) -> bool:
    """Whether each process has received records of its sources in the last two seconds."""
    before = application.received("sources")
    time.sleep(2.0)
    return all(
        now.total() > before[name].total() + _FLOWING_BYTES for name, now in application.received("sources").items()
    )


def play(story: Story) -> dict[str, Any]:
    """Run the whole demo; return its measurements."""
    with (
        tempfile.TemporaryDirectory(prefix="samerack-demo-") as folder,
        three_brokers(story.report) as (cluster, admin),
    ):
        admin.create_topic(TOPIC, SOURCES)
        prepare(admin, APPLICATION)
        story.report(f"topics: {TOPIC} ({PARTITIONS} partitions), the application's changelog, and its output")
        application = StreamsApplication(
            PLACES,
            bootstrap=cluster.bootstrap,
            application=APPLICATION,
            topic=TOPIC,
            folder=Path(folder),
            properties={
                "num.stream.threads": "2",
                "num.standby.replicas": str(STANDBYS),
                # a restarted process gets its tasks back at once: warm-ups would take ten minutes
                "acceptable.recovery.lag": "1000000",
                "commit.interval.ms": "1000",  # transactions take most of the processor, and the demo would wait for it
            },
        )
        (port,) = free_ports(1)
        with (
            AgentProcess(
                cluster.bootstrap,
                groups=(),
                log=Path(folder) / "agent.log",
                settings={"web.port": port, "traffic.groups": [APPLICATION], "streams.applications": {APPLICATION: {}}},
            ) as agent,
            application,
            Feeder(cluster.bootstrap, {TOPIC: PARTITIONS}) as feeder,
        ):
            application.start_all()
            story.report("a Kafka Streams application starts: three processes, exactly-once, two standbys of each task")
            application.wait_complete(PARTITIONS, standbys=STANDBYS)
            before = _measured(cluster, admin, application)
            story.report(f"Kafka's own assignor: [bold]{before.share:.1%}[/bold] of the bytes cross racks")
            agent.wait(lambda: agent.get("/healthz")[0] == 200, "the agent answers")
            switched = _switch(story, application, port)
            after = _measured(cluster, admin, application)
            story.report(f"the agent's plan: [bold]{after.share:.1%}[/bold] of the bytes cross racks")
            gone = _lose_the_agent(story, application, agent)
            feeder.finish()
            story.report("no more records are sent; the output is compared with the input")
            output = compare(application, admin)
            story.report(
                f"{output.records:,} records: {output.lost} lost, {output.doubled} doubled, "
                f"{output.miscounted} counted wrong"
            )
    _show(story, before, after)
    return {
        **{f"{name}_before": value for name, value in asdict(before).items()},
        **{f"{name}_after": value for name, value in asdict(after).items()},
        **switched,
        **gone,
        **asdict(output),
    }


def _switch(story: Story, application: StreamsApplication, port: int) -> dict[str, float]:
    """Give the application the jar and the lines of configuration, process by process, as a deployment does."""
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
        story.report(f"{place.name} is restarted with the jar and two more lines of configuration")
    if application.counts().get("AgentPlans", 0) == 0:
        raise SandboxError(f"the agent did not plan: {application.counts()}\n{application.errors()}")
    return {"agent_plans": application.counts()["AgentPlans"]}


def _lose_the_agent(story: Story, application: StreamsApplication, agent: AgentProcess) -> dict[str, float]:
    """Stop the agent in the middle of a rebalance, then kill it: the application goes on."""
    agent.pause()
    last = PLACES[-1].name
    application.stop(last)
    application.start(last)
    story.report("the agent is stopped (SIGSTOP), and a process of the application is restarted: a rebalance")
    wait_until(lambda: application.counts().get("Fallbacks", 0) > 0, "the fall-back plans", timeout=60)
    application.wait_complete(PARTITIONS, standbys=STANDBYS)
    counts = application.counts()
    story.report(
        f"the fall-back planned after {counts['LongestAssignmentMilliseconds']:.0f} ms "
        f"(the deadline is {_DEADLINE_MS} ms), and all tasks run"
    )
    story.report("killing the agent with -9")
    agent.kill()
    time.sleep(2.0)
    application.wait_complete(PARTITIONS, standbys=STANDBYS)
    return {"fallbacks": counts["Fallbacks"], "longest_assignment_ms": counts["LongestAssignmentMilliseconds"]}


def _show(story: Story, before: _Measured, after: _Measured) -> None:
    table = Table("across racks", title="what samerack changed")
    for column in ("Kafka's assignor", "samerack's plan"):
        table.add_column(column, justify="right")
    table.add_row("all bytes, the kernel's count", f"{before.share:.1%}", f"{after.share:.1%}")
    table.add_row("the same, kB/s", f"{before.rate / 1000:.1f}", f"{after.rate / 1000:.1f}")
    table.add_row("bytes of sources, Kafka's count", f"{before.source_share:.1%}", f"{after.source_share:.1%}")
    table.add_row("bytes of changelogs, Kafka's count", f"{before.changelog_share:.1%}", f"{after.changelog_share:.1%}")
    table.add_row(f"tasks reading their source, of {PARTITIONS}", str(before.sources), str(after.sources))
    standbys = PARTITIONS * STANDBYS
    table.add_row(f"standbys reading their changelog, of {standbys}", str(before.changelogs), str(after.changelogs))
    story.console.print(table)


def main(*, as_json: AsJson = False) -> None:
    """See a Kafka Streams application's tasks move into their racks, and the agent die: two minutes."""
    console = Console(stderr=as_json)
    result = run_story(console, play)
    wrong = result["lost"] or result["doubled"] or result["miscounted"]
    conclude(result, as_json=as_json, failed=bool(wrong) or result["share_after"] >= result["share_before"])


if __name__ == "__main__":
    command(main)
