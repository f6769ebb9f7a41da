"""The buffer of records that Kafka has not acknowledged: bounds, order, and which record is dropped first."""

from __future__ import annotations

from samerack.agent.publishing.outbox import Kind, Outbox, OutgoingRecord


def record(number: int, kind: Kind = Kind.SAMPLE, *, size: int = 10) -> OutgoingRecord:
    """A record of this size."""
    return OutgoingRecord(number=number, kind=kind, topic=kind.value, key=b"", value=bytes(size), group="orders")


def numbers(records: list[OutgoingRecord]) -> list[int]:
    """The numbers of the records."""
    return [one.number for one in records]


def test_the_oldest_state_goes_before_any_sample() -> None:
    """The next state has the same content; a sample's bytes are in no other record."""
    box = Outbox(max_records=3, max_bytes=1_000)
    for number, kind in enumerate((Kind.SAMPLE, Kind.STATE, Kind.STATE)):
        assert box.add(record(number, kind)) == []
    assert numbers(box.add(record(3))) == [1]
    assert numbers(box.add(record(4))) == [2]
    assert numbers(box.add(record(5))) == [0]
    assert (len(box), box.count(Kind.SAMPLE), box.bytes) == (3, 3, 30)


def test_bytes_are_bounded_too() -> None:
    """Older records are dropped for a large one; one that is larger than the buffer is dropped itself."""
    box = Outbox(max_records=100, max_bytes=50)
    for number in range(5):
        box.add(record(number))
    assert numbers(box.add(record(5, size=25))) == [0, 1, 2]
    assert numbers(box.add(record(6, size=60))) == [3, 4, 5, 6]
    assert (len(box), box.bytes) == (0, 0)


def test_what_is_on_its_way_stays() -> None:
    """Records in flight cannot be dropped, so others are."""
    box = Outbox(max_records=2, max_bytes=1_000)
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
    box = Outbox(max_records=10, max_bytes=1_000)
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
