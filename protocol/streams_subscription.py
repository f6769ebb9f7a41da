"""Reads Kafka Streams' `SubscriptionInfo`, versions 1 to 11, as Kafka does.

Of a newer version only the two version numbers are read, as in Kafka.
"""

from __future__ import annotations

from struct import Struct
from typing import Final
from uuid import UUID

from samerack.protocol.errors import ProtocolError
from samerack.protocol.streams_values import (
    LATEST_OFFSET,
    MAX_VERSION,
    UNKNOWN_OFFSET_SUM,
    UNKNOWN_VERSION,
    StreamsTask,
    SubscriptionInfo,
)
from samerack.protocol.wire import INT16, INT32, read_count, read_integer, read_optional_bytes, read_optional_text

INT8: Final = Struct(">b")
INT64: Final = Struct(">q")
TASK: Final = Struct(">ii")
OFFSET: Final = Struct(">iq")

ENDPOINT_SINCE: Final = 2
LATEST_SUPPORTED_SINCE: Final = 3
OFFSETS_SINCE: Final = 7
UNIQUE_FIELD_SINCE: Final = 8
ERROR_CODE_SINCE: Final = 9
FLAT_OFFSETS_SINCE: Final = 10
TAGS_SINCE: Final = 11

NO_PROCESS: Final = UUID(int=0)

Offsets = list[tuple[StreamsTask, int]]


def decode_subscription_info(data: bytes) -> SubscriptionInfo:
    """Decode the info in the user data of a Streams client's subscription.

    An empty endpoint means none. Bytes that are not UTF-8 are refused; Kafka's reader replaces them by U+FFFD.

    Raises:
        ProtocolError: The bytes are not such an info.
    """
    version, at = read_integer(data, 0, INT32, "version")
    latest = UNKNOWN_VERSION
    if version >= LATEST_SUPPORTED_SINCE:
        latest, at = read_integer(data, at, INT32, "latest_supported")
    check_versions(version, latest)
    if version > MAX_VERSION:
        return SubscriptionInfo(version=version, latest_supported=latest, process_id=NO_PROCESS, trailing=data[at:])
    process, at = _read_process(data, at)
    offsets: Offsets = []
    if version < OFFSETS_SINCE:
        offsets, at = _read_old_tasks(data, at)
    endpoint: str | None = None
    if version >= ENDPOINT_SINCE:
        endpoint, at = _read_encoded_text(data, at, "user_endpoint")
    if version >= OFFSETS_SINCE:
        read = _read_offsets if version >= FLAT_OFFSETS_SINCE else _read_nested_offsets
        offsets, at = read(data, at)
    unique = error = 0
    if version >= UNIQUE_FIELD_SINCE:
        unique, at = read_integer(data, at, INT8, "unique_field")
    if version >= ERROR_CODE_SINCE:
        error, at = read_integer(data, at, INT32, "error_code")
    tags: list[tuple[str, str]] = []
    if version >= TAGS_SINCE:
        tags, at = _read_tags(data, at)
    return SubscriptionInfo(
        version=version,
        latest_supported=latest,
        process_id=process,
        user_endpoint=endpoint or None,
        task_offset_sums=tuple(offsets),
        unique_field=unique,
        error_code=error,
        client_tags=tuple(tags),
        trailing=data[at:],
    )


def check_versions(version: int, latest: int) -> None:
    """Refuse version numbers that no client sends."""
    if version < 1:
        raise ProtocolError(f"version {version}; Streams' versions start at 1", field="version", offset=0)
    if version >= LATEST_SUPPORTED_SINCE and latest < version:
        message = f"the newest supported version is {latest}, below the used version {version}"
        raise ProtocolError(message, field="latest_supported", offset=INT32.size)


def _read_process(data: bytes, at: int) -> tuple[UUID, int]:
    end = at + 16
    if end > len(data):
        message = f"needs 16 bytes, {len(data) - at} are left; the message was cut short"
        raise ProtocolError(message, field="process_id", offset=at)
    return UUID(bytes=data[at:end]), end


def _read_encoded_text(data: bytes, at: int, field: str) -> tuple[str, int]:
    """Read a byte string that holds UTF-8 and may not be absent."""
    value, end = read_optional_bytes(data, at, field)
    if value is None:
        message = "negative length; these bytes may be empty (0) but not absent"
        raise ProtocolError(message, field=field, offset=at)
    try:
        return value.decode(), end
    except UnicodeDecodeError as error:
        raise ProtocolError(f"not UTF-8 ({error.reason})", field=field, offset=at + INT32.size + error.start) from None


def _read_old_tasks(data: bytes, at: int) -> tuple[Offsets, int]:
    """Read the tasks of versions 1 to 6: previous actives, then standbys."""
    offsets: Offsets = []
    for field, offset in (("prev_tasks", LATEST_OFFSET), ("standby_tasks", UNKNOWN_OFFSET_SUM)):
        count, at = read_count(data, at, field, smallest=TASK.size)
        for subtopology, partition in TASK.iter_unpack(data[at : at + count * TASK.size]):
            offsets.append((StreamsTask(subtopology=subtopology, partition=partition), offset))
        at += count * TASK.size
    return offsets, at


def _read_nested_offsets(data: bytes, at: int) -> tuple[Offsets, int]:
    """Read the tasks of versions 7 to 9: partitions by subtopology."""
    offsets: Offsets = []
    count, at = read_count(data, at, "task_offset_sums", smallest=2 * INT32.size)
    for index in range(count):
        subtopology, at = read_integer(data, at, INT32, "task_offset_sums[{}].subtopology", index)
        field = "task_offset_sums[{}].partitions"
        inner, at = read_count(data, at, field, smallest=OFFSET.size, index=index)
        for partition, offset in OFFSET.iter_unpack(data[at : at + inner * OFFSET.size]):
            offsets.append((StreamsTask(subtopology=subtopology, partition=partition), offset))
        at += inner * OFFSET.size
    return offsets, at


def _read_offsets(data: bytes, at: int) -> tuple[Offsets, int]:
    """Read the tasks since version 10: one entry per task."""
    offsets: Offsets = []
    count, at = read_count(data, at, "task_offset_sums", smallest=TASK.size + INT64.size + INT16.size)
    for index in range(count):
        subtopology, at = read_integer(data, at, INT32, "task_offset_sums[{}].subtopology", index)
        partition, at = read_integer(data, at, INT32, "task_offset_sums[{}].partition", index)
        offset, at = read_integer(data, at, INT64, "task_offset_sums[{}].offset_sum", index)
        topology, at = read_optional_text(data, at, "task_offset_sums[{}].topology", index=index)
        task = StreamsTask(topology=topology or "", subtopology=subtopology, partition=partition)
        offsets.append((task, offset))
    return offsets, at


def _read_tags(data: bytes, at: int) -> tuple[list[tuple[str, str]], int]:
    tags = []
    count, at = read_count(data, at, "client_tags", smallest=2 * INT32.size)
    for index in range(count):
        key, at = _read_encoded_text(data, at, f"client_tags[{index}].key")
        value, at = _read_encoded_text(data, at, f"client_tags[{index}].value")
        tags.append((key, value))
    return tags, at
