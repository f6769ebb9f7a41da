"""Describes the agents' own groups, with one request to each coordinator, over a client that the caller opens.

A group that cannot be described is a value, not an exception, so that the other groups are described.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient

from samerack.cluster.coordinators import MAX_GROUPS_PER_REQUEST, Coordinators
from samerack.cluster.group import STABLE
from samerack.cluster.group_questions import describe_groups, to_coordinators
from samerack.cluster.wire import ask


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedAgent:
    """One member of one of the agents' groups; `metadata` is empty while the group rebalances."""

    id: str
    instance_id: str | None
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedAgents:
    """One of the agents' groups as its coordinator describes it."""

    stable: bool
    members: tuple[DescribedAgent, ...]


Answer = DescribedAgents | Exception
"""A description, or the error in place of it."""


class GroupAsker:
    """Describes groups over one client and remembers their coordinators. One thread may use it at a time."""

    def __init__(self, client: KafkaNetClient) -> None:
        """Prepare.

        Args:
            client: an open client.
        """
        self._ask = partial(ask, client)
        self._coordinators = Coordinators(self._ask)

    def describe(self, groups: Sequence[str], timeout: float = 5.0) -> dict[str, Answer]:
        """Describe groups.

        Args:
            groups: their names.
            timeout: seconds for each request.

        Raises:
            KafkaError: No broker names their coordinators.
        """
        unfound = self._coordinators.find(groups, timeout)
        if unfound.failure is not None:
            raise unfound.failure
        found: dict[str, Answer] = {group: error(group) for group, error in unfound.errors.items()}
        questions = to_coordinators(self._coordinators.of(groups), describe_groups, MAX_GROUPS_PER_REQUEST)
        for answer in self._ask(questions, timeout):
            if answer.error is not None:
                found |= dict.fromkeys(answer.question.about, answer.error)
            else:
                found |= {one.group_id: answer_of(one) for one in answer.response.groups}
        self._coordinators.forget(group for group, answer in found.items() if isinstance(answer, Exception))
        return found


def answer_of(group: Any) -> Answer:
    """Convert one group of a DescribeGroups response."""
    if group.error_code:
        error: Exception = kafka_errors.for_code(group.error_code)(group.group_id)
        return error
    return DescribedAgents(
        stable=group.group_state == STABLE,
        members=tuple(
            DescribedAgent(
                id=one.member_id,
                instance_id=one.group_instance_id or None,
                metadata=bytes(one.member_metadata),
                assignment=bytes(one.member_assignment),
            )
            for one in group.members
        ),
    )
