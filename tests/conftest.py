"""Settings for all tests: what belongs to the gate, Hypothesis' examples, and the results for scripts/test."""

import gc
import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine may be slow, so there is no deadline. In the gate the examples are the same in each run, so that a run
# that fails shows an effect of the change; `scripts/test --all` tries five times as many, and others each time.
settings.register_profile("house", deadline=None, max_examples=20)
settings.register_profile("gate", deadline=None, max_examples=20, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=100)
settings.load_profile("house")

_PROMISED = tuple(Path(__file__).parent / room for room in ("integration", "spark"))
"""Rooms whose tests are in the gate only if they name the promise that they prove."""
_FINAL = "final"
"""The property of a failure that no second try excuses."""
_MESSAGE_CHARACTERS = 1_500
"""The end of a failure's message that is kept."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while modules are loaded, a fifth of the time, and never in what they have loaded."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark as `extended` a test on real brokers or Spark that names no promise."""
    if any(item.path.is_relative_to(room) for room in _PROMISED) and item.get_closest_marker("promise") is None:
        item.add_marker(pytest.mark.extended)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note a failure that no second try excuses: its exception has the attribute `final`."""
    report = yield
    if call.excinfo is not None and getattr(call.excinfo.value, "final", False):
        report.user_properties.append((_FINAL, True))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Append the results to the file that TEST_RESULTS names: a JSON line for each failure, and one with counts."""
    file = os.environ.get("TEST_RESULTS")
    if file is None or "PYTEST_XDIST_WORKER" in os.environ:
        return
    failures = [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]
    with Path(file).open("a", encoding="utf-8") as kept:
        for failure in failures:
            crash = getattr(failure.longrepr, "reprcrash", None)
            message = failure.longreprtext if crash is None else f"{crash.path}:{crash.lineno}: {crash.message}"
            line = {
                "test": failure.nodeid,
                "message": message[-_MESSAGE_CHARACTERS:],
                "final": (_FINAL, True) in failure.user_properties,
            }
            kept.write(json.dumps(line) + "\n")
        counts = {"passed": len(terminalreporter.getreports("passed")), "failed": len(failures)}
        kept.write(json.dumps(counts) + "\n")
