"""Measures the report of a large fleet over a month, from Delta tables to the page and all its tables as Parquet."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import compute, parquet
from pyarrow import json as arrow_json

from benchmarks.process_tree import run_watched
from samerack.pipeline.simulate import messages
from samerack.pipeline.simulate_cast import Fleet

GROUPS: Final = 5_000
DAYS: Final = 30
STEP_SECONDS: Final = 3_600
STATE_SECONDS: Final = 6 * 3_600
CORES: Final = 2
HEAP: Final = "4g"
AIM_SECONDS: Final = 90
_AT_ONCE: Final = 250_000
"""Records that are converted together."""
_TEXTS: Final = ("cluster", "group", "topic", "client_rack", "replica_rack", "method", "election")
_COUNTS: Final = ("window_start", "bytes", "records")
_SAMPLE: Final = pa.schema([*((name, pa.string()) for name in _TEXTS), *((name, pa.int64()) for name in _COUNTS)])


def measure(groups: int = GROUPS) -> dict[str, Any]:
    """Returns the seconds of each step of the report, its rows, processor time and peak memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = make(folder, groups)
        sys.stderr.write(f"made {made['samples']:,} samples and {made['states']:,} states\n")
        run_watched("benchmarks.pipeline_report", "load", name)
        run = run_watched("benchmarks.pipeline_report", "report", name)
    found = {
        "groups": groups,
        "days": DAYS,
        "cores": CORES,
        "heap": HEAP,
        "aim_seconds": AIM_SECONDS,
        **made,
        **run.lines[-1],
        "seconds": run.seconds,
        "cpu_seconds": run.cpu_seconds,
        "cpu_seconds_by_program": run.cpu_seconds_by_program,
        "peak_bytes": run.peak_bytes,
    }
    sys.stderr.write(f"report: {run.seconds:.0f} s, {run.cpu_seconds:.0f} s of processors\n")
    return found


def make(folder: Path, groups: int) -> dict[str, int]:
    """Write the fleet's samples as Parquet files in folders of their days, and its states as lines of JSON."""
    fleet = Fleet(groups=groups, clusters=4, days=DAYS, step_seconds=STEP_SECONDS, state_seconds=STATE_SECONDS)
    counts = {"sample": 0, "state": 0}
    with (folder / "states.jsonl").open("wb") as states:

        def samples() -> Iterator[bytes]:
            for message in messages(fleet):
                counts[message.kind] += 1
                if message.kind == "sample":
                    yield message.value
                else:
                    states.write(message.value + b"\n")

        left = samples()
        number = 0
        while lines := b"\n".join(islice(left, _AT_ONCE)):
            parquet.write_to_dataset(
                _rows(lines),
                folder / "traffic_by_minute",
                partition_cols=["day"],
                basename_template=f"{number}-{{i}}.parquet",
                existing_data_behavior="overwrite_or_ignore",
            )
            number += 1
    return {"samples": counts["sample"], "states": counts["state"]}


def _rows(lines: bytes) -> pa.Table:
    """Returns samples, one to a key and minute, as rows of `traffic_by_minute`."""
    options = arrow_json.ParseOptions(explicit_schema=_SAMPLE, unexpected_field_behavior="ignore")
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


def main(step: str, place: str) -> None:
    """Load the tables, or make the report; prints the seconds of each step as a line of JSON."""
    from samerack.common.settings.pipeline import PipelineSettings  # noqa: PLC0415 - the parent does without PySpark
    from samerack.pipeline import session  # noqa: PLC0415 - see above

    settings = PipelineSettings(
        master=f"local[{CORES}]", tables=place, late_days=36_500, conf={"spark.driver.memory": HEAP}
    )
    begun = time.perf_counter()
    with session.opened(settings, name="benchmark") as spark:
        if step == "load":
            _load(spark, settings)
        else:
            _report(spark, settings, begun)


def _load(spark: Any, settings: Any) -> None:
    """Make Delta tables of the files."""
    from delta.tables import DeltaTable  # noqa: PLC0415 - see above
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - the usual name; see above

    from samerack.pipeline import stream, tables  # noqa: PLC0415 - see above

    DeltaTable.convertToDelta(spark, f"parquet.`{tables.location(settings, 'traffic_by_minute')}`", "day DATE")
    tables.create(spark, settings)
    lines = spark.read.text(f"{settings.tables}/states.jsonl").select(
        F.lit(settings.states_topic).alias("topic"),
        F.lit(0).alias("partition"),
        F.monotonically_increasing_id().alias("offset"),
        F.col("value").cast("binary").alias("value"),
    )
    tables.append(stream.states(stream.parsed(lines, settings)), settings, "group_states")


def _report(spark: Any, settings: Any, begun: float) -> None:
    """Make the report as `samerack pipeline report --tables FOLDER --format parquet` does."""
    from samerack.common.money import shipped  # noqa: PLC0415 - see above
    from samerack.pipeline import tables  # noqa: PLC0415 - see above
    from samerack.pipeline.report import export, gather, page  # noqa: PLC0415 - see above

    folder = Path(settings.tables) / "report"
    steps = {"starting": begun}
    found = gather.Tables(
        **{
            name: tables.read(spark, settings, table)
            for name, table in (
                ("traffic", "traffic_by_minute"),
                ("states", "group_states"),
                ("quarantine", "quarantine"),
            )
        }
    )
    with gather.gathered(
        found,
        shipped("aws"),
        gather.Asked(max_days=DAYS),
        progress=lambda step: steps.update({step.split()[0]: time.perf_counter()}),
    ) as made:
        steps["writing"] = time.perf_counter()
        folder.mkdir(exist_ok=True)
        html = page.page(made.report)
        (folder / "report.html").write_text(html)
        export.write(made.frames, made.days, folder, "parquet")
    ends = [*list(steps.values())[1:], time.perf_counter()]
    took = {step: end - start for (step, start), end in zip(steps.items(), ends, strict=True)}
    if made.report.failed:
        raise SystemExit(f"{made.report.failed} groups could not be worked out: {made.report.failure}")
    result = {"steps": took, "report_groups": made.report.headline.groups, "page_bytes": len(html.encode())}
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
