"""Tokens for SASL OAUTHBEARER: cached until shortly before they expire, shared by both clients of a process.

The identity (`auth.identities`) decides where a token is fetched; this module decides when.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final

from kafka.net.sasl.oauth import AbstractTokenProvider

from samerack.auth import client_credentials
from samerack.auth.bearer import Token, TokenError
from samerack.auth.clouds import aws, azure, google
from samerack.auth.identities import (
    AwsIdentity,
    AzureManagedIdentity,
    AzureWorkloadIdentity,
    ClientCredentials,
    GoogleIdentity,
    Identity,
)

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
            TokenError: There is none; the source is then not asked again for up to a minute.
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
        kept = self._kept
        # while one thread fetches the next token, others continue with this one
        good = kept is not None and time.monotonic() < kept.valid_until
        if self._lock.acquire(blocking=not good):
            try:
                now = time.monotonic()
                if self._kept is None or now >= self._kept.fresh_until:
                    self._renew(now)
                kept = self._kept
            finally:
                self._lock.release()
        if kept is not None and time.monotonic() < kept.valid_until:
            return kept
        raise TokenError(self._failure)

    def _renew(self, now: float) -> None:
        if now < self._again_at:
            return
        try:
            token = self._fetch()
        except TokenError as error:
            self._failure = str(error)
            self._pause = min(_MAX_PAUSE_SECONDS, max(_MIN_PAUSE_SECONDS, 2 * self._pause))
            self._again_at = now + self._pause
        else:
            self._pause = 0.0
            self._kept = _Kept(token=token, fresh_until=now + _FRESH * token.seconds, valid_until=now + token.seconds)


@cache
def tokens(identity: Identity, extensions: tuple[tuple[str, str], ...] = ()) -> Tokens:
    """Return the provider for this identity, the same for all connections of the process."""
    fetch, cure = _WAYS[type(identity)]
    return Tokens(partial(fetch, identity), extensions=dict(extensions), cure=cure)


_WAYS: Final[Mapping[type, tuple[Callable[[Any], Token], str]]] = {
    ClientCredentials: (client_credentials.fetch, client_credentials.CURE),
    AwsIdentity: (aws.fetch, aws.CURE),
    AzureManagedIdentity: (azure.managed, azure.CURE),
    AzureWorkloadIdentity: (azure.workload, azure.CURE),
    GoogleIdentity: (google.fetch, google.CURE),
}
"""How to fetch a token for each kind of identity, and what to check if the brokers refuse it."""
