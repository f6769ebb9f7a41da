"""A member of a Kafka group: one state machine over requests that it sends itself (JoinGroup v9, SyncGroup v5).

It finds the coordinator, joins, syncs, sends heartbeats and leaves (KIP-345, KIP-394, KIP-814). One thread drives it.
What it waits for goes on between two calls, as tasks on the network thread: an attempt to join, since the coordinator
parks JoinGroup until all members have joined, and the heartbeats. JoinGroup and SyncGroup have a connection of their
own until they are answered, which a parked JoinGroup blocks; all other requests go over the broker's ordinary one. So
the members of many groups can share one client.

    UNJOINED --join--> JOINING --SyncGroup is answered--> STABLE --a rebalance, `trigger`, join--> JOINING
    JOINING, STABLE --the brokers do not know the member id or the generation, `leave`--> UNJOINED
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, ClassVar, Final

from kafka import errors as kafka_errors
from kafka.protocol.consumer.group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from samerack.cluster.client import ClusterClient
from samerack.cluster.connections import Node, OwnConnection
from samerack.cluster.errors import COORDINATOR_MOVES
from samerack.common.attempts import REQUESTS, Attempts

JOIN_VERSION: Final = 9
"""By JoinGroup v9 a restarted static leader knows that it still leads; since v8 the request carries the reason."""
SYNC_VERSION: Final = 5
NO_GENERATION: Final = -1
LEAVE_SECONDS: Final = 2.0
_AGAIN_SECONDS: Final = 0.1
_SLICE_SECONDS: Final = 0.15
"""A thread that waits for a response checks this often whether its membership must end."""
STUCK_SECONDS: Final = 60.0
"""A thread that has not polled its membership for this long is stuck: the membership then ends.

The rebalance timeout would be too short: one request to a group whose coordinator restarts on a busy machine can take
that long."""
_REPORT_SECONDS: Final = 10.0
"""The same failure is reported again after this time at the earliest."""
_REPEATED: Final = (
    kafka_errors.UnknownMemberIdError,
    kafka_errors.RebalanceInProgressError,
    kafka_errors.IllegalGenerationError,
    kafka_errors.MemberIdRequiredError,
)
"""Errors of a join after which to join again at once, unless the join is over with them."""
_OF_THE_CLIENT: Final = (
    kafka_errors.NodeNotReadyError,
    kafka_errors.ThrottlingQuotaExceededError,
    kafka_errors.TooManyInFlightRequests,
)
"""Errors of a request that show nothing about the coordinator."""
LEFT: Final = frozenset({kafka_errors.NoError, kafka_errors.UnknownMemberIdError, kafka_errors.FencedInstanceIdError})
"""Error codes in the LeaveGroup response after which the member id is no longer in the group, or was fenced."""


class EndedError(kafka_errors.KafkaError):  # type: ignore[misc]  # the library is untyped
    """Raised instead of waiting for a response because the membership must end."""


class _UnjoinedError(kafka_errors.RetriableError):  # type: ignore[misc]  # the library is untyped
    """A JoinGroup response arrived after the member had left, or had lost its member id."""


class MembershipState(Enum):
    """Where the member is: see the module's text."""

    UNJOINED = "unjoined"
    JOINING = "joining"
    STABLE = "stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A JoinGroup response for the leader: the members with their metadata; `me` is the leader's member id."""

    generation: int
    protocol: str
    me: str
    members: tuple[tuple[str, str | None, bytes], ...]


Assign = Callable[[Joined], dict[str, bytes]]
"""Computes the assignment of every member, on a thread of its own; the group waits for it, so it must do no I/O."""


class GroupMember:
    """One membership. One thread drives it; `end_by` may be called from any."""

    parked_seconds: ClassVar[float] = 600.0
    """The broker parks JoinGroup until all members have joined: up to the longest rebalance timeout of the members."""

    def __init__(  # noqa: PLR0913, PLR0915 - a membership has as many settings and variables
        self,
        client: ClusterClient,
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

        `wake` is called from the network thread when the group has to be rejoined; `instance_id` is None for a dynamic
        member. Members may share the client.
        """
        self._connections = client.connections
        self._net = client.net
        self.group_id = group
        self.group_instance_id = instance_id
        self._session_seconds = session_seconds
        self._heartbeat_seconds = heartbeat_seconds
        self._rebalance_seconds = rebalance_seconds
        self._hung_ms = round(session_seconds * 1000)
        """A broker that answers nothing for this time has lost this member, and its connection is closed.

        A shorter limit would close it for all members that share it, where a broker is only slow."""
        self._assign = assign
        self._wake = wake
        self._lock = threading.RLock()
        """Held while what follows changes together: both threads change it."""
        self.state = MembershipState.UNJOINED
        self.member_id = ""
        """The member id the broker gave, or empty."""
        self.generation_id = NO_GENERATION
        """The generation of the last JoinGroup response."""
        self._protocol: str | None = None
        self._wants_rejoin = True
        self._ended_between_calls = False
        """Whether a join has ended while no call waited for it."""
        self._attempt: Any = None
        """A future of the attempt to join that goes on, or has ended and was not looked at."""
        self.is_joining = False
        """Whether a join was begun that has not succeeded since, and was not given up."""
        self._reason = ""
        self._unplanned: Exception | None = None
        """Why the last plan could not be made; kept because the join may end while no call waits for it."""
        self._joins = Attempts(REQUESTS)
        self._parked = False
        """Whether a JoinGroup was sent that is not answered."""
        self._is_leaving = False
        """Whether the member leaves or has left, and was not asked to join since: a paused attempt sends no more."""
        self.leader_id = ""
        self.waited_seconds = 0.0
        """How long the last JoinGroup was parked: the time that the slowest member took to rejoin."""
        self.kept_waiting: list[float] = []
        """Seconds from JoinGroup response to SyncGroup for each plan of this member; the caller removes them."""
        self._beating: object = None
        """Another object for each series of heartbeats; None while none are sent."""
        self._heartbeats: Any = None
        self._beats = Attempts(REQUESTS)
        self.well_at = float("-inf")
        """When the last request that showed this member in the group was sent, monotonic seconds."""
        self._heard_at = self._polled_at = float("-inf")
        self._awaited_at = float("inf")
        """Since when a rebalance waits for this member to join, monotonic seconds."""
        self._fenced = False
        self._refusal: kafka_errors.KafkaError | None = None
        self._coordinator: int | None = None
        """The broker that was last named as the coordinator; None if the last lookup failed."""
        self._found: int | None = None
        """The broker that was last found to be the coordinator."""
        self._coordinator_is_known = False
        """Whether requests go to `_coordinator` without another lookup."""
        self._own: OwnConnection | None = None
        """The connection for JoinGroup and SyncGroup, from the first JoinGroup until SyncGroup is answered."""
        self._is_interrupted = False
        """Whether the last request to the coordinator was given up, so that the next must not wait behind it."""
        self._closed = False
        self.lookup = object()
        """Another object each time that the coordinator had to be looked up anew."""
        self._lookup: Any = None
        self._lookups = Attempts(REQUESTS)
        self._failure: kafka_errors.KafkaError | None = None
        self._reported: tuple[type, float] = (type(None), float("-inf"))
        self._end_at = float("inf")

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

    # what its owner calls

    @property
    def leading(self) -> bool:
        """Whether the last JoinGroup response made this member the leader."""
        return bool(self.member_id) and self.leader_id == self.member_id and self.state is not MembershipState.UNJOINED

    @property
    def fenced(self) -> bool:
        """Whether another agent with the same instance id has taken this membership over."""
        return self._fenced

    @property
    def is_static(self) -> bool:
        """Whether the membership has an instance id, so that it can change its position without a rebalance."""
        return self.group_instance_id is not None

    @property
    def _is_nameless(self) -> bool:
        """Whether this static member's first JoinGroup is parked, so that only the broker knows its id."""
        return self._parked and self.is_static and not self.member_id

    @property
    def is_forgotten(self) -> bool:
        """Whether no heartbeat was answered for a whole session timeout: the brokers have removed this member.

        As far as they are there: a coordinator that comes back starts every session anew.
        """
        return self.state is MembershipState.STABLE and time.monotonic() - self._heard_at > self._session_seconds

    @property
    def is_cut_off(self) -> bool:
        """Whether it is forgotten because this process does not reach the coordinator that other brokers name.

        A process that did not run for that long tries a few heartbeats first.
        """
        return self.is_forgotten and self._coordinator_is_known and self._beats.pause_seconds > 0

    @property
    def wants_join(self) -> bool:
        """Whether to call `join`: a join is needed, or one ended while no call waited for it."""
        return self._ended_between_calls or self._wants_rejoin

    def trigger(self, reason: str) -> None:
        """Make the next `join` rejoin: a JoinGroup of the leader starts a rebalance."""
        self._reason = reason
        self._wants_rejoin = True

    def join(self, timeout: float) -> bool:
        """Join or rejoin if needed; return False if the broker still waits for others after `timeout` seconds.

        Raises:
            EndedError: The time given to `end_by` is reached.
            KafkaError: The broker refuses this member.
            Exception: What `assign` raised, also if no call waited at that time: then nothing may be sent, and the
                member must not join once more.
        """
        self._is_leaving = False
        deadline = time.monotonic() + timeout
        joined, left = False, timeout
        while not joined and left > 0:
            self._check_end()
            if self._unplanned is not None:
                raise self._unplanned
            joined = bool(self._net.run(self._join_within, min(left, _SLICE_SECONDS)))
            left = deadline - time.monotonic()
        if joined:
            self._ended_between_calls = False
        return joined

    def poll_heartbeat(self) -> None:
        """Act on the results of the heartbeats; to be called regularly, see `STUCK_SECONDS`.

        Raises:
            KafkaError: They are refused.
            Exception: They have ended.
        """
        self._polled_at = time.monotonic()
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal
        ended = self._heartbeats
        if ended is not None and ended.is_done:
            self._heartbeats = None
            if ended.exception is not None:
                raise ended.exception

    def take_failure(self) -> kafka_errors.KafkaError | None:
        """Return what prevents joining, finding the coordinator or heartbeats, if it is to be reported now.

        A failure is not reported if the next attempt succeeds; the same one is reported every ten seconds at most.
        """
        failure, self._failure = self._failure, None
        kind, at = self._reported
        if failure is None or (type(failure) is kind and time.monotonic() - at < _REPORT_SECONDS):
            return None
        self._reported = type(failure), time.monotonic()
        return failure

    def end_by(self, at: float) -> None:
        """End all waits at this time (seconds, monotonic), except for the response to `leave`; from any thread."""
        self._end_at = at

    def close(self) -> None:
        """End what goes on between calls; neither this member nor its connection is used after that."""
        self._closed, self._beating = True, None
        self._net.call_soon_threadsafe(self._drop_own)

    def _check_end(self) -> None:
        if time.monotonic() >= self._end_at:
            raise EndedError(self.group_id)

    def _note(self, error: kafka_errors.KafkaError, attempts: Attempts) -> None:
        """Store a failure for `take_failure` once it causes a pause."""
        if attempts.pause_seconds:
            self._failure = error

    def _forget_generation(self, member_id: str = "") -> None:
        """Be outside, with this member id for the next JoinGroup."""
        with self._lock:
            self.member_id, self.generation_id, self._protocol = member_id, NO_GENERATION, None
            self._wants_rejoin = True
            self.state = MembershipState.UNJOINED

    # finding the coordinator

    async def _find(self) -> int | None:
        """Return the coordinator, after a FindCoordinator if it is not known.

        Raises:
            KafkaError: It is not found.
        """
        if not self._knows_coordinator():
            if self._lookup is None or self._lookup.is_done:
                self._lookup = self._connections.call_soon(self._look_up)
            await self._lookup
        return self._coordinator

    def _knows_coordinator(self) -> bool:
        """Return whether the coordinator is known; it is looked up again where no connection to it can be made."""
        if self._coordinator is not None and self._connections.is_away(self._coordinator):
            self._lose_coordinator()
        return self._coordinator_is_known

    async def _look_up(self) -> None:
        """Send one FindCoordinator, after a pause if earlier ones failed."""
        if pause := self._lookups.pause_seconds:
            await self._net.sleep(pause)
        try:
            node = self._connections.least_loaded_node()
            if node is None:
                raise kafka_errors.NodeNotReadyError(self.group_id)
            request = FindCoordinatorRequest(key=self.group_id, key_type=0, coordinator_keys=[self.group_id])
            response = await self._connections.send(request, node_id=node)
            found = response.coordinators[0] if response.coordinators else response
            self._coordinator = found.node_id if found.error_code == 0 else None
            self.lookup = object()
            if found.error_code:
                raise kafka_errors.for_code(found.error_code)(self.group_id)
        except kafka_errors.KafkaError as error:
            if isinstance(error, kafka_errors.InvalidMetadataError):
                self._connections.refresh_brokers()
            self._lookups.failed()
            self._note(error, self._lookups)
            raise
        if self._lookups.failures or found.node_id != self._found:
            self._heard_at = time.monotonic()  # a new coordinator, or one that was away, starts every session anew
        if self._own is not None and self._own.broker != found.node_id:
            self._drop_own()  # nobody answers there any more: the attempt begins anew
        self._lookups.succeeded()
        self._found = found.node_id
        self._connections.add_coordinator(Node(found.node_id, found.host, found.port))
        self._coordinator_is_known = True

    def _lose_coordinator(self) -> None:
        """Look the coordinator up before the next request to it."""
        self._coordinator_is_known = False

    # from JoinGroup to SyncGroup

    async def _join_within(self, seconds: float) -> bool:
        """Go on with the attempt to join, or begin one; return whether this member has joined within a time.

        Raises:
            Exception: The error of the attempt, unless another one may succeed.
        """
        until = time.monotonic() + seconds
        while self._wants_rejoin:
            attempt = self._attempt
            if attempt is None or (attempt.is_done and attempt.succeeded()):
                self.is_joining = True
                self._beating = None  # none during a join: the coordinator removes no member that it has parked
                attempt = self._attempt = self._connections.call_soon(self._join_and_sync)
            with suppress(Exception):
                await self._connections.wait_for(attempt, max(0.0, until - time.monotonic()) * 1000)
            if not attempt.is_done:
                return False
            if attempt.succeeded():
                continue
            self._attempt, error = None, attempt.exception
            if not self.is_joining or not isinstance(error, (kafka_errors.RetriableError, *_REPEATED)):
                raise error
            if (left := until - time.monotonic()) <= 0:
                return False
            if not isinstance(error, _REPEATED):
                await self._net.sleep(min(_AGAIN_SECONDS, left))
        return True

    async def _join_and_sync(self) -> None:
        """Send one JoinGroup and SyncGroup, after a pause if earlier ones failed."""
        await self._find()
        if pause := self._joins.pause_seconds:
            await self._net.sleep(pause)
            await self._find()
        self._check_stays()
        try:
            self.state = MembershipState.JOINING
            await self._sync(await self._join())
            self._drop_own()
        except kafka_errors.KafkaError as error:
            if not isinstance(error, kafka_errors.BrokerResponseError):
                self._drop_own()
                if not isinstance(error, _OF_THE_CLIENT):
                    self._lose_coordinator()
            self._fenced = self._fenced or isinstance(error, kafka_errors.FencedInstanceIdError)
            self._joins.failed()
            self._note(error, self._joins)
            raise
        self._joins.succeeded()

    def _check_stays(self) -> None:
        """Refuse to send another JoinGroup when the member leaves: it would be in the group again."""
        if self._is_leaving:
            raise _UnjoinedError(self.group_id)

    async def _join(self) -> Any:
        """Send JoinGroup; return the response. A subclass may join more than once before it syncs."""
        return await self._answered(self._send_join())

    def _send_join(self) -> Any:
        """Send JoinGroup; return a future of the response."""
        reason, self._reason = self._reason, ""
        request = self._join_request(self.member_id, self.group_instance_id, reason)
        self._parked = True
        return self._send_own(request, self.parked_seconds)

    def _send_own(self, request: Any, seconds: float) -> Any:
        """Send over this member's own connection, which is opened if need be; return a future of the response."""
        if self._closed:
            raise EndedError(self.group_id)
        if self._coordinator is None:
            raise kafka_errors.CoordinatorNotAvailableError(self.group_id)
        own = OwnConnection(self._coordinator, self)
        if own != self._own:
            self._drop_own()
        self._own = own
        return self._connections.send(request, node_id=own, request_timeout_ms=round(seconds * 1000))

    def _drop_own(self) -> None:
        self._connections.drop(self._own)
        self._own = None

    def _join_request(self, member_id: str, instance_id: str | None, reason: str) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=round(self._session_seconds * 1000),
            rebalance_timeout_ms=round(self._rebalance_seconds * 1000),
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=self.protocol_type(),
            protocols=self.group_protocols(),
            reason=f"samerack: {reason or 'follows the group'}"[:255],
            max_version=JOIN_VERSION,
        )

    async def _answered(self, sent: Awaitable[Any]) -> Any:
        """Await the JoinGroup response, store its data and return it."""
        sent_at = time.monotonic()
        self._parked = True
        try:
            response = self._accepted(await sent)
        finally:
            self._parked = False
        self.waited_seconds = time.monotonic() - sent_at
        return response

    def _accepted(self, response: Any) -> Any:
        """Store the data of a JoinGroup response and return it."""
        error = kafka_errors.for_code(response.error_code)
        if error is kafka_errors.MemberIdRequiredError:
            self._forget_generation(response.member_id)
        self._check(error)
        self._check_protocol(response)
        with self._lock:
            if self.state is not MembershipState.JOINING:
                raise _UnjoinedError(self.group_id)
            self.member_id, self.generation_id = str(response.member_id), int(response.generation_id)
            self._protocol = response.protocol_name
        self.leader_id = response.leader
        return response

    async def _sync(self, response: Any) -> None:
        """Send SyncGroup after a JoinGroup response, with every member's assignment if this member leads."""
        answered_at = time.monotonic()
        assignments: dict[str, bytes] = {}
        if response.leader == response.member_id and not response.skip_assignment:
            assignments = await self._planned(response)
            if self.state is not MembershipState.JOINING:
                raise _UnjoinedError(self.group_id)
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            protocol_type=self.protocol_type(),
            protocol_name=self._protocol,
            assignments=list(assignments.items()),
            max_version=SYNC_VERSION,
        )
        sent_at = time.monotonic()
        if assignments:
            self.kept_waiting.append(sent_at - answered_at)
        answer = await self._send_own(request, self.parked_seconds)
        self._check_synced(kafka_errors.for_code(answer.error_code))
        self._check_protocol(answer)
        self._take(bytes(answer.assignment))
        with self._lock:
            self._wants_rejoin = self.is_joining = False
            self.state = MembershipState.STABLE
            self._ended_between_calls = True
            self._begin_heartbeats(sent_at)

    def _check_synced(self, error: Any) -> None:
        """Raise the error of a SyncGroup response, and act on it."""
        if error is not kafka_errors.NoError:
            self._wants_rejoin = True
        self._check(error)

    def _check(self, error: Any) -> None:
        """Raise the error of a response of the coordinator, if it is one, and act on it."""
        if error is kafka_errors.NoError:
            return
        if error is kafka_errors.UnknownMemberIdError:
            self._forget_generation()
        elif error is kafka_errors.IllegalGenerationError:
            self._forget_generation(self.member_id)
        elif error in (kafka_errors.CoordinatorNotAvailableError, kafka_errors.NotCoordinatorError):
            self._lose_coordinator()
        raise error(self.group_id)

    def _check_protocol(self, response: Any) -> None:
        """Raise an error if the group has become one of another protocol type (KIP-559)."""
        if response.protocol_type not in (None, self.protocol_type()):
            raise kafka_errors.InconsistentGroupProtocolError(f"the group's type is {response.protocol_type}")

    async def _planned(self, response: Any) -> dict[str, bytes]:
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
            plan: dict[str, bytes] = await self._connections.run_aside(partial(self._assign, joined))
        except Exception as error:
            self._unplanned = error
            raise
        return plan

    # heartbeats

    def _begin_heartbeats(self, synced_at: float) -> None:
        self.well_at = synced_at
        self._heard_at = self._polled_at = time.monotonic()
        self._awaited_at = float("inf")
        self._beating = object()
        self._heartbeats = self._connections.call_soon(self._beat, self._beating)

    async def _beat(self, series: object) -> None:
        """Send heartbeats until the next join, or until the brokers do not know this member any more."""
        pause = self._heartbeat_seconds
        while True:
            await self._connections.sleep(pause)
            if self._beating is not series or self.state is not MembershipState.STABLE:
                return
            sent_at = time.monotonic()
            # brokers go by the longest rebalance timeout of all members, which may be minutes
            is_overdue = sent_at - self._awaited_at > self._rebalance_seconds
            if is_overdue or sent_at - self._polled_at > STUCK_SECONDS:
                await self._end_stuck(stays=not is_overdue)
                return
            if sent_at - self._heard_at > self._session_seconds:
                self._lose_coordinator()  # it may be another one by now
            try:
                await self._send_heartbeat(series, sent_at)
            except kafka_errors.KafkaError as failure:
                if self._beating is not series:
                    return
                self._beats.failed()
                self._note(failure, self._beats)
                pause = max(_AGAIN_SECONDS, self._beats.pause_seconds)
            else:
                self._beats.succeeded()
                pause = max(0.0, sent_at + self._heartbeat_seconds - time.monotonic())
            finally:
                if self._wants_rejoin or self._fenced or self._refusal is not None:
                    self._wake()

    async def _send_heartbeat(self, series: object, sent_at: float) -> None:
        """Send one heartbeat, and act on its answer; the answer to one before the present join counts no more."""
        node = await self._find()
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
        )
        try:
            response = await self._connections.send(request, node_id=node, request_timeout_ms=self._hung_ms)
        except kafka_errors.KafkaError as failure:
            if not isinstance(failure, _OF_THE_CLIENT):
                self._lose_coordinator()
            raise
        if self._beating is not series:
            return
        error = kafka_errors.for_code(response.error_code)
        if error is kafka_errors.RebalanceInProgressError:
            self._wants_rejoin = True
            self._heard_at = time.monotonic()
            self._awaited_at = min(self._awaited_at, self._heard_at)
            return
        if error is kafka_errors.FencedInstanceIdError:
            self._fenced, self._beating = True, None
        elif issubclass(error, kafka_errors.AuthorizationError):
            self._refusal, self._beating = error(self.group_id), None
        self._check(error)
        self.well_at, self._heard_at, self._awaited_at = sent_at, time.monotonic(), float("inf")

    async def _end_stuck(self, *, stays: bool) -> None:
        """End the membership because its owner is stuck; a static member may stay until its session ends."""
        request = self._leave_request({self.member_id: self.group_instance_id})
        self._forget_generation()
        if not (stays and self.group_instance_id) and self._coordinator is not None:
            with suppress(kafka_errors.KafkaError):
                await self._connections.send(request, node_id=self._coordinator)

    # leaving

    def leave(self) -> None:
        """Leave by member id, or by instance id if the first JoinGroup of a static member has no response yet.

        Another member with the instance id is not affected: it would have ended the JoinGroup that is parked.

        Raises:
            KafkaError: The brokers did not accept it.
        """
        self._is_leaving = True
        if (self.member_id or self._is_nameless) and not self._fenced:
            self._leave_as(self.member_id)

    def _leave_as(self, member_id: str) -> None:
        """Leave by this member id, or by the instance id alone if it is empty."""
        self._is_leaving, self._beating = True, None
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
                self._lose_coordinator()
            time.sleep(pause)
        self._forget_generation()

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

    # other requests to the coordinator's broker

    def _send_beside(self, request: Any, timeout: float, *, at_once: bool = False) -> Any:
        """Send to the coordinator over the broker's ordinary connection, which no parked JoinGroup blocks.

        Without a response in time, or after the time given to `end_by`, that is a KafkaError; so it is if something is
        to be sent `at_once`, and no connection is open.
        """

        async def exchange() -> Any:
            if at_once and not (self._knows_coordinator() and self._connections.is_open(self._coordinator)):
                raise kafka_errors.NodeNotReadyError(self.group_id)
            broker = await self._broker(timeout)
            return await self._answer_of(self._send_to(broker, request), timeout)

        return self._net.run(exchange)

    def _send_to(self, broker: int | None, request: Any) -> Any:
        """Send to a broker; return a future of the response."""
        if self._is_interrupted and not self._closed:
            self._drop_own()  # for a new one: the membership ends, and awaits nothing there
            return self._send_own(request, self._hung_ms / 1000)
        return self._connections.send(request, node_id=broker, request_timeout_ms=self._hung_ms)

    async def _broker(self, timeout: float) -> int | None:
        """Return the coordinator; find it if it is not known.

        Raises:
            KafkaError: It is not found in time.
        """
        deadline = time.monotonic() + timeout
        while not (self._knows_coordinator() or await self._is_found(min(_SLICE_SECONDS, timeout))):
            self._check_end()
            if time.monotonic() > deadline:
                raise self._failure or kafka_errors.CoordinatorNotAvailableError(self.group_id)
        return self._coordinator

    async def _is_found(self, seconds: float) -> bool:
        """Return whether the coordinator is found within a time.

        Raises:
            KafkaError: The brokers refuse to name it.
        """
        finding = self._connections.call_soon(self._find)
        with suppress(kafka_errors.KafkaError):
            await self._connections.wait_for(finding, seconds * 1000)
        if finding.is_done and finding.failed():
            if not isinstance(finding.exception, kafka_errors.RetriableError):
                raise finding.exception
            await self._net.sleep(min(seconds, _AGAIN_SECONDS))
        return self._coordinator_is_known

    async def _answer_of(self, future: Any, timeout: float) -> Any:
        """Return the response to a request; wait in short slices so that the end of the membership interrupts it."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                self._check_end()
            except EndedError:
                self._is_interrupted = True
                raise
            left = deadline - time.monotonic()
            try:
                return await self._connections.wait_for(future, max(0.0, min(left, _SLICE_SECONDS)) * 1000)
            except kafka_errors.KafkaTimeoutError:
                if future.is_done or left <= _SLICE_SECONDS:
                    raise


def left_error(answer: Any) -> Any:
    """Return the error class of a LeaveGroup response; with several members, the first error."""
    codes = [answer.error_code, *(member.error_code for member in answer.members or ())]
    return kafka_errors.for_code(next((code for code in codes if code), 0))
