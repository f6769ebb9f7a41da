"""Describes the consumer groups of a run: their clients and racks, their topics and their load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

FEED_SECONDS: Final = 0.1
"""Between two records of a partition. A higher rate would load brokers on two cores more than all faults do."""
PROPERTIES: Final[Mapping[str, str]] = {
    "heartbeat.interval.ms": "500",  # short rebalances, so that the cost of a fault is visible
    "session.timeout.ms": "6000",  # the shortest time that brokers allow until a killed member is removed
    "reconnect.backoff.max.ms": "500",
}
"""Client properties, in Kafka's names."""
PLACED: Final = ((1, 2), (2, 3), (3, 1), (1, 3), (2, 1), (3, 2))
"""Brokers by partition: each rack leads two, and any one broker may fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpec:
    """One place in a group: the client and its rack."""

    client: str
    rack: str
    number: int

    @property
    def name(self) -> str:
        """Its client id; the agents find the rack in it."""
        return f"{self.client}-{self.number}-{self.rack}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The configuration of a group.

    To the topic of an idle one nothing is written, and its members commit nothing: its offsets were set before.
    """

    name: str  # of the group, and of its topic
    assignor: str  # of its members; empty means the client's default
    members: tuple[tuple[str, str], ...]  # client and rack of each
    extra: tuple[str, str]  # the same for the member that joins and leaves
    placed: tuple[tuple[int, ...], ...] = PLACED  # brokers of each partition, the leader first
    properties: Mapping[str, str] = field(default_factory=lambda: PROPERTIES)  # of the clients, in Kafka's names
    idle: bool = False
    static: bool = False  # whether its members, without the extra one, have a `group.instance.id`


SETUPS: Final = (
    Setup(
        name="eager",
        assignor="range",
        members=(("java", "rack-a"), ("kafka-python", "rack-b"), ("confluent", "rack-c")),
        extra=("kafka-python", "rack-a"),
    ),
    Setup(
        name="cooperative",
        assignor="cooperative-sticky",
        members=(("java", "rack-a"), ("confluent", "rack-b"), ("franz-go", "rack-c")),
        extra=("confluent", "rack-c"),
    ),
    Setup(
        name="go",  # without librdkafka, whose subscriptions kafka-go cannot read when it leads
        assignor="range",
        members=(("sarama", "rack-a"), ("kafka-go", "rack-b"), ("sarama", "rack-c")),
        extra=("sarama", "rack-c"),
    ),
    Setup(
        name="static",
        assignor="range",
        members=(("java", "rack-a"), ("confluent", "rack-b")),
        extra=("confluent", "rack-c"),
        static=True,
    ),
)
"""Groups under load, for which faults are drawn: eager, cooperative, static members; on clients of five languages."""
IDLE: Final = Setup(
    name="idle",
    assignor="range",
    members=(("confluent", "rack-b"),),
    extra=("confluent", "rack-c"),
    properties={**PROPERTIES, "enable.auto.commit": "false"},
    idle=True,
)
"""Its commits soon exceed the retention that brokers apply to topics without subscribers."""
