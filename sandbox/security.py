"""What makes a sandbox cluster secured: further listeners with TLS or SASL beside the open one, and an authorizer.

The open listener stays for the brokers themselves, the sandbox's administration and its members; whoever comes
through it is the super user. So only who is given a secured address is authenticated, and only that principal needs
permissions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ADMIN_PRINCIPAL: Final = "User:ANONYMOUS"
"""Whoever comes through the open listener."""
AUTHORIZER: Final[Mapping[str, str]] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "false",
    "super.users": ADMIN_PRINCIPAL,
}
"""Properties of every node, the controller's too."""
_PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One more listener of every broker.

    Attributes:
        name: its name, in capitals.
        protocol: SSL, SASL_PLAINTEXT or SASL_SSL.
        properties: properties of this listener alone, without their prefix.
    """

    name: str
    protocol: str
    properties: Mapping[str, str] = field(default_factory=dict)

    def prefixed(self) -> dict[str, str]:
        """Its properties as a broker reads them."""
        given = {"num.network.threads": "1", **self.properties}
        return {f"listener.name.{self.name.lower()}.{key}": value for key, value in given.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How a cluster is secured.

    Attributes:
        listeners: beside the open one.
        authorizer: whether permissions are asked for; nobody has any but the super user.
        options: further options of the JVMs.
        jars: further jars for the brokers, behind Kafka's.
    """

    listeners: tuple[Listener, ...] = ()
    authorizer: bool = False
    options: tuple[str, ...] = ()
    jars: tuple[Path, ...] = ()


def certified(certificate: Path, *, clients: Path | None = None) -> dict[str, str]:
    """Properties of a listener with TLS.

    Args:
        certificate: the broker's key and certificate in one PEM file.
        clients: the authority of the certificates that clients have to show, if they have to.
    """
    shown = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificate)}
    if clients is None:
        return shown
    asked = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(clients)}
    return {**shown, **asked, "ssl.client.auth": "required"}


def plain(users: Mapping[str, str]) -> dict[str, str]:
    """Properties of a listener with SASL PLAIN for these names and passwords."""
    known = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    return {"sasl.enabled.mechanisms": "PLAIN", "plain.sasl.jaas.config": f"{_PLAIN_MODULE} required {known};"}


def scram(mechanism: str) -> dict[str, str]:
    """Properties of a listener with SASL SCRAM; its users are in the cluster's metadata."""
    return {
        "sasl.enabled.mechanisms": mechanism,
        f"{mechanism.lower()}.sasl.jaas.config": f"{_SCRAM_MODULE} required;",
    }


def oauthbearer(keys: str, *, audience: str, reauthenticate_ms: int = 0) -> dict[str, str]:
    """Properties of a listener with SASL OAUTHBEARER.

    Args:
        keys: URL of the keys (JWKS) that sign tokens; the JVM has to be allowed it, see `allowed`.
        audience: for whom tokens have to be.
        reauthenticate_ms: how long a connection lasts without a new token; 0 is for ever.
    """
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
    return {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} required;",
        "oauthbearer.sasl.server.callback.handler.class": handler,
        "sasl.oauthbearer.jwks.endpoint.url": keys,
        "sasl.oauthbearer.expected.audience": audience,
        **({"oauthbearer.connections.max.reauth.ms": str(reauthenticate_ms)} if reauthenticate_ms else {}),
    }


def allowed(*urls: str) -> str:
    """The option of a JVM that may ask these URLs for keys: since Kafka 4 it asks none by itself."""
    return f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={','.join(urls)}"
