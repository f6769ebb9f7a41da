"""How long a group waits for its leader, from the bytes of JoinGroup to the bytes of SyncGroup; needs Java, Maven, Go.

Each group is put to the agent's own code, to Kafka's Java client and to franz-go, one after the other. What the cluster
reports is in memory before, for all three.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from lab.benchmarks import live_load
from lab.benchmarks.live_groups import RACKS, Cell, Group, cells, make, owned_by
from lab.benchmarks.shared import Found, Parts, measured_on, show_progress, table
from samerack.agent.leading.assigning import Assigning
from samerack.assignors.consumer import optimal
from samerack.assignors.evaluate import evaluate
from samerack.assignors.problem import NOBODY, Int32Array, Problem
from samerack.cluster.group_member import Joined
from samerack.planning import planner
from samerack.protocol.consumer import decode_assignment, encode_subscription
from samerack.protocol.values import Subscription
from samerack.settings.loading import load
from tests.parity.peer import Peer
from tests.parity.plans import rank

if TYPE_CHECKING:
    from samerack.cluster.view import SettledCluster

JAVA_SECONDS: Final = 20.0
FRANZ_SECONDS: Final = 60.0
_FRANZ: Final = "github.com/twmb/franz-go"
_FRANZ_VERSION: Final = "v1.22.2"
_GO_TEST: Final = Path(__file__).parent / "go" / "samerack_test.go"
_LARGE: Final = 200_000
"""From this number of partitions on a group is run five times instead of nine."""
_SHOWN: Final = 100_000
"""Groups that a member joins are on the page from this number of partitions on."""
_ME: Final = "agent"
_ROUNDS: Final = 25
_PHASES: Final = 4
_COMPETITORS: Final = {"java": "Kafka's Java", "franz": "franz-go"}


class Watch:
    """What the agent's watch has in memory: a stable cluster that has all topics."""

    rack_aware_fetch = True

    def __init__(self, cluster: SettledCluster) -> None:
        self.cluster = cluster

    def show_interest(self, group: str, topics: frozenset[str]) -> None:
        """Do nothing: all topics are known."""


class Franz:
    """franz-go's sticky balancer in a copy of its module; a context manager that removes the copy."""

    def __init__(self) -> None:
        described = _go("mod", "download", "-json", f"{_FRANZ}@{_FRANZ_VERSION}", folder=Path(tempfile.gettempdir()))
        self._folder = Path(tempfile.mkdtemp(prefix="samerack-franz-"))
        copy = self._folder / "franz-go"
        shutil.copytree(json.loads(described)["Dir"], copy, copy_function=shutil.copyfile)
        for path in (copy, *copy.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        shutil.copyfile(_GO_TEST, copy / "pkg" / "kgo" / _GO_TEST.name)
        self._program = self._folder / "kgo.test"
        _go("test", "-c", "-o", str(self._program), "./pkg/kgo", folder=copy)

    def ask(self, question: Found) -> Found | None:
        """Return franz-go's answer, or None where it takes too long."""
        asked, answered = self._folder / "questions", self._folder / "answers"
        asked.write_text(json.dumps(question) + "\n")
        environment = os.environ | {"QUESTIONS": str(asked), "ANSWERS": str(answered)}
        command = [str(self._program), "-test.run", "^TestSamerack$"]
        try:
            subprocess.run(command, env=environment, check=True, timeout=FRANZ_SECONDS, stdout=subprocess.DEVNULL)  # noqa: S603 - built above
        except subprocess.TimeoutExpired:
            return None
        answer: Found = json.loads(answered.read_text())
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _go(*arguments: str, folder: Path) -> str:
    return subprocess.run(["go", *arguments], cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603, S607 - Go as installed


def _ask_java(question: Found, *, seconds: float) -> Found | None:
    """Return Kafka's answer, or None where it needs more time or memory than it has."""
    with Peer(heap="4g") as peer:
        watch = threading.Timer(seconds, peer.kill)
        watch.start()
        try:
            return peer.ask(question)
        except (RuntimeError, BrokenPipeError):
            return None
        finally:
            watch.cancel()


def groups() -> Found:
    """Put every group to the agent, to Java and to franz-go (twenty minutes)."""
    given_up = set[str]()
    with Franz() as franz:
        measured = [_measured(cell, franz, given_up) for cell in cells()]
    return {"franz_version": _FRANZ_VERSION, "java_seconds": JAVA_SECONDS, "cells": measured}


def _measured(cell: Cell, franz: Franz, given_up: set[str]) -> Found:
    group, runs = make(cell), 5 if cell.total >= _LARGE else 9
    messages = group.messages()
    ours, problem = _ours(group, messages, runs)
    question = group.question(messages, runs)
    kind = "equal" if cell.subscriptions == "equal" else "unequal"  # once Java takes too long, it gets no larger one
    java = None if kind in given_up else _ask_java(question, seconds=JAVA_SECONDS + cell.total / 1e5)
    if java is None:
        given_up.add(kind)
    found = asdict(cell) | {"total": cell.total, "ours": ours}
    for name, answer in (("java", java), ("franz", franz.ask(question))):
        found[name] = None if answer is None else _theirs(problem, answer)
    show_progress(f"{cell}: {[(name, (found[name] or {}).get('seconds')) for name in ('ours', *_COMPETITORS)]}")
    return found


def _ours(group: Group, messages: list[tuple[str, bytes]], runs: int) -> tuple[Found, Problem]:
    """Return our median over the later half of the runs, as for the others, and the group as a problem."""
    settings = load(flags={"kafka": {"bootstrap.servers": "unused:1"}, "groups": ["group"]}, environment={})
    assigning: Any = Assigning(group="group", settings=settings, watch=Watch(group.cluster()))  # type: ignore[arg-type]  # it takes what the watch has in memory
    agent = (_ME, None, encode_subscription(Subscription(version=0, topics=())))
    members = (agent, *((member, None, data) for member, data in messages))
    joined = Joined(generation=8, protocol="cooperative-sticky", me=_ME, members=members)
    planner.warm_up()
    took = []
    for _ in range(runs):
        start = time.perf_counter()
        assigning.assign(joined)
        took.append(time.perf_counter() - start)
    plan = assigning.sent.plan
    found = {"seconds": statistics.median(took[runs // 2 :]), "assignor": plan.assignor, "cost": rank(plan.after)}
    return found, plan.problem


def _theirs(problem: Problem, answer: Found) -> Found:
    """Return a competitor's time, and the cost of its plan unless the plan withholds partitions for a round."""
    owner = _owners(problem, answer)
    whole = not (owner == NOBODY).any()
    return {"seconds": answer["nanos"] / 1e9, "cost": rank(evaluate(problem, owner)) if whole else None}


def _owners(problem: Problem, answer: Found) -> Int32Array:
    """Return the owner of each partition in an answer, decoded; NOBODY where the answer names none."""
    counts = np.bincount(problem.topic_of, minlength=len(problem.topics))
    first = dict(zip(problem.topics, np.concatenate([[0], np.cumsum(counts)[:-1]]).tolist(), strict=True))
    owner = np.full(len(problem.topic_of), NOBODY, np.int32)
    for index, member in enumerate(problem.members):
        if sent := answer["assignment"].get(member):
            partitions = decode_assignment(base64.b64decode(sent)).partitions
            for topic, numbers in zip(partitions.topics, partitions.numbers, strict=True):
                owner[first[topic] + numbers] = index
    return owner


def _show(found: Found) -> str:
    measured = found["cells"]
    against = table(
        "beside|groups|faster in|times as fast, median|lowest|highest|no answer in time|plans cost the same|more|less",
        [_against(measured, competitor) for competitor in _COMPETITORS],
    )
    rows = [
        (
            *(f"{one[size]:,}" for size in ("members", "total", "topics", "replicas")),
            "a member left" if one["history"] == "left" else "a member joins",
            *(f"{1000 * one[name]['seconds']:,.1f}" if one[name] else "-" for name in ("ours", *_COMPETITORS)),
        )
        for one in measured
        if one["history"] == "left"
        or (one["total"] >= _SHOWN and (one["history"], one["subscriptions"]) == ("joined", "equal"))
    ]
    times = table("members|partitions|topics|replicas|change|samerack, ms|Kafka's Java|franz-go", rows)
    return f"{against}\n\n{times}\n\n{measured_on(found)}"


def _against(measured: list[Found], competitor: str) -> tuple[object, ...]:
    """Return how the groups compare in time, and in cost where a competitor's plan withholds nothing."""
    answered = [one for one in measured if one[competitor]]
    ratios = sorted(one[competitor]["seconds"] / one["ours"]["seconds"] for one in answered)
    costs = [(one["ours"]["cost"], one[competitor]["cost"]) for one in answered if one[competitor]["cost"]]
    return (
        _COMPETITORS[competitor],
        len(answered),
        sum(ratio >= 1 for ratio in ratios),
        *(f"{ratio:,.2f}" for ratio in (ratios[len(ratios) // 2], ratios[0], ratios[-1])),
        len(measured) - len(answered),
        sum(mine == theirs for mine, theirs in costs),
        sum(mine < theirs for mine, theirs in costs),
        sum(mine > theirs for mine, theirs in costs),
    )


def decay() -> Found:
    """Move a tenth of the leaders before each of 25 rounds; shows what is read in the own rack after each."""
    dice = np.random.default_rng(925)
    cell = Cell(members=30, topics=10, partitions=30)
    group = make(cell)
    racks = {topic: [row[0] for row in rows] for topic, rows in group.topics.items()}
    owned = dict.fromkeys(("ours", "franz"), group.owned)
    rounds = []
    with Franz() as franz:
        for number in range(_ROUNDS + 1):
            for topic, at in _drawn(dice, cell) if number else ():
                racks[topic][at] = dice.choice([rack for rack in RACKS if rack != racks[topic][at]])
            topics: dict[str, list[tuple[str | None, ...]]] = {
                topic: [(one,) for one in row] for topic, row in racks.items()
            }
            found: Found = {}
            for name, plan in (("ours", _plan_ours), ("franz", partial(_plan_of, franz))):
                here = replace(group, topics=topics, owned=owned[name])
                problem, owner = here.problem(), plan(here)
                owned[name] = owned_by(problem, owner)
                cost = evaluate(problem, owner)
                moved = int(((problem.owner != NOBODY) & (problem.owner != owner)).sum())
                found[name] = {"in_rack": 1 - cost.cross_rack / cell.total, "moved": moved, "uneven": cost.imbalance}
            if not number:
                first = owned["ours"]
            unplanned = replace(group, topics=topics, owned=first).problem()
            found["unplanned"] = 1 - evaluate(unplanned, unplanned.owner).cross_rack / cell.total
            rounds.append(found)
    return {"franz_version": _FRANZ_VERSION, "partitions": cell.total, "members": cell.members, "rounds": rounds}


def _drawn(dice: np.random.Generator, cell: Cell) -> list[tuple[str, int]]:
    """Return a tenth of the partitions."""
    some = dice.choice(cell.total, cell.total // 10, replace=False)
    return [(f"t{number // cell.partitions:04}", int(number % cell.partitions)) for number in some]


def _plan_ours(group: Group) -> Int32Array:
    return optimal.assign(group.problem())


def _plan_of(franz: Franz, group: Group) -> Int32Array:
    """Return franz-go's plan once everything has moved: a cooperative rebalance withholds partitions for a round."""
    for _ in range(_PHASES):
        problem = group.problem()
        answer = franz.ask(group.question(group.messages(), 1))
        if answer is None:
            raise TimeoutError("franz-go has no plan within its time")
        owner = _owners(problem, answer)
        if not (owner == NOBODY).any():
            return owner
        group = replace(group, owned=owned_by(problem, owner))
    raise RuntimeError(f"franz-go withholds partitions after {_PHASES} rounds")


def _show_decay(found: Found) -> str:
    rounds = found["rounds"]
    rows = [
        (
            number,
            f"{rounds[number]['unplanned']:.1%}",
            *(f"{rounds[number][name]['in_rack']:.1%}" for name in ("ours", "franz")),
            *(sum(one[name]["moved"] for one in rounds[: number + 1]) for name in ("ours", "franz")),
        )
        for number in (0, 1, 2, 3, 5, 10, 15, 20, _ROUNDS)
    ]
    head = "rounds|in rack: without a plan|samerack|franz-go|moved until then: samerack|franz-go"
    return f"{table(head, rows)}\n\n{measured_on(found)}"


def load_groups(count: int = 200) -> Found:
    """Plan groups of unequal partitions by load, beside plans by counts, Kafka's sticky and franz-go's."""

    def of_java(group: Group) -> Int32Array | None:
        answer = _ask_java(group.question(group.messages(), 1), seconds=JAVA_SECONDS)
        return None if answer is None else _owners(group.problem(), answer)

    with Franz() as franz:
        return live_load.measure(count, {"Kafka's sticky": of_java, "franz-go": partial(_plan_of, franz)})


PARTS: Final[Parts] = {
    "groups": (groups, _show),
    "decay": (decay, _show_decay),
    "load": (load_groups, live_load.show),
}
