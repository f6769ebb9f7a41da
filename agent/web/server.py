"""The agent's HTTP server: `/metrics` for Prometheus, `/healthz` and `/readyz` for probes. By default on loopback.

Other modules add their own routes.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Collection, Iterable
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import Server

from samerack.agent.metrics import Metrics
from samerack.agent.web.guard import KnownHosts
from samerack.common.errors import AgentError

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
HEAD_SECONDS: Final = 10.0
"""How often each connection is checked; one without a request since the last check is closed."""
Check = Callable[[], dict[str, str]]
"""Returns what is wrong, by part; empty if the agent is healthy."""


def application(
    metrics: Metrics, *, healthy: Check, ready: Check, more: Iterable[BaseRoute] = (), hosts: Collection[str] = ()
) -> Starlette:
    """Returns the application with the routes of this module and those of other modules.

    Args:
        metrics: what /metrics shows.
        healthy: the check of /healthz.
        ready: the check of /readyz.
        more: routes of other modules.
        hosts: further host names that requests to the agent may use.
    """

    def show_metrics(_: Request) -> Response:
        return Response(metrics.exposition(), headers={"content-type": CONTENT_TYPE})

    def answer(check: Check) -> Callable[[Request], Response]:
        def endpoint(_: Request) -> Response:
            wrong = check()
            return JSONResponse({"ok": not wrong, "wrong": wrong}, status_code=503 if wrong else 200)

        return endpoint

    return Starlette(
        routes=[
            Route("/metrics", show_metrics),
            Route("/healthz", answer(healthy)),
            Route("/readyz", answer(ready)),
            *more,
        ],
        middleware=[Middleware(KnownHosts, names=hosts)],
    )


class _Impatient(H11Protocol):
    """Uvicorn's protocol, but closes a connection without a new request for a while, even if part of one arrived."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its base's
        """Starts the checks."""
        super().connection_made(transport)
        self._last: object = None
        self.loop.call_later(HEAD_SECONDS, self._check)

    def _check(self) -> None:
        if self.transport.is_closing():
            return
        # there is no cycle before the first request
        if self.cycle is self._last and getattr(self.cycle, "response_complete", True):
            self.transport.close()
            return
        self._last = self.cycle
        self.loop.call_later(HEAD_SECONDS, self._check)


class WebServer:
    """Uvicorn on a thread; the constructor binds the port."""

    def __init__(self, app: Starlette, *, host: str, port: int) -> None:
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
            self._socket.listen()  # two programs may bind the same port, but only one may listen
        except OSError as error:
            self._socket.close()
            raise AgentError(
                f"web: {host}:{port}: {error.strerror}; set web.port to a free port (0 for any) and web.host to an "
                "address of this machine"
            ) from error
        self.host, self.port = host, int(self._socket.getsockname()[1])
        config = Config(
            app, http=_Impatient, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1
        )
        self._server = Server(config)
        self._thread = threading.Thread(target=self._serve, name="web", daemon=True)

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    def start(self) -> None:
        """Starts serving."""
        self._thread.start()

    def end(self) -> None:
        """Accepts no more requests; those under way have one second."""
        self._server.should_exit = True

    def stop(self) -> None:
        """Ends within about a second."""
        self.end()
        self._thread.join(2.0)
        self._socket.close()
