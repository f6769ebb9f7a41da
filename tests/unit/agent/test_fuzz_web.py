"""Any request to the agent's port is answered in time, without traceback, status 500, or memory left in use."""

from __future__ import annotations

import asyncio
import json
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.routing import Route

from samerack.agent.program import Agent
from samerack.settings.loading import load
from tests.unit.agent.fuzzing import DEEP, EXAMPLES_OF_A_PATH, JSON, MANY, SECONDS, TEXT
from tests.unit.agent.measured import busy, publish
from tests.unit.traffic.test_exact import group, member
from tests.unit.traffic.test_statistics import posted
from tests.unit.waiting import LONGEST_SECONDS

_ANSWER_SECONDS: Final = LONGEST_SECONDS
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "x")
_KEYS: Final = ("group", "member", "name", "refresh", "most", "kind", "since", "")
_HEADERS: Final = ("host", "origin", "content-type", "content-length", "accept", "x-forwarded-for", "cookie")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request; if it is not whole, its sender disconnects in the middle."""

    method: str
    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    parts: tuple[bytes, ...]
    whole: bool


def _written(value: object) -> bytes:
    return json.dumps(value).encode()


LOCAL: Final = ((b"host", b"localhost:9464"), (b"content-type", b"application/json"))
"""Headers of a program on this machine, whose requests are accepted."""
_STATISTICS: Final = st.tuples(st.sampled_from([*posted(), "x"]), JSON).map(
    lambda one: _written(posted(**{one[0]: one[1]}))
)
_INNER: Final = st.tuples(st.sampled_from(["brokers", "topics"]), TEXT, JSON).map(
    lambda one: _written(posted(**{one[0]: {one[1]: one[2]}}))
)
_TAKEOVER: Final = st.fixed_dictionaries({}, optional={"group": JSON, "dry_run": JSON, "x": JSON}).map(_written)
_OUTCOME_BEYOND_UTF8: Final = _written(
    {"version": 1, "application": "\ud800", "plan": None, "error": "NONE", "fallback": "\ud800"}
)
_SHOWN: Final = ("/metrics", "/", "/v1/streams", "/v1/events")
"""What shows the things that were posted."""
BODIES: Final = (
    st.binary(max_size=200) | TEXT.map(lambda text: text.encode("utf-8", "surrogatepass")) | JSON.map(_written)
)
REQUESTS: Final = st.builds(
    Asked,
    method=st.sampled_from(_METHODS),
    query=st.binary(max_size=50)
    | st.lists(st.tuples(st.sampled_from(_KEYS), TEXT | st.just("orders")), max_size=3).map(
        lambda pairs: urlencode(pairs, errors="surrogatepass").encode()
    ),
    headers=st.just(LOCAL)
    | st.lists(st.tuples(st.sampled_from(_HEADERS).map(str.encode), st.binary(max_size=40)), max_size=4).map(tuple),
    parts=st.lists(BODIES | _STATISTICS | _INNER | _TAKEOVER, max_size=3).map(tuple),
    whole=st.booleans(),
)


def of(method: str, query: str = "", body: bytes = b"", *, whole: bool = True) -> Asked:
    """A request of a program on this machine."""
    return Asked(method=method, query=query.encode(), headers=LOCAL, parts=(body,), whole=whole)


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    """An agent that is not started and shows a busy cluster; one member of a group may have statistics."""
    flags: dict[str, Any] = {
        "kafka": {"bootstrap.servers": "127.0.0.1:1"},
        "groups": ["orders"],
        "web": {"port": 0},
        "events": {"path": "memory"},
        "election": {"group": ""},
    }
    made = Agent(load(flags=flags, environment={}))
    publish(made.clusters[""].parts.traffic, busy())
    made.clusters[""].parts.events.add("plan", "orders", action="optimal", detail="<script>\x1b[2J")
    assert made.clusters[""].parts.measuring is not None
    made.clusters[""].parts.measuring._exact.see(
        {"orders": group(member("m1", "orders-a", 0, 1, 2))}, {"t": 4}, {}, since={"orders": 0.0}
    )
    yield made
    made.web._socket.close()
    assert made.clusters[""].parts.streams is not None
    made.clusters[""].parts.streams.stop()  # ends the process that questions have started


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """The event loop in which requests are answered."""
    with asyncio.Runner() as running:
        yield running


def application_of(agent: Agent) -> Starlette:
    """The application on the agent's port."""
    app = agent.web._server.config.app
    assert isinstance(app, Starlette)
    return app


async def answered(app: Starlette, path: str, asked: Asked) -> tuple[int, bytes]:
    """Status and body of the answer; status 0 if the sender disconnected first."""
    messages: list[dict[str, Any]] = [{"type": "http.request", "body": part, "more_body": True} for part in asked.parts]
    if asked.whole:
        messages.append({"type": "http.request", "body": b"", "more_body": False})
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": asked.method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": asked.query,
        "headers": list(asked.headers),
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 9464),
    }
    await asyncio.wait_for(app(scope, receive, send), _ANSWER_SECONDS)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return (int(sent[0]["status"]) if sent else 0), body


def paths(app: Starlette) -> list[str]:
    """Every path that the application lists."""
    assert all(isinstance(route, Route) for route in app.routes)
    return sorted({route.path for route in app.routes if isinstance(route, Route)})


def check(runner: asyncio.Runner, app: Starlette, path: str, *, unready: bool) -> None:
    """Send many requests to one path; a path that may be unready may answer 503."""

    @settings(MANY, max_examples=EXAMPLES_OF_A_PATH)
    @example(of("GET", "most=000000001" + "9" * 5_000))
    @example(of("GET", "since=nan&most=1&kind=plan"))
    @example(of("POST", "group=orders", _written(posted(topics={"\ud800": {"partitions": {"0": {}}}}))))
    @example(of("POST", "group=orders", b'{"group": "\\ud800"}'))
    @example(of("POST", "", _OUTCOME_BEYOND_UTF8))
    @example(of("POST", "group=orders", b"[" * DEEP))
    @example(of("POST", "group=orders", b'{"group": "or', whole=False))
    @given(REQUESTS)
    def holds(asked: Asked) -> None:
        began = time.monotonic()
        status, body = runner.run(answered(app, path, asked))
        assert status < 500 or (status == 503 and unready), (status, body)
        assert time.monotonic() - began < _ANSWER_SECONDS
        assert len(body) < 1_000_000
        if status in (400, 403, 408, 413, 415):
            assert set(json.loads(body)) == {"error"}

    holds()
    for shown in _SHOWN:
        assert runner.run(answered(app, shown, of("GET")))[0] == 200, (path, shown)


@pytest.mark.timeout(4 * SECONDS)
def test_no_request_breaks_an_endpoint(agent: Agent, runner: asyncio.Runner) -> None:
    """No path fails for any method, query, headers and body, in parts, cut off or whole."""
    app = application_of(agent)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for path in paths(app):
        check(runner, app, path, unready=path in {"/healthz", "/readyz"})
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 300_000, f"{grown} kB more than before {EXAMPLES_OF_A_PATH} requests of each"


@MANY
@pytest.mark.timeout(SECONDS)
@given(TEXT | st.text(max_size=30).map(lambda text: f"/{text}"))
@example("/\n")
def test_other_paths_are_not_found(agent: Agent, runner: asyncio.Runner, path: str) -> None:
    """Other paths have no file, no listing and no redirect elsewhere."""
    app = application_of(agent)
    clean = path.encode("utf-8", "replace").decode()
    if clean.removesuffix("\n") in paths(app):  # Starlette's patterns end with `$`, which a line feed may follow
        return
    status, _ = runner.run(answered(app, clean, of("GET")))
    assert status in (404, 307)
