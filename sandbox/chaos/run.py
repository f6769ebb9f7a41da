"""Runs a schedule in a world: injects each fault and measures its cost; then checks the whole history."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from sandbox.chaos.fault import Drawn, Fault
from sandbox.chaos.group import generations, now_ns
from sandbox.chaos.means import Means
from sandbox.chaos.schedule import KINDS
from sandbox.chaos.world import World
from sandbox.history.checker import check
from sandbox.history.model import Bounds, Finding, History
from sandbox.history.spans import clipped, longest_stop, stops

_MIN_STOP: Final = 0.05
"""Seconds; anything shorter is no stop: a poll or a flush takes as long."""
_TELLING_SECONDS: Final = 3.0
"""An agent looks at each group once a second, and a killed one must start first."""
_OWN_WAIT: Final = re.compile(r"Restarting the consumer in (\d+)ms")
"""kafkajs restarts its consumer when a JoinGroup fails, for example while the coordinator loads. The wait before that
is random (8.8 s and 12.4 s were seen), so it differs from one run to the next, with agents and without."""
_BOUNDS: Final = Bounds(unowned=60.0, stop=60.0)
"""Stops are judged fault by fault; these bounds are for what no fault may cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one fault cost.

    Attributes:
        drawn: the fault.
        target: what it affected, in words.
        seconds: from its injection until all groups had settled.
        stops: the longest stop of each group's partitions, in seconds, without `own_waits`.
        rebalances: number of new generations of each group.
        unexplained: groups with generations that neither an agent's events nor the fault explain.
        violations: how groups without consumers differed from groups without agents, and what did not settle.
        crashes: members that ended by themselves, with their last output.
        led: how many groups an agent led afterwards, before `take_the_lead`; None without agents.
        since_ns: when it was injected.
        until_ns: when all had settled.
        beside: groups that no agent was in during the whole fault: agents did not affect them.
        own_waits: the longest wait that a client chose itself, in seconds, by group; only groups that had one.
    """

    drawn: Drawn
    target: str
    seconds: float
    stops: Mapping[str, float]
    rebalances: Mapping[str, int]
    unexplained: Mapping[str, tuple[int, ...]]
    led: int | None
    violations: tuple[str, ...] = ()
    crashes: tuple[str, ...] = ()
    since_ns: int
    until_ns: int
    beside: frozenset[str] = frozenset()
    own_waits: Mapping[str, float] = field(default_factory=dict)

    @property
    def stop(self) -> float:
        """Its longest stop; in a run with agents, only of groups that an agent was in."""
        return max((stop for name, stop in self.stops.items() if name not in self.beside), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a whole run cost.

    Attributes:
        outcomes: of each fault.
        violations: how the groups differed from groups without agents at the end, after their consumers had left.
        findings: what was wrong over the whole run, by group.
        records: how many records were written.
        rebalances: number of new generations of the groups from the first fault on.
        told: how many of them are among the agents' events.
        seconds: how long it took.
    """

    outcomes: tuple[Outcome, ...]
    findings: Mapping[str, tuple[Finding, ...]]
    records: int
    rebalances: int
    told: int
    seconds: float
    violations: tuple[str, ...] = ()

    @property
    def with_agents(self) -> bool:
        """Whether it was a run with agents."""
        return any(outcome.led is not None for outcome in self.outcomes)

    def save(self, path: Path) -> None:
        """Write the run to a file, so that it can be compared without running it again."""
        path.write_bytes(_RUNS.dump_json(self))

    @staticmethod
    def load(path: Path) -> Run:
        """Read what `save` wrote.

        Raises:
            OSError: The file cannot be read.
            ValueError: It holds no run.
        """
        return _RUNS.validate_json(path.read_bytes())


_RUNS: Final = TypeAdapter(Run)


def run(
    schedule: Sequence[Drawn],
    *,
    with_agents: bool,
    means: Means,
    folder: Path,
    tell: Callable[[str], None],
) -> Run:
    """Run a schedule.

    Args:
        schedule: the faults.
        with_agents: whether agents lead the groups.
        means: what is possible on this machine.
        folder: for histories and logs.
        tell: called with progress messages.

    Raises:
        SandboxError: Groups did not settle, even after a restart of all members; with the fault.
    """
    begun = time.monotonic()
    with World(folder=folder, with_agents=with_agents, means=means, tell=tell) as world:
        outcomes = []
        before = world.generations()
        for drawn in schedule:
            outcome = _suffer(KINDS[drawn.kind](drawn, world), world)
            outcomes.append(outcome)
            tell(_line(outcome, len(schedule)))
            world.take_the_lead()
        new = {name: set(range(before[name] + 1, now + 1)) for name, now in world.generations().items()}
        told = {name: world.agents.rebalances(name) if world.agents is not None else frozenset() for name in new}
        tell("everything written is read to its end, and the histories are checked")
        violations = [*world.take_crashes(), *world.take_unsettled(), *world.finish()]
        histories = {name: group.history() for name, group in world.groups.items()}
    return Run(
        outcomes=tuple(outcomes),
        violations=tuple(violations),
        findings={name: tuple(check(history, _BOUNDS)) for name, history in histories.items()},
        records=sum(event.count for history in histories.values() for event in history.written),
        rebalances=sum(map(len, new.values())),
        told=sum(len(found & told[name]) for name, found in new.items()),
        seconds=time.monotonic() - begun,
    )


def _suffer(fault: Fault, world: World) -> Outcome:
    world.mark()
    before = world.generations()
    since, since_wall = now_ns(), time.time()
    inside = world.agents.inside() if world.agents is not None else frozenset()
    try:
        try:
            if fault.on_agents and world.agents is None:
                fault.target = "nothing happens"
            else:
                fault.inject()
        finally:
            fault.heal()
        world.settle()  # a fault may affect groups only when an agent's session expires, or when it returns
        world.network.close()
    except Exception as error:
        error.add_note(f"fault {fault.drawn.number}: {fault.title}, {fault.drawn.group}, {fault.target}")
        raise
    until = now_ns()
    recent = {name: group.recent() for name, group in world.groups.items()}
    new = {name: [one for one in sorted(generations(recent[name])) if one > before[name]] for name in recent}
    beside = world.agents.outside(since_wall) - inside if world.agents is not None else frozenset()
    return Outcome(
        drawn=fault.drawn,
        target=fault.target,
        seconds=(until - since) / 1e9,
        stops={
            name: longest(history, fault.counts_from.get(name, 0), since, until) for name, history in recent.items()
        },
        own_waits={
            name: max((end - begin) / 1e9 for begin, end in waits)
            for name, history in recent.items()
            if (waits := [one for one in own_waits(history) if since <= one[0] <= until])
        },
        rebalances={name: len(found) for name, found in new.items()},
        unexplained=_unexplained(
            fault, world, {name: found for name, found in new.items() if name not in beside}, since_wall
        ),
        led=None if world.agents is None else len(world.agents.led()),
        violations=(*fault.violations, *world.take_unsettled()),
        crashes=world.take_crashes(),
        since_ns=since,
        until_ns=until,
        beside=beside,
    )


def longest(history: History, counts_from: int, since_ns: int, until_ns: int) -> float:
    """Returns the longest stop within a time, in seconds, without waits that the members' client chose itself."""
    found = clipped(stops(history, least=_MIN_STOP), counts_from)
    return longest_stop(found, since_ns=since_ns, until_ns=until_ns, waits=own_waits(history))


def own_waits(history: History) -> list[tuple[int, int]]:
    """Returns the waits that members' clients chose themselves, each with start and end (`Event.ns`)."""
    return [
        (event.ns, event.ns + 1_000_000 * int(found.group(1)))
        for events in history.members.values()
        for event in events
        if event.kind == "error" and (found := _OWN_WAIT.fullmatch(event.message))
    ]


def _unexplained(
    fault: Fault, world: World, new: Mapping[str, Sequence[int]], since: float
) -> dict[str, tuple[int, ...]]:
    """Returns new generations that neither the fault nor, within `_TELLING_SECONDS`, an agent's event explains."""
    agents = world.agents
    if agents is None:
        return {}
    asked = {name: found for name, found in new.items() if found and name not in fault.explains()}
    until, left = time.monotonic() + _TELLING_SECONDS, dict[str, tuple[int, ...]]()
    while True:
        told = {name: agents.rebalances(name) for name in asked}
        left = {
            name: rest
            for name, found in asked.items()
            if (rest := tuple(sorted(set(found) - told[name]))) and not agents.tells_of_rebalance_outside(name, since)
        }
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.2)


def _line(outcome: Outcome, faults: int) -> str:
    drawn, kind = outcome.drawn, KINDS[outcome.drawn.kind]
    rebalances = sum(outcome.rebalances.values())
    words = f"{drawn.number}/{faults} {kind.title} ({drawn.group}: {outcome.target}): "
    words += (
        f"longest stop [bold]{outcome.stop:.2f} s[/bold], {rebalances} generations, settled in {outcome.seconds:.1f} s"
    )
    if outcome.led is not None:
        words += f", {outcome.led} led"
    if outcome.crashes:
        words += f", [red]{'; '.join(outcome.crashes)}[/red]"
    if outcome.violations:
        words += f", [red]{len(outcome.violations)} violations[/red]"
    if outcome.unexplained:
        words += f", [red]unexplained: {dict(outcome.unexplained)}[/red]"
    return words
