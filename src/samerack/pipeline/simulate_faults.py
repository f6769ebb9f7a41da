"""Adds faults between agents and a pipeline: records sent twice, late records, and malformed ones.

Each good record stays in the stream exactly once, so that the sums stay known with any faults.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from samerack.common.errors import SettingsError
from samerack.pipeline.simulate import Message

_LATER: Final = 1000
"""A duplicate or malformed record follows its original within so many records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How many faults to add, as shares of the good records.

    Attributes:
        duplicates: sent a second time, byte for byte, some records later.
        late: samples that arrive late.
        late_seconds: how late, in the time of the samples.
        malformed: followed by a malformed record, of all sorts in turn.
        seed: the same seed gives the same faults.
    """

    duplicates: float = 0.0
    late: float = 0.0
    late_seconds: int = 120
    malformed: float = 0.0
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("duplicates", "late", "malformed"):
            if not 0 <= getattr(self, name) <= 1:
                raise SettingsError(f"{name}: is {getattr(self, name)}; give a share from 0 to 1, e.g. 0.05")


def _changed(**fields: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda record: {**record, **fields}


def _without(field: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda record: {key: value for key, value in record.items() if key != field}


_ANY_BYTES: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "empty": lambda _: b"",
    "cut": lambda value: value[: len(value) // 2],
    "not-json": lambda _: b"java.lang.OutOfMemoryError: Java heap space",
    "not-utf-8": lambda value: value.replace(b'"group":"', b'"group":"\xff\xfe', 1),
    "a-list": lambda value: b"[" + value + b"]",
    "nul": lambda _: b"\x00" * 16,
}
_BOTH_KINDS: Final = {
    "no-id": _without("id"),
    "empty-id": _changed(id=""),
    "id-is-null": _changed(id=None),
    "no-group": _without("group"),
    "schema-is-0": _changed(schema=0),
}
_BY_KIND: Final[Mapping[str, Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]]]] = {
    "sample": {
        **_BOTH_KINDS,
        "no-bytes": _without("bytes"),
        "bytes-is-text": _changed(bytes="many"),
        "negative-bytes": _changed(bytes=-1),
        "bytes-too-large": _changed(bytes=2**63),
        "bytes-is-a-fraction": _changed(bytes=0.5),
        "unknown-method": _changed(method="guessed"),
        "window-is-a-date": _changed(window_start="2026-11-01T00:00:00Z"),
    },
    "state": {
        **_BOTH_KINDS,
        "no-members": _without("members"),
        "topics-is-a-map": _changed(topics={}),
        "negative-time": _changed(at=-1),
    },
}
SORTS: Final = (*_ANY_BYTES, *_BY_KIND["sample"], *(sort for sort in _BY_KIND["state"] if sort not in _BOTH_KINDS))
"""Every sort of malformed record."""


def malformed(message: Message, sort: str) -> bytes:
    """Return the message's record, malformed in this way; the sort must fit its kind."""
    if sort in _ANY_BYTES:
        return _ANY_BYTES[sort](message.value)
    spoilt = _BY_KIND[message.kind][sort](json.loads(message.value))
    return json.dumps(spoilt, ensure_ascii=False, separators=(",", ":")).encode()


def with_faults(messages: Iterable[Message], faults: Faults) -> Iterator[Message]:
    """Yield the messages with duplicates and malformed ones added, and late ones delayed.

    Memory: a thousand records, and the late ones.
    """
    if not (faults.duplicates or faults.late or faults.malformed):
        yield from messages
        return
    draw = Random(f"faults/{faults.seed}")  # noqa: S311 - a simulation, not a secret
    sorts = {kind: (*_ANY_BYTES, *fields) for kind, fields in _BY_KIND.items()}
    spoilt = dict.fromkeys(sorts, 0)
    by_count: list[tuple[int, int, Message]] = []
    by_time: list[tuple[int, int, Message]] = []
    for count, message in enumerate(messages):
        if draw.random() < faults.duplicates:
            again = message._replace(fault="duplicate")
            heapq.heappush(by_count, (count + draw.randint(1, _LATER), 2 * count, again))
        if draw.random() < faults.malformed:
            sort = sorts[message.kind][spoilt[message.kind] % len(sorts[message.kind])]
            spoilt[message.kind] += 1
            wrong = message._replace(value=malformed(message, sort), fault=sort)
            heapq.heappush(by_count, (count + draw.randint(0, _LATER), 2 * count + 1, wrong))
        if message.kind == "sample" and draw.random() < faults.late:
            due = message.at + faults.late_seconds * 1000
            heapq.heappush(by_time, (due, count, message._replace(fault="late")))
        else:
            yield message
        yield from _due(by_count, count)
        yield from _due(by_time, message.at)
    for waiting in (by_count, by_time):
        yield from (message for _, _, message in sorted(waiting))


def _due(waiting: list[tuple[int, int, Message]], now: int) -> Iterator[Message]:
    while waiting and waiting[0][0] <= now:
        yield heapq.heappop(waiting)[2]
