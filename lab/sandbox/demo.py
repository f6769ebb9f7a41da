"""The demo on this machine: a group reads across racks, the agent leads it, replicas move, the agent is killed.

`scripts/demo` runs it. Brokers, clients and agent are real processes on separate loopback ports; all of them end and
their temporary folders are removed when the demo ends, also by Ctrl-C.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console

from lab.sandbox.admin import Admin
from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.contract import RACKS_BY_CLIENT_ID
from lab.sandbox.crew import Crew, Post, running, show_rates
from lab.sandbox.errors import SandboxError
from lab.sandbox.processes import tail
from lab.sandbox.story import AsJson, Story, command, conclude, run_story, summary

GROUP: Final = "orders-service"
TOPICS: Final = {
    "clicks": [[1]] * 6 + [[2]] * 4 + [[3]] * 2,
    "orders": [[1, 2], [1, 2], [1, 3], [1, 3], [2, 1], [2, 3], [1, 2], [1, 3], [1, 2]],
}
"""Topic to brokers per partition, the leader first: replication 1 and 2, leaders unevenly spread over the racks."""
MOVES: Final = {("clicks", 0): [3], ("clicks", 1): [3], ("clicks", 2): [3], ("clicks", 6): [3], ("clicks", 10): [2]}
POSTS: Final = (
    Post(client="kafka-python", rack="rack-a"),
    Post(client="aiokafka", rack="rack-b"),
    Post(client="confluent", rack="rack-c"),
    Post(client="confluent", rack="rack-a"),
    Post(client="kafka-python", rack="rack-b"),
    Post(client="aiokafka", rack="rack-c"),
)
_MAX_DEPLOYS: Final = 4
"""In a third of all starts another member has the first place until it is deployed itself."""
_AFTER_KILL_SECONDS: Final = 12.0
"""The agent's session timeout, the group's rebalance after it, and a margin."""


@contextmanager
def agent(bootstrap: str, settings: Mapping[str, object] | None = None) -> Iterator[AgentProcess]:
    """Run an agent within the context; it maps client ids to racks, and has these settings too."""
    with (
        tempfile.TemporaryDirectory(prefix="samerack-demo-") as folder,
        AgentProcess(
            bootstrap,
            groups=[GROUP],
            log=Path(folder) / "agent.log",
            settings={"racks.client_ids": RACKS_BY_CLIENT_ID, **(settings or {})},
        ) as started,
    ):
        yield started


def play(story: Story) -> dict[str, float]:
    """Run the whole demo; return its measurements."""
    starts = "six members start; only the two on librdkafka know their rack"
    with running(story, POSTS, TOPICS, group=GROUP, members=starts) as (cluster, admin, crew):
        return _lead_move_kill(story, cluster.bootstrap, admin, crew)


def _lead_move_kill(story: Story, bootstrap: str, admin: Admin, crew: Crew) -> dict[str, float]:
    where = crew.layout(admin)
    before = crew.cross_rack_share(where)
    show_rates(story, crew.rates(where, 3.0), "received, kB/s: the group's own assignment")
    story.report(f"the group's own assignment reads [bold]{before:.1%}[/bold] of its partitions across racks")
    with agent(bootstrap) as started:
        deploy_until_led(story, crew, started)
        optimum = crew.optimum(where)
        after = crew.cross_rack_share(where)
        show_rates(story, crew.rates(where, 3.0), "received, kB/s: led by samerack")
        story.report(f"the agent leads: [bold]{after:.1%}[/bold] across racks, the optimum is {optimum:.1%}")
        followed = crew.follow_a_move(story, admin, MOVES)
        story.report("killing the agent with -9")
        killed_ms = time.time_ns() // 1_000_000
        started.kill()
        time.sleep(_AFTER_KILL_SECONDS)
        gap = crew.longest_pause(since_ms=killed_ms, until_ms=time.time_ns() // 1_000_000)
        crew.wait_complete()
        story.report(paused(gap, rebalanced=crew.rebalanced(since_ms=killed_ms)))
    return {"before": before, "after": after, "optimum": optimum, "consumption_gap_seconds": gap, **followed}


def paused(seconds: float, *, rebalanced: bool) -> str:
    """Return how long the group paused after the agent was killed, and why."""
    text = f"the longest pause of a partition was {seconds:.2f} s"
    if not rebalanced:
        return f"{text}: the group went on as it was"
    return (
        f"{text}: the agent's session ended, and in the rebalance after it members stop until the last of them has "
        "noticed, with its next heartbeat (every 3 s)"
    )


def deploy_until_led(story: Story, crew: Crew, started: AgentProcess) -> None:
    """Restart the members in turn, as deployments do, until the agent leads the group."""
    started.wait_role("following")
    for _ in range(_MAX_DEPLOYS):
        first = started.reaches(started.first_in_order, seconds=3.0)
        story.report(f"the agent has joined and is {'next to lead' if first else 'behind another member in the order'}")
        story.report("a deploy: each member is restarted in turn")
        for post in crew.posts:
            crew.restart(post)
            crew.wait_complete()
        if started.reaches(lambda: started.role() == "leading", seconds=3.0):
            return
    raise SandboxError(f"the agent does not lead after {_MAX_DEPLOYS} deploys:\n{tail(started.log)}")


def main(*, as_json: AsJson = False) -> None:
    """See a consumer group read across racks, samerack lead it, replicas move, and the agent die: about 90 seconds."""
    console = Console(stderr=as_json)
    result = run_story(console, play)
    rows = {
        "partitions read across racks, the group's own assignment": f"{result['before']:.1%}",
        "partitions read across racks, led by samerack": f"{result['after']:.1%}",
        "the least with a balanced assignment": f"{result['optimum']:.1%}",
        "replicas moved: the group had followed after": f"{result['followed_seconds']:.1f} s",
        "agent killed: longest pause of any partition": f"{result['consumption_gap_seconds']:.2f} s",
    }
    summary(console, "what samerack changed", rows)
    conclude(result, as_json=as_json, failed=result["after"] > result["optimum"])


if __name__ == "__main__":
    command(main)
