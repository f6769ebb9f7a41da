"""The agent in one consumer group: a member with a plan instead of topics (KIP-54's userData, KIP-429, KIP-814).

`cluster.group_member` has a member of any group, and this module what the agent does beyond it: between its JoinGroup
and SyncGroup (`_join`), when it leaves, and with member ids besides its own.

A reserved id is one that the broker gave in a JoinGroup response with MEMBER_ID_REQUIRED and that has not joined yet:
Kafka calls it a pending member. Every rebalance of the group waits for it until it joins, is released, or expires. With
one the agent holds a rebalance open, so that all members wait in JoinGroup and own no partitions; the steps of a
takeover are in `agent.leading.takeover_attempt`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Any, Final

from kafka import errors as kafka_errors

from samerack.agent.policy.back_off_causes import BackOffError, Cause
from samerack.cluster.client import ClusterClient
from samerack.cluster.errors import COORDINATOR_MOVED
from samerack.cluster.group import CONSUMER, GroupView, view_group
from samerack.cluster.group_member import LEAVE_SECONDS, LEFT, Assign, GroupMember, MembershipState, left_error
from samerack.cluster.group_questions import describe_groups, fetch_offsets
from samerack.common.errors import AgentError
from samerack.protocol.consumer import NO_GENERATION, decode_assignment, encode_subscription
from samerack.protocol.errors import ProtocolError
from samerack.protocol.sticky import COOPERATIVE_STICKY, encode_cooperative_sticky, encode_sticky
from samerack.protocol.values import Subscription, TopicPartitions, no_partitions
from samerack.settings.leading import LeadingSettings

HEARTBEAT_SECONDS: Final = 0.5
"""The other members wait for the agent in each rebalance until its next heartbeat at most."""
REBALANCE_SECONDS: Final = 10.0
"""How long others wait for an agent that does not join again; short, as an agent has nothing to finish first."""
RESERVE_SECONDS: Final = 2.0
RESERVED_SECONDS: Final = 6.0
"""The broker drops a reserved id after this time: the shortest session timeout that it allows by default.

Brokers do not list such ids (DescribeGroups names members only), so an id whose response is lost cannot be found."""
_ALONE_SECONDS: Final = 0.1
"""While all other members are about to join again, the agent joins this often to see whether one has."""


Synced = Callable[[kafka_errors.UnknownError | None], None]
"""Called with each answer to SyncGroup that is an unknown error, or None if there is no error; it may raise."""


class Hold(Enum):
    """The state of holding a group in a rebalance in which all members wait and own no partitions."""

    NONE = "none"
    ASKED = "asked"
    HELD = "held"
    FAILED = "failed"


class Membership(GroupMember):
    """The agent in one consumer group; one thread at a time drives it."""

    def __init__(  # noqa: PLR0913 - a membership has as many listeners
        self,
        client: ClusterClient,
        *,
        group: str,
        settings: LeadingSettings,
        assign: Assign,
        synced: Synced = lambda _: None,
        wake: Callable[[], None],
    ) -> None:
        """Prepare; nothing is sent before `join`.

        `assign` is called when this member leads the group, `synced` after each SyncGroup, `wake` from the network
        thread when it has to rejoin.
        """
        super().__init__(
            client,
            group=group,
            instance_id=settings.instance_id,
            session_seconds=settings.session_timeout_seconds,
            heartbeat_seconds=HEARTBEAT_SECONDS,
            rebalance_seconds=REBALANCE_SECONDS,
            assign=assign,
            wake=wake,
        )
        self._synced = synced
        self._protocols = self._offered = settings.protocols
        """The names that it can offer, and those that it offers now, in this order."""
        self._changes = 0
        """How often its user data has changed: then a follower's JoinGroup starts a rebalance."""
        self._session_ms = round(settings.session_timeout_seconds * 1000)
        self._reserved_ms = min(round(RESERVED_SECONDS * 1000), self._session_ms)
        self.pending: frozenset[str] = frozenset()
        """Reserved ids that are neither joined nor released."""
        self.is_ending = False
        """Whether the agent was asked to leave the group, at once or when another one has taken the membership over."""
        self.parked_id = ""
        """The id of this static member before the response to its first JoinGroup, if DescribeGroups shows it."""
        self._assigned: TopicPartitions | None = None
        self.hold_state = Hold.NONE
        """The state of holding the group; FAILED if the broker gave no member id to hold it with."""
        self._held_at = float("-inf")
        self._once_more: Any = None
        """A future of the response to a JoinGroup that was sent right after the one that is answered next."""
        self._return_until = float("-inf")

    # what the base class requires

    def protocol_type(self) -> str:
        """Return the protocol type of consumers."""
        return CONSUMER

    def group_protocols(self) -> list[tuple[str, bytes]]:
        """Return the offered names, the group's present one first, each with an empty subscription.

        The subscription has version 0, which contains all that the agent needs: leaders such as kafka-go's refuse bytes
        after the user data, and Java's sticky assignors plan the same with it as with newer versions (2.8, 3.4 and
        4.3).
        """
        return [
            (name, encode_subscription(Subscription(version=0, topics=(), user_data=user_data(name, self._changes))))
            for name in self._offered
        ]

    def _take(self, content: bytes) -> None:
        self._assigned = None
        # to leave because of what another member has sent would cost the group two rebalances, again and again
        with suppress(ProtocolError):
            self._assigned = decode_assignment(content).partitions if content else None

    @property
    def assigned(self) -> TopicPartitions:
        """Return what the agent was assigned, by a leader that does not know it."""
        return self._assigned or no_partitions()

    # from JoinGroup to SyncGroup

    def _check_synced(self, error: Any) -> None:
        if error in (kafka_errors.UnknownError, kafka_errors.NoError):
            self._synced(error(self.group_id) if error is kafka_errors.UnknownError else None)
        super()._check_synced(error)

    def _check(self, error: Any) -> None:
        """As in the base class; and give the join up where the group has removed the agent meanwhile.

        The group may have a leader by now that fails on a member without topics, so the agent must be admitted again.
        Without a member id it is being born with the group, and has removed itself for another position; a dynamic
        member has none to join again with.
        """
        if error is kafka_errors.UnknownMemberIdError and self.member_id and self.is_static:
            self.is_joining, self._attempt = False, None
        super()._check(error)

    async def _join(self) -> Any:
        """Join, and again while the group is to be held, or evicted members are about to return."""
        response = await self._answered(self._send_join())
        # if the others were faster than the pending member, another member leads the second rebalance too: join again
        while self._once_more or (response.leader != response.member_id and self.hold_state in (Hold.ASKED, Hold.HELD)):
            joining, self._once_more = self._once_more or self._send_once_more(), None
            if response.leader != response.member_id and self.hold_state is Hold.ASKED:
                await self._reserve_pending_member()
            response = await self._answered(joining)
        while _is_alone(response) and time.monotonic() < self._return_until:
            # the coordinator answers at once with the same generation until others join; then it waits for them
            await self._net.sleep(_ALONE_SECONDS)
            self._check_stays()
            response = await self._answered(self._send_join())
        self._return_until = float("-inf")
        return response

    def _send_join(self) -> Any:
        self._check_place()
        joining, self._once_more = super()._send_join(), None
        self._have_ready()
        return joining

    def _check_place(self) -> None:
        """Refuse to join with any other id where the coordinator does not know the one chosen for its position."""
        if not self.is_static and not self.member_id:
            raise BackOffError(Cause.PLACE_LOST)

    def _have_ready(self) -> None:
        """Send the second JoinGroup, which waits at the broker behind the one that is parked.

        A broker handles a connection's next request as soon as it has answered the one before, so the second arrives
        before the plan of the group's leader, even if the agent's machine is slow. The group must know the member id.
        """
        if self.hold_state is Hold.ASKED and self._parked and self._once_more is None and self.member_id:
            self._once_more = self._send_once_more()

    def _send_once_more(self) -> Any:
        self._changes += 1
        self._reason = "asks all members to rejoin"
        return super()._send_join()

    async def _reserve_pending_member(self) -> None:
        self._held_at = time.monotonic()
        try:
            pending_member = await self._reserve()
        except (kafka_errors.KafkaError, AgentError):
            self.hold_state = Hold.FAILED
            return
        if self.hold_state is Hold.ASKED:
            self.hold_state = Hold.HELD
        else:  # the hold was ended meanwhile
            future = self._send_release(pending_member)
            # a broker that does not answer must not end the join; the id stays in `pending` and is released later
            with suppress(kafka_errors.KafkaError):
                if left_error(await self._answer_of(future, LEAVE_SECONDS)) in LEFT:
                    self.pending -= {pending_member}

    # what the next join is to do

    @property
    def is_outside(self) -> bool:
        """Whether the agent is neither in the group nor joining it."""
        return self.state is MembershipState.UNJOINED and not self.is_joining

    @property
    def known_id(self) -> str:
        """The member id; before the broker has answered with it, `parked_id`."""
        return self.member_id or self.parked_id

    def offer(self, present: str) -> None:
        """Put the group's present protocol first, so that joining does not change the vote."""
        rest = tuple(name for name in self._protocols if name != present)
        self._offered = (present, *rest) if present in self._protocols else self._protocols

    def adopt(self, member_id: str) -> None:
        """Join with a reserved id from now on, as a member without instance id."""
        self.group_instance_id = None
        self.pending -= {member_id}
        self._forget_generation(member_id)

    def nudge(self) -> None:
        """Make the next `join` start a rebalance although this member follows: its metadata has changed."""
        self._changes += 1
        super().trigger("asks for a new assignment")  # not its own `trigger`, which is a leader's

    def rejoin_for_position(self) -> None:
        """Rejoin with a new member id and the same instance id: a new position in the broker's order, no rebalance."""
        self._reason = "takes a position at the front of the order"
        self._forget_generation()

    def await_return(self, seconds: float) -> None:
        """Delay the sync while alone, for this number of seconds: evicted members may need that long to join again.

        A group that has synced is Stable, and committed offsets expire by their own age in it (KIP-211).
        """
        self._return_until = time.monotonic() + seconds

    def hold(self) -> None:
        """Do not sync after the next JoinGroup that another member leads, but join again with a pending member.

        By then all members have revoked their partitions, which only that response proves, and join again at once; so
        they wait in JoinGroup without partitions until `let_go`, for RESERVED_SECONDS at most.
        """
        self.hold_state = Hold.ASKED
        self._net.call_soon_threadsafe(self._have_ready)

    @property
    def held_seconds(self) -> float:
        """For how long the group may have been held: since the request for the pending member's id."""
        return time.monotonic() - self._held_at

    def let_go(self) -> None:
        """End the hold of the group: release every reserved id and reserve no more.

        Raises:
            KafkaError: The brokers did not accept one; it is still in `pending`.
        """
        self.hold_state = Hold.NONE
        for member_id in self.pending:
            self.release(member_id)

    # member ids besides its own

    def reserve(self) -> str:
        """Reserve a member id at the broker without a rebalance, for a membership without instance id; return it.

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
        future = self._connections.send(request, node_id=self._coordinator, request_timeout_ms=patience)
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
        if error is kafka_errors.InvalidSessionTimeoutError and self._reserved_ms < self._session_ms:
            self._reserved_ms = self._session_ms  # these brokers require longer sessions
            return await self._reserve()
        raise self._refusal_by(error) if error is not kafka_errors.NoError else AgentError("joined without being asked")

    def _release_late(self, response: Any) -> None:
        """Release an id whose response arrived after the reservation had failed; runs on the network thread."""
        if kafka_errors.for_code(response.error_code) is kafka_errors.MemberIdRequiredError:
            self._send_release(str(response.member_id))

    def _send_release(self, member_id: str) -> Any:
        """Send a LeaveGroup for a reserved id, from the network thread; return a future of the response."""
        return self._connections.send(self._leave_request({member_id: None}), node_id=self._coordinator)

    def release(self, member_id: str, instance_id: str | None = None) -> bool:
        """Release a member id, which may belong to another membership; return whether the brokers knew it.

        Raises:
            KafkaError: The brokers did not accept it.
        """
        error = left_error(self._send_beside(self._leave_request({member_id: instance_id}), LEAVE_SECONDS))
        if error not in LEFT:
            raise self._refusal_by(error)
        self.pending -= {member_id}
        return error is kafka_errors.NoError

    def evict(self, *member_ids: str) -> None:
        """Remove other members with one LeaveGroup, at once or not at all; they join again by themselves.

        Raises:
            KafkaError: The brokers did not accept it.
        """
        request = self._leave_request(dict.fromkeys(member_ids), "samerack takes over as group leader")
        error = left_error(self._send_beside(request, LEAVE_SECONDS, at_once=True))
        if error is not kafka_errors.NoError:
            raise self._refusal_by(error)

    def _refusal_by(self, error: Any) -> kafka_errors.KafkaError:
        """Return the error to raise for a class of errors; find the coordinator again if the broker is not the one."""
        if error in COORDINATOR_MOVED:
            self._lose_coordinator()
        return error(self.group_id)

    # descriptions of the group

    def describe(self, timeout: float = 5.0) -> GroupView:
        """Describe the group, over a connection that no parked JoinGroup blocks.

        Raises:
            KafkaError: The coordinator did not answer or refused.
        """
        response = self._send_beside(describe_groups([self.group_id]), timeout)
        described = response.groups[0]
        error = kafka_errors.for_code(described.error_code)
        if error is not kafka_errors.NoError:
            raise self._refusal_by(error)
        view = view_group(described)
        if self._is_nameless:
            self.parked_id = self._own_id(view)
        return view

    def committed(self, timeout: float) -> dict[tuple[str, int], int]:
        """Return the group's committed offsets by topic and partition.

        Raises:
            KafkaError: The coordinator did not answer or refused.
        """
        group = self._send_beside(fetch_offsets([self.group_id]), timeout).groups[0]
        error = kafka_errors.for_code(group.error_code)
        if error is not kafka_errors.NoError:
            raise self._refusal_by(error)
        return {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in group.topics
            for partition in topic.partitions
        }

    def _own_id(self, view: GroupView) -> str:
        """Return the id of the member with this instance id: the agent's own while its JoinGroup is parked."""
        return next((member.id for member in view.members if member.instance_id == self.group_instance_id), "")


def _is_alone(response: Any) -> bool:
    """Return whether the JoinGroup response names only the member that leads."""
    return bool(response.members) and all(member.member_id == response.member_id for member in response.members)


def user_data(protocol: str, changes: int) -> bytes | None:
    """Return user data that differs each time and means nothing to the assignor of the group's leader.

    Sticky assignors read former partitions and their generation in it, or the generation alone. It must be well-formed:
    aiokafka's leader fails on a list of length -1, which others read as no data. It changes with each of the agent's
    requests for an assignment.
    """
    if not changes:
        return None
    generation = NO_GENERATION - changes  # below that of members without partitions, so no member's claims lose to it
    return (
        encode_cooperative_sticky(generation)
        if protocol == COOPERATIVE_STICKY
        else encode_sticky(no_partitions(), generation)
    )
