"""Tokens for SASL OAUTHBEARER: cached until shortly before they expire, shared by both clients of a process.

The identity (`auth.identities`) decides where a token is fetched. One for a client id and its secret comes from a token
endpoint (RFC 6749, section 4.4), for kafka-python only: librdkafka fetches its own.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import HTTPSHandler, OpenerDirector, Request, build_opener

from kafka.net.sasl.oauth import AbstractTokenProvider

from samerack.auth import identities
from samerack.auth.clouds import aws, azure, google
from samerack.auth.clouds.asking import valid
from samerack.auth.identities import (
    AwsIdentity,
    AzureManagedIdentity,
    AzureWorkloadIdentity,
    ClientCredentials,
    GoogleIdentity,
    Identity,
    Token,
    TokenError,
)
from samerack.common.errors import one_line

_ENDPOINT_CURE: Final = (
    "check that issuer, audience, scope and signing keys of the token are what the brokers expect, and the clocks"
)
_ANSWER_SECONDS: Final = 3.0
"""Timeout; a longer one could delay the leader of a group too much: its session timeout may be six seconds."""
_MAX_BYTES: Final = 1_000_000
_ENDPOINT: Final = f"kafka.{identities.ENDPOINT}"
_CREDENTIALS: Final = f"kafka.{identities.CLIENT} and kafka.{identities.SECRET}"


def fetch_from_endpoint(identity: ClientCredentials) -> Token:
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
    return valid(where, text, seconds)


def _life(text: str) -> float:
    """Return the seconds until a JWT expires, by its own claim."""
    body = text.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return float(claims["exp"]) - time.time()


_FRESH: Final = 0.75
"""A token is replaced after this share of its life: kafka-python re-authenticates connections after 85 % of theirs,
librdkafka requests another token after 80 %."""
_MIN_PAUSE_SECONDS: Final = 1.0
_MAX_PAUSE_SECONDS: Final = 60.0

Fetch = Callable[[], Token]
"""Gets a token from its source, or raises TokenError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """A token with its times by this process's monotonic clock."""

    token: Token = field(repr=False)
    fresh_until: float
    valid_until: float


class Tokens(AbstractTokenProvider):  # type: ignore[misc]  # the library is untyped
    """The token provider of both clients, for use from any thread."""

    def __init__(self, fetch: Fetch, *, extensions: Mapping[str, str] | None = None, cure: str = "") -> None:
        """Do not fetch a token yet; `cure` is what to check if the brokers refuse one."""
        super().__init__()
        self.cure = cure
        self._fetch = fetch
        self._extensions = dict(extensions or {})
        self._lock = threading.Lock()
        self._kept: _Kept | None = None
        self._failure = ""
        self._pause = 0.0
        self._again_at = 0.0

    def token(self) -> str:
        """Return a valid token, for kafka-python.

        Raises:
            TokenError: The source has no token, and is then not asked again for up to a minute.
        """
        return self._current().token.text

    def extensions(self) -> dict[str, str]:
        """Return the extensions to send to the brokers with the token."""
        return dict(self._extensions)

    def for_librdkafka(self, _config: str = "") -> tuple[str, float, str, dict[str, str]]:
        """Return token, expiry in seconds since 1970, principal (for its log only) and extensions, for `oauth_cb`.

        Raises:
            TokenError: As `token`; librdkafka tries again ten seconds later.
        """
        kept = self._current()
        end = time.time() + kept.valid_until - time.monotonic()
        return kept.token.text, end, kept.token.principal, self.extensions()

    def _current(self) -> _Kept:
        kept, now = self._kept, time.monotonic()
        if kept is None or now >= kept.valid_until:
            self._renew()
            kept = self._kept
        elif now >= max(kept.fresh_until, self._again_at) and not self._lock.locked():
            # nobody waits for the next token while this one is good
            threading.Thread(target=self._renew, name="token", daemon=True).start()
        if kept is not None and time.monotonic() < kept.valid_until:
            return kept
        raise TokenError(self._failure)

    def _renew(self) -> None:
        """Fetch the next token, unless another thread has just done so, or the source failed a moment ago."""
        with self._lock:
            now = time.monotonic()
            if now < self._again_at or (self._kept is not None and now < self._kept.fresh_until):
                return
            try:
                token = self._fetch()
            except TokenError as error:
                self._failure = str(error)
                self._pause = min(_MAX_PAUSE_SECONDS, max(_MIN_PAUSE_SECONDS, 2 * self._pause))
                self._again_at = time.monotonic() + self._pause
            else:
                self._pause = 0.0
                end = now + token.seconds
                self._kept = _Kept(token=token, fresh_until=now + _FRESH * token.seconds, valid_until=end)


@cache
def tokens(identity: Identity, extensions: tuple[tuple[str, str], ...] = ()) -> Tokens:
    """Return the provider for this identity, the same for all connections of the process."""
    fetch, cure = _WAYS[type(identity)]
    return Tokens(partial(fetch, identity), extensions=dict(extensions), cure=cure)


_WAYS: Final[Mapping[type, tuple[Callable[[Any], Token], str]]] = {
    ClientCredentials: (fetch_from_endpoint, _ENDPOINT_CURE),
    AwsIdentity: (aws.fetch, aws.CURE),
    AzureManagedIdentity: (azure.managed, azure.CURE),
    AzureWorkloadIdentity: (azure.workload, azure.CURE),
    GoogleIdentity: (google.fetch, google.CURE),
}
"""How to fetch a token for each kind of identity, and what to check if the brokers refuse it."""
