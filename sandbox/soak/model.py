"""What a soak run has seen, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sandbox.history.model import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What a run is to be.

    Attributes:
        seconds: how long, from when everything stands.
        move_seconds: time between two moves of replicas.
        sample_seconds: time between two samples.
        busy: how many processes that never wait share the processors with everything else meanwhile.
    """

    seconds: float
    move_seconds: float
    sample_seconds: float
    busy: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process of an agent at one moment, as the kernel tells.

    Attributes:
        pid: its process id.
        rss_bytes: resident memory.
        pss_bytes: the same, with pages that several processes share divided among them.
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
    """One moment.

    Attributes:
        seconds: since the beginning.
        processes: by agent and role, such as `one worker`.
        lag: of each group, records that were written and not read.
        led: how many groups an agent leads, as the agents tell.
        rebalances: how many generations all groups together have gone through since the beginning.
        load: how many threads of the machine ran or were ready to run, the kernel's average of the last minute.
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
        seconds: when it was done, since the beginning.
        followed_seconds: how long it took from then until no partition of any group was read across racks again, and
            coordinators and members agreed; None if that took too long.
    """

    number: int
    seconds: float
    followed_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A whole run.

    Attributes:
        seconds: how long the load and the moves lasted.
        samples: by time.
        moves: by time.
        per_second: records written to each group in a second.
        records: records written to all of them.
        findings: what was wrong in the members' histories, by group.
        longest_stop: the longest time, in seconds, that a partition with something to read was not read.
    """

    seconds: float
    samples: tuple[Sample, ...]
    moves: tuple[Move, ...]
    per_second: Mapping[str, float]
    records: int
    findings: Mapping[str, tuple[Finding, ...]]
    longest_stop: float
