"""Real streams of `samerack pipeline stream`, a small real Kafka for them, and what their tables must be.

The truth is computed here from the very messages, in plain Python: every good record counts once by its id, however
often and however late it came; a sample belongs to the minute in which its window begins; every malformed one is in
quarantine as it was.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pipeline.simulate import Kind, Message, messages
from pipeline.simulate_cast import Fleet
from pipeline.simulate_faults import Faults, with_faults
from pipeline.simulate_sinks import kafka
from sandbox.admin import Admin
from sandbox.cluster import Cluster
from sandbox.processes import spawn, tail, wait_for_line
from tests.spark.records import MINUTE, START

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPICS: Final[dict[Kind, str]] = {"sample": "samerack-traffic", "state": "samerack-states"}
KEY: Final = ("cluster", "group", "topic", "client_rack", "replica_rack", "method")
PARTITIONS: Final = 4
QUICK_JAVA: Final = {**os.environ, "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""An environment for processes that live for seconds: Java compiles quickly instead of well."""
_WAIT_SECONDS: Final = 120.0


@contextmanager
def topics_with(made: Iterable[Message]) -> Iterator[str]:
    """A broker whose topics hold the messages; gives its address."""
    with Cluster({1: "rack-a"}) as cluster:
        with Admin(cluster.bootstrap) as admin:
            for topic in TOPICS.values():
                admin.create_topic(topic, [[1]] * PARTITIONS)
        with kafka({"bootstrap.servers": cluster.bootstrap, "log_level": "0"}, TOPICS) as sink:
            for message in made:
                sink(message)
        yield cluster.bootstrap


def simulated(samples: int, *, faults: Faults) -> list[Message]:
    """So many good samples of a fleet and the states among them, with faults."""

    def until() -> Iterator[Message]:
        count = 0
        for message in messages(Fleet(groups=40, days=1.0, start=START)):
            if count == samples:
                return
            count += message.kind == "sample"
            yield message

    return list(with_faults(until(), faults))


@dataclass(slots=True)
class Truth:
    """What the tables must hold: sums by key and minute, ids of states, bytes of bad records."""

    traffic: dict[tuple[Any, ...], tuple[int, int, int]] = field(default_factory=dict)
    states: Counter[str] = field(default_factory=Counter)
    quarantine: Counter[bytes] = field(default_factory=Counter)


def truth(made: Iterable[Message]) -> Truth:
    """Computed from the messages without Spark."""
    result = Truth()
    seen: set[str] = set()
    for message in made:
        if message.fault not in {"", "late", "duplicate"}:
            result.quarantine[message.value] += 1
            continue
        record = json.loads(message.value)
        if record["id"] in seen:
            continue
        seen.add(record["id"])
        if message.kind == "state":
            result.states[record["id"]] += 1
            continue
        key = (*(record[name] for name in KEY), record["window_start"] // MINUTE)
        size, records, samples = result.traffic.get(key, (0, 0, 0))
        result.traffic[key] = (size + record["bytes"], records + record["records"], samples + 1)
    return result


def in_tables(spark: SparkSession, folder: Path) -> Truth:
    """What the tables hold; a key that has two rows fails."""
    result = Truth()
    for row in (
        spark.read.format("delta")
        .load(f"{folder}/traffic_by_minute")
        .selectExpr("*", "unix_millis(minute) div 60000 AS number", "to_date(minute) = day AS in_its_day")
        .toLocalIterator()
    ):
        key = (*(row[name] for name in KEY), row["number"])
        assert key not in result.traffic, f"{key} has two rows"
        assert row["in_its_day"], key
        result.traffic[key] = (row["bytes"], row["records"], row["samples"])
    for row in spark.read.format("delta").load(f"{folder}/group_states").select("id").collect():
        result.states[row["id"]] += 1
    places = set()
    for row in spark.read.format("delta").load(f"{folder}/quarantine").collect():
        result.quarantine[b"" if row["raw"] is None else bytes(row["raw"])] += 1
        places.add((row["topic"], row["partition"], row["offset"]))
    assert len(places) == sum(result.quarantine.values())
    return result


def arguments(bootstrap: str, folder: Path, *more: str, **settings: object) -> list[str]:
    """What follows `samerack pipeline` for a stream into tables of its own."""
    chosen = {"master": "local[2]", "tables": folder, **settings}
    sets = [part for key, value in chosen.items() for part in ("-s", f"pipeline.{key}={value}")]
    return ["stream", "-b", bootstrap, *sets, *more]


def command(*words: str) -> list[str]:
    """`samerack pipeline` as a process of its own."""
    return [str(Path(sys.executable).with_name("samerack")), "pipeline", *words]


class Stream:
    """A running stream; what it says goes to a file."""

    def __init__(self, words: Sequence[str], log: Path) -> None:
        """Start it."""
        self.log = log
        with log.open("wb") as out:
            # tables are in UTC, wherever the stream runs
            environment = {**QUICK_JAVA, "TZ": "Asia/Kathmandu"}
            self.process = spawn(command(*words), stdout=out, stderr=subprocess.STDOUT, env=environment)

    def wait_for(self, text: str) -> None:
        """Until it has said this."""
        wait_for_line(self.process, self.log, text, _WAIT_SECONDS)

    def kill(self, *, with_java: bool) -> None:
        """SIGKILL, to Python alone or to its Java too."""
        if with_java:
            os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """Wait for its end by itself."""
        return self.process.wait(_WAIT_SECONDS)

    def said(self) -> str:
        """The end of what it said."""
        return tail(self.log, 40)
