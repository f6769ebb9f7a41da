"""Opens and closes kafka-python's clients.

All clients of a process share what is known of refusals: brokers that refuse one client are not asked by the next one
before a pause is over.
"""

from __future__ import annotations

from typing import Any, Final

from kafka.future import Future
from kafka.net.selector import NetworkSelector

from samerack.auth.bearer import TokenError
from samerack.cluster.connections import Connections, Refusals, identity_of
from samerack.cluster.diagnosis import Diagnoses, why_hopeless, why_unadvertised
from samerack.cluster.refusals import refusal
from samerack.common.errors import AgentError, one_line

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
    milliseconds = round(timeout * 1000)
    if _DIAGNOSES.end_attempts and (hopeless := _why_hopeless(connections, connections.bootstrap_async(milliseconds))):
        client.close()
        raise AgentError(f"kafka {hopeless}")
    try:
        connections.bootstrap(milliseconds, refresh=False)  # waits for the attempt that has begun, or begins it
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


def reception() -> str | None:
    """Return whether brokers accept this process: empty once they do; else why they refuse; None if not reached."""
    return _REFUSALS.reception
