"""Being a member of a Kafka group: kafka-python's coordinator with JoinGroup v9, and what it lacks for an agent.

The library discovers, authenticates, heartbeats and retries; added are `skip_assignment` (KIP-814), leaving by member
id over a connection of its own, joins that end while nobody waits for them, and the leader's id. What must not enter:
what a group is for; subclasses give protocol type, metadata and what becomes of an assignment.
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

from agent.connections import Connections, Refusals, identity_of
from agent.refusals import refusal
from common.errors import AgentError

JOIN_VERSION: Final = 9
"""JoinGroup v9 tells a restarted static leader that it still leads, and v8 carries the reason."""
SYNC_VERSION: Final = 5
LEAVE_SECONDS: Final = 2.0
_AGAIN_SECONDS: Final = 0.1
_MOVES: Final = (
    kafka_errors.NotCoordinatorError,
    kafka_errors.CoordinatorNotAvailableError,
    kafka_errors.CoordinatorLoadInProgressError,
)
STUCK_SECONDS: Final = 60.0
"""A thread that has not looked after its membership for so long is stuck: the library gives the membership up then.

Not after the rebalance timeout, as the library has it: one question to a group whose coordinator restarts on a busy
machine takes as long as that, and the membership would be lost for it."""
_REFUSALS: Final = Refusals()


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A JoinGroup answer for the leader: who is in the group, with their metadata; `me` leads it."""

    generation: int
    protocol: str
    me: str
    members: tuple[tuple[str, str | None, bytes], ...]


Assign = Callable[[Joined], dict[str, bytes]]
"""Makes the assignment of every member; runs on the network thread while the group waits, so memory only."""


class GroupMember(BaseCoordinator):  # type: ignore[misc]  # the library is untyped
    """One membership. Not thread-safe but for what the base class makes so: one thread drives it."""

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
            client: A client of this group's own (a parked JoinGroup holds its connection).
            group: The group.
            instance_id: `group.instance.id`, or None for a dynamic member.
            session_seconds: After so long without a heartbeat the broker gives the member up.
            heartbeat_seconds: Time between heartbeats.
            rebalance_seconds: How long the group waits for this member in a rebalance.
            assign: Called when this member leads.
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
        self._coordinator_broker: int | None = None
        self.leader_id = ""
        self.waited_seconds = 0.0
        """How long the last JoinGroup was parked: the slowest member's way into the rebalance."""
        self.kept_waiting: list[float] = []
        """Seconds from each answer to JoinGroup that made this member plan to its SyncGroup, to be taken out."""

    # what a subclass gives

    def protocol_type(self) -> str:
        """The group's protocol type."""
        raise NotImplementedError

    def group_protocols(self) -> list[tuple[str, bytes]]:
        """Protocol names with this member's metadata for each."""
        raise NotImplementedError

    def _take(self, content: bytes) -> None:
        """Take note of this member's own assignment; empty where there is none."""
        raise NotImplementedError

    # what kafka-python asks of a subclass

    def _perform_assignment(self, leader_id: str, protocol: str, members: Sequence[Any]) -> dict[str, bytes]:
        """Unused: `_do_join_and_sync_async` calls `_assign` itself, with the generation."""
        raise NotImplementedError

    async def _do_join_and_sync_async(self) -> bytes:
        """One JoinGroup and SyncGroup. Between the two only `_assign` runs."""
        if self.coordinator_unknown():
            raise kafka_errors.CoordinatorNotAvailableError(self.coordinator_id)
        with self._lock:
            self.state = MemberState.REBALANCING
        first = await self._answered(self._send_join())
        answered_at = time.monotonic()
        response = await self._before_sync(first)
        assignments: dict[str, bytes] = {}
        if response.leader == response.member_id and not response.skip_assignment:
            assignments = self._assign(
                Joined(
                    generation=response.generation_id,
                    protocol=response.protocol_name,
                    me=response.member_id,
                    members=tuple(
                        (member.member_id, member.group_instance_id or None, bytes(member.metadata))
                        for member in response.members
                    ),
                )
            )
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
            # the library does this only where `join` waits at this very moment; a join that ends between two calls it
            # takes for stale and repeats, which as the leader's JoinGroup rebalances the whole group once more
            self.rejoining = self.rejoin_needed = False
            self.state = MemberState.STABLE
            self._joined_unseen = True
            self._enable_heartbeat()
        return content

    async def _before_sync(self, response: Any) -> Any:
        """Between JoinGroup and SyncGroup; a subclass may join once more and give that answer instead."""
        return response

    def _send_join(self) -> Any:
        """A future of the answer to JoinGroup; the request is on its way."""
        reason, self._reason = self._reason, ""
        request = self._join_request(self._generation.member_id, self.group_instance_id, reason)
        # the broker parks JoinGroup until everybody is there: the slowest member's rebalance timeout, not ours
        return self._manager.send(request, node_id=self.coordinator_id, request_timeout_ms=600_000)

    async def _answered(self, sent: Any) -> Any:
        """The answer to JoinGroup, taken note of."""
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
        """For members by their ids, with their instance ids."""
        identities = [
            LeaveGroupRequest.MemberIdentity(
                member_id=member_id, group_instance_id=instance_id, reason=f"samerack: {reason}"
            )
            for member_id, instance_id in members.items()
        ]
        return LeaveGroupRequest(group_id=self.group_id, member_id=next(iter(members)), members=identities)

    def _handle_find_coordinator_response(self, response: Any) -> Any:
        found = response.coordinators[0] if response.coordinators else response
        self._coordinator_broker = found.node_id if found.error_code == 0 else None
        return super()._handle_find_coordinator_response(response)

    def _handle_heartbeat_response(self, response: Any, send_time: float) -> Any:
        error = kafka_errors.for_code(response.error_code)
        if error is kafka_errors.FencedInstanceIdError:
            self._fenced = True
        elif issubclass(error, kafka_errors.AuthorizationError):
            # the library would go on ten times a second, and tell nobody
            self._refusal = error(self.group_id)
            self._disable_heartbeat()
        try:
            return super()._handle_heartbeat_response(response, send_time)
        finally:
            if self.rejoin_needed or self._fenced or self._refusal is not None:
                self._wake()

    # what its owner does with it

    @property
    def member_id(self) -> str:
        """The member id the broker gave, or empty."""
        return str(self._generation.member_id)

    @property
    def generation_id(self) -> int:
        """The generation of the last JoinGroup answer."""
        return int(self._generation.generation_id)

    @property
    def fenced(self) -> bool:
        """Whether another agent with the same instance id has taken this membership over."""
        return self._fenced

    @property
    def leading(self) -> bool:
        """Whether the last JoinGroup answer made this member the leader."""
        return bool(self.member_id) and self.leader_id == self.member_id and self.state is not MemberState.UNJOINED

    def poll_heartbeat(self) -> None:
        """Heed what the heartbeats brought.

        Raises:
            KafkaError: They are refused, or have ended.
        """
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal
        super().poll_heartbeat()

    def trigger(self, reason: str) -> None:
        """Make the next `ensure_active_group` rejoin: as the leader's JoinGroup it starts a rebalance."""
        self._reason = reason
        self.request_rejoin()

    @property
    def wants_join(self) -> bool:
        """Whether `join` has something to do, or to tell: a join may end while nobody waits for it."""
        return self._joined_unseen or bool(self.need_rejoin())

    def join(self, timeout: float) -> bool:
        """Join or rejoin where that is needed; False when the broker still waits for others after `timeout` seconds."""
        joined = bool(self.ensure_active_group(timeout_ms=round(timeout * 1000)))
        if joined:
            self._joined_unseen = False
        return joined

    def leave(self) -> None:
        """Leave by member id, also while JoinGroup is parked; whoever has the instance id by now is left alone."""
        member_id = self.member_id
        if not member_id or self._fenced:
            return
        self._disable_heartbeat()
        request = self._leave_request({member_id: self.group_instance_id})
        deadline = time.monotonic() + LEAVE_SECONDS
        # who leaves only a broker that coordinates the group no more is waited for until its session is over
        while left_error(self._send_beside(request, LEAVE_SECONDS)) in _MOVES and time.monotonic() < deadline:
            self.coordinator_dead(kafka_errors.NotCoordinatorError())
            time.sleep(_AGAIN_SECONDS)
        self.reset_generation()

    def _send_beside(self, request: Any, timeout: float) -> Any:
        """Send to the coordinator's broker over its ordinary connection instead of the coordinator's own."""
        milliseconds = round(timeout * 1000)

        async def exchange() -> Any:
            if not await self.ensure_coordinator_ready_async(timeout_ms=milliseconds):
                raise kafka_errors.CoordinatorNotAvailableError(self.group_id)
            future = self._manager.send(request, node_id=self._coordinator_broker, request_timeout_ms=milliseconds)
            return await self._manager.wait_for(future, milliseconds)

        return self._net.run(exchange)


def left_error(answer: Any) -> Any:
    """The class of what is wrong in the answer to a LeaveGroup; of several members, the first that something is."""
    codes = [answer.error_code, *(member.error_code for member in answer.members or ())]
    return kafka_errors.for_code(next((code for code in codes if code), 0))


def connect(config: dict[str, Any], timeout: float = 10.0) -> KafkaNetClient:
    """A client of its own with its network thread running.

    Raises:
        RefusedError: A bootstrap server refuses the agent, or the agent it.
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
    """How brokers received this process: empty once they let it in; before, why they refused it; None while away."""
    return _REFUSALS.reception


def close(client: KafkaNetClient) -> None:
    """Close connections and stop the network thread."""
    client.close()
