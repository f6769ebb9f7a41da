"""A group member that also handles member ids besides its own: it reserves, releases and evicts them.

A reserved id is one that the broker gave in a JoinGroup response with MEMBER_ID_REQUIRED and that has not joined yet:
Kafka calls it a pending member. Every rebalance of the group waits for it until it joins, is released, or expires.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient

from samerack.agent.leading.join_metadata import JoinMetadata
from samerack.cluster.group import CONSUMER
from samerack.cluster.group_member import Assign, GroupMember
from samerack.cluster.member_session import LEAVE_SECONDS, LEFT, left_error
from samerack.common.errors import AgentError
from samerack.common.settings import LeadingSettings

RESERVE_SECONDS: Final = 2.0
RESERVED_SECONDS: Final = 6.0
"""The broker drops a reserved id after this time: the shortest session timeout that it allows by default.

Brokers do not list such ids (DescribeGroups names members only), so an id whose response is lost cannot be found."""


class ReservingMember(GroupMember):
    """A member without topics that can reserve member ids, release them, and evict other members."""

    def __init__(
        self,
        client: KafkaNetClient,
        *,
        group: str,
        settings: LeadingSettings,
        assign: Assign,
        wake: Callable[[], None],
    ) -> None:
        """Prepare; nothing is sent before `ensure_active_group`.

        Args:
            client: A client for this group alone (a parked JoinGroup holds its connection).
            group: The group.
            settings: Instance id, timeouts, protocol names.
            assign: Called when this member leads the group.
            wake: Called from the network thread when the group has to be rejoined.
        """
        super().__init__(
            client,
            group=group,
            instance_id=settings.instance_id,
            session_seconds=settings.session_timeout_seconds,
            heartbeat_seconds=settings.heartbeat_seconds,
            rebalance_seconds=settings.rebalance_timeout_seconds,
            assign=assign,
            wake=wake,
        )
        self._join_metadata = JoinMetadata(settings.protocols)
        self._reserved_ms = min(round(RESERVED_SECONDS * 1000), self.config["session_timeout_ms"])
        self.pending: frozenset[str] = frozenset()
        """Reserved ids that are neither joined nor released."""

    # what the base class requires

    def protocol_type(self) -> str:
        """Returns the protocol type of consumers."""
        return CONSUMER

    def group_protocols(self) -> list[tuple[str, bytes]]:
        """Returns the offered names, the group's present one first, each with an empty subscription."""
        return self._join_metadata.protocols()

    # member ids besides its own

    def reserve(self) -> str:
        """Reserves a member id at the broker without a rebalance, for a membership without instance id; returns it.

        It delays every rebalance of the group until it joins or is released, for RESERVED_SECONDS at most.

        Raises:
            KafkaError: The broker gave none. If its response arrives late, the id is released then.
        """

        async def exchange() -> str:
            await self._broker(RESERVE_SECONDS)
            return await self._reserve()

        return str(self._net.run(exchange))

    async def _reserve(self) -> str:
        request = self._join_request("", None, "")
        request.session_timeout_ms = self._reserved_ms
        # a request that times out closes its connection and loses the response: wait until the id has expired
        patience = self._reserved_ms + 1000
        future = self._manager.send(request, node_id=self._coordinator_broker, request_timeout_ms=patience)
        try:
            response = await self._answer_of(future, RESERVE_SECONDS)
        except kafka_errors.KafkaError:
            if not future.is_done:
                future.add_callback(self._release_late)
            raise
        error = kafka_errors.for_code(response.error_code)
        if error is kafka_errors.MemberIdRequiredError:
            member_id = str(response.member_id)
            self.pending |= {member_id}
            return member_id
        if error is kafka_errors.InvalidSessionTimeoutError and self._reserved_ms < self.config["session_timeout_ms"]:
            self._reserved_ms = self.config["session_timeout_ms"]  # these brokers require longer sessions
            return await self._reserve()
        self._handle_coordinator_error(error)
        raise error(self.group_id) if error is not kafka_errors.NoError else AgentError("joined without being asked")

    def _release_late(self, response: Any) -> None:
        """Releases an id whose response arrived after the reservation had failed; runs on the network thread."""
        if kafka_errors.for_code(response.error_code) is kafka_errors.MemberIdRequiredError:
            leaving = self._leave_request({str(response.member_id): None})
            self._manager.send(leaving, node_id=self._coordinator_broker)

    def release(self, member_id: str, instance_id: str | None = None) -> bool:
        """Releases a member id, which may belong to another membership; returns whether the brokers knew it.

        Raises:
            KafkaError: The brokers did not accept it.
        """
        answer = self._send_beside(self._leave_request({member_id: instance_id}), LEAVE_SECONDS)
        error = left_error(answer)
        if error not in LEFT:
            self._handle_coordinator_error(error)
            raise error(self.group_id)
        self.pending -= {member_id}
        return error is kafka_errors.NoError

    def evict(self, *member_ids: str) -> None:
        """Removes other members with one LeaveGroup; they join again by themselves.

        Raises:
            KafkaError: The brokers did not accept it.
        """
        error = left_error(
            self._send_beside(
                self._leave_request(dict.fromkeys(member_ids), "an agent takes the lead over"), LEAVE_SECONDS
            )
        )
        if error is not kafka_errors.NoError:
            self._handle_coordinator_error(error)
            raise error(self.group_id)

    def _handle_coordinator_error(self, error: Any) -> None:
        """Finds the coordinator again if the broker that was asked is not the coordinator."""
        if error in (kafka_errors.NotCoordinatorError, kafka_errors.CoordinatorNotAvailableError):
            self.coordinator_dead(error())
