"""Opens and closes clients of a cluster.

All clients of a process share what is known of refusals: brokers that refuse one client are not asked by the next one
before a pause is over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from kafka.future import Future
from kafka.net.selector import NetworkSelector

from samerack.auth.identities import TokenError
from samerack.cluster.connections import Connections
from samerack.cluster.diagnosis import Diagnoses, why_hopeless, why_unadvertised
from samerack.cluster.errors import refusal
from samerack.common.attempts import REFUSALS, Attempts
from samerack.common.errors import AgentError, RefusedError, one_line

Identity: TypeAlias = tuple[tuple[str, str], ...]
_IDENTIFYING: Final = ("bootstrap_servers", "security_protocol", "sasl_", "ssl_")


@dataclass(slots=True, kw_only=True)
class _Refused:
    """Why an identity was refused, how often in a row, and until when no client connects as it (monotonic seconds)."""

    text: str = ""
    attempts: Attempts = field(default_factory=lambda: Attempts(REFUSALS))
    until: float = 0.0


class Refusals:
    """Recent refusals, shared by all clients of a process: together they connect no more often than one would."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Identity, _Refused] = {}
        self._let_in = False

    @property
    def auth_status(self) -> str | None:
        """Empty once any client was accepted; before that, why one was refused; None while no client got an answer."""
        with self._lock:
            return "" if self._let_in else next((one.text for one in self._known.values()), None)

    def check(self, identity: Identity) -> None:
        """Raise the last refusal of this identity until its pause is over.

        Raises:
            RefusedError: It was refused recently.
        """
        with self._lock:
            known = self._known.get(identity)
        if known is not None and time.monotonic() < known.until:
            raise RefusedError(known.text)

    def remember(self, identity: Identity, text: str) -> RefusedError:
        """Record that this identity was refused; return the error to raise."""
        with self._lock:
            known = self._known.setdefault(identity, _Refused())
            known.text, known.until = text, time.monotonic() + known.attempts.failed()
        return RefusedError(text)

    def forget(self, identity: Identity) -> None:
        """Record that this identity was accepted."""
        with self._lock:
            self._let_in = True
            self._known.pop(identity, None)


def identity_of(config: Mapping[str, Any]) -> Identity:
    """Return the settings that say where a client connects and as whom."""
    return tuple(sorted((key, str(value)) for key, value in config.items() if key.startswith(_IDENTIFYING)))


_REFUSALS: Final = Refusals()
_DIAGNOSES: Final = Diagnoses()
_LONG_SECONDS: Final = 2.0


class ClusterClient:
    """Connections to the brokers of one cluster, and the thread that serves them."""

    def __init__(self, config: dict[str, Any]) -> None:
        """Prepare with kafka-python's settings; nothing runs before `net.start`."""
        self.net = NetworkSelector(**config)
        self.connections = Connections(self.net, **config)

    def close(self) -> None:
        """Close the connections, and end the thread."""
        self.connections.close()
        self.net.close()


def connect(config: dict[str, Any], timeout: float = 10.0) -> ClusterClient:
    """Return a new client with its network thread running.

    Raises:
        RefusedError: A bootstrap server refuses the agent, the agent refuses the server, or there is no token for it.
        AgentError: No bootstrap server answers within `timeout` seconds, or none will: after the first failure a
            command asks for the causes, see `go_on_trying`. Or none of the brokers accepts a connection.
    """
    identity, servers = identity_of(config), config.get("bootstrap_servers")
    _REFUSALS.check(identity)
    try:
        if tokens := config.get("sasl_oauth_token_provider"):
            tokens.token()  # the reason why there is none is better than that brokers do not answer
    except TokenError as error:
        raise _REFUSALS.remember(identity, f"kafka {servers}: {error}") from error
    client = ClusterClient(config)
    connections = client.connections
    client.net.start()
    if _DIAGNOSES.end_attempts and (hopeless := _why_hopeless(connections, connections.begin(timeout))):
        client.close()
        raise AgentError(f"kafka {hopeless}")
    try:
        client.net.run(connections.begin, timeout)  # waits for the attempt that has begun, or begins it
    except Exception as error:
        client.close()
        last = connections.last_failure or error
        if words := refusal(last, config):
            raise _REFUSALS.remember(identity, f"kafka {servers}: {words}") from error
        found = _DIAGNOSES.of(identity, config)
        said = found or f"{servers}: {one_line(last)}; check kafka.bootstrap.servers and kafka.security.protocol"
        raise AgentError(f"kafka {said}") from error
    _REFUSALS.forget(identity)
    _DIAGNOSES.forget(identity)
    if _DIAGNOSES.end_attempts and (unreachable := why_unadvertised(connections.advertised())):
        client.close()
        raise AgentError(f"kafka {servers}: {unreachable}")
    return client


class SharedClient:
    """One client for many uses, such as the members of many groups: connected by the first that needs it.

    Any thread may ask for it.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Prepare with kafka-python's settings (`auth.kafka_config.for_kafka_python`)."""
        self._config = dict(config)
        self._client: ClusterClient | None = None
        self._failure: tuple[AgentError, float] | None = None
        """Why the last attempt failed, and when it ended (monotonic seconds)."""
        self._lock = threading.Lock()

    def get(self) -> ClusterClient:
        """Return the client; those who waited for an attempt that failed do not make another.

        Raises:
            RefusedError, AgentError: As `connect`.
        """
        asked_at = time.monotonic()
        with self._lock:
            if self._client is None:
                if self._failure is not None and self._failure[1] >= asked_at:
                    raise self._failure[0]
                try:
                    self._client = connect(self._config)
                except AgentError as error:
                    self._failure = error, time.monotonic()
                    raise
            return self._client

    def close(self) -> None:
        """Disconnect; whoever asks later connects anew."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None


def go_on_trying() -> None:
    """Make this process try to connect for the whole time whatever the causes are: an agent outlives an outage."""
    _DIAGNOSES.end_attempts = False


def _why_hopeless(connections: Connections, attempt: Future) -> str:
    """Wait until a connection is made or one has failed, or it takes long; return why no server is worth another."""
    attempt.add_both(lambda _: connections.any_outcome.set())
    connections.any_outcome.wait(_LONG_SECONDS)  # a server that answers, but not with brokers, fails no connection
    if attempt.is_done or refusal(connections.last_failure, connections.config):
        return ""
    why = why_hopeless(connections.config)
    return "" if attempt.is_done else why


def auth_status() -> str | None:
    """Return whether brokers accept this process: empty once they do; else why they refuse; None if not reached."""
    return _REFUSALS.auth_status
