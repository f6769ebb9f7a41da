"""Signs URLs ("presigned") of requests without a body with AWS Signature Version 4.

Source: AWS, "Signature Version 4 for API requests" (docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
NO_BODY: Final = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """AWS credentials."""

    key: str  # the access key's id, which is not secret
    secret: str = field(repr=False)
    session: str = field(default="", repr=False)  # token of temporary credentials
    ends: float | None = None  # when they expire, in seconds since 1970; None for never


def presigned(  # noqa: PLR0913 - a signature has that many inputs
    credentials: Credentials,
    *,
    host: str,
    path: str = "/",
    query: Mapping[str, str],
    service: str,
    region: str,
    now: float,
    seconds: int,
    body_hash: str = NO_BODY,
) -> str:
    """Return a signed URL of a GET request; anyone who has it may use it, repeatedly, until it expires.

    Args:
        credentials: to sign with.
        host: of the service.
        path: of the URL, already quoted.
        query: parameters in addition to those of the signature.
        service: its name in signatures.
        region: of the service.
        now: seconds since 1970.
        seconds: how long the URL is valid.
        body_hash: of the body, which is empty.
    """
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    parameters = {
        **query,
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{credentials.key}/{scope}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(seconds),
        "X-Amz-SignedHeaders": "host",
        **({"X-Amz-Security-Token": credentials.session} if credentials.session else {}),
    }
    pairs = sorted((quoted(name), quoted(value)) for name, value in parameters.items())
    asked = "&".join(f"{name}={value}" for name, value in pairs)
    canonical = f"GET\n{path}\n{asked}\nhost:{host}\n\nhost\n{body_hash}"
    text = f"{_ALGORITHM}\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    signature = _keyed(signing_key(credentials.secret, scope), text).hex()
    return f"https://{host}{path}?{asked}&X-Amz-Signature={signature}"


def signing_key(secret: str, scope: str) -> bytes:
    """Return the signing key for one day, region and service, such as `20150830/us-east-1/iam/aws4_request`."""
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = _keyed(key, part)
    return key


def quoted(text: str) -> str:
    """Quote a part of a query as AWS requires: all characters except letters, digits and `-._~` as %XX."""
    return quote(text, safe="-._~")


def _keyed(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
