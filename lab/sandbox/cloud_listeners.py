"""Listeners that require tokens as the brokers of clouds do; compiles the classes that check the tokens.

`kafka/MskTokens.java` checks the signature as Amazon MSK does, `kafka/GoogleTokens.java` the format that Google
requires. Tokens of Microsoft Entra are JWTs, which Kafka's own class checks (`lab.sandbox.security.oauthbearer`).
"""

import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from lab.sandbox.errors import SandboxError
from lab.sandbox.jvm import class_path, java
from lab.sandbox.security import oauth_listener

_SOURCES: Final = Path(__file__).parent / "kafka"
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


def _options(cloud: str, known: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"-Dsamerack.{cloud}.{name}={value}" for name, value in known.items())
