"""Whether the agent may join a group that it has only observed: by the rule of `cluster.joining`."""

from __future__ import annotations

from samerack.cluster.group import CONSUMER, GroupView, MemberView
from samerack.cluster.joining import refusal
from samerack.protocol.values import Subscription
from samerack.settings.leading import LeadingSettings
from samerack.traffic.snapshot import GroupTraffic


def refusal_of(group: GroupTraffic, leading: LeadingSettings) -> str | None:
    """Return why the agent stays out of a group; empty if it may join, None if the group is not a classic one."""
    if group.kind != "classic":
        return None
    described = GroupView(
        name=group.group,
        state=group.state,
        protocol_type=CONSUMER,
        protocol=group.assignor,
        members=tuple(
            MemberView(
                id=member.id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                subscription=Subscription(version=member.version, topics=tuple(member.topics))
                if member.topics
                else None,
                assigned=member.owned,
            )
            for member in group.members
        ),
    )
    return refusal(described, leading)
