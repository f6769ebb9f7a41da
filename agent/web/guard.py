"""Which requests may change anything over the agent's port, which host names they may use, and how bodies are limited.

Only programs on this machine may make changes: the peer is 127.0.0.1, ::1 or at a Unix socket (meshes such as Istio
connect from other loopback addresses for other machines), the Host header names a loopback address (a page whose name
was rebound to 127.0.0.1 sends another name), there is no Origin header, which browsers add to requests of pages, and
none that proxies add. Any client that reaches the port may read, with a known host name: otherwise a
page whose own name was rebound to the agent's address could read it as its own origin. It may also open connections and
send slowly: so bodies are read within limits of content type, number of bytes, time, and number at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from samerack.common.words import plain

JSON: Final = "application/json"
_SECONDS: Final = 5.0
_AT_ONCE: Final = 16
_LONGEST_REASON: Final = 500


class RequestError(Exception):
    """A rejected request: the HTTP status of the response, and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status

    def answer(self) -> Response:
        """Return the response."""
        return refusal(self.status, str(self))


def refusal(status: int, reason: str) -> Response:
    """Return a JSON object with the reason, cut to a maximum length and without terminal control characters."""
    text = plain(reason)
    text = text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."
    # after a timeout, close the connection instead of waiting for the rest of the body
    headers = {"connection": "close"} if status == 408 else None
    return JSONResponse({"error": text}, status_code=status, headers=headers)


class BodyReader:
    """Reads the bodies of one route; for use in one event loop."""

    def __init__(
        self, *, max_bytes: int, seconds: float = _SECONDS, at_once: int = _AT_ONCE, wait_seconds: float = 0.0
    ) -> None:
        """Read bodies up to a number of bytes, each within some seconds, and a number of them at the same time.

        One more waits `wait_seconds` for its turn.
        """
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._wait_seconds = wait_seconds
        self._free = asyncio.Semaphore(at_once)

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """Yield the body, whatever length its header claims; it counts as being read until the context ends.

        Raises:
            RequestError: It is not JSON by its content type (415), too long (413), late (408), cut off (400), or one
                too many at the same time (503).
        """
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            raise RequestError(415, f"content-type: expected {JSON}")
        try:
            async with asyncio.timeout(self._wait_seconds):
                await self._free.acquire()
        except TimeoutError:
            raise RequestError(503, "too many other requests are in progress; try again in a few seconds") from None
        try:
            yield await self._in_time(request)
        finally:
            self._free.release()

    async def _in_time(self, request: Request) -> bytes:
        try:
            async with asyncio.timeout(self._seconds):
                return await self._parts(request)
        except TimeoutError:
            raise RequestError(408, f"request body did not arrive within {self._seconds:g} s") from None
        except ClientDisconnect:
            raise RequestError(400, "request body was cut off") from None

    async def _parts(self, request: Request) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for part in request.stream():
            size += len(part)
            if size > self._max_bytes:
                raise RequestError(413, f"request body has more than {self._max_bytes} bytes")
            parts.append(part)
        return b"".join(parts)


_LOCAL: Final = "localhost"
UNIX_PEER: Final = "unix"
"""The address of the peer of a Unix socket, which no peer of another kind of socket can have."""
_HERE: Final = frozenset({UNIX_PEER, "127.0.0.1", "::1", "::ffff:127.0.0.1"})
"""Peers on this machine; the last one is how a server on :: sees IPv4."""
_OF_PROXIES: Final = ("x-forwarded-for", "forwarded", "via", "x-real-ip")
_CLUSTER: Final = (".svc", ".cluster.local", ".localhost")
"""Suffixes that cannot be registered: of Kubernetes services, and of this machine."""


def refused_change(request: Request, cure: str) -> str:
    """Return why this request must not change anything, with a cure for users of other machines; empty if it may."""
    if request.client is None or request.client.host not in _HERE:
        return f"only programs on this machine may ask; {cure}"
    host = _host(request.headers.get("host", ""))
    address = _address(host)
    if host != _LOCAL and (address is None or not address.is_loopback):
        return "host: expected localhost or a loopback address"
    if "origin" in request.headers:
        return "origin: requests from web pages are not allowed"
    if proxied := next((name for name in _OF_PROXIES if name in request.headers), None):
        return f"{proxied}: requests through a proxy are not allowed; {cure}"
    return ""


class KnownHosts:
    """Accepts requests whose Host is an address, a name without dots, of a service, or one of the settings."""

    def __init__(self, app: ASGIApp, *, names: Collection[str]) -> None:
        """Wrap an application; requests may use these host names, too."""
        self._app = app
        self._names = frozenset(name.lower() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 403 if the host name is not known."""
        if scope["type"] == "http":
            host = _host(Request(scope).headers.get("host", ""))
            if not self._is_known(host):
                reason = f"host: {host[:100]!r} is not a name of this agent; add it to web.hosts"
                await refusal(403, reason)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _is_known(self, host: str) -> bool:
        named = not host or "." not in host or host in self._names or host.endswith(_CLUSTER)
        return named or _address(host) is not None


def _host(header: str) -> str:
    """Return the name in a Host header, without port; empty if it is not valid."""
    try:
        return (urlsplit(f"//{header}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """Return an address, without its zone; None if it is a name."""
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None
