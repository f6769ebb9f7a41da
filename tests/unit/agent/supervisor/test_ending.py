"""When a supervisor ends: told to, it leaves groups also for a worker that died shortly before; or for a refusal."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from agent.supervisor import watchdog
from agent.supervisor.line import Presence
from agent.supervisor.watchdog import Supervisor
from common.errors import AgentError
from common.settings import SupervisorSettings

DEAD = frozenset({Presence(group="orders", member_id="samerack-1", instance_id="samerack")})
ALIVE = frozenset({Presence(group="orders", member_id="samerack-2", instance_id="samerack")})


def _worker(present: frozenset[Presence] | None, code: int) -> Any:
    """One that has ended."""
    process = SimpleNamespace(poll=lambda: code, returncode=code)
    return SimpleNamespace(present=present, process=process, listen=lambda _now: None)


@pytest.mark.parametrize(
    ("present", "code", "left"),
    [(None, 0, DEAD), (None, -9, DEAD), (frozenset(), 0, None), (ALIVE, 0, ALIVE), (ALIVE, -9, ALIVE)],
    ids=["had not joined", "died before it joined", "left by itself", "ended without leaving", "died"],
)
def test_nobody_is_left_behind(
    monkeypatch: pytest.MonkeyPatch, present: frozenset[Presence] | None, code: int, left: frozenset[Presence] | None
) -> None:
    """A successor that was in no group yet has not taken the place of the dead one up: that place is left, too."""
    supervisor = Supervisor(SupervisorSettings(), kafka={}, command=(), observing=())
    supervisor._known = DEAD
    asked: list[frozenset[Presence]] = []
    monkeypatch.setattr(supervisor, "_leave", lambda gone, **_: asked.append(gone))
    supervisor._stop(_worker(present, code))
    assert [gone for gone in asked if gone] == ([] if left is None else [left])


def test_a_worker_that_does_not_end_is_left_for_before_it_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM promises five seconds, also where the worker hangs: LeaveGroup does not wait for its end."""
    monkeypatch.setattr(watchdog, "_OVERDUE_SECONDS", 0.1)
    monkeypatch.setattr(watchdog, "_STOP_SECONDS", 0.4)
    supervisor = Supervisor(SupervisorSettings(), kafka={}, command=(), observing=())
    asked: list[tuple[frozenset[Presence], bool]] = []
    monkeypatch.setattr(supervisor, "_leave", lambda gone, *, wait: asked.append((gone, wait)))
    process = SimpleNamespace(poll=lambda: None, returncode=-9, terminate=lambda: None)
    worker: Any = SimpleNamespace(present=ALIVE, process=process, listen=lambda _now: None, kill=lambda: None)
    supervisor._stop(worker)
    assert asked == [(ALIVE, False), (ALIVE, True)]


# Lives for a while, tells how brokers received it, twice if need be, and waits, or ends with an exit code.
_WORKER = """
import socket, sys, time
from agent.supervisor.lifeline import wait_to_begin
from agent.supervisor.line import ALIVE, encode_reception
code, line = int(sys.argv[1]), socket.socket(fileno=int(sys.argv[-1]))
wait_to_begin(line)
for said in (None, None, *sys.argv[2:-1]):
    line.sendall(ALIVE if said is None else encode_reception(said))
    time.sleep(0.3)
while not code:
    line.sendall(ALIVE)
    time.sleep(0.1)
sys.exit(code)
"""


@pytest.fixture
def supervising(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, list[str]]]:
    """Runs a supervisor of such workers; its exit code, and the deaths that it took for a reason to go on."""
    monkeypatch.setattr(signal, "signal", lambda _number, _handler: None)

    def run(code: int, *received: str) -> tuple[int, list[str]]:
        command = [sys.executable, "-c", _WORKER, str(code), *received]
        supervisor = Supervisor(SupervisorSettings(spare=False), kafka={}, command=command, observing=command)
        deaths: list[str] = []

        def bury(reason: str) -> None:
            deaths.append(reason)
            supervisor._on_signal(signal.SIGTERM, None)

        monkeypatch.setattr(supervisor, "_bury", bury)
        return supervisor.run(), deaths

    return run


def test_a_refusal_from_the_start_ends_it(supervising: Callable[..., tuple[int, list[str]]]) -> None:
    """However long the worker lived, it is ended, and what brokers said is the error."""
    with pytest.raises(AgentError, match="who are you"):
        supervising(0, "who are you?")


def test_a_worker_that_fails_before_it_was_let_in_ends_it(
    supervising: Callable[..., tuple[int, list[str]]],
) -> None:
    """Its exit code is the supervisor's: it has said why."""
    assert supervising(3) == (3, [])


def test_once_let_in_it_goes_on(supervising: Callable[..., tuple[int, list[str]]]) -> None:
    """Whatever brokers say then: the worker is not ended for it, and is replaced when it dies."""
    assert supervising(3, "", "who are you?") == (0, ["exit code 3"])
