"""What to do about the tasks of Kafka Streams applications, in sentences that are true for their protocol."""

from __future__ import annotations

from typing import Final

from samerack.settings.cures import command

CLASSIC: Final = (
    "set rack.aware.assignment.strategy=min_traffic and client.rack in every instance; {command} shows what each "
    "strategy would read across racks and move"
)
"""For an application whose members assign its tasks."""

BROKER_ASSIGNED: Final = (
    "the brokers assign its tasks (KIP-1071) and know no racks of replicas: with group.protocol=streams the settings "
    "rack.aware.assignment.* and task.assignor.class of the application have no effect. Assignors in the brokers "
    "(KIP-1357, group.streams.assignors, since Kafka 4.4) cannot help either: their TopologyDescriber names no racks "
    "of replicas. With group.protocol=classic the application can set rack.aware.assignment.strategy and client.rack"
)
"""For an application whose tasks the brokers assign."""


def advice(kind: str, group: str, *, bootstrap: str) -> str:
    """Return what saves traffic across racks; `kind` is streams-classic or streams."""
    if kind == "streams":
        return BROKER_ASSIGNED
    return CLASSIC.format(command=command("streams plan", "--group", group, bootstrap=bootstrap))
