"""Writes the pipeline's figures as docs/benchmarks-pipeline.md, with a section for each measured part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from benchmarks import pipeline_report_page, pipeline_whatif_page, spark_stages

_OPENING: Final = """# Benchmarks of the fleet pipeline

Everything on one machine: Kafka, Spark and what feeds them share its cores.
"""
_STREAM: Final = """
## The stream

{records:,} records of a simulated fleet of {groups} groups, with {duplicates:.0%} sent twice, {late:.0%} late and
{malformed:.1%} malformed, in Kafka (one broker, {partitions} partitions a topic); Spark at `local[{cores}]` reads them
to the end in batches of {batch:,}. Aim: {aim:,} records/s *kept*. {verdict}

| way | records/s | first batch | all in all s | processor s | peak memory MB |
|---|--:|--:|--:|--:|--:|
{rows}

- *aggregated*: read, parsed, judged and added up by minute; nothing is remembered or written.
- *kept*: `samerack pipeline stream` as it is: each id remembered, traffic, states and quarantine in Delta.
- *records/s*: over all full batches but the first, in which Java compiles; *all in all*: with Spark's start and end.
- *memory*: Python and Java together, at most; Java's heap as Spark sets it (1 GB).

Where the processor time of *kept* goes:

| step | s |
|---|--:|
{steps}

- *read*: fetched from Kafka, parsed, judged, digested, and sent to the task that remembers the digest.
- *remember*: each digest looked up and stored in RocksDB, expired ones removed; the batch kept in memory.
- *write*: added up by minute, merged into `traffic_by_minute`, appended to the other tables, Delta's log.
- *the rest*: Java's compiler and collector, planning, the driver, Python.

Repeat it: `scripts/bench pipeline stream` (four minutes).

Measured on:

{machine}
"""
_STEPS: Final = {
    spark_stages.READING: "read",
    spark_stages.REMEMBERING: "remember",
    spark_stages.WRITING: "write",
}
_WAYS: Final = ("aggregated", "kept")


def page(results: Mapping[str, Any]) -> str:
    """Returns the page of the parts that were measured."""
    return _OPENING + "".join(write(results[part]) for part, write in SECTIONS.items() if part in results)


def _stream(found: Mapping[str, Any]) -> str:
    rows = [_row(way, found[way]) for way in _WAYS]
    machine = "\n".join(f"- {name}: {value}" for name, value in found["machine"].items())
    met = found["kept"]["records_per_second"] >= found["aim"]
    return _STREAM.format(
        **{
            **found,
            "verdict": "Met." if met else "Not met; what is left is in the second table.",
            "rows": "\n".join(rows),
            "steps": "\n".join(_steps(found["kept"])),
            "machine": machine,
        }
    )


def _steps(kept: Mapping[str, Any]) -> Iterator[str]:
    tasks = kept["task_seconds"]
    for step, words in _STEPS.items():
        yield f"| {words} | {tasks[step]:.0f} |"
    yield f"| the rest | {kept['cpu_seconds'] - sum(tasks.values()):.0f} |"


def _row(way: str, found: Mapping[str, Any]) -> str:
    cells = [
        way,
        f"{found['records_per_second']:,.0f}",
        f"{found['first_records_per_second']:,.0f}",
        f"{found['seconds']:.0f}",
        f"{found['cpu_seconds']:.0f}",
        f"{found['peak_bytes'] / 1e6:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


SECTIONS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "stream": _stream,
    "report": pipeline_report_page.section,
    "whatif": pipeline_whatif_page.section,
}
