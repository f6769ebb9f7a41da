"""AWS credentials from each source on loopback, and the errors if a source gives none."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from samerack.auth.clouds import aws as aws_module
from samerack.auth.clouds.aws import Credentials, find
from samerack.auth.identities import AwsIdentity, TokenError
from tests.clouds.http_server import Answer
from tests.clouds.servers import Aws
from tests.unit.auth.clouds.strange import Strange

SECRET = "wJalr/secret+of=aws"  # noqa: S105 - of this test
SESSION = "session/of+aws=="
Variables = dict[str, str]


@pytest.fixture
def aws() -> Iterator[Aws]:
    """A cloud that knows one role."""
    with Aws(key="ASIAEXAMPLE", secret=SECRET, session=SESSION) as server:
        yield server


def found(variables: Variables) -> Credentials:
    """The credentials found in this environment."""
    return find(AwsIdentity(region="eu-central-1"), variables)


def refused(variables: Variables) -> str:
    """The error if no credentials are found, in one line without any secret."""
    with pytest.raises(TokenError) as raised:
        found(variables)
    text = str(raised.value)
    assert not any(secret in text for secret in (SECRET, SESSION, "of-the-account"))
    assert "\n" not in text
    return text


SOURCES: dict[str, Callable[[Aws, Path], Variables]] = {
    "web identity": Aws.for_web_identity,
    "container": Aws.for_container,
    "instance": lambda aws, _: aws.for_instance(),
}


@pytest.mark.parametrize("source", SOURCES)
def test_each_source_gives_the_same(aws: Aws, tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each source gives key, secret, session and end; no proxy is used."""
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    credentials = found(SOURCES[source](aws, tmp_path))
    assert (credentials.key, credentials.secret, credentials.session) == ("ASIAEXAMPLE", SECRET, SESSION)
    assert credentials.ends is not None
    assert 3590 < credentials.ends - time.time() <= 3600


def test_the_environment_comes_first(aws: Aws, tmp_path: Path) -> None:
    """Static keys come first, then a web identity, then a container; later sources are not asked."""
    keys = {"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": SECRET}
    everything = {**aws.for_container(tmp_path), **aws.for_web_identity(tmp_path)}
    assert found({**everything, **keys}) == Credentials(key="AKIA", secret=SECRET)
    assert found({**keys, "AWS_SESSION_TOKEN": SESSION}).session == SESSION
    assert aws.asked == []
    found(everything)
    assert [asked.path for asked in aws.asked] == ["/"]


def test_files_are_read_each_time(aws: Aws, tmp_path: Path) -> None:
    """Kubernetes replaces the pod's token, and the next request uses the new one."""
    variables = aws.for_container(tmp_path)
    found(variables)
    aws.account_token = "another-token"  # noqa: S105 - of this test
    assert "answers 400" in refused(variables)
    aws.for_container(tmp_path)
    found(variables)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"AWS_ROLE_ARN": "arn:aws:iam::1:role/other"}, "refuses the role arn:aws:iam::1:role/other: AccessDenied: N"),
        ({"AWS_ROLE_ARN": "arn:aws:iam::1:role/other"}, "trust policy must allow sts:AssumeRoleWithWebIdentity"),
        ({"AWS_ROLE_ARN": ""}, "AWS_ROLE_ARN: is missing"),
        ({"AWS_WEB_IDENTITY_TOKEN_FILE": "/absent"}, "TOKEN_FILE: /absent cannot be read (No such file or directory)"),
        ({"AWS_ENDPOINT_URL_STS": "http://sts.example"}, "AWS_ENDPOINT_URL_STS: http://sts.example is not a URL that"),
        ({"AWS_ENDPOINT_URL_STS": "http://127.0.0.1:1"}, "STS does not answer: http://127.0.0.1:1: Connection"),
        ({"AWS_ACCESS_KEY_ID": "AKIA"}, "AWS_SECRET_ACCESS_KEY: is missing"),
    ],
)
def test_a_web_identity_that_is_refused(aws: Aws, tmp_path: Path, changed: Variables, words: str) -> None:
    """One line contains the server, the reason and the advice."""
    assert words in refused({**aws.for_web_identity(tmp_path), **changed})


def test_a_token_that_sts_does_not_know(aws: Aws, tmp_path: Path) -> None:
    """The error says that the account does not know the cluster's issuer."""
    variables = aws.for_web_identity(tmp_path)
    aws.account_token = "another-token"  # noqa: S105 - of this test
    assert "InvalidIdentityToken: No OpenIDConnect provider found in your account; add the OIDC" in refused(variables)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": ""}, "answers 400: Service account token cannot be empty; check"),
        ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://10.0.0.1/v1"}, "http://10.0.0.1/v1 is not a URL that begins"),
        ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://[::1/v1"}, "AWS_CONTAINER_CREDENTIALS_FULL_URI: is not a URL"),
    ],
)
def test_a_container_that_is_refused(aws: Aws, tmp_path: Path, changed: Variables, words: str) -> None:
    """The error names the association to check; secrets are sent only to addresses that are safe."""
    assert words in refused({**aws.for_container(tmp_path), **changed})


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"AWS_EC2_METADATA_DISABLED": "true"}, "is set, and AWS_EC2_METADATA_DISABLED is true; give the"),
        ({"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:1"}, "Connection refused; give the ServiceAccount"),
    ],
)
def test_nothing_is_there(variables: Variables, words: str) -> None:
    """The error names all sources, so that the reader finds the one that was meant."""
    text = refused(variables)
    assert text.startswith("no AWS credentials: neither AWS_ACCESS_KEY_ID, AWS_WEB_IDENTITY_TOKEN_FILE nor ")
    assert words in text


@pytest.mark.parametrize("source", SOURCES)
def test_credentials_that_have_ended(aws: Aws, tmp_path: Path, source: str) -> None:
    """They are refused, and the error says to check the clocks."""
    aws.seconds = -60
    text = refused(SOURCES[source](aws, tmp_path))
    assert "returned credentials that expired at " in text
    assert text.endswith("; check the clocks")


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("ahead", "words"), [(400, "s behind that of "), (-400, "s ahead of that of ")])
def test_a_clock_that_is_wrong(aws: Aws, tmp_path: Path, source: str, ahead: float, words: str) -> None:
    """The server's time is compared, because requests signed with a wrong time would be refused."""
    aws.clock_ahead = ahead
    text = refused(SOURCES[source](aws, tmp_path))
    assert "the clock of this machine is 4" in text or "the clock of this machine is 399" in text
    assert words in text
    assert "synchronize it (NTP)" in text


def _keys(value: str, end: str) -> Answer:
    keys = dict.fromkeys(("AccessKeyId", "SecretAccessKey", "Token"), value)
    return Answer(text=json.dumps({**keys, "Expiration": end}))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(), "did not return a JSON object"),
        (Answer(text="hello"), "did not return a JSON object"),
        (Answer(text="[]"), "did not return a JSON object"),
        (Answer(text="{}"), "did not return AccessKeyId"),
        (_keys("a", "soon"), "did not return AccessKeyId"),
        (_keys("", "2999-01-01T00:00:00Z"), "returned empty credentials"),
        (Answer(text='{"Code": "AssumeRoleUnauthorizedAccess"}'), "gives no credentials: AssumeRoleUnauth"),
        (Answer(status=HTTPStatus.FOUND, headers={"Location": "/elsewhere"}), "answers 302"),
        (Answer(text="x" * 300_000), "answers with more than 262144 bytes"),
        (Answer(status=500, text="a\x1b[31mb\nc"), "answers 500: a [31mb c; check"),
    ],
    ids=[
        "nothing",
        "text",
        "list",
        "no keys",
        "no end",
        "empty",
        "not yet",
        "redirect",
        "too much",
        "control characters",
    ],
)
def test_what_is_no_answer(answer: Answer, words: str) -> None:
    """Each wrong answer of a container's address gives one line, and no redirect is followed."""
    with Strange(answer) as server:
        assert words in refused({"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{server.url}/v1"})
        assert [asked.path for asked in server.asked] == ["/v1"]


@pytest.mark.parametrize("answer", [Answer(), Answer(text="<a>"), Answer(status=503, text="busy")])
def test_what_is_no_sts(tmp_path: Path, answer: Answer) -> None:
    """If STS answers without XML, the error says what it answers."""
    with Strange(answer) as server, Aws(key="A", secret=SECRET, session=SESSION) as aws:
        text = refused({**aws.for_web_identity(tmp_path), "AWS_ENDPOINT_URL_STS": server.url})
    assert ("answers 503" if answer.status == 503 else "did not return AccessKeyId") in text


@pytest.mark.parametrize("status", [401, 404, 500])
def test_an_instance_without_a_role(status: int) -> None:
    """The error says what the metadata lack, and where to configure it."""
    with Strange(Answer(status=status)) as server:
        text = refused({"AWS_EC2_METADATA_SERVICE_ENDPOINT": server.url})
    assert ("knows no role of this instance" if status == 404 else f"answers {status}") in text
    assert "give the ServiceAccount a role" in text


def test_who_hangs_costs_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that accepts a connection and does not answer is abandoned, after a second; here sooner."""
    monkeypatch.setattr(aws_module, "METADATA_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        text = refused({"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://127.0.0.1:{listening.getsockname()[1]}/v1"})
        assert "no answer within 0.2 s" in text


def test_a_token_with_a_line_break_is_not_shown(aws: Aws, tmp_path: Path) -> None:
    """HTTP's own error would show the refused header, which is a secret."""
    variables = aws.for_container(tmp_path)
    Path(variables["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"]).write_text("of-the-account\nx", encoding="ascii")
    assert "the request has characters that HTTP does not allow" in refused(variables)
