"""Checks that a group without consumers is as without agents: empty, with its offsets, and open to tools.

The functions ask brokers, as operators do; they return a list of violations in words, empty where there is none.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from confluent_kafka import KafkaException

from sandbox.admin import wait_until
from sandbox.chaos.group import AGENT, Group
from sandbox.errors import SandboxError
from sandbox.members.lines import Partition

TOOL_SECONDS: Final = 2.0
"""Seconds after its last consumer has left in which a group must be as without an agent."""
_STAYS: Final = "kafka-go"
_STAYS_SECONDS: Final = 75.0
"""A member on kafka-go that ends while others leave may join once more while it closes. The coordinator then waits for
it, for its rebalance timeout and its session (40 s were seen), with an agent or without."""


def wait_without_consumers(group: Group, own_client_id: str, *, timeout: float = 30.0) -> None:
    """Wait until the coordinator describes no consumer in the group; agents may still be in it.

    Raises:
        SandboxError: A consumer remains.
    """
    wait_until(
        lambda: all(member.client_id == own_client_id for member in group.describe().members),
        f"no consumer is in {group.name}",
        timeout=timeout,
    )


def wait_empty(group: Group, left: float, *, seconds: float) -> list[str]:
    """Wait until the group is empty, or was deleted with its last offset.

    Args:
        group: a group whose consumers have left.
        left: when the last of them left, on the monotonic clock.
        seconds: how long it may take from then.
    """

    def is_empty() -> bool:
        return str(group.describe().state.name) in {"EMPTY", "DEAD"}

    try:
        wait_until(is_empty, f"{group.name} is empty", timeout=max(0.1, left + seconds - time.monotonic()))
    except SandboxError:
        if _only_what_stays(group):
            with suppress(SandboxError):
                wait_until(is_empty, f"{group.name} is empty", timeout=_STAYS_SECONDS)
                return []
        return [f"{group.name} is not empty {seconds:.0f} s after its last consumer has left: {described(group)}"]
    return []


def _only_what_stays(group: Group) -> bool:
    """Returns whether no consumer but such a member is left in the group."""
    clients = {member.client_id for member in group.describe().members} - {AGENT}
    return bool(clients) and all(client.startswith(_STAYS) for client in clients)


def described(group: Group) -> str:
    """Returns the group's state and members, in words."""
    try:
        found = group.describe()
    except KafkaException as error:
        return f"not described: {error}"
    return f"{found.state.name}, members {sorted(member.client_id for member in found.members)}"


def reset_offsets(group: Group) -> list[str]:
    """Set the group's offsets to their values, as `kafka-consumer-groups.sh --reset-offsets --to-current` does."""
    return _set(group, group.coordinator_offsets())


def delete(group: Group) -> list[str]:
    """Delete the group, as `kafka-consumer-groups.sh --delete` does, and set its offsets again."""
    client, offsets = group.ask_groups(), group.coordinator_offsets()
    try:
        client.delete_consumer_groups([group.name], request_timeout=10.0)[group.name].result()
    except KafkaException as error:
        return [f"{group.name} cannot be deleted: {error}; it is {described(group)}"]
    return _set(group, offsets)


def _set(group: Group, offsets: Mapping[Partition, int]) -> list[str]:
    if not offsets:
        return []  # lost offsets are found in the history
    try:
        group.set_offsets(offsets)
    except KafkaException as error:
        return [f"offsets of {group.name} cannot be reset: {error}; it is {described(group)}"]
    return []


def hold_until(monotonic: float) -> None:
    """Sleep until this time of the monotonic clock."""
    time.sleep(max(0.0, monotonic - time.monotonic()))
