"""Checks that a group without consumers is as without agents: empty, with its offsets, and open to tools.

The functions ask brokers, as operators do; they return a list of violations in words, empty where there is none.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from confluent_kafka import KafkaException

from lab.sandbox.admin import wait_until
from lab.sandbox.chaos.group import Group
from lab.sandbox.errors import SandboxError
from lab.sandbox.group_client import AGENT
from lab.sandbox.members.lines import Partition

TOOL_SECONDS: Final = 2.0
"""Seconds after its last consumer has left in which a group must be as without an agent."""
_STAYS: Final = "kafka-go"
_STAYS_SECONDS: Final = 75.0
"""A member on kafka-go that ends while others leave may join once more while it closes. The coordinator then waits for
it, for its rebalance timeout and its session (40 s were seen), with an agent or without."""


def _consumers(group: Group) -> set[str]:
    """Return the client ids of all members but agents, by the coordinator."""
    return {member.client_id for member in group.describe().members} - {AGENT}


def wait_without_consumers(group: Group) -> None:
    """Wait until the coordinator describes no consumer in the group; agents may still be in it."""
    wait_until(lambda: not _consumers(group), f"no consumer is in {group.name}", timeout=30)


def wait_empty(group: Group, left: float, *, seconds: float) -> list[str]:
    """Wait until the group is empty or deleted, within these seconds from when its last consumer left."""

    def is_empty() -> bool:
        return str(group.describe().state.name) in {"EMPTY", "DEAD"}

    what = f"{group.name} is empty"
    try:
        wait_until(is_empty, what, timeout=max(0.1, left + seconds - time.monotonic()))
    except SandboxError:
        stay = _consumers(group)
        if stay and all(client.startswith(_STAYS) for client in stay):
            with suppress(SandboxError):
                wait_until(is_empty, what, timeout=_STAYS_SECONDS)
                return []
        return [f"{group.name} is not empty {seconds:.0f} s after its last consumer has left: {group.described()}"]
    return []


def check(group: Group, left: float, *, seconds: float = TOOL_SECONDS) -> list[str]:
    """Wait until the group is empty, record its offsets, and set them to their values, as tools reset offsets."""
    return [*wait_empty(group, left, seconds=seconds), *_set(group, group.note_offsets())]


def delete(group: Group) -> list[str]:
    """Delete the group, as `kafka-consumer-groups.sh --delete` does, and set its offsets again."""
    offsets = group.asked.offsets()
    try:
        group.asked.delete()
    except KafkaException as error:
        return [f"{group.name} cannot be deleted: {error}; it is {group.described()}"]
    return _set(group, offsets)


def _set(group: Group, offsets: Mapping[Partition, int]) -> list[str]:
    if not offsets:
        return []  # lost offsets are found in the history
    try:
        group.set_offsets(offsets)
    except KafkaException as error:
        return [f"offsets of {group.name} cannot be reset: {error}; it is {group.described()}"]
    return []
