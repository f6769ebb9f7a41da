"""Which assignors of the new protocol (KIP-848) the brokers offer, and whether samerack's is among them.

Every broker reads `group.consumer.assignors` for itself, and a group is assigned by the broker that coordinates it.
Only an assignor that every broker has is there for every group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from samerack.cluster.broker_configs import ASSIGNORS_KEY, BrokerConfigs
from samerack.common.errors import AgentError

ASSIGNOR: Final = "samerack"
"""The name of samerack's assignor in the brokers, by which members may ask for it."""
CLASS: Final = "io.samerack.broker.RackAwareAssignor"
LINE: Final = f"{ASSIGNORS_KEY}={CLASS},uniform,range"
"""The line in the configuration of a broker that has samerack's assignor."""
_KAFKAS: Final = "org.apache.kafka.coordinator.group.assignor."


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAssignors:
    """The assignors that brokers offer by broker id, the default first, and why nothing is known, or "".

    A class that is neither Kafka's nor samerack's has its class name. A broker that does not say it, such as one before
    Kafka 4, has None.
    """

    by_broker: Mapping[int, tuple[str, ...] | None] = field(default_factory=dict)
    unknown: str = ""

    @property
    def installed(self) -> bool | None:
        """Whether every broker has samerack's assignor; None if that is not known."""
        if self.lacking:
            return False
        return None if self.unknown or not self.by_broker or None in self.by_broker.values() else True

    @property
    def lacking(self) -> tuple[int, ...]:
        """The brokers that do not have samerack's assignor, as far as that is known."""
        return tuple(
            broker for broker, names in sorted(self.by_broker.items()) if names is not None and ASSIGNOR not in names
        )

    @property
    def on_some_brokers(self) -> bool:
        """Whether some brokers are known to have samerack's assignor, and some not to have it."""
        return bool(self.lacking) and any(ASSIGNOR in names for names in self.by_broker.values() if names)

    @property
    def preferred(self) -> bool | None:
        """Whether every broker takes samerack's where members ask for none; None if that is not known."""
        known = [names[:1] == (ASSIGNOR,) for names in self.by_broker.values() if names is not None]
        return (all(known) if self.installed is not None else None) if known else None


def from_values(values: Mapping[int, str]) -> ServerAssignors:
    """Return the assignors in the values of `group.consumer.assignors` by broker; "" is a broker that has none."""
    return ServerAssignors(
        by_broker={
            broker: tuple(_name(one.strip()) for one in value.split(",")) if value else None
            for broker, value in values.items()
        }
    )


def assignors_of(ask: Callable[[], BrokerConfigs]) -> ServerAssignors:
    """Return the assignors in the configuration that brokers are asked for; a failure is part of the answer."""
    try:
        return from_values(ask().assignors)
    except AgentError as error:
        return ServerAssignors(unknown=str(error))


def _name(entry: str) -> str:
    if entry == CLASS:
        return ASSIGNOR
    if entry.startswith(_KAFKAS):
        return entry.removeprefix(_KAFKAS).removesuffix("Assignor").lower()
    return entry
