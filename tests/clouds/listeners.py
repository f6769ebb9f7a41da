"""Properties of secured listeners: TLS, SASL, and tokens as the brokers of clouds require them.

`MskTokens.java` checks the signature as Amazon MSK does, `GoogleTokens.java` the format that Google requires; both are
compiled here. Tokens of Microsoft Entra are JWTs, which Kafka's own class checks (`oauthbearer`).
"""

import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from lab.sandbox.errors import SandboxError
from lab.sandbox.jvm import class_path, java

_SOURCES: Final = Path(__file__).parent
_PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"
_HANDLERS: Final = "samerack.sandbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class Msk:
    """The credentials that brokers of Amazon MSK accept, and their region; `key` is the id of the access key."""

    region: str
    key: str
    secret: str = field(repr=False)
    session: str = field(repr=False)

    def listener(self, *, reauthenticate_ms: int = 0) -> dict[str, str]:
        """Return the properties of a listener for such tokens; without a new one a connection lasts so long (0: on)."""
        limit = {"oauthbearer.connections.max.reauth.ms": str(reauthenticate_ms)} if reauthenticate_ms else {}
        return {**oauth_listener(f"{_HANDLERS}.MskTokens"), **limit}

    def options(self) -> tuple[str, ...]:
        """Return options of the JVMs."""
        return _options("msk", asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleKafka:
    """The service account, and its access token, that brokers of Google's Managed Service for Apache Kafka accept."""

    account: str
    access: str = field(repr=False)

    def listener(self) -> dict[str, str]:
        """Return the properties of a listener for such tokens."""
        return oauth_listener(f"{_HANDLERS}.GoogleTokens")

    def options(self) -> tuple[str, ...]:
        """Return options of the JVMs."""
        return _options("google", asdict(self))


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


def compiled(folder: Path) -> Path:
    """Compile the classes that check tokens; return their jar, for `Security`."""
    classes = folder / "cloud-classes"
    compiler = [
        str(Path(java()).with_name("javac")),
        "-Xlint:all,-processing,-path,-classfile",
        "-Werror",
        "-proc:none",
    ]
    done = subprocess.run(
        [*compiler, "-cp", class_path(), "-d", str(classes), *map(str, sorted(_SOURCES.glob("*.java")))],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if done.returncode != 0:
        raise SandboxError(f"the classes that check tokens:\n{done.stdout}{done.stderr}")
    jar = folder / "cloud-tokens.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for file in sorted(classes.rglob("*.class")):
            archive.write(file, file.relative_to(classes))
    return jar


def _options(cloud: str, known: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"-Dsamerack.{cloud}.{name}={value}" for name, value in known.items())
