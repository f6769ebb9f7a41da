"""Which groups an agent may join: a pure rule over one description of the group, with the reason for a refusal.

The agent goes by it, and so does what advises to let an agent lead a group.
"""

from __future__ import annotations

from typing import Final

from samerack.cluster.group import CONSUMER, GroupView, endangers
from samerack.cluster.member_order import SOUND_PROTOCOLS, UNSOUND_PROTOCOLS, offers_safe_place
from samerack.settings.leading import STREAMS_PROTOCOLS, LeadingSettings

NO_PLACE: Final = "its leader would give partitions to a member without topics in any position"
"""Why the agent stays out of a group with a sticky assignor until its members have other ids."""


def refusal(view: GroupView, leading: LeadingSettings) -> str:
    """Return why the agent stays out of this group; empty if it may join.

    It joins only groups of protocol type `consumer` that share a protocol name with it and whose present leader
    supports a member without topics. This does not check whether brokers assign the group (`cluster.group_type`).
    """
    if view.protocol_type not in ("", CONSUMER):
        return f"its protocol type is {view.protocol_type!r}, not consumer"
    if not view.stable:
        return ""
    if view.protocol in UNSOUND_PROTOCOLS:
        return unsound(view.protocol)
    if view.protocol not in leading.protocols:
        return foreign_protocol(view.protocol)
    if endangers(view) and not leading.allow_roundrobin_v0:
        return (
            "its members use roundrobin with subscription v0, and kafka-python 3's roundrobin fails on a member "
            "without topics; if none is kafka-python 3, set leading.allow_roundrobin_v0"
        )
    if view.protocol not in SOUND_PROTOCOLS and (reason := foreign(view, leading)):
        return reason
    if not offers_safe_place(view, ""):
        return NO_PLACE
    return ""


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


def foreign(view: GroupView, leading: LeadingSettings, member_id: str = "") -> str:
    """Return a text that names another agent in the group; empty if there is none.

    Another agent is a member without topics and with another instance id: with the same id, joining would just take
    that membership over. In groups with a sound protocol agents are static members; a dynamic member without topics
    there is a consumer whose topics do not exist. The view is without the agent itself; with a `member_id` only that
    member is checked.
    """
    for member in view.members:
        if (
            member.subscription is not None
            and not member.subscription.topics
            and member.instance_id != leading.instance_id
            and (member.instance_id is not None or view.protocol not in SOUND_PROTOCOLS)
            and member_id in ("", member.id)
        ):
            if member.instance_id is None:
                return (
                    f"another agent ({member.id}) is a member, or this agent's former process: its session has to "
                    "expire"
                )
            return (
                f"another agent ({member.instance_id}) is a member; give agents that may lead the same groups the same "
                "leading.instance_id and election.group"
            )
    return ""
