"""Helpers that build the agents' groups as a coordinator describes them, without behaviour of their own."""

from __future__ import annotations

from collections.abc import Iterable

from kafka.protocol.admin.groups import DescribeGroupsResponse

from samerack.cluster.group import DescribedGroup, DescribedMember


def agent(name: str, *, instance: str | None = None, metadata: bytes = b"", assignment: bytes = b"") -> DescribedMember:
    """One member of one of the agents' groups."""
    member: DescribedMember = DescribeGroupsResponse.DescribedGroup.DescribedGroupMember(
        member_id=name, group_instance_id=instance, member_metadata=metadata, member_assignment=assignment
    )
    return member


def agents_group(members: Iterable[DescribedMember], *, stable: bool = True) -> DescribedGroup:
    """One of the agents' groups."""
    group: DescribedGroup = DescribeGroupsResponse.DescribedGroup(
        group_state="Stable" if stable else "PreparingRebalance", members=list(members)
    )
    return group
