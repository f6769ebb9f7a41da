"""What waits to be published: the buffer of records with its bounds, and windows of samples."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from samerack.agent.publishing.outbox import Kind, Outbox, OutgoingRecord
from samerack.agent.publishing.publisher import Counted, Windows
from samerack.traffic.snapshot import FlowKey, Volume


def record(number: int, kind: Kind = Kind.SAMPLE, *, size: int = 10) -> OutgoingRecord:
    """A record of this size."""
    return OutgoingRecord(number=number, kind=kind, topic=kind.value, key=b"", value=bytes(size), group="orders")


def numbers(records: list[OutgoingRecord]) -> list[int]:
    """The numbers of the records."""
    return [one.number for one in records]


def test_the_oldest_state_goes_before_any_sample() -> None:
    """The next state has the same content; a sample's bytes are in no other record."""
    box = Outbox(max_bytes=30)
    for number, kind in enumerate((Kind.SAMPLE, Kind.STATE, Kind.STATE)):
        assert box.add(record(number, kind)) == []
    assert numbers(box.add(record(3))) == [1]
    assert numbers(box.add(record(4))) == [2]
    assert numbers(box.add(record(5))) == [0]
    assert (len(box), box.count(Kind.SAMPLE), box.bytes) == (3, 3, 30)


def test_a_large_record_takes_the_place_of_several() -> None:
    """Older records are dropped for a large one; one that is larger than the buffer is dropped itself."""
    box = Outbox(max_bytes=50)
    for number in range(5):
        box.add(record(number))
    assert numbers(box.add(record(5, size=25))) == [0, 1, 2]
    assert numbers(box.add(record(6, size=60))) == [3, 4, 5, 6]
    assert (len(box), box.bytes) == (0, 0)


def test_what_is_on_its_way_stays() -> None:
    """Records in flight cannot be dropped, so others are."""
    box = Outbox(max_bytes=20)
    box.add(record(0))
    sent = box.take(Kind.SAMPLE, 10)
    assert numbers(box.add(record(1))) == []
    assert numbers(box.add(record(2))) == [1]
    box.done(sent[0])
    assert (len(box), box.bytes) == (1, 10)
    box.done(sent[0])
    assert box.bytes == 10


def test_what_did_not_arrive_is_sent_again_in_its_place() -> None:
    """The order is by number, in whatever order records fail."""
    box = Outbox(max_bytes=1_000)
    for number in range(4):
        box.add(record(number))
    sent = box.take(Kind.SAMPLE, 3)
    assert box.take(Kind.SAMPLE, 3) == []
    box.done(sent[0])
    box.put_back(sent[2])
    box.put_back(sent[1])
    assert numbers(box.take(Kind.SAMPLE, 10)) == [1, 2, 3]
    box.put_all_back()
    assert box.numbers() == {1, 2, 3}
    assert numbers(box.empty()) == [1, 2, 3]
    assert (len(box), box.bytes) == (0, 0)


# windows of samples

NOON = 1_800_000_000  # a whole minute, in seconds since 1970
KEY = FlowKey(group="orders", topic="clicks", client_rack="a", replica_rack="b", method="estimated")
OTHER = FlowKey(group="orders", topic="clicks", client_rack="a", replica_rack="a", method="exact")


def totals(wire_bytes: int, records: int = 0) -> dict[FlowKey, Volume]:
    """Totals of one key."""
    return {KEY: Volume(wire_bytes=wire_bytes, records=records)}


def shown(found: list[Counted]) -> list[tuple[int, int, int, int]]:
    """Start and end in milliseconds after noon, bytes and records."""
    return [
        (one.begin - NOON * 1000, one.end - NOON * 1000, one.volume.wire_bytes, one.volume.records) for one in found
    ]


def test_a_window_is_reported_once_it_is_over() -> None:
    """Differences are summed in their window; what was counted before the first poll is at that time."""
    windows = Windows(60)
    windows.add(totals(100), NOON)
    windows.add(totals(150), NOON + 30)
    assert windows.closed() == []
    windows.add(totals(150), NOON + 60)
    assert shown(windows.closed()) == [(0, 60_000, 150, 0)]
    assert windows.closed() == windows.rest() == []


def test_what_lies_on_both_sides_of_a_boundary_is_divided_by_time() -> None:
    """Two of five seconds are in the minute before; bytes are whole, and none is lost."""
    windows = Windows(60)
    windows.add({}, NOON + 58)
    windows.add(totals(101, 11), NOON + 63)
    assert shown(windows.closed()) == [(58_000, 60_000, 40, 4)]
    assert shown(windows.rest()) == [(60_000, 63_000, 61, 7)]


def test_what_was_read_in_a_long_pause_counts_at_its_end() -> None:
    """After a machine's sleep the time of the reads is unknown."""
    windows = Windows(60)
    windows.add({}, NOON)
    windows.add(totals(100), NOON + 3_605)
    assert shown(windows.rest()) == [(3_605_000, 3_605_001, 100, 0)]


def test_a_clock_that_was_set_back_takes_nothing_back() -> None:
    """What is counted after the step is at the new time."""
    windows = Windows(60)
    windows.add(totals(100), NOON + 60)
    assert windows.closed() == []
    windows.add(totals(130), NOON + 10)
    assert shown(windows.rest()) == [(10_000, 10_001, 30, 0), (60_000, 60_001, 100, 0)]


@given(
    polls=st.lists(
        st.tuples(st.floats(-90, 300, allow_nan=False), st.integers(0, 10**12), st.integers(0, 10**6)), max_size=30
    ),
    seconds=st.sampled_from([1, 5, 15, 60]),
)
def test_every_byte_is_in_exactly_one_window(polls: list[tuple[float, int, int]], seconds: int) -> None:
    """For any clock the samples add up to the total, none is negative, and none spans two minutes."""
    windows = Windows(seconds)
    at, grown = float(NOON), {KEY: Volume(), OTHER: Volume()}
    found: list[Counted] = []
    for place, (step, wire_bytes, records) in enumerate(polls):
        at += step
        key = (KEY, OTHER)[place % 2]
        before = grown[key]
        after = Volume(wire_bytes=before.wire_bytes + wire_bytes, records=before.records + records)
        grown = {**grown, key: after}
        windows.add(grown, at)
        found += windows.closed()
    found += windows.rest()
    for key, volume in grown.items():
        ours = [one.volume for one in found if one.key == key]
        assert sum(one.wire_bytes for one in ours) == volume.wire_bytes
        assert sum(one.records for one in ours) == volume.records
    for one in found:
        assert min(one.volume.wire_bytes, one.volume.records) >= 0
        assert one.begin < one.end
        assert one.begin // (seconds * 1000) == (one.end - 1) // (seconds * 1000)
