"""Sockets to brokers whose host names are looked up without making anything else wait.

The system's lookup cannot be interrupted, and a name service that gives no answer holds it for 20 s and more.
kafka-python looks names up in the thread that also sends heartbeats, and no timeout of a connection covers it. Here
each lookup has a thread of its own, and whoever needs the addresses waits as long as it wants to.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from kafka import errors as kafka_errors
from kafka.net.inet import KafkaNetSocket

Address: TypeAlias = tuple[Any, ...]
"""An element of what `socket.getaddrinfo` returns."""
_Key: TypeAlias = tuple[str, int]


_PORT: Final = 9092


def address_of(server: str) -> tuple[str, int]:
    """Return host and port of a bootstrap server; the clients ignore a protocol before it."""
    address = server.strip().rpartition("://")[2]
    host, _, port = address.rpartition(":")
    host, number = (host, int(port)) if host and port.isdigit() else (address, _PORT)
    return host.strip("[]"), number  # of an address


class Lookups:
    """The lookups of a process: those under way, and the last addresses of each host and port."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[_Key, Future[list[Address]]] = {}
        self._found: dict[_Key, list[Address]] = {}
        self._failures: Counter[_Key] = Counter()

    def begin(self, host: str, port: int) -> Future[list[Address]]:
        """Return the addresses to come, or an OSError; one lookup of a host and port runs at a time."""
        key = host, port
        with self._lock:
            running = self._running.get(key)
            if running is not None:
                return running
            future = self._running[key] = Future[list[Address]]()
        threading.Thread(target=self._look_up, args=(key, future), name=f"lookup {host}", daemon=True).start()
        return future

    def last(self, host: str, port: int) -> list[Address]:
        """Return the addresses that the last completed lookup found, another one first after each failure; or none."""
        with self._lock:
            found = self._found.get((host, port), [])
            first = self._failures[host, port] % max(1, len(found))
            return found[first:] + found[:first]

    @contextmanager
    def following_on_failure(self, host: str, port: int) -> Iterator[None]:
        """Have the next connection begin with another address if this one, which an address has accepted, fails."""
        try:
            yield
        except BaseException:  # also where the client is closed because it takes too long
            with self._lock:
                self._failures[host, port] += 1
            raise

    def _look_up(self, key: _Key, future: Future[list[Address]]) -> None:
        found: list[Address] = []
        error: OSError | UnicodeError | None = None
        try:
            found = list(socket.getaddrinfo(*key, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as failed:
            error = failed
        with self._lock:
            self._found[key] = found
            del self._running[key]
        if error is None:
            future.set_result(found)
        else:
            future.set_exception(error)


LOOKUPS: Final = Lookups()


class _EndApart(socket.socket):
    """A socket that does not return a connection's end together with data: the library would lose the data."""

    _has_read = False

    def recv(self, *arguments: Any) -> bytes:
        """Read; at the end, after data, that is a BlockingIOError once."""
        try:
            data = super().recv(*arguments)
        except OSError:
            self._has_read = False
            raise
        if not data and self._has_read:
            self._has_read = False
            raise BlockingIOError
        self._has_read = bool(data)
        return data


class TlsSocket(_EndApart, ssl.SSLSocket):
    """The same for TLS; an `SSLContext` makes it."""


class LookedUp(KafkaNetSocket):  # type: ignore[misc]  # the library is untyped
    """Makes kafka-python's sockets from the addresses that were looked up before; chosen by the scheme `PROXY_URL`."""

    SCHEMES = ("samerack-looked-up",)
    _untried = 1
    """The addresses that are left, with that which is tried."""

    def dns_lookup(self, host: str, port: int, raise_error: bool = False) -> list[Address]:  # noqa: FBT001, FBT002 - the library's
        """Return the addresses of the last lookup."""
        del raise_error
        addresses = LOOKUPS.last(host, port)
        self._untried = len(addresses)
        return addresses

    async def sock_connect(self, net: Any, sock: socket.socket, sockaddr: Any, timeout_at: float | None = None) -> Any:
        """Connect within this address's share of the time: the first one may drop packets, and the next accept.

        The socket is closed where that fails, which the library leaves to the garbage collector.
        """
        if timeout_at is not None:
            now = time.monotonic()
            timeout_at = now + (timeout_at - now) / self._untried
            self._untried -= 1
        try:
            return await super().sock_connect(net, sock, sockaddr, timeout_at=timeout_at)
        except kafka_errors.KafkaTimeoutError as error:
            sock.close()
            raise kafka_errors.KafkaConnectionError("Connection timed out") from error  # so that the next is tried
        except BaseException:
            sock.close()
            raise

    def socket(self, *arguments: Any) -> _EndApart:
        """Return a new socket."""
        return _EndApart(*arguments)


PROXY_URL: Final = f"{LookedUp.SCHEMES[0]}://"
"""kafka-python's `proxy_url` for connections without a proxy whose hosts have been looked up."""
