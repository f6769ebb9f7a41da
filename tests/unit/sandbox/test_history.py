"""The checker finds what harms a group in what its members say, and reports nothing that Kafka does not promise."""

from __future__ import annotations

from collections.abc import Iterable

from lab.sandbox.history.checker import check
from lab.sandbox.history.history import Bounds, History, Kind
from lab.sandbox.members.process import Event

_BOUNDS = Bounds(unowned=5.0, stop=3.0)
_T = ("t", 0)


def _event(kind: str, at: float, generation: int = -1) -> Event:
    """A member's event on the partition, at so many seconds."""
    return Event(kind=kind, ms=0, ns=round(at * 1e9), partitions=frozenset([_T]), generation=generation)


def _ran(at: float, first: int, last: int, *, kind: str = "records") -> Event:
    """A read of these offsets, or a write."""
    ns = round(at * 1e9)
    return Event(
        kind=kind, ms=0, ns=ns, begun_ns=ns, ended_ns=ns, partitions=frozenset([_T]), first=first, last=last, count=1
    )


def _offsets(kind: str, at: float, next_: int) -> Event:
    """A confirmed commit, or the offset that the coordinator has."""
    return Event(kind=kind, ms=0, ns=round(at * 1e9), offsets={_T: next_})


def _found(*kept: Event, written: Iterable[Event] = (), **members: list[Event]) -> list[tuple[Kind, object]]:
    """Kind of each finding, with its offsets, or else its members, or else its seconds."""
    of_members = {name: tuple(events) for name, events in members.items()}
    found = check(History(members=of_members, written=tuple(written), kept=kept), _BOUNDS)
    return [(one.kind, one.offsets or one.members or one.seconds) for one in found]


def _handed_over(*, first: int = 10, committed: int = 10) -> dict[str, list[Event]]:
    """One member reads offsets 0 to 9 and commits; the next owner begins at `first`."""
    one = [_event("assigned", 1, 1), _ran(2, 0, 9), _offsets("committed", 2.5, committed), _event("revoked", 3, 1)]
    two = [_event("assigned", 4, 2), _ran(4.5, first, 19), _event("revoked", 5, 2), _event("closed", 5)]
    return {"one": one, "two": two}


_WRITTEN = [_ran(0.5, 0, 9, kind="written"), _ran(3.5, 10, 19, kind="written")]


def test_a_hand_over_in_good_order_has_no_findings() -> None:
    """One owner follows the other at the commit; reading again what was not committed is no fault either."""
    assert _found(written=_WRITTEN, **_handed_over()) == []
    assert _found(written=_WRITTEN, **_handed_over(first=7, committed=7)) == []


def test_a_lost_record_is_found() -> None:
    """Between records that were read, and at the end of those written."""
    assert _found(written=_WRITTEN, **_handed_over(first=12)) == [(Kind.SKIPPED, (10, 11))]
    later = [*_WRITTEN, _ran(4.8, 20, 21, kind="written")]
    assert _found(written=later, **_handed_over()) == [(Kind.SKIPPED, (20, 21))]


def test_a_doubled_record_is_found() -> None:
    """A new owner begins below the commit, or an owner reads backwards."""
    assert _found(written=_WRITTEN, **_handed_over(first=7)) == [(Kind.READ_AGAIN, (7, 9))]
    assert _found(one=[_event("assigned", 1), _ran(2, 0, 9), _ran(3, 5, 12)]) == [(Kind.READ_AGAIN, (5, 9))]


def test_a_double_owner_is_found() -> None:
    """Two members own the partition in one generation; a member that slept beyond its session is no fault."""
    two = [_event("assigned", 4, 4), _event("revoked", 9)]
    twice = [(Kind.OWNED_TWICE, ("one", "two"))]
    assert _found(one=[_event("assigned", 1, 3), _event("joined", 2, 4), _event("revoked", 9)], two=two) == twice
    assert _found(one=[_event("assigned", 1), _event("lost", 9)], two=two) == twice  # it reports no generation
    assert _found(one=[_event("assigned", 1, 3), _event("lost", 9)], two=two) == []


def test_a_partition_of_nobody_a_stop_and_a_forgotten_offset_are_found() -> None:
    """A stop lasts from the last read to the next one, while there are records."""
    late = [_event("assigned", 8, 2), _event("revoked", 9, 2)]
    assert _found(one=[_event("assigned", 1, 1), _event("revoked", 2, 1)], two=late) == [(Kind.UNOWNED, 6.0)]
    stopped = [_event("assigned", 0), _ran(1, 0, 9), _ran(6, 10, 19)]
    assert _found(written=[_WRITTEN[0], _ran(5, 10, 19, kind="written")], one=stopped) == []
    assert _found(written=[_ran(0.5, 0, 19, kind="written")], one=stopped) == [(Kind.STOP, 5.0)]
    assert _found(_offsets("kept", 6, 8), **_handed_over()) == [(Kind.FORGOTTEN, (8, 10))]
