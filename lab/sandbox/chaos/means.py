"""The faults of agents that depend on the machine: a cut network, a changed clock, a full disk.

Their conditions are root with iptables, a C compiler, and root with tmpfs. Where one is not met, the kinds of faults
that need it are left out, and the run reports that.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from lab.sandbox.chaos.agents import Agent
from lab.sandbox.chaos.network import Network
from lab.sandbox.errors import SandboxError

BENT: Final = 1
"""The agent whose clock can be changed: only the second, so that the first runs without the preloaded library."""
_CLOCK: Final = "clock"
_DISK_SIZE: Final = "32m"
"""SQLite's write-ahead log grows to 4 MiB before a checkpoint: a disk of that size would soon be full."""
_FILLING: Final = "filling"


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
    """Set the wall clock of agent `BENT` ahead by so many seconds from now on."""
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


def _do(*line: str) -> None:
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603 - ours, without a shell
    if done.returncode:
        raise SandboxError(f"{' '.join(line)}: {done.stderr.strip()}")
