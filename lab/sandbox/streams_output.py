"""Compares what a Streams application of the sandbox has written with what it has read."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from lab.sandbox.admin import Admin
from lab.sandbox.streams import StreamsApplication

_MAX_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What an application has written, compared with its input, by numbers of records.

    Miscounted are those whose count is not their number in the partition: they were computed on other state.
    """

    records: int
    lost: int
    doubled: int
    miscounted: int


def compare(application: StreamsApplication, admin: Admin) -> Output:
    """Compare the output with the input, once the application has read all of it; nothing may be sent any more."""
    ends = {partition: end for (_, partition), end in admin.ends([application.topic]).items()}
    reader = Consumer(
        {
            "bootstrap.servers": application.bootstrap,
            "group.id": f"{application.application}-verify",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 2,
        }
    )
    seen: dict[int, list[tuple[int, int]]] = {partition: [] for partition in ends}
    wanted, deadline = sum(ends.values()), time.monotonic() + _MAX_SECONDS
    try:
        reader.assign([TopicPartition(application.output, part, 0) for _, part in admin.replicas([application.output])])
        quiet = time.monotonic()
        # beyond the wanted number, two seconds without a record show that none is doubled
        while sum(map(len, seen.values())) < wanted or time.monotonic() - quiet < 2:
            if time.monotonic() > deadline:
                break
            for message in reader.consume(5000, 0.5):
                if message.error() is None:
                    quiet = time.monotonic()
                    partition = int(bytes(message.key() or b"").rpartition(b"-")[2])
                    count, _, offset = bytes(message.value() or b"").partition(b" ")
                    seen[partition].append((int(count), int(offset)))
    finally:
        reader.close()
    lost = sum(end - len({offset for _, offset in seen[part]}) for part, end in ends.items())
    doubled = sum(len(found) - len({offset for _, offset in found}) for found in seen.values())
    miscounted = sum(count != offset + 1 for found in seen.values() for count, offset in found)
    return Output(records=wanted, lost=lost, doubled=doubled, miscounted=miscounted)
