"""What every test cluster is, independent of how its brokers run.

The demo and quick experiments use JVM processes (`lab.sandbox.cluster`), the integration tests containers
(`tests/integration/cluster.py`). Code written against `KafkaCluster` runs on both.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Self

RACKS: Final[Mapping[int, str | None]] = {1: "rack-a", 2: "rack-b", 3: "rack-c"}
"""Broker id to rack, the default of both clusters."""
RACK_NAMES: Final = ("rack-a", "rack-b", "rack-c")
RACKS_BY_CLIENT_ID: Final = {f"*-{rack}": rack for rack in RACK_NAMES}
"""A setting of agents, for members whose client ids end with their racks."""
RACK_SENDERS: Final = frozenset({"java", "confluent", "franz-go"})
"""Clients that send their rack with their subscription and with their fetches."""

RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class Keep(Enum):
    """Means "no change" where None already means "without a rack"."""

    RACK = "the rack it had"


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """The present state of one broker."""

    id: int
    rack: str | None
    address: str  # host:port, the same after a restart
    running: bool


class KafkaCluster(ABC):
    """A real Kafka of several brokers, each in a rack, that can be stopped, killed and moved to other racks."""

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """`bootstrap.servers` that names every broker, running or not."""

    @property
    @abstractmethod
    def brokers(self) -> Mapping[int, Broker]:
        """The brokers by id, in their present state."""

    @abstractmethod
    def stop_broker(self, broker: int, *, kill: bool = False) -> None:
        """End a broker: in order, or with SIGKILL when `kill` is set; return when its process has ended."""

    @abstractmethod
    def start_broker(self, broker: int, *, rack: str | Keep | None = Keep.RACK) -> None:
        """Start a stopped broker, in another rack if one is given; return when every running broker lists it."""

    def restart_broker(self, broker: int, *, rack: str | Keep | None = Keep.RACK) -> None:
        """Stop a broker in order and start it again, in another rack if one is given."""
        self.stop_broker(broker)
        self.start_broker(broker, rack=rack)

    @abstractmethod
    def log(self, broker: int, lines: int = 30) -> str:
        """Return the last lines of a broker's log."""

    @abstractmethod
    def start(self) -> None:
        """Start everything; return when every broker lists all the others with their racks."""

    @abstractmethod
    def close(self) -> None:
        """End every process and remove every file; may be called again."""

    def __enter__(self) -> Self:
        """Start everything."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the cluster."""
        self.close()
