"""Infos of Kafka Streams: what is written is read again, and invalid input is refused with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.protocol.errors import ProtocolError
from samerack.protocol.streams import decode_assignment_info, decode_subscription_info
from samerack.protocol.streams_values import LATEST_OFFSET, NEVER, UNKNOWN_OFFSET_SUM, StreamsTask
from tests.unit.protocol.strategies import INT32, NAMES, damaged
from tests.unit.protocol.streams_writers import (
    AssignmentInfo,
    SubscriptionInfo,
    encode_assignment_info,
    encode_subscription_info,
)

if TYPE_CHECKING:
    from collections.abc import Callable

INT64 = st.integers(-(2**63), 2**63 - 1)
VERSIONS = st.integers(1, 11)
PLAIN_TASKS = st.builds(StreamsTask, subtopology=INT32, partition=INT32)
NAMED_TASKS = st.builds(StreamsTask, topology=st.just("") | NAMES, subtopology=INT32, partition=INT32)
PAIRS = st.lists(st.tuples(NAMES, INT32), max_size=3, unique=True).map(tuple)
HOSTS = st.lists(st.tuples(st.tuples(NAMES, INT32), PAIRS), max_size=2).map(tuple)


@st.composite
def subscriptions(draw: st.DrawFn) -> SubscriptionInfo:
    """A subscription info of any version."""
    version = draw(VERSIONS)
    tasks = draw(st.lists(NAMED_TASKS if version >= 10 else PLAIN_TASKS, max_size=8, unique=True))
    return SubscriptionInfo(
        version=version,
        latest_supported=draw(st.integers(version, 2**31 - 1)),
        process_id=draw(st.uuids()),
        user_endpoint=draw(st.none() | NAMES.filter(bool)),
        task_offset_sums=tuple((task, draw(st.just(LATEST_OFFSET) | INT64)) for task in tasks),
        unique_field=draw(st.integers(-128, 127)),
        error_code=draw(INT32),
        client_tags=tuple(draw(st.lists(st.tuples(NAMES, NAMES), max_size=3))),
        trailing=draw(st.binary(max_size=3)),
    )


@st.composite
def assignments(draw: st.DrawFn) -> AssignmentInfo:
    """An assignment info of any version."""
    version = draw(VERSIONS)
    tasks = NAMED_TASKS if version >= 10 else PLAIN_TASKS
    return AssignmentInfo(
        version=version,
        commonly_supported=draw(INT32),
        active=tuple(draw(st.lists(tasks, max_size=8))),
        standby=tuple(draw(st.lists(st.tuples(tasks, PAIRS), max_size=4))),
        partitions_by_host=draw(HOSTS),
        standby_partitions_by_host=draw(HOSTS),
        err_code=draw(INT32),
        next_rebalance_ms=draw(INT64),
    )


def known_before(info: SubscriptionInfo) -> dict[StreamsTask, int]:
    """The offset sums that the info's version can express."""
    if info.version >= 7:
        return dict(info.task_offset_sums)
    return {
        task: LATEST_OFFSET if offsets == LATEST_OFFSET else UNKNOWN_OFFSET_SUM
        for task, offsets in info.task_offset_sums
    }


@given(subscriptions())
def test_a_subscription_info_is_read_as_it_was_written(info: SubscriptionInfo) -> None:
    """Every field of the version that is used is read back, and the others have their defaults."""
    back = decode_subscription_info(encode_subscription_info(info))
    version = info.version
    assert dict(back.task_offset_sums) == known_before(info)
    assert (back.process_id, back.version) == (info.process_id, version)
    assert back.user_endpoint == (info.user_endpoint if version >= 2 else None)
    assert back.client_tags == (info.client_tags if version >= 11 else ())


@given(assignments())
def test_an_assignment_info_is_read_as_it_was_written(info: AssignmentInfo) -> None:
    """Its tasks are read back, and when the next rebalance is, whatever hosts it has."""
    back = decode_assignment_info(encode_assignment_info(info))
    assert (back.active, back.standby) == (info.active, info.standby)
    assert back.next_rebalance_ms == (info.next_rebalance_ms if info.version >= 7 else NEVER)


@given(damaged(subscriptions().map(encode_subscription_info) | assignments().map(encode_assignment_info)))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """The readers return a value, or raise ProtocolError with a place in the bytes."""
    readers: list[Callable[[bytes], object]] = [decode_subscription_info, decode_assignment_info]
    for decode in readers:
        try:
            decode(data)
        except ProtocolError as error:
            place, field = error.offset, error.field
        else:
            continue
        assert 0 <= place <= len(data)
        assert field


def test_a_newer_version_shows_its_versions_only() -> None:
    """Version probing: of an unknown newer version Kafka reads only the two version numbers, and so does this."""
    assert decode_subscription_info(bytes.fromhex("0000000c0000000eabcdef")).version == 12


PROCESS = UUID(int=1)
NAMED = StreamsTask(topology="orders", subtopology=0, partition=0)
STANDBY = "000000010000000000000001" + "00" * 8 + "00000001"
"""An assignment info up to the only partition of its only standby task."""


@pytest.mark.parametrize(
    ("info", "message"),
    [
        (SubscriptionInfo(version=0, process_id=PROCESS), "start at 1"),
        (SubscriptionInfo(version=5, latest_supported=4, process_id=PROCESS), "below the used version 5"),
        (
            SubscriptionInfo(version=9, process_id=PROCESS, task_offset_sums=((NAMED, 1),)),
            "not known before version 10",
        ),
        (
            SubscriptionInfo(version=6, process_id=PROCESS, task_offset_sums=((NAMED, 1),)),
            "not known before version 10",
        ),
        (SubscriptionInfo(process_id=PROCESS, user_endpoint="\ud800"), "half a surrogate pair"),
        (SubscriptionInfo(process_id=PROCESS, unique_field=200), "unique_field: 200 is outside"),
        (AssignmentInfo(version=12), "the known ones are 1 to 11"),
        (AssignmentInfo(version=9, active=(NAMED,)), "not known before version 10"),
        (AssignmentInfo(partitions_by_host=((("h" * 70_000, 1), ()),)), "longest that Streams can carry"),
    ],
)
def test_what_cannot_be_written_is_refused(info: SubscriptionInfo | AssignmentInfo, message: str) -> None:
    """A value that no message can hold is refused, and the error names the limit."""
    with pytest.raises(ProtocolError, match=message):
        encode_subscription_info(info) if isinstance(info, SubscriptionInfo) else encode_assignment_info(info)


@pytest.mark.parametrize(
    ("decode", "written", "message"),
    [
        (decode_assignment_info, "", "version at byte 0: needs 4 bytes"),
        (decode_assignment_info, "00000000", "known ones are 1 to 11"),
        (decode_assignment_info, "0000000c", "known ones are 1 to 11"),
        (decode_assignment_info, "000000017fffffff", "active at byte 4: array length 2147483647 needs"),
        (decode_assignment_info, "0000000100000000000000010000000000000000000000010002", "standby\\[0\\].partitions"),
        (decode_assignment_info, f"{STANDBY}0001ff00000000", "modified UTF-8"),
        (decode_assignment_info, f"{STANDBY}0004f09f988000000000", "six"),
        (decode_assignment_info, "0000000700000007" + "00" * 12, "next_rebalance_ms at byte 16: needs 8 bytes, 4 are"),
        (decode_subscription_info, "00000000", "start at 1"),
        (decode_subscription_info, "0000000400000003", "below the used version 4"),
        (decode_subscription_info, "0000000100", "process_id at byte 4: needs 16 bytes"),
        (decode_subscription_info, "00000002" + "00" * 16 + "00000000" * 2 + "ffffffff", "may be empty"),
        (decode_subscription_info, "00000002" + "00" * 24 + "00000001ff", "user_endpoint at byte 32: not UTF-8"),
    ],
)
def test_malformed_infos_are_refused(decode: Callable[[bytes], object], written: str, message: str) -> None:
    """Bytes that are no info are refused, and the error names the place or the reason."""
    with pytest.raises(ProtocolError, match=message):
        decode(bytes.fromhex(written))
