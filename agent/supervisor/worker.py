"""Processes that the supervisor forks: the worker, and those that leave groups for it.

The supervisor has loaded everything that they need and runs no thread, so a fork is complete within milliseconds and
shares the supervisor's memory.
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
from typing import Final

from samerack.agent.supervisor import memory
from samerack.agent.supervisor.line import MemberIdentity, decode
from samerack.agent.supervisor.silence import Silence

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
        self._line = ours
        self._rest = b""
        self.silence = Silence(self.process.pid, now=now)
        self.member_ids: frozenset[MemberIdentity] | None = None
        """Its member ids; None before it has sent them."""
        self.reception: str | None = None
        """Whether brokers accept it: empty once they do, before that why they refuse it, or None."""
        self.was_accepted = False
        """Whether they ever did: between two calls of `listen` it may have sent that, and a refusal after it."""

    def wait(self, seconds: float) -> None:
        """Wait for so long, or until the process has ended."""
        wait([self.process.sentinel], seconds)

    def listen(self) -> None:
        """Read what the worker has sent."""
        with suppress(BlockingIOError, ConnectionError):
            while heard := self._line.recv(65_536):
                self.silence.end()
                *lines, self._rest = (self._rest + heard).split(b"\n")
                for line in lines:
                    decoded = decode(line)
                    if isinstance(decoded, str):
                        self.reception = decoded
                        self.was_accepted = self.was_accepted or not decoded
                    elif decoded is not None:
                        self.member_ids = decoded.after(self.member_ids or frozenset())

    def overgrown(self, max_mib: int) -> str:
        """Return why the worker uses too much memory; empty if it does not, or has ended."""
        return "" if self.process.pid is None else memory.overgrown(self.process.pid, max_mib=max_mib)

    def ask_for_settings(self) -> None:
        """Have the worker read its settings again."""
        if self.process.pid is not None and self.process.exitcode is None:
            os.kill(self.process.pid, signal.SIGHUP)

    def kill(self) -> None:
        """Kill the worker at once, also if it is stopped."""
        self.process.kill()
        self.process.join()

    def close(self) -> None:
        """Close the socket."""
        self._line.close()
