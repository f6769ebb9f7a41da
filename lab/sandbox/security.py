"""Security of a sandbox cluster: further listeners with TLS or SASL besides the open one, and an authorizer.

The open listener remains for the brokers themselves, the sandbox's administration and its members; all its clients are
the super user. So only clients that get a secured address are authenticated, and only their principals need
permissions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ADMIN_PRINCIPAL: Final = "User:ANONYMOUS"
"""The principal of all clients of the open listener."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A further listener of every broker: its name in capitals, and properties of its own without their prefix."""

    name: str
    protocol: str
    properties: Mapping[str, str] = field(default_factory=dict)

    def prefixed(self) -> dict[str, str]:
        """Return its properties with the prefix that brokers expect."""
        given = {"num.network.threads": "1", **self.properties}
        return {f"listener.name.{self.name.lower()}.{key}": value for key, value in given.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How a cluster is secured."""

    listeners: tuple[Listener, ...] = ()  # besides the open one
    authorizer: bool = False  # whether permissions are required; only super users have any at first
    super_users: tuple[str, ...] = ()  # beside `ADMIN_PRINCIPAL`, such as `User:orders`
    options: tuple[str, ...] = ()  # of the JVMs
    jars: tuple[Path, ...] = ()  # further ones for the brokers, after Kafka's

    def common(self) -> dict[str, str]:
        """Return properties of every node, the controller's too."""
        if not self.authorizer:
            return {}
        return {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "false",
            "super.users": ";".join((ADMIN_PRINCIPAL, *self.super_users)),
        }
