"""The two agents of a chaos run, with supervisors, in one election: their worker processes, roles and events."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from http.client import OK
from pathlib import Path
from typing import Any, Final, Self

import psutil

from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.contract import RACKS_BY_CLIENT_ID
from lab.sandbox.errors import SandboxError
from lab.sandbox.settings import free_ports

PRESENT: Final = frozenset({"leading", "following"})
FULL: Final = "full"
"""The role of an agent that observes a group as its consumers need all places that brokers allow."""
ACTIVE: Final = PRESENT | {FULL}
WATCHING: Final = ACTIVE | {"waiting", "observing"}
"""Roles of an agent in a group that it is responsible for."""
_LIMIT: Final = "group.max.size"
_MAX_EVENTS: Final = 10_000
POLICY: Final[Mapping[str, object]] = {"policy.burst": 20, "policy.refill_seconds": 5, "policy.max_per_hour": 1000}
"""Faults and scenarios come faster than what policies are made for."""
_SETTINGS: Final[Mapping[str, object]] = {
    "racks.client_ids": RACKS_BY_CLIENT_ID,
    "election.group": "samerack-chaos",
    "leading.position_retry_seconds": 1,
    # faults kill a worker every minute, which must not count as a crash loop
    "supervisor.restart_window_seconds": 3,
    **POLICY,
}


class Agent:
    """One agent, with a new process after each kill; what it starts with, `prefix` and `settings`, may be changed."""

    def __init__(self, name: str, *, bootstrap: str, groups: Sequence[str], folder: Path) -> None:
        """Prepare; `start` starts it, with its logs in the folder."""
        self.name = name
        self.prefix: list[str] = []
        self.settings = {**_SETTINGS, "election.identity": name, "web.port": free_ports(1)[0]}
        self._bootstrap = bootstrap
        self._groups = tuple(groups)
        self._folder = folder
        self._processes: list[AgentProcess] = []

    @property
    def process(self) -> AgentProcess:
        """The current process, or the last one."""
        return self._processes[-1]

    @property
    def running(self) -> bool:
        """Whether its supervisor is up."""
        return bool(self._processes) and self.process.running

    @property
    def answers(self) -> bool:
        """Whether its worker answers: one that is dead or stopped does not."""
        return self.running and self.process.get("/healthz")[0] == OK

    def start(self) -> None:
        """Start a new process."""
        log = self._folder / f"agent-{self.name}-{len(self._processes) + 1}.log"
        self._processes.append(
            AgentProcess(self._bootstrap, groups=self._groups, log=log, settings=self.settings, prefix=self.prefix)
        )

    def worker(self) -> int:
        """Return the process id of its worker; 0 while there is none."""
        started = self.process.events("started")
        worker = int(started[-1]["process"]) if started else 0
        return worker if worker and psutil.pid_exists(worker) else 0

    def signal_worker(self, number: signal.Signals) -> None:
        """Send a signal to its worker only."""
        worker = self.worker()
        if not worker:
            raise SandboxError(f"agent {self.name} has no worker at the moment")
        os.kill(worker, number)

    def resume(self) -> None:
        """Send SIGCONT to supervisor and worker."""
        with suppress(ProcessLookupError):
            self.process.resume()

    def roles(self) -> dict[str, str]:
        """Return its role in each group; `unknown` while it does not answer, `gone` while it does not run."""
        status, text = self.process.get("/v1/status") if self.running else (0, "")
        reported = {one["group"]: one for one in json.loads(text)["groups"]} if status == OK else {}
        return {
            group: role_of(reported[group]) if group in reported else "unknown" if self.running else "gone"
            for group in self._groups
        }

    def events(self, group: str) -> list[dict[str, Any]]:
        """Return its events of a group over HTTP, newest first; none while it does not answer."""
        status, text = self.process.get(f"/v1/events?group={group}&most={_MAX_EVENTS}") if self.running else (0, "")
        return list(json.loads(text)["events"]) if status == OK else []

    def logged(self, since: int = 0) -> list[dict[str, Any]]:
        """Return the logs of all of its processes, without the first `since` entries."""
        return [event for process in self._processes for event in process.events()][since:]

    def close(self) -> None:
        """Kill its process, if any."""
        if self._processes:
            self.resume()
            self.process.kill()


class Agents:
    """Both agents; a context manager that kills them. The second is to be started when the first leads."""

    def __init__(self, *, bootstrap: str, groups: Sequence[str], folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.groups = tuple(groups)
        self.all = [Agent(name, bootstrap=bootstrap, groups=groups, folder=folder) for name in ("one", "two")]

    def active(self, group: str) -> Agent | None:
        """Return the agent that is in a group now, or would be if there were room, if any."""
        return next((one for one in self.all if one.roles()[group] in ACTIVE), None)

    def roles(self) -> dict[str, tuple[str, ...]]:
        """Return the role of each agent in each group."""
        reported = [one.roles() for one in self.all]
        return {group: tuple(roles[group] for roles in reported) for group in self.groups}

    def having(self, roles: AbstractSet[str]) -> frozenset[str]:
        """Return the groups in which an agent has one of these roles."""
        return frozenset(group for group, found in self.roles().items() if not roles.isdisjoint(found))

    def led(self) -> frozenset[str]:
        """Return the groups that an agent leads."""
        return self.having({"leading"})

    def rebalances(self, group: str) -> frozenset[int]:
        """Return the generations of a group in either agent's events, with those that it reports as missed."""
        found: set[int] = set()
        for event in (event for one in self.all for event in one.events(group)):
            if event["kind"] == "rebalance" and event.get("generation") is not None:
                found |= set(range(event["generation"] - int(event.get("missed") or 0), event["generation"] + 1))
        return frozenset(found)

    def wait_roles(self, agent: Agent, roles: AbstractSet[str] = WATCHING, *, timeout: float = 20.0) -> None:
        """Wait until an agent has one of these roles in each group; by default, until it is responsible for all."""
        agent.process.wait(
            lambda: roles >= set(agent.roles().values()),
            f"agent {agent.name} is {' or '.join(sorted(roles))} in all groups",
            timeout=timeout,
        )

    def __enter__(self) -> Self:
        """Return itself; nothing is started yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill both."""
        for one in self.all:
            with suppress(OSError):
                one.close()


def role_of(status: Mapping[str, str]) -> str:
    """Return the role of an agent in a group, from what it answers of its status."""
    return FULL if status["role"] == "observing" and _LIMIT in status["trouble"] else status["role"]
