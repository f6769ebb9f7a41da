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
from types import TracebackType
from typing import Any, Final, Self

import psutil

from samerack.agent.leading.admission import NO_PLACE
from sandbox.agent_process import AgentProcess
from sandbox.contract import RACKS
from sandbox.errors import SandboxError
from sandbox.settings import free_ports

ELECTION: Final = "samerack-chaos"
PRESENT: Final = frozenset({"leading", "following"})
OBSERVING: Final = "observing"
LOOKING: Final = PRESENT | {"waiting", OBSERVING}
"""Roles of an agent in a group that it is responsible for."""
_ENTERING: Final = PRESENT | {"waiting"}
_TAKE_OVER_SECONDS: Final = 20.0
_MAX_EVENTS: Final = 10_000


class Agent:
    """One agent, with a new process after each kill."""

    def __init__(
        self, name: str, *, bootstrap: str, groups: Sequence[str], folder: Path, settings: Mapping[str, object]
    ) -> None:
        """Prepare; `start` starts it.

        Args:
            name: its name, also its identity in the election.
            bootstrap: `bootstrap.servers`.
            groups: the groups that it may lead.
            folder: for logs.
            settings: dotted keys to values, as for `--set`.
        """
        self.name = name
        self.prefix: list[str] = []
        self._bootstrap = bootstrap
        self._groups = tuple(groups)
        self._folder = folder
        self.settings = {**settings, "election.identity": name, "web.port": free_ports(1)[0]}
        self._lives = 0
        self._processes: list[AgentProcess] = []

    @property
    def process(self) -> AgentProcess:
        """The current process, or the last one."""
        return self._processes[-1]

    @property
    def running(self) -> bool:
        """Whether its supervisor is up."""
        return bool(self._processes) and self.process.running

    def start(self) -> None:
        """Start a new process."""
        self._lives += 1
        self._processes.append(
            AgentProcess(
                self._bootstrap,
                groups=self._groups,
                log=self._folder / f"agent-{self.name}-{self._lives}.log",
                settings=self.settings,
                prefix=self.prefix,
            )
        )

    def worker(self) -> int:
        """Returns the process id of its worker; 0 while there is none."""
        started = self.process.events("started")
        worker = int(started[-1]["process"]) if started else 0
        return worker if worker and psutil.pid_exists(worker) else 0

    def kill_worker(self) -> None:
        """Send SIGKILL to its worker only."""
        self._signal_worker(signal.SIGKILL)

    def pause_worker(self) -> None:
        """Send SIGSTOP to its worker only."""
        self._signal_worker(signal.SIGSTOP)

    def _signal_worker(self, number: signal.Signals) -> None:
        worker = self.worker()
        if not worker:
            raise SandboxError(f"agent {self.name} has no worker at the moment")
        os.kill(worker, number)

    def resume(self) -> None:
        """Send SIGCONT to supervisor and worker."""
        with suppress(ProcessLookupError):
            self.process.resume()

    @property
    def answers(self) -> bool:
        """Whether its worker answers: one that is dead or stopped does not."""
        return self.running and self.process.get("/healthz")[0] == OK

    def roles(self) -> dict[str, str]:
        """Returns its role in each group; `unknown` while it does not answer, `gone` while it does not run."""
        told = self.process.roles() if self.running else {}
        return {group: told.get(group, "unknown" if self.running else "gone") for group in self._groups}

    def role(self, group: str) -> str:
        """Returns its role in one group."""
        return self.roles()[group]

    def events(self, group: str) -> list[dict[str, Any]]:
        """Returns its events of a group over HTTP, newest first; none while it does not answer."""
        status, text = self.process.get(f"/v1/events?group={group}&most={_MAX_EVENTS}") if self.running else (0, "")
        return list(json.loads(text)["events"]) if status == OK else []

    def told(self, since: int = 0) -> list[dict[str, Any]]:
        """Returns the logs of all of its processes, without the first `since` entries."""
        return [event for process in self._processes for event in process.events()][since:]

    def close(self) -> None:
        """Kill its process, if any."""
        if self._processes:
            self.resume()
            self.process.kill()


class Agents:
    """Both agents; a context manager that starts and kills them."""

    def __init__(self, *, bootstrap: str, groups: Sequence[str], folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "racks.client_ids": {f"*-{rack}": rack for rack in RACKS.values() if rack is not None},
            "election.group": ELECTION,
            "leading.position_retry_seconds": 1,
            # faults kill a worker every minute, which must not count as a crash loop
            "supervisor.restart_window_seconds": 3,
            "policy.burst": 20,
            "policy.refill_seconds": 5,
            "policy.max_per_hour": 1000,
        }
        self.groups = tuple(groups)
        self.all = [
            Agent(name, bootstrap=bootstrap, groups=groups, folder=folder, settings=settings) for name in ("one", "two")
        ]

    def active(self, group: str) -> Agent | None:
        """Returns the agent that is in a group now, if any."""
        return next((one for one in self.all if one.role(group) in PRESENT), None)

    def roles(self) -> dict[str, tuple[str, ...]]:
        """Returns the role of each agent in each group."""
        told = [one.roles() for one in self.all]
        return {group: tuple(roles[group] for roles in told) for group in self.groups}

    def led(self) -> frozenset[str]:
        """Returns the groups that an agent leads."""
        return frozenset(group for group, roles in self.roles().items() if "leading" in roles)

    def inside(self) -> frozenset[str]:
        """Returns the groups that an agent is in, or enters as soon as they have consumers."""
        return frozenset(group for group, roles in self.roles().items() if _ENTERING & set(roles))

    def outside(self, since: float) -> frozenset[str]:
        """Returns the groups that no agent is in or, by its events, has been in since then (seconds since 1970)."""

        def told(event: dict[str, Any]) -> bool:
            entered = event["kind"] == "role" and event["action"] in _ENTERING
            return event["at"] >= since and (entered or event.get("generation") is not None)

        away = frozenset(self.groups) - self.inside()
        return frozenset(
            group for group in away if not any(told(one) for agent in self.all for one in agent.events(group))
        )

    def finds_no_place(self, group: str) -> bool:
        """Returns whether an agent stays out: the leader's sticky assignor would give it partitions in any place.

        This happens while all members are in the last bucket of the leader's hash table: for three members once in
        4,096 times.
        """
        newest = (
            next((event for event in one.events(group) if event["kind"] == "role"), {"detail": ""}) for one in self.all
        )
        return any(NO_PLACE in event["detail"] for event in newest)

    def leader(self, group: str) -> str:
        """Returns the member id of the group's leader, by the log of the agent in it; "" if it has none."""
        agent = self.active(group)
        told = agent.told() if agent is not None else []
        heard = [event for event in told if event["event"] == "joined" and event.get("group") == group]
        return str(heard[-1].get("leader", "")) if heard else ""

    def rebalances(self, group: str) -> frozenset[int]:
        """Returns the generations of a group in either agent's events, with those that it reports as missed."""
        found: set[int] = set()
        for one in self.all:
            for event in one.events(group):
                if event["kind"] == "rebalance" and event.get("generation") is not None:
                    found |= set(range(event["generation"] - int(event.get("missed") or 0), event["generation"] + 1))
        return frozenset(found)

    def tells_of_rebalance_outside(self, group: str, since: float) -> bool:
        """Returns whether events of a group that no agent is in tell of a rebalance since then (seconds since 1970).

        Agents outside see that there was one, or several in a row, and not their generations. An agent that ends leaves
        the group, and does not see the rebalance after it.
        """
        if PRESENT & set(self.roles()[group]):
            return False
        return any(
            event["at"] >= since
            and (
                (event["kind"] == "rebalance" and event.get("generation") is None)
                or (event["kind"] == "role" and str(event.get("reason")).removeprefix("was ") in PRESENT)
            )
            for one in self.all
            for event in one.events(group)
        )

    def other(self, agent: Agent) -> Agent:
        """Returns the other agent."""
        return next(one for one in self.all if one is not agent)

    def ensure_running(self) -> None:
        """Start agents that do not run."""
        for one in self.all:
            if not one.running:
                one.start()

    def wait_leads(self, agent: Agent, *, timeout: float = _TAKE_OVER_SECONDS) -> None:
        """Wait until an agent is responsible for all groups."""
        self.wait_roles(agent, LOOKING, timeout=timeout)

    def wait_roles(self, agent: Agent, roles: AbstractSet[str], *, timeout: float = _TAKE_OVER_SECONDS) -> None:
        """Wait until an agent has one of these roles in each group."""
        agent.process.wait(
            lambda: roles >= set(agent.roles().values()),
            f"agent {agent.name} is {' or '.join(sorted(roles))} in all groups",
            timeout=timeout,
        )

    def __enter__(self) -> Self:
        """Start the first agent; the caller starts the second when the first leads."""
        self.all[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Kill both."""
        for one in self.all:
            with suppress(OSError):
                one.close()
