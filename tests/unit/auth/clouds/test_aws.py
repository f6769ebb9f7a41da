"""Tokens for Amazon MSK: their form, the signature by AWS's own examples, and where credentials come from."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.auth.clouds.aws import Credentials, Signer
from samerack.auth.identities import AwsIdentity, TokenError
from tests.clouds.servers import Aws

SECRET = "wJalr/secret+of=aws"  # noqa: S105 - of this test
SESSION = "session/of+aws=="


@pytest.fixture
def aws() -> Iterator[Aws]:
    """A cloud that knows one role."""
    with Aws(key="ASIAEXAMPLE", secret=SECRET, session=SESSION) as server:
        yield server


def signer(aws: Aws, folder: Path) -> Signer:
    """A signer in a pod with EKS Pod Identity."""
    return Signer(AwsIdentity(region="eu-central-1"), aws.for_container(folder))


def test_the_form_of_a_token(aws: Aws, tmp_path: Path) -> None:
    """A token is a presigned request in base64 without padding, as from AWS's own signers."""
    token = signer(aws, tmp_path).token()
    assert not set(token.text) & set("=+/")
    url = urlsplit(base64.urlsafe_b64decode(token.text + "=" * (-len(token.text) % 4)).decode())
    assert (url.scheme, url.netloc, url.path) == ("https", "kafka.eu-central-1.amazonaws.com", "/")
    query = {name: values[0] for name, values in parse_qs(url.query, strict_parsing=True).items()}
    stamp, signature = query.pop("X-Amz-Date"), query.pop("X-Amz-Signature")
    assert query == {
        "Action": "kafka-cluster:Connect",
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"ASIAEXAMPLE/{stamp[:8]}/eu-central-1/kafka-cluster/aws4_request",
        "X-Amz-Expires": "900",
        "X-Amz-SignedHeaders": "host",
        "X-Amz-Security-Token": SESSION,
        "User-Agent": "samerack",
    }
    assert len(signature) == 64
    assert token.seconds == 900
    assert token.text not in repr(token)


def test_credentials_are_kept_while_they_last(aws: Aws, tmp_path: Path) -> None:
    """Credentials are reused for new tokens until they end in less than half an hour."""
    mine = signer(aws, tmp_path)
    mine.token()
    mine.token()
    assert aws.given == 1
    aws.seconds = 1700
    other = signer(aws, tmp_path)
    other.token()
    other.token()
    assert aws.given == 3


def test_a_token_ends_with_its_credentials(aws: Aws, tmp_path: Path) -> None:
    """With credentials that end in less than 900 seconds, the token ends with them."""
    aws.seconds = 600
    assert 590 < signer(aws, tmp_path).token().seconds <= 600


def test_old_credentials_do_until_their_end(aws: Aws, tmp_path: Path) -> None:
    """While the source fails, the credentials are used until they end; after that its failure is raised."""
    lasting, ending = signer(aws, tmp_path), signer(aws, tmp_path)
    aws.seconds = 600
    lasting.token()
    aws.seconds = 20
    ending.token()
    aws.account_token = "another-token"  # noqa: S105 - of this test
    assert lasting.token().seconds <= 600
    with pytest.raises(TokenError, match="answers 400"):
        ending.token()


def signature(url: str, secret: str, *, body_hash: str = hashlib.sha256(b"").hexdigest()) -> str:
    """The signature that AWS computes for a presigned URL ("Signature Version 4 for API requests")."""
    parts = urlsplit(url)
    query = "&".join(sorted(one for one in parts.query.split("&") if one.startswith(("Action=", "X-Amz-"))))
    given = {name: values[0] for name, values in parse_qs(query).items()}
    scope = given["X-Amz-Credential"].partition("/")[2]
    canonical = f"GET\n{parts.path}\n{query}\nhost:{parts.netloc}\n\nhost\n{body_hash}"
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{secret}".encode()
    for part in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{given['X-Amz-Date']}\n{scope}\n{hashed}"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()


def test_the_published_example_of_a_presigned_url() -> None:
    """AWS, Amazon S3 API Reference, "Authenticating Requests: Using Query Parameters": tests verify as AWS does."""
    url = (
        "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256"
        "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z"
        "&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
    )
    assert (
        signature(url, "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", body_hash="UNSIGNED-PAYLOAD")
        == "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    )


@pytest.mark.parametrize("session", ["", "FwoGZXIvYXdzEJr//////////wEaDPL+/== ~"])
@given(secret=st.text("abcdefghijklmnopqrstuvwxyzABC+/=0123456789", min_size=1))
def test_a_token_is_signed_as_aws_verifies_it(session: str, secret: str) -> None:
    """The signature is that of the URL which the token is, with and without a session."""
    environment = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": secret, "AWS_SESSION_TOKEN": session}
    token = Signer(AwsIdentity(region="eu-central-1"), environment).token()
    url = base64.urlsafe_b64decode(token.text + "=" * (-len(token.text) % 4)).decode()
    unsigned, _, rest = url.partition("&X-Amz-Signature=")
    assert rest == f"{signature(unsigned, secret)}&User-Agent=samerack"


def test_no_secret_is_shown() -> None:
    """The representation of credentials shows only the key's id."""
    shown = repr(Credentials(key="AKID", secret="hidden", session="hidden-too"))  # noqa: S106 - of this test
    assert "AKID" in shown
    assert "hidden" not in shown
