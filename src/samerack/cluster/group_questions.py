"""Builds every request about groups: which there are, who coordinates them, how they are, what they have committed.

It joins no group; `cluster.group_member` does. `cluster.coordinators` finds coordinators, `cluster.wire` sends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from kafka.protocol.admin.groups import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer.group import OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from samerack.cluster.wire import Question, chunked, in_turns

GroupType: TypeAlias = Literal["classic", "consumer", "streams", "share"]
"""The type of a group as brokers name it: classic; consumer (KIP-848); streams (KIP-1071); share (KIP-932)."""


def to_coordinators(
    coordinators: Mapping[str, int], request: Callable[[Sequence[str]], Any], at_once: int
) -> list[Question]:
    """Return the questions to coordinators about their groups in turns, so many groups in each at most.

    `coordinators` has the broker of each group by the group's name; `about` of a question are the names of its groups.
    """
    groups: dict[int, list[str]] = {}
    for group in sorted(coordinators):
        groups.setdefault(coordinators[group], []).append(group)
    parts = [[(broker, chunk) for chunk in chunked(names, at_once)] for broker, names in groups.items()]
    return [Question(broker=broker, request=request(chunk), about=chunk) for broker, chunk in in_turns(parts)]


def list_groups(state: str = "") -> Any:
    """Return the request for the groups that a broker coordinates: all, or those in one state (KIP-518, Kafka 2.6)."""
    if not state:
        return ListGroupsRequest(states_filter=[], types_filter=[])
    return ListGroupsRequest(states_filter=[state], types_filter=[], min_version=4)


def find_coordinators(groups: Sequence[str]) -> Any:
    """Return the request for the coordinators of these groups; brokers before Kafka 3.0 answer for the first one."""
    return FindCoordinatorRequest(key=groups[0], key_type=0, coordinator_keys=list(groups))


def describe_groups(groups: Sequence[str], kind: GroupType = "classic") -> Any:
    """Return the request for descriptions of groups of one type, for their coordinator."""
    if kind == "classic":
        # version 6 returns an error for an absent group; version 5 returns state Dead
        return DescribeGroupsRequest(groups=list(groups), include_authorized_operations=False, max_version=5)
    from samerack.cluster.broker_assigned import MESSAGES, KioRequest  # noqa: PLC0415 - see there

    request, response = MESSAGES[kind]
    return KioRequest(request(group_ids=tuple(groups), include_authorized_operations=False), response)


def share_offsets(groups: Sequence[str]) -> Any:
    """Return the request for where these share groups begin to read, for their coordinator (KIP-932)."""
    from samerack.cluster.broker_assigned import ask_share_offsets  # noqa: PLC0415 - see there

    return ask_share_offsets(groups)


def fetch_offsets(groups: Sequence[str]) -> Any:
    """Return the request for all committed offsets of these groups, for their coordinator."""
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    return OffsetFetchRequest(
        groups=[group(group_id=name, member_id=None, member_epoch=-1, topics=None) for name in groups],
        require_stable=False,
        min_version=8,
        max_version=9,
    )
