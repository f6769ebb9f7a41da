"""Settings for all tests: examples of Hypothesis, garbage is found fast, and failures are kept for scripts/test."""

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine may be slow, so there is no deadline. Examples differ from run to run: the few of each run find what
# breaks often, and further runs the rest.
settings.register_profile("house", deadline=None, max_examples=20)
settings.register_profile("thorough", deadline=None, max_examples=100)
settings.load_profile("house")

_MESSAGE_CHARACTERS = 1_500
"""The end of a failure's message that is kept."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Looks for no garbage while modules are loaded, a fifth of the time, and never in what they have loaded."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Appends each failure and its message to the file that FAILURES_FILE names: scripts/test ends with all of them."""
    file = os.environ.get("FAILURES_FILE")
    failures = [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]
    if file is None or not failures or "PYTEST_XDIST_WORKER" in os.environ:
        return
    with Path(file).open("a") as kept:
        for failure in failures:
            crash = getattr(failure.longrepr, "reprcrash", None)
            message = failure.longreprtext if crash is None else f"{crash.path}:{crash.lineno}: {crash.message}"
            kept.write(f"{failure.nodeid}\n{message[-_MESSAGE_CHARACTERS:]}\n")
