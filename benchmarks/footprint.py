"""Measures what an agent costs beside an application: memory of its processes, time to be ready, and short commands.

Memory is the proportional set size (PSS) of all processes of an agent, as the kernel has it in smaps_rollup: a page
that several processes share counts in parts. Agents run as an operator runs them, on a real Kafka of three racks.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import psutil
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.report import machine
from benchmarks.traffic_scale import GROUPS, PER_TOPIC, TOPICS, Groups, Place, feed
from samerack.cluster.wire import Wire
from sandbox.admin import Admin, wait_until
from sandbox.agent_process import AgentProcess
from sandbox.cluster import Cluster
from sandbox.settings import free_ports

RUNS: Final = 5
_GROUP: Final = "orders"
_TOPICS: Final = 10
_PER_TOPIC: Final = 100
_RACKS: Final = ("rack-a", "rack-b", "rack-c")
_SETTLE_SECONDS: Final = 30.0
"""Two polls of the traffic and more: what is loaded and kept later is there then."""
_CYCLES: Final = 3
_CYCLE_LIMIT_SECONDS: Final = 300.0
_SCRAPE_SECONDS: Final = 15.0
_LOOK_SECONDS: Final = 0.02
_SESSION_MS: Final = 1_200_000
_MANY_GROUPS: Final = {
    "log.index.size.max.bytes": "4096",
    "group.max.session.timeout.ms": str(_SESSION_MS),
    "group.initial.rebalance.delay.ms": "0",
}
_TOPICS_AT_ONCE: Final = 25
"""Brokers refuse a request for many thousand partitions."""
_MIB: Final = 1 << 20
COMMANDS: Final = ("--help", "rack", "health", "decode assignment 000000000000ffffffff")


def memory(pid: int) -> dict[str, Any]:
    """Returns the bytes of a process and its children: the sum, what of it is in no file, and those of each.

    `unshared_bytes` are the pages of the first process that a fork of it has written to: they are there twice.
    """
    processes, unshared = [], []
    anonymous = 0
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
        sizes = {line.split()[0]: int(line.split()[1]) * 1024 for line in lines}
        processes.append(sizes["Pss:"])
        anonymous += sizes["Pss_Anon:"]
        unshared.append(sizes["Private_Dirty:"])
    return {
        "pss_bytes": sum(processes),
        "anonymous_bytes": anonymous,
        "unshared_bytes": unshared[0],
        "processes": processes,
    }


def processor_seconds(pid: int) -> float:
    """Returns the processor time of a process and its children."""
    tree = (psutil.Process(pid), *psutil.Process(pid).children(recursive=True))
    return sum(sum(process.cpu_times()[:2]) for process in tree)


def _tell(what: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {what}\n")


def commands() -> dict[str, float]:
    """Returns the processor seconds of short commands, the fastest of several runs, `health` beside a healthy agent."""
    program = Path(sys.executable).parent / "samerack"
    return {name: min(_command_seconds([str(program), *name.split()]) for _ in range(RUNS)) for name in COMMANDS}


def _command_seconds(line: list[str]) -> float:
    environment = {**os.environ, "CLIENT_RACK": "rack-a"}
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, env=environment) as process:  # noqa: S603 - our own program
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(line)}: ended with {process.returncode}")
    return round(used.ru_utime + used.ru_stime, 3)


class Member(threading.Thread):
    """A consumer that stops at each rebalance (eager protocol); a context manager that closes it.

    Attributes:
        stops: from when to when it owned nothing, in seconds of the monotonic clock.
    """

    def __init__(self, bootstrap: str, rack: str) -> None:
        super().__init__(daemon=True)
        self.stops: list[tuple[float, float]] = []
        self._revoked_at = time.monotonic()
        self._over = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": _GROUP,
                "client.rack": rack,
                "partition.assignment.strategy": "range,roundrobin",
                "session.timeout.ms": 20_000,
                "heartbeat.interval.ms": 500,
            }
        )
        self._consumer.subscribe(
            [f"orders-{number}" for number in range(_TOPICS)], on_assign=self._assigned, on_revoke=self._revoked
        )

    def _assigned(self, *_: object) -> None:
        self.stops.append((self._revoked_at, time.monotonic()))

    def _revoked(self, *_: object) -> None:
        self._revoked_at = time.monotonic()

    def run(self) -> None:
        """Polls until closed."""
        while not self._over.is_set():
            self._consumer.poll(0.05)
        self._consumer.close()

    def __enter__(self) -> Self:
        """Starts it."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves the group."""
        self._over.set()
        self.join()


def _rebalance(bootstrap: str, members: list[Member], then: Callable[[], None]) -> float:
    """Has one more member join, and does something as the others have stopped; returns the longest stop of a member."""
    before = [len(member.stops) for member in members]
    revoked = [member._revoked_at for member in members]  # noqa: SLF001 - of this module
    with Member(bootstrap, _RACKS[0]) as late:
        wait_until(
            lambda: any(one._revoked_at != at for one, at in zip(members, revoked, strict=True)),  # noqa: SLF001 - see above
            "a member stops",
            pause=0.002,
        )
        then()
        wait_until(
            lambda: bool(late.stops) and all(len(one.stops) > n for one, n in zip(members, before, strict=True)),
            "all go on",
            pause=0.01,
        )
    longest = max(end - begin for one, n in zip(members, before, strict=True) for begin, end in one.stops[n : n + 1])
    wait_until(  # the member that was added has left again
        lambda: all(len(one.stops) > n + 1 for one, n in zip(members, before, strict=True)), "all go on without it"
    )
    return round(longest, 2)


@contextmanager
def _agent(cluster: Cluster, folder: Path, name: str, **settings: object) -> Iterator[AgentProcess]:
    options = {"web.port": free_ports(1)[0], "election.group": "samerack-footprint", "election.identity": name}
    options |= {key.replace("__", "."): value for key, value in settings.items()}
    groups = [_GROUP] if "traffic.groups" not in options else []
    with AgentProcess(cluster.bootstrap, groups=groups, log=folder / f"{name}.log", settings=options) as agent:
        yield agent


def _ready(agent: AgentProcess, begun: float) -> dict[str, float]:
    """Returns how long the agent took until /readyz said yes, and the processor time of that."""
    wait_until(lambda: agent.get("/readyz")[0] == 200, "the agent is ready", pause=_LOOK_SECONDS)
    seconds = time.monotonic() - begun
    return {"seconds": round(seconds, 2), "processor_seconds": round(processor_seconds(agent.process.pid), 2)}


def _replaced(agent: AgentProcess) -> Callable[[], None]:
    """Returns a function that kills the agent's worker."""
    return lambda: psutil.Process(agent.events("started")[-1]["process"]).kill()


def small(cluster: Cluster, admin: Admin, folder: Path) -> dict[str, Any]:
    """Returns the figures of a leader and a standby of one group of a thousand partitions."""
    brokers = sorted(cluster.brokers)
    for number in range(_TOPICS):
        places = [[brokers[one % 3], brokers[(one + 1) % 3]] for one in range(_PER_TOPIC)]
        admin.create_topic(f"orders-{number}", places)
    result: dict[str, Any] = {"partitions": _TOPICS * _PER_TOPIC}
    _tell("agents alone")
    starts = []
    for number in range(RUNS):  # the first one waits until brokers have made their topic of offsets: not in the median
        begun = time.monotonic()
        with _agent(cluster, folder, f"alone-{number}", election__group="") as agent:
            starts.append(_ready(agent, begun))
    result["ready"] = {name: statistics.median(one[name] for one in starts) for name in starts[0]}
    _tell("a leader and a standby")
    with _agent(cluster, folder, "first", web__port=9464) as leader:
        leader.wait_role("waiting")
        with Member(cluster.bootstrap, "rack-a") as a, Member(cluster.bootstrap, "rack-b") as b:
            leader.wait_role("leading")
            begun = time.monotonic()
            with _agent(cluster, folder, "second") as standby:
                result["standby_ready"] = _ready(standby, begun)
                standby.wait_role("standby")
                time.sleep(_SETTLE_SECONDS)
                result["standby"] = memory(standby.process.pid)
                result["leader"] = memory(leader.process.pid)
            result["commands"] = commands()
            _tell("a killed worker")
            result["pause"] = {
                "seconds": _rebalance(cluster.bootstrap, [a, b], lambda: None),
                "killed_seconds": _rebalance(cluster.bootstrap, [a, b], _replaced(leader)),
            }
            wait_until(lambda: len(leader.events("started")) > 1 and leader.role() == "leading", "it leads again")
            before = [len(one.stops) for one in (a, b)]
            killed = time.monotonic()
            _replaced(leader)()
            wait_until(
                lambda: len(leader.events("started")) > 2 and leader.role() == "leading", "it leads again", pause=0.02
            )
            result["pause"]["leads_again_seconds"] = round(time.monotonic() - killed, 2)
            result["pause"]["rebalances_at_rest"] = sum(len(one.stops) for one in (a, b)) - sum(before)
            result["leader_replaced"] = memory(leader.process.pid)
    return result


def _place(number: int) -> Place:
    """Returns a group that reads one whole topic; ten groups read each."""
    return f"group-{number:04}", f"topic-{number % TOPICS:03}", list(range(PER_TOPIC))


def large(cluster: Cluster, folder: Path) -> dict[str, Any]:
    """Returns the figures of an observer of two thousand groups of a hundred partitions each."""
    brokers = sorted(cluster.brokers)
    topics = [
        NewTopic(
            f"topic-{number:03}",
            num_partitions=PER_TOPIC,
            replica_assignment=[[brokers[(number + one) % 3]] for one in range(PER_TOPIC)],
        )
        for number in range(TOPICS)
    ]
    creating = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for first in range(0, TOPICS, _TOPICS_AT_ONCE):
        for created in creating.create_topics(topics[first : first + _TOPICS_AT_ONCE], request_timeout=120).values():
            created.result()
    _tell("topics")
    feed(cluster.bootstrap)
    _tell("records")
    wire = Wire({"bootstrap_servers": cluster.bootstrap.split(",")})
    groups = Groups(wire, _place)
    groups.join()
    _tell("groups")
    groups.commit(0)
    _tell("offsets")
    settings = {"traffic__groups": ["group-*"], "election__group": "", "traffic__poll_seconds": 5}
    with _agent(cluster, folder, "observer", **settings) as observer:
        pid = observer.process.pid

        def cycles(least: float) -> float:
            """Returns how many cycles there were, once there are so many; asks as seldom as Prometheus does."""
            nonlocal peak
            end = time.monotonic() + _CYCLE_LIMIT_SECONDS
            while time.monotonic() < end:
                asked = time.monotonic() + _SCRAPE_SECONDS
                count = sum(sample.value for sample in observer.samples("samerack_traffic_cycle_seconds_count"))
                if count >= least:
                    return count
                while time.monotonic() < asked:
                    peak = max(peak, memory(pid), key=lambda found: int(found["pss_bytes"]))
                    time.sleep(0.2)
            raise SystemExit(f"the observer took longer than {_CYCLE_LIMIT_SECONDS:.0f} s for a cycle")

        observer.wait(lambda: observer.get("/readyz")[0] == 200, "it is ready")
        peak = memory(pid)
        count = begun = cycles(1)
        _tell("the observer has polled")
        spent, started = processor_seconds(pid), time.monotonic()
        for turn in range(_CYCLES):
            feed(cluster.bootstrap)
            groups.commit(turn + 1)
            count = cycles(count + 1)
            _tell(f"{count:.0f} cycles, {peak['pss_bytes'] / _MIB:.0f} MiB")
        done, seconds = count - begun, time.monotonic() - started
        result = {
            "groups": GROUPS,
            "partitions": GROUPS * PER_TOPIC,
            "distinct_partitions": TOPICS * PER_TOPIC,
            "memory": peak,
            "cycle_processor_seconds": round((processor_seconds(pid) - spent) / done, 2),
            "cycle_seconds": round(seconds / done, 2),
        }
    wire.close()
    return result


def imports() -> dict[str, int]:
    """Returns what imports cost by package, the largest first."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.import_memory"], check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, int] = json.loads(done.stdout)
    return found


def measure() -> dict[str, Any]:
    """Returns all figures."""
    results = {"machine": machine(), "imports": imports()}
    with tempfile.TemporaryDirectory() as folder:
        with Cluster() as cluster, Admin(cluster.bootstrap) as admin:
            results |= small(cluster, admin, Path(folder))
        with Cluster(properties=_MANY_GROUPS, heap_megabytes=900) as cluster:
            results["observer"] = large(cluster, Path(folder))
    return results
