"""Processes that the supervisor forks: the worker, and those that leave groups for it.

The supervisor has loaded next to nothing and runs no thread. Each process loads what it needs itself: what two of them
share by a fork becomes a copy of each with the first count of a reference, which would cost a sidecar 20 MiB.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final, NamedTuple

from samerack.agent.supervisor import memory
from samerack.agent.supervisor.protocol import MemberIdentity, SettingsInForce, decode

# Measures how long a process has sent no sign of life although it could run: a busy machine also causes silence.
#
# The kernel counts for each thread how long it ran, and how long it was ready to run and had to wait for a processor.

_UNMEASURED_SECONDS: Final = 0.4
"""Two missing signs of life; of all further silence, it is measured whether the process gets processor time."""
_MAX_STARVED_SECONDS: Final = 30.0
"""Most waiting time that is subtracted from one silence: longer than session timeouts, after which groups no longer
have the process as a member."""
_RUNNABLE: Final = "R"


class _Thread(NamedTuple):
    """The kernel's figures of one thread: nanoseconds that it ran and waited, and whether it is ready to run."""

    ran: int
    waited: int
    runnable: bool


class HeartbeatAge:
    """How long one process has sent no sign of life, measured at intervals."""

    def __init__(self, process: int | None, *, now: float) -> None:
        """Start with a process that has just been started; None has ended already."""
        self._process = process
        self._measured_at = now
        self._is_measured = False
        self._threads: dict[int, _Thread] = {}
        self._starved = 0.0
        self.seconds = 0.0
        """How long it has been silent although it could have run."""
        self.is_first = True
        """Whether it has not sent any sign of life yet."""

    def reset(self) -> None:
        """Begin anew after a sign of life."""
        self.is_first = False
        self._forget()

    def measure(self, now: float, *, expected: float) -> None:
        """Add the time since the previous call.

        If more has passed than was `expected` at most, this process did not get to run either.
        """
        elapsed, self._measured_at = now - self._measured_at, now
        if elapsed > expected:
            if not self.is_first:
                self._forget()
            return
        if not self._is_measured:
            self.seconds = min(self.seconds + elapsed, _UNMEASURED_SECONDS)
            if self.seconds == _UNMEASURED_SECONDS:
                # on a busy machine the supervisor is late too: a second may pass in three turns
                self._is_measured, self._threads = True, _threads(self._process)
            return
        if self._starved < _MAX_STARVED_SECONDS:
            starved = self._starved_seconds(elapsed)
            self._starved += starved
            elapsed -= starved
        self.seconds += elapsed

    def _forget(self) -> None:
        self.seconds = self._starved = 0.0
        self._is_measured = False

    def _starved_seconds(self, elapsed: float) -> float:
        """Return how long since the previous call the process was ready to run but got no processor.

        This is the time of the thread that waited longest: Python threads wait for each other, too. A process that is
        stopped, blocked or computing has not waited; if the kernel does not count, none has.
        """
        before, self._threads = self._threads, _threads(self._process)
        starved = 0.0
        for number, now in self._threads.items():
            if (then := before.get(number)) is None:
                continue
            starved = max(starved, (now.waited - then.waited) / 1e9)
            if now.runnable and then.runnable and now.ran == then.ran:
                return elapsed  # the kernel counts a wait only after it has ended
        return min(elapsed, starved)


def _threads(process: int | None) -> dict[int, _Thread]:
    found = {}
    for task in Path(f"/proc/{process}/task").glob("*"):
        try:
            ran, waited, _ = (task / "schedstat").read_text(encoding="ascii").split()
            state = (task / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
        except (OSError, ValueError, IndexError):
            continue  # it has just ended
        found[int(task.name)] = _Thread(int(ran), int(waited), state == _RUNNABLE)
    return found


_FORKING: Final = multiprocessing.get_context("fork")
_HANDLED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def fork(work: Callable[[], None], *, drop: socket.socket | None = None) -> BaseProcess:
    """Start a process for some work, which has none of this process's signal handlers; SystemExit sets its exit code.

    Ctrl-C reaches every process of a terminal; only the supervisor acts on it. The process closes the socket to `drop`.
    """

    def begin() -> None:
        if drop is not None:
            drop.close()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it can read its settings again
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
        work()

    process = _FORKING.Process(target=begin)
    # a signal during the fork is neither lost nor handled in the child by the supervisor's handler
    signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
    return process


class Worker:
    """One worker process with its socket."""

    def __init__(self, work: Callable[[socket.socket], None], *, now: float) -> None:
        """Start the process, which works with its end of the socket."""
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = fork(lambda: work(theirs), drop=ours)
        ours.settimeout(0)
        self._socket = ours
        self._rest = b""
        self.heartbeat_age = HeartbeatAge(self.process.pid, now=now)
        self.settings: SettingsInForce | None = None
        """Its settings; None before it has sent them."""
        self.next_settings: SettingsInForce | None = None
        """Those with which another process is to replace it."""
        self.member_ids: frozenset[MemberIdentity] | None = None
        """Its member ids; None before it has sent them."""
        self.auth_status: str | None = None
        """Whether brokers accept it: empty once they do, before that why they refuse it, or None."""
        self.was_accepted = False
        """Whether they ever did: between two calls of `listen` it may have sent that, and a refusal after it."""

    def wait(self, seconds: float) -> None:
        """Wait for this time, or until the process has ended."""
        wait([self.process.sentinel], seconds)

    def listen(self) -> None:
        """Read what the worker has sent."""
        with suppress(BlockingIOError, ConnectionError):
            while heard := self._socket.recv(65_536):
                self.heartbeat_age.reset()
                *lines, self._rest = (self._rest + heard).split(b"\n")
                for line in lines:
                    decoded = decode(line)
                    if isinstance(decoded, str):
                        self.auth_status = decoded
                        self.was_accepted = self.was_accepted or not decoded
                    elif isinstance(decoded, SettingsInForce):
                        if self.settings is None:
                            self.settings = decoded
                        else:
                            self.next_settings = decoded
                    elif decoded is not None:
                        self.member_ids = decoded.after(self.member_ids or frozenset())

    def overgrown(self, max_mib: int) -> str:
        """Return why the worker uses too much memory; empty if it does not, or has ended."""
        return "" if self.process.pid is None else memory.overgrown(self.process.pid, max_mib=max_mib)

    def ask_for_settings(self) -> None:
        """Have the worker read its settings again."""
        if self.process.pid is not None and self.process.exitcode is None:
            os.kill(self.process.pid, signal.SIGHUP)

    def hurry(self) -> None:
        """Have a worker that was asked to stop hand nothing over: what it reads from its socket ends."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def kill(self) -> None:
        """Kill the worker at once, also if it is stopped."""
        self.process.kill()
        self.process.join()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
