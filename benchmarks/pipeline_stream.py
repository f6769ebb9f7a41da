"""Measures the speed of the stream on a real Kafka: only aggregation, and with de-duplication and Delta."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Final

from benchmarks import spark_stages
from benchmarks.process_tree import run_watched
from samerack.common.settings import load
from samerack.pipeline.simulate import Kind, messages
from samerack.pipeline.simulate_cast import Fleet
from samerack.pipeline.simulate_faults import Faults, with_faults
from samerack.pipeline.simulate_sinks import kafka
from sandbox.admin import Admin
from sandbox.cluster import Cluster

RECORDS: Final = 2_000_000
BATCH: Final = 500_000
CORES: Final = 2
PARTITIONS: Final = 4
DUPLICATES: Final = 0.05
LATE: Final = 0.01
MALFORMED: Final = 0.005
AIM: Final = 50_000
"""Records a second that `kept` should take."""
_EVENTS: Final = "events"
_ALWAYS: Final = {"late_days": 36_500}
"""No record is too old, so that every run measures the same records."""
_TOPICS: Final[dict[Kind, str]] = {"sample": "samerack-traffic", "state": "samerack-states"}


def measure() -> dict[str, Any]:
    """Returns records per second and peak memory of both ways, from the same topics."""
    with Cluster({1: "rack-a"}) as cluster, tempfile.TemporaryDirectory() as folder:
        with Admin(cluster.bootstrap) as admin:
            for topic in _TOPICS.values():
                admin.create_topic(topic, [[1]] * PARTITIONS)
        made = _fill(cluster.bootstrap)
        results = {name: _run(name, cluster.bootstrap, Path(folder) / name) for name in ("aggregated", "kept")}
    return {
        "records": made,
        "groups": _fleet().groups,
        "duplicates": DUPLICATES,
        "late": LATE,
        "malformed": MALFORMED,
        "partitions": PARTITIONS,
        "batch": BATCH,
        "cores": CORES,
        "aim": AIM,
        **results,
    }


def _fleet() -> Fleet:
    return Fleet(groups=400, clusters=4, days=0.5)


def _fill(bootstrap: str) -> int:
    """Send the first RECORDS of the fleet to Kafka; returns their number."""
    faults = Faults(duplicates=DUPLICATES, late=LATE, malformed=MALFORMED)
    count = 0
    sys.stderr.write("filling topics ... ")
    with kafka({"bootstrap.servers": bootstrap, "compression.type": "lz4"}, _TOPICS) as sink:
        for message in with_faults(messages(_fleet()), faults):
            sink(message)
            count += 1
            if count == RECORDS:
                break
    sys.stderr.write(f"{count:,} records\n")
    return count


def _run(name: str, bootstrap: str, folder: Path) -> dict[str, Any]:
    """Measure one way in a separate process; the memory includes all of its child processes."""
    (folder / _EVENTS).mkdir(parents=True)
    run = run_watched("benchmarks.pipeline_stream", name, bootstrap, str(folder))
    batches = run.lines
    warm = batches[1:-1] or batches  # Java compiles during the first, and the last one is not full
    found = {
        "seconds": run.seconds,
        "cpu_seconds": run.cpu_seconds,
        "task_seconds": spark_stages.task_seconds(folder / _EVENTS),
        "records_per_second": sum(batch["records"] for batch in warm) / sum(batch["seconds"] for batch in warm),
        "first_records_per_second": batches[0]["records"] / batches[0]["seconds"],
        "batches": len(batches),
        "records": sum(batch["records"] for batch in batches),
        "peak_bytes": run.peak_bytes,
    }
    sys.stderr.write(f"{name}: {found['records_per_second']:,.0f} records/s, {run.peak_bytes / 2**20:,.0f} MiB\n")
    return found


def main(way: str, bootstrap: str, folder: str) -> None:
    """Read all records once in one way; prints one line of JSON for each batch."""
    from samerack.pipeline import session, stream_run  # noqa: PLC0415 - the parent process does without PySpark

    settings = load(
        flags={
            "kafka": {"bootstrap.servers": bootstrap},
            "pipeline": {
                "master": f"local[{CORES}]",
                "tables": folder,
                "batch_records": BATCH,
                "conf": spark_stages.conf(Path(folder) / _EVENTS),
                **_ALWAYS,
            },
        },
        environment={},
    )
    writer = stream_run.Writer(settings.pipeline)
    with session.opened(settings.pipeline, name="benchmark") as spark:
        begin = stream_run.start if way == "kept" else _added_up
        query = begin(spark, settings, writer, to_the_end=True)
        stream_run.follow(query, writer, threading.Event(), _show)


def _added_up(spark: Any, settings: Any, _writer: Any, *, to_the_end: bool) -> Any:
    """Start a query that reads, parses, checks and aggregates; no ids are remembered, no tables written."""
    from samerack.pipeline import stream_run  # noqa: PLC0415 - see above
    from samerack.pipeline.stream import by_minute, parsed  # noqa: PLC0415 - see above

    records = parsed(stream_run.source(spark, settings), settings.pipeline)
    sink = records.writeStream.foreachBatch(
        lambda batch, _: by_minute(batch).write.format("noop").mode("overwrite").save()
    )
    sink = sink.option("checkpointLocation", f"{settings.pipeline.tables}/_checkpoint")
    return sink.trigger(availableNow=to_the_end).start()


def _show(batch: Any) -> None:
    line = {"records": batch.records, "seconds": batch.seconds, "samples": batch.samples, "bad": batch.bad}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for argument in ("way", "bootstrap", "folder"):
        parser.add_argument(argument)
    main(**vars(parser.parse_args()))
