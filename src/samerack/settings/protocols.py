"""Which groups an agent may join, as far as the name of their protocol decides: what-if needs that without brokers.

`cluster.joining` has the whole rule.
"""

from __future__ import annotations

from typing import Final

from samerack.settings.leading import STREAMS_PROTOCOLS, LeadingSettings

UNSOUND_PROTOCOLS: Final = frozenset({"RoundRobinAssigner"})
"""Assignors that give partitions to every member, whatever it subscribes to: kafkajs's. Each join of a member without
topics stops such a group for many seconds, so the agent leads it from its first generation or stays out."""


def protocol_refusal(protocol: str, leading: LeadingSettings) -> str:
    """Return why the agent stays out of running groups with this protocol, whoever is in them; empty if it may join."""
    return unsound(protocol) or ("" if protocol in leading.protocols else foreign_protocol(protocol))


def unsound(protocol: str) -> str:
    """Return why the agent never follows a leader with this assignor; empty if it may."""
    if protocol not in UNSOUND_PROTOCOLS:
        return ""
    return (
        f"its leader's assignor {protocol!r} gives partitions to every member, even one without topics; the agent "
        "leads such a group only from its first generation: stop all consumers and start them again"
    )


def foreign_protocol(protocol: str) -> str:
    """Return why the agent stays out of a group with a protocol that it does not offer.

    It does not suggest offering the name: leaders with some assignors, such as Kafka Streams', fail on a member
    without the user data that they expect.
    """
    if protocol in STREAMS_PROTOCOLS:
        return "it is a Kafka Streams application, which assigns its own tasks"
    return f"its members chose protocol {protocol!r}, which the agent does not offer"
