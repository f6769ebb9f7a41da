"""AWS Signature Version 4 against AWS's published examples and against another implementation."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.net.sasl.msk import AwsMskIamClient

from samerack.auth.clouds.aws import Credentials, presigned

EXAMPLE = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
S3 = Credentials(key="AKIAIOSFODNN7EXAMPLE", secret=EXAMPLE)


def test_the_published_example_of_a_presigned_url() -> None:
    """AWS, Amazon S3 API Reference, "Authenticating Requests: Using Query Parameters"."""
    url = presigned(
        S3,
        host="examplebucket.s3.amazonaws.com",
        path="/test.txt",
        query={},
        service="s3",
        region="us-east-1",
        now=datetime(2013, 5, 24, tzinfo=UTC).timestamp(),
        seconds=86400,
        body_hash="UNSIGNED-PAYLOAD",
    )
    assert url == (
        "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256"
        "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z"
        "&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
        "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    )


@pytest.mark.parametrize("session", ["", "FwoGZXIvYXdzEJr//////////wEaDPL+/=="])
@given(secret=st.text("abcdefghijklmnopqrstuvwxyzABC+/=0123456789", min_size=1), now=st.integers(0, 4102444800))
def test_kafka_python_signs_alike(session: str, secret: str, now: int) -> None:
    """The signer of kafka-python makes the same signature for the same request, for any secret and time."""
    credentials = Credentials(key="AKIDEXAMPLE", secret=secret, session=session)
    host = "kafka.eu-central-1.amazonaws.com"
    ours = presigned(
        credentials,
        host=host,
        query={"Action": "kafka-cluster:Connect"},
        service="kafka-cluster",
        region="eu-central-1",
        now=now,
        seconds=900,
    )
    theirs = AwsMskIamClient(host, credentials.key, secret, "eu-central-1", session or None)
    at = datetime.fromtimestamp(now, UTC)
    theirs.datestamp, theirs.timestamp = at.strftime("%Y%m%d"), at.strftime("%Y%m%dT%H%M%SZ")
    found = {name: values[0] for name, values in parse_qs(urlsplit(ours).query).items()}
    assert found["X-Amz-Signature"] == json.loads(theirs.first_message())["x-amz-signature"]


def test_no_secret_is_shown() -> None:
    """The representation of credentials shows only the key's id."""
    shown = repr(Credentials(key="AKID", secret="hidden", session="hidden-too"))  # noqa: S106 - of this test
    assert "AKID" in shown
    assert "hidden" not in shown
