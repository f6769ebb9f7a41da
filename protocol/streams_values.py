"""The values that Kafka Streams embeds in JoinGroup and SyncGroup user data, without encoding.

A client sends `SubscriptionInfo` to the leader (with offset sums by KIP-441 and tags by KIP-708); the leader sends
`AssignmentInfo` to a client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from uuid import UUID

MAX_VERSION: Final = 11
"""The newest version of both infos whose fields are known (KIP-708)."""

LATEST_OFFSET: Final = -2
"""Offset sum of a task that ran actively on the client."""

UNKNOWN_OFFSET_SUM: Final = -3
"""Offset sum of a task whose offsets are unknown, as they are before version 7."""

NEVER: Final = 2**63 - 1
"""`next_rebalance_ms` if no rebalance is planned."""

Pairs: TypeAlias = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class StreamsTask:
    """A task id; `topology` is "" unless the topology has a name (since version 10)."""

    topology: str = ""
    subtopology: int
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionInfo:
    """The subscription data of a Streams client, as far as it is used.

    Attributes:
        version: version of the message; if it is newer than known, nothing else is.
        process_id: the client.
        user_endpoint: `application.server` as host:port, or None (since version 2).
        task_offset_sums: offset sum of each task of which it has state (since version 7; before, it is only known
            whether a task was active: LATEST_OFFSET, or UNKNOWN_OFFSET_SUM).
        client_tags: `client.tag.*` (since version 11).
    """

    version: int
    process_id: UUID
    user_endpoint: str | None = None
    task_offset_sums: tuple[tuple[StreamsTask, int], ...] = ()
    client_tags: tuple[tuple[str, str], ...] = ()

    @property
    def active_tasks(self) -> tuple[StreamsTask, ...]:
        """Returns the tasks that it ran."""
        return tuple(task for task, offsets in self.task_offset_sums if offsets == LATEST_OFFSET)

    @property
    def standby_tasks(self) -> tuple[StreamsTask, ...]:
        """Returns the tasks of which it has state and that it did not run."""
        return tuple(task for task, offsets in self.task_offset_sums if offsets != LATEST_OFFSET)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentInfo:
    """The leader's data for a Streams client, as far as it is used, in addition to the partitions of its consumer.

    Attributes:
        active: active tasks, one for each partition that the consumer gets, in the same order.
        standby: standby tasks with the partitions that each would read if it were active.
        next_rebalance_ms: when the client must request another rebalance, in ms since 1970 (since version 7).
    """

    active: tuple[StreamsTask, ...]
    standby: tuple[tuple[StreamsTask, Pairs], ...]
    next_rebalance_ms: int
