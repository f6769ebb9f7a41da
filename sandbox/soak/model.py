"""The settings and results of a soak run, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sandbox.history.model import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The settings of a run.

    Attributes:
        seconds: how long, after everything has started.
        move_seconds: time between two moves of replicas.
        sample_seconds: time between two samples.
        busy: number of additional processes that use the processors all the time.
    """

    seconds: float
    move_seconds: float
    sample_seconds: float
    busy: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The kernel's figures of one process of an agent at one moment.

    Attributes:
        pid: its process id.
        rss_bytes: resident memory.
        pss_bytes: the same, with shared pages divided among the processes that share them.
        descriptors: open files and sockets.
        threads: how many.
    """

    pid: int
    rss_bytes: int
    pss_bytes: int
    descriptors: int
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """All figures at one moment.

    Attributes:
        seconds: since the start.
        processes: by agent and role, such as `one worker`.
        lag: of each group, records that were written and not read.
        led: how many groups an agent leads, as reported by the agents.
        rebalances: number of new generations of all groups since the start.
        load: number of threads of the machine that ran or were ready to run, the kernel's average of the last minute.
    """

    seconds: float
    processes: Mapping[str, Process]
    lag: Mapping[str, int]
    led: int
    rebalances: int
    load: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One move of replicas, in the topics of all groups.

    Attributes:
        number: from 1.
        seconds: when it was done, since the start.
        followed_seconds: how long it took from then until no partition of any group was read across racks again, and
            coordinators and members agreed; None if that took too long.
    """

    number: int
    seconds: float
    followed_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The results of a whole run.

    Attributes:
        seconds: how long the load and the moves lasted.
        samples: in order of time.
        moves: in order of time.
        per_second: records written to each group in a second.
        records: records written to all of them.
        findings: what was wrong in the members' histories, by group.
        longest_stop: the longest time, in seconds, that a partition with records to read was not read.
        worker_ends: why workers of agents ended during the run.
    """

    seconds: float
    samples: tuple[Sample, ...]
    moves: tuple[Move, ...]
    per_second: Mapping[str, float]
    records: int
    findings: Mapping[str, tuple[Finding, ...]]
    longest_stop: float
    worker_ends: tuple[str, ...] = ()
