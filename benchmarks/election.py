"""Measures thousands of agents in one election on one real broker: record bytes of the group, seconds, requests/s.

The agents run in a few processes (`benchmarks.election_agents`).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

import psutil
from confluent_kafka import Consumer, TopicPartition

from benchmarks.report import machine
from sandbox.cluster import Cluster

DOCUMENT: Final = Path(__file__).parents[1] / "docs" / "benchmarks-election.json"
AGENTS: Final = 2_000
APPS: Final = 20
PER_SECOND: Final = 50.0
PROCESSES: Final = 4
NEWCOMERS: Final = 100
REST_SECONDS: Final = 60.0
MESSAGE_MAX_BYTES: Final = 1_048_588
"""Kafka's default of `message.max.bytes`."""
GROUP: Final = "samerack"
_LOOK_SECONDS: Final = 0.05


class AgentsProcess:
    """One process with many agents; a context manager that kills it."""

    def __init__(self, bootstrap: str, apps: int) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "benchmarks.election_agents", bootstrap, str(apps)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send(self, do: str, **arguments: object) -> None:
        """Send a command to the process; `answer` waits until it is done."""
        assert self._process.stdin is not None  # noqa: S101 - Popen was called with a pipe
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Returns the answer to the last command."""
        assert self._process.stdout is not None  # noqa: S101 - Popen was called with a pipe
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a process with agents has ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, do: str, **arguments: object) -> dict[str, Any]:
        """Send a command and return its answer."""
        self.send(do, **arguments)
        return self.answer()

    def kill(self) -> None:
        """End the process with SIGKILL."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        """Returns itself; the process runs already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kills the process."""
        self.kill()


class Fleet:
    """All processes with agents: agent N is in process N modulo their number."""

    def __init__(self, bootstrap: str, *, processes: int, apps: int) -> None:
        self._stack = ExitStack()
        self.bootstrap = bootstrap
        self.apps = apps
        self.processes = [self._stack.enter_context(AgentsProcess(bootstrap, apps)) for _ in range(processes)]

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kills all processes."""
        self._stack.close()

    def start(self, first: int, count: int, *, per_second: float, candidates: bool = True) -> float:
        """Start agents; returns the time of the first start."""
        width = len(self.processes)
        for index, process in enumerate(self.processes):
            mine = [number for number in range(first, first + count) if number % width == index]
            process.send(
                "start",
                first=mine[0] if mine else 0,
                count=len(mine),
                step=width,
                per_second=per_second / width,
                candidates=candidates,
            )
        return min(float(process.answer()["begun"]) for process in self.processes)

    def status(self) -> list[dict[str, Any]]:
        """Returns the status of each process."""
        for process in self.processes:
            process.send("status")
        return [process.answer() for process in self.processes]

    def total(self, key: str) -> int:
        """Returns the sum of one number of the status over all processes."""
        return sum(int(one[key]) for one in self.status())

    def active(self) -> dict[int, dict[str, Any]]:
        """Returns the agents that are active for a responsibility, by number."""
        return {int(number): one for status in self.status() for number, one in status["active"].items()}

    def stop(self, number: int) -> float:
        """Shut an agent down in order; returns the time."""
        return float(self.processes[number % len(self.processes)].ask("stop", number=number)["at"])

    def took_over(self, responsibility: str, *, since: float) -> float | None:
        """Returns when another agent became active for a responsibility, after the time `since`."""
        times = [
            float(change["at"])
            for status in self.status()
            for change in status["changes"]
            if responsibility in change["held"] and change["at"] > since
        ]
        return min(times, default=None)

    def requests(self) -> Counter[str]:
        """Returns the number of requests sent until now, by kind."""
        return sum((Counter(one["requests"]) for one in self.status()), Counter())

    def known(self, number: int, of: list[int]) -> int:
        """Returns for how many of the agents `of` an active agent knows the rack."""
        answer = self.processes[number % len(self.processes)].ask("knows", number=number, of=of)
        return int(answer["known"])


def wait(holds: Callable[[], bool], what: str, *, seconds: float) -> float:
    """Wait until a condition holds; returns that time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"after {seconds:g} s it does not hold that {what}")
        time.sleep(_LOOK_SECONDS)
    return time.time()


def group_records(bootstrap: str) -> dict[str, list[int]]:
    """Returns the bytes of each group metadata record in `__consumer_offsets`, by group."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        partitions = consumer.list_topics("__consumer_offsets", timeout=10).topics["__consumer_offsets"].partitions
        ends = {
            one: consumer.get_watermark_offsets(TopicPartition("__consumer_offsets", one), timeout=10)[1]
            for one in partitions
        }
        left = {one for one, end in ends.items() if end}
        consumer.assign([TopicPartition("__consumer_offsets", one, 0) for one in left])
        found: dict[str, list[int]] = {}
        while left:
            message = consumer.poll(10)
            if message is None:
                raise SystemExit("__consumer_offsets cannot be read to its end")
            key, value = message.key() or b"", message.value() or b""
            if int.from_bytes(key[:2], "big") == 2 and value:
                found.setdefault(key[4:].decode(), []).append(len(key) + len(value))
            if (message.offset() or 0) + 1 >= ends[message.partition() or 0]:
                left.discard(message.partition() or 0)
        return found
    finally:
        consumer.close()


def measure(  # noqa: PLR0913 - one parameter for each property of a run
    *,
    agents: int = AGENTS,
    apps: int = APPS,
    per_second: float = PER_SECOND,
    processes: int = PROCESSES,
    newcomers: int = NEWCOMERS,
    rest_seconds: float = REST_SECONDS,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Measure one run: all start, rest, more join that lead nothing, an active agent stops, another is killed.

    Args:
        agents: number at the start.
        apps: number of different groups that they can lead.
        per_second: how many start a second.
        processes: number of processes that they run in.
        newcomers: how many join later.
        rest_seconds: how long requests are counted at rest.
        tell: called with progress messages.
    """
    with (
        Cluster({1: "rack-a"}, heap_megabytes=1024) as cluster,
        Fleet(cluster.bootstrap, processes=processes, apps=apps) as fleet,
        AgentsProcess(cluster.bootstrap, apps) as doomed,
    ):
        broker = psutil.Process(cluster.process_id(1))
        tell("the broker is up")
        doomed.ask("start", first=10 * agents * apps, count=1, step=1, per_second=1, whole=True)
        wait(lambda: bool(doomed.ask("status")["active"]), "the first agent is active", seconds=60)
        begun = fleet.start(0, agents, per_second=per_second)
        everybody = agents + 1
        started = wait(
            lambda: fleet.total("inside") + fleet.total("outside") >= agents, "all agents have their place", seconds=600
        )
        tell(f"all agents have their place after {started - begun:.1f} s")
        known = wait(
            lambda: (
                len(active := fleet.active()) == apps - 1 and all(one["racks"] == everybody for one in active.values())
            ),
            "every active agent knows all racks",
            seconds=300,
        )
        tell(f"all racks are known after {known - begun:.1f} s")
        inside = wait_settled(fleet)
        tell(f"{inside} take part")

        before, processor, at = fleet.requests(), broker.cpu_times(), time.monotonic()
        term = max(one["term"] for one in fleet.status())
        time.sleep(rest_seconds)
        after, processor_after, seconds = fleet.requests(), broker.cpu_times(), time.monotonic() - at
        resting = {kind: round(count / seconds, 1) for kind, count in sorted((after - before).items())}
        busy = (processor_after.user + processor_after.system - processor.user - processor.system) / seconds
        rest_elections = max(one["term"] for one in fleet.status()) - term
        tell(f"at rest {sum(resting.values()):.0f} requests a second, broker {100 * busy:.0f} % of a core")

        first, term = 2 * agents * apps, max(one["term"] for one in fleet.status())
        sure = fleet.active()
        numbers = list(range(first, first + newcomers))
        somebody = min(sure)
        came = fleet.start(first, newcomers, per_second=per_second, candidates=False)
        seen: list[float] = []
        while len(seen) < newcomers:
            seen += [time.time() - came] * (fleet.known(somebody, numbers) - len(seen))
            if time.time() - came > 300:
                raise SystemExit(f"{newcomers - len(seen)} newcomers are not known after 300 s")
            time.sleep(_LOOK_SECONDS)
        newcomer_elections = max(one["term"] for one in fleet.status()) - term
        tell(f"{newcomers} more are known after {seen[-1]:.1f} s and {newcomer_elections} elections")

        (responsibility,) = sure[somebody]["held"][:1]
        stopped = fleet.stop(somebody)
        wait(lambda: fleet.took_over(responsibility, since=stopped) is not None, "another agent is active", seconds=60)
        handed_over = (fleet.took_over(responsibility, since=stopped) or stopped) - stopped
        next_known = wait(
            lambda: any(
                responsibility in one["held"] and one["racks"] >= everybody + newcomers - 1
                for one in fleet.active().values()
            ),
            "the next one knows all racks",
            seconds=120,
        )
        tell(f"another agent is active {handed_over:.2f} s after one ended")
        wait_settled(fleet)  # a waiting agent takes the free place: this run measures one election at a time
        (held,) = next(iter(doomed.ask("status")["active"].values()))["held"]
        killed = time.time()
        doomed.kill()
        wait(lambda: fleet.took_over(held, since=killed) is not None, "another agent is active", seconds=60)
        taken_over = (fleet.took_over(held, since=killed) or killed) - killed
        tell(f"another agent is active {taken_over:.1f} s after one was killed")
        records = group_records(cluster.bootstrap)
    waiting = {group: sizes for group, sizes in records.items() if group.startswith(f"{GROUP}-")}
    return {
        "machine": machine(),
        "agents": everybody,
        "apps": apps,
        "started_per_second": per_second,
        "inside": inside,
        "placed_seconds": round(started - begun, 1),
        "racks_known_seconds": round(known - begun, 1),
        "rest": {
            "seconds": round(seconds, 1),
            "requests_per_second": resting,
            "all_requests_per_second": round(sum(resting.values()), 1),
            "broker_cores": round(busy, 3),
            "elections": rest_elections,
        },
        "newcomers": {
            "agents": newcomers,
            "elections": newcomer_elections,
            "median_seconds": round(statistics.median(seen), 1),
            "all_known_seconds": round(seen[-1], 1),
        },
        "handed_over_seconds": round(handed_over, 2),
        "next_knows_all_seconds": round(next_known - stopped, 1),
        "taken_over_seconds": round(taken_over, 1),
        "election_bytes": max(records[GROUP]),
        "election_last_bytes": records[GROUP][-1],
        "waiting_bytes": max(max(sizes) for sizes in waiting.values()),
        "message_max_bytes": MESSAGE_MAX_BYTES,
    }


def wait_settled(fleet: Fleet) -> int:
    """Returns how many agents take part, once that number has been stable for five seconds."""
    inside, since = fleet.total("inside"), time.monotonic()
    while time.monotonic() - since < 5:
        time.sleep(0.5)
        now = fleet.total("inside")
        if now != inside:
            inside, since = now, time.monotonic()
    return inside + 1


def main(arguments: list[str]) -> int:
    """Measure and write the document; with a number of agents as argument, only print."""

    def tell(what: str) -> None:
        sys.stderr.write(f"{what}\n")

    if arguments:
        print(json.dumps(measure(agents=int(arguments[0]), tell=tell), indent=2))  # noqa: T201 - the requested output
        return 0
    DOCUMENT.write_text(json.dumps(measure(tell=tell), indent=2) + "\n", encoding="utf-8")
    return 0
