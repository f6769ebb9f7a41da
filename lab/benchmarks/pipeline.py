"""How fast the fleet pipeline is on Spark: the stream from a real Kafka, reports of a month and of a year, and what-if.

Each runs as a program of its own (`python -m lab.benchmarks.pipeline STEP ARGUMENT...`), whose processes are watched
from outside; `scripts/setup --pipeline` has fetched what it needs. Modules with PySpark are imported in that program
only.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, Final

import psutil

from lab.benchmarks.shared import Found, Parts, measured_on, show_progress, table
from lab.sandbox.admin import Admin
from lab.sandbox.cluster import Cluster
from samerack.common.money import shipped
from samerack.pipeline.cli.simulate import kafka
from samerack.pipeline.simulate import Faults, Kind, messages, with_faults
from samerack.pipeline.simulate_cast import Fleet
from samerack.settings.loading import load
from samerack.settings.pipeline import PipelineSettings

MASTER: Final = "local[2]"
HEAP: Final = "4g"
RECORDS: Final = 2_000_000
RECORDS_PER_SECOND: Final = 80_000
"""The aim for the stream, with everything that `samerack pipeline stream` does."""
GROUPS: Final = 5_000
DAYS: Final = 30
REPORT_SECONDS: Final = 90
"""The aim for the report."""
YEAR_GROUPS: Final = 300
YEAR_DAYS: Final = 365
MINUTE_DAYS: Final = 7
"""The last days of the year, which have rows of minutes and not of hours; two of them are not added up."""
YEAR_SECONDS: Final[Mapping[str, int]] = {"a year": 15, "7 days": 5, "what-if": 15}
"""The aims once Spark has started."""
_BATCH: Final = 500_000
BATCHES: Final = 1_000
_SMALL_BATCH: Final = 100
_COUNTED: Final = ("traffic_by_minute", "group_states", "quarantine")
_TOPICS: Final[dict[Kind, str]] = {"sample": "samerack-traffic", "state": "samerack-states"}
_FAULTS: Final = Faults(duplicates=0.05, late=0.01, malformed=0.005)
_NEVER_LATE: Final = 36_500
"""Days: no record is too old, so that every run measures the same records."""
_AT_ONCE: Final = 250_000
"""Records that are converted together."""
_TEXTS: Final = ("cluster", "group", "topic", "client_rack", "replica_rack", "method", "election")
_COUNTS: Final = ("window_start", "bytes", "records")


def _watched(*arguments: str) -> tuple[list[Found], Found]:
    """Return the lines of JSON that a step prints, and its time and highest memory with all of its children."""
    begun, peak, processor = time.perf_counter(), 0, dict[int, float]()
    process = subprocess.Popen(  # noqa: S603 - this module
        [sys.executable, "-m", "lab.benchmarks.pipeline", *arguments], stdout=subprocess.PIPE, text=True
    )
    over = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not over.wait(0.1):
            now = 0
            with contextlib.suppress(psutil.NoSuchProcess):
                mine = psutil.Process(process.pid)
                for one in (mine, *mine.children(recursive=True)):
                    with contextlib.suppress(psutil.NoSuchProcess):  # each may end, or be a zombie, at any time
                        now += 0 if _is_fork_of_java(one) else one.memory_info().rss
                        processor[one.pid] = sum(one.cpu_times()[:2])
            peak = max(peak, now)

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    output, _ = process.communicate()
    seconds = time.perf_counter() - begun
    over.set()
    watching.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)}: ended with {process.returncode}")
    used = {"seconds": seconds, "cpu_seconds": sum(processor.values()), "peak_bytes": peak}
    show_progress(f"{arguments[0]}: {used}")
    return [json.loads(line) for line in output.splitlines()], used


def _is_fork_of_java(process: psutil.Process) -> bool:
    """Return whether Java has just forked the process, for a command to come: its memory is Java's own."""
    parent = process.parent()
    return Path(process.exe()).name == "java" and parent is not None and parent.exe() == process.exe()


def stream() -> Found:
    """Measure `samerack pipeline stream`, with all tables written, from topics with duplicates and without."""
    rows: list[Found] = []
    with Cluster({1: "rack-a"}) as cluster:
        for name, faults in (("5%", _FAULTS), ("none", replace(_FAULTS, duplicates=0.0))):
            topics = {kind: f"{topic}-{len(rows)}" for kind, topic in _TOPICS.items()}
            _fill(cluster, topics, RECORDS, faults)
            with tempfile.TemporaryDirectory() as folder:
                batches, used = _watched("stream", cluster.bootstrap, *topics.values(), folder, str(_BATCH))
                state = _size(Path(folder) / "_checkpoint" / "state")
            warm = batches[1:-1] or batches  # Java compiles during the first, and the last one is not full
            rows.append(
                {
                    "duplicates": name,
                    "records": sum(batch["records"] for batch in batches),
                    "records_per_second": _speed(warm),
                    "first_records_per_second": _speed(batches[:1]),
                    "state_bytes": state,
                    **used,
                }
            )
    return {"rows": rows}


def files() -> Found:
    """Count the files of the tables after many small batches, and after maintenance."""
    with Cluster({1: "rack-a"}) as cluster, tempfile.TemporaryDirectory() as folder:
        _fill(cluster, _TOPICS, BATCHES * _SMALL_BATCH, _FAULTS)
        batches, used = _watched("stream", cluster.bootstrap, *_TOPICS.values(), folder, str(_SMALL_BATCH))
        place = Path(folder)
        bytes_ = {"tables": sum(_size(place / name) for name in _COUNTED), "checkpoint": _size(place / "_checkpoint")}
        lines, _ = _watched("maintain", folder)
    tenth = max(1, len(batches) // 10)
    speeds = {"first": batches[1 : 1 + tenth], "last": batches[-tenth:]}
    seconds = {name: sum(one["seconds"] for one in some) / len(some) for name, some in speeds.items()}
    return {"batches": len(batches), "batch_seconds": seconds, "bytes": bytes_, "files": lines[-1]["files"], **used}


def _fill(cluster: Cluster, topics: Mapping[Kind, str], count: int, faults: Faults) -> None:
    """Fill new topics with this number of records of a fleet."""
    with Admin(cluster.bootstrap) as admin:
        for topic in topics.values():
            admin.create_topic(topic, [[1]] * 4)
    with kafka({"bootstrap.servers": cluster.bootstrap, "compression.type": "lz4"}, topics) as sink:
        for message in islice(with_faults(messages(Fleet(groups=400, clusters=4, days=0.5)), faults), count):
            sink(message)
    show_progress("the topics are full")


def _speed(batches: Sequence[Found]) -> float:
    """Return records per second."""
    records, seconds = (sum(float(batch[name]) for batch in batches) for name in ("records", "seconds"))
    return records / seconds


def _size(folder: Path) -> int:
    """Return the size of all files, in bytes."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _stream(bootstrap: str, traffic: str, states: str, folder: str, records: str) -> None:
    """Read all records once, and print a line for each batch."""
    from samerack.pipeline import session, stream  # noqa: PLC0415 - see the module

    pipeline = {
        "master": MASTER,
        "tables": folder,
        "traffic_topic": traffic,
        "states_topic": states,
        "batch_records": int(records),
        "late_days": _NEVER_LATE,
    }
    settings = load(flags={"kafka": {"bootstrap.servers": bootstrap}, "pipeline": pipeline}, environment={})
    writer = stream.Writer(settings.pipeline)
    with session.opened(settings.pipeline, name="benchmark") as spark:
        query = stream.start(spark, settings, writer, to_the_end=True)
        stream.follow(
            query,
            writer,
            threading.Event(),
            lambda batch: _print({"records": batch.records, "seconds": batch.seconds}),
        )


def report() -> Found:
    """Measure the report of a large fleet over a month, from Delta tables to the page and its tables as Parquet."""
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(groups=GROUPS, clusters=4, days=DAYS, step_seconds=3_600, state_seconds=6 * 3_600)
        samples, states = _make(Path(folder), fleet)
        show_progress(f"made {samples:,} samples and {states:,} states")
        _watched("load", folder)
        lines, used = _watched("report", folder, str(DAYS))
    return {"groups": GROUPS, "days": DAYS, "samples": samples, "states": states, **lines[-1], **used}


def year() -> Found:
    """Measure maintenance, reports and the what-if of a year in hours, and with its last days in minutes."""
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(groups=YEAR_GROUPS, clusters=4, days=YEAR_DAYS, step_seconds=3_600, state_seconds=6 * 3_600)
        samples, states = _make(Path(folder), fleet)
        _watched("load", folder)
        found: list[Found] = []
        for grain in ("hours", "minutes"):
            if grain == "minutes":
                _watched("minutes", folder)
            before = [_timed("a year, not added up", "report", folder, str(YEAR_DAYS))] if grain == "hours" else []
            steps = [
                *before,
                _timed("maintenance", "maintain", folder),
                _timed("a year", "report", folder, str(YEAR_DAYS)),
                _timed("7 days", "report", folder, "7"),
            ]
            found += [{"grain": grain, **step} for step in steps]
        found.append({"grain": "", **_timed("what-if", "whatif", folder)})
    return {"groups": YEAR_GROUPS, "days": YEAR_DAYS, "samples": samples, "states": states, "steps": found}


def _timed(name: str, *arguments: str) -> Found:
    lines, used = _watched(*arguments)
    return {"name": name, **lines[-1], **used}


def _make(folder: Path, fleet: Fleet) -> tuple[int, int]:
    """Write the fleet's samples as Parquet files in folders of their days, and its states as lines of JSON."""
    from pyarrow import parquet  # noqa: PLC0415 - see the module

    counts = {"sample": 0, "state": 0}
    with (folder / "states.jsonl").open("wb") as states:

        def samples() -> Iterator[bytes]:
            for message in messages(fleet):
                counts[message.kind] += 1
                if message.kind == "sample":
                    yield message.value
                else:
                    states.write(message.value + b"\n")

        left, number = samples(), 0
        while lines := b"\n".join(islice(left, _AT_ONCE)):
            parquet.write_to_dataset(
                _rows(lines),
                folder / "traffic_by_minute",
                partition_cols=["day"],
                basename_template=f"{number}-{{i}}.parquet",
                existing_data_behavior="overwrite_or_ignore",
            )
            number += 1
    return counts["sample"], counts["state"]


def _rows(lines: bytes) -> Any:
    """Return samples, one to a key and minute, as rows of `traffic_by_minute`."""
    import pyarrow as pa  # noqa: PLC0415 - see the module
    from pyarrow import compute  # noqa: PLC0415 - see the module
    from pyarrow import json as arrow_json  # noqa: PLC0415 - see the module

    schema = pa.schema([*((name, pa.string()) for name in _TEXTS), *((name, pa.int64()) for name in _COUNTS)])
    options = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    read = arrow_json.read_json(BytesIO(lines), parse_options=options)
    minute = read["window_start"].cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))
    columns = {
        **{name: read[name] for name in _TEXTS[:-1]},
        "counted_by": read["election"],
        "minute": minute,
        "bytes": read["bytes"],
        "records": read["records"],
        "samples": pa.array([1] * len(read), pa.int64()),
        "day": compute.strftime(minute, format="%Y-%m-%d"),
    }
    return pa.table(columns)


def _settings(folder: str) -> PipelineSettings:
    return PipelineSettings(master=MASTER, tables=folder, late_days=_NEVER_LATE, conf={"spark.driver.memory": HEAP})


def _load(folder: str) -> None:
    """Make Delta tables of the files."""
    from delta.tables import DeltaTable  # noqa: PLC0415 - see the module
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - the usual name; see the module

    from samerack.pipeline import parsing, session, tables  # noqa: PLC0415 - see the module

    settings = _settings(folder)
    with session.opened(settings, name="benchmark") as spark:
        place = tables.location(settings, "traffic_by_minute")
        DeltaTable.convertToDelta(spark, f"parquet.`{place}`", "day DATE")
        tables.create(spark, settings)
        lines = spark.read.text(f"{folder}/states.jsonl").select(
            F.lit(settings.states_topic).alias("topic"),
            F.lit(0).alias("partition"),
            F.monotonically_increasing_id().alias("offset"),
            F.col("value").cast("binary").alias("value"),
        )
        tables.append(parsing.states(parsing.parsed(lines, settings)), settings, "group_states")


def _minutes(folder: str) -> None:
    """Put sixty rows in the place of each on the last days."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - the usual name; see the module

    from samerack.pipeline import session, tables  # noqa: PLC0415 - see the module

    settings = _settings(folder)
    with session.opened(settings, name="benchmark") as spark:
        hours = tables.read_now(spark, settings, "traffic_by_minute")
        newest: date = hours.agg(F.max("day")).collect()[0][0]
        days = [newest - timedelta(days=back) for back in range(MINUTE_DAYS)]
        of_hour = F.explode(
            F.sequence("minute", F.col("minute") + F.expr("INTERVAL 59 MINUTES"), F.expr("INTERVAL 1 MINUTE"))
        )
        parts = {name: F.floor(F.col(name) / 60).cast("long") for name in ("bytes", "records")}
        rows = hours.where(F.col("day").isin(days)).withColumn("minute", of_hour).withColumns(parts)
        tables.replace(rows, settings, "traffic_by_minute", days=days)


def _maintain(folder: str) -> None:
    """Maintain the tables as on the day before the last."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - the usual name; see the module

    from samerack.pipeline import maintenance, session, tables  # noqa: PLC0415 - see the module

    settings = _settings(folder)
    with session.opened(settings, name="benchmark") as spark:
        newest: date = tables.read(spark, settings, "traffic_by_minute").agg(F.max("day")).collect()[0][0]
        begun = time.perf_counter()
        done = maintenance.maintain(spark, settings, today=newest - timedelta(days=1), progress=show_progress)
        after_start = time.perf_counter() - begun
        _print({"after_start": after_start, "files": {one.table: [one.files_before, one.files_after] for one in done}})


def _report(folder: str, count: str) -> None:
    """Make the report of this number of days as `samerack pipeline report` does; of a month with all of its files."""
    from samerack.pipeline import session  # noqa: PLC0415 - see the module
    from samerack.pipeline.report import gather, page  # noqa: PLC0415 - see the module

    settings, place = _settings(folder), Path(folder) / "report"
    steps = {"starting": time.perf_counter()}
    with session.opened(settings, name="benchmark", is_short=True) as spark:
        begun = time.perf_counter()
        found = gather.opened(spark, settings)
        with gather.gathered(
            found,
            shipped("aws"),
            gather.Asked(max_days=int(count)),
            progress=lambda step: steps.update({step.split()[0]: time.perf_counter()}),
        ) as made:
            steps["writing"] = time.perf_counter()
            place.mkdir(exist_ok=True)
            (place / "report.html").write_text(page.page(made.report))
            if int(count) == DAYS:
                page.write_tables(made.frames, made.days, place, "parquet")
        after_start = time.perf_counter() - begun
        if made.report.failed:
            raise SystemExit(f"{made.report.failed} groups could not be worked out: {made.report.failure}")
    ends = [*list(steps.values())[1:], time.perf_counter()]
    taken = {step: end - start for (step, start), end in zip(steps.items(), ends, strict=True)}
    _print({"steps": taken, "after_start": after_start})


def _whatif(folder: str) -> None:
    """Work out every scenario of every group, as `samerack pipeline whatif` does."""
    from samerack.pipeline import session, tables, whatif  # noqa: PLC0415 - see the module
    from samerack.pipeline.whatif_group import Questions  # noqa: PLC0415 - see the module

    settings = _settings(folder)
    with session.opened(settings, name="benchmark", is_short=True) as spark:
        begun = time.perf_counter()
        states = whatif.states_in_table(tables.read(spark, settings, "group_states"))
        chosen, _ = whatif.chosen(whatif.latest(states).persist())
        whatif.ranked(whatif.changes(whatif.ask(chosen, Questions(), shipped("aws")))).collect()
        _print({"after_start": time.perf_counter() - begun})


def _print(found: Found) -> None:
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


def _used(found: Found) -> tuple[str, str, str]:
    """Return the cells of what `_watched` has seen."""
    return f"{found['seconds']:.0f}", f"{found['cpu_seconds']:.0f}", f"{found['peak_bytes'] / 1e6:,.0f}"


_USED: Final = "all in all s|processor s|peak memory MB"


def _show_stream(found: Found) -> str:
    rows = [
        (
            f"{row['records']:,}",
            row["duplicates"],
            *(f"{row[name]:,.0f}" for name in ("records_per_second", "first_records_per_second")),
            f"{RECORDS_PER_SECOND:,}",
            f"{row['state_bytes'] / 1e6:.0f}",
            *_used(row),
        )
        for row in found["rows"]
    ]
    heads = f"records|sent twice|records/s|first batch|aim|state store MB|{_USED}"
    return f"{table(heads, rows)}\n\n{measured_on(found)}"


def _show_files(found: Found) -> str:
    rows = [(name, *found["files"][name]) for name in _COUNTED]
    seconds, bytes_ = (found[name] for name in ("batch_seconds", "bytes"))
    about = (
        f"Of {found['batches']:,} batches, the first tenth took {seconds['first']:.1f} s each, the last "
        f"{seconds['last']:.1f}. Tables have {bytes_['tables'] / 1e6:.0f} MB then, the checkpoint "
        f"{bytes_['checkpoint'] / 1e6:.0f}."
    )
    return f"{table('table|files|after maintenance', rows)}\n\n{about}\n{measured_on(found)}"


def _show_report(found: Found) -> str:
    rows = (f"{found[name]:,}" for name in ("samples", "states"))
    steps = ", ".join(f"{step} {seconds:.0f}" for step, seconds in found["steps"].items())
    row = (*rows, *_used(found), REPORT_SECONDS)
    text = table(f"rows of traffic|states|{_USED}|aim s", [row])
    return f"{text}\n\nSeconds: {steps}.\n{measured_on(found)}"


def _show_year(found: Found) -> str:
    rows = [
        (step["name"], step["grain"], f"{step['after_start']:.0f}", YEAR_SECONDS.get(step["name"], ""), *_used(step))
        for step in found["steps"]
    ]
    about = f"{found['samples']:,} rows of hours, {found['states']:,} states."
    return f"{table(f'what|rows of|after the start s|aim|{_USED}', rows)}\n\n{about}\n{measured_on(found)}"


PARTS: Final[Parts] = {
    "stream": (stream, _show_stream),
    "files": (files, _show_files),
    "report": (report, _show_report),
    "year": (year, _show_year),
}

_STEPS: Final[Mapping[str, Callable[..., None]]] = {
    "stream": _stream,
    "load": _load,
    "minutes": _minutes,
    "maintain": _maintain,
    "report": _report,
    "whatif": _whatif,
}

if __name__ == "__main__":
    _STEPS[sys.argv[1]](*sys.argv[2:])
