"""Members of consumer groups on four client libraries and Kafka Streams, all seen through the same interface.

The three Python clients come from `sandbox.members`; Java's consumer and Streams application are small ones of our own
in tests/java/consumer, which `scripts/setup` builds into the cache.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from sandbox.errors import SandboxError
from sandbox.jvm import cache_folder, command
from sandbox.members.lines import MemberSettings, command_line
from sandbox.members.process import PYTHON_CLIENTS, Member

CLIENTS: Final[tuple[str, ...]] = ("java", *PYTHON_CLIENTS)
"""Names for `start`."""


def _java_jar() -> Path:
    jar = cache_folder() / "java" / "consumer.jar"
    if not jar.exists():
        raise SandboxError(f"{jar} is missing; scripts/setup builds it")
    return jar


def start(client: str, settings: MemberSettings) -> Member:
    """Starts a member.

    Args:
        client: one of `CLIENTS`.
        settings: the same for all clients; properties in Kafka's names.

    Returns:
        The running member, to be stopped by the caller.
    """
    return _java("Member", settings) if client == "java" else Member.python(client, settings)


def start_streams(settings: MemberSettings) -> Member:
    """Starts an instance of a Kafka Streams application without state; its group is the application id."""
    return _java("StreamsMember", settings)


def _java(main: str, settings: MemberSettings) -> Member:
    folder = Path(tempfile.gettempdir())
    options = ["-Dlog4j2.configurationFile=member-log4j2.yaml"]
    line = command(f"samerack.test.{main}", command_line(settings), folder=folder, options=options, more=[_java_jar()])
    return Member(line, name=settings.client_id)


@contextmanager
def running(members: Mapping[str, tuple[str, MemberSettings]]) -> Iterator[dict[str, Member]]:
    """Starts members and ends them at the end, in good order unless something failed.

    Args:
        members: name to client and settings.
    """
    with ExitStack() as stack:
        yield {name: stack.enter_context(start(client, settings)) for name, (client, settings) in members.items()}


def wait_all(members: Sequence[Member], holds: Callable[[], bool], what: str, *, timeout: float = 45.0) -> None:
    """Waits until a condition on several members holds.

    Raises:
        SandboxError: it does not in time, or the first member ended; with what it said.
    """
    members[0].wait(holds, what, timeout=timeout)
