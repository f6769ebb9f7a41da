"""An agent that leads many groups: memory, threads, processor time, what a scrape has, and the restart of a broker."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lab.benchmarks.led_members import PER_TOPIC, TOPICS, group_name, topic_name
from lab.benchmarks.shared import Found, memory, processor_seconds, show_progress, tree
from lab.sandbox.admin import Admin
from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.cluster import Cluster
from lab.sandbox.settings import free_ports
from samerack.cluster.group import is_agent
from samerack.cluster.group_poller import GroupPoller
from samerack.cluster.wire import Wire

_LED_SECONDS: Final = 420.0
_SETTLE_SECONDS: Final = 60.0
_STEADY_SECONDS: Final = 60.0
_AGAIN_SECONDS: Final = 0.25
_SCRAPES: Final = 5
_SCRAPE_PAUSE_SECONDS: Final = 3.0
"""Between two scrapes; Prometheus waits longer."""


@contextmanager
def _members(bootstrap: str, groups: int) -> Iterator[None]:
    line = [sys.executable, "-m", "lab.benchmarks.led_members", bootstrap, str(groups)]
    with subprocess.Popen(line, stdin=subprocess.PIPE) as process:  # noqa: S603 - our own program
        try:
            yield
        finally:
            process.kill()


def lead(groups: int) -> Found:
    """Have an agent lead groups of three members; return what it takes, and what the restart of a broker does."""
    found: Found = {"groups": groups}
    with (
        Cluster(heap_megabytes=700) as cluster,
        Admin(cluster.bootstrap) as admin,
        tempfile.TemporaryDirectory() as folder,
    ):
        brokers = sorted(cluster.brokers)
        for topic in range(TOPICS):
            admin.create_topic(
                topic_name(topic), [[brokers[one % 3], brokers[(one + 1) % 3]] for one in range(PER_TOPIC)]
            )
        settings = {"web.port": free_ports(1)[0], "election.group": ""}
        with AgentProcess(
            cluster.bootstrap, groups=["led-*"], log=Path(folder) / "agent.log", settings=settings
        ) as agent:
            agent.wait(lambda: bool(agent.events("pattern-matches-no-group")), "all groups are listed")
            with _members(cluster.bootstrap, groups):
                begun = time.monotonic()
                _wait_led(agent, groups, begun)
                found["led"] = Counter(agent.roles().values())["leading"]
                found["led_seconds"] = round(time.monotonic() - begun, 1)
                found["born_led"] = len({one["group"] for one in agent.events("plan-sent", generation=1)})
                time.sleep(_SETTLE_SECONDS)
                pid = agent.process.pid
                at, spent = time.monotonic(), processor_seconds(pid)
                time.sleep(_STEADY_SECONDS)
                found["cores"] = round((processor_seconds(pid) - spent) / (time.monotonic() - at), 3)
                found["memory"] = memory(pid)
                found["threads"] = sum(one.num_threads() for one in tree(pid))
                scrapes = [_scrape(agent) for _ in range(_SCRAPES)]
                found["scrape_seconds"] = statistics.median(seconds for seconds, _ in scrapes)
                found["scrape_lines"] = scrapes[-1][1]
                show_progress(found)
                found["again_seconds"] = _restart(cluster, groups)
                found["lost"] = len(agent.events("membership-lost"))
    return found


def _scrape(agent: AgentProcess) -> tuple[float, int]:
    """Return the seconds of a scrape, and its lines."""
    time.sleep(_SCRAPE_PAUSE_SECONDS)
    asked = time.monotonic()
    text = agent.get("/metrics")[1]
    return round(time.monotonic() - asked, 2), len(text.splitlines())


def _wait_led(agent: AgentProcess, groups: int, begun: float) -> None:
    """Wait until the agent is in all groups; it may have missed the birth of some, and follow there."""
    while True:
        roles = Counter(agent.roles().values())
        show_progress(f"roles: {dict(roles)}")
        if roles["leading"] + roles["following"] >= groups:
            return
        if time.monotonic() - begun > _LED_SECONDS:
            raise SystemExit(f"the agent is not in all {groups} groups after {_LED_SECONDS:.0f} s")
        time.sleep(5)


def _restart(cluster: Cluster, groups: int) -> float:
    """Restart a broker; return the seconds from its start until all groups are stable with the agent as a member."""
    names = [group_name(number) for number in range(groups)]
    poller = GroupPoller(Wire({"bootstrap_servers": cluster.bootstrap.split(",")}), seconds=1.0)
    for name in names:
        poller.watch(name, lambda: None)
    cluster.restart_broker(2)
    started = time.monotonic()
    while time.monotonic() - started < _LED_SECONDS:
        poller.poll_once()
        polls = [poller.latest(name) for name in names]
        views = [poll.view for poll in polls if poll is not None and poll.view is not None]
        stable = sum(view.stable and any(is_agent(one, "samerack") for one in view.members) for view in views)
        show_progress(f"{stable} groups are stable with the agent")
        if stable == groups:
            break
        time.sleep(_AGAIN_SECONDS)
    poller.ended()
    return round(time.monotonic() - started, 1)
