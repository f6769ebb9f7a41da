"""How long a group waits for its plan, in this process; and whether Kafka's own assignors plan better (Java, Maven)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from lab.benchmarks.shared import Found, Parts, measured_on, show_progress, table
from samerack.assignors.consumer import optimal
from samerack.assignors.consumer.kafkas import assign_range
from samerack.assignors.evaluate import evaluate
from samerack.assignors.problem import NOBODY, Int32Array, Problem
from samerack.offline.assign import answer_of
from samerack.protocol.consumer import encode_assignments
from tests.parity.cases import random_case
from tests.parity.peer import Peer
from tests.parity.plans import kafkas_plan, max_of_a_topic, ours, rank
from tests.parity.walks import Walk, walk

RUNS: Final = 9
CASES: Final = 10_000
HISTORIES: Final = 2_000
_SEED: Final = 881
"""Named after KIP-881; any other seed gives the same times."""
_LEVELS: Final = ("balance", "cross-rack", "moves")
_SPREAD: Final = {-1: "spread better", 0: "equal", 1: "spread worse"}
_OUTCOMES: Final = (*_LEVELS, *_SPREAD.values(), "worse", "not comparable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A group's size: `subscriptions` distinct ones, each of about half of the topics where there are several."""

    partitions: int = 1_000_000
    members: int = 2_000
    topics: int = 100
    racks: int = 3
    replication: int = 2
    subscriptions: int = 1


def fresh(shape: Shape) -> Problem:
    """Return a new group: no partition has an owner; racks of replicas and members are random."""
    dice = np.random.default_rng(_SEED)
    order = np.argsort(dice.random((shape.partitions, shape.racks), np.float32), axis=1)[:, : shape.replication]
    replica_racks = np.zeros((shape.partitions, shape.racks), np.bool_)
    np.put_along_axis(replica_racks, order, values=True, axis=1)
    per_topic = shape.partitions // shape.topics
    if shape.subscriptions == 1:
        subscriptions = np.ones((1, shape.topics), np.bool_)
    else:
        subscriptions = dice.random((shape.subscriptions, shape.topics)) < 0.5
    return Problem(
        topics=tuple(f"topic-{number:05}" for number in range(shape.topics)),
        topic_of=np.repeat(np.arange(shape.topics, dtype=np.int32), per_topic),
        number_of=np.tile(np.arange(per_topic, dtype=np.int32), shape.topics),
        racks=tuple(f"rack-{number}" for number in range(shape.racks)),
        replica_racks=replica_racks,
        leader_rack=order[:, 0].astype(np.int32),
        weights=None,
        members=tuple(f"consumer-{number:06}" for number in range(shape.members)),
        instance_ids=(None,) * shape.members,
        member_rack=dice.integers(0, shape.racks, shape.members).astype(np.int32),
        reads_any_replica=np.ones(shape.members, np.bool_),
        subscription_of=(np.arange(shape.members) % shape.subscriptions).astype(np.int32),
        subscriptions=subscriptions,
        owner=np.full(shape.partitions, NOBODY, np.int32),
    )


def balanced_group(shape: Shape) -> Problem:
    """Return a group that owns the optimal plan."""
    problem = fresh(shape)
    return replace(problem, owner=optimal.assign(problem))


def left(shape: Shape) -> Problem:
    """Return a settled group without its member number 7."""
    problem, gone = balanced_group(shape), 7
    owner = np.where(problem.owner == gone, NOBODY, problem.owner - (problem.owner > gone)).astype(np.int32)
    return replace(
        problem,
        members=problem.members[:gone] + problem.members[gone + 1 :],
        instance_ids=problem.instance_ids[1:],
        member_rack=np.delete(problem.member_rack, gone),
        reads_any_replica=problem.reads_any_replica[1:],
        subscription_of=np.delete(problem.subscription_of, gone),
        owner=owner,
    )


def scattered(shape: Shape) -> Problem:
    """Return a group whose partitions have random owners: every member owns partitions of every kind."""
    problem = fresh(shape)
    owner = np.random.default_rng(_SEED + 1).integers(0, shape.members, shape.partitions).astype(np.int32)
    allowed = problem.subscriptions[problem.subscription_of[owner], problem.topic_of]
    return replace(problem, owner=np.where(allowed, owner, NOBODY).astype(np.int32))


def weighted(shape: Shape) -> Problem:
    """Return a scattered group whose partitions have weights of 1 to 1,000,000, most of them different."""
    dice = np.random.default_rng(_SEED + 2)
    return replace(scattered(shape), weights=dice.integers(1, 1_000_001, shape.partitions))


def _together(problem: Problem) -> Int32Array:
    return optimal.assign(problem, optimal.Options(keep_copartitioned=True))


_LARGE: Final = Shape()
_SOME: Final = Shape(subscriptions=20)
_ALL_DIFFERENT: Final = Shape(subscriptions=2_000, topics=1_000)
_Scenario: TypeAlias = tuple[str, Shape, Callable[[Shape], Problem], Callable[[Problem], Int32Array]]
SCENARIOS: Final[tuple[_Scenario, ...]] = (
    ("a member left", Shape(partitions=1_000, members=30, topics=10), left, optimal.assign),
    ("owns the optimum", _LARGE, balanced_group, optimal.assign),
    ("a member left", _LARGE, left, optimal.assign),
    ("owns partitions at random", _LARGE, scattered, optimal.assign),
    ("owns nothing", _LARGE, fresh, optimal.assign),
    ("owns partitions at random, 8 racks", Shape(racks=8, replication=3), scattered, optimal.assign),
    ("owns partitions at random", Shape(members=10_000), scattered, optimal.assign),
    ("a member left", _SOME, left, optimal.assign),
    ("owns partitions at random", _SOME, scattered, optimal.assign),
    ("a member left", _ALL_DIFFERENT, left, optimal.assign),
    ("owns partitions at random", _ALL_DIFFERENT, scattered, optimal.assign),
    ("owns partitions at random, weights differ", Shape(partitions=100_000, members=1_000), weighted, optimal.assign),
    ("co-partitioned topics kept together", _LARGE, fresh, _together),
    ("Kafka's range", _LARGE, fresh, assign_range),
)


def scenarios() -> Found:
    """Measure each scenario, from the arrays of a problem to the encoded assignment of every member."""
    return {"runs": RUNS, "scenarios": [_measured(*scenario) for scenario in SCENARIOS]}


def _measured(
    about: str, shape: Shape, prepare: Callable[[Shape], Problem], assign: Callable[[Problem], Int32Array]
) -> Found:
    problem = prepare(shape)
    owner = assign(problem)  # the first run loads the solver
    took = []
    for _ in range(RUNS):
        start = time.perf_counter()
        owner = assign(problem)
        encode_assignments(
            topics=problem.topics,
            topic_of=problem.topic_of,
            number_of=problem.number_of,
            owner=owner,
            members=len(problem.members),
        )
        took.append(time.perf_counter() - start)
    found = {
        "about": about,
        **asdict(shape),
        "seconds": statistics.median(took),
        "cost": asdict(evaluate(problem, owner)),
    }
    show_progress(found)
    return found


def _show_scenarios(found: Found) -> str:
    rows = [
        (
            one["about"],
            *(f"{one[size]:,}" for size in ("partitions", "members", "subscriptions")),
            f"{1000 * one['seconds']:,.1f}",
            f"{one['cost']['cross_rack']:,}",
            f"{one['cost']['moved']:,}",
        )
        for one in found["scenarios"]
    ]
    head = "group|partitions|members|subscriptions|ms|cross-rack|moved"
    return f"{table(head, rows)}\n\nThe median of {found['runs']} runs.\n{measured_on(found)}"


def parity() -> Found:
    """Put random groups and random histories of groups to Kafka's assignors and to ours of the same names."""
    with Peer() as peer:
        found: Found = {"cases": CASES}
        for name in ("range", "roundrobin"):
            found[name] = {"different": sum(_differs(peer, seed, name) for seed in range(CASES))}
        for name in ("sticky", "cooperative-sticky"):
            outcomes = [_outcome(peer, seed, name) for seed in range(CASES)]
            found[name] = {outcome: outcomes.count(outcome) for outcome in _OUTCOMES}
        counted = Walk()
        for seed in range(HISTORIES):
            counted.add(walk(peer, seed, "sticky"))
    return found | {"histories": {"histories": HISTORIES, **asdict(counted)}}


def _differs(peer: Peer, seed: int, name: str) -> bool:
    case = random_case(seed, name)
    kafkas = {member: sorted(map(tuple, pairs)) for member, pairs in peer.ask(case)["assignment"].items()}
    return bool(kafkas != answer_of(ours(case))["assignment"])


def _outcome(peer: Peer, seed: int, name: str) -> str:
    """Return the level at which our plan is better, or one of the other outcomes."""
    case = random_case(seed, name)
    solution = ours(case)
    kafkas = kafkas_plan(peer, case, solution.problem)
    if kafkas is None:
        return "not comparable"
    mine, theirs = (rank(evaluate(solution.problem, owner)) for owner in (solution.owner, kafkas))
    if mine == theirs:
        most, kafkas_most = (max_of_a_topic(solution.problem, owner) for owner in (solution.owner, kafkas))
        return _SPREAD[(most > kafkas_most) - (most < kafkas_most)]
    if mine > theirs:
        return "worse"
    return next(level for level, a, b in zip(_LEVELS, mine, theirs, strict=True) if a != b)


def _show_parity(found: Found) -> str:
    cases = found["cases"]
    outcomes = ("worse", *_LEVELS, "spread better", "spread worse", "not comparable")
    plans = table(
        f"of {cases:,} groups|worse|better: balance|cross-rack|moves|spread better|worse|not comparable",
        [(f"`{name}`", *(f"{found[name][one]:,}" for one in outcomes)) for name in ("sticky", "cooperative-sticky")],
    )
    different = sum(found[name]["different"] for name in ("range", "roundrobin"))
    counts = {name: f"{count:,}" for name, count in found["histories"].items()}
    histories = table(
        f"{counts['histories']} histories with {counts['plans']} plans|`sticky`|Kafka's",
        [
            ("better for the same group", counts["better"], counts["worse"]),
            ("partitions moved", counts["moves"], counts["kafkas_moves"]),
            ("partitions read across racks", counts["cross_rack"], counts["kafkas_cross_rack"]),
            ("plans with more of a topic on one member", counts["ever_lumpier"], counts["ever_less_lumpy"]),
        ],
    )
    return (
        f"{plans}\n\nPlans of `range` and `roundrobin` differ in {different} of {2 * cases:,}.\n\n{histories}\n\n"
        f"{counts['not_comparable']} plans were not comparable."
    )


PARTS: Final[Parts] = {"scenarios": (scenarios, _show_scenarios), "parity": (parity, _show_parity)}
