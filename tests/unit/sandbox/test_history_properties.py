"""A correct group's history has no findings, whatever its load and rebalances; any fault planted in it is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sandbox.history.checker import check
from sandbox.history.model import Bounds, History, Kind
from sandbox.members.lines import Partition
from sandbox.members.process import Event

_BOUNDS = Bounds(unowned=2.0, stop=2.0)
_SECOND = 1_000_000_000
_MEMBERS = ("one", "two", "three")


class _Group:
    """A simulated correct group: every partition has one owner, which reads, commits and hands over cleanly."""

    def __init__(self, partitions: int) -> None:
        self.now = _SECOND
        self.generation = 0
        self.partitions: list[Partition] = [("t", number) for number in range(partitions)]
        self.owner: dict[Partition, str] = {}
        self.position = dict.fromkeys(self.partitions, 0)
        self.committed = dict.fromkeys(self.partitions, 0)
        self.events: dict[str, list[Event]] = {name: [] for name in _MEMBERS}
        self.written: list[Event] = []

    def say(self, name: str, kind: str, **fields: object) -> None:
        self.now += _SECOND // 1000
        self.events[name].append(Event(kind=kind, ms=0, ns=self.now, **fields))  # type: ignore[arg-type]

    def rebalance(self, choice: int, *, abrupt: bool) -> None:
        """All members lose their partitions and get others; `abrupt` means without a last commit."""
        for name in sorted(set(self.owner.values())):
            own = [partition for partition, owner in self.owner.items() if owner == name]
            if not abrupt:
                self.commit(name)
            self.say(name, "lost" if abrupt else "revoked", partitions=frozenset(own), generation=self.generation)
        self.generation += 1
        for number, partition in enumerate(self.partitions):
            self.owner[partition] = _MEMBERS[(choice + number) % len(_MEMBERS)]
            self.position[partition] = self.committed[partition]
        for name in sorted(set(self.owner.values())):
            own = [partition for partition, owner in self.owner.items() if owner == name]
            self.say(name, "assigned", partitions=frozenset(own), generation=self.generation)

    def read(self, count: int) -> None:
        """Records are written to each partition, and each owner reads them."""
        for partition in self.partitions:
            self.now += _SECOND // 1000
            end = max((event.last for event in self.written if partition in event.partitions), default=-1)
            self.written.append(self._run("written", partition, end + 1, end + count))
            first, last = self.position[partition], end + count
            self.now += _SECOND // 1000
            self.events[self.owner[partition]].append(self._run("records", partition, first, last))
            self.position[partition] = last + 1

    def commit(self, name: str) -> None:
        """A member commits what it has read."""
        offsets = {one: self.position[one] for one, owner in self.owner.items() if owner == name}
        self.committed |= offsets
        self.say(name, "committed", offsets=offsets)

    def _run(self, kind: str, partition: Partition, first: int, last: int) -> Event:
        return Event(
            kind=kind,
            ms=0,
            ns=self.now,
            begun_ns=self.now,
            ended_ns=self.now,
            partitions=frozenset([partition]),
            first=first,
            last=last,
            count=last - first + 1,
        )

    def history(self) -> History:
        return History(
            members={name: tuple(events) for name, events in self.events.items() if events}, written=tuple(self.written)
        )


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(1, 40)),
        st.tuples(st.just("commit"), st.integers(0, 2)),
        st.tuples(st.just("rebalance"), st.integers(0, 2)),
        st.tuples(st.just("lose"), st.integers(0, 2)),
    ),
    max_size=12,
)


@st.composite
def _groups(draw: st.DrawFn) -> _Group:
    """A group that has read, rebalanced cleanly and read again, with any steps before."""
    group = _Group(draw(st.integers(1, 4)))
    steps = draw(_STEPS)
    for kind, number in [("rebalance", 0), *steps, ("read", 5), ("rebalance", 1), ("read", 5)]:
        if kind == "read":
            group.read(number)
        elif kind == "commit":
            group.commit(_MEMBERS[number])
        else:
            group.rebalance(number, abrupt=kind == "lose")
    return group


@given(_groups())
def test_a_correct_history_has_no_findings(group: _Group) -> None:
    """This holds for any writes, reads, commits, clean rebalances and losses."""
    assert check(group.history(), _BOUNDS) == []


def _reader(history: History, partition: Partition) -> tuple[str, int]:
    """The member that read a partition last, and the index of that event."""
    return max(
        (
            (name, at)
            for name, events in history.members.items()
            for at, event in enumerate(events)
            if _reads(event, partition)
        ),
        key=lambda found: history.members[found[0]][found[1]].ns,
    )


def _reads(event: Event, partition: Partition) -> bool:
    return event.kind == "records" and partition in event.partitions


def _changed(history: History, name: str, change: Callable[[tuple[Event, ...]], tuple[Event, ...]]) -> History:
    return replace(history, members={**history.members, name: change(history.members[name])})


def _later(history: History, after: int) -> History:
    """Everything after a moment happens ten seconds later."""

    def moved(events: tuple[Event, ...]) -> tuple[Event, ...]:
        delay = 10 * _SECOND
        return tuple(
            event
            if event.ns <= after
            else replace(event, ns=event.ns + delay, begun_ns=event.begun_ns + delay, ended_ns=event.ended_ns + delay)
            for event in events
        )

    return replace(history, members={name: moved(events) for name, events in history.members.items()})


def _owned_twice(history: History, partition: Partition) -> History:
    """Another member owns it too, in the same generation."""
    name, at = _reader(history, partition)
    read = history.members[name][at]
    generation = max(event.generation for event in history.members[name])
    other = next(one for one in _MEMBERS if one != name)
    had = (
        Event(kind="assigned", ms=0, ns=read.ns - 1, partitions=frozenset([partition]), generation=generation),
        Event(kind="revoked", ms=0, ns=read.ns, partitions=frozenset([partition]), generation=generation),
    )
    return replace(history, members={**history.members, other: (*history.members.get(other, ()), *had)})


def _unowned(history: History, partition: Partition) -> History:
    """The last owners get their partitions ten seconds late."""
    name, _ = _reader(history, partition)
    last = max(event.ns for event in history.members[name] if event.kind == "assigned")
    first = min(
        event.ns
        for events in history.members.values()
        for event in events
        if event.kind == "assigned" and event.generation == max(one.generation for one in history.members[name])
    )
    return _later(history, min(first, last) - 1)


def _skipped(history: History, partition: Partition) -> History:
    """The last read omits its last record."""
    name, at = _reader(history, partition)

    def change(events: tuple[Event, ...]) -> tuple[Event, ...]:
        return (*events[:at], replace(events[at], last=events[at].last - 1), *events[at + 1 :])

    return _changed(history, name, change)


def _read_again(history: History, partition: Partition) -> History:
    """The last owner begins one record before the commit."""
    name, at = _reader(history, partition)

    def change(events: tuple[Event, ...]) -> tuple[Event, ...]:
        return (*events[:at], replace(events[at], first=events[at].first - 1), *events[at + 1 :])

    return _changed(history, name, change)


def _stop(history: History, partition: Partition) -> History:
    """Everything from the last read of this partition on happens ten seconds late."""
    name, at = _reader(history, partition)
    return _later(history, history.members[name][at].ns - 1)


_PLANTS: dict[Kind, Callable[[History, Partition], History]] = {
    Kind.OWNED_TWICE: _owned_twice,
    Kind.UNOWNED: _unowned,
    Kind.SKIPPED: _skipped,
    Kind.READ_AGAIN: _read_again,
    Kind.STOP: _stop,
}


@given(_groups(), st.sampled_from(sorted(_PLANTS)), st.data())
def test_any_planted_fault_is_found(group: _Group, kind: Kind, data: st.DataObject) -> None:
    """A single fault of any kind is found in any partition of any history."""
    partition = data.draw(st.sampled_from(group.partitions))
    found = check(_PLANTS[kind](group.history(), partition), _BOUNDS)
    assert kind in {finding.kind for finding in found if finding.partition == partition}
