"""What requests to all clouds share: files that a cloud mounts, answers in JSON, clocks, a refusal on one line."""

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

from common.bearer import TokenError
from common.fetching import HttpAnswer, NoAnswerError, ask

METADATA_SECONDS: Final = 1.0
"""For each question to an address of this machine's own."""
SECONDS: Final = 3.0
"""For a question that leaves the machine: whoever leads a group must not be held up longer."""
MOST_SKEW_SECONDS: Final = 300.0
"""AWS refuses signatures that are five minutes old, and the others tokens that are not valid yet."""
_MOST_BYTES: Final = 1 << 18
_MOST_TOLD: Final = 300
_MOST_SECONDS: Final = 86_400.0
"""No token is trusted to last longer than a day."""


def asked(who: str, url: str, path: str, **question: Any) -> HttpAnswer:
    """An answer, whatever its status.

    Args:
        who: whom this asks, for people.
        url: where.
        path: what.
        question: the rest, as of `common.fetching.ask`.

    Raises:
        TokenError: There is none.
    """
    try:
        return ask(url, path, max_bytes=_MOST_BYTES, **question)
    except NoAnswerError as error:
        raise TokenError(f"{who} does not answer: {error}") from None


def parsed(who: str, answer: HttpAnswer) -> Mapping[str, Any]:
    """The object in an answer.

    Raises:
        TokenError: It holds none.
    """
    try:
        found = json.loads(answer.body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise TokenError(f"{who} answers with no JSON object; is it that?")
    return found


def bearer(who: str, answer: HttpAnswer) -> tuple[str, float]:
    """An OAuth access token, and for how many seconds it is good.

    Raises:
        TokenError: There is none in the answer.
    """
    found = parsed(who, answer)
    try:
        text, seconds = str(found["access_token"]), float(found["expires_in"])
    except (KeyError, TypeError, ValueError):
        raise TokenError(f"{who} answers without access_token and expires_in; is it that?") from None
    if not text or not seconds > 0:  # NaN is no number of seconds
        raise TokenError(f"{who} answers with a token that is empty or has ended; check the clocks")
    return text, min(seconds, _MOST_SECONDS)


def reason_of(answer: HttpAnswer, *keys: str) -> str:
    """What a refusal says, on one line: the first of the keys that its JSON has, else its text."""
    try:
        found = json.loads(answer.body)
    except ValueError:
        found = None
    texts = [str(found[key]) for key in keys if found.get(key)] if isinstance(found, dict) else []
    text = texts[0] if texts else answer.body.decode(errors="replace")
    return line(text) or "no reason given"


def line(text: str) -> str:
    """A text of others on one line, printable and not too long."""
    shown = "".join(one if one.isprintable() else " " for one in text)
    return " ".join(shown.split())[:_MOST_TOLD]


def file_text(variable: str, path: str) -> str:
    """What stands in a file that an environment variable names; read anew each time, because clouds replace it.

    Raises:
        TokenError: It cannot be read, or is empty.
    """
    try:
        with Path(path).open(encoding="ascii") as file:
            text = file.read(_MOST_BYTES).strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise TokenError(f"{variable}: {path} cannot be read ({reason}); is the pod's token mounted?") from None
    if not text:
        raise TokenError(f"{variable}: {path} is empty; is the pod's token mounted?")
    return text


def check_clock(who: str, answer: HttpAnswer) -> None:
    """Compare this machine's clock with that of whoever answered, where they say the time.

    Raises:
        TokenError: They are too far apart for anything that is signed here, or is valid for a time.
    """
    try:
        ahead = time.time() - parsedate_to_datetime(answer.date).timestamp()
    except (ValueError, TypeError, OverflowError):
        return
    if abs(ahead) > MOST_SKEW_SECONDS:
        raise TokenError(
            f"the clock of this machine is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} that of {who}; "
            "set it (NTP): what is signed or valid by one clock is refused by the other"
        )


def trust(authority: str) -> ssl.SSLContext:
    """Whom to trust for https: a file of authorities, or "" for the system's.

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
    """A URL of the environment: https, or http to this machine or to addresses that cannot be reached from elsewhere.

    Raises:
        TokenError: Secrets would cross a network for everybody to read.
    """
    try:
        address = urlsplit(url)
        host = address.hostname or ""
    except ValueError:
        raise TokenError(f"{variable}: is no URL; correct it") from None
    if host and (address.scheme == "https" or (address.scheme == "http" and (host in near or _is_loopback(host)))):
        return url
    raise TokenError(f"{variable}: {url} is no URL that begins with https://; correct it")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
