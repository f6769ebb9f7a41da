"""The HTTP port on a real socket: metrics, health, readiness, and a port that is in use."""

from __future__ import annotations

import json
import socket
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from samerack.agent.metrics import Metrics
from samerack.agent.web.server import CONTENT_TYPE, WebServer, application
from samerack.common.errors import AgentError
from tests.unit.agent.serving import ask, served
from tests.unit.waiting import LONGEST_SECONDS


def made(*, host: str = "127.0.0.1", port: int = 0) -> WebServer:
    """A server that is not started."""
    return WebServer(application(Metrics(), healthy=dict, ready=dict), host=host, port=port)


def test_metrics_are_served_as_prometheus_reads_them() -> None:
    """The content type is that of the text format, and the body parses."""
    with served() as port, urlopen(f"http://127.0.0.1:{port}/metrics", timeout=LONGEST_SECONDS) as answer:
        assert (answer.status, answer.headers["content-type"]) == (200, CONTENT_TYPE)
        families = {family.name for family in text_string_to_metric_families(answer.read().decode())}
    assert "samerack_poll_seconds" in families


def test_each_check_answers_for_itself() -> None:
    """A check with an error answers 503 with the error, and the other check still answers 200."""
    wrong, well = {"watch": "its thread has ended"}, (200, '{"ok":true,"wrong":{}}')
    with served(healthy=lambda: wrong) as port:
        status, body = ask(port, "/healthz")
        assert (status, json.loads(body)) == (503, {"ok": False, "wrong": wrong})
        assert ask(port, "/readyz") == well
    with served(ready=lambda: wrong) as port:
        assert (ask(port, "/healthz"), ask(port, "/readyz")) == (well, (503, body))


def test_connections_wait_for_the_start() -> None:
    """The port is open before the server starts, so that an early probe waits instead of failing."""
    server = made()
    with socket.create_connection(("127.0.0.1", server.port), timeout=LONGEST_SECONDS) as early:
        server.start()
        early.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert early.recv(100).startswith(b"HTTP/1.1 200")
    server.stop()


@pytest.mark.parametrize("listening", [True, False])
def test_a_taken_port_names_the_cure(*, listening: bool) -> None:
    """The error names the setting, whether the owner of the port listens or has only bound it."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        if listening:
            other.listen()
        port = other.getsockname()[1]
        with pytest.raises(AgentError, match=rf"web: 127\.0\.0\.1:{port}: Address already in use; set web\.port"):
            made(port=port)


def test_an_address_of_another_machine_names_the_cure() -> None:
    """The error names the setting for an address that this machine does not have."""
    with pytest.raises(AgentError, match=r"web: 192\.0\.2\.1:0: .* web\.host to an address of this machine"):
        made(host="192.0.2.1")


def test_two_programs_that_both_reuse_the_address() -> None:
    """A port that another program with the same options has bound, without listening, is refused."""
    first = made()
    with pytest.raises(AgentError, match="Address already in use"):
        made(port=first.port)
    first.start()
    first.stop()
