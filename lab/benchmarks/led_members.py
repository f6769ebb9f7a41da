"""Three raw members for each of many groups, in one process: `python -m lab.benchmarks.led_members BOOTSTRAP GROUPS`.

They join, send heartbeats and join again as clients do, and read nothing: one machine cannot run thousands of consumers
and the brokers. The process runs until its standard input ends.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.future import Future

from lab.sandbox.members.raw import RawGroupMember
from samerack.auth.kafka_config import for_kafka_python
from samerack.cluster.client import ClusterClient, connect
from samerack.protocol.consumer import encode_subscription
from samerack.protocol.values import Subscription

TOPICS: Final = 50
PER_TOPIC: Final = 12
"""Partitions."""
RACKS: Final = ("rack-a", "rack-b", "rack-c")
_SECONDS_BETWEEN_GROUPS: Final = 0.2
_SESSION_SECONDS: Final = 45.0
_HEARTBEAT_SECONDS: Final = 3.0
_POLL_SECONDS: Final = 20.0
_AGAIN_SECONDS: Final = 0.5


def group_name(number: int) -> str:
    """Return the name of a group."""
    return f"led-{number:04}"


def topic_name(number: int) -> str:
    """Return the name of the topic of a group."""
    return f"read-{number % TOPICS:02}"


class _Reader(RawGroupMember):
    """One member, as a task on the network thread that all members share."""

    def __init__(self, client: ClusterClient, number: int, rack: str) -> None:
        super().__init__(
            client,
            group=group_name(number),
            offer=("range", encode_subscription(Subscription(topics=(topic_name(number),), rack=rack))),
            deals=[(topic_name(number), partition) for partition in range(PER_TOPIC)],
            session_seconds=_SESSION_SECONDS,
            heartbeat_seconds=_HEARTBEAT_SECONDS,
            rebalance_seconds=60,
            wake=lambda: self._woken.is_done or self._woken.success(None),
        )
        self._woken = Future()

    async def live(self) -> None:
        """Be in the group, for ever."""
        while True:
            self._woken = Future()
            try:
                self.poll_heartbeat()
                if not await self._join_within(_SESSION_SECONDS):
                    continue
                await self._connections.wait_for(self._woken, _POLL_SECONDS * 1000)
            except kafka_errors.KafkaTimeoutError:
                pass
            except kafka_errors.KafkaError:
                await self._net.sleep(_AGAIN_SECONDS)


def main(bootstrap: str, groups: int) -> None:
    """Run the members, whose groups begin one after the other."""
    client: Any = connect(for_kafka_python({"bootstrap.servers": bootstrap, "client.id": "reader"}))
    for number in range(groups):
        for rack in RACKS:
            client.connections.call_soon(_Reader(client, number, rack).live)
        time.sleep(_SECONDS_BETWEEN_GROUPS)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
