"""What a consumer group of a run is made of: its seats, their clients and racks, its topic and its load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

TELLING: Final = frozenset({"java", "confluent", "franz-go"})
"""Clients that send their rack with their subscription and with their fetches."""
FEED_SECONDS: Final = 0.1
"""Between two records of a partition. More of them cost brokers on two cores more than all that faults do to groups."""
FOREIGN_ASSIGNOR: Final = "homegrown"
"""Of tests/java/consumer; agents do not offer it."""
PROPERTIES: Final[Mapping[str, str]] = {
    "heartbeat.interval.ms": "500",  # rebalances are short then, and what a fault adds shows
    "session.timeout.ms": "6000",  # a killed member is missed after the shortest time that brokers allow
    "reconnect.backoff.max.ms": "500",
}
"""Of clients, in Kafka's names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One place in a group: the client, and the rack it stands in."""

    client: str
    rack: str
    number: int

    @property
    def name(self) -> str:
        """Its client id; the agents find the rack in it."""
        return f"{self.client}-{self.number}-{self.rack}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a group is made of.

    Attributes:
        name: of the group, and of its topic.
        assignor: that its members use; empty leaves the client's default.
        seats: client and rack of each member.
        extra: the same for one that comes and goes.
        placed: brokers of each partition, the leader first.
        properties: of the clients, in Kafka's names.
        idle: nothing is written to it, and its members commit nothing: its offsets were set before they came.
        led_late: whether an agent comes to lead it once it leads itself; else only from its birth.
    """

    name: str
    assignor: str
    seats: tuple[tuple[str, str], ...]
    extra: tuple[str, str]
    placed: tuple[tuple[int, ...], ...]
    properties: Mapping[str, str] = field(default_factory=lambda: PROPERTIES)
    idle: bool = False
    led_late: bool = True
