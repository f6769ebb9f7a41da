"""A working process, seen from outside: started, had to begin, listened to, killed.

Imports next to nothing: the first worker loads while its supervisor still reads the settings. What must not enter: when
it is replaced, and by what.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress

from agent.supervisor.line import Presence, decode
from agent.supervisor.memory import resident_bytes


class Worker:
    """One working process with its line."""

    def __init__(self, command: Sequence[str]) -> None:
        """Start it; it gets ready and does nothing before `begin`.

        Args:
            command: What to run; the number of its end of the line is put after it.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen([*command, str(theirs.fileno())], pass_fds=(theirs.fileno(),))  # noqa: S603 - ourselves
        ours.settimeout(0)
        self._line = ours
        self._rest = b""
        self.began = float("inf")
        self.last_sign: float | None = None
        self.present: frozenset[Presence] | None = None
        """What brokers know it by; None before it has told."""
        self.reception: str | None = None
        """How brokers received it: empty once they let it in, before that why they refuse it, or None."""

    def begin(self, now: float, why: str) -> None:
        """Have it work from now on.

        Args:
            now: The time.
            why: Why it takes another's place, for it to tell; empty if it takes none.
        """
        self.began = now
        with suppress(OSError):  # it has died: that is seen at the next turn
            self._line.sendall(why.encode() + b"\n")

    def listen(self, now: float) -> None:
        """Take in what it has told."""
        with suppress(BlockingIOError, ConnectionError):
            while heard := self._line.recv(65_536):
                self.last_sign = now
                *lines, self._rest = (self._rest + heard).split(b"\n")
                for line in lines:
                    told = decode(line)
                    if isinstance(told, str):
                        self.reception = told
                    elif told is not None:
                        self.present = told

    def memory_mib(self) -> float:
        """Resident memory; 0 when it is gone."""
        return resident_bytes(self.process.pid) / 2**20

    def kill(self) -> None:
        """End it at once, also when it is stopped."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Give the line up."""
        self._line.close()
