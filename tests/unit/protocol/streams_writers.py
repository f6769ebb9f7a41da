"""Writes Kafka Streams' infos (`SubscriptionInfo`, `AssignmentInfo`), versions 1 to 11, as Kafka does, to test readers.

Before version 10 Kafka writes the tasks of a subscription in the order of its hash tables, since then in the order
given. Strings of an assignment are in Java's modified UTF-8, and since version 5 each topic of the hosts is written
once, in a dictionary that is numbered and listed in the orders of Java's hash tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Final

from samerack.protocol.errors import ProtocolError
from samerack.protocol.java import computed_order, string_hash
from samerack.protocol.streams import (
    COMMONLY_SUPPORTED_SINCE,
    ENDPOINT_SINCE,
    FLAT_OFFSETS_SINCE,
    INT64,
    LATEST_SUPPORTED_SINCE,
    NAMED_TOPOLOGY_SINCE,
    NEXT_REBALANCE_SINCE,
    OFFSETS_SINCE,
    TAGS_SINCE,
    UINT16,
    Offsets,
    check_versions,
)
from samerack.protocol.streams_values import LATEST_OFFSET, MAX_VERSION, NEVER, Pairs, StreamsTask
from samerack.protocol.wire import INT32, write_integer, write_optional_bytes, write_optional_text
from tests.java_maps import list_hash, put_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from uuid import UUID

LONGEST_TEXT: Final = 2**16 - 1
INT8: Final = Struct(">b")

# versions since which there are fields that samerack does not read
UNIQUE_FIELD_SINCE: Final = 8
ERROR_CODE_SINCE: Final = 9
HOSTS_SINCE: Final = 2
ERR_CODE_SINCE: Final = 4
DICTIONARY_SINCE: Final = 5
STANDBY_HOSTS_SINCE: Final = 6

Hosts = tuple[tuple[tuple[str, int], Pairs], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionInfo:
    """All of the subscription data of a Streams client; newer fields than the version are not written."""

    version: int = MAX_VERSION
    latest_supported: int = MAX_VERSION
    process_id: UUID
    user_endpoint: str | None = None
    task_offset_sums: tuple[tuple[StreamsTask, int], ...] = ()
    unique_field: int = 0
    error_code: int = 0
    client_tags: tuple[tuple[str, str], ...] = ()
    trailing: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentInfo:
    """All of the leader's data for a Streams client; newer fields than the version are not written.

    Hosts are partitions by (host, port).
    """

    version: int = MAX_VERSION
    commonly_supported: int = MAX_VERSION
    active: tuple[StreamsTask, ...] = ()
    standby: tuple[tuple[StreamsTask, Pairs], ...] = ()
    partitions_by_host: Hosts = ()
    standby_partitions_by_host: Hosts = ()
    err_code: int = 0
    next_rebalance_ms: int = NEVER


def encode_subscription_info(info: SubscriptionInfo) -> bytes:
    """Encode an info in its own version; newer fields are left out, as in Kafka.

    Raises:
        ProtocolError: A value does not fit its field, the version is not known, or a task belongs to a named topology,
            which is not known before version 10.
    """
    version = info.version
    if version > MAX_VERSION:
        raise ProtocolError(f"version {version}; the newest that can be written is {MAX_VERSION}", field="version")
    check_versions(version, info.latest_supported if version >= LATEST_SUPPORTED_SINCE else version)
    write_tasks = next(write for since, write in _TASK_WRITERS if version >= since)
    tasks = write_tasks(list(dict(info.task_offset_sums).items()))
    parts = [INT32.pack(version)]
    if version >= LATEST_SUPPORTED_SINCE:
        parts.append(write_integer(info.latest_supported, INT32, "latest_supported"))
    parts.append(info.process_id.bytes)
    if version < OFFSETS_SINCE:
        parts.append(tasks)
    if version >= ENDPOINT_SINCE:
        parts.append(_write_encoded_text(info.user_endpoint or "", "user_endpoint"))
    if version >= OFFSETS_SINCE:
        parts.append(tasks)
    if version >= UNIQUE_FIELD_SINCE:
        parts.append(write_integer(info.unique_field, INT8, "unique_field"))
    if version >= ERROR_CODE_SINCE:
        parts.append(write_integer(info.error_code, INT32, "error_code"))
    if version >= TAGS_SINCE:
        parts.append(_write_tags(info.client_tags))
    return b"".join([*parts, info.trailing])


def _write_encoded_text(text: str, field: str) -> bytes:
    try:
        return write_optional_bytes(text.encode(), field)
    except UnicodeEncodeError:
        raise ProtocolError(f"{text!r} holds half a surrogate pair, which UTF-8 cannot", field=field) from None


def _write_old_tasks(offsets: Offsets) -> bytes:
    _refuse_names(offsets)
    parts = []
    for active in (True, False):
        tasks = put_order((task for task, offset in offsets if (offset == LATEST_OFFSET) is active), _task_hash)
        parts += [INT32.pack(len(tasks)), *(_write_task(task) for task in tasks)]
    return b"".join(parts)


def _write_nested_offsets(offsets: Offsets) -> bytes:
    _refuse_names(offsets)
    groups: dict[int, list[bytes]] = {}
    for task, offset in offsets:
        written = write_integer(task.partition, INT32, "task_offset_sums.partition")
        groups.setdefault(task.subtopology, []).append(
            written + write_integer(offset, INT64, "task_offset_sums.offset_sum")
        )
    keys = list(groups)
    # Java's map grows at the next computeIfAbsent: a subtopology that first occurs at the last task does not count
    again = bool(keys) and not (len(groups[keys[-1]]) == 1 and offsets[-1][0].subtopology == keys[-1])
    parts = [INT32.pack(len(groups))]
    for subtopology in computed_order(keys, lambda key: key, asked_again=again):
        entries = groups[subtopology]
        parts += [write_integer(subtopology, INT32, "task_offset_sums.subtopology"), INT32.pack(len(entries)), *entries]
    return b"".join(parts)


def _write_offsets(offsets: Offsets) -> bytes:
    parts = [INT32.pack(len(offsets))]
    for task, offset in offsets:
        parts.append(_write_task(task))
        parts.append(write_integer(offset, INT64, "task_offset_sums.offset_sum"))
        parts.append(write_optional_text(task.topology or None, "task_offset_sums.topology"))
    return b"".join(parts)


_TASK_WRITERS: Final[tuple[tuple[int, Callable[[Offsets], bytes]], ...]] = (
    (FLAT_OFFSETS_SINCE, _write_offsets),
    (OFFSETS_SINCE, _write_nested_offsets),
    (1, _write_old_tasks),
)


def _write_tags(tags: tuple[tuple[str, str], ...]) -> bytes:
    parts = [INT32.pack(len(tags))]
    for pair in tags:
        parts += [_write_encoded_text(text, "client_tags") for text in pair]
    return b"".join(parts)


def _write_task(task: StreamsTask) -> bytes:
    subtopology = write_integer(task.subtopology, INT32, "task.subtopology")
    return subtopology + write_integer(task.partition, INT32, "task.partition")


def _refuse_names(offsets: Offsets) -> None:
    for task, _ in offsets:
        if task.topology:
            message = f"topology {task.topology!r}; named topologies are not known before version {FLAT_OFFSETS_SINCE}"
            raise ProtocolError(message, field="task_offset_sums")


def _task_hash(task: StreamsTask) -> int:
    return list_hash(task.subtopology, task.partition, 0)


def encode_assignment_info(info: AssignmentInfo) -> bytes:
    """Encode an info in its own version; newer fields are left out, as in Kafka.

    Raises:
        ProtocolError: A value does not fit its field, the version is not known, or a task belongs to a named topology,
            which is not known before version 10.
    """
    version = info.version
    if not 1 <= version <= MAX_VERSION:
        raise ProtocolError(f"version {version}; the known ones are 1 to {MAX_VERSION}", field="version")
    parts = [INT32.pack(version)]
    if version >= COMMONLY_SUPPORTED_SINCE:
        parts.append(write_integer(info.commonly_supported, INT32, "commonly_supported"))
    parts.append(INT32.pack(len(info.active)))
    parts += [_write_assigned_task(task, version) for task in info.active]
    parts.append(INT32.pack(len(info.standby)))
    for task, pairs in info.standby:
        parts += [_write_assigned_task(task, version), _write_pairs(pairs, _write_text)]
    if version >= HOSTS_SINCE:
        parts.append(_write_all_hosts(info))
    if version >= ERR_CODE_SINCE:
        parts.append(write_integer(info.err_code, INT32, "err_code"))
    if version >= NEXT_REBALANCE_SINCE:
        parts.append(write_integer(info.next_rebalance_ms, INT64, "next_rebalance_ms"))
    return b"".join(parts)


def _write_assigned_task(task: StreamsTask, version: int) -> bytes:
    subtopology = write_integer(task.subtopology, INT32, "task.subtopology")
    written = subtopology + write_integer(task.partition, INT32, "task.partition")
    if version < NAMED_TOPOLOGY_SINCE:
        if task.topology:
            message = f"topology {task.topology!r}; named ones are not known before version {NAMED_TOPOLOGY_SINCE}"
            raise ProtocolError(message, field="task.topology")
        return written
    units = task.topology.encode("utf-16-be", "surrogatepass")
    return written + INT32.pack(len(units) // UINT16.size) + units


def _write_all_hosts(info: AssignmentInfo) -> bytes:
    all_hosts = [info.partitions_by_host]
    if info.version >= STANDBY_HOSTS_SINCE:
        all_hosts.append(info.standby_partitions_by_host)
    if info.version < DICTIONARY_SINCE:
        return _write_hosts(info.partitions_by_host, _write_text)
    everything = put_order((pair for hosts in all_hosts for _, pairs in hosts for pair in pairs), _pair_hash)
    number = {topic: index for index, topic in enumerate(dict.fromkeys(topic for topic, _ in everything))}
    listed = put_order(number, string_hash)
    dictionary = [INT32.pack(number[topic]) + _write_text(topic) for topic in listed]
    hosts = [_write_hosts(hosts, lambda topic: INT32.pack(number[topic])) for hosts in all_hosts]
    return b"".join([INT32.pack(len(dictionary)), *dictionary, *hosts])


def _write_hosts(hosts: Hosts, write_topic: Callable[[str], bytes]) -> bytes:
    parts = [INT32.pack(len(hosts))]
    for (host, port), pairs in hosts:
        parts += [_write_text(host), write_integer(port, INT32, "host.port"), _write_pairs(pairs, write_topic)]
    return b"".join(parts)


def _write_pairs(pairs: Iterable[tuple[str, int]], write_topic: Callable[[str], bytes]) -> bytes:
    """Write partitions, each once."""
    once = dict.fromkeys(pairs)
    parts = [write_topic(topic) + write_integer(partition, INT32, "partition") for topic, partition in once]
    return INT32.pack(len(parts)) + b"".join(parts)


def _pair_hash(pair: tuple[str, int]) -> int:
    """Return Java's `TopicPartition.hashCode`."""
    return list_hash(pair[1], string_hash(pair[0]))


def _write_text(text: str) -> bytes:
    """Write a string like `DataOutput.writeUTF`: each UTF-16 unit separately, and no zero byte."""
    units = text.encode("utf-16-be", "surrogatepass")
    alone = "".join(chr(unit) for (unit,) in UINT16.iter_unpack(units))
    encoded = alone.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    if len(encoded) > LONGEST_TEXT:
        message = f"a string of {len(encoded)} bytes; the longest that Streams can carry has {LONGEST_TEXT}"
        raise ProtocolError(message, field="topic or host")
    return UINT16.pack(len(encoded)) + encoded
