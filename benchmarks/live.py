"""`scripts/bench live`: how long a group waits for its leader, from the bytes of JoinGroup to the bytes of SyncGroup.

Each group is put to the agent's own code, to Kafka's Java client and to franz-go, in one run. What the cluster tells is
in memory before, for all three. Writes docs/benchmarks-consumers.json, .md and .svg.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks import live_brokers
from benchmarks.grid import FRANZ, GREATEST, NEWEST, USUAL, Cell, Group, grid, make
from benchmarks.live_page import page, plot
from benchmarks.report import machine
from benchmarks.rivals import FRANZ_VERSION, Answer, Franz, ask_java, owners
from samerack.agent.leading import assigning as assigning_module
from samerack.agent.leading.assigning import Assigning
from samerack.assignors.consumer.registry import ASSIGNORS, DEFAULTS
from samerack.assignors.evaluate import evaluate
from samerack.assignors.model import NOBODY, Int32Array, Problem
from samerack.cluster.group_member import Joined
from samerack.common.settings import load
from samerack.planning import planner
from samerack.protocol.bulk import SubscriptionReader
from samerack.protocol.consumer import encode_assignments, encode_subscription
from samerack.protocol.model import Subscription

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from samerack.cluster.view import SettledCluster

DOCS: Final = Path(__file__).parents[1] / "docs"
JAVA_SECONDS: Final = 20.0
FRANZ_SECONDS: Final = 60.0
LARGE: Final = 200_000
"""From this number of partitions on a group is run five times instead of nine."""
_ME: Final = "agent"
PARTS: Final = {
    "subscriptions": (Assigning, "_subscriptions"),
    "members": (assigning_module, "members_of_join"),
    "problem": (assigning_module, "problem_of"),
    "assignor": (planner, "assign_in_time"),
    "check": (planner, "_checked"),
    "messages": (planner, "encode"),
}
"""Functions that make up a leader's work, none of which calls another one."""
OTHER: Final = "rest"


class Watch:
    """What the agent's watch has in memory: a settled cluster that has all topics."""

    rack_aware_fetch = True

    def __init__(self, cluster: SettledCluster) -> None:
        self.cluster = cluster

    def show_interest(self, group: str, topics: frozenset[str]) -> None:
        """Does nothing: all topics are known."""


def main(arguments: list[str]) -> int:
    """Measures all groups and writes the three documents.

    `--usual` only prints the usual groups, ours alone; `--brokers` measures only the groups on real brokers anew.
    """
    if arguments == ["--usual"]:
        for cell in USUAL:
            group = make(cell)
            ours, _ = _ours(group, group.messages(), _runs(cell))
            sys.stdout.write(json.dumps(asdict(cell) | ours) + "\n")
        return 0
    if arguments == ["--brokers"]:
        _write(_written() | {"brokers": live_brokers.measure()})
        return 0
    if arguments:
        sys.stderr.write(f"scripts/bench live: {arguments[0]!r} is unknown; give --usual, --brokers or nothing\n")
        return 2
    with Franz() as franz:
        given_up: set[str] = set()
        cells = [_measure(cell, franz, given_up) for cell in _in_order((*USUAL, *grid(), *FRANZ, *GREATEST, *NEWEST))]
    results = {
        "machine": machine(),
        "franz_version": FRANZ_VERSION,
        "java_seconds": JAVA_SECONDS,
        "cells": cells,
        "brokers": live_brokers.measure(),
    }
    _write(results)
    return 0


def _written() -> dict[str, Any]:
    """Returns the results that the page shows now."""
    return dict(json.loads((DOCS / "benchmarks-consumers.json").read_text()))


def _write(results: dict[str, Any]) -> None:
    (DOCS / "benchmarks-consumers.json").write_text(json.dumps(results, indent=1) + "\n")
    (DOCS / "benchmarks-consumers.md").write_text(page(results))
    (DOCS / "benchmarks-consumers.svg").write_text(plot(results))


def _in_order(cells: Iterable[Cell]) -> list[Cell]:
    """Returns the cells, smallest first: once Java takes too long, it gets no larger group of the same kind."""
    return sorted(dict.fromkeys(cells), key=lambda cell: (cell.total, cell.members))


def _runs(cell: Cell) -> int:
    return 5 if cell.total >= LARGE else 9


def _measure(cell: Cell, franz: Franz, given_up: set[str]) -> dict[str, Any]:
    group = make(cell)
    messages = group.messages()
    ours, problem = _ours(group, messages, _runs(cell))
    measured = asdict(cell) | {"total": cell.total, "ours": ours}
    question = group.question(messages, _runs(cell))
    kind = "equal" if cell.subscriptions == "equal" else "unequal"
    java = None if kind in given_up else ask_java(question, seconds=JAVA_SECONDS + cell.total / 1e5)
    if java is None:
        given_up.add(kind)
    for name, answer in (("java", java), ("franz", franz.ask(question, seconds=FRANZ_SECONDS))):
        measured[name] = None if answer is None else _theirs(problem, answer)
    sys.stderr.write(f"{cell}: {[(n, (measured[n] or {}).get('seconds')) for n in ('ours', 'java', 'franz')]}\n")
    return measured


def _ours(group: Group, messages: list[tuple[str, bytes]], runs: int) -> tuple[dict[str, Any], Problem]:
    """Returns our medians over the later half of the runs, as for the others, and the group as a problem.

    `seconds` is the whole. `decode` (reading the messages), `plan` (the assignor alone) and `encode` (writing the
    messages) are measured by themselves afterwards, on the same input.
    """
    settings = load(flags={"kafka": {"bootstrap.servers": "unused:1"}, "groups": ["group"]}, environment={})
    assigning: Any = Assigning(group="group", settings=settings, watch=Watch(group.cluster()))  # type: ignore[arg-type]  # it takes what the watch has in memory
    agent = (_ME, None, encode_subscription(Subscription(version=0, topics=())))
    members = (agent, *((member, None, data) for member, data in messages))
    joined = Joined(generation=8, protocol="cooperative-sticky", me=_ME, members=members)
    planner.warm_up()
    whole = _median(lambda: assigning.assign(joined), runs)
    plan, reader = assigning.sent.plan, SubscriptionReader()
    return {
        "seconds": whole,
        "parts": _parts(lambda: assigning.assign(joined), runs),
        "decode": _median(lambda: reader.read([data for _, data in messages]), runs),
        "plan": _median(lambda: ASSIGNORS["cooperative-sticky"].assign(plan.problem, DEFAULTS), runs),
        "encode": _median(lambda: _encode(plan.problem, plan.sent), runs),
        "assignor": plan.assignor,
        "cost": asdict(plan.after),
    }, plan.problem


def _parts(act: Any, runs: int) -> dict[str, float]:
    """Returns the medians of the parts of one run; together they are the whole."""
    took: dict[str, list[float]] = {name: [] for name in (*PARTS, OTHER)}
    with ExitStack() as stack:
        clocks = {name: stack.enter_context(_clock(*place)) for name, place in PARTS.items()}
        for _ in range(runs):
            for clock in clocks.values():
                clock.clear()
            start = time.perf_counter()
            act()
            whole = time.perf_counter() - start
            for name, clock in clocks.items():
                took[name].append(sum(clock))
            took[OTHER].append(whole - sum(map(sum, clocks.values())))
    return {name: statistics.median(some[runs // 2 :]) for name, some in took.items()}


@contextmanager
def _clock(owner: Any, name: str) -> Iterator[list[float]]:
    """Yields the seconds of each call of a function while this lasts."""
    seconds: list[float] = []
    function = getattr(owner, name)

    def timed(*arguments: Any, **named: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*arguments, **named)
        finally:
            seconds.append(time.perf_counter() - start)

    setattr(owner, name, timed)
    try:
        yield seconds
    finally:
        setattr(owner, name, function)


def _encode(problem: Problem, owner: Int32Array) -> None:
    encode_assignments(
        topics=problem.topics,
        topic_of=problem.topic_of,
        number_of=problem.number_of,
        owner=owner,
        members=len(problem.members),
    )


def _median(act: Any, runs: int) -> float:
    took = []
    for _ in range(runs):
        start = time.perf_counter()
        act()
        took.append(time.perf_counter() - start)
    return statistics.median(took[runs // 2 :])


def _theirs(problem: Problem, answer: Answer) -> dict[str, Any]:
    """Returns a rival's time, and the cost of its plan unless the plan withholds partitions for a round."""
    owner = owners(problem, answer)
    whole = not (owner == NOBODY).any()
    return {"seconds": answer["nanos"] / 1e9, "cost": asdict(evaluate(problem, owner)) if whole else None}
