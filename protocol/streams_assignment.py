"""Reads Kafka Streams' `AssignmentInfo`, versions 1 to 11, as Kafka does.

Strings are in Java's modified UTF-8 here, unlike in all other Kafka messages. Since version 5 each topic of the hosts
is written once, in a dictionary.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import Final

from samerack.protocol.errors import ProtocolError
from samerack.protocol.streams_values import MAX_VERSION, NEVER, UNKNOWN_VERSION, AssignmentInfo, Pairs, StreamsTask
from samerack.protocol.wire import INT32, read_count, read_integer

UINT16: Final = Struct(">H")
INT64: Final = Struct(">q")
SMALLEST_TASK: Final = 2 * INT32.size
SMALLEST_TEXT: Final = UINT16.size

HOSTS_SINCE: Final = 2
COMMONLY_SUPPORTED_SINCE: Final = 3
ERR_CODE_SINCE: Final = 4
DICTIONARY_SINCE: Final = 5
STANDBY_HOSTS_SINCE: Final = 6
NEXT_REBALANCE_SINCE: Final = 7
NAMED_TOPOLOGY_SINCE: Final = 10

Hosts = tuple[tuple[tuple[str, int], Pairs], ...]


def decode_assignment_info(data: bytes) -> AssignmentInfo:
    """Decode the info in the user data of a Streams client's assignment.

    Raises:
        ProtocolError: The bytes are not such an info, or its version is not known.
    """
    version, at = read_integer(data, 0, INT32, "version")
    if not 1 <= version <= MAX_VERSION:
        raise ProtocolError(f"version {version}; the known ones are 1 to {MAX_VERSION}", field="version", offset=0)
    common = UNKNOWN_VERSION
    if version >= COMMONLY_SUPPORTED_SINCE:
        common, at = read_integer(data, at, INT32, "commonly_supported")
    active, at = _read_active(data, at, version)
    standby, at = _read_standby(data, at, version)
    hosts: Hosts = ()
    standby_hosts: Hosts = ()
    if version >= HOSTS_SINCE:
        topics: dict[int, str] | None = None
        if version >= DICTIONARY_SINCE:
            topics, at = _read_dictionary(data, at)
        hosts, at = _read_hosts(data, at, "partitions_by_host", topics)
        if version >= STANDBY_HOSTS_SINCE:
            standby_hosts, at = _read_hosts(data, at, "standby_partitions_by_host", topics)
    error, next_rebalance = 0, NEVER
    if version >= ERR_CODE_SINCE:
        error, at = read_integer(data, at, INT32, "err_code")
    if version >= NEXT_REBALANCE_SINCE:
        next_rebalance, at = read_integer(data, at, INT64, "next_rebalance_ms")
    return AssignmentInfo(
        version=version,
        commonly_supported=common,
        active=active,
        standby=standby,
        partitions_by_host=hosts,
        standby_partitions_by_host=standby_hosts,
        err_code=error,
        next_rebalance_ms=next_rebalance,
        trailing=data[at:],
    )


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
        pairs, at = _read_pairs(data, at, f"standby[{index}].partitions", None)
        standby.append((task, pairs))
    return tuple(standby), at


def _read_hosts(data: bytes, at: int, field: str, topics: dict[int, str] | None) -> tuple[Hosts, int]:
    count, at = read_count(data, at, field, smallest=SMALLEST_TEXT + 2 * INT32.size)
    hosts = []
    for index in range(count):
        host, at = _read_text(data, at, f"{field}[{index}].host")
        port, at = read_integer(data, at, INT32, f"{field}[{{}}].port", index)
        pairs, at = _read_pairs(data, at, f"{field}[{index}].partitions", topics)
        hosts.append(((host, port), pairs))
    return tuple(hosts), at


def _read_pairs(data: bytes, at: int, field: str, topics: dict[int, str] | None) -> tuple[Pairs, int]:
    """Read partitions, with topics as names or as numbers of the dictionary."""
    smallest = SMALLEST_TEXT if topics is None else INT32.size
    count, at = read_count(data, at, field, smallest=smallest + INT32.size)
    pairs = []
    for index in range(count):
        if topics is None:
            topic, at = _read_text(data, at, f"{field}[{index}].topic")
        else:
            number, after = read_integer(data, at, INT32, f"{field}[{{}}].topic", index)
            if number not in topics:
                message = f"topic number {number} is not in the dictionary of {len(topics)} topics"
                raise ProtocolError(message, field=f"{field}[{index}].topic", offset=at)
            topic, at = topics[number], after
        partition, at = read_integer(data, at, INT32, f"{field}[{{}}].partition", index)
        pairs.append((topic, partition))
    return tuple(pairs), at


def _read_dictionary(data: bytes, at: int) -> tuple[dict[int, str], int]:
    count, at = read_count(data, at, "topics", smallest=INT32.size + SMALLEST_TEXT)
    topics = {}
    for index in range(count):
        number, at = read_integer(data, at, INT32, "topics[{}].number", index)
        topics[number], at = _read_text(data, at, f"topics[{index}].name")
    return topics, at


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
