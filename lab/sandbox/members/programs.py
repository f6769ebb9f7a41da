"""Command lines of members: the programs of this package, and those of tests/clients on other and on older clients.

`setup_foreign_clients` in scripts/clients.sh builds the latter into the user's cache. They have the options of the
Python members and print the same lines.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from lab.sandbox.errors import SandboxError
from lab.sandbox.jvm import KAFKA_VERSION, cache_folder, command
from lab.sandbox.members.lines import MemberSettings, command_line

_ROOT: Final = Path(__file__).parents[3]


def java_command(
    settings: MemberSettings,
    *,
    main: str = "Member",
    version: str = KAFKA_VERSION,
    jars: Sequence[Path] = (),
    options: Sequence[str] = (),
) -> list[str]:
    """Return the command line of a program of tests/java/consumer, with further jars and options of the JVM.

    `version` is of Kafka's jars in the cache; `clients-3.4` and `clients-2.8` have only a client.
    """
    jar = _built(cache_folder() / "java" / "consumer.jar")
    return command(
        f"samerack.test.{main}",
        command_line(settings),
        folder=Path(tempfile.gettempdir()),
        options=["-Dlog4j2.configurationFile=member-log4j2.yaml", *options],
        more=[jar, *jars],
        version=version,
    )


def _go(name: str) -> Callable[[MemberSettings], list[str]]:
    return lambda settings: [str(_built(cache_folder() / "clients" / "go" / name)), *command_line(settings)]


def _node(program: str) -> Callable[[MemberSettings], list[str]]:
    def line(settings: MemberSettings) -> list[str]:
        node = shutil.which("node")
        if node is None:
            raise SandboxError("no node on the PATH; scripts/clients installs it")
        return [node, str(_built(cache_folder() / "clients" / "node" / f"{program}.mjs")), *command_line(settings)]

    return line


def _python(program: str) -> Callable[[MemberSettings], list[str]]:
    return lambda settings: [sys.executable, "-m", f"lab.sandbox.members.{program}", *command_line(settings)]


def _older_python(name: str, program: str) -> Callable[[MemberSettings], list[str]]:
    def line(settings: MemberSettings) -> list[str]:
        python = _built(cache_folder() / "clients" / name / "bin" / "python")
        environment = ["env", f"PYTHONPATH={_ROOT}"]  # its own packages, and the sandbox
        return [*environment, str(python), "-m", f"lab.sandbox.members.{program}", *command_line(settings)]

    return line


CLIENTS: Final[Mapping[str, Callable[[MemberSettings], list[str]]]] = {
    "confluent": _python("confluent"),
    "kafka-python": _python("kafka_python"),
    "aiokafka": _python("aiokafka"),
    "java": java_command,
    "java-streams": lambda settings: java_command(settings, main="StreamsMember"),
    "franz-go": _go("franz-go"),
    "sarama": _go("sarama"),
    "kafka-go": _go("kafka-go"),
    "kafkajs": _node("kafkajs"),
    "platformatic": _node("platformatic"),
    "kafka-python-2": _older_python("kafka-python-2", "kafka_python"),
    "confluent-2.13": _older_python("confluent-2.13", "confluent"),
    "java-3.4": lambda settings: java_command(settings, version="clients-3.4"),
    "java-2.8": lambda settings: java_command(settings, version="clients-2.8"),
}
"""Client to the function that returns the command line for a member's settings."""


def _built(program: Path) -> Path:
    if not program.exists():
        raise SandboxError(f"{program} is missing; scripts/clients builds it, and scripts/setup what is Java's")
    return program
