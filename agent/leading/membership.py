"""The agent in one consumer group: a member with a plan instead of topics (KIP-54's userData, KIP-429, KIP-814).

`cluster.group_member` has a member of any group, and `agent.leading.reserving_member` and `holding_member` what the
agent does with other members and rebalances. This module has what concerns its own member id: joining under a chosen
one, changing its position in the broker's order, leaving; and descriptions of the group.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.coordinator.base import Generation
from kafka.protocol.consumer.group import DEFAULT_GENERATION_ID
from kafka.structs import MemberState

from samerack.agent.leading.holding_member import HoldingMember
from samerack.agent.policy.back_off_causes import BackOffError, Cause
from samerack.cluster.group import GroupView, view_group
from samerack.cluster.group_questions import describe_groups
from samerack.cluster.member_session import LEAVE_SECONDS
from samerack.protocol.consumer import decode_assignment
from samerack.protocol.model import NO_PARTITIONS

_AGAIN_SECONDS: Final = 0.2
_ALONE_SECONDS: Final = 0.1
"""While all other members are about to join again, the agent joins this often to see whether one has."""


class Membership(HoldingMember):
    """The agent in one consumer group; one thread drives it."""

    parked_id = ""
    """The id of this static member before the response to its first JoinGroup, if DescribeGroups shows it."""
    assigned = NO_PARTITIONS
    _return_until = float("-inf")

    def _take(self, content: bytes) -> None:
        self.assigned = decode_assignment(content).partitions if content else NO_PARTITIONS

    @property
    def is_outside(self) -> bool:
        """Whether the agent is neither in the group nor joining it."""
        return self.state is MemberState.UNJOINED and not self.rejoining

    @property
    def is_static(self) -> bool:
        """Whether the membership has an instance id, so that it can change its position without a rebalance."""
        return self.group_instance_id is not None

    # joining

    def offer(self, present: str) -> None:
        """Puts the group's present protocol first, so that joining does not change the vote."""
        self._join_metadata.offer(present)

    def adopt(self, member_id: str) -> None:
        """Joins with a reserved id from now on, as a member without instance id."""
        self.config["group_instance_id"] = None
        self.pending -= {member_id}
        with self._lock:
            self._generation = Generation(DEFAULT_GENERATION_ID, member_id, None)

    def nudge(self) -> None:
        """Makes the next `join` start a rebalance although this member follows: its metadata has changed."""
        self._join_metadata.change()
        self._reason = "asks for a new assignment"
        self.request_rejoin()

    def rejoin_for_position(self) -> None:
        """Rejoins with a new member id and the same instance id: a new position in the broker's order, no rebalance."""
        with self._lock:
            self._generation = Generation.NO_GENERATION
            self.state = MemberState.UNJOINED
            self._reason = "takes a position at the front of the order"
            self.request_rejoin()

    def await_return(self, seconds: float) -> None:
        """Delays the sync while alone, for so many seconds: evicted members may need that long to join again.

        A group that has synced is Stable, and committed offsets expire by their own age in it (KIP-211).
        """
        self._return_until = time.monotonic() + seconds

    def _send_join(self) -> Any:
        if not self.is_static and not self.member_id:
            # the coordinator does not know the id that was chosen for its position; the library would join with another
            raise BackOffError(Cause.PLACE_LOST)
        return super()._send_join()

    async def _before_sync(self, response: Any) -> Any:
        response = await super()._before_sync(response)
        while _is_alone(response) and time.monotonic() < self._return_until:
            # the coordinator answers at once with the same generation until others join; then it waits for them
            await self._net.sleep(_ALONE_SECONDS)
            response = await self._answered(self._send_join())
        self._return_until = float("-inf")
        return response

    # leaving

    def leave(self) -> None:
        """Leaves by member id; a static member looks its id up if its first JoinGroup has no response yet.

        The id with this instance id is its own while its JoinGroup is parked: another agent would have ended that.

        Raises:
            KafkaError: The brokers did not answer.
        """
        if self._is_nameless:
            self.end_by(float("inf"))
            with suppress(kafka_errors.KafkaError):
                self.parked_id = self._own_id(self.describe(LEAVE_SECONDS / 2))
            with self._lock:
                self._generation = Generation(DEFAULT_GENERATION_ID, self.parked_id, None)
        super().leave()

    @property
    def _is_nameless(self) -> bool:
        """Whether this static member's first JoinGroup is parked, so that only the broker knows its id."""
        parked = self._join_task is not None and not self._join_task.is_done
        return parked and self.is_static and not self.member_id

    # descriptions of the group

    def describe(self, timeout: float = 5.0) -> GroupView:
        """Describes the group, over a connection that no parked JoinGroup blocks.

        Raises:
            KafkaError: The coordinator did not answer or refused.
        """
        response = self._send_beside(describe_groups([self.group_id]), timeout)
        described = response.groups[0]
        error = kafka_errors.for_code(described.error_code)
        if error is not kafka_errors.NoError:
            self._handle_coordinator_error(error)
            raise error(self.group_id)
        view = view_group(described)
        if self._is_nameless:
            self.parked_id = self._own_id(view)
        return view

    def _own_id(self, view: GroupView) -> str:
        """Returns the id of the member with this instance id: the agent's own while its JoinGroup is parked."""
        return next((one.id for one in view.members if one.instance_id == self.group_instance_id), "")

    def describe_patiently(self, patience: float = 3.0) -> GroupView:
        """Describes the group; retries for a while if it moves from one coordinator to another."""
        deadline = time.monotonic() + patience
        while True:
            try:
                return self.describe()
            except kafka_errors.RetriableError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_AGAIN_SECONDS)


def _is_alone(response: Any) -> bool:
    """Returns whether the JoinGroup response names only the member that leads."""
    return bool(response.members) and all(one.member_id == response.member_id for one in response.members)
