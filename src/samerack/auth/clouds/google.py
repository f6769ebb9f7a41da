"""Fetches tokens for Google's Managed Service for Apache Kafka: a service account's access token in its brokers' form.

Source: Google, "kafka_gcp_credentials_server.py" (github.com/googleapis/managedkafka): header, claims and the token,
each in base64 without padding, separated by dots. GKE also has a metadata server for pods.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Mapping
from typing import Final

from samerack.auth.clouds.asking import METADATA_SECONDS, asked, bearer, check_clock, line, reason_of, secure
from samerack.auth.identities import GoogleIdentity, Token, TokenError
from samerack.common.fetching import HttpAnswer

CURE: Final = (
    "check that the service account has the role roles/managedkafka.client in the cluster's project, and the clocks"
)
_HOST: Final = "metadata.google.internal"
_ACCOUNT: Final = "/computeMetadata/v1/instance/service-accounts/default/"
_FLAVOUR: Final[Mapping[str, str]] = {"Metadata-Flavor": "Google"}
_HEADER: Final[Mapping[str, str]] = {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
_PRINCIPAL: Final = "GOOGLE_MANAGED_KAFKA_AUTH_PRINCIPAL"


def fetch(_: GoogleIdentity, environment: Mapping[str, str] = os.environ) -> Token:
    """Fetch a token of the service account of this machine or pod.

    Raises:
        TokenError: There is no metadata server, or it knows no service account.
    """
    host = environment.get("GCE_METADATA_HOST") or _HOST
    url = secure("GCE_METADATA_HOST", f"http://{host}", near=(_HOST, "169.254.169.254"))
    who = f"Google's metadata server ({url})"
    principal = environment.get(_PRINCIPAL) or line(_asked(who, url, "email").body.decode(errors="replace"))
    if not principal:
        raise TokenError(f"{who} returned no service account; set {_PRINCIPAL} to the principal's name")
    answer = _asked(who, url, "token")
    check_clock(who, answer)
    token = bearer(who, answer)
    now = int(time.time())
    claims = {"exp": now + int(token.seconds), "iss": "Google", "iat": now, "scope": "kafka", "sub": principal}
    text = ".".join(map(_encoded, (json.dumps(_HEADER), json.dumps(claims), token.text)))
    return Token(text=text, seconds=token.seconds, principal=principal)


def _asked(who: str, url: str, what: str) -> HttpAnswer:
    answer = asked(who, url, f"{_ACCOUNT}{what}", seconds=METADATA_SECONDS, headers=_FLAVOUR)
    if answer.status != 200:
        raise TokenError(
            f"{who} answers {answer.status}: {reason_of(answer, 'error_description', 'error')}; give the machine or "
            "the pod's ServiceAccount a service account (docs/clouds.md)"
        )
    return answer


def _encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
