"""Opens and closes kafka-python's clients.

All clients of a process share what is known of refusals: brokers that refuse one client are not asked by the next one
before a pause is over.
"""

from __future__ import annotations

from typing import Any, Final

from kafka.future import Future
from kafka.net.compat import KafkaNetClient
from kafka.net.selector import NetworkSelector

from samerack.auth.bearer import TokenError
from samerack.cluster.connections import Connections, Refusals, identity_of
from samerack.cluster.diagnosis import Diagnoses, why_hopeless, why_unadvertised
from samerack.cluster.refusals import refusal
from samerack.common.errors import AgentError, one_line

_REFUSALS: Final = Refusals()
_DIAGNOSES: Final = Diagnoses()
_LONG_SECONDS: Final = 2.0


def connect(config: dict[str, Any], timeout: float = 10.0) -> KafkaNetClient:
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
    net = NetworkSelector(**config)
    manager = Connections(net, **config)
    client = KafkaNetClient(net=net, manager=manager, **config)
    net.start()
    milliseconds = round(timeout * 1000)
    if _DIAGNOSES.end_attempts and (hopeless := _why_hopeless(manager, manager.bootstrap_async(milliseconds))):
        close(client)
        raise AgentError(f"kafka {hopeless}")
    try:
        manager.bootstrap(milliseconds, refresh=False)  # waits for the attempt that has begun, or begins it
    except Exception as error:
        close(client)
        last = manager.last_failure or error
        if words := refusal(last, config):
            raise _REFUSALS.remember(identity, f"kafka {servers}: {words}") from error
        found = _DIAGNOSES.of(identity, config)
        said = found or f"{servers}: {one_line(last)}; check kafka.bootstrap.servers and kafka.security.protocol"
        raise AgentError(f"kafka {said}") from error
    _REFUSALS.forget(identity)
    _DIAGNOSES.forget(identity)
    if _DIAGNOSES.end_attempts and (unreachable := why_unadvertised(manager.advertised())):
        close(client)
        raise AgentError(f"kafka {servers}: {unreachable}")
    return client


def go_on_trying() -> None:
    """Make this process try to connect for the whole time whatever the causes are: an agent outlives an outage."""
    _DIAGNOSES.end_attempts = False


def _why_hopeless(manager: Connections, attempt: Future) -> str:
    """Wait until a connection is made or one has failed, or it takes long; return why no server is worth another."""
    attempt.add_both(lambda _: manager.any_outcome.set())
    manager.any_outcome.wait(_LONG_SECONDS)  # a server that answers, but not with brokers, fails no connection
    if attempt.is_done or refusal(manager.last_failure, manager.config):
        return ""
    why = why_hopeless(manager.config)
    return "" if attempt.is_done else why


def reception() -> str | None:
    """Return whether brokers accept this process: empty once they do; else why they refuse; None if not reached."""
    return _REFUSALS.reception


def close(client: KafkaNetClient) -> None:
    """Close connections and stops the network thread."""
    client.close()
