"""Reads and writes the fields of Kafka's embedded messages: integers, strings, byte strings and lists of runs.

Readers are plain functions from (data, offset, field name) to (value, next offset); writers return bytes. Every length
is compared with the number of remaining bytes before it is used, so a forged length costs nothing. A field name may
contain `{}` for the index of an element; it is filled in only for an error message.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from samerack.protocol.errors import ProtocolError
from samerack.protocol.values import TopicPartitions, from_flat

if TYPE_CHECKING:
    from collections.abc import Iterable

    from samerack.protocol.values import Int32Array

INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
LONGEST_STRING: Final = 2**15 - 1
LONGEST_BYTES: Final = 2**31 - 1
SMALLEST_RUN: Final = INT16.size + INT32.size
"""Bytes of a run with an empty topic and no partition."""

BIG_INT16: Final = ">i2"
BIG_INT32: Final = ">i4"

BadUtf8 = Literal["strict", "replace"]


def read_integer(data: bytes, at: int, form: Struct, field: str, index: int = 0) -> tuple[int, int]:
    """Read one integer of the given form."""
    end = at + form.size
    if end > len(data):
        message = f"needs {form.size} bytes, {len(data) - at} are left; the message was cut short"
        raise ProtocolError(message, field=field.format(index), offset=at)
    return form.unpack_from(data, at)[0], end


def read_count(data: bytes, at: int, field: str, *, smallest: int, index: int = 0) -> tuple[int, int]:
    """Read the length of an array whose elements have at least `smallest` bytes each."""
    count, start = read_integer(data, at, INT32, field, index)
    if count < 0:
        message = f"array length {count}; this array may be empty (0) but not absent"
        raise ProtocolError(message, field=field.format(index), offset=at)
    if count * smallest > len(data) - start:
        message = f"array length {count} needs {count * smallest} bytes or more, {len(data) - start} are left"
        raise ProtocolError(message, field=field.format(index), offset=at)
    return count, start


def read_text(data: bytes, at: int, field: str, *, index: int = 0, bad_utf8: BadUtf8 = "strict") -> tuple[str, int]:
    """Read a string that may not be absent."""
    text, end = read_optional_text(data, at, field, index=index, bad_utf8=bad_utf8)
    if text is None:
        message = "negative string length; this string may be empty (0) but not absent"
        raise ProtocolError(message, field=field.format(index), offset=at)
    return text, end


def read_optional_text(
    data: bytes, at: int, field: str, *, index: int = 0, bad_utf8: BadUtf8 = "strict"
) -> tuple[str | None, int]:
    """Read a string, or None for any negative length (Kafka writes -1, and read all of them as absent)."""
    size, start = read_integer(data, at, INT16, field, index)
    if size < 0:
        return None, start
    end = start + size
    if end > len(data):
        message = f"string length {size}, {len(data) - start} bytes are left"
        raise ProtocolError(message, field=field.format(index), offset=at)
    try:
        return data[start:end].decode("utf-8", bad_utf8), end
    except UnicodeDecodeError as error:
        message = f"not UTF-8 ({error.reason}); Kafka's strings are UTF-8"
        raise ProtocolError(message, field=field.format(index), offset=start + error.start) from None


def read_optional_bytes(data: bytes, at: int, field: str) -> tuple[bytes | None, int]:
    """Read a byte string, or None for any negative length (Kafka writes -1, and read all of them as absent)."""
    size, start = read_integer(data, at, INT32, field)
    if size < 0:
        return None, start
    end = start + size
    if end > len(data):
        message = f"byte length {size}, {len(data) - start} bytes are left"
        raise ProtocolError(message, field=field, offset=at)
    return data[start:end], end


def read_runs(data: bytes, at: int, field: str, *, bad_utf8: BadUtf8 = "strict") -> tuple[TopicPartitions, int]:
    """Read runs of partitions: O(runs) in Python, all numbers are converted at once."""
    count, at = read_count(data, at, field, smallest=SMALLEST_RUN)
    topic_field, numbers_field = f"{field}[{{}}].topic", f"{field}[{{}}].partitions"
    topics: list[str] = []
    sizes: list[int] = []
    pieces: list[bytes] = []
    for index in range(count):
        topic, at = read_text(data, at, topic_field, index=index, bad_utf8=bad_utf8)
        size, start = read_count(data, at, numbers_field, smallest=INT32.size, index=index)
        at = start + size * INT32.size
        topics.append(topic)
        sizes.append(size)
        pieces.append(data[start:at])
    numbers: Int32Array = np.frombuffer(b"".join(pieces), dtype=BIG_INT32).astype(np.int32)
    return from_flat(topics, sizes, numbers), at


def write_integer(value: int, form: Struct, field: str) -> bytes:
    """Write one signed integer of the given form."""
    limit = 1 << (8 * form.size - 1)
    if not -limit <= value < limit:
        raise ProtocolError(f"{value} is outside {-limit}..{limit - 1}", field=field)
    return form.pack(value)


def write_text(text: str, field: str) -> bytes:
    """Write a string with its length."""
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        raise ProtocolError(f"{text!r} holds half a surrogate pair, which UTF-8 cannot", field=field) from None
    if len(encoded) > LONGEST_STRING:
        message = f"a string of {len(encoded)} bytes; the longest that Kafka can carry has {LONGEST_STRING}"
        raise ProtocolError(message, field=field)
    return INT16.pack(len(encoded)) + encoded


def write_optional_text(text: str | None, field: str) -> bytes:
    """Write a string with its length, or the length -1."""
    return INT16.pack(-1) if text is None else write_text(text, field)


def write_optional_bytes(value: bytes | None, field: str) -> bytes:
    """Write a byte string with its length, or the length -1."""
    if value is None:
        return INT32.pack(-1)
    if len(value) > LONGEST_BYTES:
        raise ProtocolError(f"{len(value)} bytes; the most that Kafka can carry is {LONGEST_BYTES}", field=field)
    return INT32.pack(len(value)) + value


def write_runs(runs: Iterable[tuple[str, Int32Array]], field: str) -> bytes:
    """Write runs of partitions in the given order."""
    parts: list[bytes] = [b""]
    for topic, numbers in runs:
        parts += (write_text(topic, f"{field}.topic"), INT32.pack(len(numbers)), numbers.astype(BIG_INT32).tobytes())
    parts[0] = INT32.pack(len(parts) // 3)
    return b"".join(parts)
