"""Many members of one group in one process, for `benchmarks.live_brokers`: librdkafka's consumers, polled in turn.

`python -m benchmarks.live_members BOOTSTRAP GROUP TOPIC FIRST COUNT`; each line of input replaces the member of that
number by a new one. It runs until its input ends.
"""

from __future__ import annotations

import sys
import threading
from queue import Empty, SimpleQueue
from typing import Final

from confluent_kafka import Consumer

from benchmarks.grid import RACKS

_POLL_SECONDS: Final = 0.2
"""A member has to be polled within its `max.poll.interval.ms`, and to give up partitions soon after it is asked to."""


def main(bootstrap: str, group: str, topic: str, first: int, count: int) -> None:
    """Polls the members until the input ends."""
    replace: SimpleQueue[int] = SimpleQueue()
    ended = threading.Event()

    def listen() -> None:
        for line in sys.stdin:
            replace.put(int(line))
        ended.set()

    def member(number: int) -> Consumer:
        rack = RACKS[number % len(RACKS)]
        made = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": f"member-{number}",
                "client.rack": rack,
                "partition.assignment.strategy": "cooperative-sticky",
                "heartbeat.interval.ms": 500,
                "log_level": 2,
            }
        )
        made.subscribe([topic])
        return made

    members = {number: member(number) for number in range(first, first + count)}
    threading.Thread(target=listen, daemon=True).start()
    while not ended.wait(_POLL_SECONDS):
        for consumer in members.values():
            consumer.poll(0)
        try:
            number = replace.get_nowait()
        except Empty:
            continue
        members[number].close()
        members[number] = member(number)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
