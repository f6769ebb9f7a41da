"""A steady stream of records into every partition of some topics, from a thread of the sandbox."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from confluent_kafka import Producer

VALUE_BYTES: Final = 500


class Feeder(threading.Thread):
    """Sends one record to each partition every `pause` seconds until it is closed."""

    def __init__(self, bootstrap: str, partitions: Mapping[str, int], *, pause: float = 0.05) -> None:
        """Prepare; entering the context starts it.

        Args:
            bootstrap: `bootstrap.servers`.
            partitions: topic to number of partitions.
            pause: seconds between two records of one partition.
        """
        super().__init__(name="feeder", daemon=True)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 2, "enable.idempotence": True}
        )
        self._partitions = dict(partitions)
        self._pause = pause
        self._closed = threading.Event()

    def run(self) -> None:
        """Send until closed."""
        value = bytes(VALUE_BYTES)
        due = time.monotonic()
        while not self._closed.is_set():
            for topic, count in self._partitions.items():
                for partition in range(count):
                    self._producer.produce(topic, value, partition=partition)
            self._producer.poll(0)
            due += self._pause
            self._closed.wait(max(0.0, due - time.monotonic()))

    def __enter__(self) -> Self:
        """Start sending."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Stop sending; what is still on its way may get lost, with the brokers it was for."""
        self._closed.set()
        self.join(5)
        self._producer.purge()
