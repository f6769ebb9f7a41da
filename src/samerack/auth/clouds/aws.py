"""Makes tokens for Amazon MSK: a signed request `kafka-cluster:Connect` as text, which the brokers verify with AWS.

Its form is that of AWS's own signers for OAUTHBEARER (aws-msk-iam-sasl-signer-go, -js, -python): the URL of a request
that is never sent, signed for 900 seconds, in base64 without padding. Signing needs no network; credentials may.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Mapping
from functools import cache
from typing import Final

from samerack.auth.bearer import Token, TokenError
from samerack.auth.clouds import aws_credentials
from samerack.auth.clouds.sigv4 import Credentials, presigned, quoted
from samerack.auth.identities import AwsIdentity

CURE: Final = (
    "check that the role's IAM policy allows kafka-cluster:Connect on the cluster (docs/clouds.md), that the cluster "
    "is in the region that the brokers' names or kafka.sasl.oauthbearer.config say, and the clocks"
)
_SECONDS: Final = 900
_EARLY_SECONDS: Final = 1800.0
"""Credentials that expire sooner are replaced when the next token is signed."""
_MIN_SECONDS: Final = 30.0
"""Credentials that expire sooner are not used."""
_AGENT: Final = "samerack"


def fetch(identity: AwsIdentity) -> Token:
    """Make a token for this identity; the process caches the credentials.

    Raises:
        TokenError: There are no credentials.
    """
    return _signer(identity).token()


class Signer:
    """Signs tokens, and caches the credentials until shortly before they expire."""

    def __init__(self, identity: AwsIdentity, environment: Mapping[str, str] = os.environ) -> None:
        self._identity = identity
        self._environment = environment
        self._kept: Credentials | None = None

    def token(self) -> Token:
        """Return a token, valid for 900 seconds or until the credentials expire.

        Raises:
            TokenError: There are no credentials.
        """
        credentials = self._credentials()
        now = time.time()
        url = presigned(
            credentials,
            host=f"kafka.{self._identity.region}.amazonaws.com",
            query={"Action": "kafka-cluster:Connect"},
            service="kafka-cluster",
            region=self._identity.region,
            now=now,
            seconds=_SECONDS,
        )
        # the user agent is for AWS's logs, and is not signed
        text = base64.urlsafe_b64encode(f"{url}&User-Agent={quoted(_AGENT)}".encode()).decode().rstrip("=")
        return Token(text=text, seconds=min(_SECONDS, _left(credentials, now)), principal=credentials.key)

    def _credentials(self) -> Credentials:
        now = time.time()
        if self._kept is None or _left(self._kept, now) < _EARLY_SECONDS:
            try:
                self._kept = aws_credentials.find(self._identity, self._environment)
            except TokenError:
                if self._kept is None or _left(self._kept, now) < _MIN_SECONDS:
                    raise
        return self._kept


@cache
def _signer(identity: AwsIdentity) -> Signer:
    return Signer(identity)


def _left(credentials: Credentials, now: float) -> float:
    return float("inf") if credentials.ends is None else credentials.ends - now
