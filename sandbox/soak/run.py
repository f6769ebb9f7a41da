"""Runs a soak test: the world of `sandbox.chaos` without faults, with replica moves and a sample every few seconds."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Final

import psutil
from confluent_kafka import KafkaException

from sandbox.chaos.agents import Agent, Agents
from sandbox.chaos.group import Group, now_ns
from sandbox.chaos.means import Means
from sandbox.chaos.setup import FEED_SECONDS, Setup
from sandbox.chaos.world import World
from sandbox.contract import RACKS
from sandbox.errors import SandboxError
from sandbox.history.checker import check
from sandbox.history.model import Bounds, History
from sandbox.history.spans import longest_stop, stops
from sandbox.processes import end, spawn
from sandbox.soak.model import Move, Pace, Process, Run, Sample

Placed = tuple[int, ...]
"""The broker of each partition."""

_NAMES: Final = tuple(rack for rack in RACKS.values() if rack is not None)
_PLACED: Final[Placed] = (1, 2, 3, 1, 2, 3)
"""One replica each, two in each rack, a member in each rack: some assignment has no cross-rack reads after any swap."""
SETUPS: Final = tuple(
    Setup(
        name=f"soak-{client}",
        assignor=assignor,
        seats=tuple((client, rack) for rack in _NAMES),
        extra=(client, _NAMES[0]),
        placed=tuple((broker,) for broker in _PLACED),
    )
    for client, assignor in (("java", "cooperative-sticky"), ("confluent", "range"), ("kafka-python", "range"))
)
_MEANS: Final = Means(network=False, clock=False, disk=False)
_BOUNDS: Final = Bounds(unowned=30.0, stop=30.0)
_FINISH_SECONDS: Final = 600.0
"""Brokers of a starved machine have minutes of records to catch up on."""
_FOLLOW_SECONDS: Final = 30.0
_TURN_SECONDS: Final = 0.1
_MINUTE: Final = 60.0
_MIN_STOP: Final = 0.05
_MIB: Final = 2**20
_BUSY: Final = ("sh", "-c", "while :; do :; done")


def run(pace: Pace, *, folder: Path, tell: Callable[[str], None]) -> Run:
    """Run the test.

    Args:
        pace: its duration and intervals.
        folder: for histories, logs and samples.
        tell: called with progress messages.

    Raises:
        SandboxError: Something did not start, move or end in time.
    """
    with World(folder=folder, with_agents=True, means=_MEANS, tell=tell, setups=SETUPS) as world:
        tell(f"all stand; {pace.seconds / _MINUTE:g} minutes begin")
        since = now_ns()
        soak = _Soak(world, folder=folder, tell=tell)
        with _busy(pace.busy):
            soak.play(pace)
        until = now_ns()
        tell("everything written is read to its end, and the histories are checked")
        histories = {name: group.finish(timeout=_FINISH_SECONDS) for name, group in world.groups.items()}
        ends = soak.worker_ends()
    return Run(
        seconds=pace.seconds,
        samples=tuple(soak.samples),
        moves=tuple(soak.moves),
        per_second={setup.name: len(setup.placed) / FEED_SECONDS for setup in SETUPS},
        records=sum(event.count for history in histories.values() for event in history.written),
        findings={name: tuple(check(history, _BOUNDS)) for name, history in histories.items()},
        longest_stop=max(_longest_stop(history, since, until) for history in histories.values()),
        worker_ends=ends,
    )


@contextmanager
def _busy(count: int) -> Iterator[None]:
    """Keeps the processors busy with `count` processes."""
    processes = [spawn(_BUSY, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            end(process, kill=True)


def _longest_stop(history: History, since: int, until: int) -> float:
    return longest_stop(stops(history, least=_MIN_STOP), since_ns=since, until_ns=until)


class _Soak:
    """Moves replicas and takes samples between the start and the end of the load."""

    def __init__(self, world: World, *, folder: Path, tell: Callable[[str], None]) -> None:
        self.samples: list[Sample] = []
        self.moves: list[Move] = []
        self._world = world
        self._tell = tell
        self._file = folder / "samples.jsonl"
        self._placed = dict.fromkeys(world.groups, _PLACED)
        self._before = sum(world.generations().values())
        self._begun = 0.0
        self._moved: float | None = None

    def play(self, pace: Pace) -> None:
        """Run until the time is over and the groups have followed the last move, or its time limit is over."""
        self._begun = time.monotonic()
        sample, move, line = 0.0, pace.move_seconds / 2, _MINUTE
        while self._now() < pace.seconds or self._moved is not None:
            if self._now() >= sample:
                sample += pace.sample_seconds
                self._sample()
            if self._moved is None and move <= self._now() < pace.seconds:
                move += pace.move_seconds
                self._move()
            if self._now() >= line:
                line += _MINUTE
                self._tell(_line(self.samples[-1], self.moves))
            self._look()
            time.sleep(_TURN_SECONDS)
        self._sample()

    def worker_ends(self) -> tuple[str, ...]:
        """Returns why workers ended before their supervisors were asked to end, by the supervisors' logs."""
        agents: Agents | None = self._world.agents
        ended = () if agents is None else (one.process.events("worker-died") for one in agents.all)
        return tuple(str(event["reason"]) for event in chain.from_iterable(ended))

    def _now(self) -> float:
        return time.monotonic() - self._begun

    def _move(self) -> None:
        moves: dict[tuple[str, int], list[int]] = {}
        for group, placed in self._placed.items():
            self._placed[group] = after = swapped(placed, len(self.moves))
            moves |= {(group, at): [new] for at, (old, new) in enumerate(zip(placed, after, strict=True)) if old != new}
        begun = self._now()
        try:
            self._world.admin.move_replicas(moves)
        except SandboxError as error:  # starved brokers take their time: not followed, but no end of the run
            self._tell(f"a move was not done in time: {error}")
            self.moves.append(Move(number=len(self.moves) + 1, seconds=begun, followed_seconds=None))
            return
        self._moved = self._now()

    def _look(self) -> None:
        """Record the last move if the groups have followed it, or if that took too long."""
        if self._moved is None:
            return
        took: float | None = self._now() - self._moved
        if not all(_follows(group, self._placed[name]) for name, group in self._world.groups.items()):
            if self._now() - self._moved < _FOLLOW_SECONDS:
                return
            took = None
        self.moves.append(Move(number=len(self.moves) + 1, seconds=self._moved, followed_seconds=took))
        self._moved = None

    def _sample(self) -> None:
        world = self._world
        agents: Agents | None = world.agents
        ends = world.admin.ends(list(world.groups))
        found = Sample(
            seconds=self._now(),
            processes={} if agents is None else dict(chain.from_iterable(map(_processes, agents.all))),
            lag={name: _lag(group, ends) for name, group in world.groups.items()},
            led=0 if agents is None else len(agents.led()),
            rebalances=sum(world.generations().values()) - self._before,
            load=os.getloadavg()[0],
        )
        self.samples.append(found)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(found)) + "\n")


def swapped(placed: Placed, turn: int) -> Placed:
    """Returns the placement with two partitions exchanged: another pair at each turn, always on two brokers.

    Raises:
        ValueError: All partitions are on one broker.
    """
    count = len(placed)
    pairs = [((turn + one) % count, (turn + one + other) % count) for other in range(1, count) for one in range(count)]
    here, there = next(((a, b) for a, b in pairs if placed[a] != placed[b]), (0, 0))
    if here == there:
        raise ValueError(f"nothing to swap: {placed}")
    after = list(placed)
    after[here], after[there] = after[there], after[here]
    return tuple(after)


def _follows(group: Group, placed: Placed) -> bool:
    """Returns whether nothing is read across racks, and members and coordinator agree."""
    across = any(
        RACKS[placed[number]] != seat.rack for seat, member in group.present.items() for _, number in member.owned
    )
    if across:
        return False
    try:
        return group.agrees()
    except KafkaException:  # the group has another coordinator: ask again
        return False


def _lag(group: Group, ends: Mapping[tuple[str, int], int]) -> int:
    """Returns the lag; members print reads up to 0.1 s late, and may have read more since the brokers answered."""
    return sum(max(0, end - group.read_to(at) - 1) for at, end in ends.items() if at[0] == group.name)


def _processes(agent: Agent) -> list[tuple[str, Process]]:
    """Returns the processes by role, without those that have ended."""
    found: list[tuple[str, Process]] = []
    for role, pid in (("supervisor", agent.process.process.pid), ("worker", agent.worker())):
        with suppress(psutil.NoSuchProcess):
            if pid:
                found.append((f"{agent.name} {role}", _measured(psutil.Process(pid))))
    return found


def _measured(process: psutil.Process) -> Process:
    memory = process.memory_full_info()
    return Process(
        pid=process.pid,
        rss_bytes=memory.rss,
        pss_bytes=memory.pss,
        descriptors=process.num_fds(),
        threads=process.num_threads(),
    )


def _line(sample: Sample, moves: Sequence[Move]) -> str:
    followed = [move.followed_seconds for move in moves if move.followed_seconds is not None]
    words = f"{sample.seconds / _MINUTE:.0f} min: {len(followed)} of {len(moves)} moves followed"
    words += f" (longest {max(followed):.1f} s)" if followed else ""
    for name, process in sorted(sample.processes.items()):
        words += f"; {name} {process.rss_bytes / _MIB:.1f} MiB, {process.descriptors} fds, {process.threads} threads"
    lag = ", ".join(map(str, sample.lag.values()))
    return f"{words}; lag {lag}; {sample.rebalances} rebalances; {sample.led} led; load {sample.load:.0f}"
