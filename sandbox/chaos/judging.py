"""Judges whether a run with agents harmed its groups more than the same run without: pure functions of two runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from sandbox.chaos.run import Outcome, Run
from sandbox.chaos.schedule import KINDS
from sandbox.history.harm import harm
from sandbox.history.model import Finding, Kind

MARGIN_SECONDS: Final = 2.0
"""A partition may stop this much longer than in the run without agents."""
_BROKER_FAULTS: Final = ("broker-", "coordinator-")
_READS_AGAIN: Final = "kafkajs"
"""When its coordinator stops or moves, kafkajs fetches its offsets again, also without a rebalance, and may get older
ones than were confirmed to it: then it reads records again."""
_OWN_CRASHES: Final = ("kafka-python-", "KafkaConnectionError")
"""kafka-python 3.0 raises this from poll when it looks for the coordinator and asks a broker for metadata that has
just stopped (its `coordinator/base.py`): it ends applications with agents and without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kind of fault, with agents and without.

    Attributes:
        kind: its name.
        faults: how many there were.
        with_agents: the longest stop, in seconds; None if there was no such run.
        without: the same without agents, of all kinds that are the same fault then.
    """

    kind: str
    faults: int
    with_agents: float | None
    without: float | None

    @property
    def too_long(self) -> bool:
        """Whether agents made this kind worse by more than the margin; `judge` only compares with the worst of all."""
        if self.with_agents is None or self.without is None:
            return False
        return self.with_agents > self.without + MARGIN_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of both runs.

    Attributes:
        rows: by kind of fault.
        complaints: what is wrong, in words; empty if nothing is.
        with_agents: the run with agents, if there was one.
        without: the run without.
    """

    rows: tuple[Row, ...]
    complaints: tuple[str, ...]
    with_agents: Run | None
    without: Run | None


def judge(with_agents: Run | None, without: Run | None) -> Verdict:
    """Compares the runs.

    Each stop is compared with the longest stop of the run without agents. The cost of one fault varies with the timing
    of heartbeats, so a row shows the longest stop of all faults that are the same without agents.
    """
    rows = tuple(_rows(with_agents, without))
    complaints = [complaint for run in (with_agents, without) if run is not None for complaint in _wrong(run)]
    most = None if without is None else _longest(without.outcomes) + MARGIN_SECONDS
    for outcome in with_agents.outcomes if with_agents is not None else ():
        if most is not None and outcome.stop > most:
            alone = most - MARGIN_SECONDS
            complaints.append(
                f"{_named(outcome)}: stopped {outcome.stop:.2f} s, no fault without an agent {alone:.2f} s"
            )
        complaints += [
            f"{_named(outcome)}: nothing explains why {group} went to generation {', '.join(map(str, unexplained))}"
            for group, unexplained in outcome.unexplained.items()
        ]
        complaints += [f"{_named(outcome)}: {crash}" for crash in outcome.crashes if not _is_own(outcome, crash)]
    return Verdict(rows=rows, complaints=tuple(complaints), with_agents=with_agents, without=without)


def as_json(verdict: Verdict, *, seed: int) -> dict[str, Any]:
    """Returns the verdict as JSON values."""
    runs = {"with_agents": verdict.with_agents, "without": verdict.without}
    return {
        "seed": seed,
        "complaints": list(verdict.complaints),
        "kinds": [
            {
                "kind": row.kind,
                "faults": row.faults,
                "stop_with": row.with_agents,
                "stop_without": row.without,
                "too_long": row.too_long,
            }
            for row in verdict.rows
        ],
        **{name: None if run is None else _run_json(run) for name, run in runs.items()},
    }


def _rows(with_agents: Run | None, without: Run | None) -> list[Row]:
    rows = []
    for kind in KINDS:
        led = [outcome.stop for outcome in _of(with_agents, frozenset({kind}))]
        own = [outcome.stop for outcome in _of(without, frozenset({kind}))]
        alike = [outcome.stop for outcome in _of(without, _alike(kind))]
        if led or own:
            rows.append(
                Row(
                    kind=kind,
                    faults=max(len(led), len(own)),
                    with_agents=max(led, default=None),
                    without=max(alike, default=None),
                )
            )
    return rows


def _of(run: Run | None, kinds: frozenset[str]) -> list[Outcome]:
    return [outcome for outcome in run.outcomes if outcome.drawn.kind in kinds] if run is not None else []


def _alike(kind: str) -> frozenset[str]:
    """Returns the kinds that are the same fault without agents."""
    like = KINDS[kind].like
    return frozenset(other for other in KINDS if other == kind or (like and KINDS[other].like == like))


def _wrong(run: Run) -> list[str]:
    """Returns what no fault may cause; stops are judged fault by fault."""
    wrong = [f"{_named(outcome)}: {violation}" for outcome in run.outcomes for violation in outcome.violations]
    wrong += [f"at the end: {violation}" for violation in run.violations]
    for group, findings in run.findings.items():
        for finding in findings:
            near = [one for one in run.outcomes if one.since_ns <= finding.since_ns]
            if near and _is_own_reading(near[-1], finding):
                continue
            after = f", after {_named(near[-1])}" if near else ""
            wrong.append(f"{group}: {finding}{after}")
    return wrong


def _is_own(outcome: Outcome, crash: str) -> bool:
    """Returns whether the member's client is known to end in this way when a broker stops."""
    return outcome.drawn.kind.startswith(_BROKER_FAULTS) and all(part in crash for part in _OWN_CRASHES)


def _is_own_reading(outcome: Outcome, finding: Finding) -> bool:
    """Returns whether the members' client is known to read again when a broker stops or a coordinator moves."""
    return (
        finding.kind is Kind.READ_AGAIN
        and outcome.drawn.kind.startswith(_BROKER_FAULTS)
        and all(member.startswith(_READS_AGAIN) for member in finding.members)
    )


def violations(run: Run) -> int:
    """Returns how many times a group without consumers was not as without agents."""
    return sum(len(outcome.violations) for outcome in run.outcomes) + len(run.violations)


def _named(outcome: Outcome) -> str:
    drawn = outcome.drawn
    return f"fault {drawn.number} ({KINDS[drawn.kind].title}; {drawn.group}, {outcome.target})"


def _run_json(run: Run) -> dict[str, Any]:
    return {
        "seconds": round(run.seconds, 1),
        "records": run.records,
        "rebalances": run.rebalances,
        "told": run.told,
        "violations": violations(run),
        **asdict(harm(run.findings)),
        "longest_stop": _longest(run.outcomes),
        "faults": [
            {
                "number": outcome.drawn.number,
                "kind": outcome.drawn.kind,
                "group": outcome.drawn.group,
                "target": outcome.target,
                "stops": {name: round(seconds, 3) for name, seconds in outcome.stops.items()},
                "generations": dict(outcome.rebalances),
                "unexplained": {name: list(found) for name, found in outcome.unexplained.items()},
                "crashes": list(outcome.crashes),
                "beside": sorted(outcome.beside),
                "own_waits": {name: round(seconds, 3) for name, seconds in outcome.own_waits.items()},
                "settled_seconds": round(outcome.seconds, 2),
                "led": outcome.led,
            }
            for outcome in run.outcomes
        ],
    }


def _longest(outcomes: Sequence[Outcome]) -> float:
    return round(max((outcome.stop for outcome in outcomes), default=0.0), 3)
