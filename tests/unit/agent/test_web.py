"""The HTTP port on a real socket: metrics, health, readiness, and a port that is in use."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from samerack.agent.metrics import Metrics
from samerack.agent.web.server import CONTENT_TYPE, WebServer, application
from samerack.common.errors import AgentError
from tests.unit.waiting import LONGEST_SECONDS

Check = Callable[[], dict[str, str]]


def fine() -> dict[str, str]:
    """A check without errors."""
    return {}


@contextmanager
def served(healthy: Check = fine, ready: Check = fine) -> Iterator[str]:
    """The address of a server."""
    server = WebServer(application(Metrics(), healthy=healthy, ready=ready), host="127.0.0.1", port=0)
    server.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.stop()


def ask(url: str) -> tuple[int, str, bytes]:
    """Status, content type and body of the answer."""
    try:
        with urlopen(url, timeout=LONGEST_SECONDS) as answer:  # noqa: S310 - a loopback address of our own
            return answer.status, answer.headers["content-type"], answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.headers["content-type"], error.read()


def test_metrics_are_served_as_prometheus_reads_them() -> None:
    """The content type is that of the text format, and the body parses."""
    with served() as url:
        status, kind, body = ask(f"{url}/metrics")
    assert (status, kind) == (200, CONTENT_TYPE)
    assert "samerack_poll_seconds" in {family.name for family in text_string_to_metric_families(body.decode())}


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_each_check_answers_for_itself(path: str) -> None:
    """A check with an error answers 503 with the error, and the other check still answers 200."""
    wrong = {"watch": "its thread has ended"}
    answers: dict[str, Check] = {"/healthz": fine, "/readyz": fine, path: lambda: wrong}
    with served(answers["/healthz"], answers["/readyz"]) as url:
        found: dict[str, tuple[int, Any]] = {}
        for each in ("/healthz", "/readyz"):
            status, _, body = ask(url + each)
            found[each] = status, json.loads(body)
    assert found.pop(path) == (503, {"ok": False, "wrong": wrong})
    assert list(found.values()) == [(200, {"ok": True, "wrong": {}})]


def test_connections_wait_for_the_start() -> None:
    """The port is open before the server starts, so that an early probe waits instead of failing."""
    server = WebServer(application(Metrics(), healthy=fine, ready=fine), host="127.0.0.1", port=0)
    with socket.create_connection(("127.0.0.1", server.port), timeout=LONGEST_SECONDS) as early:
        server.start()
        early.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert early.recv(100).startswith(b"HTTP/1.1 200")
    server.stop()


@pytest.mark.parametrize("listening", [True, False])
def test_a_taken_port_names_the_cure(listening: bool) -> None:  # noqa: FBT001 - both cases of one table
    """The error names the setting, whether the owner of the port listens or has only bound it."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        if listening:
            other.listen()
        port = other.getsockname()[1]
        with pytest.raises(AgentError, match=rf"web: 127\.0\.0\.1:{port}: Address already in use; set web\.port"):
            WebServer(application(Metrics(), healthy=fine, ready=fine), host="127.0.0.1", port=port)


def test_an_address_of_another_machine_names_the_cure() -> None:
    """The error names the setting for an address that this machine does not have."""
    with pytest.raises(AgentError, match=r"web: 192\.0\.2\.1:0: .* web\.host to an address of this machine"):
        WebServer(application(Metrics(), healthy=fine, ready=fine), host="192.0.2.1", port=0)


def test_two_programs_that_both_reuse_the_address() -> None:
    """A port that another program with the same options has bound, without listening, is refused."""
    first = WebServer(application(Metrics(), healthy=fine, ready=fine), host="127.0.0.1", port=0)
    with pytest.raises(AgentError, match="Address already in use"):
        WebServer(application(Metrics(), healthy=fine, ready=fine), host="127.0.0.1", port=first.port)
    first.start()
    first.stop()
