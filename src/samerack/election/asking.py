"""Describes the agents' own groups, with one request to each coordinator, over a client that the caller opens.

A group that cannot be described is a value, not an exception, so that the other groups are described.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient

from samerack.cluster.group import STABLE
from samerack.cluster.group_questions import describe_groups, find_coordinators


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
        self._net = client._net  # noqa: SLF001 - the library has no public way to send raw requests
        self._manager = client._manager  # noqa: SLF001
        self._coordinators: dict[str, int] = {}
        self._milliseconds = 0

    def describe(self, groups: Sequence[str], timeout: float = 5.0) -> dict[str, Answer]:
        """Describe groups.

        Args:
            groups: their names.
            timeout: seconds for each request.

        Raises:
            KafkaError: No broker names their coordinators.
        """
        self._milliseconds = round(timeout * 1000)
        found: dict[str, Answer] = self._net.run(self._describe, list(groups))
        for group, answer in found.items():
            if isinstance(answer, Exception):
                self._coordinators.pop(group, None)
        return found

    async def _describe(self, groups: list[str]) -> dict[str, Answer]:
        found: dict[str, Answer] = {}
        unknown = [group for group in groups if group not in self._coordinators]
        while unknown:
            answered = await self._find(unknown)
            found |= answered
            unknown = [group for group in unknown if group not in answered and group not in self._coordinators]
        by_broker: dict[int, list[str]] = {}
        for group in groups:
            if group in self._coordinators:
                by_broker.setdefault(self._coordinators[group], []).append(group)
        running = [self._net.call_soon_with_future(self._ask, broker, names) for broker, names in by_broker.items()]
        for one in running:
            found |= await one
        return found

    async def _find(self, groups: list[str]) -> dict[str, Answer]:
        """Remember the groups' coordinators; return errors of the others. Before Kafka 3.0 one group at a time."""
        request, broker = find_coordinators(groups), self._manager.least_loaded_node()
        response = await self._manager.send(request, node_id=broker, request_timeout_ms=self._milliseconds)
        failed: dict[str, Answer] = {}
        for name, one in [(one.key, one) for one in response.coordinators or ()] or [(groups[0], response)]:
            if one.error_code:
                failed[name] = kafka_errors.for_code(one.error_code)(name)
            else:
                self._coordinators[name] = one.node_id
        if not any(group in failed or group in self._coordinators for group in groups):
            raise kafka_errors.CoordinatorNotAvailableError(groups[0])  # the answer is about other groups
        return failed

    async def _ask(self, broker: int, groups: list[str]) -> dict[str, Answer]:
        request = describe_groups(groups)
        try:
            response = await self._manager.send(request, node_id=broker, request_timeout_ms=self._milliseconds)
        except Exception as error:  # noqa: BLE001 - a broker that does not answer is a value, the others continue
            if isinstance(error, kafka_errors.UnknownBrokerIdError):
                self._manager.cluster.request_update()
            return dict.fromkeys(groups, error)
        return {one.group_id: answer_of(one) for one in response.groups}


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
