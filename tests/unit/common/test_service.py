"""Services: a failed turn ends nothing, is logged once, and is followed by the pause of its kind."""

from __future__ import annotations

import threading

import pytest
from structlog.testing import capture_logs

from samerack.common import service as service_module
from samerack.common.errors import AgentError, RefusedError
from samerack.common.service import REFUSALS, REQUESTS, Attempts, RetryPauses, Service
from tests.unit.waiting import LONGEST_SECONDS, until

SHORT = RetryPauses(first=0.01, most=0.01)
LONG = RetryPauses(first=600.0, most=600.0)


class Scripted(Service):
    """Each turn raises or returns the next of these; then it stops."""

    def __init__(self, *outcomes: Exception | float, retries: RetryPauses = SHORT) -> None:
        super().__init__("scripted", retries=retries)
        self.outcomes = list(outcomes)
        self.seen: list[Exception] = []
        self.turns = 0
        self.after: list[tuple[str, bool]] = []
        self.has_ended = False
        self.failed_once = threading.Event()

    def turn(self) -> float:
        """Take the next outcome."""
        self.turns += 1
        self.after.append((self.last_error, self.was_refused))
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is None:
            self.stop()
            return 0.0
        return outcome

    def failed(self, error: Exception) -> None:
        """Store it."""
        self.seen.append(error)
        self.failed_once.set()

    def ended(self) -> None:
        """Note it."""
        self.has_ended = True


class Patient(Scripted):
    """`wake` does not shorten its pauses after failures."""

    may_hurry = False


def test_no_failure_ends_a_service() -> None:
    """The same failure is logged once, an unexpected one with its traceback; a success forgets both."""
    again = AgentError("no answer")
    one = Scripted(again, again, ValueError("a mistake"), 0.0, again)
    with capture_logs() as logs:
        one.run()
    assert one.seen == [again, again, one.seen[2], again]
    assert [(line["log_level"], line["error"]) for line in logs] == [
        ("warning", "no answer"),
        ("error", "ValueError: a mistake"),
        ("warning", "no answer"),
    ]
    texts = ["", "no answer", "no answer", "ValueError: a mistake", "", "no answer"]
    assert one.after == [(text, False) for text in texts]
    assert one.has_ended


class Overtaken(Scripted):
    """`stop` comes after the thread has looked whether to stop, and before it has cleared the wake."""

    def turn(self) -> float:
        """Be stopped without a wake."""
        self._stopping.set()
        return super().turn()


@pytest.mark.parametrize("outcome", [600.0, AgentError("gone"), RefusedError("wrong")])
def test_a_stop_is_never_slept_through(outcome: Exception | float, started: list[Service]) -> None:
    """A service that is asked to stop at the beginning of a turn does not rest after it."""
    one = Overtaken(outcome, retries=LONG)
    started.append(one)
    with capture_logs():
        one.start()
        one.join(LONGEST_SECONDS)
    assert one.has_ended


def test_a_last_step_that_fails_is_logged() -> None:
    """What fails at the end is seen in the log, not in the thread's traceback alone."""

    class Broken(Scripted):
        def ended(self) -> None:
            raise ValueError("a mistake")

    with capture_logs() as logs:
        Broken().run()
    assert [line["error"] for line in logs] == ["ValueError: a mistake"]


def test_a_refusal_has_pauses_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """They double, and any other outcome begins them anew."""
    monkeypatch.setattr(service_module, "REFUSALS", RetryPauses(first=0.01, most=0.04))
    one = Scripted(RefusedError("wrong password"), RefusedError("wrong password"), AgentError("gone"))
    with capture_logs():
        one.run()
    assert one.after == [("", False), ("wrong password", True), ("wrong password", True), ("gone", False)]
    assert one._refusals.failures == 0


@pytest.mark.parametrize(
    ("kind", "error", "hurries"),
    [
        (Scripted, AgentError("gone"), True),
        (Scripted, RefusedError("wrong"), False),
        (Patient, AgentError("gone"), False),
    ],
)
def test_waking_shortens_a_pause_unless_that_changes_nothing(
    kind: type[Scripted],
    error: Exception,
    hurries: bool,  # noqa: FBT001 - a column of the table
    started: list[Service],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Something new to do is no reason to ask brokers again that refuse the agent."""
    monkeypatch.setattr(service_module, "REFUSALS", LONG)
    one = kind(error, 600.0, retries=LONG)
    started.append(one)
    with capture_logs():
        one.start()
        assert one.failed_once.wait(LONGEST_SECONDS)
        one.wake()
        assert not hurries or until(lambda: one.turns > 1)
    assert one.turns == (2 if hurries else 1)


def test_pauses_double_up_to_their_limit() -> None:
    """Refusals: 2, 4, 8 ... a minute. Requests: two failures without a pause, then 0.1 s to 0.5 s."""
    refusals, requests = Attempts(REFUSALS), Attempts(REQUESTS)
    assert [refusals.failed() for _ in range(7)] == [2, 4, 8, 16, 32, 60, 60]
    assert [requests.failed() for _ in range(6)] == [0, 0, 0.1, 0.2, 0.4, 0.5]
    requests.succeeded()
    assert requests.pause_seconds == 0
    assert REFUSALS.after(10_000) == 60
