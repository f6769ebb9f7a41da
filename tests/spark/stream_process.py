"""Real streams of `samerack pipeline stream`, their topics, and the expected content of their tables.

Plain Python computes the expected content from the messages: every good record counts once by its id, even if it is
repeated or late; a sample belongs to the minute in which its window begins; every malformed record is in quarantine,
unchanged.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Final

from lab.sandbox.admin import Admin
from lab.sandbox.processes import spawn, tail, wait_for_line
from samerack.pipeline.cli.simulate import kafka
from samerack.pipeline.simulate import Faults, Kind, Message, messages, with_faults
from samerack.pipeline.simulate_cast import Fleet
from samerack.settings.loading import load
from tests.records import MINUTE, START
from tests.spark.records import EVER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY: Final = ("cluster", "group", "topic", "client_rack", "replica_rack", "method")
PARTITIONS: Final = 4
_WAIT_SECONDS: Final = 400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The two topics of a test, and their broker."""

    bootstrap: str
    traffic: str
    states: str
    late_days: int = EVER

    def flags(self) -> dict[str, object]:
        """Settings of a stream that reads these topics, by their names in `pipeline`."""
        return {"traffic_topic": self.traffic, "states_topic": self.states, "late_days": self.late_days}


def filled(bootstrap: str, made: Iterable[Message]) -> Source:
    """New topics that contain the messages."""
    name = uuid.uuid4().hex[:12]
    source = Source(bootstrap=bootstrap, traffic=f"traffic-{name}", states=f"states-{name}")
    topics: dict[Kind, str] = {"sample": source.traffic, "state": source.states}
    with Admin(bootstrap) as admin:
        for topic in topics.values():
            admin.create_topic(topic, [[1]] * PARTITIONS)
    with kafka({"bootstrap.servers": bootstrap, "log_level": "0"}, topics) as sink:
        for message in made:
            sink(message)
    return source


def simulated(samples: int, *, faults: Faults) -> list[Message]:
    """This number of good samples of a fleet, and the states among them, with faults."""

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
    """The expected content of the tables: sums by key and minute, ids of states, bytes of bad records."""

    traffic: dict[tuple[Any, ...], tuple[int, int, int]] = field(default_factory=dict)
    states: Counter[str] = field(default_factory=Counter)
    quarantine: Counter[bytes] = field(default_factory=Counter)


def truth(made: Iterable[Message]) -> Truth:
    """Compute the expected content from the messages, without Spark."""
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
        key = (*(record[name] for name in KEY), record["election"], record["window_start"] // MINUTE)
        size, records, samples = result.traffic.get(key, (0, 0, 0))
        result.traffic[key] = (size + record["bytes"], records + record["records"], samples + 1)
    return result


def in_tables(spark: SparkSession, folder: Path) -> Truth:
    """The content of the tables; fails if a row is not in the folder of its day."""
    result = Truth()
    for row in (
        spark.read.format("delta")
        .load(f"{folder}/traffic_by_minute")
        .selectExpr("*", "unix_millis(minute) div 60000 AS number", "to_date(minute) = day AS in_its_day")
        .toLocalIterator()
    ):
        key = (*(row[name] for name in KEY), row["counted_by"], row["number"])
        assert row["in_its_day"], key
        size, records, samples = result.traffic.get(key, (0, 0, 0))
        result.traffic[key] = (size + row["bytes"], records + row["records"], samples + row["samples"])
    for row in spark.read.format("delta").load(f"{folder}/group_states").select("id").collect():
        result.states[row["id"]] += 1
    places = set()
    for row in spark.read.format("delta").load(f"{folder}/quarantine").collect():
        result.quarantine[b"" if row["raw"] is None else bytes(row["raw"])] += 1
        places.add((row["topic"], row["partition"], row["offset"]))
    assert len(places) == sum(result.quarantine.values())
    return result


def arguments(source: Source, folder: Path, *more: str, **settings: object) -> list[str]:
    """The arguments of `samerack pipeline` for a stream into its own tables."""
    chosen = {"master": "local[2]", "tables": folder, **source.flags(), **settings}
    sets = [part for key, value in chosen.items() for part in ("-s", f"pipeline.{key}={value}")]
    return ["stream", "-b", source.bootstrap, *sets, *more]


def read_to_the_end(spark: SparkSession, source: Source, place: Path | str, **more: str) -> None:
    """Run the stream as `--once` does, but in the session of the tests."""
    from samerack.pipeline import stream  # noqa: PLC0415 - PySpark is imported only when a test wants it

    flags = {
        "kafka": {"bootstrap.servers": source.bootstrap},
        "pipeline": {"tables": str(place), **source.flags(), **more},
    }
    settings = load(flags=flags, environment={})
    writer = stream.Writer(settings.pipeline)
    query = stream.start(spark, settings, writer, to_the_end=True)
    stream.follow(query, writer, Event(), lambda _: None)


COMMAND_SECONDS: Final = 300.0
"""How long a command may take on any machine: it starts Java."""


def command(*words: str, dying: bool = False) -> list[str]:
    """The command line of `samerack pipeline` in its own process; a dying one kills itself as `killed_stream` says."""
    program = Path(__file__).with_name("killed_stream.py") if dying else Path(sys.executable).with_name("samerack")
    return [sys.executable, str(program), "pipeline", *words]


class Stream:
    """A running stream with its output in a file."""

    def __init__(self, words: Sequence[str], log: Path, *, dying: bool = False) -> None:
        """Start it, or one that kills itself."""
        self.log = log
        with log.open("wb") as out:
            # tables are in UTC, wherever the stream runs
            environment = {**os.environ, "TZ": "Asia/Kathmandu"}
            self.process = spawn(command(*words, dying=dying), stdout=out, stderr=subprocess.STDOUT, env=environment)

    def wait_for(self, text: str) -> None:
        """Wait until the output contains the text."""
        wait_for_line(self.process, self.log, text, _WAIT_SECONDS)

    def kill(self, *, with_java: bool) -> None:
        """Send SIGKILL to Python alone, or to its Java too."""
        if with_java:
            os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """Wait for the end of the process; returns its exit code."""
        return self.process.wait(_WAIT_SECONDS)

    def output(self) -> str:
        """The last lines of the output."""
        return tail(self.log, 40)
