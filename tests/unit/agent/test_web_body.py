"""Bodies that are slow, never end, or are too many at a time, on real sockets: other requests do not wait."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from threading import Event
from types import SimpleNamespace
from typing import Any, Final, cast
from urllib.request import urlopen

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from uvicorn.config import Config
from uvicorn.server import ServerState

from samerack.agent.web import api as web_api
from samerack.agent.web import server as web
from samerack.agent.web.server import BodyReader, RequestError
from samerack.traffic.snapshot import ObservedMember
from tests.unit.agent.serving import running, served
from tests.unit.agent.test_web_requests import Leader
from tests.unit.traffic.test_exact import member
from tests.unit.waiting import LONGEST_SECONDS, until

_AT_ONCE: Final = 4
_SLOW: Final = 129


def _take(_group: str, _body: bytes, _member: str | None) -> ObservedMember:
    return member("m1", "c", 0)


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of an agent with every route that reads a body, which waits for bodies longer than a test takes."""
    defaults = {**(BodyReader.__init__.__kwdefaults__ or {}), "seconds": 10 * LONGEST_SECONDS}
    monkeypatch.setattr(BodyReader.__init__, "__kwdefaults__", defaults)
    leader: Any = Leader()
    more = (*web_api.statistics_routes(_take), *web_api.leader_routes({"orders": leader}))
    with served(*more) as port:
        yield port


@pytest.fixture
def small() -> Iterator[int]:
    """The port of a server that reads four short bodies at a time, for a third of a second."""
    bodies = BodyReader(max_bytes=100, seconds=0.3, at_once=_AT_ONCE)

    async def read(request: Request) -> Response:
        try:
            async with bodies.read(request) as body:
                return PlainTextResponse(str(len(body)))
        except RequestError as error:
            return error.answer()

    routes: list[BaseRoute] = [Route("/", read, methods=["POST"])]
    with running(Starlette(routes=routes)) as port:
        yield port


def send(port: int, head: str, body: bytes) -> socket.socket:
    """A connection over which a request has started."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=LONGEST_SECONDS)
    lines = f"{head} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    connection.sendall(lines.encode() + body)
    return connection


def slow(port: int, path: str = "/") -> socket.socket:
    """A connection whose body never ends."""
    return send(port, f"POST {path}", b"Content-Length: 50\r\n\r\n{")


def answer(connection: socket.socket) -> tuple[int, str]:
    """Status and error of the answer."""
    response = b""
    while b"\r\n\r\n" not in response or not response.endswith(b"}"):
        if not (part := connection.recv(65_536)):
            break
        response += part
    head, _, body = response.partition(b"\r\n\r\n")
    return int(head.split()[1]), str(json.loads(body)["error"])


@pytest.mark.parametrize("path", ["/v1/statistics?group=orders", "/v1/takeover"])
def test_many_slow_bodies_hold_nobody_up(agent: int, path: str) -> None:
    """Only some bodies are read at a time; the others are refused at once, and other requests are answered."""
    with ExitStack() as stack:
        connections = [stack.enter_context(slow(agent, path)) for _ in range(_SLOW)]
        with urlopen(f"http://127.0.0.1:{agent}/healthz", timeout=LONGEST_SECONDS) as healthy:
            assert healthy.status == 200
        # the first ones are being read: all later ones are refused
        codes = Counter(answer(connection)[0] for connection in connections[-100:])
    assert codes == {503: 100}


@pytest.mark.parametrize("begun", [b"", b"G", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "])
def test_a_connection_without_a_request_is_closed(begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request head that is not complete in time ends the connection; other requests are answered meanwhile."""
    monkeypatch.setattr(web, "HEAD_SECONDS", 0.3)
    with served() as port, ExitStack() as stack:
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=0.05))
        connection.sendall(begun)
        while True:
            try:
                if begun:
                    connection.sendall(b"x")
                received = connection.recv(100)
            except TimeoutError:
                continue
            except ConnectionError:
                received = b""
            break
        with urlopen(f"http://127.0.0.1:{port}/healthz", timeout=LONGEST_SECONDS) as healthy:
            assert healthy.status == 200
    assert received == b""


@pytest.mark.parametrize("requests", [1, 2])
def test_a_connection_whose_answers_are_not_read_is_closed(requests: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing alone waits for ever for a client that takes nothing; a second request waits for the first answer."""
    monkeypatch.setattr(web, "HEAD_SECONDS", 0.3)
    asked = Event()

    def large(_: Request) -> Response:
        asked.set()
        return Response(b"x" * (64 << 20))

    server = web.WebServer(Starlette(routes=[Route("/", large)]), host="127.0.0.1", port=0)
    server.start()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server.port))
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * requests)
        assert asked.wait(LONGEST_SECONDS)
        assert until(lambda: not server._server.server_state.connections)
    server.stop()


class _Transport(asyncio.Transport):
    """A connection of which a client has not read some bytes yet."""

    def __init__(self, unread: int) -> None:
        super().__init__({"socket": socket.socket()})
        self.unread, self.calls = unread, list[str]()

    def get_write_buffer_size(self) -> int:
        return self.unread

    def is_closing(self) -> bool:
        return bool(self.calls)

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")


def test_an_answer_that_is_read_slowly_arrives_whole() -> None:
    """A tunnel may take longer for an answer than any limit: only one of which nobody has read anything is cut."""
    loop = asyncio.new_event_loop()
    protocol = web._Impatient(Config(Starlette(), log_config=None), ServerState(), {}, loop)
    transport = _Transport(unread=100)
    with closing(loop), transport.get_extra_info("socket"):
        protocol.connection_made(transport)
        protocol.flow.pause_writing()
        protocol.cycle = cast(Any, SimpleNamespace(response_complete=False))
        for unread in range(99, 80, -1):
            transport.unread = unread
            protocol._check()
        assert transport.calls == []
        protocol.cycle.response_complete = True
        for unread in range(80, 0, -1):  # what is closed ends once it is read
            transport.unread = unread
            protocol._check()
        assert set(transport.calls) == {"close"}
        protocol._check()
        assert "abort" in transport.calls


def test_a_body_that_does_not_come_is_not_waited_for(small: int) -> None:
    """The answer is 408 after the time limit, the connection is closed, and another body can be read."""
    for _ in range(2):
        with ExitStack() as stack:
            connections = [stack.enter_context(slow(small)) for _ in range(_AT_ONCE)]
            for connection in connections:
                assert answer(connection) == (408, "request body did not arrive within 0.3 s")
                assert connection.recv(1) == b""


def test_a_body_that_comes_in_drops_is_not_waited_for(small: int) -> None:
    """The time limit is for the whole body, not for each part."""
    with send(small, "POST /", b"Content-Length: 90\r\n\r\n") as connection:
        connection.settimeout(0.05)
        sent = 0
        while True:
            connection.sendall(b" ")
            sent += 1
            try:
                first = connection.recv(12)
            except TimeoutError:
                continue
            break
    assert first == b"HTTP/1.1 408"
    assert sent < 90


@pytest.mark.parametrize(
    "body",
    [
        b"Content-Length: 101\r\n\r\n" + b" " * 101,
        b"Transfer-Encoding: chunked\r\n\r\n" + (b"41\r\n" + b" " * 65 + b"\r\n") * 2,
    ],
    ids=["by its length", "in parts"],
)
def test_a_long_body_is_not_read_to_its_end(small: int, body: bytes) -> None:
    """A body above the limit gets 413, however it is sent."""
    with send(small, "POST /", body) as connection:
        assert answer(connection) == (413, "request body has more than 100 bytes")


def _status(port: int) -> int:
    """The status of the answer to a short body."""
    with send(port, "POST /", b"Content-Length: 2\r\n\r\n{}") as connection:
        return int(connection.recv(1000).split()[1])


def test_a_sender_that_goes_away_is_nothing_to_report(small: int, caplog: pytest.LogCaptureFixture) -> None:
    """A sender that disconnects causes no traceback, and another body can be read."""
    with caplog.at_level(logging.ERROR):
        for _ in range(3 * _AT_ONCE):
            slow(small).close()
        while (status := _status(small)) == 503:
            pass
    assert status == 200
    assert caplog.records == []
