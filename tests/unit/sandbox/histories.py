"""Histories made by hand, for tests of the checker; times in seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sandbox.history.model import History
from sandbox.members.lines import Partition
from sandbox.members.process import Event

T0: Partition = ("t", 0)
T1: Partition = ("t", 1)


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def told(kind: str, at: float, *partitions: Partition, generation: int = -1) -> Event:
    """An event that a member got about partitions."""
    return Event(kind=kind, ms=0, ns=_ns(at), partitions=frozenset(partitions), generation=generation)


def ran(at: float, partition: Partition, first: int, last: int, *, until: float = 0.0, kind: str = "records") -> Event:
    """A read, or a write of the feeder, of an offset range; it ends at `until` if that is later than `at`."""
    end = _ns(max(at, until))
    return Event(
        kind=kind,
        ms=0,
        ns=end,
        begun_ns=_ns(at),
        ended_ns=end,
        partitions=frozenset([partition]),
        first=first,
        last=last,
        count=last - first + 1,
    )


def wrote(at: float, partition: Partition, first: int, last: int) -> Event:
    """A write of the feeder."""
    return ran(at, partition, first, last, kind="written")


def committed(at: float, offsets: Mapping[Partition, int]) -> Event:
    """A commit that a coordinator confirmed."""
    return Event(kind="committed", ms=0, ns=_ns(at), offsets=dict(offsets))


def kept(at: float, offsets: Mapping[Partition, int]) -> Event:
    """The committed offsets that the coordinator has."""
    return Event(kind="kept", ms=0, ns=_ns(at), offsets=dict(offsets))


def history(written: Iterable[Event] = (), *, coordinator: Iterable[Event] = (), **members: Iterable[Event]) -> History:
    """A history with members by name."""
    return History(
        members={name: tuple(sorted(events, key=lambda event: event.ns)) for name, events in members.items()},
        written=tuple(written),
        kept=tuple(coordinator),
    )
