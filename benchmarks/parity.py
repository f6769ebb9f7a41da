"""`scripts/bench parity [CASES [HISTORIES]]`: compares our assignors with Kafka's on random groups.

Counts for docs/benchmarks.md: cases in which `range` and `roundrobin` decide differently, and in which `sticky` and
`cooperative-sticky` are better or worse in (balance, cross-rack, moves). The cases come from tests/parity.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from samerack.assignors.evaluate import evaluate
from samerack.offline.assign_answers import answer_of
from tests.parity.cases import random_case
from tests.parity.peer import Peer
from tests.parity.plans import kafkas_plan, most_of_a_topic, ours, rank
from tests.parity.walks import Walk, walk

CASES: Final = 10_000
HISTORIES: Final = 2_000
RESULT: Final = Path(__file__).parents[1] / "docs" / "benchmarks-parity.json"
LEVELS: Final = ("balance", "cross-rack", "moves")
SPREAD: Final = {-1: "spread better", 0: "equal", 1: "spread worse"}
OTHER: Final = (*SPREAD.values(), "worse", "not comparable")


def main(arguments: list[str]) -> int:
    """Compare and write the result; `scripts/bench` includes it in the page."""
    given = [int(one) for one in arguments]
    cases, histories = (*given, *(CASES, HISTORIES)[len(given) :])
    with Peer() as peer:
        results: dict[str, Any] = {"cases": cases}
        for name in ("range", "roundrobin"):
            results[name] = {"different": sum(_differs(peer, seed, name) for seed in range(cases))}
        for name in ("sticky", "cooperative-sticky"):
            found = [_compare(peer, seed, name) for seed in range(cases)]
            results[name] = {outcome: found.count(outcome) for outcome in (*LEVELS, *OTHER)}
        counted = Walk()
        for seed in range(histories):
            counted.add(walk(peer, seed, "sticky"))
        results["histories"] = {"histories": histories, **asdict(counted)}
    RESULT.write_text(json.dumps(results, indent=2) + "\n")
    sys.stdout.write(RESULT.read_text())
    return 0


def _differs(peer: Peer, seed: int, name: str) -> bool:
    case = random_case(seed, name)
    kafkas = {member: sorted(map(tuple, pairs)) for member, pairs in peer.ask(case)["assignment"].items()}
    return bool(kafkas != answer_of(ours(case))["assignment"])


def _compare(peer: Peer, seed: int, name: str) -> str:
    """Returns the level at which our plan is better, or one of the outcomes in `OTHER`."""
    case = random_case(seed, name)
    solution = ours(case)
    kafkas = kafkas_plan(peer, case, solution.problem)
    if kafkas is None:
        return "not comparable"
    mine, theirs = (rank(evaluate(solution.problem, owner)) for owner in (solution.owner, kafkas))
    if mine == theirs:
        most, kafkas_most = (most_of_a_topic(solution.problem, owner) for owner in (solution.owner, kafkas))
        return SPREAD[(most > kafkas_most) - (most < kafkas_most)]
    if mine > theirs:
        return "worse"
    return next(level for level, a, b in zip(LEVELS, mine, theirs, strict=True) if a != b)
