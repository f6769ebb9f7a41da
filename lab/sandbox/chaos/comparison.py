"""Finds whether a run with agents harmed its groups more than the same run without: pure functions of two runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from lab.sandbox.chaos.faults import KINDS
from lab.sandbox.chaos.run import RUNS, ChaosRun, Outcome
from lab.sandbox.history.history import harm

MARGIN_SECONDS: Final = 2.0
"""A partition may stop this much longer than in the run without agents."""
_BROKER_FAULTS: Final = ("broker-", "coordinator-")
_OWN_CRASHES: Final = ("kafka-python-", "KafkaConnectionError")
"""kafka-python 3.0 raises this from poll when it looks for the coordinator and asks a broker for metadata that has
just stopped (its `coordinator/base.py`): it ends applications with agents and without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kind of fault, with agents and without, and the longest stops in seconds."""

    kind: str
    faults: int
    stop_with: float
    stop_without: float  # of all kinds that are the same fault without agents
    too_long: bool  # worse with agents by more than the margin; complaints only go by the worst of all


def rows(led: ChaosRun, alone: ChaosRun) -> Iterator[Row]:
    """Yield the kinds of faults of a run with agents and of the same run without."""
    for name, kind in KINDS.items():
        alike = {other for other, one in KINDS.items() if other == name or (kind.like and one.like == kind.like)}
        stops = [one.stop for one in led.faults if one.drawn.kind == name]
        if stops:
            without = max(one.stop for one in alone.faults if one.drawn.kind in alike)
            too_long = max(stops) > without + MARGIN_SECONDS
            yield Row(kind=name, faults=len(stops), stop_with=max(stops), stop_without=without, too_long=too_long)


def complaints(led: ChaosRun, alone: ChaosRun) -> list[str]:
    """Return what is wrong with a run with agents or with the same run without, in words.

    Each stop is compared with the longest stop of the run without agents: the cost of one fault varies with the timing
    of heartbeats.
    """
    wrong, longest = [*_wrong(led), *_wrong(alone)], _longest(alone)
    for outcome in led.faults:
        if outcome.stop > longest + MARGIN_SECONDS:
            wrong.append(f"{outcome}: stopped {outcome.stop:.2f} s, no fault without an agent {longest:.2f} s")
        wrong += [
            f"{outcome}: nothing explains why {group} went to generation {', '.join(map(str, unexplained))}"
            for group, unexplained in outcome.unexplained.items()
        ]
        wrong += [f"{outcome}: {crash}" for crash in outcome.crashes if not _is_own(outcome, crash)]
    return wrong


def as_json(led: ChaosRun, alone: ChaosRun, *, seed: int) -> dict[str, Any]:
    """Return both runs and the verdict as JSON values."""
    return {
        "seed": seed,
        "complaints": complaints(led, alone),
        "kinds": [asdict(row) for row in rows(led, alone)],
        "with_agents": _described(led),
        "without": _described(alone),
    }


def _described(run: ChaosRun) -> dict[str, Any]:
    counts = {**asdict(harm(run.findings)), "violations": run.violations, "longest_stop": _longest(run)}
    return {**RUNS.dump_python(run, mode="json"), **counts}


def _longest(run: ChaosRun) -> float:
    return round(max(outcome.stop for outcome in run.faults), 3)


def _wrong(run: ChaosRun) -> Iterator[str]:
    """Yield what no fault may cause; stop are compared fault by fault."""
    yield from (f"{outcome}: {violation}" for outcome in run.faults for violation in outcome.violations)
    yield from (f"at the end: {violation}" for violation in run.at_the_end)
    for group, findings in run.findings.items():
        for finding in findings:
            near = [one for one in run.faults if one.since_ns <= finding.since_ns][-1:]
            yield "".join([f"{group}: {finding}", *(f", after {one}" for one in near)])


def _is_own(outcome: Outcome, crash: str) -> bool:
    """Return whether the member's client is known to end in this way when a broker stops."""
    return outcome.drawn.kind.startswith(_BROKER_FAULTS) and all(part in crash for part in _OWN_CRASHES)
