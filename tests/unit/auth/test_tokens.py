"""Tokens of OAUTHBEARER from a real endpoint on loopback: reused, renewed, and the errors if there is none."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import ClassVar

import pytest

from samerack.auth.identities import ClientCredentials, Token, TokenError
from samerack.auth.tokens import Tokens, fetch_from_endpoint
from tests.unit.waiting import LONGEST_SECONDS, until

SECRET = "se cret/%"  # noqa: S105 - of this test


class Endpoint(BaseHTTPRequestHandler):
    """Gives prepared answers and records the requests."""

    answers: ClassVar[list[tuple[int, object]]] = []
    asked: ClassVar[list[tuple[str, str]]] = []

    def do_POST(self) -> None:
        """Record the request and send the next answer."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        credentials = self.headers["Authorization"].removeprefix("Basic ")
        self.asked.append((base64.b64decode(credentials).decode(), body))
        status, answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    """The URL of a running endpoint."""
    Endpoint.answers, Endpoint.asked = [], []
    with HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/token"
        server.shutdown()
        thread.join()


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of tokens, which only a test moves."""
    clock = [1000.0]
    monkeypatch.setattr("samerack.auth.tokens.time", SimpleNamespace(monotonic=lambda: clock[0], time=time.time))
    return clock


def provider_at(endpoint: str) -> Tokens:
    """Tokens of the endpoint for one client."""
    identity = ClientCredentials(endpoint=endpoint, client_id="agent", client_secret=SECRET, scope="kafka")
    return Tokens(partial(fetch_from_endpoint, identity))


def test_a_token_is_kept_while_it_is_fresh(endpoint: str, now: list[float]) -> None:
    """A token is reused for three quarters of its lifetime; credentials are encoded as in RFC 6749."""
    Endpoint.answers = [
        (200, {"access_token": "first", "expires_in": 100}),
        (200, {"access_token": "second", "expires_in": 100}),
    ]
    provider = provider_at(endpoint)
    assert [provider.token(), provider.token()] == ["first", "first"]
    now[0] += 74
    assert provider.token() == "first"
    now[0] += 2
    assert until(lambda: provider.token() == "second")
    assert Endpoint.asked == [("agent:se%20cret%2F%25", "grant_type=client_credentials&scope=kafka")] * 2


def until_then(end: int) -> str:
    """A token that says when it ends, in seconds since 1970."""
    claims = base64.urlsafe_b64encode(json.dumps({"exp": end}).encode()).decode().rstrip("=")
    return f"e30.{claims}.x"


def test_a_token_may_say_itself_when_it_ends(endpoint: str) -> None:
    """Without expires_in the claim `exp` counts."""
    Endpoint.answers = [(200, {"access_token": until_then(4102444800)})]
    assert provider_at(endpoint).token() == until_then(4102444800)


def test_an_old_token_does_until_its_end(endpoint: str, now: list[float]) -> None:
    """While the endpoint fails, the token is used until its end; after that the failure is raised."""
    Endpoint.answers = [(200, {"access_token": "first", "expires_in": 100}), (500, {})]
    provider = provider_at(endpoint)
    provider.token()
    now[0] += 90
    assert provider.token() == "first"
    now[0] += 20
    with pytest.raises(TokenError, match="answers 500"):
        provider.token()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((401, {"error": "invalid_client"}), "answers 401 Unauthorized; check kafka.sasl.oauthbearer.client.id and"),
        ((404, {}), "answers 404 Not Found; check kafka.sasl.oauthbearer.token.endpoint.url"),
        ((200, {"token": "x"}), "its response lacks an access_token with an expiry; is it a token endpoint?"),
        (
            (200, {"access_token": "opaque"}),
            "its response lacks an access_token with an expiry; is it a token endpoint?",
        ),
        ((200, {"access_token": "x", "expires_in": 0}), "returned a token that is empty or expired; check the clocks"),
        ((200, {"access_token": until_then(1)}), "returned a token that is empty or expired; check the clocks"),
        ((200, []), "its response lacks an access_token with an expiry; is it a token endpoint?"),
    ],
)
@pytest.mark.usefixtures("now")
def test_no_token(endpoint: str, answer: tuple[int, object], message: str) -> None:
    """The error names cause and advice without the secret, and the endpoint is not asked again at once."""
    Endpoint.answers = [answer]
    provider = provider_at(endpoint)
    for _ in range(5):
        with pytest.raises(TokenError) as raised:
            provider.token()
        assert message in str(raised.value)
        assert SECRET not in str(raised.value)
    assert len(Endpoint.asked) == 1


def test_nobody_at_the_endpoint() -> None:
    """For a refused connection the error names the setting with the address."""
    with pytest.raises(TokenError, match=r"^kafka\.sasl\.oauthbearer\.token\.endpoint\.url http://127\.0\.0\.1:1/"):
        provider_at("http://127.0.0.1:1/").token()


def test_librdkafka_gets_the_same_token(now: list[float]) -> None:
    """Both clients get one token; librdkafka also gets its end in wall-clock time, the principal and extensions."""
    made = iter("abc")
    provider = Tokens(lambda: Token(text=next(made), seconds=100, principal="role"), extensions={"pool": "b"})
    before = time.time()
    assert provider.token() == "a"
    now[0] += 40
    text, end, principal, extensions = provider.for_librdkafka("")
    assert (text, principal, extensions) == ("a", "role", {"pool": "b"})
    assert 59 < end - before < 70
    now[0] += 40  # librdkafka asks again after 80 %, and after 80 % of what is left of the same token
    assert until(lambda: provider.for_librdkafka("")[0] == "b")
    assert provider.token() == "b"


def test_nobody_waits_while_a_token_is_replaced(now: list[float]) -> None:
    """All threads use the old token while the next is fetched, once, also the thread that was the first to ask."""
    answer = threading.Event()
    texts = iter("ab")
    fetchers: list[threading.Thread] = []

    def fetch() -> Token:
        fetchers.append(threading.current_thread())
        if threading.current_thread() is not fetchers[0]:
            assert answer.wait(LONGEST_SECONDS)
        return Token(text=next(texts), seconds=100)

    provider = Tokens(fetch)
    provider.token()
    now[0] += 80
    assert [provider.token() for _ in range(3)] == ["a"] * 3
    assert until(lambda: len(fetchers) > 1)
    assert provider.token() == "a"
    answer.set()
    assert until(lambda: provider.token() == "b")
    assert len(fetchers) == 2


def test_the_pause_after_a_failure_begins_when_it_is_known(now: list[float]) -> None:
    """A source that answers nothing for longer than the pause was asked again at once."""
    asked = 0

    def fetch() -> Token:
        nonlocal asked
        asked += 1
        now[0] += 3
        raise TokenError("no answer")

    provider = Tokens(fetch)
    for _ in range(2):
        with pytest.raises(TokenError):
            provider.token()
    assert asked == 1
