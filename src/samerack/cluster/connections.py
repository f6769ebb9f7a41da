"""The connections of one client to the brokers of a cluster.

kafka-python serves a connection: sockets, TLS, SASL, requests in flight. Which connections there are, where the brokers
are, when to try one again and which have refused this client is decided here: the library connects again without a
pause where TLS or SASL fails, and loses what a broker says together with the end of its connection.
"""

from __future__ import annotations

import heapq
import itertools
import random
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from kafka import errors as kafka_errors
from kafka.cluster import collect_hosts, expand_to_canonical_bootstrap_hosts
from kafka.future import Future
from kafka.net.connection import KafkaConnection
from kafka.net.inet import create_connection
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.metadata import MetadataRequest

from samerack.auth.identities import TokenError
from samerack.auth.kafka_config import tls_context
from samerack.cluster.errors import NotAcceptedError, refusal
from samerack.cluster.names import LOOKUPS, PROXY_URL, TlsSocket
from samerack.common.attempts import REFUSALS, REQUESTS, Attempts, RetryPauses
from samerack.common.errors import one_line


@dataclass(frozen=True, slots=True)
class OwnConnection:
    """Another connection to a broker, for one holder: a parked JoinGroup keeps all requests behind it waiting."""

    broker: int
    holder: object


NodeId: TypeAlias = int | str | OwnConnection
"""The broker's id, a text for a bootstrap server, or one of several connections to a broker."""
_LOOKUP_SECONDS: Final = 10.0
_SHARE_OF_FIRST: Final = 0.6
"""Of the time that is left, what one bootstrap server may take while others are not tried yet."""
_FIRST_PAUSE_SECONDS: Final = 0.001
_LONGEST_PAUSE_SECONDS: Final = 0.05
_MILLISECONDS: Final = {
    "reconnect_backoff_ms": 50,
    "reconnect_backoff_max_ms": 30_000,
    "socket_connection_setup_timeout_ms": 10_000,
    "metadata_max_age_ms": 300_000,
}
"""The defaults of settings that are used here; they are kafka-python's."""
_MAX_IN_FLIGHT: Final = 100_000
"""The members of a thousand groups share a connection; with the library's limit of five, a sixth request fails."""
_SPREAD: Final = 0.2
"""Pauses vary by this share, so that clients that lost a broker together do not return together."""
_LARGEST_ANSWER_BYTES: Final = 100_000_000
"""The library accepts a million by default; a leader gets the subscriptions of all members in one answer."""
_SOCKET_OPTIONS: Final = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1))


@dataclass(frozen=True, slots=True)
class Node:
    """Where a broker is reached."""

    node_id: NodeId
    host: str
    port: int


@dataclass(slots=True)
class _Trouble:
    """The failures of connections to one node in a row, and until when none is tried (monotonic seconds)."""

    attempts: Attempts
    until: float = 0.0
    refused: NotAcceptedError | None = None
    """Why the node refused this client; it may have been replaced meanwhile: a certificate, or whom it trusts."""


class _Connection(KafkaConnection):  # type: ignore[misc]  # the library is untyped
    """A connection that reports the error with which it is closed, and goes on when a broker throttles it.

    A broker that refuses sends the reason and closes: if the library handles the end before the reason, it treats it
    as a lost connection, and passes the reason only to `close`.
    """

    def __init__(self, net: Any, report: Callable[[BaseException], None], **options: Any) -> None:
        super().__init__(net, **options)
        self.report = report

    def pause(self, reason: str) -> None:
        # A broker that throttles a connection reads on by itself when the time is over (KIP-219). The library would
        # refuse all requests until then: the group would wait for a SyncGroup that is never sent.
        if reason != "throttle":
            super().pause(reason)

    def close(self, error: BaseException | None = None) -> None:
        try:
            if error is not None:
                self.report(error)
        finally:  # whoever waits for a response is answered whatever happens, with an error of Kafka
            super().close(NotAcceptedError(str(error)) if isinstance(error, TokenError) else error)


class Connections:
    """The connections of one client, opened when they are needed. All but `begin` and `close` is for its thread."""

    def __init__(self, net: Any, **config: Any) -> None:
        """Prepare with kafka-python's settings; nothing is connected before `begin` or `send`."""
        self.config = {
            "receive_message_max_bytes": _LARGEST_ANSWER_BYTES,
            **config,
            "max_in_flight_requests_per_connection": _MAX_IN_FLIGHT,
        }
        self.last_failure: BaseException | None = None
        self.any_outcome = threading.Event()
        """Set once a connection has failed, or the client is ready."""
        self._net = net
        self._limits = {name: config.get(name, value) / 1000 for name, value in _MILLISECONDS.items()}
        self._bootstrap = _bootstrap_nodes(config)
        self._brokers: dict[NodeId, Node] = {}
        self._named: dict[NodeId, Node] = {}
        """Brokers that were named as coordinators, of which metadata may know nothing yet."""
        self._open: dict[NodeId, Any] = {}
        self._troubles: dict[NodeId, _Trouble] = {}
        self._begun: Any = None
        self._tls_context: Any = None
        """A future of the last TLS context."""
        self._refresh: Any = None
        self._refreshes = Attempts(REQUESTS)
        self._refreshed_at = 0.0
        self._closed = False
        self._sleepers: list[tuple[float, int, Any]] = []
        """A heap of the moments at which sleeps end (monotonic seconds), each with its future."""
        self._sleeps = itertools.count()
        self._alarm: Any = None
        """The timer for the end of the next sleep."""
        self._alarm_at = 0.0

    # finding brokers

    def begin(self, seconds: float) -> Any:
        """Ask the bootstrap servers for the brokers; return a future of that, which is the same for all calls.

        It fails with a KafkaTimeoutError after this many seconds, and as soon as a server refuses this client.
        """
        if self._begun is None:
            self._begun = self.call_soon(self._begin, time.monotonic() + seconds)
        return self._begun

    async def _begin(self, deadline: float) -> None:
        untried: list[NodeId] = []
        while (left := deadline - time.monotonic()) > 0:
            untried = untried or list(self._bootstrap)
            # the first may be off, and the next answer; where one of two name servers is off, half of ten seconds pass
            seconds = left * (_SHARE_OF_FIRST if len(untried) > 1 else 1)
            untried.remove(node_id := random.choice(untried))  # noqa: S311 - no secret
            try:
                await self.wait_for(self.call_soon(self._ask_for_brokers, node_id), seconds * 1000)
            except (NotAcceptedError, kafka_errors.IncompatibleBrokerVersion):
                raise
            except Exception:  # noqa: BLE001 - what a server sends may be no Kafka at all
                if not self.connection_delay(node_id):
                    self._defer(node_id)
                await self._net.sleep(min(self.connection_delay(node_id), max(0.0, deadline - time.monotonic())))
            else:
                return
            finally:
                self.drop(node_id)
        raise kafka_errors.KafkaTimeoutError(f"no brokers are known from {self.config.get('bootstrap_servers')}")

    def refresh_brokers(self) -> None:
        """Ask for the brokers' addresses anew, unless that goes on."""
        if not self._closed and (self._refresh is None or self._refresh.is_done):
            self._refresh = self.call_soon(self._refresh_brokers)

    async def _refresh_brokers(self) -> None:
        if pause := self._refreshes.pause_seconds:
            await self._net.sleep(pause)
        try:
            await self._ask_for_brokers(self.least_loaded_node())
        except Exception:  # what a server sends may be no Kafka at all
            self._refreshes.failed()
            raise
        self._refreshes.succeeded()

    async def _ask_for_brokers(self, node_id: NodeId | None) -> None:
        request = MetadataRequest(
            topics=MetadataRequest.NO_TOPICS,
            allow_auto_topic_creation=True,  # of none; brokers before 0.11 know no other value
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        response = await self.send(request, node_id=node_id)
        found = {broker.node_id: Node(broker.node_id, broker.host, broker.port) for broker in response.brokers}
        if not found:
            raise kafka_errors.MetadataEmptyBrokerList(str(node_id))
        self._brokers, self._refreshed_at = found, time.monotonic()

    def node(self, node_id: NodeId) -> Node | None:
        """Return where a node is reached; None if it is not known."""
        for nodes in (self._brokers, self._bootstrap, self._named):
            if (found := nodes.get(_at(node_id))) is not None:
                return found
        return None

    def add_coordinator(self, node: Node) -> None:
        """Take in where a coordinator is: metadata contains a broker that has just started only after a while."""
        self._named[node.node_id] = node

    def advertised(self) -> list[tuple[str, int]]:
        """Return the addresses that brokers advertise; none if the address that answered is among them."""
        found = {(broker.host, broker.port) for broker in self._brokers.values()}
        return [] if found & {(one.host, one.port) for one in self._bootstrap.values()} else list(found)

    def least_loaded_node(self) -> NodeId | None:
        """Return a broker with the fewest requests in flight, connected if possible; None if there is a pause for each.

        Where no broker can be tried, that is a bootstrap server: all brokers may have moved.
        """
        for nodes in (self._brokers, self._bootstrap):
            waiting = {}
            for node_id in random.sample(list(nodes), len(nodes)):
                connection = self._open.get(node_id)
                in_flight = len(connection.in_flight_requests) if connection is not None else 0
                if connection is not None and connection.connected and not connection.paused and not in_flight:
                    return node_id
                if (connection is None or not connection.paused) and not self.connection_delay(node_id):
                    waiting[node_id] = in_flight
            if waiting:
                return min(waiting, key=waiting.__getitem__)
        return None

    # requests

    def send(self, request: Any, node_id: NodeId | None = None, request_timeout_ms: float | None = None) -> Any:
        """Send to a node, or to any broker; return a future of the response, which fails if there is no connection."""
        try:
            if time.monotonic() - self._refreshed_at > self._limits["metadata_max_age_ms"] > 0 and self._brokers:
                self._refreshed_at = time.monotonic()
                self.refresh_brokers()
            connection = self._connection(self.least_loaded_node() if node_id is None else node_id)
            return connection.send_request(request, request_timeout_ms=request_timeout_ms)
        except kafka_errors.KafkaError as error:
            return Future().failure(error)
        except RuntimeError as error:  # the connection is being closed
            return Future().failure(kafka_errors.KafkaConnectionError(str(error)))

    def call_soon(self, task: Any, *arguments: Any) -> Any:
        """Run a coroutine function on the network thread, from any thread; return a future of what it returns."""
        return self._net.call_soon_with_future(task, *arguments)

    def sleep(self, seconds: float) -> Any:
        """Return a future that is done after some seconds.

        All sleepers share one timer of the event loop, which goes through all its timers to cancel one, and cancels one
        with each response.
        """
        woken, at = Future(), time.monotonic() + seconds
        heapq.heappush(self._sleepers, (at, next(self._sleeps), woken))
        if self._alarm is None or at < self._alarm_at:
            if self._alarm is not None:
                self._net.cancel(self._alarm)
            self._set_alarm(at)
        return woken

    def _set_alarm(self, at: float) -> None:
        self._alarm, self._alarm_at = self._net.call_at(at, self._wake), at

    async def _wake(self) -> None:
        """End all sleeps that are over, and set the timer for the next."""
        self._alarm = None
        while self._sleepers and self._sleepers[0][0] <= time.monotonic():
            heapq.heappop(self._sleepers)[2].success(None)
        if self._sleepers and self._alarm is None:
            self._set_alarm(self._sleepers[0][0])

    def run_aside(self, function: Callable[[], Any]) -> Any:
        """Run a function on a thread of its own, while the network thread goes on; return a future of its result."""
        done = Future()

        def run() -> None:
            try:
                end = partial(done.success, function())
            except BaseException as error:  # noqa: BLE001 - whoever awaits the future handles it
                end = partial(done.failure, error)

            async def finish() -> None:
                end()

            with suppress(RuntimeError):  # the client is closed, and nobody waits
                self._net.call_soon_threadsafe(finish)

        threading.Thread(target=run, name="aside", daemon=True).start()
        return done

    async def wait_for(self, future: Any, milliseconds: float) -> Any:
        """Return a future's value, or raise its error or, after this time, a KafkaTimeoutError; the future goes on."""
        first = Future()

        def end(outcome: Any) -> None:
            if not first.is_done:
                (first.failure if isinstance(outcome, BaseException) else first.success)(outcome)

        future.add_both(end)
        late = kafka_errors.KafkaTimeoutError(f"after {milliseconds:.0f} ms")
        timer = self._net.call_later(milliseconds / 1000, lambda: end(late))
        try:
            return await first
        finally:
            self._net.cancel(timer)

    # connections

    def connection_delay(self, node_id: NodeId) -> float:
        """Return the seconds until a connection to a node may be tried; 0.0 where none has failed."""
        trouble = self._troubles.get(_at(node_id))
        return 0.0 if trouble is None else max(0.0, trouble.until - time.monotonic())

    def is_away(self, node_id: NodeId) -> bool:
        """Return whether a connection to a node was lost or not made, so that there is a pause before the next."""
        return not self.is_open(node_id) and self.connection_delay(node_id) > 0

    def is_open(self, node_id: NodeId | None) -> bool:
        """Return whether a request to a node would be sent at once."""
        connection = self._open.get(node_id) if node_id is not None else None
        return connection is not None and bool(connection.connected)

    def drop(self, node_id: NodeId | None) -> None:
        """Close the connection to a node, so that the next request opens another."""
        connection = self._open.pop(node_id, None) if node_id is not None else None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close all connections; no other is opened."""
        self._closed = True
        for node_id in list(self._open):
            self.drop(node_id)

    def _connection(self, node_id: NodeId | None) -> Any:
        """Return the connection to a node, which may not be made yet.

        Raises:
            NodeNotReadyError: There is none, and a pause before the next.
            NotAcceptedError: The node refused this client, and the pause after that is not over.
            UnknownBrokerIdError: Nobody has said where the node is.
        """
        if node_id is None or self._closed:
            raise kafka_errors.NodeNotReadyError("no broker can be tried now")
        if (connection := self._open.get(node_id)) is not None:
            return connection
        trouble = self._troubles.get(_at(node_id))
        if trouble is not None:
            if trouble.until > time.monotonic():
                raise trouble.refused or kafka_errors.NodeNotReadyError(str(node_id))
            trouble.refused = None
        node = self.node(node_id)
        if node is None:
            raise kafka_errors.UnknownBrokerIdError(str(node_id))
        connection = self._open[node_id] = _Connection(
            self._net, partial(self._failed, node.node_id), node_id=node.node_id, **self.config
        )
        connection.close_future.add_both(partial(self._forget, node_id, connection))
        self.call_soon(self._connect, node, connection)
        return connection

    def _forget(self, node_id: NodeId, connection: Any, error: BaseException | None) -> None:
        if self._open.get(node_id) is connection:
            del self._open[node_id]
        if error is not None and node_id not in self._bootstrap and self._brokers:
            self.refresh_brokers()

    async def _connect(self, node: Node, connection: Any) -> None:
        try:
            if (tokens := self.config.get("sasl_oauth_token_provider")) is not None:
                await self.run_aside(tokens.token)  # the library would have the network thread fetch one
            until = time.monotonic() + self._limits["socket_connection_setup_timeout_ms"]
            transport = await self._transport(node, until)
            if connection.closed:
                transport.close()
                return
            connection.connection_made(transport)
            with LOOKUPS.following_on_failure(node.host, node.port):
                await connection.initialize(timeout_at=until)
                await connection
        except Exception as error:  # noqa: BLE001 - tokens raise errors of their own
            self._defer(node.node_id)
            connection.close(error)
        else:
            self._troubles.pop(node.node_id, None)

    async def _transport(self, node: Node, until: float) -> Any:
        """Return a new transport to a node, after the TLS handshake if there is one.

        Raises:
            KafkaConnectionError: There is none at `until` (monotonic seconds), or it fails.
        """
        await self._look_up(node.host, node.port, until)
        plain = await create_connection(
            self._net, node.host, node.port, _SOCKET_OPTIONS, proxy_url=PROXY_URL, timeout_at=until
        )
        if self.config.get("security_protocol") not in ("SSL", "SASL_SSL"):
            return KafkaTCPTransport(self._net, plain, host=node.host)
        opened = plain
        try:
            # the library's own context would lose what is read together with the end
            if self._tls_context is None or self._tls_context.is_done:
                # read anew, as files may have changed, but once for all connections that wait for it
                self._tls_context = self.run_aside(partial(tls_context, self.config))
            context = await self._tls_context
            context.sslsocket_class = TlsSocket
            opened = KafkaSSLTransport(self._net, plain, host=node.host, ssl_context=context)
            with LOOKUPS.following_on_failure(node.host, node.port):
                await self.wait_for(self.call_soon(opened.handshake), (until - time.monotonic()) * 1000)
        except Exception as error:
            opened.close()
            # whoever waits for a response expects errors of Kafka, and tries those of connections again
            raise kafka_errors.KafkaConnectionError(f"TLS: {one_line(error)}") from error
        except BaseException:  # the client is closed
            opened.close()
            raise
        return opened

    async def _look_up(self, host: str, port: int, until: float) -> None:
        """Wait for a host's addresses, while other connections go on; none in time is a KafkaConnectionError."""
        lookup = LOOKUPS.begin(host, port)
        until = min(until, time.monotonic() + _LOOKUP_SECONDS)
        pause = _FIRST_PAUSE_SECONDS
        while not lookup.done():
            if time.monotonic() > until:
                raise kafka_errors.KafkaConnectionError(f"DNS does not answer for {host}")
            await self._net.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        if error := lookup.exception():
            raise kafka_errors.KafkaConnectionError(f"{host}: {one_line(error)}") from error

    # failures

    def _failed(self, node_id: NodeId, error: BaseException) -> None:
        """Remember why a connection failed; one that was refused is not tried again before a long pause."""
        words = refusal(error, self.config)
        if words or not refusal(self.last_failure, self.config):
            self.last_failure = error
        if words:
            # a client that one bootstrap server refuses does not try the others
            for one in self._bootstrap if node_id in self._bootstrap else [node_id]:
                trouble = self._trouble(one)
                trouble.refused = NotAcceptedError(words)
                if not isinstance(error, TokenError):  # no node has refused, and the tokens' source has its own pauses
                    trouble.until = time.monotonic() + REFUSALS.most
        self.any_outcome.set()

    def _defer(self, node_id: NodeId) -> None:
        """Have a pause before the next connection to a node, longer after each failure in a row."""
        trouble = self._trouble(node_id)
        pause = trouble.attempts.failed() * random.uniform(1 - _SPREAD, 1 + _SPREAD)  # noqa: S311 - no secret
        trouble.until = max(trouble.until, time.monotonic() + pause)

    def _trouble(self, node_id: NodeId) -> _Trouble:
        first, most = self._limits["reconnect_backoff_ms"], self._limits["reconnect_backoff_max_ms"]
        return self._troubles.setdefault(node_id, _Trouble(Attempts(RetryPauses(first=first, most=most))))


def _at(node_id: NodeId) -> NodeId:
    """Return the node that a connection leads to: it is refused, or cannot be reached, as a whole."""
    return node_id.broker if isinstance(node_id, OwnConnection) else node_id


def _bootstrap_nodes(config: Mapping[str, Any]) -> dict[NodeId, Node]:
    hosts = collect_hosts(config.get("bootstrap_servers", "localhost:9092"))
    if config.get("client_dns_lookup") == "resolve_canonical_bootstrap_servers_only":
        hosts = expand_to_canonical_bootstrap_hosts(hosts)
    nodes = [Node(f"bootstrap-{number}", host, port) for number, (host, port, _) in enumerate(hosts)]
    return {node.node_id: node for node in nodes}
