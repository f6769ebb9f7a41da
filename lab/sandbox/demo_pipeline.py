"""The pipeline's demo: an agent measures real members and publishes, a stream writes tables, a report writes a page.

`scripts/demo --pipeline` runs it. The agent leads one group from half way on, and only measures another, while the
stream runs beside it. All processes end and temporary folders are removed when the demo ends, also by Ctrl-C; the page
stays.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from lab.sandbox import jvm
from lab.sandbox.commands import SAMERACK
from lab.sandbox.contract import RACK_NAMES
from lab.sandbox.crew import Crew, Post
from lab.sandbox.demo import GROUP, POSTS, TOPICS, agent, deploy_until_led
from lab.sandbox.errors import SandboxError
from lab.sandbox.feeder import Feeder
from lab.sandbox.processes import end, spawn, tail, wait_for_line
from lab.sandbox.story import AsJson, Story, command, run_story, three_brokers

TRAFFIC_TOPIC: Final = "samerack-traffic"
STATES_TOPIC: Final = "samerack-states"
CLUSTER: Final = "demo"
OTHER_GROUP: Final = "reports"
OTHER_POSTS: Final = tuple(Post(client="confluent", rack=rack) for rack in RACK_NAMES)
_PUBLISHING: Final = {
    "traffic.groups": ["*"],
    "traffic.poll_seconds": 1,
    "publishing.traffic_topic": TRAFFIC_TOPIC,
    "publishing.states_topic": STATES_TOPIC,
    "publishing.every_seconds": 2,
    "publishing.cluster": CLUSTER,
}
_SECONDS: Final = 6.0
"""How long the groups are measured under each assignment."""
_BATCH_SECONDS: Final = 5.0
_MAX_SECONDS: Final = 240.0
"""Limit for a command on Spark; most of its time is the start."""


def play(output: Path, story: Story) -> dict[str, Any]:
    """Run the whole demo; return a summary of the report."""
    with tempfile.TemporaryDirectory(prefix="samerack-demo-") as folder:
        where = f"pipeline.tables={folder}/tables"
        with three_brokers(story.report) as (cluster, admin):
            for topic, assignment in {**TOPICS, TRAFFIC_TOPIC: [[1]], STATES_TOPIC: [[2]]}.items():
                admin.create_topic(topic, assignment)
            story.report("samerack pipeline stream: what agents publish becomes tables")
            with _stream(cluster.bootstrap, where, log=Path(folder) / "stream.log"):
                _publish(story, cluster.bootstrap)
                time.sleep(_BATCH_SECONDS)  # the last records are read
        story.report("samerack pipeline report: the tables become a page")
        report = _report(output, where, log=Path(folder) / "report.log")
    story.report(f"the page: [bold]{output}[/bold]")
    return _summary(report, output)


def _publish(story: Story, bootstrap: str) -> None:
    """Run an agent that measures two groups, leads one of them from half way on, and publishes the measurements."""
    crew = Crew(posts=POSTS, bootstrap=bootstrap, group=GROUP, topics=TOPICS)
    orders = {"orders": TOPICS["orders"]}
    others = Crew(posts=OTHER_POSTS, bootstrap=bootstrap, group=OTHER_GROUP, topics=orders)
    with Feeder(bootstrap, {topic: len(placed) for topic, placed in TOPICS.items()}), crew, others:
        story.report(f"nine members start, in the groups {GROUP} and {OTHER_GROUP}")
        crew.wait_complete()
        others.wait_complete()
        with agent(bootstrap, _PUBLISHING) as started:
            started.wait_role("following")
            story.report(f"an agent measures and publishes; for {_SECONDS:.0f} s it leads nobody")
            time.sleep(_SECONDS)
            deploy_until_led(story, crew, started)
            story.report(f"the agent leads {GROUP}; {_SECONDS:.0f} s more")
            time.sleep(_SECONDS)


@contextmanager
def _stream(bootstrap: str, where: str, *, log: Path) -> Iterator[None]:
    """Run the stream within the context, until it has written a batch; at the end it stops as by Ctrl-C."""
    every = f"pipeline.trigger_seconds={_BATCH_SECONDS:g}"
    process = _pipeline("stream", "-b", bootstrap, "-s", where, "-s", every, log=log)
    try:
        yield
        wait_for_line(process, log, "batch 0: ", _MAX_SECONDS)
        if code := end(process, timeout=_MAX_SECONDS):
            raise SandboxError(f"samerack pipeline stream ended with {code}:\n{tail(log)}")
    finally:
        end(process)


def _report(output: Path, where: str, *, log: Path) -> dict[str, Any]:
    """Make the page of the tables; return the report."""
    process = _pipeline("report", "--json", "--output", str(output), "-s", where, log=log)
    try:
        code = process.wait(_MAX_SECONDS)
    except subprocess.TimeoutExpired:
        raise SandboxError(f"samerack pipeline report has not ended in {_MAX_SECONDS:.0f} s:\n{tail(log)}") from None
    finally:
        end(process)
    if code:
        raise SandboxError(f"samerack pipeline report ended with {code}:\n{tail(log)}")
    report: dict[str, Any] = json.loads(log.with_suffix(".out").read_bytes())
    return report


def _pipeline(*arguments: str, log: Path) -> subprocess.Popen[bytes]:
    """Start a pipeline command, with its standard output beside its log."""
    with log.with_suffix(".out").open("wb") as output, log.open("wb") as complaints:
        environment = {**os.environ, "JDK_JAVA_OPTIONS": jvm.SPARK}
        return spawn((*SAMERACK, "pipeline", *arguments), stdout=output, stderr=complaints, env=environment)


def _summary(report: dict[str, Any], output: Path) -> dict[str, Any]:
    whole = report["headline"]
    led = next((one for one in report["groups"] if one["group"] == GROUP), None)
    if led is None:
        raise SandboxError(f"the report does not know the group {GROUP}")
    names = ("groups", "led_groups", "bytes", "crossing_bytes", "share", "saved_bytes", "possible_bytes")
    return {"report": str(output), **{name: whole[name] for name in names}, "led": led["led"]}


def main(
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The page; in a new temporary folder without it.", show_default=False),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """See what agents measure become a fleet's report: real members, Kafka, Spark, a page; about two minutes."""
    console = Console(stderr=as_json)
    path = output or Path(tempfile.mkdtemp(prefix="samerack-report-")) / "report.html"
    result = run_story(console, partial(play, path.absolute()))
    if as_json:
        typer.echo(json.dumps(result))
    else:
        console.print(result["report"], highlight=False, soft_wrap=True)


if __name__ == "__main__":
    command(main)
