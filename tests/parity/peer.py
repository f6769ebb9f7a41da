"""The Java peer: Kafka's own assignors in one JVM, built on demand and queried over pipes."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

QUIET: Final = "-XX:-UsePerfData"
"""Else a JVM says on standard output when a process of a container holds its file of counters."""
PROJECT = Path(__file__).parents[1] / "java" / "peer"


def built() -> Path:
    """The folder with the peer's classes and jars, built by Maven unless the same sources were built before."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "samerack" / "peer"
    cache.mkdir(parents=True, exist_ok=True)
    sources = sorted(path for path in PROJECT.rglob("*") if path.suffix in (".java", ".xml") and path.is_file())
    wanted = cache / hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not wanted.exists():
            _build(wanted)
    return wanted


def _build(wanted: Path) -> None:
    """Build in a temporary folder and move it to its place when complete."""
    fresh = Path(tempfile.mkdtemp(dir=wanted.parent))
    fresh.chmod(0o755)
    try:
        made = subprocess.run(
            [
                "mvn",
                "--batch-mode",
                "--quiet",
                f"--file={PROJECT}/pom.xml",
                f"-Dsamerack.build={fresh}",
                "compile",
                "dependency:copy-dependencies",
                f"-DoutputDirectory={fresh}/jars",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            raise RuntimeError(f"Maven could not build {PROJECT}:\n{made.stdout}{made.stderr}")
        fresh.rename(wanted)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


class Peer:
    """One JVM with Kafka's assignors; a context manager."""

    def __init__(self, main: str = "Peer", *, heap: str = "512m", jars: Sequence[Path] = ()) -> None:
        """Start it.

        Args:
            main: `Peer` answers for consumer groups, `StreamsPeer` for applications, `JarPeer` asks samerack's jar.
            heap: The heap limit.
            jars: More of them.
        """
        folder = built()
        java = Path(os.environ["JAVA_HOME"]) / "bin" / "java" if "JAVA_HOME" in os.environ else Path("java")
        self._process = subprocess.Popen(
            [
                str(java),
                f"-Xmx{heap}",
                "-XX:+UseSerialGC",
                QUIET,
                "-cp",
                os.pathsep.join([f"{folder}/classes", f"{folder}/jars/*", *map(str, jars)]),
                f"samerack.peer.{main}",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Kafka's answer, in the format that the Java class describes.

        Raises:
            RuntimeError: the JVM died; its messages are on standard error.
        """
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the peer has no pipes")
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the peer died of {json.dumps(question)[:1000]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def kill(self) -> None:
        """Kill the JVM while it answers; a caller that waits in `ask` gets a RuntimeError."""
        self._process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
