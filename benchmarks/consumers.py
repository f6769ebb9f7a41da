"""`scripts/bench consumers`: measures our assignor, Kafka's Java and franz-go on groups of Kafka's grid.

All three get the same group in one run. Writes docs/benchmarks-consumers.json, .md and .svg.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.consumers_page import page, plot
from benchmarks.grid import FRANZ, GREATEST, Cell, Group, grid, make
from benchmarks.report import machine
from benchmarks.rivals import FRANZ_VERSION, Answer, Franz, ask_java, owners
from samerack.assignors.consumer.registry import ASSIGNORS, DEFAULTS
from samerack.assignors.evaluate import evaluate
from samerack.assignors.model import NOBODY
from samerack.protocol.consumer import encode_assignments

if TYPE_CHECKING:
    from collections.abc import Iterable

DOCS: Final = Path(__file__).parents[1] / "docs"
JAVA_SECONDS: Final = 20.0
FRANZ_SECONDS: Final = 60.0
LARGE: Final = 200_000
"""From this number of partitions on a group is run three times instead of nine."""


def main() -> int:
    """Measure all groups and write the three documents."""
    with Franz() as franz:
        own = franz.own_benchmark()
        given_up: set[str] = set()
        cells = [_measure(cell, franz, given_up) for cell in _in_order((*grid(), *FRANZ, *GREATEST))]
    results = {
        "machine": machine(),
        "franz_version": FRANZ_VERSION,
        "franz_own": own,
        "java_seconds": JAVA_SECONDS,
        "cells": cells,
    }
    (DOCS / "benchmarks-consumers.json").write_text(json.dumps(results, indent=1) + "\n")
    (DOCS / "benchmarks-consumers.md").write_text(page(results))
    (DOCS / "benchmarks-consumers.svg").write_text(plot(results))
    return 0


def _in_order(cells: Iterable[Cell]) -> list[Cell]:
    """Returns the cells, smallest first: once Java takes too long, it gets no larger group of the same kind."""
    return sorted(dict.fromkeys(cells), key=lambda cell: (cell.total, cell.members))


def _measure(cell: Cell, franz: Franz, given_up: set[str]) -> dict[str, Any]:
    group = make(cell)
    runs = 3 if cell.total >= LARGE else 9
    measured = asdict(cell) | {"total": cell.total, "ours": _ours(group, runs)}
    problem = group.problem()
    question = group.question(runs)
    kind = "equal" if cell.subscriptions == "equal" else "unequal"
    java = None if kind in given_up else ask_java(question, seconds=JAVA_SECONDS + cell.total / 1e5)
    if java is None:
        given_up.add(kind)
    for name, answer in (("java", java), ("franz", franz.ask(question, seconds=FRANZ_SECONDS))):
        measured[name] = None if answer is None else _theirs(problem, answer)
    sys.stderr.write(f"{cell}: {[(n, (measured[n] or {}).get('seconds')) for n in ('ours', 'java', 'franz')]}\n")
    return measured


def _ours(group: Group, runs: int) -> dict[str, Any]:
    """Returns our medians over the later half of the runs, as for the others: build of arrays, plan, encoding."""
    stages: dict[str, list[float]] = {"build": [], "seconds": [], "encode": []}
    for _ in range(runs):
        start = time.perf_counter()
        problem = group.problem()
        built = time.perf_counter()
        owner = ASSIGNORS["cooperative-sticky"].assign(problem, DEFAULTS)
        assigned = time.perf_counter()
        encode_assignments(
            topics=problem.topics,
            topic_of=problem.topic_of,
            number_of=problem.number_of,
            owner=owner,
            members=len(problem.members),
        )
        for name, took in zip(stages, (built - start, assigned - built, time.perf_counter() - assigned), strict=True):
            stages[name].append(took)
    return {name: statistics.median(took[runs // 2 :]) for name, took in stages.items()} | {
        "cost": asdict(evaluate(problem, owner))
    }


def _theirs(problem: Any, answer: Answer) -> dict[str, Any]:
    """Returns a rival's time, and the cost of its plan unless the plan withholds partitions for a round."""
    owner = owners(problem, answer)
    whole = not (owner == NOBODY).any()
    return {"seconds": answer["nanos"] / 1e9, "cost": asdict(evaluate(problem, owner)) if whole else None}
