"""Runs a schedule in a world: injects each fault and measures its cost; then checks the whole history."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from lab.sandbox.chaos.agents import Agents
from lab.sandbox.chaos.fault import Drawn, Fault
from lab.sandbox.chaos.faults import KINDS
from lab.sandbox.chaos.group import now_ns
from lab.sandbox.chaos.means import Means
from lab.sandbox.chaos.world import World
from lab.sandbox.history.checker import check
from lab.sandbox.history.history import Bounds, Finding, History
from lab.sandbox.history.spans import clipped, longest_stop, stops

_MIN_STOP: Final = 0.05
"""Seconds; anything shorter is no stop: a poll or a flush takes as long."""
_REPORTING_SECONDS: Final = 3.0
"""An agent polls each group once a second, and a killed one must start first."""
_REFUSED: Final = re.compile(r"max\w*\W*size|\[81\]", re.IGNORECASE)
"""GROUP_MAX_SIZE_REACHED in the words of each client; kafka-python ends with it, and franz-go just does not settle."""
_BOUNDS: Final = Bounds(unowned=60.0, stop=60.0)
"""Stops are compared fault by fault; these bounds are for what no fault may cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one fault cost the groups."""

    drawn: Drawn
    target: str  # what it affected, in words
    seconds: float  # from its injection until all groups had settled
    stops: Mapping[str, float]  # the longest stop of each group's partitions, in seconds
    rebalances: Mapping[str, int]  # new generations of each group
    unexplained: Mapping[str, tuple[int, ...]]  # generations that neither an agent's events nor the fault explain
    led: int | None  # how many groups an agent led afterwards, before `take_the_lead`; None without agents
    violations: tuple[str, ...] = ()  # how groups were not as without agents, and what did not settle
    crashes: tuple[str, ...] = ()  # members that ended by themselves, with their last output
    since_ns: int  # when it was injected

    @property
    def stop(self) -> float:
        """Its longest stop."""
        return max(self.stops.values(), default=0.0)

    def __str__(self) -> str:
        drawn = self.drawn
        return f"fault {drawn.number} ({KINDS[drawn.kind].title}; {drawn.group}, {self.target})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosRun:
    """What a whole run cost."""

    faults: tuple[Outcome, ...]
    findings: Mapping[str, tuple[Finding, ...]]  # what was wrong over the whole run, by group
    records: int  # written
    rebalances: int  # new generations of the groups from the first fault on
    seconds: float
    at_the_end: tuple[str, ...] = ()  # how groups were not as without agents after their consumers had left
    max_group_size: int | None = None  # `group.max.size` of the brokers

    @property
    def with_agents(self) -> bool:
        """Whether it was a run with agents."""
        return any(outcome.led is not None for outcome in self.faults)

    @property
    def violations(self) -> int:
        """How many times a group without consumers was not as without agents."""
        return sum(len(outcome.violations) for outcome in self.faults) + len(self.at_the_end)


RUNS: Final = TypeAdapter(ChaosRun)
"""Runs as JSON."""


def run(  # noqa: PLR0913 - each is a part of the world
    schedule: Sequence[Drawn],
    *,
    with_agents: bool,
    means: Means,
    folder: Path,
    report: Callable[[str], None],
    max_group_size: int | None = None,
) -> ChaosRun:
    """Run a schedule, with histories and log in a folder."""
    begun = time.monotonic()
    with World(
        folder=folder, with_agents=with_agents, means=means, report=report, max_group_size=max_group_size
    ) as world:
        faults: list[Outcome] = []
        before = world.generations()
        for drawn in schedule:
            # its stops may begin with the last reads before it, during the fault before
            outcome = _suffer(Fault(drawn, world), world, recent_ns=faults[-1].since_ns if faults else 0)
            faults.append(outcome)
            report(_line(outcome, len(schedule)))
            world.take_the_lead()
        rebalances = sum(now - before[name] for name, now in world.generations().items())
        report("everything written is read to its end, and the histories are checked")
        at_the_end = [*chain(*world.take_trouble()), *world.finish()]
        histories = {name: group.history() for name, group in world.groups.items()}
    return ChaosRun(
        faults=tuple(faults),
        at_the_end=tuple(at_the_end),
        findings={name: tuple(check(history, _BOUNDS)) for name, history in histories.items()},
        records=sum(event.count for history in histories.values() for event in history.written),
        rebalances=rebalances,
        seconds=time.monotonic() - begun,
        max_group_size=max_group_size,
    )


def _suffer(fault: Fault, world: World, *, recent_ns: int) -> Outcome:
    before, agents, kind = world.generations(), world.agents, KINDS[fault.drawn.kind]
    alone = world.left_alone()
    since = now_ns()
    try:
        with fault.healing:
            if kind.on_agents and agents is None:
                fault.target = "nothing happens"
            else:
                kind.inject(fault)
        world.settle()  # a fault may affect groups only when an agent's session expires, or when it returns
        world.network.close()
    except Exception as error:
        error.add_note(f"fault {fault.drawn.number}: {kind.title}, {fault.drawn.group}, {fault.target}")
        raise
    until = now_ns()
    recent = {name: group.recent(recent_ns) for name, group in world.groups.items()}
    new = {name: _generations(history, after=before[name]) for name, history in recent.items()}
    explained = fault.explains | alone | world.left_alone()  # who is not in a group does not know its generations
    asked = {name: found for name, found in new.items() if found and name not in explained}
    crashes, unsettled = world.take_trouble()
    return Outcome(
        drawn=fault.drawn,
        target=fault.target,
        seconds=(until - since) / 1e9,
        stops={
            name: _longest(history, fault.counts_from.get(name, 0), since, until) for name, history in recent.items()
        },
        rebalances={name: len(found) for name, found in new.items()},
        unexplained=_unexplained(agents, asked),
        led=None if agents is None else len(agents.led()),
        violations=(*fault.violations, *unsettled, *refused(recent, since)),
        crashes=tuple(crashes),
        since_ns=since,
    )


def refused(histories: Mapping[str, History], since_ns: int) -> list[str]:
    """Return the members that brokers have refused since then because their group was full."""
    return [
        f"{name} is refused in {group}: {event.message}"
        for group, history in histories.items()
        for name, events in history.members.items()
        for event in events
        if event.kind == "error" and event.ns >= since_ns and _REFUSED.search(event.message)
    ]


def _generations(history: History, *, after: int) -> list[int]:
    """Return the generations after this one that members recorded."""
    found = {event.generation for events in history.members.values() for event in events}
    return sorted(generation for generation in found if generation > after)


def _longest(history: History, counts_from: int, since_ns: int, until_ns: int) -> float:
    """Return the longest stop within a time, in seconds."""
    found = clipped(stops(history, min_seconds=_MIN_STOP), counts_from)
    return longest_stop(found, since_ns=since_ns, until_ns=until_ns)


def _unexplained(agents: Agents | None, asked: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """Return generations that no agent's event explains within `_REPORTING_SECONDS`."""
    until = time.monotonic() + _REPORTING_SECONDS
    while agents is not None:
        left = {name: tuple(sorted(set(found) - agents.rebalances(name))) for name, found in asked.items()}
        if not any(left.values()) or time.monotonic() > until:
            return {name: rest for name, rest in left.items() if rest}
        time.sleep(0.2)
    return {}


def _line(outcome: Outcome, faults: int) -> str:
    drawn = outcome.drawn
    words = f"{drawn.number}/{faults} {KINDS[drawn.kind].title} ({drawn.group}: {outcome.target}): "
    words += f"longest stop [bold]{outcome.stop:.2f} s[/bold], {sum(outcome.rebalances.values())} generations"
    words += f", settled in {outcome.seconds:.1f} s"
    if outcome.led is not None:
        words += f", {outcome.led} led"
    wrong = [*outcome.crashes]
    if outcome.violations:
        wrong.append(f"{len(outcome.violations)} violations")
    if outcome.unexplained:
        wrong.append(f"unexplained: {dict(outcome.unexplained)}")
    return words + "".join(f", [red]{one}[/red]" for one in wrong)
