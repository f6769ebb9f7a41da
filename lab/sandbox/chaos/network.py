"""Cuts agents off from the network: the kernel drops all packets that processes of one group id send.

Only what an agent *sends* is dropped: its requests never arrive, but it still gets the answers to earlier ones; this is
the harder half of a broken connection. The kernel would continue to send the data of a killed process; that is dropped
by `discard`, by both ends of the connections, because another process may use the same port to another broker. The
rules carry our process id; those of ended processes are removed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from lab.sandbox.errors import SandboxError

_MARK: Final = "samerack-chaos-"
_GROUP_ID: Final = 47_000
_DROP: Final = ("-m", "comment", "--comment", f"{_MARK}{os.getpid()}", "-j", "DROP")


class Network:
    """The rules of one run; `close` removes them."""

    def __init__(self, *, enabled: bool) -> None:
        """Remove the rules of killed runs, where that is possible."""
        self._rules: list[tuple[str, ...]] = []
        if enabled:
            _remove_leftovers()

    @staticmethod
    def possible() -> bool:
        """Return whether this process may make such rules."""
        if os.geteuid() != 0 or not all(map(shutil.which, ("iptables", "setpriv"))):
            return False
        try:
            _iptables("-S", "OUTPUT")
        except (SandboxError, OSError, subprocess.SubprocessError):
            return False
        return True

    @staticmethod
    def prefix(number: int) -> list[str]:
        """Return the command that starts a program so that `cut` of this number affects only it."""
        return ["setpriv", "--regid", str(_GROUP_ID + number), "--clear-groups", "--pdeathsig", "KILL"]

    def cut(self, number: int) -> None:
        """Drop what programs of this number send."""
        self._add(_of(number))

    def mend(self, number: int) -> None:
        """Let their packets through again, if they are cut off."""
        self._remove(_of(number))

    def discard(self, process: int) -> None:
        """Drop all packets of the connections that a process has now, until `close`."""
        for connection in psutil.Process(process).net_connections("tcp4"):
            if connection.raddr:
                here, there = connection.laddr, connection.raddr
                self._add(("-s", here.ip, "--sport", str(here.port), "-d", there.ip, "--dport", str(there.port)))

    def close(self) -> None:
        """Remove all rules."""
        for ends in list(self._rules):
            with suppress(SandboxError):
                self._remove(ends)

    def _add(self, sender: tuple[str, ...]) -> None:
        _iptables("-I", "OUTPUT", "-p", "tcp", *sender, *_DROP)
        self._rules.append(sender)

    def _remove(self, sender: tuple[str, ...]) -> None:
        if sender in self._rules:
            _iptables("-D", "OUTPUT", "-p", "tcp", *sender, *_DROP)
            self._rules.remove(sender)


def _of(number: int) -> tuple[str, ...]:
    return ("-m", "owner", "--gid-owner", str(_GROUP_ID + number))


def _iptables(*arguments: str) -> str:
    done = subprocess.run(["iptables", "-w", *arguments], capture_output=True, text=True, check=False, timeout=20)  # noqa: S603, S607 - ours, without a shell
    if done.returncode:
        raise SandboxError(f"iptables {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def _remove_leftovers() -> None:
    for line in _iptables("-S", "OUTPUT").splitlines():
        owner = re.search(rf"{_MARK}(\d+)", line)
        if owner and not Path(f"/proc/{owner[1]}").exists():
            with suppress(SandboxError):
                _iptables("-D", *line.replace('"', "").split()[1:])
