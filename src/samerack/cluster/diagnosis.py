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
from collections.abc import Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from samerack.cluster.names import LOOKUPS, Address, address_of
from samerack.common.errors import one_line

_SECONDS: Final = 1.0
"""Per step: a broker in reach answers the versions of its requests at once."""
_MAX_SERVERS: Final = 3
_MAX_BYTES: Final = 4096
"""As much of an answer is read; the versions of all requests are 600 bytes."""
_AGAIN_SECONDS: Final = 60.0
_TLS_ALERT: Final = b"\x15"
_TLS: Final = ("SSL", "SASL_SSL")
_TLS_OF: Final = {"PLAINTEXT": "SSL, or to SASL_SSL with a login", "SASL_PLAINTEXT": "SASL_SSL"}
_API_VERSIONS: Final = 18
_METADATA: Final = 3
_BROKER_REGISTRATION: Final = 62
"""A KRaft controller takes it, and no listener for clients does."""
_CONTROLLER: Final = (
    "is a KRaft controller's listener, which serves no clients; set kafka.bootstrap.servers to an address in a "
    "broker's advertised.listeners"
)
_MAX_BROKERS: Final = 16
_MAX_SHOWN: Final = 3
_SASL_HANDSHAKE: Final = 17
_UNSUPPORTED_MECHANISM: Final = 33
_ILLEGAL_STATE: Final = 34
_NO_MECHANISM: Final = b"NONE"
"""No listener offers it: the answer is what it does offer."""


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
        self.end_attempts = True
        """Whether an attempt ends where no server is worth another: so a command does, while an agent goes on."""
        self._lock = threading.Lock()
        self._until: dict[Hashable, float] = {}
        self._found: dict[Hashable, str] = {}

    def of(self, identity: Hashable, config: Mapping[str, Any]) -> str:
        """Return what `why_unreachable` finds, or found within the last minute for this identity."""
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


class _SilentError(Exception):
    """There was no answer within a second; there may be one later."""


def why_unreachable(config: Mapping[str, Any]) -> str:
    """Return cause and cure of the first bootstrap servers that fail, in one line; empty if none is found."""
    return _in_one_line(_cause(server, config)[0] for server in _servers(config)[:_MAX_SERVERS])


def why_hopeless(config: Mapping[str, Any]) -> str:
    """Return the same if no server is worth another attempt; empty if one of them may answer later."""
    causes = []
    for server in _servers(config):
        cause, is_certain = _cause(server, config)
        if not cause or not is_certain:
            return ""
        causes.append(cause)
    return _in_one_line(causes[:_MAX_SERVERS])


def why_unadvertised(advertised: Iterable[tuple[str, int]]) -> str:
    """Return why none of the addresses that brokers advertise accepts a connection, and the cure; empty if one does.

    All are tried at once; an address that is only silent may be far, but so it is for every request.
    """
    tried = sorted(set(advertised))[:_MAX_BROKERS]
    if not tried:
        return ""
    with ThreadPoolExecutor(max_workers=len(tried), thread_name_prefix="advertised") as pool:
        faults = list(pool.map(_fault_of_address, tried))
    if "" in faults:
        return ""
    reasons = [f"{host}:{port} ({fault})" for (host, port), fault in zip(tried, faults, strict=True)]
    shown = ", ".join(reasons[:_MAX_SHOWN])
    more = f" and {len(tried) - _MAX_SHOWN} more" if len(tried) > _MAX_SHOWN else ""
    return (
        f"connected, but the addresses that its brokers advertise cannot be reached from here: {shown}{more}; correct "
        "advertised.listeners of the brokers, or set kafka.bootstrap.servers to a listener that advertises others"
    )


def _fault_of_address(address: tuple[str, int]) -> str:
    """Return why an address accepts no connection; "" if it does."""
    try:
        _connected(LOOKUPS.begin(*address).result(_SECONDS)).close()
    except ConnectionRefusedError:
        return "connection refused"
    except socket.gaierror:
        return "no such host"
    except TimeoutError:
        return f"no connection within {_SECONDS:g} s"
    except (OSError, UnicodeError) as error:
        return one_line(error)
    return ""


def _servers(config: Mapping[str, Any]) -> Sequence[str]:
    servers = config.get("bootstrap_servers") or ()
    return servers.split(",") if isinstance(servers, str) else tuple(servers)


def _in_one_line(causes: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, causes)))


def _cause(server: str, config: Mapping[str, Any]) -> tuple[str, bool]:
    """Return why a server cannot be reached, with the cure, and whether that is certain; "" if no fault is found.

    A server that only was silent may answer the next time.
    """
    server = server.strip()
    host, port = address_of(server)
    name = server if server.endswith(f":{port}") else f"{server} (no port given, {port} was tried)"
    protocol = str(config.get("security_protocol") or "PLAINTEXT")
    try:
        fault, is_certain = _fault(host, port, protocol), True
    except _SilentError as error:
        fault, is_certain = str(error), False
    return f"{name}: {fault}" if fault else "", is_certain


def _fault(host: str, port: int, protocol: str) -> str:
    """Return what is wrong with a server, and the cure; "" if nothing is. A silent server is a _SilentError."""
    try:
        addresses = LOOKUPS.begin(host, port).result(_SECONDS)
    except socket.gaierror:
        return f"no such host ({host}); correct kafka.bootstrap.servers, or check DNS"
    except TimeoutError:
        raise _SilentError(f"DNS does not answer for {host} within {_SECONDS:g} s; check the name server") from None
    except (OSError, UnicodeError) as error:
        return f"{host} cannot be resolved ({one_line(error)}); correct kafka.bootstrap.servers"
    try:
        connection = _connected(addresses)
    except ConnectionRefusedError:
        return "connection refused; check host and port in kafka.bootstrap.servers, and that the broker runs"
    except TimeoutError:
        raise _SilentError(
            f"no connection within {_SECONDS:g} s; check kafka.bootstrap.servers, routes and firewalls"
        ) from None
    except OSError as error:
        return f"{error.strerror or error}; check kafka.bootstrap.servers"
    with connection:
        return _of_connection(connection, host, protocol)


def _connected(addresses: Sequence[Address]) -> socket.socket:
    """Return a connection to the first address that accepts one; raise the last error if none does."""
    error = OSError("the host has no address")
    for *_, address in addresses:
        try:
            return socket.create_connection(address[:2], timeout=_SECONDS)  # which is the timeout of all that follows
        except OSError as failed:
            error = failed
    raise error


def _of_connection(connection: socket.socket, host: str, protocol: str) -> str:
    if protocol in _TLS:
        try:
            speaks, secured = _with_tls(connection, host)
        except TimeoutError:
            raise _SilentError(f"connected, but no TLS within {_SECONDS:g} s; check that it is a listener") from None
        if secured is None:
            plain = "PLAINTEXT" if protocol == "SSL" else "SASL_PLAINTEXT"
            return (
                ""
                if speaks
                else f"the server does not use TLS; check the port, or set kafka.security.protocol to {plain}"
            )
        with secured:
            return _CONTROLLER if _is_controller(_ask(secured, _API_VERSIONS).data) else _of_login(secured, protocol)
    peer = connection.getpeername()[:2]
    versions = _ask(connection, _API_VERSIONS)
    if versions.data[:1] == _TLS_ALERT or (not versions.data and _speaks_tls_at(peer, host)):
        return f"the server expects TLS; set kafka.security.protocol to {_TLS_OF[protocol]}"
    if not versions.data:
        if versions.ended:
            return "closes the connection without a response; check that it is a Kafka listener for clients"
        raise _SilentError(f"connected, but no answer within {_SECONDS:g} s; check that it is a Kafka listener")
    if not _is_answer(versions.data):
        return "the server there is not a Kafka broker; check the port in kafka.bootstrap.servers"
    if _is_controller(versions.data):
        return _CONTROLLER
    return _of_login(connection, protocol)


def _of_login(connection: socket.socket, protocol: str) -> str:
    """Compare whether the listener expects SASL with whether the settings have it; it names what it offers."""
    said = _ask(connection, _SASL_HANDSHAKE)
    if not _is_answer(said.data) or len(said.data) < 10:
        return ""
    code = int.from_bytes(said.data[8:10], "big")
    if code == _UNSUPPORTED_MECHANISM and protocol in ("PLAINTEXT", "SSL"):
        return (
            f"the server expects SASL; set kafka.security.protocol to SASL_{protocol}, and kafka.sasl.mechanism to one "
            f"that it offers: {', '.join(_mechanisms(said.data)) or 'none listed'}"
        )
    if code == _ILLEGAL_STATE and protocol not in ("PLAINTEXT", "SSL"):
        return f"the server does not expect SASL; set kafka.security.protocol to {protocol.removeprefix('SASL_')}"
    return ""


def _mechanisms(data: bytes) -> list[str]:
    """Return the names in a SaslHandshake response, as far as they were read."""
    count, at, names = int.from_bytes(data[10:14], "big"), 14, []
    for _ in range(min(count, 10)):
        size = int.from_bytes(data[at : at + 2], "big")
        name, at = data[at + 2 : at + 2 + size], at + 2 + size
        if len(name) == size:
            names.append(name.decode("ascii", "replace"))
    return names


def _ask(connection: socket.socket, key: int) -> _Said:
    """Send a request that changes nothing, and return the first that is sent back."""
    version = 1 if key == _SASL_HANDSHAKE else 0
    content = struct.pack(">h", len(_NO_MECHANISM)) + _NO_MECHANISM if key == _SASL_HANDSHAKE else b""
    body = struct.pack(">hhih", key, version, 1, 8) + b"samerack" + content
    try:
        connection.sendall(struct.pack(">i", len(body)) + body)
        data = connection.recv(_MAX_BYTES)
        while _is_answer(data) and len(data) < min(_MAX_BYTES, 4 + int.from_bytes(data[:4], "big")):
            if not (more := connection.recv(_MAX_BYTES - len(data))):
                break
            data += more
    except TimeoutError:
        return _Said(b"", ended=False)
    except OSError:
        return _Said(b"", ended=True)
    return _Said(data, ended=not data)


def _is_controller(data: bytes) -> bool:
    """Return whether an ApiVersions response is a KRaft controller's: it has no Metadata."""
    if not _is_answer(data) or len(data) < 14 or data[8:10] != b"\0\0":
        return False
    rows = data[14 : 14 + 6 * int.from_bytes(data[10:14], "big")]
    keys = {key for key, _, _ in struct.iter_unpack(">hhh", rows[: len(rows) // 6 * 6])}
    return _BROKER_REGISTRATION in keys and _METADATA not in keys


def _is_answer(data: bytes) -> bool:
    """Return whether the data begins as a response to the request: its length, and the request's number."""
    return len(data) >= 8 and struct.unpack(">ii", data[:8])[1] == 1


def _speaks_tls_at(peer: tuple[str, int], host: str) -> bool:
    """Return whether a new connection to the same server starts TLS."""
    with suppress(OSError), socket.create_connection(peer, timeout=_SECONDS) as other:
        speaks, secured = _with_tls(other, host)
        if secured is not None:
            secured.close()
        return speaks
    return False


def _with_tls(connection: socket.socket, host: str) -> tuple[bool, ssl.SSLSocket | None]:
    """Return whether the other side speaks TLS, and the connection with it; None if it refuses this client's part.

    Nothing is sent that would need trust, so any certificate will do. Silence is a TimeoutError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        return True, context.wrap_socket(connection, server_hostname=host)
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or ""), None
    except TimeoutError:
        raise
    except OSError:
        return False, None
