"""Writes the pipeline's figures as docs/benchmarks-pipeline.md, with a section for each measured part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from benchmarks import pipeline_report_page, pipeline_whatif_page, spark_stages
from benchmarks.machine import listed

_OPENING: Final = """# Benchmarks of the fleet pipeline

Kafka, Spark and what feeds them share the cores of one machine: {machine}.
"""
_STREAM: Final = """
## The stream

{records:,} records of {groups} simulated groups, with {duplicates:.0%} sent twice, {late:.0%} late and
{malformed:.1%} malformed (one broker, {partitions} partitions a topic), at `local[{cores}]` in batches of {batch:,}.
Aim: {aim:,} records/s *kept*. {verdict}

| way | records/s | first batch | all in all s | processor s | peak memory MB |
|---|--:|--:|--:|--:|--:|
{rows}

*aggregated*: read, judged and added up. *kept*: `samerack pipeline stream` as it is, with each id remembered and all
tables written. Processor seconds of *kept*: {steps}. Repeat it: `scripts/bench pipeline stream`.
"""
_STEPS: Final = {
    spark_stages.READING: "read",
    spark_stages.REMEMBERING: "remember",
    spark_stages.WRITING: "write",
}
_WAYS: Final = ("aggregated", "kept")


def page(results: Mapping[str, Any]) -> str:
    """Returns the page of the parts that were measured."""
    machine = next(iter(results.values()))["machine"]
    return _OPENING.format(machine=listed(machine)) + "".join(
        write(results[part]) for part, write in SECTIONS.items() if part in results
    )


def _stream(found: Mapping[str, Any]) -> str:
    rows = [_row(way, found[way]) for way in _WAYS]
    met = found["kept"]["records_per_second"] >= found["aim"]
    return _STREAM.format(
        **{
            **found,
            "verdict": "Met." if met else "Not met.",
            "rows": "\n".join(rows),
            "steps": ", ".join(_steps(found["kept"])),
        }
    )


def _steps(kept: Mapping[str, Any]) -> Iterator[str]:
    tasks = kept["task_seconds"]
    for step, words in _STEPS.items():
        yield f"{words} {tasks[step]:.0f}"
    yield f"the rest {kept['cpu_seconds'] - sum(tasks.values()):.0f}"


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
