"""What a supervisor hears of its worker, and when it ends: on SIGTERM, or on a refusal; it leaves for dead workers."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from samerack.agent.assembly import STOP_SECONDS
from samerack.agent.supervisor import watchdog
from samerack.agent.supervisor.protocol import (
    ALIVE,
    HAND_OVER_SECONDS,
    RENEWS,
    ChangedIds,
    MemberIdentity,
    SettingsInForce,
    WorkerStart,
    decode,
    encode,
    encode_auth_status,
    encode_settings,
)
from samerack.agent.supervisor.watchdog import Supervisor
from samerack.agent.supervisor.watchdog_socket import WatchdogSocket
from samerack.agent.supervisor.worker import HeartbeatAge, Worker
from samerack.settings.leading import LeadingSettings
from tests.docs import ROOT
from tests.unit.agent.supervisor.programs import ProcessesOfATest, source_of_a_test
from tests.unit.waiting import LONGEST_SECONDS

DEAD = frozenset({MemberIdentity(group="orders", member_id="samerack-1", instance_id="samerack")})
IN_FORCE = source_of_a_test().in_force
SUCCESSOR = frozenset({MemberIdentity(group="orders", member_id="samerack-2", instance_id="samerack")})


def _worker(present: frozenset[MemberIdentity] | None, code: int) -> Any:
    """A worker that has ended."""
    process = SimpleNamespace(exitcode=code, terminate=lambda: None)
    return SimpleNamespace(member_ids=present, process=process, listen=lambda: None)


@pytest.mark.parametrize(
    ("present", "code", "left"),
    [(None, 0, DEAD), (None, -9, DEAD), (frozenset(), 0, None), (SUCCESSOR, 0, SUCCESSOR), (SUCCESSOR, -9, SUCCESSOR)],
    ids=["had not joined", "died before it joined", "left by itself", "ended without leaving", "died"],
)
def test_nobody_is_left_behind(
    monkeypatch: pytest.MonkeyPatch,
    present: frozenset[MemberIdentity] | None,
    code: int,
    left: frozenset[MemberIdentity] | None,
) -> None:
    """A successor that was in no group has not taken over the dead worker's place, so that place is left too."""
    supervisor = Supervisor(ProcessesOfATest())
    supervisor._known = DEAD
    asked: list[frozenset[MemberIdentity]] = []
    monkeypatch.setattr(supervisor, "_leave", lambda gone, **_: asked.append(gone))
    supervisor._stop(_worker(present, code))
    assert [gone for gone in asked if gone] == ([] if left is None else [left])


def test_what_no_successor_can_take_up_is_left_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A membership without instance id kept a group in JoinGroup, or an empty group non-empty, for its session."""
    dynamic = MemberIdentity(group="payments", member_id="samerack-3")
    pending = MemberIdentity(group="payments", member_id="samerack-4", pending=True)
    supervisor = Supervisor(ProcessesOfATest())
    supervisor._settings = IN_FORCE
    supervisor._known = DEAD | {dynamic, pending}
    asked: list[tuple[frozenset[MemberIdentity], bool]] = []
    monkeypatch.setattr(supervisor, "_leave", lambda gone, *, wait: asked.append((gone, wait)))
    supervisor._handle_worker_exit("killed")
    assert asked == [(frozenset({dynamic, pending}), False)]
    assert supervisor._known == DEAD


class _Endless:
    """A supervisor whose worker does not end, and what it does for it, in its own time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, is_silent: bool) -> None:
        self.now = 0.0
        self.left: list[tuple[frozenset[MemberIdentity], bool]] = []
        self.left_at: list[float] = []
        self.hurried_at: list[float] = []
        self.signals: list[float] = []
        self._supervisor = Supervisor(ProcessesOfATest())
        heartbeat_age = HeartbeatAge(None, now=0.0)
        self._worker: Any = SimpleNamespace(
            member_ids=SUCCESSOR,
            process=SimpleNamespace(exitcode=None, terminate=lambda: None),
            listen=(lambda: None) if is_silent else heartbeat_age.reset,
            hurry=lambda: self.hurried_at.append(self.now),
            kill=lambda: None,
            heartbeat_age=heartbeat_age,
        )
        monkeypatch.setattr(watchdog, "time", SimpleNamespace(monotonic=lambda: self.now, sleep=self._sleep))
        monkeypatch.setattr(self._supervisor, "_leave", self._leave)
        monkeypatch.setattr(self._supervisor, "_report", lambda *_, **__: None)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        while self.signals and self.signals[0] <= self.now:
            self.signals.pop(0)
            self._supervisor._on_signal(15, None)

    def _leave(self, gone: frozenset[MemberIdentity], *, wait: bool) -> None:
        self.left.append((gone, wait))
        self.left_at.append(self.now)

    def stop(self, *signals: float) -> None:
        """Pass a signal on to the worker; further ones come at these times."""
        self._supervisor._on_signal(15, None)
        self.signals = [*signals]
        self._supervisor._stop(self._worker)


@pytest.mark.parametrize("is_silent", [True, False])
def test_a_worker_that_does_not_end_is_left_for_before_it_is_killed(
    monkeypatch: pytest.MonkeyPatch, *, is_silent: bool
) -> None:
    """SIGTERM promises five seconds, also if the worker hangs: LeaveGroup does not wait for the worker's end.

    One that sends signs of life may lead for its successor meanwhile, which would be over if its groups were left.
    """
    worker = _Endless(monkeypatch, is_silent=is_silent)
    worker.stop()
    assert worker.left == [(SUCCESSOR, False), (SUCCESSOR, True)]
    if is_silent:
        assert worker.left_at[0] < 5.0 - watchdog._TURN_SECONDS
    else:
        assert HAND_OVER_SECONDS + STOP_SECONDS / 2 > worker.left_at[0] > HAND_OVER_SECONDS
    assert worker.hurried_at == []


def test_another_signal_ends_the_hand_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who sends SIGTERM again, or presses Ctrl-C again, does not want to wait; timeout(1) sends it twice at once."""
    worker = _Endless(monkeypatch, is_silent=False)
    worker.stop(0.1, 1.0)
    assert worker.hurried_at[0] == pytest.approx(1.0, abs=watchdog._TURN_SECONDS)


def test_there_is_time_for_a_hand_over() -> None:
    """The worker ends before it is killed; Docker kills after ten seconds, and a hung member's session is longer."""
    values = yaml.safe_load((ROOT / "helm/samerack/values.yaml").read_text(encoding="utf-8"))
    assert HAND_OVER_SECONDS + STOP_SECONDS / 2 < watchdog._STOP_SECONDS < 10.0
    assert values["terminationGracePeriodSeconds"] > watchdog._STOP_SECONDS + watchdog._LEAVE_SECONDS
    assert LeadingSettings().session_timeout_seconds > watchdog._STOP_SECONDS


def test_a_worker_hurries_when_its_socket_is_shut_down() -> None:
    """Another SIGTERM would mean nothing: a service manager may send the first to both processes."""
    ours, theirs = socket.socketpair()
    worker = Worker.__new__(Worker)
    worker._socket = ours
    lost = threading.Event()
    with ours, theirs:
        watchdog_socket = WatchdogSocket(
            theirs,
            settings=lambda: IN_FORCE,
            member_ids=lambda: SUCCESSOR,
            makes_progress=lambda: True,
            auth_status=lambda: "",
            on_lost=lost.set,
        )
        watchdog_socket.start()
        for _ in range(2):
            worker.hurry()
        assert lost.wait(LONGEST_SECONDS)
        watchdog_socket.join()
        watchdog_socket.send()  # the supervisor still hears which groups it is in
        assert b"samerack-2" in ours.recv(65_536)


_PROGRAM = """
import sys, time
from samerack.agent.supervisor.protocol import ALIVE, encode_auth_status
from tests.unit.agent.supervisor.programs import run_until_exit

code, received = int(sys.argv[1]), sys.argv[2:]

def work(start, line):
    for message in (ALIVE, ALIVE, *map(encode_auth_status, received)):
        line.sendall(message)
        time.sleep(0.1)
    while not code:
        line.sendall(ALIVE)
        time.sleep(0.1)
    sys.exit(code)

sys.exit(run_until_exit(work))
"""
"""A supervisor whose worker lives for a while, reports how brokers received it, and exits with a code or stays."""


@pytest.mark.parametrize(
    ("code", "received", "ended", "message"),
    [
        (0, ["who are you?"], 1, "samerack.common.errors.AgentError: who are you?"),
        (3, [], 3, ""),
        (3, ["", "who are you?"], 0, "died: exit code 3"),
    ],
    ids=["a refusal from the start", "a failure before it was let in", "a refusal once it was let in"],
)
def test_a_worker_that_brokers_never_let_in_ends_it(code: int, received: list[str], ended: int, message: str) -> None:
    """However long it has lived, the brokers' message is the error, else the worker has said why.

    Once let in it goes on: the worker is replaced when it dies. It is a process of its own: a fork copies no threads.
    """
    line = [sys.executable, "-c", _PROGRAM, str(code), *received]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == ended
    assert (done.stdout.strip() or (done.stderr if ended == 1 else "").strip().rpartition("\n")[2]) == message


_AGENT = """
import sys
from samerack.agent.process import RunRequest, main

sys.exit(main(RunRequest(config=[sys.argv[1]], keep_trying=True)))
"""


def test_one_that_keeps_trying_starts_once_it_can(tmp_path: Path) -> None:
    """The container of a sidecar never ends: wrong settings are named until they are mended; SIGHUP ends the wait."""
    file = tmp_path / "samerack.yaml"
    file.write_text("grups: [orders]\n", encoding="utf-8")
    line = [sys.executable, "-c", _AGENT, str(file)]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as agent:
        assert agent.stderr is not None
        try:
            assert "grups" in agent.stderr.readline()
            assert agent.stderr.readline() == "samerack: tries again in 30 s\n"
            settings = {"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "groups": ["orders"], "web": {"port": 0}}
            file.write_text(yaml.safe_dump(settings | {"events": {"path": "memory"}}), encoding="utf-8")
            agent.send_signal(signal.SIGHUP)
            assert any("started" in line for line in agent.stderr), "it has begun"
            agent.terminate()
            rest = agent.stderr.read()
            assert agent.wait(LONGEST_SECONDS) == 0, rest
        finally:
            agent.kill()


_SIGNALLED_WHILE_LOGGING = """
import os, signal, sys
from samerack.agent import log
from samerack.agent.process import RunRequest, main

class Output(log._Output):
    def write(self, text):
        super().write(text)
        if '"started"' in text:
            os.kill(os.getpid(), signal.SIGTERM)

log._Output = Output
sys.exit(main(RunRequest(bootstrap=["127.0.0.1:1"], groups=["orders"], assignments=sys.argv[1:])))
"""


def test_a_signal_within_a_write_to_the_log_ends_it() -> None:
    """The handler logged the signal, and waited for the lock that its own thread had: it was killed after 8 s."""
    settings = ["web.port=0", "events.path=memory", "log.format=json"]
    line = [sys.executable, "-c", _SIGNALLED_WHILE_LOGGING, *settings]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as agent:
        assert agent.stderr is not None
        try:
            assert any('"stopped"' in line for line in agent.stderr), "it has ended in order"
        finally:
            agent.kill()


# what the worker reports: everything that is new in one message, else a sign of life

PLACE = MemberIdentity(group="orders", member_id="samerack-1", instance_id="samerack")


def test_news_are_reported_at_once_and_together() -> None:
    """A place reported before a step that may delay a group must not wait for another report."""
    present: frozenset[MemberIdentity] = frozenset()
    received: str | None = None
    ours, theirs = socket.socketpair()
    with ours, theirs:
        watchdog_socket = WatchdogSocket(
            theirs,
            settings=lambda: IN_FORCE,
            member_ids=lambda: present,
            makes_progress=lambda: True,
            auth_status=lambda: received,
            on_lost=lambda: None,
        )
        watchdog_socket.send()
        assert ours.recv(65_536) == encode_settings(IN_FORCE)
        watchdog_socket.send()
        assert ours.recv(4096) == ALIVE
        present, received = frozenset({PLACE}), ""
        watchdog_socket.send()
        assert ours.recv(4096) == encode_auth_status("") + encode(ChangedIds(came=present))
        watchdog_socket.send()
        assert ours.recv(4096) == ALIVE


def test_a_supervisor_that_is_slow_is_not_gone() -> None:
    """The socket fills up while the supervisor does not read; it gets whole lines when it reads again."""
    present: frozenset[MemberIdentity] = frozenset()
    lost = threading.Event()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        watchdog_socket = WatchdogSocket(
            theirs,
            settings=lambda: IN_FORCE,
            member_ids=lambda: present,
            makes_progress=lambda: True,
            auth_status=lambda: "",
            on_lost=lost.set,
        )
        watchdog_socket.start()
        for number in range(2000):
            present = frozenset({MemberIdentity(group="orders" * 20, member_id=f"samerack-{number}")})
            watchdog_socket.send()
        assert not lost.wait(0.5)
        ours.settimeout(LONGEST_SECONDS)
        heard, known = b"", frozenset[MemberIdentity]()
        while known != present:
            heard += ours.recv(65_536)
            *lines, heard = heard.split(b"\n")
            for change in map(decode, lines):
                known = change.after(known) if isinstance(change, ChangedIds) else known
        assert watchdog_socket.is_alive()
        ours.close()
        assert lost.wait(LONGEST_SECONDS)
        watchdog_socket.join()


def _settings(name: str) -> SettingsInForce:
    return replace(IN_FORCE, content=name, changed="groups")


def test_settings_go_from_worker_to_worker_and_back_if_they_do_not_work() -> None:
    """Those of a worker that dies are its successor's; new ones with which no worker can begin are given up.

    Once a worker has begun with new ones, a later one that cannot begin has another reason: they stay in force.
    """
    starts: list[WorkerStart] = []
    supervisor = Supervisor(ProcessesOfATest())
    steps = iter(
        (
            (_settings("first"), None, -9),  # it read them, and died
            (_settings("first"), _settings("second"), RENEWS),
            (None, None, 1),  # cannot begin with them
            (_settings("first"), _settings("third"), RENEWS),
            (_settings("third"), None, -9),  # it worked for long
            (None, None, 1),  # a broker refuses it for a moment
            (_settings("third"), None, 0),
        )
    )

    def worker(start: WorkerStart) -> Any:
        starts.append(start)
        sent, following, code = next(steps)
        process = SimpleNamespace(exitcode=code, terminate=lambda: None)
        return SimpleNamespace(
            settings=sent,
            next_settings=following,
            process=process,
            member_ids=frozenset(),
            auth_status="",
            was_accepted=True,
            heartbeat_age=SimpleNamespace(is_first=sent is None),
            wait=lambda _: None,
            listen=lambda: supervisor._on_signal(15, None) if code == 0 else None,
            close=lambda: None,
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watchdog, "Worker", lambda work, **_: worker(work.args[0]))
        patch.setattr(signal, "signal", lambda *_: None)
        patch.setattr(supervisor, "_report", lambda *_, **__: None)
        assert supervisor.run() == 0
    assert [(one.settings, one.rejected, one.why) for one in starts] == [
        ("", "", ""),
        ("first", "", "exit code -9"),
        ("second", "", "settings changed: groups"),
        ("first", "second", "the changed settings do not work"),
        ("third", "", "settings changed: groups"),
        ("third", "", "exit code -9"),
        ("third", "", "exit code 1"),
    ]
    assert "exited at once with code 1" in starts[3].why_rejected


def test_new_settings_that_a_worker_could_not_send_are_read_by_the_next() -> None:
    """It has ended for them, so the former ones are not in force any more; only if it cannot begin they are again."""
    supervisor = Supervisor(ProcessesOfATest())
    supervisor._settings = _settings("first")
    supervisor._renew(None)
    assert supervisor._settings.content == ""
    assert supervisor._former == _settings("first")
