"""The agent's port for tests: a server of some routes on loopback, and requests to it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from samerack.agent.metrics import Metrics
from samerack.agent.web.server import WebServer, application
from tests.unit.waiting import LONGEST_SECONDS

Check = Callable[[], dict[str, str]]


@contextmanager
def running(app: Starlette, *, unix: str = "") -> Iterator[int]:
    """The port of a server of this application."""
    server = WebServer(app, host="127.0.0.1", port=0, unix=unix)
    server.start()
    try:
        yield server.port
    finally:
        server.stop()


@contextmanager
def served(*routes: BaseRoute, healthy: Check = dict, ready: Check = dict, notes: Check = dict) -> Iterator[int]:
    """The port of a server that has these routes beside those of every agent."""
    with running(application(Metrics().exposition, healthy=healthy, ready=ready, notes=notes, more=routes)) as port:
        yield port


def ask(port: int, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> tuple[int, str]:
    """Status and text of the answer."""
    sent = {key.replace("_", "-"): value for key, value in headers.items()}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=LONGEST_SECONDS)) as connection:
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def post(port: int, path: str, body: object, **headers: str) -> tuple[int, Any]:
    """Status and JSON of the answer to JSON, or to these bytes; None if it is empty."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    status, text = ask(port, path, "POST", content, **{"content_type": "application/json"} | headers)
    return status, json.loads(text) if text else None
