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
_PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"


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
    """How a cluster is secured.

    Attributes:
        listeners: besides the open one.
        authorizer: whether permissions are required; only super users have any at first.
        super_users: principals beside `ADMIN_PRINCIPAL` that may do everything, such as `User:orders`.
        options: further options of the JVMs.
        jars: further jars for the brokers, after Kafka's.
    """

    listeners: tuple[Listener, ...] = ()
    authorizer: bool = False
    super_users: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    jars: tuple[Path, ...] = ()

    def common(self) -> dict[str, str]:
        """Return properties of every node, the controller's too."""
        if not self.authorizer:
            return {}
        return {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "false",
            "super.users": ";".join((ADMIN_PRINCIPAL, *self.super_users)),
        }


def certified(certificate: Path, *, clients: Path | None = None) -> dict[str, str]:
    """Return the properties of a listener with TLS, and a broker's key and certificate in one PEM file.

    `clients` is the authority of clients' certificates, if clients must have one.
    """
    shown = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificate)}
    if clients is None:
        return shown
    asked = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(clients)}
    return {**shown, **asked, "ssl.client.auth": "required"}


def plain(users: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a listener with SASL PLAIN for these names and passwords."""
    known = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    return {"sasl.enabled.mechanisms": "PLAIN", "plain.sasl.jaas.config": f"{_PLAIN_MODULE} required {known};"}


def scram(mechanism: str) -> dict[str, str]:
    """Return the properties of a listener with SASL SCRAM; its users are in the cluster's metadata."""
    return {
        "sasl.enabled.mechanisms": mechanism,
        f"{mechanism.lower()}.sasl.jaas.config": f"{_SCRAM_MODULE} required;",
    }


def oauthbearer(keys: str, *, audience: str) -> dict[str, str]:
    """Return the properties of a listener with SASL OAUTHBEARER for tokens of this audience.

    `keys` is the URL of the keys (JWKS) that sign tokens; the JVM must be allowed to use it, see `allowed`.
    """
    of_tokens = {"sasl.oauthbearer.jwks.endpoint.url": keys, "sasl.oauthbearer.expected.audience": audience}
    return {**oauth_listener(f"{_OAUTH}.OAuthBearerValidatorCallbackHandler"), **of_tokens}


def oauth_listener(handler: str) -> dict[str, str]:
    """Return the properties of a listener with SASL OAUTHBEARER, whose tokens a class checks."""
    return {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "oauthbearer.sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
        "oauthbearer.sasl.server.callback.handler.class": handler,
    }


def allowed(*urls: str) -> str:
    """Return the JVM option that allows these URLs for keys: since Kafka 4 none is allowed by default."""
    return f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={','.join(urls)}"
