"""The rules of `tests.gate`, on programs that report results as pytest does: what is red, what has a second try."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence

import pytest

from tests import gate
from tests.docs import ROOT
from tests.gate import Runner, Step


def _program(
    *, passed: int = 0, failed: Sequence[str] = (), final: bool = False, code: int | None = None
) -> Sequence[str]:
    """A program that reports these results, and ends with this code, by default as pytest would."""
    lines = [json.dumps({"test": name, "message": "why", "final": final}) for name in failed]
    lines.append(json.dumps({"passed": passed, "failed": len(failed)}))
    ends = (1 if failed else 0) if code is None else code
    text = "".join(f"{line}\n" for line in lines)
    return (sys.executable, "-c", f"import os; open(os.environ['TEST_RESULTS'], 'a').write({text!r}); exit({ends})")


def _step(line: Sequence[str], *, retried: bool = False, alone: bool = False, name: str = "step") -> Step:
    return Step(name=name, line=tuple(line), room="static", retried=retried, alone=alone)


def _run(*steps: Step, may_be_empty: bool = False) -> Runner:
    runner = Runner({}, every=False, may_be_empty=may_be_empty)
    runner.lanes([steps])
    runner.second_tries()
    return runner


def _again(monkeypatch: pytest.MonkeyPatch, line: Sequence[str]) -> None:
    """Make this program the second try."""
    monkeypatch.setattr(gate, "_pytest", lambda *_arguments, **_named: tuple(line))
    monkeypatch.setattr(gate, "_SECOND_TRIES", "static")


def _names(runner: Runner) -> list[str]:
    return [failure.test for failure in runner.failed]


def test_what_passes_is_green() -> None:
    """Its tests are counted."""
    runner = _run(_step(_program(passed=3)))
    assert (_names(runner), [row["passed"] for row in runner.table]) == ([], [3])


@pytest.mark.parametrize(
    ("line", "red"),
    [
        (_program(failed=["a", "b"]), ["a", "b"]),
        (_program(code=5), ["step"]),  # no test was run
        (_program(passed=1, code=3), ["step"]),
        (_program(failed=["a"], code=3), ["a", "step"]),  # a crash may hide other failures
        (_program(code=1), ["step"]),  # nobody says what failed
        (("false",), ["step"]),
    ],
)
def test_what_fails_is_red(line: Sequence[str], red: list[str]) -> None:
    """Also a room in which nothing ran, and a crash beside a failed test."""
    assert _names(_run(_step(line))) == red


def test_no_test_is_no_failure_where_the_caller_chose_tests() -> None:
    """With -k, a room may have none."""
    assert _names(_run(_step(_program(code=5)), may_be_empty=True)) == []


def test_a_second_try_that_passes_excuses_and_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first failure is kept."""
    _again(monkeypatch, _program(passed=2))
    runner = _run(_step(_program(passed=9, failed=["a", "b"]), retried=True))
    assert (_names(runner), [failure.test for failure in runner.tried]) == ([], ["a", "b"])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (_program(failed=["a"], final=True), _program(passed=1)),
        (_program(failed=["a", "b", "c", "d"]), _program(passed=4)),  # too many for chance
        (_program(failed=["a"]), _program(failed=["a"])),
        (_program(failed=["a"]), _program(passed=0)),  # it ran nothing
        (_program(failed=["a"]), _program(passed=1, code=3)),
        (_program(failed=["a"], code=3), _program(passed=1)),
    ],
)
def test_a_second_try_excuses_nothing_else(
    first: Sequence[str], second: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost records, a fourth failure, a crash, and a second try that does not run what failed."""
    _again(monkeypatch, second)
    runner = _run(_step(first, retried=True))
    assert "a" in _names(runner)
    assert runner.tried == []


def test_only_live_tests_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit test that fails once is a failure."""
    _again(monkeypatch, _program(passed=1))
    assert _names(_run(_step(_program(failed=["a"])))) == ["a"]


def test_a_failure_keeps_no_other_step_from_running_and_those_alone_come_last() -> None:
    """Lanes run beside each other; what runs alone waits for all of them."""
    runner = Runner({}, every=False)
    steps = [_step(_program(passed=1), alone=alone, name=name) for name, alone in (("last", True), ("first", False))]
    runner.lanes([[*steps, _step(_program(failed=["a"]), name="second")], [_step(_program(passed=1), name="beside")]])
    ran = [row["step"] for row in runner.table]
    assert sorted(ran) == ["beside", "first", "last", "second"]
    assert ran[-1] == "last"
    assert _names(runner) == ["a"]


def test_after_an_interrupt_nothing_is_started() -> None:
    """The lanes end with what runs."""
    programs = gate.Programs()
    programs.stop()
    assert programs.run(("true",), {}, shown=True) != 0


def test_files_that_tests_name_exist() -> None:
    """A test that is left to another file of tests is in it; a file that was moved excused two commands for nothing."""
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")}
    named = {(path.name, name) for path, text in texts.items() for name in re.findall(r"\btests/[\w/]+\.py", text)}
    assert named
    assert [one for one in sorted(named) if not (ROOT / one[1]).exists()] == []
