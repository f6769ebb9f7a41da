"""The agent's connections to brokers: kafka-python's own, over the simulated network as transport.

Requests are encoded and answers decoded by the library; only the socket is replaced.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka import errors as kafka_errors

from samerack.cluster.connections import Connections
from tests.simulator.broker import BrokerEnd
from tests.simulator.loop import VirtualLoop
from tests.simulator.network import LATENCY_MS


class VirtualTransport:
    """The client side of one connection, in place of kafka-python's socket transport."""

    host = "simulated"

    def __init__(self, loop: VirtualLoop, broker: int) -> None:
        self._loop = loop
        self._protocol: Any = None
        self._closed = False
        process = loop.process
        self._host = process.host
        self._end = BrokerEnd(process, broker, answer=self._answer, hang_up=self._hang_up)

    @property
    def last_activity(self) -> float:
        """The current time, so that the connection is never idle."""
        return self._loop.process.played() / 1000

    def set_protocol(self, protocol: Any) -> None:
        """Set the receiver of incoming data."""
        self._protocol = protocol

    def get_protocol(self) -> Any:
        """The receiver of incoming data."""
        return self._protocol

    def getPeer(self) -> tuple[str, int]:  # noqa: N802 - the library's name
        """The broker's address."""
        return self.host, 9092

    def host_port(self) -> str:
        """The broker's address as text."""
        return f"{self.host}:9092"

    def resume_reading(self) -> None:
        """Do nothing: it always reads."""

    def write(self, data: Any) -> None:
        """Send data; it arrives at the broker after a latency."""
        process = self._loop.process
        content = bytes(data)
        self._end.sends(content)
        if process.host.alive:
            process.timeline.after(process.busy_ms() + LATENCY_MS, partial(self._end.receive, content), repeats=True)

    def close(self) -> None:
        """Close the connection."""
        self.abort(None)

    def abort(self, error: BaseException | None = None) -> None:
        """Close the connection, also after the broker has closed it."""
        if not self._closed:
            self._closed = True
            self._end.close()
            protocol, self._protocol = self._protocol, None
            if protocol is not None:
                protocol.connection_lost(error)

    def _answer(self, content: bytes) -> None:
        def arrives() -> None:
            if self._closed:
                return
            self._end.arrives(content)
            if self._host.alive:
                self._loop.deliver(partial(self._protocol.data_received, content))

        self._host.later(LATENCY_MS, arrives, repeats=True)

    def _hang_up(self) -> None:
        def lost() -> None:
            self._loop.deliver(partial(self.abort, kafka_errors.KafkaConnectionError("socket disconnected")))

        self._host.later(LATENCY_MS, lost, repeats=True)


class SimulatedConnections(Connections):
    """The connections of one simulated client."""

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:  # noqa: ARG002
        return VirtualTransport(self._net, 0 if self.cluster.is_bootstrap(node.node_id) else int(node.port) - 9092)
