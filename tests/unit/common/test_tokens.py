"""Tokens of OAUTHBEARER from a real endpoint on loopback: kept, renewed, and what is said when there is none."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest

from common.tokens import TokenError, Tokens, TokenSettings

SECRET = "se cret/%"  # noqa: S105 - of this test


class Endpoint(BaseHTTPRequestHandler):
    """Answers what it is told to, and remembers what it was asked."""

    answers: ClassVar[list[tuple[int, object]]] = []
    asked: ClassVar[list[tuple[str, str]]] = []

    def do_POST(self) -> None:
        """One token, or not."""
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
        """Nothing."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    """Its URL."""
    Endpoint.answers, Endpoint.asked = [], []
    with HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/token"
        server.shutdown()
        thread.join()


def settings(endpoint: str) -> TokenSettings:
    """A client of the endpoint."""
    return TokenSettings(endpoint=endpoint, client_id="agent", client_secret=SECRET, scope="kafka")


def test_a_token_is_kept_while_it_is_fresh(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One question until three quarters of its life are over, then another; credentials go as RFC 6749 says."""
    now = [1000.0]
    monkeypatch.setattr("common.tokens.time.monotonic", lambda: now[0])
    Endpoint.answers = [
        (200, {"access_token": "first", "expires_in": 100}),
        (200, {"access_token": "second", "expires_in": 100}),
    ]
    provider = Tokens(settings(endpoint))
    assert [provider.token(), provider.token()] == ["first", "first"]
    now[0] += 74
    assert provider.token() == "first"
    now[0] += 2
    assert provider.token() == "second"
    assert Endpoint.asked == [("agent:se%20cret%2F%25", "grant_type=client_credentials&scope=kafka")] * 2


def test_a_token_may_say_itself_when_it_ends(endpoint: str) -> None:
    """Without expires_in the claim `exp` counts."""
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 4102444800}).encode()).decode().rstrip("=")
    Endpoint.answers = [(200, {"access_token": f"e30.{claims}.x"})]
    assert Tokens(settings(endpoint)).token() == f"e30.{claims}.x"


def test_an_old_token_does_until_its_end(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the endpoint fails, the token in hand is used; then the failure is told, and no secret with it."""
    now = [1000.0]
    monkeypatch.setattr("common.tokens.time.monotonic", lambda: now[0])
    Endpoint.answers = [(200, {"access_token": "first", "expires_in": 100}), (500, {})]
    provider = Tokens(settings(endpoint))
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
        ((200, {"token": "x"}), "its answer has no access_token with an end; is it a token endpoint?"),
        ((200, {"access_token": "opaque"}), "its answer has no access_token with an end; is it a token endpoint?"),
        ((200, []), "its answer has no access_token with an end; is it a token endpoint?"),
    ],
)
def test_no_token(endpoint: str, answer: tuple[int, object], message: str) -> None:
    """Cause and cure are named once, without the secret, and the endpoint is then left alone for a while."""
    Endpoint.answers = [answer]
    provider = Tokens(settings(endpoint))
    for _ in range(5):
        with pytest.raises(TokenError) as raised:
            provider.token()
        assert message in str(raised.value)
        assert SECRET not in str(raised.value)
    assert len(Endpoint.asked) == 1


def test_nobody_at_the_endpoint() -> None:
    """A refused connection is told with the setting that names the place."""
    with pytest.raises(TokenError, match=r"^kafka\.sasl\.oauthbearer\.token\.endpoint\.url http://127\.0\.0\.1:1/"):
        Tokens(settings("http://127.0.0.1:1/")).token()
