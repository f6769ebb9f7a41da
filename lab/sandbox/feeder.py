"""Sends a steady stream of records to every partition of some topics, from a thread of the sandbox."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Self

from confluent_kafka import KafkaError, Message, Producer

from lab.sandbox.errors import SandboxError
from lab.sandbox.members.lines import Recorder

VALUE_BYTES: Final = 500


class Feeder(threading.Thread):
    """Sends records to each partition every `pause` seconds until it is closed."""

    def __init__(
        self,
        bootstrap: str,
        partitions: Mapping[str, int],
        *,
        pause: float = 0.05,
        records: Callable[[str, int], int] = lambda _topic, _partition: 1,
        history: Path | None = None,
    ) -> None:
        """Prepare; entering the context starts it.

        `partitions` is topic to number of partitions, `records` says how many records a partition gets in a round, and
        `history` is a file for those that brokers have confirmed, as JSON lines.
        """
        super().__init__(name="feeder", daemon=True)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 2, "enable.idempotence": True}
        )
        self._partitions = dict(partitions)
        self._pause = pause
        self._records = records
        self._closed = threading.Event()
        self._out = None if history is None else history.open("a", encoding="utf-8")
        self._recorder = None if self._out is None else Recorder(self._out, gathers="written")
        self._confirmed: Callable[[KafkaError | None, Message], None] | None = self._record if self._recorder else None

    def run(self) -> None:
        """Send until closed."""
        value = bytes(VALUE_BYTES)
        due = time.monotonic()
        while not self._closed.is_set():
            for topic, count in self._partitions.items():
                for partition in range(count):
                    for _ in range(self._records(topic, partition)):
                        self._producer.produce(topic, value, partition=partition, on_delivery=self._confirmed)
            self._producer.poll(0)
            if self._recorder is not None:
                self._recorder.flush_if_due()
            due += self._pause
            self._closed.wait(max(0.0, due - time.monotonic()))

    def finish(self, *, timeout: float = 30.0) -> None:
        """Stop sending, and wait until brokers have confirmed all records."""
        self._closed.set()
        self.join(5)
        if left := self._producer.flush(timeout):
            raise SandboxError(f"waited {timeout:.0f} s in vain until brokers confirmed {left} more records")
        if self._recorder is not None:
            self._recorder.flush()

    def _record(self, error: KafkaError | None, message: Message) -> None:
        if error is None and self._recorder is not None:
            self._recorder.read(str(message.topic()), int(message.partition() or 0), int(message.offset() or 0))

    def __enter__(self) -> Self:
        """Start sending."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop sending; unconfirmed records may be lost."""
        self._closed.set()
        self.join(5)
        self._producer.purge()
        if self._out is not None:
            self._out.close()
