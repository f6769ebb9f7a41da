"""Finds the addresses under which brokers may see consumers on this host; containers of one pod share them."""

from __future__ import annotations

import socket

from samerack.election.model import identifies_host


def of_this_host(bootstrap: str) -> tuple[str, ...]:
    """Return the addresses of this host without loopback; empty where none is found.

    Args:
        bootstrap: `bootstrap.servers`; the address from which the first of them would be reached comes first.
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
