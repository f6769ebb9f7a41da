"""Finds out why brokers cannot be reached, with connections of its own: the clients report little more than a timeout.

It is called after a client has failed. It sends what any listener reads without harm (the versions of requests), and
no credentials.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from samerack.cluster.names import LOOKUPS, Address
from samerack.common.errors import one_line

_SECONDS: Final = 1.0
"""Per step: a broker in reach answers the versions of its requests at once."""
_MAX_SERVERS: Final = 3
_AGAIN_SECONDS: Final = 60.0
_TLS_ALERT: Final = b"\x15"
_TLS: Final = ("SSL", "SASL_SSL")
_TLS_OF: Final = {"PLAINTEXT": "SSL, or to SASL_SSL with a login", "SASL_PLAINTEXT": "SASL_SSL"}
_API_VERSIONS: Final = 18
_SASL_HANDSHAKE: Final = 17
_UNSUPPORTED_MECHANISM: Final = 33
_ILLEGAL_STATE: Final = 34
_NO_MECHANISM: Final = b"NONE"
"""No listener offers it: the answer is what it does offer."""
_PORT: Final = 9092


@dataclass(frozen=True, slots=True)
class _Said:
    """What a server sent after a request; `ended` is whether it closed the connection instead of sending more."""

    data: bytes
    ended: bool


class Diagnoses:
    """The causes that were found last, shared by all clients of a process.

    While brokers are away, every client tries to connect again and again; they are not asked for the cause each time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: dict[Hashable, float] = {}
        self._found: dict[Hashable, str] = {}

    def of(self, identity: Hashable, config: Mapping[str, Any]) -> str:
        """Returns what `why_unreachable` finds, or found within the last minute for this identity."""
        with self._lock:
            is_new = self._until.get(identity, float("-inf")) <= time.monotonic()
            if is_new:
                self._until[identity] = time.monotonic() + _AGAIN_SECONDS
        if is_new:
            self._found[identity] = why_unreachable(config)
        return self._found.get(identity, "")

    def forget(self, identity: Hashable) -> None:
        """Brokers were reached: the next failure may have another cause."""
        with self._lock:
            self._until.pop(identity, None)


def why_unreachable(config: Mapping[str, Any]) -> str:
    """Returns cause and cure of the first bootstrap servers that fail, in one line; empty if none is found.

    Args:
        config: kafka-python's settings.
    """
    servers = config.get("bootstrap_servers") or ()
    names: Sequence[str] = servers.split(",") if isinstance(servers, str) else servers
    causes = dict.fromkeys(filter(None, (_cause(name, config) for name in names[:_MAX_SERVERS])))
    return "; ".join(causes)


def _cause(server: str, config: Mapping[str, Any]) -> str:
    host, port = _address(server)
    protocol = str(config.get("security_protocol") or "PLAINTEXT")
    try:
        addresses = LOOKUPS.begin(host, port).result(_SECONDS)
    except socket.gaierror:
        return f"{server}: no such host ({host}); correct kafka.bootstrap.servers, or check the name service"
    except TimeoutError:
        return f"{server}: the name service gives no answer for {host} within {_SECONDS:g} s; check it (DNS)"
    except (OSError, UnicodeError) as error:
        return f"{server}: {host} cannot be looked up ({one_line(error)}); correct kafka.bootstrap.servers"
    try:
        with _connected(addresses) as connection:
            return _of_connection(connection, server, protocol)
    except ConnectionRefusedError:
        return f"{server}: connection refused; check host and port in kafka.bootstrap.servers, and that the broker runs"
    except TimeoutError:
        return f"{server}: no connection within {_SECONDS:g} s; check kafka.bootstrap.servers, routes and firewalls"
    except OSError as error:
        return f"{server}: {error.strerror or error}; check kafka.bootstrap.servers"


def _connected(addresses: Sequence[Address]) -> socket.socket:
    """Returns a connection to the first address that accepts one.

    Raises:
        OSError: None does; the error of the last.
    """
    error = OSError("the host has no address")
    for *_, address in addresses:
        try:
            return socket.create_connection(address[:2], timeout=_SECONDS)  # which is the timeout of all that follows
        except OSError as failed:
            error = failed
    raise error


def _of_connection(connection: socket.socket, server: str, protocol: str) -> str:
    host, _ = _address(server)
    if protocol in _TLS:
        speaks, secured = _with_tls(connection, host)
        if secured is None:
            return "" if speaks else _without_tls(server, protocol)
        with secured:
            return _of_login(secured, server, protocol)
    peer = connection.getpeername()[:2]
    versions = _ask(connection, _API_VERSIONS)
    if versions.data[:1] == _TLS_ALERT or (not versions.data and _speaks_tls_at(peer, host)):
        return f"{server}: TLS is expected there; set kafka.security.protocol to {_TLS_OF[protocol]}"
    if not versions.data:
        if versions.ended:
            return (
                f"{server}: closes the connection without an answer; check that it is a listener of Kafka for clients"
            )
        return f"{server}: connected, but no answer within {_SECONDS:g} s; check that it is a listener of Kafka"
    if not _is_answer(versions.data):
        return f"{server}: what answers is no Kafka broker; check the port in kafka.bootstrap.servers"
    return _of_login(connection, server, protocol)


def _of_login(connection: socket.socket, server: str, protocol: str) -> str:
    """Compares whether the listener expects SASL with whether the settings have it; it names what it offers."""
    said = _ask(connection, _SASL_HANDSHAKE)
    if not _is_answer(said.data) or len(said.data) < 10:
        return ""
    code = int.from_bytes(said.data[8:10], "big")
    if code == _UNSUPPORTED_MECHANISM and protocol in ("PLAINTEXT", "SSL"):
        return (
            f"{server}: SASL is expected there; set kafka.security.protocol to SASL_{protocol}, and "
            f"kafka.sasl.mechanism to one that it offers: {', '.join(_mechanisms(said.data)) or 'none is named'}"
        )
    if code == _ILLEGAL_STATE and protocol not in ("PLAINTEXT", "SSL"):
        return f"{server}: SASL is not expected there; set kafka.security.protocol to {protocol.removeprefix('SASL_')}"
    return ""


def _mechanisms(data: bytes) -> list[str]:
    """Returns the names in a SaslHandshake response, as far as they were read."""
    count, at, names = int.from_bytes(data[10:14], "big"), 14, []
    for _ in range(min(count, 10)):
        size = int.from_bytes(data[at : at + 2], "big")
        name, at = data[at + 2 : at + 2 + size], at + 2 + size
        if len(name) == size:
            names.append(name.decode("ascii", "replace"))
    return names


def _without_tls(server: str, protocol: str) -> str:
    plain = "PLAINTEXT" if protocol == "SSL" else "SASL_PLAINTEXT"
    return f"{server}: no TLS is spoken there; check the port, or set kafka.security.protocol to {plain}"


def _address(server: str) -> tuple[str, int]:
    """Returns host and port of HOST:PORT or [ADDRESS]:PORT."""
    host, _, port = server.strip().rpartition(":")
    return (host.strip("[]"), int(port)) if host and port.isdigit() else (server.strip().strip("[]"), _PORT)


def _ask(connection: socket.socket, key: int) -> _Said:
    """Sends a request that changes nothing, and returns the first that is sent back."""
    version = 1 if key == _SASL_HANDSHAKE else 0
    content = struct.pack(">h", len(_NO_MECHANISM)) + _NO_MECHANISM if key == _SASL_HANDSHAKE else b""
    body = struct.pack(">hhih", key, version, 1, 8) + b"samerack" + content
    try:
        connection.sendall(struct.pack(">i", len(body)) + body)
        data = connection.recv(4096)
    except TimeoutError:
        return _Said(b"", ended=False)
    except OSError:
        return _Said(b"", ended=True)
    return _Said(data, ended=not data)


def _is_answer(data: bytes) -> bool:
    """Returns whether the data begins as a response to the request: its length, and the request's number."""
    return len(data) >= 8 and struct.unpack(">ii", data[:8])[1] == 1


def _speaks_tls_at(peer: tuple[str, int], host: str) -> bool:
    """Returns whether a new connection to the same server starts TLS."""
    with suppress(OSError), socket.create_connection(peer, timeout=_SECONDS) as other:
        speaks, secured = _with_tls(other, host)
        if secured is not None:
            secured.close()
        return speaks
    return False


def _with_tls(connection: socket.socket, host: str) -> tuple[bool, ssl.SSLSocket | None]:
    """Returns whether the other side speaks TLS, and the connection with it; None if it refuses this client's part.

    Nothing is sent that would need trust, so any certificate will do.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        return True, context.wrap_socket(connection, server_hostname=host)
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or ""), None
    except OSError:
        return False, None
