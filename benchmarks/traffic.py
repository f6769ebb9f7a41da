"""`scripts/bench traffic`: compares the agent's byte counts with the kernel's, on a real three-rack Kafka.

Groups read live while record sizes change, with every codec and replication 1 and 2, and from a compacted topic. The
truth is the kernel's count of bytes received on the sockets of each consumer's process, by broker.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Producer
from starlette.applications import Starlette

from samerack.agent.web import client_reports as traffic_web
from samerack.agent.web.server import WebServer
from samerack.common.settings import load
from samerack.traffic.board import TrafficBoard
from samerack.traffic.metrics import TrafficMetrics
from samerack.traffic.model import FlowKey
from samerack.traffic.watch import TrafficWatch
from sandbox.admin import Admin
from sandbox.cluster import Cluster
from sandbox.processes import end, spawn
from sandbox.sockets import Sockets

LIVE_SECONDS: Final = 60.0
_WARM_SECONDS: Final = 6.0
_DRAIN_SECONDS: Final = 8.0
"""Consumers commit every five seconds; after this time the last offset is committed."""
_SIZES: Final = (100, 2000, 500, 5000, 200, 1000)
"""Value bytes in turn, ten seconds each."""
_BYTES_PER_SECOND: Final = 300_000
_RACKS: Final = {1: "rack-a", 2: "rack-b", 3: "rack-c"}
_PLACES: Final = {
    1: [[1], [2], [3], [1], [2], [3]],
    2: [[1, 3], [3, 1], [1, 3], [3, 1], [1, 3], [3, 1]],
}
"""With two replicas none is in the second consumer's rack, so that some reads cross racks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One topic, read by one group of two consumers in two racks."""

    codec: str
    replication: int
    compacted: bool = False

    @property
    def name(self) -> str:
        """Name of the topic and the group."""
        return f"{self.codec}-{self.replication}{'-compacted' if self.compacted else ''}"


TOPICS: Final = (
    *(Topic(codec=codec, replication=replication) for codec in ("none", "lz4", "zstd") for replication in (1, 2)),
    Topic(codec="lz4", replication=2, compacted=True),
)


class Feeder(threading.Thread):
    """Writes to all topics until `pause`; the sizes of values change with time."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="feeder", daemon=True)
        self.feeding = threading.Event()
        self._began = time.monotonic()
        self._producers = {
            codec: Producer(
                {"bootstrap.servers": bootstrap, "linger.ms": 20, "compression.type": codec, "log_level": 0}
            )
            for codec in ("none", "lz4", "zstd")
        }
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
            for topic in TOPICS:
                producer = self._producers[topic.codec]
                for _ in range(max(1, _BYTES_PER_SECOND // 20 // size)):
                    at = self._dice.randrange(len(self._text) - size) if size < len(self._text) else 0
                    key = b"%d" % self._dice.randrange(2000) if topic.compacted else None
                    producer.produce(topic.name, self._text[at : at + size], key=key, partition=self._dice.randrange(6))
                producer.poll(0)
            time.sleep(max(0.0, 0.05 - (time.monotonic() - started)))

    def pause(self) -> None:
        """Stop writing, and flush all producers."""
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
        self.boards = {"estimated": TrafficBoard(), "exact": TrafficBoard()}
        self.watches = {
            name: TrafficWatch(settings, board=board, metrics=TrafficMetrics.silent(), rack_aware=lambda: True)
            for name, board in self.boards.items()
        }
        self.web = WebServer(
            Starlette(routes=list(traffic_web.routes(self.watches["exact"].post))), host="127.0.0.1", port=0
        )
        ports = {int(broker.address.rpartition(":")[2]): broker.id for broker in cluster.brokers.values()}
        self.sockets = Sockets(brokers=ports)
        self.cycles: list[float] = []

    def wait(self, seconds: float) -> None:
        """Measure as an agent does, every five seconds, and read the sockets every second."""
        until = time.monotonic() + seconds
        turn = 0
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(1.0, left))
            self.sockets.look()
            turn += 1
            if turn % 5 == 0:
                self.look()

    def look(self) -> None:
        """Run one measurement of both agents."""
        for watch in self.watches.values():
            self.cycles.append(watch.poll().cycle_seconds)

    def totals(self) -> dict[str, dict[FlowKey, int]]:
        """Returns the agents' byte counts, by board."""
        return {
            name: {key: volume.wire_bytes for key, volume in board.totals().items()}
            for name, board in self.boards.items()
        }


@contextmanager
def _consumers(bootstrap: str, web: WebServer) -> Iterator[dict[int, tuple[str, str]]]:
    """Runs two consumers for each topic; yields process id to (group, rack)."""
    running: dict[int, tuple[str, str]] = {}
    processes = []
    try:
        for topic in TOPICS:
            for rack in ("rack-a", "rack-b"):
                configuration = {
                    "bootstrap.servers": bootstrap,
                    "group.id": topic.name,
                    "client.id": f"{topic.name}-{rack}",
                    "client.rack": rack,
                    "auto.offset.reset": "earliest",
                    "statistics.interval.ms": 1000,
                    "log_level": 3,
                }
                url = f"http://{web.host}:{web.port}/v1/statistics?group={topic.name}"
                process = spawn(
                    [sys.executable, "-m", "benchmarks.traffic_member", json.dumps(configuration), topic.name, url],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                processes.append(process)
                running[process.pid] = (topic.name, rack)
        yield running
    finally:
        for process in processes:
            end(process, kill=True)


def measure(seconds: float = LIVE_SECONDS) -> dict[str, Any]:
    """Runs one live measurement; returns bytes by group: truth, estimate, exact, each in total and across racks."""
    _tell("starting three brokers")
    with Cluster(properties={"log.cleaner.backoff.ms": "1000"}) as cluster, Admin(cluster.bootstrap) as admin:
        for topic in TOPICS:
            config = {
                "cleanup.policy": "compact",
                "segment.bytes": "1048576",
                "min.cleanable.dirty.ratio": "0.01",
            }
            admin.create_topic(topic.name, _PLACES[topic.replication], config=config if topic.compacted else {})
        bench = Bench(cluster)
        bench.web.start()
        feeder = Feeder(cluster.bootstrap)
        feeder.start()
        with _consumers(cluster.bootstrap, bench.web) as processes:
            _tell(f"{len(TOPICS)} groups begin to read")
            bench.look()
            feeder.begin()
            bench.wait(_WARM_SECONDS)
            feeder.pause()
            bench.wait(_DRAIN_SECONDS)
            before = _reading(bench)
            _tell(f"measuring for {seconds:.0f} s")
            feeder.begin()
            bench.wait(seconds)
            feeder.pause()
            bench.wait(_DRAIN_SECONDS)
            after = _reading(bench)
        bench.web.stop()
        for watch in bench.watches.values():
            watch.close()
    return {
        "seconds": seconds,
        "groups": _compared(before, after, processes),
        "cycle_seconds": round(sum(bench.cycles) / len(bench.cycles), 3),
    }


def _tell(text: str) -> None:
    sys.stderr.write(f"traffic: {text} ...\n")


def _reading(bench: Bench) -> tuple[dict[tuple[int, int], int], dict[str, dict[FlowKey, int]]]:
    """Returns the counts of kernel and agents; waits 1.5 s first, as statistics come every second."""
    time.sleep(1.5)
    bench.sockets.look()
    bench.look()
    return bench.sockets.received(), bench.totals()


def _compared(before: Any, after: Any, processes: Mapping[int, tuple[str, str]]) -> dict[str, dict[str, int]]:
    groups: dict[str, dict[str, int]] = {
        topic.name: dict.fromkeys(("truth", "truth_cross", "estimated", "estimated_cross", "exact", "exact_cross"), 0)
        for topic in TOPICS
    }
    for (process, broker), count in after[0].items():
        if process in processes:
            group, rack = processes[process]
            grown = count - before[0].get((process, broker), 0)
            groups[group]["truth"] += grown
            groups[group]["truth_cross"] += grown if _RACKS[broker] != rack else 0
    for board in ("estimated", "exact"):
        for key, count in after[1][board].items():
            grown = count - before[1][board].get(key, 0)
            groups[key.group][board] += grown
            groups[key.group][f"{board}_cross"] += grown if key.cross_rack else 0
    return groups
