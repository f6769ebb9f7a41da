"""Cuts agents off from the network: the kernel drops all packets that processes of one group id send.

Only what an agent *sends* is dropped: its requests never arrive, but it still gets the answers to earlier ones; this is
the harder half of a broken connection. The kernel would continue to send the data of a killed process; `bury` drops it
too, by both ends of the connections, because another process may use the same port to another broker. The rules carry
our process id; those of ended processes are removed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from sandbox.errors import SandboxError

_MARK: Final = "samerack-chaos-"
_GROUP_ID: Final = 47_000
_DROP: Final = ("-m", "comment", "--comment", f"{_MARK}{os.getpid()}", "-j", "DROP")


class Network:
    """The rules of one run; `close` removes them."""

    def __init__(self, *, enabled: bool) -> None:
        """Remove the rules of killed runs, where that is possible."""
        self._cut: set[int] = set()
        self._buried: list[Sequence[str]] = []
        if enabled:
            _remove_leftovers()

    @staticmethod
    def possible() -> bool:
        """Returns whether this process may make such rules."""
        return os.geteuid() == 0 and all(map(shutil.which, ("iptables", "setpriv"))) and _works()

    @staticmethod
    def prefix(number: int) -> list[str]:
        """Returns the command that starts a program so that `cut` of this number affects only it."""
        identity = str(_GROUP_ID + number)
        return ["setpriv", "--regid", identity, "--clear-groups", "--pdeathsig", "KILL"]

    def cut(self, number: int) -> None:
        """Drop what programs of this number send."""
        if number not in self._cut:
            _iptables("-I", "OUTPUT", *_rule(number))
            self._cut.add(number)

    def mend(self, number: int) -> None:
        """Let their packets through again."""
        if number in self._cut:
            _iptables("-D", "OUTPUT", *_rule(number))
            self._cut.discard(number)

    def mend_all(self) -> None:
        """Remove all cuts; the rules of `bury` stay until `close`."""
        for number in sorted(self._cut):
            self.mend(number)

    def bury(self, process: int) -> None:
        """Drop all packets of the connections that a process has now, until `close`."""
        for connection in psutil.Process(process).net_connections("tcp4"):
            if connection.raddr:
                here, there = connection.laddr, connection.raddr
                ends = ["-s", here.ip, "--sport", str(here.port), "-d", there.ip, "--dport", str(there.port)]
                rule = ["OUTPUT", "-p", "tcp", *ends, *_DROP]
                _iptables("-I", *rule)
                self._buried.append(rule)

    def close(self) -> None:
        """Remove all rules."""
        while self._buried:
            with suppress(SandboxError):
                _iptables("-D", *self._buried.pop())
        with suppress(SandboxError):
            self.mend_all()


def _rule(number: int) -> Sequence[str]:
    return ["-p", "tcp", "-m", "owner", "--gid-owner", str(_GROUP_ID + number), *_DROP]


def _iptables(*arguments: str) -> str:
    done = subprocess.run(["iptables", "-w", *arguments], capture_output=True, text=True, check=False, timeout=20)  # noqa: S603, S607 - ours, without a shell
    if done.returncode:
        raise SandboxError(f"iptables {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def _works() -> bool:
    try:
        _iptables("-S", "OUTPUT")
    except (SandboxError, OSError, subprocess.SubprocessError):
        return False
    return True


def _remove_leftovers() -> None:
    for line in _iptables("-S", "OUTPUT").splitlines():
        owner = re.search(rf"{_MARK}(\d+)", line)
        if owner and not Path(f"/proc/{owner[1]}").exists():
            with suppress(SandboxError):
                _iptables("-D", *line.replace('"', "").split()[1:])
