"""The demo on this machine: a group reads across racks, the agent leads it, replicas move, the agent is killed.

`scripts/demo` runs it. Brokers, clients and agent are real processes on separate loopback ports; all of them end and
their temporary folders are removed when the demo ends, also by Ctrl-C.
"""

from __future__ import annotations

import json
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from sandbox.admin import Admin, wait_until
from sandbox.agent_process import AgentProcess
from sandbox.cluster import Cluster
from sandbox.contract import RACKS
from sandbox.crew import Crew, Layout, Post, layout
from sandbox.errors import SandboxError
from sandbox.feeder import Feeder
from sandbox.processes import tail

GROUP: Final = "orders-service"
TOPICS: Final = {
    "clicks": [[1]] * 6 + [[2]] * 4 + [[3]] * 2,
    "orders": [[1, 2], [1, 2], [1, 3], [1, 3], [2, 1], [2, 3], [1, 2], [1, 3], [1, 2]],
}
"""Topic to brokers per partition, the leader first: replication 1 and 2, leaders unevenly spread over the racks."""
MOVES: Final = {("clicks", 0): [3], ("clicks", 1): [3], ("clicks", 2): [3], ("clicks", 6): [3], ("clicks", 10): [2]}
PARTITIONS: Final = sum(map(len, TOPICS.values()))
POSTS: Final = (
    Post(client="kafka-python", rack="rack-a", tells_rack=False),
    Post(client="aiokafka", rack="rack-b", tells_rack=False),
    Post(client="confluent", rack="rack-c", tells_rack=True),
    Post(client="confluent", rack="rack-a", tells_rack=True),
    Post(client="kafka-python", rack="rack-b", tells_rack=False),
    Post(client="aiokafka", rack="rack-c", tells_rack=False),
)
_MAX_DEPLOYS: Final = 4
"""In a third of all starts another member has the first place until it is deployed itself."""
_AFTER_KILL_SECONDS: Final = 12.0
"""The agent's session timeout, the group's rebalance after it, and a margin."""


class Story:
    """Prints the progress of a run, with the seconds since the start."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._begun = time.monotonic()

    def tell(self, text: str) -> None:
        """Print one step."""
        self.console.print(f"[dim]{time.monotonic() - self._begun:6.1f} s[/dim]  {text}", highlight=False)


@contextmanager
def agent(bootstrap: str, settings: Mapping[str, object] | None = None) -> Iterator[AgentProcess]:
    """Runs an agent within the context; it maps client ids to racks, and has these settings too."""
    racks = {f"*-{rack}": rack for rack in RACKS.values() if rack is not None}
    with tempfile.TemporaryDirectory(prefix="samerack-demo-") as folder:
        log = Path(folder) / "agent.log"
        with AgentProcess(
            bootstrap, groups=[GROUP], log=log, settings={"racks.client_ids": racks, **(settings or {})}
        ) as running:
            yield running


def play(story: Story) -> dict[str, float]:
    """Runs the whole demo; returns its measurements.

    Raises:
        SandboxError: Something did not happen in time.
    """
    story.tell("starting three brokers, one in each rack")
    with Cluster(progress=story.tell) as cluster, Admin(cluster.bootstrap) as admin:
        for topic, assignment in TOPICS.items():
            admin.create_topic(topic, assignment)
        story.tell(f"topics: {', '.join(f'{topic} ({len(placed)} partitions)' for topic, placed in TOPICS.items())}")
        crew = Crew(POSTS, bootstrap=cluster.bootstrap, group=GROUP, topics=tuple(TOPICS))
        with Feeder(cluster.bootstrap, {topic: len(placed) for topic, placed in TOPICS.items()}), crew:
            story.tell("six members start; only the two on librdkafka know their rack")
            crew.wait_complete(PARTITIONS)
            return _lead_move_kill(story, cluster.bootstrap, admin, crew)


def _lead_move_kill(story: Story, bootstrap: str, admin: Admin, crew: Crew) -> dict[str, float]:
    where = layout(admin, tuple(TOPICS))
    before = crew.cross_rack_share(where)
    _show_rates(story, crew, where, "the group's own assignment")
    story.tell(f"the group's own assignment reads [bold]{before:.1%}[/bold] of its partitions across racks")
    with agent(bootstrap) as running:
        deploy_until_led(story, crew, running)
        optimum = crew.optimum(where)
        after = crew.cross_rack_share(where)
        _show_rates(story, crew, where, "led by samerack")
        story.tell(f"the agent leads: [bold]{after:.1%}[/bold] across racks, the optimum is {optimum:.1%}")
        followed = _follow_a_move(story, admin, crew)
        story.tell("killing the agent with -9")
        killed_ms = time.time_ns() // 1_000_000
        running.kill()
        time.sleep(_AFTER_KILL_SECONDS)
        gap = crew.longest_pause(since_ms=killed_ms, until_ms=time.time_ns() // 1_000_000)
        crew.wait_complete(PARTITIONS)
        if crew.rebalanced(since_ms=killed_ms):
            story.tell(
                f"the longest pause of a partition was {gap:.2f} s: the agent's session ended, and in the rebalance "
                "after it members stop until the last of them has noticed, with its next heartbeat (every 3 s)"
            )
        else:
            story.tell(f"nobody stopped: the longest pause of a partition was {gap:.2f} s")
    return {"before": before, "after": after, "optimum": optimum, "consumption_gap_seconds": gap, **followed}


def deploy_until_led(story: Story, crew: Crew, running: AgentProcess) -> None:
    """Restart the members in turn, as deployments do, until the agent leads the group.

    Raises:
        SandboxError: The agent does not lead after all deployments.
    """
    running.wait_role("following")
    for _ in range(_MAX_DEPLOYS):
        first = running.reaches(running.first_in_order, seconds=3.0)
        story.tell(f"the agent has joined and is {'next to lead' if first else 'behind another member in the order'}")
        story.tell("a deploy: each member is restarted in turn")
        for post in crew.posts:
            crew.restart(post)
            crew.wait_complete(PARTITIONS)
        if running.reaches(lambda: running.role() == "leading", seconds=3.0):
            return
    raise SandboxError(f"the agent does not lead after {_MAX_DEPLOYS} deploys:\n{tail(running.log)}")


def _follow_a_move(story: Story, admin: Admin, crew: Crew) -> dict[str, float]:
    move_seconds = admin.move_replicas(MOVES)
    moved_at = time.monotonic()
    where = layout(admin, tuple(TOPICS))
    optimum, present = crew.optimum(where), crew.cross_rack_share(where)
    story.tell(f"{len(MOVES)} partitions moved to other racks in {move_seconds:.1f} s: {present:.1%} across racks now")
    if present <= optimum:
        raise SandboxError("the move left nothing to follow")

    def follows() -> bool:
        return crew.complete(PARTITIONS) and crew.cross_rack_share(where) <= optimum

    wait_until(follows, "the group has followed the move", timeout=60)
    seconds = time.monotonic() - moved_at
    story.tell(f"the group followed after [bold]{seconds:.1f} s[/bold]: {optimum:.1%} across racks, the optimum again")
    return {"after_move": present, "followed": crew.cross_rack_share(where), "followed_seconds": seconds}


def _show_rates(story: Story, crew: Crew, where: Layout, title: str) -> None:
    racks = sorted(set(where.racks.values()))
    table = Table(title=f"received, kB/s: {title}")
    for column in ("member", "in"):
        table.add_column(column)
    for rack in racks:
        table.add_column(f"from {rack}", justify="right")
    table.add_column("measured by")
    for post, rates in crew.rates(where, 3.0).items():
        cells = [
            f"[{'green' if rack == post.rack else 'red'}]{rates[rack] / 1000:.1f}[/]" if rates[rack] >= 50 else "-"
            for rack in racks
        ]
        table.add_row(post.client, post.rack, *cells, "bytes on the wire" if post.tells_rack else "partition")
    story.console.print(table)


def _summary(console: Console, result: dict[str, float]) -> None:
    table = Table(title="what samerack changed")
    table.add_column("")
    table.add_column("measured", justify="right")
    table.add_row("partitions read across racks, the group's own assignment", f"{result['before']:.1%}")
    table.add_row("partitions read across racks, led by samerack", f"{result['after']:.1%}")
    table.add_row("the least with a balanced assignment", f"{result['optimum']:.1%}")
    table.add_row("replicas moved: the group had followed after", f"{result['followed_seconds']:.1f} s")
    table.add_row("agent killed: longest pause of any partition", f"{result['consumption_gap_seconds']:.2f} s")
    console.print(table)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


def told(console: Console, story: Callable[[Story], dict[str, Any]]) -> dict[str, Any]:
    """Runs a story to its end, and prints how it ended if it failed; returns its result.

    Raises:
        typer.Exit: It failed (1) or was interrupted (130).
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT too: a shell's background job would ignore it
        signal.signal(number, _interrupt)
    try:
        return story(Story(console))
    except SandboxError as error:
        console.print(f"[red]failed:[/red] {error}", highlight=False)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        console.print("interrupted: every process has ended and every file is gone")
        raise typer.Exit(130) from None


def main(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON line on standard output.")] = False,
) -> None:
    """See a consumer group read across racks, samerack lead it, replicas move, and the agent die: about 90 seconds."""
    console = Console(stderr=as_json)
    result = told(console, play)
    _summary(console, result)
    if as_json:
        typer.echo(json.dumps({key: round(value, 4) for key, value in result.items()}))
    if result["after"] > result["optimum"]:
        raise typer.Exit(1)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
