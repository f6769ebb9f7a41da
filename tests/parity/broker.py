"""The brokers' assignor `samerack` (Java), compared with the Python engine on random groups."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from samerack.assignors.check import check
from samerack.assignors.consumer.optimal import Options, assign
from samerack.assignors.evaluate import evaluate
from tests.parity.cases import random_case
from tests.parity.peer import QUIET, Peer
from tests.parity.plans import owners, problem_of

if TYPE_CHECKING:
    from samerack.assignors.problem import Cost

ROOT: Final = Path(__file__).parents[2]
CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "samerack"
_COORDINATOR: Final = re.compile(r"kafka-(group-coordinator|coordinator-common)-\d")
OPTIONS: Final = (Options(), Options(), Options(max_skew=1), Options(max_skew=3), Options(keep_copartitioned=True))
"""Options of the cases, in turns; half of the cases have the defaults or close to it."""


def build() -> None:
    """Build the assignor and its proof, unless that is done.

    Raises:
        RuntimeError: the build failed.
    """
    built = subprocess.run(
        ["bash", "-c", "source scripts/lib.sh && setup_broker_proof"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode:
        raise RuntimeError(f"the brokers' assignor could not be built:\n{built.stderr}")


def java(
    main: str, *arguments: str, options: tuple[str, ...] = (), oldest: bool = False, coordinator: bool = True
) -> list[str]:
    """Return the command that runs a class of the proof with the assignor's jar as brokers load it.

    Args:
        main: class in the assignor's package, or the full name of another one.
        arguments: of the class.
        options: of the JVM.
        oldest: whether Kafka 4.0's interfaces come first, which do not have all questions that later ones have.
        coordinator: whether the classes of Kafka's coordinator are there, not only its interfaces.
    """
    home = os.environ.get("JAVA_HOME")
    path = [
        *([f"{CACHE / 'broker-oldest'}/*"] if oldest else []),
        str(CACHE / "java" / "samerack-broker-proof.jar"),
        str(CACHE / "java" / "samerack-broker-assignor.jar"),
        *(
            str(jar)
            for jar in (CACHE / "broker-proof").glob("*.jar")
            if coordinator or not _COORDINATOR.match(jar.name)
        ),
    ]
    name = main if "." in main else f"io.samerack.broker.{main}"
    program = str(Path(home) / "bin" / "java") if home else "java"
    return [program, QUIET, *options, "-cp", ":".join(path), name, *arguments]


class BrokerPeer(Peer):
    """One JVM with the brokers' assignor; a context manager."""

    def __init__(self) -> None:
        """Build and start it."""
        build()
        self._process = subprocess.Popen(
            java("BrokerPeer", options=("-Xmx512m", "-XX:+UseSerialGC")),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )


def compare(peer: Peer, seed: int, *, again: bool = True) -> str | None:
    """Return how the brokers' assignor differs in cost from the Python engine in a case, None if it does not.

    Args:
        peer: the brokers' assignor.
        seed: of the case.
        again: whether a second run must move nothing.

    Raises:
        AssignmentError: the plan is not valid.
    """
    options = OPTIONS[seed // 8 % len(OPTIONS)]  # families of cases alternate with the seed
    case = random_case(seed, "optimal")
    answer = peer.ask(case | {"properties": _properties(options)})
    problem = problem_of(case)
    theirs = owners(problem, answer)
    check(problem, theirs, cooperative=False)
    expected, found = (_rank(evaluate(problem, owner), options) for owner in (assign(problem, options), theirs))
    if answer["plain"]:
        return f"seed {seed}: a plain plan"
    if expected != found:
        return f"seed {seed}, {options}: expected {expected}, got {found}"
    if again:
        balanced = [member | {"owned": answer["assignment"][member["id"]]} for member in case["members"]]
        second = peer.ask(case | {"members": balanced, "properties": _properties(options)})
        if not np.array_equal(owners(problem, second), theirs):
            return f"seed {seed}: a second run moves"
    return None


def _properties(options: Options) -> dict[str, Any]:
    return {
        "samerack.assignor.max.skew": str(options.max_skew),
        "samerack.assignor.keep.copartitioned": str(options.keep_copartitioned).lower(),
    }


def _rank(cost: Cost, options: Options) -> tuple[int, ...]:
    """The values that are compared; bundles are balanced by the exhaustive proof's own measure."""
    if options.keep_copartitioned:
        return cost.cross_rack, cost.moved
    if options.max_skew:
        return cost.cross_rack, cost.sum_of_squares, cost.moved
    return cost.sum_of_squares, cost.cross_rack, cost.moved
