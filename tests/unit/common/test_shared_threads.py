"""Services that share threads: each goes on at its time, whatever the others do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from samerack.common import shared_threads
from samerack.common.shared_threads import Rest, SharedService, SharedThreads

WAIT_SECONDS = 10.0


class _Counting(SharedService):
    """Counts its steps, and may wait in one for as long as a test wants."""

    def __init__(self, threads: SharedThreads, pause: Rest, name: str = "counting") -> None:
        super().__init__(name, threads)
        self._pause = pause
        self.steps = 0
        self.stepped = threading.Semaphore(0)
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def work(self) -> Iterator[Rest]:
        """Take one step after the other."""
        while not self._stopping.is_set():
            self.steps += 1
            self.stepped.release()
            self.may_go_on.wait(WAIT_SECONDS)
            yield self._pause

    def takes(self, steps: int) -> bool:
        """Whether it takes so many more steps soon."""
        return all(self.stepped.acquire(timeout=WAIT_SECONDS) for _ in range(steps))


def _end(*services: _Counting) -> None:
    for one in services:
        one.may_go_on.set()
        one.stop()
    for one in services:
        one.join(WAIT_SECONDS)
        assert not one.is_alive()


def test_a_service_that_is_kept_waiting_delays_no_other() -> None:
    """Steps that block take a thread each, and others get threads of their own."""
    threads = SharedThreads("test")
    slow = [_Counting(threads, Rest(None)) for _ in range(8)]
    for one in slow:
        one.may_go_on.clear()
        one.start()
    assert all(one.takes(1) for one in slow)
    quick = _Counting(threads, Rest(0.01))
    quick.start()
    assert quick.takes(5)
    _end(quick, *slow)


def test_many_services_take_few_threads() -> None:
    """Services that pause hold no thread."""
    threads = SharedThreads("few")
    services = [_Counting(threads, Rest(0.05)) for _ in range(500)]
    for one in services:
        one.start()
    assert all(one.takes(3) for one in services)
    assert sum(one.name == "few" for one in threading.enumerate()) < 50
    _end(*services)


def test_a_wake_ends_a_pause_and_counts_once() -> None:
    """A service that is woken during a step skips the pause after it."""
    service = _Counting(SharedThreads("test"), Rest(None))
    service.may_go_on.clear()
    service.start()
    assert service.takes(1)
    service.wake()
    service.may_go_on.set()
    assert service.takes(1)
    assert not service.stepped.acquire(timeout=0.1)
    service.wake()
    assert service.takes(1)
    _end(service)


def test_a_pause_that_must_not_hurry_ends_in_its_time_or_with_a_stop() -> None:
    """After a failure no event starts the next attempt earlier."""
    service = _Counting(SharedThreads("test"), Rest(None, may_hurry=False))
    service.start()
    assert service.takes(1)
    service.wake()
    assert not service.stepped.acquire(timeout=0.1)
    _end(service)
    assert service.steps == 1


def test_an_error_that_nothing_handles_ends_only_its_service(capsys: pytest.CaptureFixture[str]) -> None:
    """The thread goes on with other services, and the error is logged."""

    class Breaks(_Counting):
        def work(self) -> Iterator[Rest]:
            yield Rest(0)
            raise ValueError("unforeseen")

    threads = SharedThreads("test")
    breaks, other = Breaks(threads, Rest(0), "breaks"), _Counting(threads, Rest(0.01))
    breaks.start()
    other.start()
    breaks.join(WAIT_SECONDS)
    assert not breaks.is_alive()
    assert other.takes(3)
    _end(other)
    assert "unforeseen" in "".join(capsys.readouterr())


def test_an_error_that_cannot_be_logged_ends_its_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody read the log any more, a service that had failed counted as alive and was never begun again."""

    class Breaks(_Counting):
        def work(self) -> Iterator[Rest]:
            yield Rest(0)
            raise ValueError("unforeseen")

    monkeypatch.setattr(shared_threads, "log", Mock(exception=Mock(side_effect=BrokenPipeError)))
    threads = SharedThreads("test")
    breaks = Breaks(threads, Rest(0), "breaks")
    breaks.start()
    breaks.join(WAIT_SECONDS)
    assert not breaks.is_alive()
    other = _Counting(threads, Rest(0.01))
    other.start()
    assert other.takes(3)
    _end(other)


def test_a_thread_that_the_system_refuses_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps wait until there may be a thread again; the clock that adds them goes on."""
    start, refused = threading.Thread.start, threading.Semaphore(0)
    allowed = threading.Event()

    def start_if_allowed(thread: threading.Thread) -> None:
        if thread.name == "refused" and not allowed.is_set():
            refused.release()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_if_allowed)
    service = _Counting(SharedThreads("refused"), Rest(0.01))
    service.start()
    assert all(refused.acquire(timeout=WAIT_SECONDS) for _ in range(3))
    assert service.steps == 0
    allowed.set()
    assert service.takes(3)
    _end(service)
