"""Measures one scenario in this process: seconds of each stage, and memory with the problem and at the peak."""

from __future__ import annotations

import re
import resource
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from samerack.assignors.evaluate import evaluate
from samerack.protocol.consumer import encode_assignments

if TYPE_CHECKING:
    from benchmarks.scenarios import Scenario

RUNS: Final = 9
STATUS: Final = Path("/proc/self/status")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Medians of several runs, after a first one that is not counted.

    Attributes:
        assign_seconds: From the problem's arrays to the owner of every partition.
        encode_seconds: From there to the bytes of every member's assignment.
        total_seconds: Both together.
        fastest_seconds: The lowest total.
        problem_bytes: Resident memory with the problem built and everything imported.
        peak_bytes: Highest resident memory while assigning and encoding.
        encoded_bytes: All assignments together.
        cost: The cost of the plan.
    """

    assign_seconds: float
    encode_seconds: float
    total_seconds: float
    fastest_seconds: float
    problem_bytes: int
    peak_bytes: int
    encoded_bytes: int
    cost: dict[str, int]


def measure(scenario: Scenario) -> dict[str, Any]:
    """Returns the measurement as JSON values."""
    problem = scenario.prepare(scenario.shape)
    _forget_peak()
    before = _peak_bytes()
    assigning: list[float] = []
    encoding: list[float] = []
    for _ in range(RUNS + 1):
        start = time.perf_counter()
        owner = scenario.assign(problem)
        assigned = time.perf_counter()
        encoded = encode_assignments(
            topics=problem.topics,
            topic_of=problem.topic_of,
            number_of=problem.number_of,
            owner=owner,
            members=len(problem.members),
        )
        assigning.append(assigned - start)
        encoding.append(time.perf_counter() - assigned)
    totals = [sum(pair) for pair in zip(assigning[1:], encoding[1:], strict=True)]
    return asdict(
        Measurement(
            assign_seconds=statistics.median(assigning[1:]),
            encode_seconds=statistics.median(encoding[1:]),
            total_seconds=statistics.median(totals),
            fastest_seconds=min(totals),
            problem_bytes=before,
            peak_bytes=_peak_bytes(),
            encoded_bytes=sum(map(len, encoded)),
            cost=asdict(evaluate(problem, owner)),
        )
    )


def _forget_peak() -> None:
    """Reset the kernel's peak of resident memory (Linux); elsewhere the peak includes building the problem."""
    reset = Path("/proc/self/clear_refs")
    if reset.exists():
        reset.write_text("5")


def _peak_bytes() -> int:
    """Returns the highest resident memory of this process."""
    if STATUS.exists():
        found = re.search(r"VmHWM:\s*(\d+) kB", STATUS.read_text())
        if found:
            return int(found[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
