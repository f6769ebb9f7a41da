"""Bytes that are no message: always ProtocolError with the place, never another error, never a large allocation."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.protocol.consumer import decode_assignment, decode_subscription, encode_assignment, encode_subscription
from samerack.protocol.errors import ProtocolError
from samerack.protocol.sticky import decode_cooperative_sticky, decode_sticky, encode_sticky
from tests.unit.protocol.strategies import ASSIGNMENTS, PARTITIONS, SUBSCRIPTIONS, damaged

if TYPE_CHECKING:
    from collections.abc import Callable

    from samerack.protocol.values import Assignment, Subscription

MESSAGES = st.one_of(
    SUBSCRIPTIONS.map(encode_subscription),
    ASSIGNMENTS.map(encode_assignment),
    PARTITIONS.map(lambda owned: encode_sticky(owned, 3)),
)


@given(damaged(MESSAGES))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """The readers return a value that can be written again, or raise ProtocolError with a place in the bytes."""
    codecs: list[tuple[Callable[[bytes], Subscription | Assignment], Callable[..., bytes]]] = [
        (decode_subscription, encode_subscription),
        (decode_assignment, encode_assignment),
    ]
    for decode, encode in codecs:
        try:
            value = decode(data)
        except ProtocolError as error:
            place, field = error.offset, error.field
        else:
            written = encode(value)
            assert encode(decode(written)) == written
            continue
        assert 0 <= place <= len(data)
        assert field
    assert 4 * len(decode_sticky(data).owned) <= len(data)
    decode_cooperative_sticky(data)


@pytest.mark.parametrize(
    ("decode", "data", "offset", "field"),
    [
        (decode_subscription, "", 0, "version"),
        (decode_subscription, "00", 0, "version"),
        (decode_subscription, "ffff 00000000 ffffffff", 0, "version"),
        (decode_subscription, "0003", 2, "topics"),
        (decode_subscription, "0000 ffffffff ffffffff", 2, "topics"),
        (decode_subscription, "0000 7fffffff ffffffff", 2, "topics"),
        (decode_subscription, "0000 00000001 ffff ffffffff", 6, "topics[0]"),
        (decode_subscription, "0000 00000002 000161 7fff ffffffff", 9, "topics[1]"),
        (decode_subscription, "0000 00000001 0003 61ff61 ffffffff", 9, "topics[0]"),
        (decode_subscription, "0000 00000001 0003 eda080 ffffffff", 8, "topics[0]"),
        (decode_subscription, "0000 00000000 ffffff", 6, "user_data"),
        (decode_subscription, "0000 00000000 00000002 00", 6, "user_data"),
        (decode_subscription, "0001 00000000 ffffffff ffffffff", 10, "owned"),
        (decode_subscription, "0001 00000000 ffffffff 00000001 ffff 00000000", 14, "owned[0].topic"),
        (decode_subscription, "0001 00000000 ffffffff 00000001 0000 ffffffff", 16, "owned[0].partitions"),
        (decode_subscription, "0001 00000000 ffffffff 00000001 0000 00000001", 16, "owned[0].partitions"),
        (decode_subscription, "0002 00000000 ffffffff 00000000 0000", 14, "generation"),
        (decode_subscription, "0003 00000000 ffffffff 00000000 00000000 ff", 18, "rack"),
        (decode_subscription, "0003 00000000 ffffffff 00000000 00000000 0001", 18, "rack"),
        (decode_assignment, "", 0, "version"),
        (decode_assignment, "0000 ffffffff ffffffff", 2, "partitions"),
        (decode_assignment, "0000 00000001 000161 ffffffff ffffffff", 9, "partitions[0].partitions"),
        (decode_assignment, "0000 00000000 00", 6, "user_data"),
    ],
)
def test_error_names_the_place(decode: Callable[[bytes], object], data: str, offset: int, field: str) -> None:
    """An error has the field and the offset as attributes and in its text."""
    with pytest.raises(ProtocolError) as error:
        decode(bytes.fromhex(data))
    assert (error.value.offset, error.value.field) == (offset, field)
    assert str(error.value).startswith(f"{field} at byte {offset}: ")


@pytest.mark.parametrize(
    ("decode", "data"),
    [
        (decode_subscription, "0003 7fffffff 0000000000000000000000000000"),
        (decode_subscription, "0003 00000000 7fffffff 00000000000000000000"),
        (decode_subscription, "0003 00000000 ffffffff 7fffffff 000000000000"),
        (decode_subscription, "0003 00000000 ffffffff 00000001 0000 7fffffff"),
        (decode_assignment, "0003 7fffffff 0000000000000000000000000000"),
        (decode_assignment, "0003 00000001 0000 7fffffff 0000000000000000"),
        (decode_assignment, "0003 00000000 7fffffff 00000000000000000000"),
    ],
)
def test_forged_length_costs_nothing(decode: Callable[[bytes], object], data: str) -> None:
    """A length of 2 GiB in a 20-byte message fails before so much memory is allocated."""
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            decode(bytes.fromhex(data))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_count_is_weighed_by_its_smallest_element() -> None:
    """A count that fits the remaining bytes only without the size of its elements is refused."""
    room_for_two_runs = bytes.fromhex("0000 00000003") + bytes(12)
    with pytest.raises(ProtocolError, match="array length 3 needs 18 bytes") as error:
        decode_assignment(room_for_two_runs)
    assert error.value.field == "partitions"
