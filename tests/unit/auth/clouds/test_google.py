"""Tokens for Google's Managed Service for Apache Kafka from a metadata server on loopback."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator

import pytest

from samerack.auth.clouds import google
from samerack.auth.identities import GoogleIdentity, Token, TokenError
from tests.clouds.http_server import Answer
from tests.clouds.servers import Google
from tests.unit.auth.clouds.strange import Strange

ACCOUNT = "samerack@project.iam.gserviceaccount.com"
ACCESS = "ya29.of-google"


@pytest.fixture
def cloud() -> Iterator[Google]:
    """A cloud that knows one service account."""
    with Google(account=ACCOUNT, access=ACCESS) as server:
        yield server


def token(variables: dict[str, str]) -> Token:
    """The token in this environment."""
    return google.fetch(GoogleIdentity(), variables)


def decoded(text: str) -> str:
    """A decoded part of a token."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()


def test_the_form_of_a_token(cloud: Google, monkeypatch: pytest.MonkeyPatch) -> None:
    """The token has header, claims and access token as from Google's own server; no proxy is used."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    before = int(time.time())
    given = token(cloud.for_machine())
    assert "=" not in given.text
    header, claims, access = map(decoded, given.text.split("."))
    assert json.loads(header) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    claimed = json.loads(claims)
    assert (claimed["iss"], claimed["sub"], claimed["scope"], access) == ("Google", ACCOUNT, "kafka", ACCESS)
    assert before <= claimed["iat"] <= time.time()
    assert claimed["exp"] - claimed["iat"] == given.seconds == 3600
    assert given.principal == ACCOUNT


def test_the_principal_may_be_set(cloud: Google) -> None:
    """A federated identity has no address, so the variable of Google's own server names it."""
    variables = {**cloud.for_machine(), "GOOGLE_MANAGED_KAFKA_AUTH_PRINCIPAL": "principal://iam/x"}
    assert token(variables).principal == "principal://iam/x"
    cloud.account = ""
    with pytest.raises(TokenError, match="returned no service account; set GOOGLE_MANAGED_KAFKA_AUTH_PRINCIPAL"):
        token(cloud.for_machine())


def test_a_clock_that_is_wrong(cloud: Google) -> None:
    """The claims have times of this machine's clock, which brokers would refuse."""
    cloud.clock_ahead = 400
    with pytest.raises(TokenError, match=r"is \d+ s behind that of Google's metadata server"):
        token(cloud.for_machine())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(status=404, text="not found"), "answers 404: not found; give the machine or the pod's ServiceAccount"),
        (Answer(status=302, headers={"Location": "http://127.0.0.1:1/"}), "answers 302: no reason given"),
        (Answer(text="no JSON"), "did not return a JSON object"),
    ],
)
def test_what_is_no_token(answer: Answer, words: str) -> None:
    """One line contains the server and the reason."""
    with Strange(answer) as server, pytest.raises(TokenError, match=words):
        token({"GCE_METADATA_HOST": server.url.removeprefix("http://")})


def test_nobody_is_there() -> None:
    """The error says that the metadata server does not answer, as outside of Google Cloud."""
    with pytest.raises(TokenError, match=r"^Google's metadata server \(http://127\.0\.0\.1:1\) does not answer: "):
        token({"GCE_METADATA_HOST": "127.0.0.1:1"})


def test_a_server_that_others_could_read() -> None:
    """An access token is never sent unencrypted over a network."""
    with pytest.raises(TokenError, match=r"GCE_METADATA_HOST: http://10\.0\.0\.1 is not a URL that begins with https"):
        token({"GCE_METADATA_HOST": "10.0.0.1"})
