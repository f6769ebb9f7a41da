"""Processes that the supervisor forks: the one that works, seen from outside, and those that leave groups for it.

The supervisor has loaded everything that they need and runs no thread, so a fork is whole, there within milliseconds,
and shares the supervisor's memory.
"""

from __future__ import annotations

import multiprocessing
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.process import BaseProcess
from typing import Final

from agent.supervisor import memory
from agent.supervisor.line import MemberIdentity, decode
from agent.supervisor.silence import Silence

_FORKING: Final = multiprocessing.get_context("fork")
_HANDLED: Final = (signal.SIGTERM, signal.SIGINT)


def fork(work: Callable[[], None], *, drop: socket.socket | None = None) -> BaseProcess:
    """Have a process of its own do some work; it knows nothing of this one's signals.

    Ctrl-C reaches every process of a terminal; the supervisor is the one that acts on it.

    Args:
        work: What it does; SystemExit gives its exit code.
        drop: What it must not keep open.
    """

    def begin() -> None:
        if drop is not None:
            drop.close()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
        work()

    process = _FORKING.Process(target=begin)
    # one that comes meanwhile is neither lost nor taken for another's
    signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
    return process


class Worker:
    """One working process with its line."""

    def __init__(self, work: Callable[[socket.socket], None], *, now: float) -> None:
        """Start it.

        Args:
            work: What it does, given its end of the line.
            now: The time.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = fork(lambda: work(theirs), drop=ours)
        ours.settimeout(0)
        self._line = ours
        self._rest = b""
        self.silence = Silence(self.process.pid, now=now)
        self.present: frozenset[MemberIdentity] | None = None
        """What brokers know it by; None before it has told."""
        self.reception: str | None = None
        """How brokers received it: empty once they let it in, before that why they refuse it, or None."""

    def listen(self) -> None:
        """Take in what it has told."""
        with suppress(BlockingIOError, ConnectionError):
            while heard := self._line.recv(65_536):
                self.silence.end()
                *lines, self._rest = (self._rest + heard).split(b"\n")
                for line in lines:
                    decoded = decode(line)
                    if isinstance(decoded, str):
                        self.reception = decoded
                    elif decoded is not None:
                        self.present = decoded

    def overgrown(self, most_mib: int) -> str:
        """Why it holds more memory than it should; empty where it does not, or is gone."""
        return "" if self.process.pid is None else memory.overgrown(self.process.pid, most_mib=most_mib)

    def kill(self) -> None:
        """End it at once, also when it is stopped."""
        self.process.kill()
        self.process.join()

    def close(self) -> None:
        """Give the line up."""
        self._line.close()
