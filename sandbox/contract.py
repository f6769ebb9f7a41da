"""What every test cluster can do, whoever runs its brokers.

The demo and quick trials use JVM processes (`sandbox.cluster`), the integration tests containers
(`tests/integration/cluster.py`). Code written against this protocol runs on both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Final, Protocol, Self

RACKS: Final[Mapping[int, str | None]] = {1: "rack-a", 2: "rack-b", 3: "rack-c"}
"""Broker id to rack, as both clusters start by default."""

RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class Keep(Enum):
    """Stands for "as it is now" where None already means "without a rack"."""

    RACK = "the rack it had"


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """One broker as it stands now.

    Attributes:
        id: its node id.
        rack: its `broker.rack`; None when it has none.
        address: `host:port` that clients reach it at; it stays the same over restarts.
        running: whether its process is up.
    """

    id: int
    rack: str | None
    address: str
    running: bool


class KafkaCluster(Protocol):
    """A real Kafka of several brokers, each in a rack, that can be stopped, killed and moved to other racks."""

    @property
    def bootstrap(self) -> str:
        """`bootstrap.servers` that names every broker, running or not."""
        ...

    @property
    def brokers(self) -> Mapping[int, Broker]:
        """The brokers by id, as they stand now."""
        ...

    def stop_broker(self, broker: int, *, kill: bool = False) -> None:
        """Ends a broker: in good order, or with SIGKILL when `kill` is set; returns when its process is gone."""
        ...

    def start_broker(self, broker: int, *, rack: str | Keep | None = Keep.RACK) -> None:
        """Starts a stopped broker, in another rack if one is given; returns when every running broker lists it."""
        ...

    def restart_broker(self, broker: int, *, rack: str | Keep | None = Keep.RACK) -> None:
        """Stops a broker in good order and starts it again, in another rack if one is given."""
        ...

    def log(self, broker: int, lines: int = 30) -> str:
        """Returns the last lines of a broker's log."""
        ...

    def start(self) -> None:
        """Starts everything; returns when every broker lists all the others with their racks."""
        ...

    def close(self) -> None:
        """Ends every process and removes every file; may be called again."""
        ...

    def __enter__(self) -> Self:
        """Starts everything."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Closes."""
        ...
