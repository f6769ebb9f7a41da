"""Estimates bytes that no log holds: the envelope of every fetch response, by a model of how often a client fetches.

A fetch is answered as soon as one batch is there, or empty after `fetch.max.wait`; so the time between two answers is
the wait for the next batch (cut at the longest wait) and the time to handle one.
"""

from __future__ import annotations

from math import exp
from typing import Final

RESPONSE_BYTES: Final = 18.0
"""Fetch response without partitions; measured with librdkafka 2.16 on Kafka 4.3.0, November 2026."""
PARTITION_BYTES: Final = 48.0
"""Each partition in a fetch response without its records; measured likewise."""
LONGEST_WAIT_SECONDS: Final = 0.5
"""`fetch.max.wait.ms` and `fetch.wait.max.ms`: the default of Java's client and of librdkafka."""
HANDLING_SECONDS: Final = 0.002
"""Round trip within a region and the client's own work; it bounds how often a busy client fetches."""
USUAL_BATCH_BYTES: Final = 16384.0
"""`batch.size` of Java's producer by default: used where no batch could be read."""


def answers_per_second(batches_per_second: float) -> float:
    """Return how often one connection gets a response when its partitions together get these batches per second."""
    if batches_per_second <= 1e-9:
        return 1.0 / (LONGEST_WAIT_SECONDS + HANDLING_SECONDS)
    waited = (1.0 - exp(-batches_per_second * LONGEST_WAIT_SECONDS)) / batches_per_second
    return 1.0 / (waited + HANDLING_SECONDS)


def overhead_bytes(*, partitions: int, batches_per_second: float, seconds: float, sessions: bool) -> float:
    """Return the envelope bytes of one connection in some seconds, from its partitions and the batches in all of them.

    `sessions`: whether the client keeps fetch sessions (KIP-227, Java does), so that responses name only partitions
    with records; librdkafka's responses name all.
    """
    named = min(partitions, 1) if sessions else partitions
    return seconds * answers_per_second(batches_per_second) * (RESPONSE_BYTES + PARTITION_BYTES * named)
