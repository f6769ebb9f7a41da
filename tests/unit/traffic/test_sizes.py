"""Samples of a log within the budget, bytes and readers by committed offsets, and the envelopes of fetches."""

from __future__ import annotations

from struct import pack
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.cluster.wire import BrokerRequest
from samerack.traffic.curve import LogExtent, begin
from samerack.traffic.positions import Span
from samerack.traffic.sizes import (
    PARTITION_BYTES,
    PLACE_BYTES,
    RESPONSE_BYTES,
    AttributedBytes,
    Sizes,
    Stretch,
    answers_per_second,
    bytes_of,
    overhead_bytes,
    parts_of,
    places,
    read_stretch,
    with_overhead,
)
from tests.unit.cluster.scripted_wire import ScriptedBrokerClient
from tests.unit.traffic.test_exact import member


def batch(base: int, records: int, size: int) -> bytes:
    """A batch of version 2 whose whole size is `size`."""
    return pack(">qiibihi", base, size - 12, 0, 2, 0, 0, records - 1) + bytes(size - 27)


def test_batches_show_their_bytes() -> None:
    """Whole batches count with all of their bytes and offsets."""
    stretch = read_stretch(batch(10, 5, 500) + batch(15, 5, 700), 10, 100)
    assert stretch == Stretch(first=10, end=20, size_bytes=1200, batches=2)
    assert stretch.density == 120


def test_gaps_of_compaction_count_as_offsets() -> None:
    """Offsets that the cleaner removed have no bytes."""
    stretch = read_stretch(batch(50, 1, 100), 0, 1000)
    assert stretch == Stretch(first=0, end=51, size_bytes=100, batches=1)


def test_a_cut_batch_still_shows_its_size() -> None:
    """The last batch of an answer may be cut; its header is enough."""
    stretch = read_stretch(batch(0, 10, 1000)[:40], 0, 1000)
    assert stretch == Stretch(first=0, end=10, size_bytes=1000, batches=1)
    assert read_stretch(batch(0, 10, 1000)[:20], 0, 1000) is None


def test_what_lies_behind_is_left_out() -> None:
    """Batches that start after the range do not count."""
    stretch = read_stretch(batch(0, 10, 1000) + batch(10, 10, 9000), 0, 10)
    assert stretch is not None
    assert stretch.size_bytes == 1000


@given(st.integers(0, 10**9), st.integers(1, 10**6))
def test_places_are_few_and_in_the_range(first: int, length: int) -> None:
    """At most nine places, ascending, within the range, and the first one is its first offset."""
    found = places(first, first + length)
    assert 1 <= len(found) <= 9
    assert found[0] == first
    assert found == sorted(set(found))
    assert found[-1] < first + length


def test_each_place_stands_for_what_follows() -> None:
    """Densities are weighted by the offsets up to the next place."""
    stretches = [
        Stretch(first=0, end=10, size_bytes=100, batches=1),
        Stretch(first=60, end=70, size_bytes=1000, batches=1),
    ]
    assert bytes_of(stretches, 0, 100) == 60 * 10 + 40 * 100
    assert bytes_of([], 0, 100) == 0


@given(st.binary(max_size=200), st.integers(0, 100), st.integers(0, 200))
def test_nonsense_does_not_break(data: bytes, asked: int, until: int) -> None:
    """Bytes that are no batches never raise an error."""
    stretch = read_stretch(data, asked, until)
    assert stretch is None or stretch.end > stretch.first


@pytest.mark.parametrize(
    ("budget", "broker", "asked", "size"),
    [
        (PLACE_BYTES * 10, 1, 10, 1_000 + 990 * 100),
        (PLACE_BYTES * 2, 1, 3, 1_000 + 990 * 100),
        (PLACE_BYTES, 1, 1, 1_000 + 990 * 100),
        (PLACE_BYTES - 1, 1, 0, 7_000),
        (PLACE_BYTES * 10, None, 0, 7_000),
        (0, 1, 0, 7_000),
    ],
    ids=["all places", "some", "the first one", "none", "nobody serves", "off"],
)
def test_a_compacted_topic_is_sampled_within_the_budget(budget: int, broker: int | None, asked: int, size: int) -> None:
    """Without a sample it counts by its curve; the requests of one cycle never ask for more than the budget."""
    limits: list[int] = []

    def answer(question: BrokerRequest) -> Any:
        ((partition,),) = (topic.partitions for topic in question.request.topics)
        limits.append(partition.partition_max_bytes)
        row = SimpleNamespace(error_code=0, records=batch(partition.fetch_offset, 10, 1000))
        return SimpleNamespace(responses=[SimpleNamespace(topic="t", partitions=[row])])

    sizes = Sizes(ScriptedBrokerClient(answer), rack="a", budget_bytes=budget, serving=lambda _: broker)
    span = Span(partition=("t", 0), first=0, end=1000)
    curves = {("t", 0): begin(LogExtent(start=0, end=1000, size_bytes=7_000, leader=1))}
    assert sizes.prepare([span], curves, compacted={"t"}) == []
    assert sizes.size_of(span, curves) == pytest.approx(size)
    assert len(limits) == asked
    assert sum(limits) <= budget
    assert sizes.sampled_partitions == ({("t", 0)} if asked else set())


P0, P1 = ("t", 0), ("t", 1)


def test_what_is_committed_at_a_handover_was_read_by_the_owner_before() -> None:
    """Members commit when they revoke a partition."""
    old, new = member("old", "c", 0), member("new", "d", 0)
    (part,) = parts_of(
        [Span(partition=P0, first=0, end=5)],
        lambda span: 10.0 * (span.end - span.first),
        owners={P0: new},
        owners_before={P0: old},
        serving=lambda _, reader: 1 if reader is old else 2,
    )
    assert part == AttributedBytes(partition=P0, member=old, broker=1, wire_bytes=50.0, records=5)


def test_envelopes_are_spread_over_what_is_read() -> None:
    """Each connection's envelopes are spread over its partitions by bytes; idle partitions are fetched too."""
    one = member("m", "c", 0, 1)
    parts = [AttributedBytes(partition=P0, member=one, broker=1, wire_bytes=16384.0, records=5)]
    found = with_overhead(
        parts, owners={P0: one, P1: one}, serving=lambda *_: 1, batch_bytes={"t": 1638.4}, seconds=10.0
    )
    expected = overhead_bytes(partitions=2, batches_per_second=1.0, seconds=10.0, sessions=False)
    assert {part.partition: part.wire_bytes for part in found} == {
        P0: pytest.approx(16384.0 + expected),
        P1: pytest.approx(0.0),
    }
    assert with_overhead(parts, owners={P0: one}, serving=lambda *_: 1, batch_bytes={}, seconds=0.0) == parts


def test_sessions_name_only_what_has_something() -> None:
    """Java's fetch sessions leave out the envelopes of idle partitions."""
    with_session = overhead_bytes(partitions=50, batches_per_second=0.0, seconds=1.0, sessions=True)
    assert with_session == pytest.approx(answers_per_second(0.0) * (RESPONSE_BYTES + PARTITION_BYTES))
    assert with_session < overhead_bytes(partitions=50, batches_per_second=0.0, seconds=1.0, sessions=False)


@given(st.floats(0, 1e6), st.floats(1.01, 10))
def test_more_batches_mean_more_answers_up_to_a_bound(batches: float, factor: float) -> None:
    """Idle connections get two answers a second, busy ones five hundred at most."""
    assert 1.9 < answers_per_second(batches) <= answers_per_second(batches * factor) + 1e-6
    assert answers_per_second(batches) <= 500.0
