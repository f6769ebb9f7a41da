"""A member of a Kafka group: kafka-python's coordinator with JoinGroup v9, and what the agent needs beyond it.

The library finds the coordinator, authenticates, retries and sends heartbeats. This module adds joins that end while no
call waits for them, `skip_assignment` (KIP-814), the leader's id, slower retries, a refusal or fencing that the owner
learns of at once, and leaving by member id over another connection.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.protocol.consumer.group import JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from kafka.structs import MemberState

from samerack.cluster.coordinator_requests import SLICE_SECONDS, CoordinatorRequests
from samerack.cluster.errors import COORDINATOR_MOVES
from samerack.common.attempts import REQUESTS, Attempts

JOIN_VERSION: Final = 9
"""By JoinGroup v9 a restarted static leader knows that it still leads; since v8 the request carries the reason."""
SYNC_VERSION: Final = 5
_PARKED_SECONDS: Final = 600.0
"""The broker parks JoinGroup until all members have joined: up to the longest rebalance timeout of the members."""
LEAVE_SECONDS: Final = 2.0
_AGAIN_SECONDS: Final = 0.1
STUCK_SECONDS: Final = 60.0
"""A thread that has not polled its membership for this long is stuck: the library then leaves the group.

The library's default is the rebalance timeout. That is too short: one request to a group whose coordinator restarts on
a busy machine can take that long, and the membership would be lost."""
_REPEATED: Final = (
    kafka_errors.UnknownMemberIdError,
    kafka_errors.RebalanceInProgressError,
    kafka_errors.IllegalGenerationError,
    kafka_errors.MemberIdRequiredError,
)
"""Errors of a join that the library answers by joining again."""
LEFT: Final = frozenset({kafka_errors.NoError, kafka_errors.UnknownMemberIdError, kafka_errors.FencedInstanceIdError})
"""Error codes in the LeaveGroup response after which the member id is no longer in the group, or was fenced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A JoinGroup response for the leader: the members with their metadata; `me` is the leader's member id."""

    generation: int
    protocol: str
    me: str
    members: tuple[tuple[str, str | None, bytes], ...]


Assign = Callable[[Joined], dict[str, bytes]]
"""Computes the assignment of every member; runs on the network thread while the group waits, so it must do no I/O."""


class GroupMember(CoordinatorRequests):
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

        The client is for this group alone: a parked JoinGroup holds its connection. `wake` is called from the network
        thread when the group has to be rejoined; `instance_id` is None for a dynamic member.
        """
        super().__init__(
            client,
            group_id=group,
            group_instance_id=instance_id,
            session_timeout_ms=round(session_seconds * 1000),
            heartbeat_interval_ms=round(heartbeat_seconds * 1000),
            max_poll_interval_ms=round(rebalance_seconds * 1000),
            api_version=(4, 0),
        )
        self.heartbeat.config["max_poll_interval_ms"] = round(STUCK_SECONDS * 1000)
        self._assign = assign
        self._wake = wake
        self._reason = ""
        self._joined_between_calls = False
        self._unplanned: Exception | None = None
        """Why the last plan could not be made; kept because the join may end while no call waits for it."""
        self._joins = Attempts(REQUESTS)
        self._beats = Attempts(REQUESTS)
        self._fenced = False
        self._refusal: kafka_errors.KafkaError | None = None
        self.leader_id = ""
        self.waited_seconds = 0.0
        """How long the last JoinGroup was parked: the time that the slowest member took to rejoin."""
        self.kept_waiting: list[float] = []
        """Seconds from JoinGroup response to SyncGroup for each plan of this member; the caller removes them."""

    # what a subclass provides

    def protocol_type(self) -> str:
        """Return the group's protocol type."""
        raise NotImplementedError

    def group_protocols(self) -> list[tuple[str, bytes]]:
        """Return protocol names with this member's metadata for each."""
        raise NotImplementedError

    def _take(self, content: bytes) -> None:
        """Store this member's own assignment; `content` is empty if there is none."""
        raise NotImplementedError

    # from JoinGroup to SyncGroup

    async def join_group_async(self, timeout_ms: float | None = None) -> bool:
        """Join as the library does, but do not repeat a join that failed for good while no call waited for it.

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
        """Send one JoinGroup and SyncGroup, after a pause if earlier ones failed."""
        if pause := self._joins.pause_seconds:
            await self._net.sleep(pause)
        try:
            if self.coordinator_unknown():
                raise kafka_errors.CoordinatorNotAvailableError(self.coordinator_id)
            with self._lock:
                self.state = MemberState.REBALANCING
            content = await self._sync(await self._join())
        except kafka_errors.KafkaError as error:
            self._fenced = self._fenced or isinstance(error, kafka_errors.FencedInstanceIdError)
            self._joins.failed()
            self._note(error, self._joins)
            raise
        self._joins.succeeded()
        return content

    async def _join(self) -> Any:
        """Send JoinGroup; return the response. A subclass may join more than once before it syncs."""
        return await self._answered(self._send_join())

    def _send_join(self) -> Any:
        """Send JoinGroup; return a future of the response."""
        reason, self._reason = self._reason, ""
        request = self._join_request(self._generation.member_id, self.group_instance_id, reason)
        return self._manager.send(
            request, node_id=self.coordinator_id, request_timeout_ms=round(_PARKED_SECONDS * 1000)
        )

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

    async def _answered(self, sent: Any) -> Any:
        """Await the JoinGroup response, store its data and return it."""
        sent_at = time.monotonic()
        response = await sent
        self._process_join_group_response(response, sent_at)
        self.leader_id = response.leader
        self.waited_seconds = time.monotonic() - sent_at
        return response

    async def _sync(self, response: Any) -> bytes:
        """Send SyncGroup after a JoinGroup response, with every member's assignment if this member leads."""
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
            self._joined_between_calls = True
            self._enable_heartbeat()
        return content

    def _planned(self, response: Any) -> dict[str, bytes]:
        """Return the assignment of every member in the JoinGroup response; an error is kept for `join` to raise."""
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

    def _perform_assignment(self, leader_id: str, protocol: str, members: Sequence[Any]) -> dict[str, bytes]:
        """Unused, though the library requires it: `_sync` calls `_assign` itself, with the generation."""
        raise NotImplementedError

    # what its owner calls

    @property
    def member_id(self) -> str:
        """The member id the broker gave, or empty."""
        return str(self._generation.member_id)

    @property
    def generation_id(self) -> int:
        """The generation of the last JoinGroup response."""
        return int(self._generation.generation_id)

    @property
    def leading(self) -> bool:
        """Whether the last JoinGroup response made this member the leader."""
        return bool(self.member_id) and self.leader_id == self.member_id and self.state is not MemberState.UNJOINED

    def trigger(self, reason: str) -> None:
        """Make the next `ensure_active_group` rejoin: a JoinGroup of the leader starts a rebalance."""
        self._reason = reason
        self.request_rejoin()

    @property
    def wants_join(self) -> bool:
        """Whether to call `join`: a join is needed, or one ended while no call waited for it."""
        return self._joined_between_calls or bool(self.need_rejoin())

    def join(self, timeout: float) -> bool:
        """Join or rejoin if needed; return False if the broker still waits for others after `timeout` seconds.

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
            self._joined_between_calls = False
        return joined

    # heartbeats

    @property
    def is_forgotten(self) -> bool:
        """Whether no heartbeat was answered for a whole session timeout: the brokers have removed this member."""
        return self.state is MemberState.STABLE and bool(self.heartbeat.session_timeout_expired())

    @property
    def fenced(self) -> bool:
        """Whether another agent with the same instance id has taken this membership over."""
        return self._fenced

    def poll_heartbeat(self) -> None:
        """Act on the results of the heartbeats.

        Raises:
            KafkaError: They are refused, or have ended.
        """
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal
        super().poll_heartbeat()

    def _handle_heartbeat_response(self, response: Any, send_time: float) -> Any:
        error = kafka_errors.for_code(response.error_code)
        if error is kafka_errors.FencedInstanceIdError:
            self._fenced = True
        elif issubclass(error, kafka_errors.AuthorizationError):
            # the library would retry ten times a second and report nothing
            self._refusal = error(self.group_id)
            self._disable_heartbeat()
        try:
            result = super()._handle_heartbeat_response(response, send_time)
        except kafka_errors.KafkaError as failure:
            if not isinstance(failure, kafka_errors.RebalanceInProgressError):
                self._beats.failed()
                self._note(failure, self._beats)
                # the library would repeat a failed heartbeat ten times a second
                self.heartbeat.config["retry_backoff_ms"] = round(1000 * max(0.1, self._beats.pause_seconds))
            raise
        else:
            self._beats.succeeded()
            return result
        finally:
            if self.rejoin_needed or self._fenced or self._refusal is not None:
                self._wake()

    # leaving

    def leave(self) -> None:
        """Leave by member id, also while JoinGroup is parked; another member with the instance id is not affected.

        Raises:
            KafkaError: The brokers did not accept it.
        """
        if self.member_id and not self._fenced:
            self._leave_as(self.member_id)

    def _leave_as(self, member_id: str) -> None:
        """Leave by this member id, or by the instance id alone if it is empty."""
        self._disable_heartbeat()
        self.end_by(float("inf"))
        request = self._leave_request({member_id: self.group_instance_id})
        deadline, attempts = time.monotonic() + LEAVE_SECONDS, Attempts(REQUESTS)
        reason: kafka_errors.KafkaError | None = None
        while (error := self._left(request, deadline)) is not None:
            if reason is None or isinstance(reason, kafka_errors.KafkaTimeoutError):
                reason = error  # the first answer says more than that the coordinator was not found again in time
            # the new coordinator waits for a member that left only the former one, until its session times out
            attempts.failed()
            pause = max(_AGAIN_SECONDS, attempts.pause_seconds)
            if not isinstance(error, kafka_errors.RetriableError) or time.monotonic() + pause > deadline:
                raise reason
            if isinstance(error, COORDINATOR_MOVES):
                self.coordinator_dead(error)
            time.sleep(pause)
        self.reset_generation()

    def _left(self, request: Any, deadline: float) -> kafka_errors.KafkaError | None:
        """Send a LeaveGroup; return why it failed until a moment of the monotonic clock, or None if it succeeded."""
        try:
            error = left_error(self._send_beside(request, deadline - time.monotonic()))
        except kafka_errors.RetriableError as failure:
            return failure
        return None if error in LEFT else error(self.group_id)

    def _leave_request(self, members: Mapping[str, str | None], reason: str = "stops") -> LeaveGroupRequest:
        """Return a LeaveGroup request for these members: instance id by member id."""
        identities = [
            LeaveGroupRequest.MemberIdentity(
                member_id=member_id, group_instance_id=instance_id, reason=f"samerack: {reason}"
            )
            for member_id, instance_id in members.items()
        ]
        return LeaveGroupRequest(group_id=self.group_id, member_id=next(iter(members)), members=identities)


def left_error(answer: Any) -> Any:
    """Return the error class of a LeaveGroup response; with several members, the first error."""
    codes = [answer.error_code, *(member.error_code for member in answer.members or ())]
    return kafka_errors.for_code(next((code for code in codes if code), 0))
