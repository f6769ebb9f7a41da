"""Bytes and readers by committed offsets, and the envelopes of fetches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.traffic.attribute import (
    PARTITION_BYTES,
    RESPONSE_BYTES,
    AttributedBytes,
    answers_per_second,
    overhead_bytes,
    parts_of,
    with_overhead,
)
from samerack.traffic.positions import Span
from tests.unit.traffic.test_exact import member

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
