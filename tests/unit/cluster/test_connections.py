"""A refusal of a broker is reported, however it reaches kafka-python's connection."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from kafka import errors as kafka_errors
from kafka.future import Future
from kafka.net.connection import KafkaConnection
from kafka.protocol.metadata import MetadataRequest

from samerack.auth.identities import Token
from samerack.auth.kafka_config import for_kafka_python
from samerack.auth.tokens import Tokens
from samerack.cluster import connections as connections_module
from samerack.cluster.client import ClusterClient, Refusals, connect
from samerack.cluster.connections import Connections, Node, OwnConnection
from samerack.cluster.errors import NotAcceptedError, refusal
from samerack.common.attempts import REFUSALS, REQUESTS
from samerack.common.errors import RefusedError
from tests.clouds.certificates import Authority
from tests.unit.waiting import LONGEST_SECONDS, until

CONFIG = {
    "bootstrap_servers": "127.0.0.1:1",
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "u",
    "sasl_plain_password": "p",
}
REFUSED = kafka_errors.UnsupportedSaslMechanismError()
_HANDSHAKE, _VERSIONS, _AUTHENTICATE = 17, 18, 36
_SAID: Final = b"Invalid username or password"


class Refusing:
    """A loopback listener that refuses every password, with its message and the connection's end in one packet."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self.attempts = 0
        self._tls = tls
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._listening.getsockname())
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                accepted, _ = self._listening.accept()
            except OSError:
                return
            accepted.settimeout(5)
            with self._tls.wrap_socket(accepted, server_side=True) if self._tls is not None else accepted as connection:
                while self._answer(connection):
                    pass

    def _answer(self, connection: socket.socket) -> bool:
        """Answer one request; True if another may follow."""
        size = int.from_bytes(connection.recv(4))
        key, version, correlation = struct.unpack_from(">hhi", connection.recv(size))
        if key == _VERSIONS:
            ranges = (
                struct.pack(">hhh", *one) for one in ((_HANDSHAKE, 0, 1), (_VERSIONS, 0, 0), (_AUTHENTICATE, 0, 1))
            )
            answer = struct.pack(">hi", 35 if version else 0, 3) + b"".join(ranges)  # 35: use the version that I have
        elif key == _HANDSHAKE:
            offered = (b"PLAIN", b"OAUTHBEARER")
            answer = struct.pack(">hi", 0, 2) + b"".join(struct.pack(">h", len(one)) + one for one in offered)
        else:
            answer = struct.pack(">hh", 58, len(_SAID)) + _SAID + struct.pack(">iq", 0, 0)
            self.attempts += 1
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        connection.sendall(struct.pack(">ii", 4 + len(answer), correlation) + answer)
        return bool(key != _AUTHENTICATE)


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_what_is_read_together_with_the_end_is_handled(protocol: str, tmp_path: Path) -> None:
    """The library drops such an answer, and retried a wrong password without a pause, as a lost connection."""
    config, tls = {**CONFIG, "security_protocol": protocol}, None
    if protocol == "SASL_SSL":
        authority = Authority.new(tmp_path)
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(authority.issue("broker").both)
        config["ssl_cafile"] = str(authority.certificate)
    with closing(Refusing(tls)) as broker:
        with pytest.raises(RefusedError, match="refuse SASL PLAIN: Invalid username or password; check"):
            connect({**config, "bootstrap_servers": broker.address}, 3.0)
        assert broker.attempts == 1


def test_a_replaced_certificate_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The agent's own certificate is read for each connection, as its file is then."""

    def ended(*_: Any, **_options: Any) -> Any:
        raise ssl.SSLError("after the context is made")

    monkeypatch.setattr(connections_module, "KafkaSSLTransport", ended)
    certificates = Authority.new(tmp_path).issue("agent"), Authority.new(tmp_path, "other").issue("agent")
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        config = for_kafka_python(
            {
                "bootstrap.servers": "{}:{}".format(*listening.getsockname()),
                "security.protocol": "SSL",
                "enable.ssl.certificate.verification": "false",
                "ssl.certificate.location": str(certificates[0].both),
                "ssl.key.location": str(certificates[0].both),
            }
        )
        read: list[str] = []
        monkeypatch.setattr(
            ssl.SSLContext, "load_cert_chain", lambda _, path, *_more: read.append(Path(path).read_text())
        )
        texts = [certificate.both.read_text() for certificate in certificates]
        for text in texts:
            certificates[0].both.write_text(text)
            with closing(ClusterClient(config)) as client:
                client.net.start()
                with pytest.raises(kafka_errors.KafkaConnectionError):
                    client.net.run(
                        client.connections.send, MetadataRequest(topics=MetadataRequest.NO_TOPICS), "bootstrap-0"
                    )
        assert {*read} == {*texts}


async def _current_thread() -> threading.Thread:
    return threading.current_thread()


def test_heartbeats_go_on_while_a_tls_context_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups that rejoin together connect together: a context for each, made by the network thread, took seconds."""
    makers: list[threading.Thread] = []
    is_made = threading.Event()
    connected: list[socket.socket] = []

    def make(_config: Any) -> ssl.SSLContext:
        makers.append(threading.current_thread())
        if makers[0] is not network:
            is_made.wait(LONGEST_SECONDS)
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def ended(*_: Any, **_options: Any) -> Any:
        raise ssl.SSLError("after the context is made")

    async def create(*_: Any, **_options: Any) -> socket.socket:
        connected.append(socket.socket())
        return connected[-1]

    monkeypatch.setattr(connections_module, "create_connection", create)
    monkeypatch.setattr(connections_module, "tls_context", make)
    monkeypatch.setattr(connections_module, "KafkaSSLTransport", ended)
    with closing(ClusterClient({"bootstrap_servers": "127.0.0.1:1", "security_protocol": "SSL"})) as client:
        client.net.start()
        network = client.net.run(_current_thread)
        client.connections.add_coordinator(Node(1, "127.0.0.1", 1))
        request = MetadataRequest(topics=MetadataRequest.NO_TOPICS)
        sent = [
            client.connections.call_soon(client.connections.send, request, OwnConnection(1, group)) for group in "abc"
        ]
        assert until(lambda: len(connected) == len(sent))
        assert client.net.run(_current_thread) is network
        is_made.set()
        assert until(lambda: all(one.is_done for one in sent))
        assert all(isinstance(one.exception, kafka_errors.KafkaConnectionError) for one in sent)
    assert network not in makers
    assert len(makers) == 1


def test_no_token_is_fetched_on_the_network_thread() -> None:
    """While a token's source hung, no heartbeat of any group was sent."""
    fetchers: list[threading.Thread] = []

    def fetch() -> Token:
        fetchers.append(threading.current_thread())
        return Token(text="t", seconds=100)

    config = {**CONFIG, "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": Tokens(fetch)}
    with (
        closing(Refusing(None)) as broker,
        closing(ClusterClient({**config, "bootstrap_servers": broker.address})) as client,
    ):
        client.net.start()
        network = client.net.run(_current_thread)
        with pytest.raises(kafka_errors.SaslAuthenticationFailedError):
            client.net.run(client.connections.send, MetadataRequest(topics=MetadataRequest.NO_TOPICS), "bootstrap-0")
        assert broker.attempts == 1
    assert len(fetchers) == 1
    assert network not in fetchers


def test_every_failed_refresh_leads_to_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that is none of Kafka's was not counted, and brokers were asked again at once."""
    with closing(ClusterClient(CONFIG)) as client:
        client.net.start()
        connections = client.connections
        monkeypatch.setattr(connections, "send", lambda *_, **__: Future().failure(ValueError("no Kafka")))
        for _ in range(REQUESTS.free + 1):
            connections.refresh_brokers()
            with pytest.raises(ValueError, match="no Kafka"):
                client.net.run(lambda: connections._refresh)
        assert connections._refreshes.pause_seconds == REQUESTS.first


def test_a_request_ends_though_the_cause_cannot_be_worded(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of this project must not leave the network thread's requests waiting for ever."""

    def broken(*_: Any) -> str:
        raise RuntimeError("a defect")

    monkeypatch.setattr(connections_module, "refusal", broken)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        address = "{}:{}".format(*free.getsockname())
    with closing(ClusterClient({**CONFIG, "bootstrap_servers": address})) as client:
        client.net.start()
        with pytest.raises(kafka_errors.KafkaError):
            client.net.run(client.connections.send, MetadataRequest(topics=MetadataRequest.NO_TOPICS), "bootstrap-0")


@pytest.mark.parametrize("hung_up_first", [False, True])
def test_what_a_broker_says_before_it_hangs_up_is_handled(
    monkeypatch: pytest.MonkeyPatch,
    hung_up_first: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """The connection's end may be processed before the answer, and the library would know only the end."""

    async def made(*_: Any, **_options: Any) -> Any:
        return SimpleNamespace()

    async def initialize(self: KafkaConnection, **_options: Any) -> None:
        if hung_up_first:
            self.connection_lost(None)
        self.transport = None
        self.close(REFUSED)  # as `initialize` does

    monkeypatch.setattr(Connections, "_transport", made)
    monkeypatch.setattr(KafkaConnection, "connection_made", lambda *_: None)
    monkeypatch.setattr(KafkaConnection, "initialize", initialize)
    client = ClusterClient(CONFIG)
    client.net.start()
    connections = client.connections

    async def ask() -> Any:
        return await connections.send(object(), node_id="bootstrap-0")

    with pytest.raises(kafka_errors.KafkaError):
        client.net.run(ask)
    with pytest.raises(NotAcceptedError, match="do not offer SASL PLAIN there"):
        client.net.run(ask)
    assert refusal(connections.last_failure, CONFIG)
    later = time.monotonic() + REFUSALS.most
    monkeypatch.setattr(connections_module, "time", SimpleNamespace(monotonic=lambda: later))
    with pytest.raises(
        kafka_errors.KafkaConnectionError if hung_up_first else type(REFUSED)
    ):  # what was refused may have been replaced, so it is tried again
        client.net.run(ask)
    client.close()


def test_a_connection_that_is_being_closed_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's error, which is not one of Kafka's, becomes a connection error, so that the request is retried."""

    def closing(*_: Any, **_options: Any) -> Any:
        raise RuntimeError("Transport closed for writes")

    monkeypatch.setattr(KafkaConnection, "send_request", closing)
    client = ClusterClient(CONFIG)
    future = client.connections.send(object(), node_id="bootstrap-0")
    assert isinstance(future.exception, kafka_errors.KafkaConnectionError)
    client.close()


def test_who_was_never_let_in_is_distinguished() -> None:
    """The result is unknown at first; a refusal counts until any login has succeeded, and not afterwards."""
    refusals, me, other = Refusals(), (("sasl_", "me"),), (("sasl_", "other"),)
    received = [refusals.auth_status]
    refusals.remember(me, "who are you?")
    received.append(refusals.auth_status)
    refusals.forget(other)
    refusals.remember(me, "who are you?")
    received.append(refusals.auth_status)
    assert received == [None, "who are you?", ""]
