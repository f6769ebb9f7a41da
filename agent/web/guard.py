"""Which requests may change anything over the agent's port, and which host names requests may use at all.

Only programs on this machine may make changes: the peer is a loopback address or at a Unix socket, the Host header
names a loopback address (a page whose name was rebound to 127.0.0.1 sends another name), and there is no Origin header,
which browsers add to requests of pages. Any client that reaches the port may read, with a known host name: otherwise a
page whose own name was rebound to the agent's address could read it as its own origin.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from samerack.agent.web.body import refusal

_LOCAL: Final = "localhost"
UNIX_PEER: Final = "unix"
"""The address of the peer of a Unix socket, which no peer of another kind of socket can have."""
_CLUSTER: Final = (".svc", ".cluster.local", ".localhost")
"""Suffixes that cannot be registered: of Kubernetes services, and of this machine."""


def refused_change(request: Request, cure: str) -> str:
    """Return why this request must not change anything, with a cure for users of other machines; empty if it may."""
    if request.client is None or (request.client.host != UNIX_PEER and not _is_here(request.client.host)):
        return f"only programs on this machine may ask; {cure}"
    host = _host(request.headers.get("host", ""))
    if host != _LOCAL and not _is_here(host):
        return "host: expected localhost or a loopback address"
    if "origin" in request.headers:
        return "origin: requests from web pages are not allowed"
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


def _is_here(host: str) -> bool:
    address = _address(host)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None  # how a server on :: sees IPv4
    return address is not None and (mapped or address).is_loopback
