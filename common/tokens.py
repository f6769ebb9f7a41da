"""Tokens for SASL OAUTHBEARER: fetched with client credentials (RFC 6749, section 4.4), kept until they near their end.

All of kafka-python's connections of a process with the same settings share one token; librdkafka fetches its own. What
must not enter: a token or secret in a message or a log.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import HTTPSHandler, OpenerDirector, Request, build_opener

from kafka.net.sasl.oauth import AbstractTokenProvider

_ANSWER_SECONDS: Final = 3.0
"""Whoever leads a group must not be held up longer: its session may be six seconds."""
_FRESH: Final = 0.75
"""A token is replaced after this share of its life; connections are authenticated anew after 85 % of theirs."""
_MOST_BYTES: Final = 1_000_000
_LEAST_PAUSE_SECONDS: Final = 1.0
_MOST_PAUSE_SECONDS: Final = 60.0
_ENDPOINT: Final = "kafka.sasl.oauthbearer.token.endpoint.url"
_CREDENTIALS: Final = "kafka.sasl.oauthbearer.client.id and kafka.sasl.oauthbearer.client.secret"


class TokenError(Exception):
    """No token is to be had; the text is cause and cure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSettings:
    """Where tokens come from.

    Attributes:
        endpoint: URL of the token endpoint.
        client_id: who asks.
        client_secret: and how it proves to be that.
        scope: what for, if anything.
        authority: file of the authorities (PEM) that the endpoint's certificate is signed by; "" is the system's.
        extensions: sent to the brokers with each token.
    """

    endpoint: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    authority: str = ""
    extensions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    text: str = field(repr=False)
    fresh_until: float
    valid_until: float


class Tokens(AbstractTokenProvider):  # type: ignore[misc]  # the library is untyped
    """What kafka-python asks for a token at each connection, from any thread."""

    def __init__(self, settings: TokenSettings) -> None:
        super().__init__()
        self._settings = settings
        self._lock = threading.Lock()
        self._token: _Token | None = None
        self._failure = ""
        self._pause = 0.0
        self._again_at = 0.0

    def token(self) -> str:
        """A token that is good for a while.

        Raises:
            TokenError: None is to be had; the endpoint is left alone for up to a minute then.
        """
        with self._lock:
            now = time.monotonic()
            if self._token is None or now >= self._token.fresh_until:
                self._renew(now)
            if self._token is not None and now < self._token.valid_until:
                return self._token.text
            raise TokenError(self._failure)

    def extensions(self) -> dict[str, str]:
        """What goes to the brokers beside the token."""
        return dict(self._settings.extensions)

    def _renew(self, now: float) -> None:
        if now < self._again_at:
            return
        try:
            self._token = fetch(self._settings)
        except TokenError as error:
            self._failure = str(error)
            self._pause = min(_MOST_PAUSE_SECONDS, max(_LEAST_PAUSE_SECONDS, 2 * self._pause))
            self._again_at = now + self._pause
        else:
            self._pause = 0.0


@cache
def tokens(settings: TokenSettings) -> Tokens:
    """The provider for these settings, the same for all connections of the process."""
    return Tokens(settings)


def fetch(settings: TokenSettings) -> _Token:
    """One token from the endpoint.

    Raises:
        TokenError: The endpoint does not answer, refuses, or its answer is no token.
    """
    where = f"{_ENDPOINT} {settings.endpoint}"
    credentials = f"{quote(settings.client_id, safe='')}:{quote(settings.client_secret, safe='')}"
    form = {"grant_type": "client_credentials", **({"scope": settings.scope} if settings.scope else {})}
    request = Request(  # noqa: S310 - whoever sets the endpoint chooses its scheme, checked where settings are read
        settings.endpoint,
        data=urlencode(form).encode(),
        headers={
            "Accept": "application/json",
            "Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
        },
    )
    try:
        with _opener(settings.authority).open(request, timeout=_ANSWER_SECONDS) as answer:
            content = answer.read(_MOST_BYTES)
    except HTTPError as error:
        with error:
            cure = f"check {_CREDENTIALS}" if error.code in (400, 401, 403) else f"check {_ENDPOINT}"
            raise TokenError(f"{where}: answers {error.code} {error.reason}; {cure}") from None
    except URLError as error:
        raise TokenError(f"{where}: {error.reason}; check it, and kafka.https.ca.location if it is https") from None
    except (OSError, HTTPException) as error:
        raise TokenError(f"{where}: {type(error).__name__}: {error}; check it") from None
    return _read(content, where)


def _opener(authority: str) -> OpenerDirector:
    context = ssl.create_default_context(cafile=authority or None)
    return build_opener(HTTPSHandler(context=context))


def _read(content: bytes, where: str) -> _Token:
    """The token in an answer; its life is what the answer says, else what the token itself says."""
    try:
        answer: Mapping[str, Any] = json.loads(content)
        text = str(answer["access_token"])
        seconds = float(answer["expires_in"]) if "expires_in" in answer else _life(text)
    except (ValueError, KeyError, TypeError, IndexError):
        raise TokenError(f"{where}: its answer has no access_token with an end; is it a token endpoint?") from None
    now = time.monotonic()
    return _Token(text=text, fresh_until=now + _FRESH * seconds, valid_until=now + seconds)


def _life(text: str) -> float:
    """Seconds until a JWT ends, by its own claim."""
    body = text.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return float(claims["exp"]) - time.time()
