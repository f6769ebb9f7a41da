"""Why brokers cannot be reached: each wrong setting of Kafka has a message of its own, with cause and cure."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse

from samerack.cluster import client, diagnosis
from samerack.cluster.client import ClusterClient, connect
from samerack.cluster.connections import Connections, NodeId
from samerack.cluster.diagnosis import Diagnoses, why_hopeless, why_unadvertised, why_unreachable
from samerack.common.errors import AgentError
from tests.clouds.certificates import Authority
from tests.unit.agent.leading.scripted import clear_away

Answering = Callable[[socket.socket], None]


@pytest.fixture
def serve() -> Iterator[Callable[[Answering], str]]:
    """A function that starts a server and returns its address; each connection is handled once, beside the others."""
    with ExitStack() as stack:

        def start(answering: Answering) -> str:
            server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

            def run() -> None:
                with suppress(OSError):
                    while True:
                        connection, _ = server.accept()
                        threading.Thread(target=handle, args=(connection,), daemon=True).start()

            def handle(connection: socket.socket) -> None:
                with connection, suppress(OSError):
                    connection.settimeout(5)
                    answering(connection)

            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            stack.callback(thread.join, 10)
            stack.callback(server.shutdown, socket.SHUT_RDWR)
            return f"127.0.0.1:{server.getsockname()[1]}"

        yield start


def broker(login: int) -> Answering:
    """Answers as a listener does: the versions of requests, then to a handshake this error and two mechanisms."""

    def answering(connection: socket.socket) -> None:
        while request := connection.recv(200):
            (key,) = struct.unpack(">h", request[4:6])
            body = struct.pack(">i", 1) + struct.pack(">h", login if key == 17 else 0)
            body += struct.pack(">i", 2) + b"\x00\x05PLAIN" + b"\x00\x0dSCRAM-SHA-512"
            connection.sendall(struct.pack(">i", len(body)) + body)

    return answering


def over_tls(folder: Path, answering: Answering) -> Answering:
    """The same on a listener with TLS."""
    issued = Authority.new(folder).issue("broker")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)

    def secured(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as inner:
            answering(inner)

    return secured


def why(server: str, protocol: str = "PLAINTEXT") -> str:
    """What is found out of a client with these settings."""
    return why_unreachable({"bootstrap_servers": [server], "security_protocol": protocol})


@pytest.fixture
def closed_port() -> str:
    """An address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return f"127.0.0.1:{closed.getsockname()[1]}"


def test_nothing_listens(closed_port: str) -> None:
    """Connection refused."""
    assert why(closed_port) == (
        f"{closed_port}: connection refused; check host and port in kafka.bootstrap.servers, and that the broker runs"
    )


def test_a_server_without_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """The port that was tried instead is named, as it is in no setting."""

    def refused(*_: object, **__: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", refused)
    assert why(" localhost").startswith("localhost (no port given, 9092 was tried): connection refused; check host")
    assert why("localhost:9092").startswith("localhost:9092: connection refused")


def test_a_protocol_before_the_host_is_not_part_of_its_name(closed_port: str) -> None:
    """Both clients read and ignore it."""
    assert why(f" PLAINTEXT://{closed_port}").startswith(f"PLAINTEXT://{closed_port}: connection refused")
    assert why("SSL://broker.invalid:9092").startswith("SSL://broker.invalid:9092: no such host (broker.invalid);")


def test_an_unknown_host() -> None:
    """The name service knows no such name; the domain `invalid` never has any (RFC 2606)."""
    assert why("broker.invalid:9092").startswith(
        "broker.invalid:9092: no such host (broker.invalid); correct kafka.boot"
    )


def test_a_host_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection in time: a firewall that drops packets."""

    def late(*_: object, **__: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", late)
    assert "no connection within 1 s; check kafka.bootstrap.servers, routes and firewalls" in why("10.255.255.1:9092")


def held(until: threading.Event) -> None:
    """Keep a connection open."""
    until.wait()


def test_a_port_that_says_nothing(serve: Callable[[Answering], str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Connected, and no answer."""
    monkeypatch.setattr(diagnosis, "_SECONDS", 0.2)
    ended = threading.Event()
    address = serve(lambda _: held(ended))
    assert f"{address}: connected, but no answer within 0.2 s" in why(address)
    ended.set()


OFFERS = "kafka.sasl.mechanism to one that it offers: PLAIN, SCRAM-SHA-512"
OPEN, WITH_SASL = broker(34), broker(33)


def serving(words: bytes) -> Answering:
    """Answers with these bytes, whatever is asked."""
    return lambda connection: connection.sendall(words)


@pytest.mark.parametrize(
    ("answering", "protocol", "cure"),
    [
        (serving(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "PLAINTEXT", "is not a Kafka broker"),
        (serving(b"\x00\x00\x00\x02no"), "SSL", "or set kafka.security.protocol to PLAINTEXT"),
        (serving(b"\x00\x00\x00\x02no"), "SASL_SSL", "or set kafka.security.protocol to SASL_PLAINTEXT"),
        (WITH_SASL, "PLAINTEXT", f"set kafka.security.protocol to SASL_PLAINTEXT, and {OFFERS}"),
        (OPEN, "SASL_PLAINTEXT", "the server does not expect SASL; set kafka.security.protocol to PLAINTEXT"),
        (OPEN, "PLAINTEXT", ""),
        (WITH_SASL, "SASL_PLAINTEXT", ""),
    ],
    ids=["another service", "no TLS", "no TLS, login", "SASL", "no SASL", "sound and open", "sound with SASL"],
)
def test_a_listener_without_tls(
    serve: Callable[[Answering], str], answering: Answering, protocol: str, cure: str
) -> None:
    """A client whose protocol is not the listener's gets the one to set; a sound listener has no fault."""
    found = why(serve(answering), protocol)
    assert cure in found
    assert bool(found) == bool(cure)


@pytest.mark.parametrize(
    ("protocol", "cure"),
    [
        ("PLAINTEXT", "set kafka.security.protocol to SSL, or to SASL_SSL with a login"),
        ("SASL_PLAINTEXT", "set kafka.security.protocol to SASL_SSL"),
        ("SSL", f"set kafka.security.protocol to SASL_SSL, and {OFFERS}"),
    ],
)
def test_a_listener_with_tls_and_sasl(
    serve: Callable[[Answering], str], tmp_path: Path, protocol: str, cure: str
) -> None:
    """A client without TLS, or without login, gets what is expected there."""
    reason = why(serve(over_tls(tmp_path, WITH_SASL)), protocol)
    assert ": the server expects " in reason
    assert reason.endswith(f"; {cure}")


def test_a_cluster_is_hopeless_where_every_server_has_a_cause(
    serve: Callable[[Answering], str], closed_port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server without a fault, or one that was only silent, may answer the next time."""
    monkeypatch.setattr(diagnosis, "_SECONDS", 0.2)
    ended = threading.Event()
    no_broker, sound, silent = (
        serve(serving(b"HTTP/1.1 400 Bad\r\n\r\n")),
        serve(OPEN),
        serve(lambda _: held(ended)),
    )
    found = why_hopeless({"bootstrap_servers": f"{closed_port},{no_broker}"})
    assert found.startswith(f"{closed_port}: connection refused")
    assert f"; {no_broker}: the server there is not a Kafka broker" in found
    for other in (sound, silent):
        assert why_hopeless({"bootstrap_servers": [closed_port, other]}) == ""
    ended.set()


def refusal_of(server: str, seconds: float) -> str:
    """Why a client does not connect."""
    try:
        connect({"bootstrap_servers": server}, seconds)
    except AgentError as error:
        message = str(error)
    clear_away()  # the error is gone, and with it what it holds
    return message


@pytest.mark.parametrize("has_tls", [False, True])
def test_a_command_gives_up_at_the_first_cause(
    serve: Callable[[Answering], str],
    closed_port: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    has_tls: bool,
) -> None:
    """An attempt that may last for ten minutes ends as soon as no server is worth another."""
    monkeypatch.setattr(client, "_DIAGNOSES", Diagnoses())
    server = serve(over_tls(tmp_path, OPEN)) if has_tls else closed_port
    message = refusal_of(server, 600.0)
    assert message.startswith(f"kafka {server}: {'the server expects TLS' if has_tls else 'connection refused'}; ")


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_an_agent_goes_on_trying(closed_port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent tries for its whole time, since brokers that refuse connections may come back."""
    monkeypatch.setattr(client, "_DIAGNOSES", Diagnoses())
    failures: list[BaseException] = []
    failed = Connections._failed

    def counted(manager: Connections, broker: NodeId, error: BaseException) -> None:
        failures.append(error)
        failed(manager, broker, error)

    monkeypatch.setattr(Connections, "_failed", counted)
    client.go_on_trying()
    assert "connection refused" in refusal_of(closed_port, 1.0)
    assert len(failures) > 1
    failures.clear()
    clear_away()


def test_brokers_that_have_all_moved_are_found_at_the_bootstrap_servers(
    serve: Callable[[Answering], str], closed_port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent outlives that all brokers get other addresses: the first request fails, and the next is answered."""
    monkeypatch.setattr(client, "_DIAGNOSES", Diagnoses())
    client.go_on_trying()
    host, port = closed_port.split(":")
    servers = serve(naming(host, int(port)))
    asking = connect({"bootstrap_servers": servers, "reconnect_backoff_ms": 60_000})
    request = partial(MetadataRequest, topics=MetadataRequest.NO_TOPICS)

    async def ask() -> Any:
        return await asking.connections.send(request())

    with closing(asking):
        with pytest.raises(kafka_errors.KafkaConnectionError):
            asking.net.run(ask)
        assert [one.port for one in asking.net.run(ask).brokers] == [int(port)]


def assert_lost(server: str, **more: int) -> None:
    """A request over TLS ends with a lost connection, and none is tried soon."""
    config = {"bootstrap_servers": server, "security_protocol": "SSL", "reconnect_backoff_ms": 60_000, **more}
    with closing(ClusterClient(config)) as asking:
        asking.net.start()

        async def ask() -> Any:
            return await asking.connections.send(MetadataRequest(topics=MetadataRequest.NO_TOPICS))

        with pytest.raises(kafka_errors.KafkaConnectionError):
            asking.net.run(ask)
        assert asking.connections.is_away("bootstrap-0")


def test_a_handshake_that_is_not_answered_ends(serve: Callable[[Answering], str]) -> None:
    """No answer to the TLS handshake is a lost connection, and the next is tried after a pause."""

    def silent(connection: socket.socket) -> None:
        while connection.recv(4096):
            pass

    assert_lost(serve(silent), socket_connection_setup_timeout_ms=100)


def test_a_handshake_that_fails_is_a_lost_connection(serve: Callable[[Answering], str]) -> None:
    """Whoever waits for a response gets an error of Kafka's to try again on, not one of TLS."""

    def other(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    assert_lost(serve(other))


def test_brokers_are_asked_for_the_cause_once_a_minute(serve: Callable[[Answering], str]) -> None:
    """Clients that fail one after another report the same cause, and only the first one connects for it."""
    asked: list[int] = []

    def silent(connection: socket.socket) -> None:
        asked.append(1)
        connection.recv(64)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    server, diagnoses = serve(silent), Diagnoses()
    config = {"bootstrap_servers": server}
    found = {diagnoses.of(server, config) for _ in range(3)}
    assert found == {why_unreachable(config)}
    assert len(asked) == 2
    diagnoses.forget(server)
    diagnoses.of(server, config)
    assert len(asked) == 3


def controller(connection: socket.socket) -> None:
    """Answers as the listener of a KRaft controller: it has no Metadata, and ends connections that ask for it."""
    keys = (1, 17, 18, 36, 52, 53, 54, 55, 58, 60, 62, 63)
    while request := connection.recv(200):
        key, version, number = struct.unpack(">hhi", request[4:12])
        if key != 18:
            return
        unsupported = version > 0
        rows = b"".join(struct.pack(">hhh", one, 0, 4) for one in keys)
        body = struct.pack(">ihi", number, 35 if unsupported else 0, len(keys)) + rows
        connection.sendall(struct.pack(">i", len(body)) + body[:9])
        connection.sendall(body[9:])  # an answer may come in parts


def naming(host: str, port: int) -> Answering:
    """Answers as a broker whose `advertised.listeners` are this address."""

    def answering(connection: socket.socket) -> None:
        while size := connection.recv(4):  # two requests may come together
            key, version, number = struct.unpack(">hhi", connection.recv(int.from_bytes(size))[:8])
            if key == MetadataRequest.API_KEY:
                answer: Any = MetadataResponse(
                    throttle_time_ms=0,
                    brokers=[MetadataResponse.MetadataResponseBroker(node_id=1, host=host, port=port, rack=None)],
                    cluster_id="c",
                    controller_id=1,
                    topics=[],
                )
            else:
                served = (ApiVersionsRequest, MetadataRequest)
                rows = [
                    ApiVersionsResponse.ApiVersion(api_key=one.API_KEY, min_version=0, max_version=3) for one in served
                ]
                answer = ApiVersionsResponse(error_code=0, api_keys=rows, throttle_time_ms=0)
            answer.API_VERSION = version
            answer.with_header(number)
            connection.sendall(answer.encode(header=True, framed=True))

    return answering


CONTROLLER = "is a KRaft controller's listener, which serves no clients; set kafka.bootstrap.servers to an address in a"


@pytest.mark.parametrize("has_tls", [False, True])
def test_the_listener_of_a_controller(serve: Callable[[Answering], str], tmp_path: Path, *, has_tls: bool) -> None:
    """It answers, but not to clients, over TLS too."""
    address = serve(over_tls(tmp_path, controller) if has_tls else controller)
    assert why(address, "SSL" if has_tls else "PLAINTEXT").startswith(f"{address}: {CONTROLLER}")


def test_a_command_whose_server_is_a_controller_ends(
    serve: Callable[[Answering], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although no connection fails, long before its time is over, and with the setting to change."""
    monkeypatch.setattr(client, "_DIAGNOSES", Diagnoses())
    monkeypatch.setattr(client, "_LONG_SECONDS", 0.1)
    address = serve(controller)
    assert refusal_of(address, 20.0).startswith(f"kafka {address}: {CONTROLLER}")


def test_a_command_names_advertised_addresses_that_it_cannot_reach(
    serve: Callable[[Answering], str], closed_port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server answers, and its brokers are elsewhere: what they advertise is to be corrected."""
    monkeypatch.setattr(client, "_DIAGNOSES", Diagnoses())
    host, _, port = closed_port.rpartition(":")
    message = refusal_of(address := serve(naming(host, int(port))), 600.0)
    assert message.startswith(
        f"kafka {address}: connected, but the addresses that its brokers advertise cannot be reached from here: "
        f"{closed_port} (connection refused); correct advertised.listeners of the brokers"
    )


def test_one_advertised_address_in_reach_is_enough(
    serve: Callable[[Answering], str], closed_port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker may be down; and none is a fault where brokers name no address."""
    addresses = [(host, int(port)) for host, _, port in (one.rpartition(":") for one in (closed_port, serve(OPEN)))]
    assert why_unadvertised(addresses) == ""
    assert why_unadvertised([]) == ""
    assert "broker.invalid:1 (no such host)" in why_unadvertised([("broker.invalid", 1)])

    def late(*_: object, **__: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", late)
    assert "and 2 more; correct" in why_unadvertised([("127.0.0.1", number) for number in range(1, 6)])
    assert "127.0.0.1:1 (no connection within 1 s)" in why_unadvertised([("127.0.0.1", 1)])
