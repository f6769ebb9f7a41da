"""The HTTP port on a real socket: metrics, health, a port that is in use, and who may read or change anything."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from samerack.agent.metrics import Metrics
from samerack.agent.web import api
from samerack.agent.web.server import CONTENT_TYPE, KnownHosts, WebServer, application, refused_change
from samerack.common.errors import AgentError
from tests.unit.agent.serving import ask, post, served
from tests.unit.waiting import LONGEST_SECONDS


def made(*, host: str = "127.0.0.1", port: int = 0) -> WebServer:
    """A server that is not started."""
    return WebServer(application(Metrics().exposition, healthy=dict, ready=dict), host=host, port=port)


def test_metrics_are_served_as_prometheus_reads_them() -> None:
    """The content type is that of the text format, and the body parses."""
    with served() as port, urlopen(f"http://127.0.0.1:{port}/metrics", timeout=LONGEST_SECONDS) as answer:
        assert (answer.status, answer.headers["content-type"]) == (200, CONTENT_TYPE)
        families = {family.name for family in text_string_to_metric_families(answer.read().decode())}
    assert "samerack_poll_seconds" in families


def test_each_check_answers_for_itself() -> None:
    """A check with an error answers 503 with the error, and the other check still answers 200."""
    wrong, well = {"watch": "its thread has ended"}, (200, '{"ok":true,"wrong":{},"notes":{}}')
    alive = (200, '{"ok":true,"wrong":{}}')
    with served(healthy=lambda: wrong) as port:
        status, body = ask(port, "/healthz")
        assert (status, json.loads(body)) == (503, {"ok": False, "wrong": wrong})
        assert ask(port, "/readyz") == well
    with served(ready=lambda: wrong) as port:
        status, body = ask(port, "/readyz")
        assert (status, json.loads(body)) == (503, {"ok": False, "wrong": wrong, "notes": {}})
        assert ask(port, "/healthz") == alive


def test_what_is_waited_for_is_reported_by_a_ready_agent() -> None:
    """A name that may be wrong is in the text of /readyz, and no reason to take the agent out of service."""
    with served(notes=lambda: {"group order": "it does not exist yet"}) as port:
        status, body = ask(port, "/readyz")
    assert (status, json.loads(body)) == (
        200,
        {"ok": True, "wrong": {}, "notes": {"group order": "it does not exist yet"}},
    )


def test_programs_at_the_unix_socket_may_change_things(tmp_path: Path) -> None:
    """They are on this machine; a socket that a killed agent left is replaced, one that is served is not."""
    path = tmp_path / "agent.sock"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    server = WebServer(_asking(), host="127.0.0.1", port=0, unix=str(path))
    with pytest.raises(AgentError, match="another program listens there"):
        WebServer(_asking(), host="127.0.0.1", port=0, unix=str(path))
    server.start()
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(LONGEST_SECONDS)
        client.connect(str(path))
        client.sendall(b"POST /change HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200")
    assert path.stat().st_mode & 0o777 == 0o660
    server.stop()
    assert not path.exists()


def _asking() -> Starlette:
    """An application that answers whether a request may change something."""

    def change(request: Request) -> PlainTextResponse:
        refused = refused_change(request, "")
        return PlainTextResponse(refused, status_code=403 if refused else 200)

    return Starlette(routes=[Route("/change", change, methods=["POST"])])


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
    """Whether its owner listens or has only bound it; so does an address that this machine does not have."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        if listening:
            other.listen()
        port = other.getsockname()[1]
        with pytest.raises(AgentError, match=rf"web: 127\.0\.0\.1:{port}: Address already in use; set web\.port"):
            made(port=port)
    with pytest.raises(AgentError, match=r"web: \[2001:db8::1\]:0: "):
        WebServer(Starlette(), host="2001:db8::1", port=0)
    with pytest.raises(AgentError, match=r"web: 192\.0\.2\.1:0: .* web\.host to an address of this machine"):
        made(host="192.0.2.1")
    first = made()  # with the same options, which let an address be used again
    with pytest.raises(AgentError, match="Address already in use"):
        made(port=first.port)
    first.start()
    first.stop()


# who may read, and who may change anything


def _answer(host: str) -> int:
    """The status of a page that is requested with this host name."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request"}

    guard = KnownHosts(PlainTextResponse("read"), names=["Samerack.example.org"])
    asyncio.run(guard(_request("10.0.0.7", host=host).scope, receive, send))
    return int(sent[0]["status"])


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9464", 200),
        ("10.1.2.3", 200),
        ("[::1]:9464", 200),
        ("localhost", 200),
        ("samerack:9464", 200),
        ("samerack.kafka.svc:9464", 200),
        ("samerack.kafka.svc.cluster.local.", 200),
        ("SAMERACK.example.org", 200),
        ("attacker.example", 403),
        ("samerack.example.org.attacker.example:9464", 403),
        ("127.0.0.1.attacker.example", 403),
    ],
)
def test_a_strangers_name_reads_nothing(host: str, status: int) -> None:
    """A page whose name was rebound to the agent's address could otherwise read groups, members and their hosts."""
    assert _answer(host) == status


def _request(peer: str, **headers: str) -> Request:
    scope: dict[str, Any] = {
        "type": "http",
        "client": (peer, 1),
        "headers": [(name.encode(), text.encode()) for name, text in headers.items()],
    }
    return Request(scope)


@pytest.mark.parametrize(
    ("request_", "refused"),
    [
        (_request("127.0.0.1", host="localhost:9464"), ""),
        (_request("::ffff:127.0.0.1", host="[::1]"), ""),
        (_request("10.0.0.7", host="localhost"), "only programs on this machine may ask; do it there"),
        (_request("127.0.0.1", host="attacker.example"), "host: expected"),
        (_request("127.0.0.1", host="localhost", origin="http://localhost"), "origin: requests from web pages"),
        (_request("unix", host="localhost"), ""),
        (_request("127.0.0.6", host="localhost"), "only programs on this machine may ask"),
        *(
            (_request("127.0.0.1", host="127.0.0.1:9464", **{name: "192.0.2.7"}), f"{name}: requests through a proxy")
            for name in ("x-forwarded-for", "x-real-ip", "forwarded", "via")
        ),
    ],
)
def test_changes_are_for_programs_on_this_machine(request_: Request, refused: str) -> None:
    """Any other request is refused with the reason."""
    refusal = refused_change(request_, "do it there")
    assert refusal.startswith(refused)
    assert bool(refusal) is bool(refused)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of an agent with what may change something: each request is refused before anybody is asked."""
    with served(*api.leader_routes({}), *api.streams_routes(Mock())) as port:
        yield port


@pytest.mark.parametrize(
    "path", ["takeover", "requests", "streams/assign", "streams/computed", "streams/prepare"], ids=str
)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "attacker.example"}, 403),
        ({"host": "192.0.2.1:9464"}, 403),
        ({"host": "[bad"}, 403),
        ({"origin": "http://localhost"}, 403),
        ({"x_forwarded_for": "192.0.2.7"}, 403),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_only_programs_on_this_machine_may_ask(port: int, path: str, headers: dict[str, str], status: int) -> None:
    """Other hosts, pages, names rebound to this machine, and what a form can send are refused everywhere."""
    found, answer = post(port, f"/v1/{path}", {"group": "orders", "action": "leave"}, **headers)
    assert (found, bool(answer["error"])) == (status, True)


def test_the_environment_lets_no_other_machine_make_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uvicorn reads FORWARDED_ALLOW_IPS, which a pod may have for another program: anybody could claim to be local."""
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    with served(*api.leader_routes({})) as port:
        claimed = "127.0.0.1, 192.0.2.7"
        status, _ = post(port, "/v1/requests", {"group": "orders", "action": "leave"}, x_forwarded_for=claimed)
    assert status == 403
