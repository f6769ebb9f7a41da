"""Which host names are accepted on the agent's port, and which clients may change anything."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from samerack.agent.web import requests, streams, takeover
from samerack.agent.web.guard import KnownHosts, refused_change
from tests.unit.agent.serving import post, served


def _answer(host: str) -> int:
    """The status of a page that is requested with this host name."""
    told: list[Any] = []

    async def send(message: Any) -> None:
        told.append(message)

    async def receive() -> Any:
        return {"type": "http.request"}

    guard = KnownHosts(PlainTextResponse("read"), names=["Samerack.example.org"])
    asyncio.run(guard(_request("10.0.0.7", host=host).scope, receive, send))
    return int(told[0]["status"])


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
        (_request("127.0.0.1", host="localhost", origin="http://localhost"), "origin: pages"),
    ],
)
def test_changes_are_for_programs_on_this_machine(request_: Request, refused: str) -> None:
    """Any other request is refused with the reason."""
    told = refused_change(request_, "do it there")
    assert told.startswith(refused)
    assert bool(told) is bool(refused)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of an agent with what may change something: each request is refused before anybody is asked."""
    with served(*takeover.routes({}), *requests.routes({}), *streams.routes(Mock(), at_once=4)) as port:
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
