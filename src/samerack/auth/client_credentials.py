"""Fetches tokens for a client id and its secret from a token endpoint (RFC 6749, section 4.4).

For kafka-python; librdkafka fetches its own tokens.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import HTTPSHandler, OpenerDirector, Request, build_opener

from samerack.auth import identities
from samerack.auth.bearer import Token, TokenError
from samerack.auth.identities import ClientCredentials
from samerack.common.errors import one_line

CURE: Final = (
    "check that issuer, audience, scope and signing keys of the token are what the brokers expect, and the clocks"
)
_ANSWER_SECONDS: Final = 3.0
"""Timeout; a longer one could delay the leader of a group too much: its session timeout may be six seconds."""
_MAX_BYTES: Final = 1_000_000
_ENDPOINT: Final = f"kafka.{identities.ENDPOINT}"
_CREDENTIALS: Final = f"kafka.{identities.CLIENT} and kafka.{identities.SECRET}"


def fetch(identity: ClientCredentials) -> Token:
    """Fetch one token from the endpoint.

    Raises:
        TokenError: The endpoint does not answer, refuses, or its answer has no token.
    """
    where = f"{_ENDPOINT} {identity.endpoint}"
    credentials = f"{quote(identity.client_id, safe='')}:{quote(identity.client_secret, safe='')}"
    form = {"grant_type": "client_credentials", **({"scope": identity.scope} if identity.scope else {})}
    request = Request(  # noqa: S310 - the scheme is the user's choice, and checked when settings are read
        identity.endpoint,
        data=urlencode(form).encode(),
        headers={
            "Accept": "application/json",
            "Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
        },
    )
    try:
        with _opener(identity.authority).open(request, timeout=_ANSWER_SECONDS) as answer:
            content = answer.read(_MAX_BYTES)
    except HTTPError as error:
        with error:
            cure = f"check {_CREDENTIALS}" if error.code in (400, 401, 403) else f"check {_ENDPOINT}"
            raise TokenError(f"{where}: answers {error.code} {error.reason}; {cure}") from None
    except URLError as error:
        raise TokenError(f"{where}: {error.reason}; check it, and kafka.https.ca.location if it is https") from None
    except (OSError, HTTPException) as error:
        raise TokenError(f"{where}: {one_line(error)}; check it") from None
    return _read(content, where)


def _opener(authority: str) -> OpenerDirector:
    context = ssl.create_default_context(cafile=authority or None)
    return build_opener(HTTPSHandler(context=context))


def _read(content: bytes, where: str) -> Token:
    """Return the token in an answer; its lifetime is that in the answer, else that in the token itself."""
    try:
        answer: Mapping[str, Any] = json.loads(content)
        text = str(answer["access_token"])
        seconds = float(answer["expires_in"]) if "expires_in" in answer else _life(text)
    except (ValueError, KeyError, TypeError, IndexError):
        raise TokenError(
            f"{where}: its response lacks an access_token with an expiry; is it a token endpoint?"
        ) from None
    return Token(text=text, seconds=seconds)


def _life(text: str) -> float:
    """Return the seconds until a JWT expires, by its own claim."""
    body = text.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return float(claims["exp"]) - time.time()
