"""The agent's HTTP server: `/metrics` for Prometheus, `/healthz` and `/readyz` for probes. By default on loopback.

Other modules add their own routes.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import Server

from samerack.agent.web.guard import UNIX_PEER, KnownHosts
from samerack.common.errors import AgentError
from samerack.common.fetching import with_port

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
