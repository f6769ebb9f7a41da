"""One small HTTP question: a time limit, a size limit, no proxy, no redirect. Standard library only.

The API server of a cluster, the metadata service of a cloud, whoever gives out tokens and the agent on this machine are
asked seldom: a connection for each question is enough.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import Final, Protocol
from urllib.parse import urlsplit

from common.errors import AgentError

MOST_BYTES: Final = 4 << 20
_PART_BYTES: Final = 1 << 16
_ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - addresses that a server listens on, and ours to ask


class Listening(Protocol):
    """Where a server listens: `web` of the settings, without loading them."""

    @property
    def host(self) -> str:
        """Address or name."""

    @property
    def port(self) -> int:
        """Port."""


class NoAnswerError(AgentError):
    """Nobody answered; the message says at which address and why."""


class NobodyListensError(NoAnswerError):
    """The machine is there, and nobody listens at that port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """Status and body of an answer, and when it was given by the clock of whoever gave it (the header Date, or "")."""

    status: int
    body: bytes
    date: str = ""


def ask(  # noqa: PLR0913 - a question over HTTP has these parts
    url: str,
    path: str,
    *,
    seconds: float,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    tls: ssl.SSLContext | None = None,
    max_bytes: int = MOST_BYTES,
) -> HttpAnswer:
    """The answer to one question.

    Args:
        url: http or https, host and port.
        path: with the query.
        seconds: how long connecting may take, and each step after it; the answer must be whole after that many again.
        method: what to do at the path.
        headers: beyond what HTTP demands.
        body: what is sent with it.
        tls: whom to trust, for https.
        max_bytes: how long the answer may be.

    Raises:
        NobodyListensError: Nobody listens there.
        NoAnswerError: Nobody answers in time, or not in HTTP, or at too great length.
    """
    try:
        address = urlsplit(url)
        connection: HTTPConnection
        if address.scheme == "https":
            connection = HTTPSConnection(address.hostname or "", address.port, timeout=seconds, context=tls)
        else:
            connection = HTTPConnection(address.hostname or "", address.port, timeout=seconds)
    except (ValueError, HTTPException) as error:
        raise NoAnswerError(f"{url}: is no address ({error})") from None
    try:
        connection.request(method, address.path.rstrip("/") + path, body=body, headers=dict(headers or {}))
        with connection.getresponse() as answer:
            content = _content(answer, max_bytes, time.monotonic() + seconds)
    except TimeoutError:
        raise NoAnswerError(f"{url}: no answer within {seconds:g} s") from None
    except ssl.SSLCertVerificationError as error:
        raise NoAnswerError(f"{url}: its certificate is not trusted ({error.verify_message})") from None
    except ValueError:  # whose text would show the header, and that may be a secret
        raise NoAnswerError(f"{url}: the question has characters that HTTP does not allow") from None
    except (OSError, HTTPException) as error:
        kind = NobodyListensError if isinstance(error, ConnectionRefusedError) else NoAnswerError
        raise kind(f"{url}: {getattr(error, 'strerror', None) or str(error) or type(error).__name__}") from None
    finally:
        connection.close()
    if len(content) > max_bytes:
        raise NoAnswerError(f"{url}: answers with more than {max_bytes} bytes")
    return HttpAnswer(status=answer.status, body=content, date=answer.headers.get("Date") or "")


def _content(answer: HTTPResponse, max_bytes: int, until: float) -> bytes:
    """The body, or a little more than is allowed of it.

    Raises:
        TimeoutError: It comes in drips, each of them in time.
        IncompleteRead: It ends too early.
    """
    content = bytearray()
    while len(content) <= max_bytes and (part := answer.read1(min(_PART_BYTES, max_bytes + 1 - len(content)))):
        content += part
        if time.monotonic() > until:
            raise TimeoutError
    if len(content) <= max_bytes and answer.length:
        raise IncompleteRead(bytes(content), answer.length)
    return bytes(content)


def address(web: Listening) -> str:
    """Where the agent of these settings answers."""
    host = _ANY.get(web.host, web.host)
    return f"http://[{host}]:{web.port}" if ":" in host else f"http://{host}:{web.port}"
