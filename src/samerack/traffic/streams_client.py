"""What a Kafka Streams member reports about its instance of the application, on either protocol, as one value.

On the classic protocol it is in the user data of the member's subscription, as of its last join; KIP-1071 members are
described in fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

from samerack.assignors.streams.application import ProcessId
from samerack.protocol.errors import ProtocolError
from samerack.protocol.streams import decode_subscription_info
from samerack.protocol.streams_values import MAX_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsClient:
    """One member's client.

    `process_id` is the instance, of which each thread is a member; "" where an unknown newer version hides it.
    `endpoint` is `application.server`, or "". Tasks are as Kafka writes them (SUBTOPOLOGY_PARTITION): `active` those
    that it runs (classic: ran when it last joined), `standby` those whose state it keeps in addition.
    """

    process_id: str
    endpoint: str
    tags: tuple[tuple[str, str], ...]
    active: tuple[str, ...]
    standby: tuple[str, ...]


def from_subscription(user_data: bytes | None) -> StreamsClient:
    """Decode the client of a member on the classic protocol.

    Raises:
        ProtocolError: The bytes are no subscription info.
    """
    if user_data is None:
        raise ProtocolError("no user data; Kafka Streams always writes some", field="user_data", offset=0)
    info = decode_subscription_info(user_data)
    return StreamsClient(
        process_id=str(info.process_id) if info.version <= MAX_VERSION else "",
        endpoint=info.user_endpoint or "",
        tags=tuple(sorted(info.client_tags)),
        active=tuple(f"{task.subtopology}_{task.partition}" for task in sorted(info.active_tasks)),
        standby=tuple(f"{task.subtopology}_{task.partition}" for task in sorted(info.standby_tasks)),
    )


def process_of(client: StreamsClient | None) -> ProcessId | None:
    """Return the instance of a member, or None if it is not known; brokers keep its id as any text."""
    if client is None or not client.process_id:
        return None
    try:
        return ProcessId(uuid=UUID(client.process_id))
    except ValueError:
        return ProcessId(uuid=uuid5(NAMESPACE_OID, client.process_id))


def from_description(raw: Any) -> StreamsClient:
    """Convert the client of a KIP-1071 member."""
    end = raw.user_endpoint
    return StreamsClient(
        process_id=raw.process_id,
        endpoint=f"{end.host}:{int(end.port)}" if end is not None else "",
        tags=tuple(sorted((tag.key, tag.value) for tag in raw.client_tags)),
        active=_names(raw.assignment.active_tasks),
        standby=_names((*raw.assignment.standby_tasks, *raw.assignment.warmup_tasks)),
    )


def _names(tasks: Iterable[Any]) -> tuple[str, ...]:
    return tuple(f"{task.subtopology_id}_{int(number)}" for task in tasks for number in sorted(task.partitions))
