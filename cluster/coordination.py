"""A member of a Kafka group: kafka-python's coordinator with JoinGroup v9, and what the agent needs beyond it.

The library finds the coordinator, authenticates, sends heartbeats and retries. This module adds `skip_assignment`
(KIP-814), leaving by member id over another connection, joins that end while no call waits for them, and the leader's
id.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.coordinator.base import BaseCoordinator
from kafka.net.compat import KafkaNetClient
from kafka.net.selector import NetworkSelector
from kafka.protocol.consumer.group import JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from kafka.structs import MemberState

from samerack.cluster.attempts import Attempts
from samerack.cluster.connections import Connections, Refusals, identity_of
from samerack.cluster.refusals import refusal
from samerack.common.errors import AgentError

JOIN_VERSION: Final = 9
"""JoinGroup v9 tells a restarted static leader that it still leads; since v8 the request carries the reason."""
SYNC_VERSION: Final = 5
LEAVE_SECONDS: Final = 2.0
_AGAIN_SECONDS: Final = 0.1
_MOVES: Final = (
    kafka_errors.NotCoordinatorError,
    kafka_errors.CoordinatorNotAvailableError,
    kafka_errors.CoordinatorLoadInProgressError,
)
_REPEATED: Final = (
    kafka_errors.UnknownMemberIdError,
    kafka_errors.RebalanceInProgressError,
    kafka_errors.IllegalGenerationError,
    kafka_errors.MemberIdRequiredError,
)
"""Errors of a join that the library answers by joining again."""
LEFT: Final = frozenset({kafka_errors.NoError, kafka_errors.UnknownMemberIdError, kafka_errors.FencedInstanceIdError})
"""Error codes in the LeaveGroup response after which the member id is no longer in the group, or was fenced."""
STUCK_SECONDS: Final = 60.0
"""A thread that has not polled its membership for this long is stuck: the library then leaves the group.

The library's default is the rebalance timeout. That is too short: one request to a group whose coordinator restarts on
a busy machine can take that long, and the membership would be lost."""
_SLICE_SECONDS: Final = 0.1
"""A thread that waits for a response checks this often whether its membership must end."""
_REPORT_SECONDS: Final = 10.0
"""The same failure is reported again after this time at the earliest."""
_REFUSALS: Final = Refusals()
_KNOWN_SECONDS: Final = 0.5
"""How long to wait, while refreshing metadata, for a coordinator's broker that is not in the metadata yet."""
_LOOK_SECONDS: Final = 0.02


class EndedError(kafka_errors.KafkaError):  # type: ignore[misc]  # the library is untyped
    """Raised instead of waiting for a response because the membership must end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A JoinGroup response for the leader: the members with their metadata; `me` is the leader's member id."""

    generation: int
    protocol: str
    me: str
    members: tuple[tuple[str, str | None, bytes], ...]


Assign = Callable[[Joined], dict[str, bytes]]
"""Computes the assignment of every member; runs on the network thread while the group waits, so it must do no I/O."""


class GroupMember(BaseCoordinator):  # type: ignore[misc]  # the library is untyped
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
        self._fenced = False
        self._refusal: kafka_errors.KafkaError | None = None
        self._joined_unseen = False
        self._unplanned: Exception | None = None
        """Why the last plan could not be made; kept because the join may end while no call waits for it."""
        self._coordinator_broker: int | None = None
        self._joins, self._lookups, self._beats = Attempts(), Attempts(), Attempts()
        self._failure: kafka_errors.KafkaError | None = None
        self._reported: tuple[type, float] = (type(None), float("-inf"))
        self._end_at = float("inf")
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

    def _leave_request(self, members: Mapping[str, str | None], reason: str = "stops") -> LeaveGroupRequest:
        """Returns a LeaveGroup request for these members: instance id by member id."""
        identities = [
            LeaveGroupRequest.MemberIdentity(
                member_id=member_id, group_instance_id=instance_id, reason=f"samerack: {reason}"
            )
            for member_id, instance_id in members.items()
        ]
        return LeaveGroupRequest(group_id=self.group_id, member_id=next(iter(members)), members=identities)

    async def _send_group_coordinator_request(self) -> Any:
        """Sends one FindCoordinator, after a pause if earlier ones failed."""
        if pause := self._lookups.pause_seconds:
            await self._net.sleep(pause)
        try:
            found = await super()._send_group_coordinator_request()
        except kafka_errors.KafkaError as error:
            self._lookups.failed()
            self._note(error, self._lookups)
            raise
        self._lookups.succeeded()
        return found

    def _handle_find_coordinator_response(self, response: Any) -> Any:
        found = response.coordinators[0] if response.coordinators else response
        self._coordinator_broker = found.node_id if found.error_code == 0 else None
        return super()._handle_find_coordinator_response(response)

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

    def _note(self, error: kafka_errors.KafkaError, attempts: Attempts) -> None:
        """Stores a failure for `take_failure` once it causes a pause."""
        if attempts.pause_seconds:
            self._failure = error

    # what its owner calls

    def take_failure(self) -> kafka_errors.KafkaError | None:
        """Returns what prevents joining, finding the coordinator or heartbeats, if it is to be reported now.

        A failure is not reported if the next attempt succeeds; the same one is reported every ten seconds at most.
        """
        failure, self._failure = self._failure, None
        kind, at = self._reported
        if failure is None or (type(failure) is kind and time.monotonic() - at < _REPORT_SECONDS):
            return None
        self._reported = type(failure), time.monotonic()
        return failure

    def end_by(self, at: float) -> None:
        """Ends all waits at this time (seconds, monotonic), except for the response to `leave`; from any thread."""
        self._end_at = at

    @property
    def is_forgotten(self) -> bool:
        """Whether no heartbeat was answered for a whole session timeout: the brokers have removed this member."""
        return self.state is MemberState.STABLE and bool(self.heartbeat.session_timeout_expired())

    @property
    def member_id(self) -> str:
        """The member id the broker gave, or empty."""
        return str(self._generation.member_id)

    @property
    def generation_id(self) -> int:
        """The generation of the last JoinGroup response."""
        return int(self._generation.generation_id)

    @property
    def fenced(self) -> bool:
        """Whether another agent with the same instance id has taken this membership over."""
        return self._fenced

    @property
    def leading(self) -> bool:
        """Whether the last JoinGroup response made this member the leader."""
        return bool(self.member_id) and self.leader_id == self.member_id and self.state is not MemberState.UNJOINED

    def poll_heartbeat(self) -> None:
        """Acts on the results of the heartbeats.

        Raises:
            KafkaError: They are refused, or have ended.
        """
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal
        super().poll_heartbeat()

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
            joined = bool(self.ensure_active_group(timeout_ms=round(min(left, _SLICE_SECONDS) * 1000)))
            left = deadline - time.monotonic()
        if joined:
            self._joined_unseen = False
        return joined

    def leave(self) -> None:
        """Leaves by member id, also while JoinGroup is parked; another member with the instance id is not affected.

        Raises:
            KafkaError: The brokers did not accept it.
        """
        member_id = self.member_id
        if not member_id or self._fenced:
            return
        self._disable_heartbeat()
        self.end_by(float("inf"))
        request = self._leave_request({member_id: self.group_instance_id})
        deadline, attempts = time.monotonic() + LEAVE_SECONDS, Attempts()
        while (error := self._left(request)) is not None:
            # the new coordinator waits for a member that left only the former one, until its session times out
            if not isinstance(error, kafka_errors.RetriableError) or time.monotonic() > deadline:
                raise error
            if isinstance(error, _MOVES):
                self.coordinator_dead(error)
            attempts.failed()
            time.sleep(max(_AGAIN_SECONDS, attempts.pause_seconds))
        self.reset_generation()

    def _left(self, request: Any) -> kafka_errors.KafkaError | None:
        """Sends a LeaveGroup; returns why it failed, or None if it succeeded."""
        try:
            error = left_error(self._send_beside(request, LEAVE_SECONDS))
        except kafka_errors.RetriableError as failure:
            return failure
        return None if error in LEFT else error(self.group_id)

    def _send_beside(self, request: Any, timeout: float) -> Any:
        """Sends to the coordinator's broker over its ordinary connection instead of the coordinator connection.

        Raises:
            EndedError: The time given to `end_by` is reached.
            KafkaError: No response within `timeout` seconds.
        """
        milliseconds = round(timeout * 1000)

        async def exchange() -> Any:
            future = self._manager.send(request, node_id=await self._broker(timeout), request_timeout_ms=milliseconds)
            return await self._answer_of(future, timeout)

        return self._net.run(exchange)

    async def _broker(self, timeout: float) -> int | None:
        """Finds the coordinator and returns the id of its broker once the metadata has its address.

        A broker that has just started may coordinate the group before this client's metadata contains it again, and
        metadata would otherwise be refreshed only when it gets old.

        Raises:
            NodeNotReadyError: It is not known yet; the next request may find it.
        """
        await self._find_coordinator(timeout)
        broker, until = self._coordinator_broker, time.monotonic() + _KNOWN_SECONDS
        while broker is not None and self._manager.cluster.broker_metadata(broker) is None:
            self._manager.cluster.request_update()
            if time.monotonic() > until:
                raise kafka_errors.NodeNotReadyError(broker)
            await self._net.sleep(_LOOK_SECONDS)
        return broker

    async def _find_coordinator(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not await self.ensure_coordinator_ready_async(timeout_ms=round(_SLICE_SECONDS * 1000)):
            self._check_end()
            if time.monotonic() > deadline:
                raise self._failure or kafka_errors.CoordinatorNotAvailableError(self.group_id)

    async def _answer_of(self, future: Any, timeout: float) -> Any:
        """Returns the response to a request; waits in short slices so that the end of the membership interrupts it."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                self._check_end()
            except EndedError:
                # the next request must not wait behind this one
                self._manager.drop(self._coordinator_broker)
                raise
            left = deadline - time.monotonic()
            try:
                return await self._manager.wait_for(future, max(0.0, min(left, _SLICE_SECONDS)) * 1000)
            except kafka_errors.KafkaTimeoutError:
                if future.is_done or left <= _SLICE_SECONDS:
                    raise

    def _check_end(self) -> None:
        if time.monotonic() >= self._end_at:
            raise EndedError(self.group_id)


def left_error(answer: Any) -> Any:
    """Returns the error class of a LeaveGroup response; with several members, the first error."""
    codes = [answer.error_code, *(member.error_code for member in answer.members or ())]
    return kafka_errors.for_code(next((code for code in codes if code), 0))


def connect(config: dict[str, Any], timeout: float = 10.0) -> KafkaNetClient:
    """Returns a new client with its network thread running.

    Raises:
        RefusedError: A bootstrap server refuses the agent, or the agent refuses the server.
        AgentError: No bootstrap server answers within `timeout` seconds.
    """
    identity = identity_of(config)
    _REFUSALS.check(identity)
    net = NetworkSelector(**config)
    manager = Connections(net, **config)
    client = KafkaNetClient(net=net, manager=manager, **config)
    net.start()
    servers = config.get("bootstrap_servers")
    try:
        manager.bootstrap(timeout_ms=round(timeout * 1000))
    except Exception as error:
        close(client)
        last = manager.last_failure or error
        if words := refusal(last, config):
            raise _REFUSALS.remember(identity, f"kafka {servers}: {words}") from error
        raise AgentError(
            f"kafka {servers}: {type(last).__name__}: {last}; check bootstrap.servers and security.protocol"
        ) from error
    _REFUSALS.forget(identity)
    return client


def reception() -> str | None:
    """Returns whether brokers accept this process: empty once they do; else why they refuse; None if not reached."""
    return _REFUSALS.reception


def close(client: KafkaNetClient) -> None:
    """Closes connections and stops the network thread."""
    client.close()
