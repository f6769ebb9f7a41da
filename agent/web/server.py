"""The agent's HTTP server, which requests it takes, and `/metrics`, `/healthz` and `/readyz`. By default on loopback.

Other modules add their own routes. Only programs on this machine may make changes: the peer is 127.0.0.1, ::1 or at a
Unix socket (meshes such as Istio connect from other loopback addresses for other machines), the Host header names a
loopback address (a page whose name was rebound to 127.0.0.1 sends another name), there is no Origin header, which
browsers add to requests of pages, and none that proxies add. Any client that reaches the port may read, with a known
host name: otherwise a page whose own name was rebound to the agent's address could read it as its own origin. It may
also open connections and send slowly: so bodies are read within limits of content type, number of bytes, time, and
number at the same time.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager, suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import Server

from samerack.common.errors import AgentError
from samerack.common.fetching import with_port
from samerack.common.words import plain

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
HEAD_SECONDS: Final = 10.0
"""How often each connection is checked; one without a request since the last check is closed."""
_UNIX_MODE: Final = 0o660
"""Programs of the agent's user and group may connect."""
_DATE_SECONDS: Final = 1.0
"""How often the date in answers is renewed."""
_LAST_SECONDS: Final = 1.0
_CHECK_SECONDS: Final = 0.01
Check = Callable[[], dict[str, str]]
"""Returns what is wrong, by part; empty if the agent is healthy."""


def application(  # noqa: PLR0913 - what an agent shows has this many sources
    exposition: Callable[[], bytes],
    *,
    healthy: Check,
    ready: Check,
    notes: Check = dict,
    more: Iterable[BaseRoute] = (),
    hosts: Collection[str] = (),
) -> Starlette:
    """Return the application with the routes of this module and `more` of other modules.

    `healthy` and `ready` are the checks of the probes; `notes` is what the agent waits for, by part: /readyz has it,
    and is ready all the same. Requests to the agent may use further host names.
    """

    def answer(check: Check, **more: Check) -> Callable[[Request], Response]:
        def endpoint(_: Request) -> Response:
            wrong = check()
            said = {"ok": not wrong, "wrong": wrong, **{name: one() for name, one in more.items()}}
            return JSONResponse(said, status_code=503 if wrong else 200)

        return endpoint

    return Starlette(
        routes=[
            metrics_route(exposition),
            Route("/healthz", answer(healthy)),
            Route("/readyz", answer(ready, notes=notes)),
            *more,
        ],
        middleware=[Middleware(KnownHosts, names=hosts)],
    )


def metrics_route(exposition: Callable[[], bytes]) -> Route:
    """Return the route that shows metrics in Prometheus' text format."""

    def show_metrics(_: Request) -> Response:
        return Response(exposition(), headers={"content-type": CONTENT_TYPE})

    return Route("/metrics", show_metrics)


class _Impatient(H11Protocol):
    """Uvicorn's protocol, but closes a connection without a new request for a while, even if part of one arrived.

    What is closed waits while the client reads its answer, and is aborted once it has read nothing for as long again.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its base's
        """Start the checks, and name the peer of a Unix socket, which has no address."""
        super().connection_made(transport)
        if transport.get_extra_info("socket").family == socket.AF_UNIX:
            self.client = (UNIX_PEER, 0)
        self._last: object = None
        self._ends, self._unread = False, 0
        self.loop.call_later(HEAD_SECONDS, self._check)

    def _check(self) -> None:
        if self not in self.connections:  # it has ended
            return
        unread = self.transport.get_write_buffer_size()
        is_read, self._unread = unread < self._unread, unread
        if self._ends and not is_read:
            self.transport.abort()
            return
        # there is no cycle before the first request; one after an answer that nobody reads waits for that
        is_idle = getattr(self.cycle, "response_complete", True) or (self.flow.write_paused and not is_read)
        if self.cycle is self._last and is_idle:
            self.transport.close()
        self._last, self._ends = self.cycle, self.transport.is_closing()
        self.loop.call_later(HEAD_SECONDS, self._check)


class _Server(Server):
    """Uvicorn's server, but ends at once: Uvicorn checks ten times a second whether to end, and waits some more."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._asked = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def end(self) -> None:
        """Ask it to end; any thread may call it, before the start too."""
        self.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._asked.set)

    async def main_loop(self) -> None:
        """Keep the date of answers up to date until it is asked to end."""
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), _DATE_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close idle connections; requests under way have a second."""
        for one in (*self.servers, *(sockets or ())):
            one.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        until = self._now() + _LAST_SECONDS
        while (self.server_state.connections or self.server_state.tasks) and self._now() < until:
            await asyncio.sleep(_CHECK_SECONDS)
        for task in self.server_state.tasks:
            task.cancel()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


class WebServer:
    """Uvicorn on a thread; the constructor binds the port, and the Unix socket if there is to be one."""

    def __init__(self, app: Starlette, *, host: str, port: int, unix: str = "") -> None:
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
            self._socket.listen()  # two programs may bind the same port, but only one may listen
        except OSError as error:
            self._socket.close()
            raise AgentError(
                f"web: {with_port(host, port)}: {error.strerror}; set web.port to a free port (0 for any) and web.host "
                "to an address of this machine"
            ) from error
        self.host, self.port = host, int(self._socket.getsockname()[1])
        self._unix_path = unix
        try:
            self._unix = _unix_socket(unix) if unix else None
        except AgentError:
            self._socket.close()
            raise
        config = Config(
            app,
            http=_Impatient,
            log_config=None,
            access_log=False,
            lifespan="off",
            proxy_headers=False,  # the peer is who connects, whatever a request says
        )
        self._server = _Server(config)
        self._thread = threading.Thread(target=self._serve, name="web", daemon=True)

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket, *([self._unix] if self._unix is not None else [])])

    def start(self) -> None:
        """Start serving."""
        self._thread.start()

    def end(self) -> None:
        """Accept no more requests; those under way have one second."""
        self._server.end()

    def stop(self) -> None:
        """End within about a second."""
        self.end()
        self._thread.join(2.0)
        self._socket.close()
        if self._unix is not None:
            self._unix.close()
            Path(self._unix_path).unlink(missing_ok=True)


def _unix_socket(path: str) -> socket.socket:
    """Return a socket that listens at a path, in place of one that a killed agent has left.

    Raises:
        AgentError: The path cannot be used, or another program listens there.
    """
    cure = "set web.socket to a path in a folder that this agent may write to"
    if _is_served(path):
        raise AgentError(f"web: {path}: another program listens there; {cure}")
    found = socket.socket(socket.AF_UNIX)
    try:
        if Path(path).is_socket():
            Path(path).unlink()
        found.bind(path)
        Path(path).chmod(_UNIX_MODE)
        found.listen()
    except OSError as error:
        found.close()
        raise AgentError(f"web: {path}: {error.strerror or error}; {cure}") from error
    return found


def _is_served(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as other:
        try:
            other.connect(path)
        except OSError:
            return False
    return True


JSON: Final = "application/json"
_BODY_SECONDS: Final = 5.0
_BODIES_AT_ONCE: Final = 16
_LONGEST_REASON: Final = 500


class RequestError(Exception):
    """A rejected request: the HTTP status of the response, and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status

    def answer(self) -> Response:
        """Return the response."""
        return refusal(self.status, str(self))


def refusal(status: int, reason: str) -> Response:
    """Return a JSON object with the reason, cut to a maximum length and without terminal control characters."""
    text = plain(reason)
    text = text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."
    # after a timeout, close the connection instead of waiting for the rest of the body
    headers = {"connection": "close"} if status == 408 else None
    return JSONResponse({"error": text}, status_code=status, headers=headers)


class BodyReader:
    """Reads the bodies of one route; for use in one event loop."""

    def __init__(
        self,
        *,
        max_bytes: int,
        seconds: float = _BODY_SECONDS,
        at_once: int = _BODIES_AT_ONCE,
        wait_seconds: float = 0.0,
    ) -> None:
        """Read bodies up to a number of bytes, each within some seconds, and a number of them at the same time.

        One more waits `wait_seconds` for its turn.
        """
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._wait_seconds = wait_seconds
        self._free = asyncio.Semaphore(at_once)

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """Yield the body, whatever length its header claims; it counts as being read until the context ends.

        Raises:
            RequestError: It is not JSON by its content type (415), too long (413), late (408), cut off (400), or one
                too many at the same time (503).
        """
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            raise RequestError(415, f"content-type: expected {JSON}")
        try:
            async with asyncio.timeout(self._wait_seconds):
                await self._free.acquire()
        except TimeoutError:
            raise RequestError(503, "too many other requests are in progress; try again in a few seconds") from None
        try:
            yield await self._in_time(request)
        finally:
            self._free.release()

    async def _in_time(self, request: Request) -> bytes:
        try:
            async with asyncio.timeout(self._seconds):
                return await self._parts(request)
        except TimeoutError:
            raise RequestError(408, f"request body did not arrive within {self._seconds:g} s") from None
        except ClientDisconnect:
            raise RequestError(400, "request body was cut off") from None

    async def _parts(self, request: Request) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for part in request.stream():
            size += len(part)
            if size > self._max_bytes:
                raise RequestError(413, f"request body has more than {self._max_bytes} bytes")
            parts.append(part)
        return b"".join(parts)


_LOCAL: Final = "localhost"
UNIX_PEER: Final = "unix"
"""The address of the peer of a Unix socket, which no peer of another kind of socket can have."""
_HERE: Final = frozenset({UNIX_PEER, "127.0.0.1", "::1", "::ffff:127.0.0.1"})
"""Peers on this machine; the last one is how a server on :: sees IPv4."""
_OF_PROXIES: Final = ("x-forwarded-for", "forwarded", "via", "x-real-ip")
_CLUSTER: Final = (".svc", ".cluster.local", ".localhost")
"""Suffixes that cannot be registered: of Kubernetes services, and of this machine."""


def refused_change(request: Request, cure: str) -> str:
    """Return why this request must not change anything, with a cure for users of other machines; empty if it may."""
    if request.client is None or request.client.host not in _HERE:
        return f"only programs on this machine may ask; {cure}"
    host = _host(request.headers.get("host", ""))
    address = _address(host)
    if host != _LOCAL and (address is None or not address.is_loopback):
        return "host: expected localhost or a loopback address"
    if "origin" in request.headers:
        return "origin: requests from web pages are not allowed"
    if proxied := next((name for name in _OF_PROXIES if name in request.headers), None):
        return f"{proxied}: requests through a proxy are not allowed; {cure}"
    return ""


class KnownHosts:
    """Accepts requests whose Host is an address, a name without dots, of a service, or one of the settings."""

    def __init__(self, app: ASGIApp, *, names: Collection[str]) -> None:
        """Wrap an application; requests may use these host names, too."""
        self._app = app
        self._names = frozenset(name.lower() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 403 if the host name is not known."""
        if scope["type"] == "http":
            host = _host(Request(scope).headers.get("host", ""))
            if not self._is_known(host):
                reason = f"host: {host[:100]!r} is not a name of this agent; add it to web.hosts"
                await refusal(403, reason)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _is_known(self, host: str) -> bool:
        named = not host or "." not in host or host in self._names or host.endswith(_CLUSTER)
        return named or _address(host) is not None


def _host(header: str) -> str:
    """Return the name in a Host header, without port; empty if it is not valid."""
    try:
        return (urlsplit(f"//{header}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """Return an address, without its zone; None if it is a name."""
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None
