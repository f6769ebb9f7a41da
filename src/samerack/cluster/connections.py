"""kafka-python's connections to brokers; remembers which brokers refused the client.

The library is meant to remember a broker that refuses and to raise that at once from then on. It does not notice it if
TLS or SASL fails, or if the broker's last data is read together with the end of its connection: then it would connect
again without a pause for every request.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

from kafka import errors as kafka_errors
from kafka.future import Future
from kafka.net.manager import KafkaConnectionManager

from samerack.auth.kafka_config import unverified
from samerack.cluster.errors import NotAcceptedError
from samerack.cluster.names import LOOKUPS, PROXY_URL
from samerack.cluster.refusals import refusal
from samerack.common.attempts import REFUSALS, Attempts
from samerack.common.errors import RefusedError, one_line

Identity: TypeAlias = tuple[tuple[str, str], ...]
_IDENTIFYING: Final = ("bootstrap_servers", "security_protocol", "sasl_", "ssl_")
_LOOKUP_SECONDS: Final = 10.0
_FIRST_PAUSE_SECONDS: Final = 0.001
_LONGEST_PAUSE_SECONDS: Final = 0.05


class Connections(KafkaConnectionManager):  # type: ignore[misc]  # the library is untyped
    """The connections of one client, which connects to a broker that refused it only after a pause.

    What was refused may have been replaced meanwhile: a certificate, or whom a broker trusts.
    """

    def __init__(self, net: Any, **config: Any) -> None:
        super().__init__(net, **config, proxy_url=PROXY_URL)
        self.last_failure: BaseException | None = None
        self._refused_until: dict[Any, float] = {}
        self.any_outcome = threading.Event()
        """Set once a connection has failed, or the client is ready."""

    def send(self, request: Any, node_id: Any = None, request_timeout_ms: float | None = None) -> Any:
        """Return a future of the response; it fails if the connection is being closed, where the library raises."""
        try:
            return super().send(request, node_id=node_id, request_timeout_ms=request_timeout_ms)
        except RuntimeError as error:
            return Future().failure(kafka_errors.KafkaConnectionError(str(error)))

    def maybe_raise_auth_failure(self, node_id: Any) -> None:
        """Raise why a broker refused this client, until the pause after that is over."""
        if time.monotonic() >= self._refused_until.get(node_id, float("inf")):
            self._auth_failures.pop(node_id, None)
        super().maybe_raise_auth_failure(node_id)

    def advertised(self) -> list[tuple[str, int]]:
        """Return the addresses that brokers advertise; none if the address that answered is among them."""
        found = {(one.host, one.port) for one in self.cluster.brokers()}
        return [] if found & {(one.host, one.port) for one in self.cluster.bootstrap_brokers()} else list(found)

    def is_away(self, node_id: Any) -> bool:
        """Return whether a connection to a broker was lost or not made, so that there is a pause before the next."""
        connection = self._conns.get(node_id)
        connected = connection is not None and connection.connected
        return not connected and self.connection_delay(node_id) > 0

    def drop(self, node_id: Any) -> None:
        """Close the connection to a broker, so that the next request opens another."""
        connection = self._conns.pop(node_id, None)
        if connection is not None:
            connection.close()

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        await self._look_up(node.host, node.port, timeout_at)
        if self.config["ssl_context"] is not None:
            self.config["ssl_context"] = unverified(self.config)  # the library would show a replaced certificate
        transport = await super()._build_transport(node, timeout_at=timeout_at)
        received = transport._sock_recv  # noqa: SLF001 - it loses data that is read together with the end

        def first_what_was_said() -> tuple[bytes, BaseException | None]:
            data, end = received()
            return data, None if data else end  # the next read returns the end again, without data

        transport._sock_recv = first_what_was_said  # noqa: SLF001
        return transport

    async def _look_up(self, host: str, port: int, timeout_at: float | None) -> None:
        """Wait for a host's addresses, while other connections go on; none in time is a KafkaConnectionError."""
        lookup = LOOKUPS.begin(host, port)
        until = time.monotonic() + _LOOKUP_SECONDS
        if timeout_at is not None:
            until = min(until, timeout_at)
        pause = _FIRST_PAUSE_SECONDS
        while not lookup.done():
            if time.monotonic() > until:
                raise kafka_errors.KafkaConnectionError(f"the name service gives no answer for {host}")
            await self._net.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        if error := lookup.exception():
            raise kafka_errors.KafkaConnectionError(f"{host}: {one_line(error)}") from error

    async def _connect(self, node: Any, conn: Any, **options: Any) -> None:
        said: list[BaseException] = []
        close = conn.close

        def close_with_reason(error: BaseException | None = None) -> None:
            # a broker that refuses sends the reason and closes: if the library handles the end before the reason, it
            # treats it as a lost connection, and passes the reason only to `close`
            if error is not None:
                said.append(error)
                self._failed(node.node_id, error)
            close(error)

        conn.close = close_with_reason
        await super()._connect(node, conn, **options)
        for error in said:  # once a connection was made, the library forgets a refusal, also one on that connection
            self._failed(node.node_id, error)
        conn.init_future.add_errback(partial(self._failed, node.node_id))

    def _failed(self, broker: Any, error: BaseException) -> None:
        words = refusal(error, self.config)
        if words or not refusal(self.last_failure, self.config):
            self.last_failure = error
        self.any_outcome.set()
        if words:
            # a client that one bootstrap server refuses does not try the others
            all_of_them = [one.node_id for one in self.cluster.bootstrap_brokers()]
            for one in all_of_them if self.cluster.is_bootstrap(broker) else [broker]:
                self._auth_failures[one] = NotAcceptedError(words)
                self._refused_until[one] = time.monotonic() + REFUSALS.most


@dataclass(slots=True, kw_only=True)
class _Refused:
    """Why an identity was refused, how often in a row, and until when no client connects as it (monotonic seconds)."""

    text: str = ""
    attempts: Attempts = field(default_factory=lambda: Attempts(REFUSALS))
    until: float = 0.0


class Refusals:
    """Recent refusals, shared by all clients of a process: together they connect no more often than one would."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Identity, _Refused] = {}
        self._let_in = False

    @property
    def reception(self) -> str | None:
        """Empty once any client was accepted; before that, why one was refused; None while no client got an answer."""
        with self._lock:
            return "" if self._let_in else next((one.text for one in self._known.values()), None)

    def check(self, identity: Identity) -> None:
        """Raise the last refusal of this identity until its pause is over.

        Raises:
            RefusedError: It was refused recently.
        """
        with self._lock:
            known = self._known.get(identity)
        if known is not None and time.monotonic() < known.until:
            raise RefusedError(known.text)

    def remember(self, identity: Identity, text: str) -> RefusedError:
        """Record that this identity was refused; return the error to raise."""
        with self._lock:
            known = self._known.setdefault(identity, _Refused())
            known.text, known.until = text, time.monotonic() + known.attempts.failed()
        return RefusedError(text)

    def forget(self, identity: Identity) -> None:
        """Record that this identity was accepted."""
        with self._lock:
            self._let_in = True
            self._known.pop(identity, None)


def identity_of(config: Mapping[str, Any]) -> Identity:
    """Return the settings that say where a client connects and as whom."""
    return tuple(sorted((key, str(value)) for key, value in config.items() if key.startswith(_IDENTIFYING)))
