"""Finds Java and Kafka's jars, and builds the command lines to start Kafka's programs.

The jars are in the user's cache, where `scripts/setup` puts them, together with an archive of Kafka's parsed classes
(class-data sharing): with it four JVMs start in two seconds on two cores instead of five. `python -m lab.sandbox.jvm`
writes the archive; without it everything works, only more slowly.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from lab.sandbox.errors import SandboxError
from lab.sandbox.processes import end, spawn, tail, wait_for_line
from lab.sandbox.settings import CONTROLLER, NodeSettings, free_ports, new_cluster_id, write_properties

KAFKA_VERSION: Final = "4.3.0"
"""Version of clients and tools."""
BROKER_VERSION: Final = os.environ.get("SANDBOX_KAFKA_VERSION") or KAFKA_VERSION
"""Version of brokers, unless a cluster sets another."""
STARTED: Final = "Kafka Server started"
SPARK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
"""JDK_JAVA_OPTIONS for Spark that runs for minutes: Java compiles quickly, with little optimisation. Without room for
more code than 48 MB, its default for that compiler, it soon throws code of Spark's away and compiles it anew."""

_LOGGING: Final = Path(__file__).parent / "kafka" / "log4j2.yaml"
_HEAP: Final = ("-Xms64m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def cache_folder() -> Path:
    """Return the folder in the user's cache that all of samerack's scripts share."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "samerack"


@cache
def java() -> str:
    """Return the Java program: JAVA_HOME's when that is set, else the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    if found is None:
        raise SandboxError("no Java found in JAVA_HOME or on the PATH; scripts/setup installs one")
    return str(Path(found).resolve())


@cache
def jars(version: str = KAFKA_VERSION) -> tuple[Path, ...]:
    """Return the jars of a Kafka version, sorted: an archive of classes is valid for one order of the class path."""
    folder = cache_folder() / f"kafka-{version}"
    found = tuple(sorted(folder.glob("*.jar")))
    if not found:
        raise SandboxError(f"no Kafka jars in {folder}; scripts/setup puts them there")
    return found


def own_jar(name: str) -> Path:
    """Return one of samerack's own jars."""
    found = cache_folder() / "java" / name
    if not found.exists():
        raise SandboxError(f"{found} is missing; scripts/setup builds it")
    return found


def class_path(*more: Path, version: str = KAFKA_VERSION) -> str:
    """Return the class path: Kafka's jars, then `more`."""
    return os.pathsep.join(str(path) for path in (*jars(version), *more))


def archive(version: str = KAFKA_VERSION) -> Path:
    """Return the path of the archive of classes for this Java and these jars, written or not."""
    seen = "\n".join([java(), *(f"{jar}:{jar.stat().st_mtime_ns}" for jar in jars(version))])
    return jars(version)[0].parent / f"classes-{hashlib.sha256(seen.encode()).hexdigest()[:16]}.jsa"


def command(  # noqa: PLR0913 - one parameter for each part of a command line
    main: str,
    arguments: Sequence[str],
    *,
    folder: Path,
    options: Sequence[str] = (),
    more: Sequence[Path] = (),
    version: str = KAFKA_VERSION,
) -> list[str]:
    """Return the command line of a Kafka program, a class and its arguments.

    Temporary files are in the folder, so that a killed JVM leaves nothing elsewhere; options of the JVM override the
    sandbox's own; `more` are our own jars, after Kafka's on the class path.
    """
    shared = archive(version)
    return [
        java(),
        *_HEAP,
        *([f"-XX:SharedArchiveFile={shared}"] if shared.exists() else []),
        "-XX:-UsePerfData",
        f"-Djava.io.tmpdir={folder}",
        f"-Dlog4j2.configurationFile={_LOGGING}",
        *options,
        "-cp",
        class_path(*more, version=version),
        main,
        *arguments,
    ]


def format_storage(
    properties: Path, cluster_id: str, folder: Path, *, more: Sequence[Path] = (), version: str = KAFKA_VERSION
) -> None:
    """Write the first metadata of a controller (a broker's own storage needs none: see `write_properties`)."""
    arguments = ["format", "--cluster-id", cluster_id, "--config", str(properties)]
    log = folder / "format.log"
    with log.open("wb") as out:
        process = spawn(
            command("kafka.tools.StorageTool", arguments, folder=folder, more=more, version=version),
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        if process.wait(timeout=60) != 0:
            raise SandboxError(f"cannot format the controller's storage:\n{tail(log)}")


def write_archive() -> Path:
    """Write the archive of classes by starting one Kafka node and stopping it again; keep one that exists."""
    target = archive()
    if target.exists():
        return target
    for old in target.parent.glob("classes-*.jsa"):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="samerack-archive-") as name:
        folder = Path(name)
        port, controller_port = free_ports(2)
        cluster_id = new_cluster_id()
        node = NodeSettings(id=CONTROLLER, rack=None, port=port, controller_port=controller_port, combined=True)
        properties = write_properties(folder, node, cluster_id, {})
        format_storage(properties, cluster_id, folder)
        log = folder / "node.log"
        options = [f"-XX:ArchiveClassesAtExit={folder / target.name}"]
        with log.open("wb") as out:
            line = command("kafka.Kafka", [str(properties)], folder=folder, options=options)
            process = spawn(line, stdout=out, stderr=subprocess.STDOUT)
            try:
                wait_for_line(process, log, STARTED, timeout=90)
            finally:
                end(process, timeout=90)
        if not (folder / target.name).exists():
            raise SandboxError(f"Java wrote no archive of classes:\n{tail(log)}")
        # Renamed in one step, so that a JVM that starts meanwhile sees the complete file or none.
        partial = target.with_suffix(f".{os.getpid()}")
        shutil.copyfile(folder / target.name, partial)
        partial.replace(target)
    return target


if __name__ == "__main__":
    started = time.monotonic()
    sys.stdout.write(f"{write_archive()} ({time.monotonic() - started:.1f} s)\n")
