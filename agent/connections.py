"""kafka-python's connections to brokers, with a memory of who refused.

The library means to remember a broker that refuses and to raise that at once from then on, but does not see it where
TLS or SASL fails, or where the broker's last words are read together with the end of its connection: it would connect
again without a pause as often as anybody asks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from kafka import errors as kafka_errors
from kafka.future import Future
from kafka.net.manager import KafkaConnectionManager

from agent.errors import RefusedError
from agent.refusals import NotAcceptedError, next_pause, refusal

Identity: TypeAlias = tuple[tuple[str, str], ...]
_IDENTIFYING: Final = ("bootstrap_servers", "security_protocol", "sasl_", "ssl_")


class Connections(KafkaConnectionManager):  # type: ignore[misc]  # the library is untyped
    """The connections of one client. A broker that refused is not asked again by this client."""

    def __init__(self, net: Any, **config: Any) -> None:
        super().__init__(net, **config)
        self.last_failure: BaseException | None = None

    def send(self, request: Any, node_id: Any = None, request_timeout_ms: float | None = None) -> Any:
        """A future of the answer; one that fails where the connection is being closed, which the library raises."""
        try:
            return super().send(request, node_id=node_id, request_timeout_ms=request_timeout_ms)
        except RuntimeError as error:
            return Future().failure(kafka_errors.KafkaConnectionError(str(error)))

    def drop(self, node_id: Any) -> None:
        """Close the connection to a broker, so that the next request goes over another."""
        connection = self._conns.pop(node_id, None)
        if connection is not None:
            connection.close()

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        transport = await super()._build_transport(node, timeout_at=timeout_at)
        received = transport._sock_recv  # noqa: SLF001 - what is read together with the end is lost in there

        def first_what_was_said() -> tuple[bytes, BaseException | None]:
            data, end = received()
            return data, None if data else end  # the end is there to be read again, alone

        transport._sock_recv = first_what_was_said  # noqa: SLF001
        return transport

    async def _connect(self, node: Any, conn: Any, **options: Any) -> None:
        said: list[BaseException] = []
        close = conn.close

        def heeded(error: BaseException | None = None) -> None:
            # a broker that refuses says why and hangs up: where the end is heeded before what was said, the library
            # takes it for a lost connection, and gives the reason to `close` alone
            if error is not None:
                said.append(error)
                self._failed(node.node_id, error)
            close(error)

        conn.close = heeded
        await super()._connect(node, conn, **options)
        for error in said:  # where there was a connection, the library has just forgotten who refused, also over it
            self._failed(node.node_id, error)
        conn.init_future.add_errback(partial(self._failed, node.node_id))

    def _failed(self, broker: Any, error: BaseException) -> None:
        words = refusal(error, self.config)
        if words or not refusal(self.last_failure, self.config):
            self.last_failure = error
        if words:
            # who is not let in by one bootstrap server need not knock at the others
            all_of_them = [one.node_id for one in self.cluster.bootstrap_brokers()]
            for one in all_of_them if self.cluster.is_bootstrap(broker) else [broker]:
                self._auth_failures[one] = NotAcceptedError(words)


class Refusals:
    """Who was refused lately, for all clients of a process: together they knock no more often than one would."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Identity, tuple[str, float, float]] = {}
        self._let_in = False

    @property
    def reception(self) -> str | None:
        """Empty once anybody was let in; before, why somebody was refused; None while nobody has had an answer."""
        with self._lock:
            return "" if self._let_in else next((text for text, _, _ in self._known.values()), None)

    def check(self, identity: Identity) -> None:
        """Raise what is known of this identity, until it is time to knock again.

        Raises:
            RefusedError: It was refused lately.
        """
        with self._lock:
            text, _, until = self._known.get(identity, ("", 0.0, 0.0))
        if time.monotonic() < until:
            raise RefusedError(text)

    def remember(self, identity: Identity, text: str) -> RefusedError:
        """It was refused; the answer is the error to raise."""
        with self._lock:
            pause = next_pause(self._known.get(identity, ("", 0.0, 0.0))[1])
            self._known[identity] = (text, pause, time.monotonic() + pause)
        return RefusedError(text)

    def forget(self, identity: Identity) -> None:
        """It was let in."""
        with self._lock:
            self._let_in = True
            self._known.pop(identity, None)


def identity_of(config: Mapping[str, Any]) -> Identity:
    """Where a client knocks and as whom."""
    return tuple(sorted((key, str(value)) for key, value in config.items() if key.startswith(_IDENTIFYING)))
