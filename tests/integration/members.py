"""Members of consumer groups on many client libraries and Kafka Streams, with the same interface.

The three Python clients come from `sandbox.members`; Java's consumer and Streams application are in
tests/java/consumer, which `scripts/setup` builds into the cache; clients of other languages are in tests/clients,
which `scripts/clients` builds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from sandbox.members.lines import MemberSettings
from sandbox.members.process import PYTHON_CLIENTS, Member

CLIENTS: Final[tuple[str, ...]] = ("java", *PYTHON_CLIENTS)
"""Names for `start`, in addition to those of `sandbox.members.foreign`."""


def start(client: str, settings: MemberSettings) -> Member:
    """Starts a member.

    Args:
        client: one of `CLIENTS`, or a foreign one.
        settings: the same for all clients; properties in Kafka's names.

    Returns:
        The running member, to be stopped by the caller.
    """
    return Member.on(client, settings)


def start_streams(settings: MemberSettings) -> Member:
    """Starts an instance of a Kafka Streams application without state; its group is the application id."""
    return Member.java(settings, main="StreamsMember")


@contextmanager
def running(members: Mapping[str, tuple[str, MemberSettings]]) -> Iterator[dict[str, Member]]:
    """Starts members and stops them at the end, cleanly unless something failed.

    Args:
        members: client and settings by name.
    """
    with ExitStack() as stack:
        yield {name: stack.enter_context(start(client, settings)) for name, (client, settings) in members.items()}


def wait_all(members: Sequence[Member], holds: Callable[[], bool], what: str, *, timeout: float = 45.0) -> None:
    """Waits until a condition on several members holds.

    Raises:
        SandboxError: it does not in time, or the first member ended; with its output.
    """
    members[0].wait(holds, what, timeout=timeout)
