"""Who and where an agent is in the election: the name by which a restarted agent is known, and its host's addresses."""

from __future__ import annotations

import socket
from zlib import crc32

from samerack.election.messages import identifies_host
from samerack.settings.all_settings import Settings


def identity_of(settings: Settings) -> str:
    """Return `election.identity`, or a name of the host and of what distinguishes the agents on it."""
    name = f"{settings.web.port} {' '.join(settings.groups)}"
    return settings.election.identity or f"{socket.gethostname()}-{crc32(name.encode()):08x}"


def of_this_host(bootstrap: str) -> tuple[str, ...]:
    """Return the addresses of this host, as brokers may see consumers on it, without loopback; there may be none.

    The address from which the first of the bootstrap servers would be reached comes first. Containers of one pod share
    them.
    """
    found: list[str] = []
    host, _, port = bootstrap.split(",", maxsplit=1)[0].strip().rpartition("://")[2].rpartition(":")
    if port.isdigit():
        for family, kind, protocol, _, address in _resolved(host.strip("[]"), int(port)):
            try:
                # a datagram socket learns its own address from the routes; nothing is sent
                with socket.socket(family, kind, protocol) as probe:
                    probe.connect(address)
                    found.append(probe.getsockname()[0])
            except OSError:
                continue
    found += [str(address[0]) for *_, address in _resolved(socket.gethostname(), 0)]
    return tuple(dict.fromkeys(address for address in found if identifies_host(address)))


def _resolved(host: str, port: int) -> list[tuple[int, int, int, str, tuple[str, int]]]:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)  # type: ignore[return-value]  # of IPv6 longer
    except OSError:
        return []
