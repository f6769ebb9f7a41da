"""Sends one small HTTP request: a time limit, a size limit, no proxy, no redirect. Standard library only.

Requests to a cluster's API server, a cloud's metadata service, a token endpoint or the agent on this machine are rare:
one connection per request is enough.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import Final
from urllib.parse import urlsplit

from samerack.common.errors import AgentError

MAX_BYTES: Final = 4 << 20
_PART_BYTES: Final = 1 << 16
_ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - listening addresses, with the ones to connect to


class NoAnswerError(AgentError):
    """There was no answer; the message has the address and the reason."""


class NotListeningError(NoAnswerError):
    """The machine refused the connection: no process listens at that port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """Status and body of an answer, and its time by the server's clock (the header Date, or "")."""

    status: int
    body: bytes
    date: str = ""


def ask(  # noqa: PLR0913 - an HTTP request has these parts
    url: str,
    path: str,
    *,
    seconds: float,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    tls: ssl.SSLContext | None = None,
    max_bytes: int = MAX_BYTES,
) -> HttpAnswer:
    """Send one request and return the answer.

    Args:
        url: http or https, host and port.
        path: with the query.
        seconds: timeout of connecting and of each step after it; the whole body must arrive within that time again.
        method: HTTP method.
        headers: in addition to those that HTTP requires.
        body: of the request.
        tls: for https.
        max_bytes: maximum length of the answer.

    Raises:
        NotListeningError: The connection was refused.
        NoAnswerError: There is no answer in time, or it is not HTTP, or too long.
    """
    try:
        address = urlsplit(url)
        connection: HTTPConnection
        if address.scheme == "https":
            connection = HTTPSConnection(address.hostname or "", address.port, timeout=seconds, context=tls)
        else:
            connection = HTTPConnection(address.hostname or "", address.port, timeout=seconds)
    except (ValueError, HTTPException) as error:
        raise NoAnswerError(f"{url}: is not a valid address ({error})") from None
    try:
        connection.request(method, address.path.rstrip("/") + path, body=body, headers=dict(headers or {}))
        with connection.getresponse() as answer:
            content = _content(answer, max_bytes, time.monotonic() + seconds)
    except TimeoutError:
        raise NoAnswerError(f"{url}: no answer within {seconds:g} s") from None
    except ssl.SSLCertVerificationError as error:
        raise NoAnswerError(f"{url}: its certificate is not trusted ({error.verify_message})") from None
    except ValueError:  # its text contains the header, which may be a secret
        raise NoAnswerError(f"{url}: the request has characters that HTTP does not allow") from None
    except (OSError, HTTPException) as error:
        kind = NotListeningError if isinstance(error, ConnectionRefusedError) else NoAnswerError
        raise kind(f"{url}: {getattr(error, 'strerror', None) or str(error) or type(error).__name__}") from None
    finally:
        connection.close()
    if len(content) > max_bytes:
        raise NoAnswerError(f"{url}: answers with more than {max_bytes} bytes")
    return HttpAnswer(status=answer.status, body=content, date=answer.headers.get("Date") or "")


def _content(answer: HTTPResponse, max_bytes: int, until: float) -> bytes:
    """Read the body, at most one byte more than allowed; each part may arrive in time, and the whole too late."""
    content = bytearray()
    while len(content) <= max_bytes and (part := answer.read1(min(_PART_BYTES, max_bytes + 1 - len(content)))):
        content += part
        if time.monotonic() > until:
            raise TimeoutError
    if len(content) <= max_bytes and answer.length:
        raise IncompleteRead(bytes(content), answer.length)
    return bytes(content)


def address(host: str, port: int) -> str:
    """Return the URL of an agent that listens on this host and port, which are those of `web` in the settings."""
    return f"http://{with_port(_ANY.get(host, host), port)}"


def with_port(host: str, port: int) -> str:
    """Return a host and port as URLs have them: an IPv6 address is in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
