"""How exactly the agent measures: its byte counts beside the kernel's, on a real three-rack Kafka.

Groups read live while record sizes change, with every codec and replication 1 and 2, and from a compacted topic. The
truth is the kernel's count of bytes received on the sockets of each consumer's process, by broker. As a program
(`python -m lab.benchmarks.traffic CONFIGURATION TOPIC URL`) it is one of these consumers, until it is killed.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from typing import Any, Final

from confluent_kafka import Consumer, Producer
from starlette.applications import Starlette

from lab.benchmarks.shared import Found, Parts, measured_on, show_progress, table
from lab.sandbox.admin import Admin
from lab.sandbox.cluster import Cluster
from lab.sandbox.processes import end, spawn
from lab.sandbox.sockets import Sockets
from samerack.agent.web import api as web_api
from samerack.agent.web.server import WebServer
from samerack.settings.loading import load
from samerack.traffic.board import TrafficBoard
from samerack.traffic.metrics import TrafficMetrics
from samerack.traffic.snapshot import LowerBound
from samerack.traffic.watch import TrafficWatch

LIVE_SECONDS: Final = 60.0
_WARM_SECONDS: Final = 6.0
_POLL_SECONDS: Final = 5.0
_DRAIN_SECONDS: Final = 60.0
"""So long after a commit interval everything is read and committed, or the benchmark fails."""
_SIZES: Final = (100, 2000, 500, 5000, 200, 1000)
"""Value bytes in turn, ten seconds each."""
_BYTES_PER_SECOND: Final = 300_000
_RACKS: Final = {1: "rack-a", 2: "rack-b", 3: "rack-c"}
_CODECS: Final = ("none", "lz4", "zstd")
_PLACES: Final = {
    1: [[1], [2], [3], [1], [2], [3]],
    2: [[1, 3], [3, 1], [1, 3], [3, 1], [1, 3], [3, 1]],
}
"""With two replicas none is in the second consumer's rack, so that some reads cross racks."""
_METHODS: Final = ("truth", "estimated", "exact")


_TOPICS: Final = {
    **{f"{codec}-{replication}": (codec, replication) for codec in _CODECS for replication in (1, 2)},
    "lz4-2-compacted": ("lz4", 2),
}
"""Codec and replication of each topic, which is read by a group of its name with two consumers in two racks."""
_COMPACTED: Final = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}


class Feeder(threading.Thread):
    """Writes to all topics until `pause`; the sizes of values change with time."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="feeder", daemon=True)
        self.feeding = threading.Event()
        self._began = time.monotonic()
        common: dict[str, Any] = {"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 0}
        self._producers = {codec: Producer({**common, "compression.type": codec}) for codec in _CODECS}
        self._dice = random.Random(5)  # noqa: S311 - no secret
        self._text = b"".join(b"%x order placed by customer %d; " % (i * 7919, i * 31) for i in range(1000))

    def begin(self) -> None:
        """Start to write, with the first size."""
        self._began = time.monotonic()
        self.feeding.set()

    def run(self) -> None:
        """Write twenty rounds a second."""
        while True:
            self.feeding.wait()
            started = time.monotonic()
            size = _SIZES[int((started - self._began) / 10) % len(_SIZES)]
            for topic, (codec, _) in _TOPICS.items():
                producer = self._producers[codec]
                for _ in range(max(1, _BYTES_PER_SECOND // 20 // size)):
                    at = self._dice.randrange(len(self._text) - size) if size < len(self._text) else 0
                    key = b"%d" % self._dice.randrange(2000) if "compacted" in topic else None
                    producer.produce(topic, self._text[at : at + size], key=key, partition=self._dice.randrange(6))
                producer.poll(0)
            time.sleep(max(0.0, 0.05 - (time.monotonic() - started)))

    def pause(self) -> None:
        """Stop writing, and flushes all producers."""
        self.feeding.clear()
        time.sleep(0.1)
        for producer in self._producers.values():
            producer.flush(10)


class Bench:
    """Two measuring agents on one cluster: one estimates, one gets statistics from applications."""

    def __init__(self, cluster: Cluster) -> None:
        settings = load(
            flags={
                "kafka": {"bootstrap.servers": cluster.bootstrap},
                "groups": ["none"],
                "traffic": {"groups": ["*"], "rack": "rack-a"},
            },
            environment={},
        )
        self._boards = {"estimated": TrafficBoard(), "exact": TrafficBoard()}
        self.watches = {
            name: TrafficWatch(settings, board=board, metrics=TrafficMetrics.silent(), rack_aware=lambda: True)
            for name, board in self._boards.items()
        }
        routes = web_api.statistics_routes(self.watches["exact"].post)
        self.web = WebServer(Starlette(routes=routes), host="127.0.0.1", port=0)
        ports = {int(broker.address.rpartition(":")[2]): broker.id for broker in cluster.brokers.values()}
        self._sockets = Sockets(brokers=ports)

    def wait(self, seconds: float) -> None:
        """Measure as an agent does, every five seconds, and read the sockets every second."""
        until = time.monotonic() + seconds
        next_poll = time.monotonic() + _POLL_SECONDS
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(1.0, left))
            self._sockets.read()
            if time.monotonic() >= next_poll:
                next_poll += _POLL_SECONDS
                self.poll()

    def drain(self, commit_seconds: float) -> None:
        """Wait until every group has committed all that was written."""
        until = time.monotonic() + commit_seconds + _DRAIN_SECONDS
        self.poll()
        while not self._is_drained():
            if time.monotonic() > until:
                raise TimeoutError("the groups have not committed everything that was written")
            self.wait(_POLL_SECONDS - 1.0)
            self.poll()

    def _is_drained(self) -> bool:
        groups = {group.group: group.lag for group in self._boards["estimated"].latest().groups}
        return all(groups.get(topic, {}).get(topic) == LowerBound(value=0) for topic in _TOPICS)

    def poll(self) -> None:
        """Run one measurement of both agents."""
        for watch in self.watches.values():
            watch.poll()

    def counts(self, processes: Mapping[int, tuple[str, str]]) -> dict[tuple[str, str], int]:
        """Return bytes by group and method, those across racks apart; wait 1.5 s first for the statistics."""
        time.sleep(1.5)
        self._sockets.read()
        self.poll()
        parts = product(_TOPICS, (f"{method}{part}" for method in _METHODS for part in ("", "_cross")))
        found = dict.fromkeys(parts, 0)
        for (process, broker), count in self._sockets.received().items():
            if process in processes:
                group, rack = processes[process]
                found[group, "truth"] += count
                found[group, "truth_cross"] += count if _RACKS[broker] != rack else 0
        for method, board in self._boards.items():
            for key, volume in board.totals().items():
                found[key.group, method] += volume.wire_bytes
                found[key.group, f"{method}_cross"] += volume.wire_bytes if key.cross_rack else 0
        return found


@contextmanager
def _consumers(bootstrap: str, web: WebServer, commit_seconds: float) -> Iterator[dict[int, tuple[str, str]]]:
    """Run two consumers for each topic; yield process id to (group, rack)."""
    running: dict[int, tuple[str, str]] = {}
    processes = []
    try:
        for topic, rack in product(_TOPICS, ("rack-a", "rack-b")):
            configuration = {
                "bootstrap.servers": bootstrap,
                "group.id": topic,
                "client.id": f"{topic}-{rack}",
                "client.rack": rack,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": round(commit_seconds * 1000),
                "statistics.interval.ms": 1000,
                "log_level": 3,
            }
            url = f"http://{web.host}:{web.port}/v1/statistics?group={topic}"
            line = [sys.executable, "-m", "lab.benchmarks.traffic", json.dumps(configuration), topic, url]
            process = spawn(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            processes.append(process)
            running[process.pid] = (topic, rack)
        yield running
    finally:
        for process in processes:
            end(process, kill=True)


def accuracy() -> Found:
    """Count bytes of seven groups for a minute: the truth, the agent's estimate, and with applications' statistics."""
    return _counted(commit_seconds=5.0)


def minute() -> Found:
    """Count the same where the groups commit once a minute."""
    return _counted(commit_seconds=60.0)


def _counted(commit_seconds: float) -> Found:
    with Cluster(properties={"log.cleaner.backoff.ms": "1000"}) as cluster, Admin(cluster.bootstrap) as admin:
        for topic, (_, replication) in _TOPICS.items():
            admin.create_topic(topic, _PLACES[replication], config=_COMPACTED if "compacted" in topic else {})
        bench = Bench(cluster)
        bench.web.start()
        feeder = Feeder(cluster.bootstrap)
        feeder.start()
        with _consumers(cluster.bootstrap, bench.web, commit_seconds) as processes:
            bench.poll()
            readings = []
            for seconds in (_WARM_SECONDS, LIVE_SECONDS):
                show_progress(f"reading for {seconds:.0f} s")
                feeder.begin()
                bench.wait(seconds)
                feeder.pause()
                bench.drain(commit_seconds)
                readings.append(bench.counts(processes))
        bench.web.stop()
        for watch in bench.watches.values():
            watch.close()
    groups: dict[str, dict[str, int]] = {topic: {} for topic in _TOPICS}
    for (group, method), count in readings[1].items():
        groups[group][method] = count - readings[0][group, method]
    return {"seconds": LIVE_SECONDS, "groups": groups}


def _show(found: Found) -> str:
    rows = []
    for name, one in found["groups"].items():
        cells = [name]
        for part in ("", "_cross"):
            truth = one[f"truth{part}"]
            errors = (f"{one[f'{method}{part}'] / truth - 1:+.1%}" if truth else "-" for method in _METHODS[1:])
            cells += [f"{truth / 1e6:.2f}", *errors]
        rows.append(cells)
    head = "group (codec, replication)|MB|estimated|exact|across racks, MB|estimated|exact"
    return f"{table(head, rows)}\n\n{measured_on(found)}"


def _consume(configuration: dict[str, str | int], topic: str, url: str) -> None:
    """Read, commits and posts statistics until the process is killed."""

    def post(statistics: str) -> None:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(url, statistics.encode(), headers)  # noqa: S310 - the benchmark's own port
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - see above
                answer.read()
        except urllib.error.HTTPError as error:
            with error:  # probably not a member yet
                error.read()

    consumer = Consumer({**configuration, "stats_cb": post})
    consumer.subscribe([topic])
    while True:
        consumer.consume(500, 0.2)


PARTS: Final[Parts] = {"accuracy": (accuracy, _show), "minute": (minute, _show)}

if __name__ == "__main__":
    _consume(json.loads(sys.argv[1]), sys.argv[2], sys.argv[3])
