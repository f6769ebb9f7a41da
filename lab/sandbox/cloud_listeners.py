"""Listeners that require tokens as the brokers of clouds do; compiles the classes that check the tokens.

`kafka/MskTokens.java` checks the signature as Amazon MSK does, `kafka/GoogleTokens.java` the format that Google
requires. Tokens of Microsoft Entra are JWTs, which Kafka's own class checks (`lab.sandbox.security.oauthbearer`).
"""

import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lab.sandbox.errors import SandboxError
from lab.sandbox.jvm import class_path, java
from lab.sandbox.security import OAUTH_MODULE

_SOURCES: Final = Path(__file__).parent / "kafka"


@dataclass(frozen=True, slots=True, kw_only=True)
class Msk:
    """The credentials that brokers of Amazon MSK accept, and their region.

    Attributes:
        region: of the cluster.
        key: the access key's id.
        secret: the access key.
        session: token of the session.
    """

    region: str
    key: str
    secret: str = field(repr=False)
    session: str = field(repr=False)

    def listener(self, *, reauthenticate_ms: int = 0) -> dict[str, str]:
        """Return the properties of a listener with SASL OAUTHBEARER for such tokens.

        Args:
            reauthenticate_ms: how long a connection lasts without a new token; 0 is without limit.
        """
        return _listener("MskTokens", reauthenticate_ms)

    def options(self) -> tuple[str, ...]:
        """Return options of the JVMs."""
        known = {"region": self.region, "key": self.key, "secret": self.secret, "session": self.session}
        return _options("msk", known)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleKafka:
    """The credentials that brokers of Google's Managed Service for Apache Kafka accept.

    Attributes:
        account: the service account.
        access: its access token.
    """

    account: str
    access: str = field(repr=False)

    def listener(self) -> dict[str, str]:
        """Return the properties of a listener with SASL OAUTHBEARER for such tokens."""
        return _listener("GoogleTokens", 0)

    def options(self) -> tuple[str, ...]:
        """Return options of the JVMs."""
        return _options("google", {"account": self.account, "access": self.access})


def compiled(folder: Path) -> Path:
    """Compile the classes that check tokens; return their jar, for `lab.sandbox.security.Security`."""
    classes = folder / "cloud-classes"
    compiler = [
        str(Path(java()).with_name("javac")),
        "-Xlint:all,-processing,-path,-classfile",
        "-Werror",
        "-proc:none",
    ]
    done = subprocess.run(  # noqa: S603 - a fixed program, without a shell
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


def _listener(handler: str, reauthenticate_ms: int) -> dict[str, str]:
    return {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} required;",
        "oauthbearer.sasl.server.callback.handler.class": f"samerack.sandbox.{handler}",
        **({"oauthbearer.connections.max.reauth.ms": str(reauthenticate_ms)} if reauthenticate_ms else {}),
    }


def _options(cloud: str, known: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"-Dsamerack.{cloud}.{name}={value}" for name, value in known.items())
