"""Asks brokers for the type of a group: the agent can lead classic groups only, brokers assign the others (KIP-848)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from samerack.cluster.admin import REQUEST_SECONDS, Admin, error_class, error_text, open_admin
from samerack.cluster.errors import CoordinatorMovesError

_PATIENCE_SECONDS: Final = 3.0
_AGAIN_SECONDS: Final = 0.2


def find_group_type(kafka: Mapping[str, str], group: str, *, patience: float = _PATIENCE_SECONDS) -> str:
    """Returns `group_type`; retries while the group moves from one coordinator to another.

    Each request has its own client: librdkafka continues to ask a broker that no longer coordinates the group.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            return group_type(open_admin(kafka), group)
        except CoordinatorMovesError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_AGAIN_SECONDS)


def group_type(admin: Admin, group: str) -> str:
    """Returns the type of a group: "classic", "consumer" (KIP-848) or another; "unknown" if brokers do not return it.

    Raises:
        CoordinatorMovesError: The group has no coordinator at the moment, or another one.
        NotAllowedError: The agent may not describe the group.
        AgentError: No response.
    """
    try:
        described = admin.answer(admin.describe_consumer_groups([group], request_timeout=REQUEST_SECONDS)[group])
    except (KafkaException, TimeoutError) as error:
        if isinstance(error, KafkaException) and error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            return "classic"
        raise error_class(error)(f"kafka: group {group}: {error_text(error)}") from error
    return str(described.type.name).lower()
