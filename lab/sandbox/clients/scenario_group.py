"""Runs all scenarios with one group.

They are: from the first generation, a rack move, the agent killed, into the running group, a deploy, a clean takeover,
and all members stopped and started again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from lab.sandbox.admin import Admin, wait_until
from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.chaos.group import Group, now_ns
from lab.sandbox.chaos.setup import Setup
from lab.sandbox.clients.initial_rebalances import AGENT_SETTINGS, NAMES, findings
from lab.sandbox.clients.results import ENDS_WHEN_IT_REJOINS, ScenarioRun, Step, Variant
from lab.sandbox.commands import samerack
from lab.sandbox.errors import SandboxError
from lab.sandbox.group_client import AGENT
from lab.sandbox.history.spans import longest_stop, stops
from lab.sandbox.members.ledger import read_twice

PLACED: Final = ((2,), (2,), (2,), (3,), (3,), (3,), (1,), (1,), (1,))
"""Brokers by partition: range without racks reads all of them across racks, the best plan none."""
_MOVED: Final = {0: [3], 3: [2]}
"""Partition to its new broker; the best plan exchanges the two."""
_SETTLE_SECONDS: Final = 180.0
_STAYS_SECONDS: Final = 3.0
_MAX_ROUNDS: Final = 3
_PRINTED_SECONDS: Final = 0.5
_WAITING_SECONDS: Final = 15.0
_MIN_STOP: Final = 0.15
"""Reads are gathered for a tenth of a second."""
_INSIDE: Final = frozenset({"leading", "following", "observing"})


class ScenarioGroup:
    """One group and its agent."""

    def __init__(self, variant: Variant, *, bootstrap: str, admin: Admin, folder: Path) -> None:
        """Prepare; the folder is for histories and log."""
        self._variant = variant
        self._bootstrap = bootstrap
        self._admin = admin
        self._folder = folder
        setup = Setup(
            name=f"scenarios-{variant.name}-{uuid4().hex[:8]}",
            assignor=variant.assignor,
            members=tuple((variant.client, rack) for rack in NAMES),
            extra=(variant.client, NAMES[0]),
            placed=PLACED,
            properties={},
        )
        self.group = Group(setup, bootstrap=bootstrap, admin=admin, folder=folder / "members")
        self._agents: list[AgentProcess] = []
        self._begun = False

    def run(self, report: Callable[[str], None]) -> ScenarioRun:
        """Run all scenarios."""
        steps: list[Step] = []
        try:
            for step in self._steps():
                steps.append(step)
                pause = "" if step.pause_seconds < 0 else f", pause {step.pause_seconds:.1f} s"
                result = f"{step.name}: {step.outcome} after {step.seconds:.1f} s{pause} {step.reason}"
                report(f"{self._variant.name}: {result}")
            history = self.group.finish()
        except SandboxError as error:
            raise SandboxError(f"{self._variant.name}, after {[step.name for step in steps]}: {error}") from None
        finally:
            if self._begun:
                self.group.__exit__()
            for agent in self._agents:
                agent.kill()
        return ScenarioRun(
            client=self._variant.client,
            assignor=self._variant.assignor,
            steps=tuple(steps),
            records=sum(event.last - event.first + 1 for event in history.written),
            read_twice=read_twice(chain.from_iterable(history.members.values())),
            findings=findings(history),
        )

    def _steps(self) -> Iterator[Step]:
        yield self._is_born()
        if self._variant.key in ENDS_WHEN_IT_REJOINS:
            return
        if self._agent.role() == "leading":
            yield self._moves()
        yield self._agent_is_killed()
        yield self._enters()
        yield self._is_deployed()
        yield self._is_taken_over()
        yield self._stops_and_comes_back()

    # the scenarios

    def _is_born(self) -> Step:
        agent = self._start_agent()
        agent.wait(lambda: agent.role() in {"waiting", "leading"}, "it knows the group", timeout=_SETTLE_SECONDS)
        begun = now_ns()
        self._begun = True
        self.group.__enter__()
        self._settle()
        plans = agent.events("plan-sent")
        first = f"generation {plans[0]['generation']}" if plans else ""
        return self._step("initial", agent.role(), begun, first, pause=False)

    def _moves(self) -> Step:
        wait_until(lambda: self._cross_rack() == 0, "nothing is read across racks", timeout=_SETTLE_SECONDS)
        self._admin.move_replicas({(self.group.name, number): brokers for number, brokers in _MOVED.items()})
        begun = now_ns()
        wait_until(lambda: self._cross_rack() == 0 and self.group.agrees(), "it followed", timeout=_SETTLE_SECONDS)
        return self._step("move", "followed", begun)

    def _agent_is_killed(self) -> Step:
        begun = now_ns()
        self._agent.kill()
        wait_until(lambda: not self._is_in(), "the agent is missed", timeout=_SETTLE_SECONDS)
        self._settle()
        return self._step("killed", "goes on", begun)

    def _enters(self) -> Step:
        begun = now_ns()
        agent = self._start_agent()
        agent.wait(lambda: agent.role() in _INSIDE, "it knows its role", timeout=_SETTLE_SECONDS)
        self._settle()
        role, reason = agent.role(), ""
        if role == "observing":
            reason = str(agent.events("observing")[-1]["reason"])
        stepped = agent.events("backs-off")
        reason = f"{reason}; backed off: {stepped[-1]['cause']}" if stepped else reason
        return self._step("enter", role, begun, reason)

    def _is_deployed(self) -> Step:
        agent, begun = self._agent, now_ns()
        led, restarts = agent.role() == "leading", 0
        for _ in range(_MAX_ROUNDS):
            for spec in list(self.group.specs):
                self.group.redeploy(spec)
                self._settle()
                if not led:
                    restarts += 1
                    led = agent.reaches(lambda: agent.role() == "leading", seconds=1.0)
            if led or agent.role() == "observing":
                break
        return self._step("deploy", agent.role(), begun, f"after {restarts} restarts" if led else "")

    def _is_taken_over(self) -> Step:
        self._agent.stop()
        self._settle()
        agent = self._start_agent()
        agent.wait(lambda: agent.role() in _INSIDE, "it knows its role", timeout=_SETTLE_SECONDS)
        self._settle()
        begun = now_ns()
        answer = self._lead(agent)
        self._settle()
        step = self._step("takeover", str(answer["outcome"]), begun, str(answer["reason"]))
        return replace(step, seconds=float(answer.get("seconds", 0.0)))

    def _stops_and_comes_back(self) -> Step:
        wait(self.group.leave())
        begun = now_ns()
        self.group.wait_state(["EMPTY"], "it is empty", timeout=_SETTLE_SECONDS)
        empty = _seconds(begun, now_ns())
        with suppress(SandboxError):  # otherwise the group starts without it
            self._agent.wait_role("waiting", timeout=_WAITING_SECONDS)
        begun = now_ns()
        for spec in self.group.specs:
            self.group.start(spec)
        self._settle()
        reason = f"empty {empty:.1f} s after the last consumer had left"
        return self._step("back", self._agent.role(), begun, reason, pause=False)

    # the agent

    @property
    def _agent(self) -> AgentProcess:
        return self._agents[-1]

    def _start_agent(self) -> AgentProcess:
        log = self._folder / f"agent-{len(self._agents) + 1}.log"
        # each has its own election: a new agent would wait for a killed one
        settings = {**AGENT_SETTINGS, "election.group": f"samerack-{self.group.name}-{len(self._agents) + 1}"}
        self._agents.append(AgentProcess(self._bootstrap, groups=[self.group.name], log=log, settings=settings))
        return self._agent

    def _is_in(self) -> bool:
        return any(member.client_id == AGENT for member in self.group.describe().members)

    def _lead(self, agent: AgentProcess) -> dict[str, Any]:
        done = samerack("lead", self.group.name, "--json", "--url", agent.url, timeout=90)
        if done.stdout:
            answer: dict[str, Any] = json.loads(done.stdout)
            return answer
        return {"outcome": "refused", "reason": done.stderr.strip().splitlines()[-1] if done.stderr else "no answer"}

    # the group

    def _settle(self) -> None:
        """Wait until the group agrees, and still does so three seconds later."""
        agreed_at: list[float] = []

        def settled() -> bool:
            if not self.group.agrees():
                agreed_at.clear()
                return False
            agreed_at.append(time.monotonic())
            return agreed_at[-1] - agreed_at[0] >= _STAYS_SECONDS

        try:
            wait_until(settled, f"{self.group.name} has settled", timeout=_SETTLE_SECONDS, pause=0.2)
        except SandboxError as error:
            raise SandboxError(f"{error}\n{self.group.trouble()}") from None

    def _cross_rack(self) -> int:
        racks, replicas = self._admin.racks(), self._admin.replicas([self.group.name])
        return sum(
            spec.rack != racks[replicas[partition].leader]
            for spec, member in self.group.present.items()
            for partition in member.owned
        )

    def _step(self, name: str, outcome: str, begun: int, reason: str = "", *, pause: bool = True) -> Step:
        """Return a scenario that has ended, with the longest stop of any partition since it began."""
        until = now_ns()
        longest = -1.0
        if pause:
            time.sleep(_PRINTED_SECONDS)  # reads are printed with a delay
            found = stops(self.group.history(), min_seconds=_MIN_STOP)
            longest = round(longest_stop(found, since_ns=begun, until_ns=until), 1)
        return Step(name=name, outcome=outcome, seconds=_seconds(begun, until), pause_seconds=longest, reason=reason)


def _seconds(begun: int, until: int) -> float:
    return round((until - begun) / 1e9, 1)
