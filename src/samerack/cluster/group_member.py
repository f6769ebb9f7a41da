"""A member of a Kafka group: kafka-python's coordinator with JoinGroup v9, and what the agent needs beyond it.

The library finds the coordinator, authenticates and retries. This module adds `skip_assignment` (KIP-814), joins that
end while no call waits for them, and the leader's id. `cluster.member_session` keeps and ends a membership.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.protocol.consumer.group import JoinGroupRequest, SyncGroupRequest
from kafka.structs import MemberState

from samerack.cluster.coordinator_requests import SLICE_SECONDS
from samerack.cluster.member_session import MemberSession
from samerack.common.attempts import REQUESTS, Attempts

JOIN_VERSION: Final = 9
"""JoinGroup v9 tells a restarted static leader that it still leads; since v8 the request carries the reason."""
SYNC_VERSION: Final = 5
_REPEATED: Final = (
    kafka_errors.UnknownMemberIdError,
    kafka_errors.RebalanceInProgressError,
    kafka_errors.IllegalGenerationError,
    kafka_errors.MemberIdRequiredError,
)
"""Errors of a join that the library answers by joining again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A JoinGroup response for the leader: the members with their metadata; `me` is the leader's member id."""

    generation: int
    protocol: str
    me: str
    members: tuple[tuple[str, str | None, bytes], ...]


Assign = Callable[[Joined], dict[str, bytes]]
"""Computes the assignment of every member; runs on the network thread while the group waits, so it must do no I/O."""


class GroupMember(MemberSession):
    """One membership. One thread drives it; it is thread-safe only where the base class is."""

    def __init__(  # noqa: PLR0913 - a membership has as many settings
        self,
        client: KafkaNetClient,
        *,
        group: str,
        instance_id: str | None,
        session_seconds: float,
        heartbeat_seconds: float,
        rebalance_seconds: float,
        assign: Assign,
        wake: Callable[[], None],
    ) -> None:
        """Prepare; nothing is sent before `join`.

        Args:
            client: A client for this group alone (a parked JoinGroup holds its connection).
            group: The group.
            instance_id: `group.instance.id`, or None for a dynamic member.
            session_seconds: After so long without a heartbeat the broker removes the member.
            heartbeat_seconds: Time between heartbeats.
            rebalance_seconds: How long the group waits for this member in a rebalance.
            assign: Called when this member leads the group.
            wake: Called from the network thread when the group has to be rejoined.
        """
        super().__init__(
            client,
            wake=wake,
            group_id=group,
            group_instance_id=instance_id,
            session_timeout_ms=round(session_seconds * 1000),
            heartbeat_interval_ms=round(heartbeat_seconds * 1000),
            max_poll_interval_ms=round(rebalance_seconds * 1000),
            api_version=(4, 0),
        )
        self._assign = assign
        self._reason = ""
        self._joined_unseen = False
        self._unplanned: Exception | None = None
        """Why the last plan could not be made; kept because the join may end while no call waits for it."""
        self._joins = Attempts(REQUESTS)
        self.leader_id = ""
        self.waited_seconds = 0.0
        """How long the last JoinGroup was parked: the time that the slowest member took to rejoin."""
        self.kept_waiting: list[float] = []
        """Seconds from JoinGroup response to SyncGroup for each plan of this member; the caller removes them."""

    # what a subclass provides

    def protocol_type(self) -> str:
        """Returns the group's protocol type."""
        raise NotImplementedError

    def group_protocols(self) -> list[tuple[str, bytes]]:
        """Returns protocol names with this member's metadata for each."""
        raise NotImplementedError

    def _take(self, content: bytes) -> None:
        """Stores this member's own assignment; `content` is empty if there is none."""
        raise NotImplementedError

    # what kafka-python requires of a subclass

    def _perform_assignment(self, leader_id: str, protocol: str, members: Sequence[Any]) -> dict[str, bytes]:
        """Unused: `_do_join_and_sync_async` calls `_assign` itself, with the generation."""
        raise NotImplementedError

    async def join_group_async(self, timeout_ms: float | None = None) -> bool:
        """Joins as the library does, but does not repeat a join that failed for good while no call waited for it.

        Raises:
            KafkaError: The error of the join, unless another attempt may succeed.
        """
        task: Any = self._join_task
        if task is not None and task.is_done and task.failed():
            self._join_task: Any = None
            if not isinstance(task.exception, (kafka_errors.RetriableError, *_REPEATED)):
                raise task.exception
        return bool(await super().join_group_async(timeout_ms=timeout_ms))

    async def _do_join_and_sync_async(self) -> bytes:
        """Sends one JoinGroup and SyncGroup, after a pause if earlier ones failed."""
        if pause := self._joins.pause_seconds:
            await self._net.sleep(pause)
        try:
            content = await self._join_and_sync()
        except kafka_errors.KafkaError as error:
            self._fenced = self._fenced or isinstance(error, kafka_errors.FencedInstanceIdError)
            self._joins.failed()
            self._note(error, self._joins)
            raise
        self._joins.succeeded()
        return content

    async def _join_and_sync(self) -> bytes:
        """Sends one JoinGroup and SyncGroup. Between the two only `_before_sync` and `_assign` run."""
        if self.coordinator_unknown():
            raise kafka_errors.CoordinatorNotAvailableError(self.coordinator_id)
        with self._lock:
            self.state = MemberState.REBALANCING
        response = await self._before_sync(await self._answered(self._send_join()))
        answered_at = time.monotonic()
        assignments: dict[str, bytes] = {}
        if response.leader == response.member_id and not response.skip_assignment:
            assignments = self._planned(response)
        sync = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self._generation.generation_id,
            member_id=self._generation.member_id,
            group_instance_id=self.group_instance_id,
            protocol_type=self.protocol_type(),
            protocol_name=self._generation.protocol,
            assignments=list(assignments.items()),
            max_version=SYNC_VERSION,
        )
        sent_at = time.monotonic()
        if assignments:
            self.kept_waiting.append(sent_at - answered_at)
        answer = await self._manager.send(sync, node_id=self.coordinator_id)
        content: bytes = self._process_sync_group_response(answer, sent_at)
        self._take(bytes(content))
        with self._lock:
            # the library does this only if `join` waits at this moment; it treats a join that ends between two calls
            # as stale and repeats it, and a JoinGroup of the leader rebalances the whole group once more
            self.rejoining = self.rejoin_needed = False
            self.state = MemberState.STABLE
            self._joined_unseen = True
            self._enable_heartbeat()
        return content

    def _planned(self, response: Any) -> dict[str, bytes]:
        """Returns the assignment of every member in the JoinGroup response; an error is kept for `join` to raise."""
        joined = Joined(
            generation=response.generation_id,
            protocol=response.protocol_name,
            me=response.member_id,
            members=tuple(
                (member.member_id, member.group_instance_id or None, bytes(member.metadata))
                for member in response.members
            ),
        )
        try:
            return self._assign(joined)
        except Exception as error:
            self._unplanned = error
            raise

    async def _before_sync(self, response: Any) -> Any:
        """Runs between JoinGroup and SyncGroup; a subclass may join once more and return that response instead."""
        return response

    def _send_join(self) -> Any:
        """Sends JoinGroup; returns a future of the response."""
        reason, self._reason = self._reason, ""
        request = self._join_request(self._generation.member_id, self.group_instance_id, reason)
        # the broker parks JoinGroup until all members have joined: up to the longest rebalance timeout of the members
        return self._manager.send(request, node_id=self.coordinator_id, request_timeout_ms=600_000)

    async def _answered(self, sent: Any) -> Any:
        """Awaits the JoinGroup response, stores its data and returns it."""
        sent_at = time.monotonic()
        response = await sent
        self._process_join_group_response(response, sent_at)
        self.leader_id = response.leader
        self.waited_seconds = time.monotonic() - sent_at
        return response

    def _join_request(self, member_id: str, instance_id: str | None, reason: str) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.config["session_timeout_ms"],
            rebalance_timeout_ms=self.config["max_poll_interval_ms"],
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=self.protocol_type(),
            protocols=self.group_protocols(),
            reason=f"samerack: {reason or 'follows the group'}"[:255],
            max_version=JOIN_VERSION,
        )

    # what its owner calls

    @property
    def generation_id(self) -> int:
        """The generation of the last JoinGroup response."""
        return int(self._generation.generation_id)

    @property
    def leading(self) -> bool:
        """Whether the last JoinGroup response made this member the leader."""
        return bool(self.member_id) and self.leader_id == self.member_id and self.state is not MemberState.UNJOINED

    def trigger(self, reason: str) -> None:
        """Makes the next `ensure_active_group` rejoin: a JoinGroup of the leader starts a rebalance."""
        self._reason = reason
        self.request_rejoin()

    @property
    def wants_join(self) -> bool:
        """Whether to call `join`: a join is needed, or one ended while no call waited for it."""
        return self._joined_unseen or bool(self.need_rejoin())

    def join(self, timeout: float) -> bool:
        """Joins or rejoins if needed; returns False if the broker still waits for others after `timeout` seconds.

        Raises:
            EndedError: The time given to `end_by` is reached.
            KafkaError: The broker refuses this member.
            Exception: What `assign` raised, also if no call waited at that time: then nothing may be sent, and the
                member must not join once more.
        """
        deadline = time.monotonic() + timeout
        joined, left = False, timeout
        while not joined and left > 0:
            self._check_end()
            if self._unplanned is not None:
                raise self._unplanned
            joined = bool(self.ensure_active_group(timeout_ms=round(min(left, SLICE_SECONDS) * 1000)))
            left = deadline - time.monotonic()
        if joined:
            self._joined_unseen = False
        return joined
