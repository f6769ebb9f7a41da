"""`scripts/bench parity [CASES]`: random groups put to ours and to Kafka's own assignors, and what came of it.

Counts for docs/benchmarks.md: cases in which `range` and `roundrobin` decide otherwise, and in which `sticky` and
`cooperative-sticky` are better or worse in (balance, cross-rack, moves). The cases are those of tests/parity. What must
not enter: cases of its own.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from agent.cli.assign_json import answer_of
from assignors.evaluate import evaluate
from tests.parity.cases import random_case
from tests.parity.peer import Peer
from tests.parity.test_assignors import kafkas_plan, ours, rank

CASES: Final = 10_000
RESULT: Final = Path(__file__).parents[1] / "docs" / "benchmarks-parity.json"
LEVELS: Final = ("balance", "cross-rack", "moves")


def main(arguments: list[str]) -> int:
    """Compare and write; then `scripts/bench` shows it."""
    cases = int(arguments[0]) if arguments else CASES
    with Peer() as peer:
        results: dict[str, Any] = {"cases": cases}
        for name in ("range", "roundrobin"):
            results[name] = {"different": sum(_differs(peer, seed, name) for seed in range(cases))}
        for name in ("sticky", "cooperative-sticky"):
            found = [_compare(peer, seed, name) for seed in range(cases)]
            results[name] = {level: found.count(level) for level in (*LEVELS, "equal", "worse", "not comparable")}
    RESULT.write_text(json.dumps(results, indent=2) + "\n")
    sys.stdout.write(RESULT.read_text())
    return 0


def _differs(peer: Peer, seed: int, name: str) -> bool:
    case = random_case(seed, name)
    kafkas = {member: sorted(map(tuple, pairs)) for member, pairs in peer.ask(case)["assignment"].items()}
    return bool(kafkas != answer_of(ours(case))["assignment"])


def _compare(peer: Peer, seed: int, name: str) -> str:
    """The level at which ours is better, or what else is to be said."""
    case = random_case(seed, name)
    solution = ours(case)
    kafkas = kafkas_plan(peer, case, solution.problem)
    if kafkas is None:
        return "not comparable"
    mine, theirs = (rank(evaluate(solution.problem, owner)) for owner in (solution.owner, kafkas))
    if mine == theirs:
        return "equal"
    if mine > theirs:
        return "worse"
    return next(level for level, a, b in zip(LEVELS, mine, theirs, strict=True) if a != b)
