"""The faults of agents that depend on the machine: a cut network, a changed clock, a full disk.

Their conditions are root with iptables, a C compiler, and root with tmpfs. Where one is not met, the kinds of faults
that need it are left out, and the run reports that.

Of an agent without a network only what it *sends* is dropped, by the kernel, which knows it by its group id: its
requests never arrive, but it still gets the answers to earlier ones; this is the harder half of a broken connection.
The kernel would continue to send the data of a killed process; that is dropped by `discard`, by both ends of the
connections, because another process may use the same port to another broker. The rules carry our process id; those of
ended processes are removed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import psutil

from lab.sandbox.chaos.agents import Agent
from lab.sandbox.errors import SandboxError

BENT: Final = 1
"""The agent whose clock can be changed: only the second, so that the first runs without the preloaded library."""
_CLOCK: Final = "clock"
_DISK_SIZE: Final = "32m"
"""SQLite's write-ahead log grows to 4 MiB before a checkpoint: a disk of that size would soon be full."""
_FILLING: Final = "filling"
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
    return _do("iptables", "-w", *arguments)


def _remove_leftovers() -> None:
    for line in _iptables("-S", "OUTPUT").splitlines():
        owner = re.search(rf"{_MARK}(\d+)", line)
        if owner and not Path(f"/proc/{owner[1]}").exists():
            with suppress(SandboxError):
                _iptables("-D", *line.replace('"', "").split()[1:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What is possible on this machine."""

    network: bool  # agents can be cut off
    clock: bool  # one agent's clock can be changed
    disk: bool  # each agent keeps its events on a small separate disk, which can be filled

    @classmethod
    def of_this_machine(cls) -> Self:
        """Return what this machine allows."""
        return cls(
            network=Network.possible(),
            clock=shutil.which("cc") is not None,
            disk=os.geteuid() == 0 and all(map(shutil.which, ("mount", "umount"))),
        )

    def missing(self) -> dict[tuple[str, ...], str]:
        """Return what is left out: how the names of the kinds begin, and what would be needed, in words."""
        needs = {
            ("network-", "joined-"): (self.network, "no cut network, no hit before SyncGroup: root, iptables, setpriv"),
            ("clock-",): (self.clock, "no clock jumps: a C compiler (cc)"),
            ("disk-",): (self.disk, "no disk is full: root"),
        }
        return {names: f"{what} would be needed" for names, (met, what) in needs.items() if not met}

    def prepare(self, agents: Sequence[Agent], folder: Path) -> None:
        """Prepare the start of the agents so that these faults are possible; `clean` undoes it."""
        for number, agent in enumerate(agents):
            if self.network:
                agent.prefix += Network.prefix(number)
            disk = _disk(folder, agent)
            disk.mkdir(parents=True)
            if self.disk:
                _do("mount", "-t", "tmpfs", "-o", f"size={_DISK_SIZE}", "samerack-chaos", str(disk))
            agent.settings["events.path"] = str(disk / "events.db")
        if self.clock:
            bend(folder, 0)
            library = folder / "clock.so"
            _do("cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(Path(__file__).with_name("clock.c")))
            agents[BENT].prefix += ["env", f"LD_PRELOAD={library}", f"CHAOS_CLOCK={folder / _CLOCK}"]

    def clean(self, agents: Sequence[Agent], folder: Path) -> None:
        """Unmount the disks."""
        for agent in agents if self.disk else ():
            with suppress(SandboxError):
                _do("umount", "--lazy", str(_disk(folder, agent)))


def bend(folder: Path, seconds: int) -> None:
    """Set the wall clock of agent `BENT` ahead by these seconds from now on."""
    with (folder / _CLOCK).open("r+b" if (folder / _CLOCK).exists() else "wb") as clock:
        clock.write(seconds.to_bytes(8, "little", signed=True))


def fill(folder: Path, agent: Agent) -> None:
    """Leave no byte free on the disk of an agent's events."""
    with suppress(OSError), (_disk(folder, agent) / _FILLING).open("wb", buffering=0) as filling:
        while True:
            filling.write(bytes(4096))


def empty(folder: Path, agent: Agent) -> None:
    """Free the space again."""
    (_disk(folder, agent) / _FILLING).unlink(missing_ok=True)


def _disk(folder: Path, agent: Agent) -> Path:
    return folder / f"disk-{agent.name}"


def _do(*line: str) -> str:
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603 - ours, without a shell
    if done.returncode:
        raise SandboxError(f"{' '.join(line)}: {done.stderr.strip()}")
    return done.stdout
