"""What every test cluster is, independent of how its brokers run.

The demo and quick experiments use JVM processes (`lab.sandbox.cluster`), the integration tests containers
(`tests/integration/cluster.py`). Code written against `KafkaCluster` runs on both.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Self

from lab.sandbox.admin import wait_for_racks
from lab.sandbox.errors import SandboxError

RACKS: Final[Mapping[int, str | None]] = {1: "rack-a", 2: "rack-b", 3: "rack-c"}
"""Broker id to rack, the default of both clusters."""
RACK_NAMES: Final = ("rack-a", "rack-b", "rack-c")
RACKS_BY_CLIENT_ID: Final = {f"*-{rack}": rack for rack in RACK_NAMES}
"""A setting of agents, for members whose client ids end with their racks."""
RACK_SENDERS: Final = frozenset({"java", "confluent", "franz-go"})
"""Clients that send their rack with their subscription and with their fetches."""

RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_LISTED_SECONDS: Final = 90.0


class Keep(Enum):
    """Means "no change" where None already means "without a rack"."""

    RACK = "the rack it had"


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """The present state of one broker."""

    id: int
    rack: str | None
    address: str  # host:port
    running: bool


class KafkaCluster(ABC):
    """A real Kafka of several brokers, each in a rack, that can be stopped, killed and moved to other racks."""

    def __init__(self, racks: Mapping[int, str | None]) -> None:
        """Prepare a cluster of these brokers, by id; None is a broker without a rack."""
        self._racks = dict(racks)

    @property
    def bootstrap(self) -> str:
        """`bootstrap.servers` that names every broker, running or not."""
        return ",".join(self._address(broker) for broker in self._racks)

    @property
    def brokers(self) -> Mapping[int, Broker]:
        """The brokers by id, in their present state."""
        return {
            broker: Broker(id=broker, rack=rack, address=self._address(broker), running=self._is_running(broker))
            for broker, rack in self._racks.items()
        }

    def stop_broker(self, broker: int, *, kill: bool = False) -> None:
        """End a broker: in order, or with SIGKILL when `kill` is set; return when its process has ended."""
        if not self._is_running(broker):
            raise SandboxError(f"cannot stop broker {broker}: it is not running")
        self._end(broker, kill=kill)

    def start_broker(self, broker: int, *, rack: str | Keep | None = Keep.RACK) -> None:
        """Start a stopped broker, in another rack if one is given; return when every running broker lists it."""
        if broker not in self._racks or self._is_running(broker):
            raise SandboxError(f"cannot start broker {broker}: it is running or not of this cluster")
        if not isinstance(rack, Keep):
            self._racks[broker] = rack
        self._begin(broker)
        self._wait_listed()

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

    @abstractmethod
    def _address(self, broker: int) -> str:
        """Return the address of a broker, HOST:PORT, the same after a restart."""

    @abstractmethod
    def _is_running(self, broker: int) -> bool:
        """Return whether a broker runs."""

    @abstractmethod
    def _begin(self, broker: int) -> None:
        """Start a broker."""

    @abstractmethod
    def _end(self, broker: int, *, kill: bool) -> None:
        """End a broker that runs; return when its process has ended."""

    def _wait_listed(self) -> None:
        """Wait until every running broker lists all running ones with their racks."""
        running = [broker for broker in self.brokers.values() if broker.running]
        expected = {broker.id: broker.rack for broker in running}
        for broker in running:
            try:
                wait_for_racks(broker.address, expected, timeout=_LISTED_SECONDS)
            except SandboxError as error:
                raise SandboxError(f"{error}\nbroker {broker.id} logged:\n{self.log(broker.id)}") from None

    def __enter__(self) -> Self:
        """Start everything."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the cluster."""
        self.close()
