"""The code shared by the requests to all clouds: mounted files, JSON answers, clock checks, one-line error texts."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from samerack.auth.identities import Token, TokenError
from samerack.common.fetching import HttpAnswer, NoAnswerError, ask

METADATA_SECONDS: Final = 1.0
"""Timeout of a request to an address that is local to this machine."""
SECONDS: Final = 3.0
"""Timeout of a request that leaves the machine; a longer one could delay the leader of a group too much."""
MAX_SKEW_SECONDS: Final = 300.0
"""AWS refuses signatures that are five minutes old, and the other clouds tokens that are not valid yet."""
_MAX_BYTES: Final = 1 << 18
_MAX_SHOWN: Final = 300
_MAX_SECONDS: Final = 86_400.0
"""A longer life of a token than a day is not trusted."""


def asked(who: str, url: str, path: str, **question: Any) -> HttpAnswer:
    """Send a request and return the answer, whatever its status.

    Args:
        who: name of the server, for error messages.
        url: URL of the server.
        path: path of the request.
        question: the other arguments of `common.fetching.ask`.

    Raises:
        TokenError: There is no answer.
    """
    try:
        return ask(url, path, max_bytes=_MAX_BYTES, **question)
    except NoAnswerError as error:
        raise TokenError(f"{who} does not answer: {error}") from None


def asked_at(who: str, url: str, *, query: str = "", authority: str = "", **question: Any) -> HttpAnswer:
    """Send a request to a whole URL, which may have a path and a query, and return the answer, whatever its status.

    Args:
        who: name of the server, for error messages.
        url: URL of the request.
        query: in place of that of the URL.
        authority: as for `trust`, if the URL is https.
        question: the other arguments of `common.fetching.ask`.

    Raises:
        TokenError: There is no answer.
    """
    address = urlsplit(url)
    query, tls = query or address.query, trust(authority) if address.scheme == "https" else None
    path = f"{address.path or '/'}{f'?{query}' if query else ''}"
    return asked(who, f"{address.scheme}://{address.netloc}", path, tls=tls, **question)


def parsed(who: str, answer: HttpAnswer) -> Mapping[str, Any]:
    """Return the JSON object in an answer.

    Raises:
        TokenError: The answer is not a JSON object.
    """
    try:
        found = json.loads(answer.body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise TokenError(f"{who} did not return a JSON object; is the address right?")
    return found


def bearer(who: str, answer: HttpAnswer) -> Token:
    """Return the OAuth access token in an answer.

    Raises:
        TokenError: The answer has no token.
    """
    found = parsed(who, answer)
    try:
        text, seconds = str(found["access_token"]), float(found["expires_in"])
    except (KeyError, TypeError, ValueError):
        raise TokenError(f"{who} returned neither access_token nor expires_in; is the address right?") from None
    return valid(who, text, seconds)


def valid(who: str, text: str, seconds: float) -> Token:
    """Return a token with its life, which is a day at most.

    Raises:
        TokenError: It is empty or expired.
    """
    if not text or not seconds > 0:  # refuses NaN too
        raise TokenError(f"{who} returned a token that is empty or expired; check the clocks")
    return Token(text=text, seconds=min(seconds, _MAX_SECONDS))


def reason_of(answer: HttpAnswer, *keys: str) -> str:
    """Return the reason in an error answer, on one line: the first of the keys that its JSON has, else its text."""
    try:
        found = json.loads(answer.body)
    except ValueError:
        found = None
    texts = [str(found[key]) for key in keys if found.get(key)] if isinstance(found, dict) else []
    text = texts[0] if texts else answer.body.decode(errors="replace")
    return line(text) or "no reason given"


def line(text: str) -> str:
    """Return a foreign text on one line, printable and shortened."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(shown.split())[:_MAX_SHOWN]


def file_text(variable: str, path: str) -> str:
    """Read a file that an environment variable names; not cached, because clouds replace the file.

    Raises:
        TokenError: It cannot be read, or is empty.
    """
    try:
        with Path(path).open(encoding="ascii") as file:
            text = file.read(_MAX_BYTES).strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise TokenError(f"{variable}: {path} cannot be read ({reason}); is the pod's token mounted?") from None
    if not text:
        raise TokenError(f"{variable}: {path} is empty; is the pod's token mounted?")
    return text


def check_clock(who: str, answer: HttpAnswer) -> None:
    """Compare this machine's clock with the server's, if the answer has a date.

    Raises:
        TokenError: They differ too much for signatures made here, and for tokens with a limited life.
    """
    try:
        ahead = time.time() - parsedate_to_datetime(answer.date).timestamp()
    except (ValueError, TypeError, OverflowError):
        return
    if abs(ahead) > MAX_SKEW_SECONDS:
        raise TokenError(
            f"the clock of this machine is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} that of {who}; "
            "synchronize it (NTP): credentials that are valid by one clock are refused by the other"
        )


def trust(authority: str) -> ssl.SSLContext:
    """Return a TLS context that trusts the CA certificates in a file, or the system's for "".

    Raises:
        TokenError: The file cannot be used.
    """
    try:
        return ssl.create_default_context(cafile=authority or None)
    except OSError as error:  # an SSLError is one
        raise TokenError(
            f"kafka.https.ca.location: {authority}: {error.strerror or error}; it must be a file in PEM"
        ) from None


def secure(variable: str, url: str, *, near: tuple[str, ...] = ()) -> str:
    """Check a URL of the environment: https, or http to this machine or to the local addresses `near`.

    Raises:
        TokenError: Secrets would cross a network unencrypted.
    """
    try:
        address = urlsplit(url)
        host = address.hostname or ""
    except ValueError:
        raise TokenError(f"{variable}: is not a URL; correct it") from None
    if host and (address.scheme == "https" or (address.scheme == "http" and (host in near or _is_loopback(host)))):
        return url
    raise TokenError(f"{variable}: {url} is not a URL that begins with https://; correct it")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
