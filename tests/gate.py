"""Runs the checks of `scripts/test` room by room, tries what failed on real brokers once more, and keeps the result.

The gate is what every change must pass; `--all` runs the tests with the mark `extended` as well, in random order and
with more examples. The live room, which mostly waits, has a lane of its own beside the others; scripts/room sets up
what a room needs when it is its turn. A room that fails does not keep the others from running, so one run shows all.
Each pytest adds its results to the file that TEST_RESULTS names (`tests.conftest`). The whole result is kept in
build/last-test.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
RESULT: Final = ROOT / "build" / "last-test.json"
LANES: Final = (("live",), ("static", "unit", "parity", "chart", "spark"))
"""Rooms that run one after the other; the lanes run beside each other."""
ROOMS: Final = tuple(room for lane in LANES for room in lane)
_SEED: Final = "20260101"
"""The order of the gate's tests; `--all` has another each time."""
_PATIENT: Final = {"SANDBOX_PATIENCE": "3"}
"""What waits for a fact may wait three times as long as usual: the machine may be busy."""
_MAX_SECOND_TRIES: Final = 3
_SECOND_TRIES: Final = "live"
"""The room of second tries."""
_BUSY_LOOPS: Final = 4
_TESTS_FAILED: Final = 1
_NO_TESTS: Final = 5
"""pytest's exit codes: tests failed, and no test was run."""
_LEADING: Final = (
    *("accepting_plans", "back_off", "broker_facts", "election", "failures", "following", "guest", "guest_streams"),
    *("kafka_versions", "supervisor", "takeover", "taking_the_lead"),
)
"""The live tests of leading, which SANDBOX_KAFKA_VERSION runs on older brokers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A command of a room."""

    name: str  # what it checks
    line: tuple[str, ...]  # program and arguments
    room: str  # the room whose set-up it needs
    retried: bool = False  # whether its failures may be tried once more
    alone: bool = False  # whether nothing else may run beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A test that failed."""

    test: str  # pytest's node id, or the name of a step without tests
    message: str  # the end of what it said
    final: bool = True  # no second try excuses it


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a step, or several, came to."""

    failed: list[Failure] = field(default_factory=list)
    passed: int = 0
    seconds: float = 0.0


_OLDEST_STREAMS: Final = Step(
    name="the task assignor on the oldest Kafka Streams",
    line=("bash", "-euo", "pipefail", "-c", "source scripts/lib.sh && test_streams_assignor"),
    room="parity",
)


def _pytest(*arguments: str, every: bool) -> tuple[str, ...]:
    """The command line of a pytest of the gate, or of a whole run."""
    effort = ("thorough",) if every else ("gate", "--randomly-seed", _SEED)
    return (sys.executable, "-m", "pytest", "--hypothesis-profile", *effort, *arguments)


def _marked(marks: str, *, every: bool) -> tuple[str, str]:
    return "-m", marks if every else f"({marks}) and not extended"


def _in_room(room: str, line: Sequence[str], *options: str, every: bool) -> tuple[str, ...]:
    """The command line of a program in a room that is set up for it."""
    return ("scripts/room", *options, *(["--all"] if every else []), room, *line)


def steps(room: str, more: Sequence[str], *, every: bool, beside: bool = False) -> list[Step]:
    """Return what a room runs.

    Args:
        room: one of `ROOMS`, or `leading`.
        more: arguments for each pytest.
        every: also what only `--all` runs.
        beside: another lane runs beside it.
    """

    def tests(name: str, marks: str, *arguments: str, retried: bool = False, alone: bool = False) -> Step:
        line = _pytest(*_marked(marks, every=every), *arguments, *more, every=every)
        return Step(name=name, line=line, room=room, retried=retried, alone=alone)

    files = ("--dist", "loadfile", "--no-loadscope-reorder")
    two, three = (("--numprocesses", count, *files) for count in ("2", "3"))
    match room:
        case "static":
            return _static(every=every)
        case "unit":
            # each worker loads all tests, a tenth of the work; and tests/parity has some that need no Java
            spread = () if beside else ("--numprocesses", "2", "--dist", "worksteal")
            return [tests("unit tests", "not parity", *spread, "tests/unit", "tests/parity")]
        case "parity":
            parity = tests("parity with Kafka's classes", "parity", *two, "tests/parity")
            return [parity, _OLDEST_STREAMS] if every else [parity]
        case "chart":
            return [tests("the chart", "helm", *two, "tests/helm")]
        case "spark":
            return [tests("the pipeline on Spark", "spark", "tests/spark")]
        case "leading":
            paths = [f"tests/integration/test_{name}.py" for name in _LEADING]
            line = _pytest("-m", "integration", *paths, *more, every=True)
            return [Step(name="leading", line=line, room="live", retried=True)]
        case "live":
            live = "tests/integration"
            shared = tests("tests on a shared cluster", "integration and not own_cluster and not alone", *three, live)
            own = tests("tests on clusters of their own", "integration and own_cluster and not alone", *two, live)
            alone = tests("tests that run alone", "integration and alone", live, alone=True)
            everything = [shared, own, alone]
            return everything if every else [tests("tests on real brokers", "integration", *two, live, retried=True)]
    raise ValueError(room)


def _static(*, every: bool) -> list[Step]:
    lines = {
        "format": ("ruff", "format", "--check", "."),
        "lint": ("ruff", "check", "."),
        "types": ("mypy",),
        "layers": ("lint-imports",),
    }
    if shutil.which("shellcheck"):
        scripts = [
            *(one for one in (ROOT / "scripts").iterdir() if one.is_file()),
            ROOT / ".ci" / "run",
            ROOT / "tests" / "integration" / "image" / "run",
        ]
        bash = [path for path in scripts if "bash" in path.read_text(encoding="utf-8").partition("\n")[0]]
        # with what scripts source, read anew for each, it takes forty times as long; it follows all that it is given
        options = "-x" if every else "--exclude=SC1091,SC2154"
        each = 'status=0; for one; do shellcheck "$0" "$one" || status=1; done; exit "$status"'
        lines["shell"] = ("bash", "-c", each, options, *map(str, bash))
    else:
        _show("samerack: no shellcheck at hand; the shell scripts are not checked")
    return [Step(name=name, line=line, room="static") for name, line in lines.items()]


def _show(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - the program's output


class Programs:
    """The programs that run now, in several threads; all of them end with this one."""

    def __init__(self) -> None:
        """Create an empty set."""
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def run(self, line: Sequence[str], environment: Mapping[str, str], *, shown: bool) -> int:
        """Run a program to its end; what it says is shown at once, or in one piece at its end.

        Returns:
            Its exit code; that of an interrupted one after `stop`.
        """
        with tempfile.TemporaryFile() as said:
            out = None if shown else said
            with self._lock:
                if self._stopped:
                    return -signal.SIGINT
                process = subprocess.Popen(
                    line, cwd=ROOT, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=out, stderr=out
                )
                self._running.add(process)
            try:
                return process.wait()
            except KeyboardInterrupt:  # only where the main thread waits: lanes are stopped from there
                self.stop()
                process.wait()
                raise
            finally:
                with self._lock:
                    self._running.discard(process)
                said.seek(0)
                sys.stderr.buffer.write(said.read())
                sys.stderr.flush()

    def stop(self) -> None:
        """Interrupts all of them; none is started any more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGINT)  # a second one does no harm where a terminal has sent it already


def _results(file: Path) -> Outcome:
    """Read what pytests have added to a file."""
    outcome = Outcome()
    for line in file.read_text(encoding="utf-8").splitlines():
        result = json.loads(line)
        if "test" in result:
            outcome.failed.append(Failure(test=result["test"], message=result["message"], final=result["final"]))
        else:
            outcome.passed += result["passed"]
    return outcome


class Runner:
    """Runs the steps of a whole run, and gathers what they came to."""

    def __init__(self, environment: Mapping[str, str], *, every: bool, may_be_empty: bool = False) -> None:
        """Create a runner.

        Args:
            environment: what programs get beside ours.
            every: also what only `--all` runs.
            may_be_empty: that no test is run is not a failure: arguments such as -k left none.
        """
        self.table: list[dict[str, Any]] = []  # a row for each step that has ended
        self.failed: list[Failure] = []  # what failed for good
        self.tried: list[Failure] = []  # what passed at the second try only
        self._again: list[Failure] = []
        self._environment = dict(environment)
        self._every = every
        self._may_be_empty = may_be_empty
        self._programs = Programs()

    def lanes(self, lanes: Sequence[Sequence[Step]]) -> None:
        """Run steps lane by lane, beside each other, then those that run alone; the first lane is shown as it runs."""
        with ThreadPoolExecutor(max(1, len(lanes))) as pool:
            try:
                list(pool.map(self._lane, lanes, [True, *[False] * len(lanes)]))
            except KeyboardInterrupt:
                self._programs.stop()
                raise
        for step in (step for lane in lanes for step in lane if step.alone):
            self.add(step)

    def _lane(self, steps: Sequence[Step], shown: bool) -> None:  # noqa: FBT001 - Executor.map gives no keywords
        for step in steps:
            if not step.alone:
                self.add(step, shown=shown)

    def add(self, step: Step, *, shown: bool = True) -> None:
        """Run a step."""
        outcome = self.execute(step, shown=shown)
        self.table.append(_row(step, outcome))
        (self._again if step.retried else self.failed).extend(outcome.failed)

    def execute(self, step: Step, *, shown: bool = True) -> Outcome:
        """Run a step and return what it came to."""
        begun = time.monotonic()
        _show(f"--- {step.name}")
        line = _in_room(step.room, step.line, every=self._every)
        with tempfile.NamedTemporaryFile(prefix="samerack-results-") as file:
            environment = {**self._environment, "TEST_RESULTS": file.name}
            code = self._programs.run(line, environment, shown=shown)
            outcome = _results(Path(file.name))
        explained = (
            code == 0 or (code == _TESTS_FAILED and outcome.failed) or (code == _NO_TESTS and self._may_be_empty)
        )
        if not explained:  # a crash may hide tests that would have failed, so no second try excuses it
            outcome.failed.append(Failure(test=step.name, message=f"exit code {code}: {' '.join(step.line[:6])} ..."))
        outcome.seconds = time.monotonic() - begun
        _show(f"--- {step.name}: {'failed after ' if outcome.failed else ''}{outcome.seconds:.0f} s")
        return outcome

    def second_tries(self) -> None:
        """Run live tests that failed once more, alone, after all others.

        At most three tests of a run have a second try, and never what is final: a record that is lost or read twice.
        """
        again, self._again = self._again, []
        if 0 < len(again) <= _MAX_SECOND_TRIES and not any(failure.final for failure in again):
            line = _pytest("-m", "integration", *(failure.test for failure in again), every=self._every)
            step = Step(name=f"a second try of {len(again)}", line=line, room=_SECOND_TRIES)
            repeated = self.execute(step)
            self.table.append(_row(step, repeated))
            if not repeated.failed and repeated.passed == len(again):
                self.tried, again = again, []
        self.failed += again


def run(rooms: Sequence[str], more: Sequence[str], *, every: bool) -> bool:
    """Run rooms, keep and print the result; return whether all passed."""
    begun, commit, clean = time.monotonic(), _git("rev-parse", "HEAD"), not _git("status", "--porcelain")
    environment = {**_PATIENT, **({"TEST_ALL": "1"} if every else {})}
    ordered = [[room for room in lane if room in rooms] for lane in (*LANES, ("leading",))]
    ordered = [lane for lane in ordered if lane]
    beside = len(ordered) > 1
    lanes = [[step for room in lane for step in steps(room, more, every=every, beside=beside)] for lane in ordered]
    with ExitStack() as stack:
        if "live" in rooms:
            environment |= stack.enter_context(_cluster(every=every))
        runner = Runner(environment, every=every, may_be_empty=bool(more))
        runner.lanes(lanes)
        runner.second_tries()
    result = {
        "commit": commit,
        "clean": clean,
        "rooms": list(rooms),
        "all": every,
        "seconds": round(time.monotonic() - begun),
        "failed": [failure.test for failure in runner.failed],
        "second_tries": [{"test": failure.test, "first_failure": failure.message} for failure in runner.tried],
        "steps": runner.table,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    _report(result, runner.failed)
    return not runner.failed


def _row(step: Step, outcome: Outcome) -> dict[str, Any]:
    return {
        "room": step.room,
        "step": step.name,
        "seconds": round(outcome.seconds),
        "passed": outcome.passed,
        "failed": len(outcome.failed),
    }


def _report(result: Mapping[str, Any], failed: Sequence[Failure]) -> None:
    for row in result["steps"]:
        _show(
            f"{row['seconds']:>6} s  {row['passed']:>5} passed {row['failed']:>3} failed  {row['room']}: {row['step']}"
        )
    _show(f"{result['seconds']:>6} s  in all; kept in {RESULT.relative_to(ROOT)}")
    for tried in result["second_tries"]:
        _show(f"samerack: passed at the second try only: {tried['test']}\n{tried['first_failure']}")
    for failure in failed:
        _show(f"samerack: failed: {failure.test}\n{failure.message}")
    _show(f"{sum(row['passed'] for row in result['steps'])} passed, {len(failed)} failed")


def _git(*arguments: str) -> str:
    done = subprocess.run(("git", *arguments), cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


@contextmanager
def _cluster(*, every: bool) -> Iterator[dict[str, str]]:
    """Keep the cluster that live tests share; it ends with this program, however that ends."""
    with tempfile.TemporaryDirectory(prefix="samerack-cluster-") as folder:
        file = Path(folder) / "cluster.json"
        keep = (sys.executable, "-m", "tests.integration.shared_cluster", str(file))
        line = _in_room("live", keep, "--silent", every=every)
        process = subprocess.Popen(line, cwd=ROOT, stdin=subprocess.PIPE)
        try:
            yield {"SANDBOX_CLUSTER": str(file)}
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()


@contextmanager
def busy(count: int = _BUSY_LOOPS) -> Iterator[None]:
    """Keep processors busy with this many loops meanwhile."""
    loops = [subprocess.Popen((sys.executable, "-c", "while True: pass")) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def repeat(times: int, more: Sequence[str]) -> bool:
    """Run tests several times beside busy loops; return whether they passed each time."""
    runner = Runner(_PATIENT, every=True)
    with busy():
        for number in range(1, times + 1):
            runner.add(Step(name=f"run {number} of {times}", line=_pytest(*more, every=False), room="live"))
    return not runner.failed


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments name; return the exit code."""
    parser = argparse.ArgumentParser(prog="tests.gate")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--gate", action="store_true")
    parser.add_argument("--room", action="append", choices=(*ROOMS, "leading"))
    parser.add_argument("--repeat", type=int)
    given, more = parser.parse_known_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # children end as after Ctrl-C
    try:
        if given.repeat:
            return 0 if repeat(given.repeat, more) else 1
        # a room that is asked for by name is run whole
        every = given.all or (bool(given.room) and not given.gate)
        return 0 if run(given.room or ROOMS, more, every=every) else 1
    except KeyboardInterrupt:
        _show("samerack: interrupted; nothing is kept of this run")
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
