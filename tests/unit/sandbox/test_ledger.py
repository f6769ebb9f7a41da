"""Counts of what a group read."""

from sandbox.members.ledger import longest_pauses, owned_twice, read_twice, readings
from sandbox.members.process import Event

_T0 = ("t", 0)
_T1 = ("t", 1)


def _records(partition: tuple[str, int], first: int, last: int, ms: int = 0) -> Event:
    return Event(
        kind="records", ms=ms, partitions=frozenset([partition]), first=first, last=last, count=last - first + 1
    )


def test_reads_in_order_are_neither_twice_nor_missing() -> None:
    """Consecutive runs, in any order of lines, have no gaps and no overlaps."""
    reading = readings([_records(_T0, 10, 19), _records(_T0, 0, 9)])[_T0]
    assert (reading.distinct, reading.read_twice, reading.missing) == (20, 0, 0)
    assert (reading.first, reading.last) == (0, 19)


def test_overlaps_are_counted_once_each() -> None:
    """A record in three runs counts twice as read again, also if one run lies within another."""
    events = [_records(_T0, 0, 9), _records(_T0, 5, 14), _records(_T0, 6, 7), _records(_T1, 0, 3)]
    assert readings(events)[_T0].distinct == 15
    assert read_twice(events) == 5 + 2


def test_gaps_are_missing() -> None:
    """Unread offsets between the first and the last read are missing."""
    reading = readings([_records(_T0, 3, 4), _records(_T0, 8, 9), _records(_T0, 8, 8)])[_T0]
    assert (reading.distinct, reading.missing, reading.read_twice) == (4, 3, 1)


def test_a_pause_counts_within_the_time_looked_at() -> None:
    """Pauses are cut at both ends of the period, and an end without reads is a pause too."""
    events = [_records(_T0, 0, 0, ms=1_000), _records(_T0, 1, 1, ms=1_500), _records(_T1, 0, 0, ms=100)]
    assert longest_pauses(events, since_ms=900, until_ms=3_500) == {_T0: 2.0, _T1: 2.6}


def test_a_partition_of_two_members_is_owned_twice() -> None:
    """Only partitions that several members own are named."""
    owned = {"a": frozenset({_T0, _T1}), "b": frozenset({_T1}), "c": frozenset[tuple[str, int]]()}
    assert owned_twice(owned) == {_T1}
