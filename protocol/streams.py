"""Reads what is needed of Kafka Streams' `SubscriptionInfo` and `AssignmentInfo`, versions 1 to 11, as Kafka does.

Of a subscription info of a newer version only the two version numbers are read, as in Kafka. Strings of an assignment
info are in Java's modified UTF-8, unlike in all other Kafka messages. What its hosts serve is not read: the time of the
next rebalance, which comes after it, is the end of the message.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import Final
from uuid import UUID

from samerack.protocol.errors import ProtocolError
from samerack.protocol.streams_values import (
    LATEST_OFFSET,
    MAX_VERSION,
    NEVER,
    UNKNOWN_OFFSET_SUM,
    AssignmentInfo,
    Pairs,
    StreamsTask,
    SubscriptionInfo,
)
from samerack.protocol.wire import INT16, INT32, read_count, read_integer, read_optional_bytes, read_optional_text

UINT16: Final = Struct(">H")
INT64: Final = Struct(">q")
TASK: Final = Struct(">ii")
OFFSET: Final = Struct(">iq")
UNIQUE_FIELD_AND_ERROR: Final = Struct(">bi")

SMALLEST_TASK: Final = 2 * INT32.size
SMALLEST_TEXT: Final = UINT16.size

# versions of a subscription info
ENDPOINT_SINCE: Final = 2
LATEST_SUPPORTED_SINCE: Final = 3
OFFSETS_SINCE: Final = 7
FLAT_OFFSETS_SINCE: Final = 10
TAGS_SINCE: Final = 11

# versions of an assignment info
COMMONLY_SUPPORTED_SINCE: Final = 3
NEXT_REBALANCE_SINCE: Final = 7
NAMED_TOPOLOGY_SINCE: Final = 10

NO_PROCESS: Final = UUID(int=0)

Offsets = list[tuple[StreamsTask, int]]


def decode_subscription_info(data: bytes) -> SubscriptionInfo:
    """Decode the info in the user data of a Streams client's subscription.

    An empty endpoint means none. Bytes that are not UTF-8 are refused; Kafka's reader replaces them by U+FFFD.

    Raises:
        ProtocolError: The bytes are not such an info.
    """
    version, at = read_integer(data, 0, INT32, "version")
    latest = version
    if version >= LATEST_SUPPORTED_SINCE:
        latest, at = read_integer(data, at, INT32, "latest_supported")
    check_versions(version, latest)
    if version > MAX_VERSION:
        return SubscriptionInfo(version=version, process_id=NO_PROCESS)
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
    tags: list[tuple[str, str]] = []
    if version >= TAGS_SINCE:
        _, at = read_integer(data, at, UNIQUE_FIELD_AND_ERROR, "error_code")
        tags = _read_tags(data, at)
    return SubscriptionInfo(
        version=version,
        process_id=process,
        user_endpoint=endpoint or None,
        task_offset_sums=tuple(offsets),
        client_tags=tuple(tags),
    )


def check_versions(version: int, latest: int) -> None:
    """Refuse version numbers that no client sends."""
    if version < 1:
        raise ProtocolError(f"version {version}; Streams' versions start at 1", field="version", offset=0)
    if latest < version:
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


def _read_tags(data: bytes, at: int) -> list[tuple[str, str]]:
    tags = []
    count, at = read_count(data, at, "client_tags", smallest=2 * INT32.size)
    for index in range(count):
        key, at = _read_encoded_text(data, at, f"client_tags[{index}].key")
        value, at = _read_encoded_text(data, at, f"client_tags[{index}].value")
        tags.append((key, value))
    return tags


def decode_assignment_info(data: bytes) -> AssignmentInfo:
    """Decode the info in the user data of a Streams client's assignment.

    Raises:
        ProtocolError: The bytes are not such an info, or its version is not known.
    """
    version, at = read_integer(data, 0, INT32, "version")
    if not 1 <= version <= MAX_VERSION:
        raise ProtocolError(f"version {version}; the known ones are 1 to {MAX_VERSION}", field="version", offset=0)
    if version >= COMMONLY_SUPPORTED_SINCE:
        _, at = read_integer(data, at, INT32, "commonly_supported")
    active, at = _read_active(data, at, version)
    standby, at = _read_standby(data, at, version)
    next_rebalance = NEVER
    if version >= NEXT_REBALANCE_SINCE:
        next_rebalance, _ = read_integer(data, max(at, len(data) - INT64.size), INT64, "next_rebalance_ms")
    return AssignmentInfo(active=active, standby=standby, next_rebalance_ms=next_rebalance)


def _read_active(data: bytes, at: int, version: int) -> tuple[tuple[StreamsTask, ...], int]:
    count, at = read_count(data, at, "active", smallest=SMALLEST_TASK)
    tasks = []
    for index in range(count):
        task, at = _read_task(data, at, version, f"active[{index}]")
        tasks.append(task)
    return tuple(tasks), at


def _read_standby(data: bytes, at: int, version: int) -> tuple[tuple[tuple[StreamsTask, Pairs], ...], int]:
    count, at = read_count(data, at, "standby", smallest=SMALLEST_TASK + INT32.size)
    standby = []
    for index in range(count):
        task, at = _read_task(data, at, version, f"standby[{index}]")
        pairs, at = _read_pairs(data, at, f"standby[{index}].partitions")
        standby.append((task, pairs))
    return tuple(standby), at


def _read_pairs(data: bytes, at: int, field: str) -> tuple[Pairs, int]:
    count, at = read_count(data, at, field, smallest=SMALLEST_TEXT + INT32.size)
    pairs = []
    for index in range(count):
        topic, at = _read_text(data, at, f"{field}[{index}].topic")
        partition, at = read_integer(data, at, INT32, f"{field}[{{}}].partition", index)
        pairs.append((topic, partition))
    return tuple(pairs), at


def _read_task(data: bytes, at: int, version: int, field: str) -> tuple[StreamsTask, int]:
    subtopology, at = read_integer(data, at, INT32, f"{field}.subtopology")
    partition, at = read_integer(data, at, INT32, f"{field}.partition")
    topology = ""
    if version >= NAMED_TOPOLOGY_SINCE:
        size, at = read_count(data, at, f"{field}.topology", smallest=UINT16.size)
        end = at + size * UINT16.size
        topology, at = data[at:end].decode("utf-16-be", "surrogatepass"), end
    return StreamsTask(topology=topology, subtopology=subtopology, partition=partition), at


def _read_text(data: bytes, at: int, field: str) -> tuple[str, int]:
    """Read a string like `DataInput.readUTF`."""
    size, start = read_integer(data, at, UINT16, field)
    end = start + size
    if end > len(data):
        raise ProtocolError(f"string length {size}, {len(data) - start} bytes are left", field=field, offset=at)
    try:
        alone = data[start:end].replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        units = b"".join(UINT16.pack(ord(unit)) for unit in alone)
    except UnicodeDecodeError as error:
        raise ProtocolError(f"not Java's modified UTF-8 ({error.reason})", field=field, offset=start) from None
    except struct_error:
        message = "not Java's modified UTF-8 (four bytes for a character, where Java writes six)"
        raise ProtocolError(message, field=field, offset=start) from None
    return units.decode("utf-16-be", "surrogatepass"), end
