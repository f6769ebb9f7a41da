"""What an agent costs beside an application: memory of its processes, time to be ready, and short commands.

Memory is the proportional set size (PSS) of all processes of an agent, as the kernel has it in smaps_rollup: a page
that several processes share counts in parts. Agents run as an operator runs them, on a real Kafka of three racks.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from lab.benchmarks import led_members, many_partitions
from lab.benchmarks.many_groups import GROUPS, PER_TOPIC, PROPERTIES, Groups, create_topics, feed
from lab.benchmarks.shared import Found, Parts, measured_on, memory, processor_seconds, show_progress, table, tree
from lab.sandbox.admin import Admin, wait_until
from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.cluster import Cluster
from lab.sandbox.members.lines import MemberSettings
from lab.sandbox.members.process import Member
from lab.sandbox.settings import free_ports
from samerack.agent.process import ENVIRONMENT
from samerack.cluster.group import is_agent
from samerack.cluster.group_poller import GroupPoller
from samerack.cluster.wire import BrokerClient

RUNS: Final = 5
_GROUP: Final = "orders"
_TOPICS: Final = 10
_PER_TOPIC: Final = 100
_SETTLE_SECONDS: Final = 30.0
"""Two polls of the traffic and more: what is loaded and kept later is there then."""
_CYCLES: Final = 3
_CYCLE_LIMIT_SECONDS: Final = 300.0
_SCRAPE_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 0.02
_MIB: Final = 1 << 20
_LOGS: Final = 200_000
_HOUR_SECONDS: Final = 3600
_SAMPLE_SECONDS: Final = 0.5
_LED_SECONDS: Final = 420.0
_LED_SETTLE_SECONDS: Final = 60.0
_STEADY_SECONDS: Final = 60.0
_AGAIN_SECONDS: Final = 0.25
_SCRAPES: Final = 5
_SCRAPE_PAUSE_SECONDS: Final = 3.0
"""Between two scrapes; Prometheus waits longer."""
_MOST: Final = 600
"""MiB."""
_SIZES: Final = "memory|MiB|of it private|aim"
_COMMANDS: Final = ("--help", "rack", "health", "decode assignment 000000000000ffffffff")


def _command_seconds(words: str) -> float:
    """Return the processor seconds of a command of the program."""
    line = [str(Path(sys.executable).parent / "samerack"), *words.split()]
    environment = {**os.environ, "CLIENT_RACK": "rack-a"}
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, env=environment) as process:  # noqa: S603 - our own program
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"samerack {words}: ended with {process.returncode}")
    return round(used.ru_utime + used.ru_stime, 3)


def _agent(
    cluster: Cluster, folder: Path, name: str, *, settings: Mapping[str, object], groups: Sequence[str] = (_GROUP,)
) -> AgentProcess:
    own = {"web.port": free_ports(1)[0], "election.group": "samerack-footprint", "election.identity": name}
    log = folder / f"{name}.log"
    return AgentProcess(cluster.bootstrap, groups=groups, log=log, settings={**own, **settings})


def _ready_seconds(cluster: Cluster, folder: Path, name: str) -> float:
    """Return how long an agent takes until /readyz says yes."""
    begun = time.monotonic()
    with _agent(cluster, folder, name, settings={"election.group": ""}) as agent:
        wait_until(lambda: agent.get("/readyz")[0] == 200, "the agent is ready", pause=_POLL_SECONDS)
        return round(time.monotonic() - begun, 2)


def sidecars() -> Found:
    """Measure a leader and a standby of one group of a thousand partitions, and short commands."""
    found: Found = {"partitions": _TOPICS * _PER_TOPIC}
    with Cluster() as cluster, Admin(cluster.bootstrap) as admin, tempfile.TemporaryDirectory() as name:
        folder, brokers = Path(name), sorted(cluster.brokers)
        topics = tuple(f"orders-{number}" for number in range(_TOPICS))
        for topic in topics:
            admin.create_topic(topic, [[brokers[one % 3], brokers[(one + 1) % 3]] for one in range(_PER_TOPIC)])
        # the median: the first one waits until brokers have made their topic of offsets
        found["ready_seconds"] = statistics.median(
            _ready_seconds(cluster, folder, f"alone-{number}") for number in range(RUNS)
        )
        with _agent(cluster, folder, "first", settings={"web.port": 9464}) as leader, ExitStack() as members:
            leader.wait_role("waiting")
            for rack in ("rack-a", "rack-b"):
                settings = MemberSettings(
                    bootstrap=cluster.bootstrap,
                    group=_GROUP,
                    topics=topics,
                    client_id=rack,
                    rack=rack,
                    assignors=("range", "roundrobin"),
                )
                members.enter_context(Member.on("confluent", settings))
            leader.wait_role("leading")
            with _agent(cluster, folder, "second", settings={}) as standby:
                standby.wait_role("standby")
                time.sleep(_SETTLE_SECONDS)
                found["standby"] = memory(standby.process.pid)
                found["leader"] = memory(leader.process.pid)
            # `health` asks the leader, at the default port
            found["commands"] = {words: min(_command_seconds(words) for _ in range(RUNS)) for words in _COMMANDS}
    return found


def observer() -> Found:
    """Measure an observer of two thousand groups of a hundred partitions each."""
    with Cluster(properties=PROPERTIES, heap_megabytes=900) as cluster, tempfile.TemporaryDirectory() as folder:
        create_topics(cluster.bootstrap, sorted(cluster.brokers))
        feed(cluster.bootstrap)
        wire = BrokerClient({"bootstrap_servers": cluster.bootstrap.split(",")})
        groups = Groups(wire)
        groups.commit(0)
        show_progress("the groups have committed")
        settings = {"traffic.groups": ["group-*"], "election.group": "", "traffic.poll_seconds": 5}
        with _agent(cluster, Path(folder), "observer", settings=settings, groups=()) as agent:
            pid = agent.process.pid
            agent.wait(lambda: agent.get("/readyz")[0] == 200, "it is ready")
            begun, peak = _cycle(agent, 1, memory(pid))
            spent, count = processor_seconds(pid), begun
            for turn in range(_CYCLES):
                feed(cluster.bootstrap)
                groups.commit(turn + 1)
                count, peak = _cycle(agent, count + 1, peak)
                show_progress(f"{count:.0f} cycles, {peak['pss_bytes'] / _MIB:.0f} MiB")
            seconds = (processor_seconds(pid) - spent) / (count - begun)
        wire.close()
    return {
        "groups": GROUPS,
        "partitions": GROUPS * PER_TOPIC,
        "memory": peak,
        "cycle_processor_seconds": round(seconds, 2),
    }


def leader(groups: int = 1000) -> Found:
    """Measure an agent that leads many groups of three members."""
    found: Found = {"groups": groups}
    with (
        Cluster(heap_megabytes=700) as cluster,
        Admin(cluster.bootstrap) as admin,
        tempfile.TemporaryDirectory() as folder,
    ):
        brokers = sorted(cluster.brokers)
        for topic in range(led_members.TOPICS):
            admin.create_topic(
                led_members.topic_name(topic),
                [[brokers[one % 3], brokers[(one + 1) % 3]] for one in range(led_members.PER_TOPIC)],
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
                time.sleep(_LED_SETTLE_SECONDS)
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


@contextmanager
def _members(bootstrap: str, groups: int) -> Iterator[None]:
    line = [sys.executable, "-m", led_members.__name__, bootstrap, str(groups)]
    with subprocess.Popen(line, stdin=subprocess.PIPE) as process:  # noqa: S603 - our own program
        try:
            yield
        finally:
            process.kill()


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
    names = [led_members.group_name(number) for number in range(groups)]
    poller = GroupPoller(BrokerClient({"bootstrap_servers": cluster.bootstrap.split(",")}), seconds=1.0)
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


def hour() -> Found:
    """Measure an hour of polls of two hundred thousand logs, of simulated brokers, also within polls."""
    found: Found = {"partitions": _LOGS}
    line = [sys.executable, "-m", many_partitions.__name__, str(_LOGS), str(_HOUR_SECONDS)]
    environment = {**os.environ, **ENVIRONMENT}
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:  # noqa: S603 - our own program
        passed: list[int] = []
        reading = threading.Thread(target=lambda: passed.extend(map(int, process.stdout or ())))
        reading.start()
        while not passed:
            if process.poll() is not None:
                raise SystemExit(f"the simulated agent ended with {process.returncode} before its first poll")
            time.sleep(_SAMPLE_SECONDS)
        found["begin"] = peak = memory(process.pid)
        begun = processor_seconds(process.pid)
        while passed[-1] < _HOUR_SECONDS and process.poll() is None:
            time.sleep(_SAMPLE_SECONDS)
            now = memory(process.pid)
            peak = max(peak, now, key=lambda one: one["pss_bytes"])
            if "half" not in found and passed[-1] >= _HOUR_SECONDS / 2:
                found["half"] = peak
                show_progress(f"half an hour, {len(passed) - 1} polls, {peak['pss_bytes'] / _MIB:.0f} MiB")
        found["polls"] = len(passed) - 1
        found["poll_processor_seconds"] = round((processor_seconds(process.pid) - begun) / found["polls"], 2)
        if process.stdin is not None:
            process.stdin.close()
        reading.join()
    return {**found, "memory": peak}


def _cycle(agent: AgentProcess, min_cycles: float, peak: dict[str, int]) -> tuple[float, dict[str, int]]:
    """Return how many cycles there were, once there are so many, and the highest memory since.

    It asks as seldom as Prometheus does.
    """
    end = time.monotonic() + _CYCLE_LIMIT_SECONDS
    while time.monotonic() < end:
        asked = time.monotonic() + _SCRAPE_SECONDS
        count = sum(sample.value for sample in agent.samples("samerack_traffic_cycle_seconds_count"))
        if count >= min_cycles:
            return count, peak
        while time.monotonic() < asked:
            peak = max(peak, memory(agent.process.pid), key=lambda found: found["pss_bytes"])
            time.sleep(0.2)
    raise SystemExit(f"the observer took longer than {_CYCLE_LIMIT_SECONDS:.0f} s for a cycle")


def _size(name: str, size: dict[str, int], aim: int) -> tuple[str, ...]:
    sizes = (f"{size[kind] / _MIB:.0f}" for kind in ("pss_bytes", "anonymous_bytes"))
    return name, *sizes, str(aim)


def _show_sidecars(found: Found) -> str:
    sizes = [
        _size("standby sidecar", found["standby"], 70),
        _size(f"leader of one group of {found['partitions']:,} partitions", found["leader"], 120),
    ]
    times = [
        ("ready after its start, without an election", f"{found['ready_seconds']:.2f}", 1),
        *(
            (f"`samerack {name}`, processor time", f"{seconds:.2f}", 0.25 if name == "--help" else 0.35)
            for name, seconds in found["commands"].items()
        ),
    ]
    return f"{table(_SIZES, sizes)}\n\n{table('time|seconds|aim', times)}\n\n{measured_on(found)}"


def _show_observer(found: Found) -> str:
    about = f"observer of {found['groups']:,} groups with {found['partitions']:,} partitions, highest"
    return (
        f"{table(_SIZES, [_size(about, found['memory'], 350)])}\n\n"
        f"A cycle took {found['cycle_processor_seconds']:.2f} s of processor time (aim: 10).\n{measured_on(found)}"
    )


def _show_leader(found: Found) -> str:
    size = _size(f"leader of {found['groups']:,} groups of three members", found["memory"], 300)
    rows = [
        ("processor cores, while nothing happens", f"{found['cores']:.2f}", "1"),
        ("threads", str(found["threads"]), ""),
        ("lines of a scrape for each group", f"{found['scrape_lines'] / found['groups']:.1f}", "30"),
        ("seconds of a scrape", f"{found['scrape_seconds']:.2f}", "0.5"),
        ("groups led from their first generation", f"{found['born_led']:,}", ""),
        ("seconds from a broker's start until all are stable with the agent", f"{found['again_seconds']:.1f}", "10"),
    ]
    return f"{table(_SIZES, [size])}\n\n{table('what|measured|aim', rows)}\n\n{measured_on(found)}"


def _show_hour(found: Found) -> str:
    about = f"{{}} of polls of {found['partitions']:,} logs, highest"
    rows = [
        _size("before the first poll", found["begin"], 120),
        _size(about.format("half an hour"), found["half"], _MOST),
        _size(about.format("an hour"), found["memory"], _MOST),
    ]
    return (
        f"{table(_SIZES, rows)}\n\nThere were {found['polls']} polls: an agent spends a third of its time on them at "
        f"most. Each took {found['poll_processor_seconds']:.2f} s of processor time, the simulated brokers' included.\n"
        f"{measured_on(found)}"
    )


PARTS: Final[Parts] = {
    "sidecars": (sidecars, _show_sidecars),
    "observer": (observer, _show_observer),
    "leader": (leader, _show_leader),
    "hour": (hour, _show_hour),
}
