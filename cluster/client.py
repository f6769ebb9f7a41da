"""Opens and closes kafka-python's clients.

All clients of a process share what is known of refusals: brokers that refuse one client are not asked by the next one
before a pause is over.
"""

from __future__ import annotations

from typing import Any, Final

from kafka.net.compat import KafkaNetClient
from kafka.net.selector import NetworkSelector

from samerack.cluster.connections import Connections, Refusals, identity_of
from samerack.cluster.refusals import refusal
from samerack.common.errors import AgentError

_REFUSALS: Final = Refusals()


def connect(config: dict[str, Any], timeout: float = 10.0) -> KafkaNetClient:
    """Returns a new client with its network thread running.

    Raises:
        RefusedError: A bootstrap server refuses the agent, or the agent refuses the server.
        AgentError: No bootstrap server answers within `timeout` seconds.
    """
    identity = identity_of(config)
    _REFUSALS.check(identity)
    net = NetworkSelector(**config)
    manager = Connections(net, **config)
    client = KafkaNetClient(net=net, manager=manager, **config)
    net.start()
    servers = config.get("bootstrap_servers")
    try:
        manager.bootstrap(timeout_ms=round(timeout * 1000))
    except Exception as error:
        close(client)
        last = manager.last_failure or error
        if words := refusal(last, config):
            raise _REFUSALS.remember(identity, f"kafka {servers}: {words}") from error
        raise AgentError(
            f"kafka {servers}: {type(last).__name__}: {last}; check bootstrap.servers and security.protocol"
        ) from error
    _REFUSALS.forget(identity)
    return client


def reception() -> str | None:
    """Returns whether brokers accept this process: empty once they do; else why they refuse; None if not reached."""
    return _REFUSALS.reception


def close(client: KafkaNetClient) -> None:
    """Closes connections and stops the network thread."""
    client.close()
