"""A name service or a host that gives no answer delays nothing but the connection that needs it."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.cluster import collect_hosts
from kafka.net.selector import NetworkSelector

from samerack.cluster import client, connections, diagnosis
from samerack.cluster.client import connect
from samerack.cluster.connections import Connections, Node
from samerack.cluster.diagnosis import Diagnoses, why_unreachable
from samerack.cluster.group_questions import describe_groups
from samerack.cluster.names import Lookups
from samerack.cluster.wire import BrokerRequest, ask
from samerack.common.errors import AgentError
from tests.unit.cluster.scripted_broker import ScriptedBroker
from tests.unit.waiting import LONGEST_SECONDS

SILENT = "silent.example"
SERVER = f"{SILENT}:9092"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The lookups of the name SILENT, which wait until the test has ended; others are looked up."""
    ended, names, lookups = threading.Event(), list[str](), Lookups()
    real = socket.getaddrinfo

    def look_up(host: str, *more: Any, **named: Any) -> Any:
        if host != SILENT:
            return real(host, *more, **named)
        names.append(host)
        ended.wait()
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(diagnosis, "_SECONDS", 0.2)
    monkeypatch.setattr(client, "_DIAGNOSES", Diagnoses())  # the last test's cause would hold for a minute
    for module in (connections, diagnosis):  # in the common ones, that of the last test might end only now
        monkeypatch.setattr(module, "LOOKUPS", lookups)
    yield names
    ended.set()


def test_a_client_gives_up_in_time_and_says_that_names_are_the_cause(asked: list[str]) -> None:
    """It does not wait until the system has an answer, which here comes after the end of the test."""
    with pytest.raises(AgentError) as failed:
        connect({"bootstrap_servers": SERVER}, timeout=0.3)
    assert str(failed.value) == (
        f"kafka {SERVER}: DNS does not answer for {SILENT} within 0.2 s; check the name server"
    )
    assert asked == [SILENT]


def test_clients_that_try_again_and_again_wait_for_one_lookup(asked: list[str]) -> None:
    """Threads that wait for the system do not accumulate."""
    for _ in range(3):
        with pytest.raises(AgentError):
            connect({"bootstrap_servers": SERVER}, timeout=0.1)
    assert asked == [SILENT]


def test_heartbeats_go_on_while_a_name_is_looked_up(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Other work of the same network thread is done meanwhile, and the wait ends with the connection's time."""
    now = [0.0]
    monkeypatch.setattr(connections, "time", SimpleNamespace(monotonic=lambda: now[0]))
    net = NetworkSelector()
    client_connections = Connections(net, bootstrap_servers=SERVER)
    beats = 0

    async def look_up() -> None:
        await client_connections._look_up(SILENT, 9092, 3.0)

    async def beat() -> None:
        nonlocal beats
        for _ in range(10):
            beats += 1
            await net.sleep(0.005)

    async def both() -> None:
        pending = net.call_soon_with_future(look_up)
        await net.call_soon_with_future(beat)
        assert not pending.is_done
        now[0] = 3.1
        await pending

    net.start()
    try:
        with pytest.raises(kafka_errors.KafkaConnectionError, match=f"DNS does not answer for {SILENT}"):
            net.run(both)
    finally:
        net.close()
    assert beats == 10
    assert asked == [SILENT]


def test_a_name_that_does_not_exist_is_an_error_and_is_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed lookup leaves no addresses behind, and the next one asks again."""
    answers: list[Any] = [socket.gaierror(socket.EAI_NONAME, "unknown"), [(2, 1, 6, "", ("127.0.0.1", 9092))]]

    def look_up(*_: Any, **__: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    lookups = Lookups()
    assert isinstance(lookups.begin("b", 9092).exception(LONGEST_SECONDS), socket.gaierror)
    assert lookups.last("b", 9092) == []
    assert (
        lookups.begin("b", 9092).result(LONGEST_SECONDS)
        == lookups.last("b", 9092)
        == [(2, 1, 6, "", ("127.0.0.1", 9092))]
    )


def test_each_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The diagnosis is that of the address that accepts, as a client would reach it."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server, closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: it refuses connections
        addresses = [(2, 1, 6, "", one.getsockname()) for one in (taken, server)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda host, port, *_, **__: _numeric(host, port) or addresses)

        def answer_once() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"SSH-2.0-OpenSSH\r\n")

        answering = threading.Thread(target=answer_once)
        answering.start()
        assert "the server there is not a Kafka broker" in why_unreachable({"bootstrap_servers": "broker.example:9092"})
        answering.join(LONGEST_SECONDS)


def test_an_address_that_drops_packets_leaves_time_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client reaches a broker by its second address while the first one gives no answer."""
    with closing(ScriptedBroker()) as broker, _silent_host() as silent:
        address, _, port = broker.address.partition(":")
        addresses = [(2, 1, 6, "", one) for one in (silent, (address, int(port)))]
        real = socket.getaddrinfo
        monkeypatch.setattr(
            socket,
            "getaddrinfo",
            lambda host, *more, **named: addresses if host == "two.example" else real(host, *more, **named),
        )
        config = {"bootstrap_servers": f"two.example:{port}", "socket_connection_setup_timeout_ms": 1_000}
        connect(config, timeout=5.0).close()


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_after_an_address_that_only_accepts_the_next_one_is_tried(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came first each time, and no address after it was ever tried."""
    monkeypatch.setattr(client, "_DIAGNOSES", SimpleNamespace(of=lambda *_: "", end_attempts=False))
    with closing(socket.create_server(("127.0.0.1", 0))) as one, closing(socket.create_server(("127.0.0.1", 0))) as two:
        addresses = [(2, 1, 6, "", server.getsockname()) for server in (one, two)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)
        for server in (one, two, one):
            with pytest.raises(AgentError):
                connect({"bootstrap_servers": f"{protocol}.example:9092", "security_protocol": protocol}, timeout=0.3)
            server.settimeout(0)
            server.accept()[0].close()
            for other in (one, two):
                other.settimeout(0)
                with pytest.raises(BlockingIOError):
                    other.accept()


@pytest.mark.parametrize("at", [0, -1])
def test_a_bootstrap_server_that_drops_packets_leaves_time_for_the_next(
    at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One server that was off took all the time of a third of all attempts."""
    with closing(ScriptedBroker()) as broker, _silent_host() as silent:
        servers = f"{broker.address},{':'.join(map(str, silent))}"
        monkeypatch.setattr(connections, "collect_hosts", lambda hosts: collect_hosts(hosts, randomize=False))
        monkeypatch.setattr(random, "choice", lambda nodes: nodes[at])
        connect({"bootstrap_servers": servers}, timeout=4.0).close()


def test_a_broker_that_drops_packets_delays_no_answer_of_the_others() -> None:
    """The library times no request out while it connects: every poll of all groups took ten seconds."""
    with closing(ScriptedBroker()) as broker, _silent_host() as silent:
        with closing(connect({"bootstrap_servers": broker.address})) as opened:
            opened.connections.add_coordinator(Node(2, *silent))
            begun = time.monotonic()
            answers = ask(opened, [BrokerRequest(broker=one, request=describe_groups(["g"])) for one in (2, 1)], 0.5)
            assert time.monotonic() - begun < connections._MILLISECONDS["socket_connection_setup_timeout_ms"] / 2000
        assert isinstance(answers[0].error, kafka_errors.KafkaTimeoutError)
        assert answers[1].response is not None


@contextmanager
def _silent_host() -> Iterator[tuple[str, int]]:
    """The address of a host that drops packets, as one that is off."""
    with closing(socket.socket()) as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        with closing(socket.create_connection(full.getsockname())):  # the only one that the system keeps for `accept`
            yield full.getsockname()


def _numeric(host: str, port: int) -> list[Any]:
    """What the real lookup returns for an IPv4 address; `socket.create_connection` looks addresses up, too."""
    return [(2, 1, 6, "", (host, port))] if host[0].isdigit() else []
