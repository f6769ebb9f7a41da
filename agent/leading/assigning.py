"""The leader's work between JoinGroup and SyncGroup: plans for all members, from memory, on the network thread.

It waits only, within the deadline, for the first poll of topics that this process has never seen. A plan covers every
member and every subscribed topic, or none is made: an agent that cannot plan leaves, and the group leads itself.

The group's leader passes descriptions of the group; another thread asks for a plan. A lock prevents lost updates
between the two. Nothing is logged here: the group's leader reports afterwards what was sent.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from samerack.agent.policy.back_off_causes import BackOffError, Cause
from samerack.cluster.group import (
    LIMIT_KEY,
    OFFSETS_TOPIC,
    GroupView,
    MemberView,
    member_bytes,
    member_key,
    record_bytes,
    too_large_reason,
    topics_of,
)
from samerack.cluster.group_member import Joined
from samerack.cluster.racks import NO_HOSTS, Hosts, client_id_of
from samerack.cluster.view import SettledCluster
from samerack.cluster.watch import ClusterWatch
from samerack.common.errors import AgentError
from samerack.common.weights import GroupWeights
from samerack.planning import planner
from samerack.planning.members import PlanMember, members_of_join, placed, returned
from samerack.planning.planner import (
    coverage,
    denied_topics_reason,
    members_without_partitions,
    owned_counts,
    unpolled_topics_reason,
)
from samerack.planning.problem import Mode, TopicTables, mode_of, problem_of
from samerack.protocol.bulk import SubscriptionReader
from samerack.protocol.consumer import decode_subscription, encode_assignment
from samerack.protocol.errors import ProtocolError
from samerack.protocol.values import Assignment, Subscription, TopicPartitions, no_partitions, to_pairs
from samerack.settings.all_settings import Settings

# Encodes the plans of one group so that its coordinator can write them: a group is one record in the brokers' topic.
#
# User data makes a plan larger, so only members that need it are given some, and none if the record would be too large
# or the last SyncGroup failed as it does then. A plan that is too large without it is not sent. All of it runs on the
# network thread while the group waits.


class PlanEncoder:
    """What is known of the records that the brokers write for one group."""

    def __init__(self, group: str, watch: ClusterWatch) -> None:
        self._group = group
        self._watch = watch
        self._has_failed = False
        """Whether the last SyncGroup was answered with an unknown error."""
        self._size = 0
        self._has_data = False
        self._refused: float = float("inf")
        """The smallest size of a record with user data whose SyncGroup was answered with an unknown error."""
        self.given: frozenset[bytes] = frozenset()
        """User data that members were given with their assignments."""

    def see(self, others: GroupView) -> None:
        """Store what members of a stable group were given."""
        self.given = frozenset(member.given_data for member in others.members if member.given_data)

    def encode(
        self, plan: planner.Plan, members: Sequence[PlanMember], joined: Joined, view: GroupView | None
    ) -> dict[str, bytes]:
        """Return the assignment of every member in the JoinGroup response.

        Raises:
            BackOffError: The brokers cannot write the plan.
        """
        data = {} if self._has_failed else planner.user_data_of(plan, members, generation=joined.generation)
        nothing = encode_assignment(Assignment(version=0, partitions=no_partitions()))
        empty = dict.fromkeys((member for member, _, _ in joined.members), nothing)
        for user_data in (data, {}) if data else ({},):
            encoded = empty | planner.encode(plan, members, user_data)
            self._size, self._has_data = _size(self._group, joined, encoded, view), bool(user_data)
            reason = too_large_reason(self._size, self._watch.record_limit)
            if not (reason or (user_data and self._size >= self._refused)):
                self.given |= set(user_data.values())
                return encoded
        raise BackOffError(Cause.RECORD_TOO_LARGE, reason)

    def synced(self, error: Exception | None) -> None:
        """Record an unknown error that answers SyncGroup, as it is when the group's record is too large, or success.

        Raises:
            BackOffError: Twice in a row, although the second plan had no user data: without the agent it is smaller.
        """
        if error is not None and self._has_data:
            self._refused = min(self._refused, self._size)
        has_failed, self._has_failed = self._has_failed, error is not None
        if error is None or not has_failed:
            return
        self._has_failed = False
        limit = self._watch.record_limit
        raise BackOffError(
            Cause.RECORD_TOO_LARGE,
            "brokers answered SyncGroup with an unknown error twice in a row, as if the group's record in "
            f"{OFFSETS_TOPIC} were too large (KAFKA-3590); the agent's last plan made it {self._size} bytes, and "
            f"{LIMIT_KEY} of that topic is {'not known' if limit is None else limit}",
        ) from error


def _size(group: str, joined: Joined, assignments: Mapping[str, bytes], view: GroupView | None) -> int:
    """Return the size of the group's record with these assignments."""
    described = {one.id: (one.client_id, f"/{one.client_host}") for one in view.members} if view is not None else {}
    return record_bytes(
        group,
        (
            member_bytes(member, instance, described.get(member), len(metadata) + len(assignments[member]))
            for member, instance, metadata in joined.members
        ),
    )


Weigh = Callable[[str], GroupWeights | None]
"""Returns the weights of a group's partitions by topic, from memory; None while they are not known."""

_MAX_ROUNDS: Final = 4
_PLANNING_SECONDS: Final = 1.0
"""This part of the deadline is kept for planning while topics are polled, but never more than half of the deadline."""
_MIN_SECONDS: Final = 0.00001


class NoConsumersError(AgentError):
    """The agent is the only member and must leave before SyncGroup makes the group Stable.

    Committed offsets expire by their own age in a Stable group, but not in one that becomes Empty (KIP-211).
    """


def unweighed(_: str) -> GroupWeights | None:
    """Return None: every partition has the same weight."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A plan that was sent to the group, and its input: `subscriptions` are topics by `member_key`."""

    generation: int
    plan: planner.Plan
    cluster: SettledCluster
    seconds: float
    members: int
    subscriptions: Mapping[str, frozenset[str]]
    cooperative: bool = False
    rounds: tuple[tuple[int, Mapping[str, str]], ...] = ()
    """The latest generations, this one last, with client ids by instance id or member id: the members of a generation
    that another one replaced at once are known only here."""
    weights: GroupWeights | None = None
    returned: Mapping[str, str] = field(default_factory=dict)
    """Former ids of members that a takeover evicted, by the ids under which they are back."""


class Assigning:
    """What is known for planning one group, and the last plan made for it."""

    def __init__(
        self, *, group: str, settings: Settings, watch: ClusterWatch, weigh: Weigh = unweighed, hosts: Hosts = NO_HOSTS
    ) -> None:
        self._group = group
        self._weigh = weigh
        self._hosts = hosts
        self._settings = settings
        self._leading = settings.leading.of(group)
        self._watch = watch
        self._lock = threading.Lock()
        self._view: GroupView | None = None
        self._owned: dict[str, TopicPartitions] = {}
        self._unread: planner.Plan | None = None
        """The plan that was sent last, until what members own by it is needed: no group waits for that."""
        self._evicted: tuple[MemberView, ...] = ()
        self._reader = SubscriptionReader()
        self.tables = TopicTables()
        self.encoder = PlanEncoder(group, watch)
        self._rounds: deque[tuple[int, Mapping[str, str]]] = deque(maxlen=_MAX_ROUNDS)
        self.sent: Sent | None = None
        self.since: float | None = None
        """When the plan that is being made was requested (monotonic); None while no plan is being made."""

    def see(self, others: GroupView) -> None:
        """Store a description of the group without the agent itself."""
        with self._lock:
            self._view = others
            owned = {member.id: member.assigned for member in others.members} | {
                member.instance_id: member.assigned for member in others.members if member.instance_id
            }
            if others.stable:
                self._owned, self._unread, self._evicted = owned, None, ()
                self.encoder.see(others)
            elif not self._remembered():
                # in a rebalance the broker still shows the assignments of the previous generation
                self._owned = {member: partitions for member, partitions in owned.items() if len(partitions)}
        if others.stable:
            self._watch.show_interest(
                self._group, topics_of(m.subscription.topics for m in others.members if m.subscription is not None)
            )

    def evicts(self, members: Iterable[MemberView]) -> None:
        """Store members that the agent evicts: what they own is theirs when they come back under other ids."""
        with self._lock:
            self._evicted = tuple(members)

    def _remembered(self) -> Mapping[str, TopicPartitions]:
        """Return what each member owns by the assignment in force; the lock is held."""
        if self._unread is not None:
            self._owned, self._unread = planner.sent_partitions(self._unread), None
        return self._owned

    def sent_in(self, generation: int) -> Sent | None:
        """Return the last plan if it was sent in this generation."""
        sent = self.sent
        return sent if sent is not None and sent.generation == generation else None

    def may_be_of(self, generation: int, others: GroupView) -> bool:
        """Return whether a description can be of this generation: it has the members and the partitions of its plan.

        A coordinator that has just taken the group over may describe an earlier generation as stable until the other
        brokers have followed it.
        """
        sent = self.sent_in(generation)
        if sent is None or not others.stable:
            return True
        problem = sent.plan.problem
        planned = set(map(member_key, problem.members, problem.instance_ids))
        described = {member.key: member.assigned for member in others.members if member.subscription is not None}
        if planned != described.keys():
            return False
        given = planner.sent_partitions(sent.plan)
        return all(set(to_pairs(given[key])) == set(to_pairs(assigned)) for key, assigned in described.items())

    def mode(self, protocol: str, weights: GroupWeights | None) -> Mode:
        """Return how to plan for a group that uses this protocol, by these weights."""
        return mode_of(protocol, self._leading, rack_aware_fetch=self._watch.rack_aware_fetch, weights=weights)

    def weights(self) -> GroupWeights | None:
        """Return the measured weights if they are used and known; the same object while they do not change."""
        known = self._weigh(self._group)
        return known if known is not None and (known.capacities or self._leading.uses_traffic) else None

    def assign(self, joined: Joined) -> dict[str, bytes]:
        """Return the encoded assignment of every member in the JoinGroup response.

        Raises:
            NoConsumersError: The agent is the only member.
            BackOffError: A subscription cannot be read, a topic could not be polled, a member would get nothing, or the
                brokers cannot write the plan.
            AssignmentError: No plan passes the check. After any of these errors the agent must leave.
        """
        self.since = time.monotonic()
        try:
            return self._plan(joined)
        finally:
            self.since = None

    def _plan(self, joined: Joined) -> dict[str, bytes]:
        started = time.monotonic()
        deadline = started + self._settings.leading.deadline_seconds
        subscriptions = self._subscriptions(joined)
        if not subscriptions:
            raise NoConsumersError(self._group)
        topics = topics_of(subscription.topics for _, _, subscription in subscriptions)
        weights = self.weights()
        mode = self.mode(joined.protocol, weights)
        with self._lock:
            view, owned = self._view, {} if mode.cooperative else self._remembered()
            back = returned(subscriptions, known=owned, evicted=self._evicted)
        members = members_of_join(
            subscriptions,
            group=view,
            remembered={**owned, **{now: owned[former] for now, former in back.items() if former in owned}},
            cooperative=mode.cooperative,
            racks=self._settings.racks,
            hosts=self._hosts,
            given=self.encoder.given,
            protocol=joined.protocol,
        )
        self._watch.show_interest(self._group, topics)
        self._wait_for(topics, members, deadline)
        cluster = self._watch.cluster
        members = placed(members, cluster.racks)
        mode = replace(mode, deadline_seconds=max(_MIN_SECONDS, deadline - time.monotonic()))
        plan = planner.make_plan(
            problem_of(members, cluster, mode, weights=weights, tables=self.tables),
            mode,
            cover=coverage((subscription.topics for _, _, subscription in subscriptions), cluster),
        )
        if starving := members_without_partitions(plan, mode):
            raise BackOffError(Cause.STARVED, f"the plan would give nothing to member {starving[0]}")
        encoded = self.encoder.encode(plan, members, joined, view)
        with self._lock:
            self._unread = plan
        met = {member_key(member, instance): client_id_of(member) for member, instance, _ in subscriptions}
        self._rounds.append((joined.generation, met))
        self.sent = Sent(
            generation=joined.generation,
            plan=plan,
            cluster=cluster,
            seconds=time.monotonic() - started,
            members=len(members),
            subscriptions=_topics_by_member(subscriptions),
            cooperative=mode.cooperative,
            rounds=tuple(self._rounds),
            weights=weights,
            returned=back,
        )
        return encoded

    def _subscriptions(self, joined: Joined) -> list[tuple[str, str | None, Subscription]]:
        """Return member id, instance id and subscription of every member except the agent.

        Raises:
            BackOffError: A subscription cannot be read.
        """
        others = [one for one in joined.members if one[0] != joined.me]
        try:
            decoded = self._reader.read([metadata for _, _, metadata in others])
        except ProtocolError:
            member, error = next(_unreadable(others))
            raise BackOffError(Cause.UNREADABLE, f"member {member}: subscription: {error}") from error
        return [(member, instance, one) for (member, instance, _), one in zip(others, decoded, strict=True)]

    def _wait_for(self, topics: frozenset[str], members: Sequence[PlanMember], deadline: float) -> None:
        """Wait until all topics are known, or known not to exist."""
        if topics <= self._watch.cluster.topics.keys():
            return
        spare = min(_PLANNING_SECONDS, self._settings.leading.deadline_seconds / 2)
        owned = owned_counts(member.owned for member in members).keys()
        unknown = self._watch.wait_for(topics, max(0.0, deadline - spare - time.monotonic()), owned)
        if refused := unknown & self._watch.denied_topics(self._group):
            raise BackOffError(Cause.NOT_ALLOWED, denied_topics_reason(refused))
        if unknown:
            raise BackOffError(Cause.TOPICS_UNKNOWN, unpolled_topics_reason(unknown))


def _unreadable(members: Iterable[tuple[str, str | None, bytes]]) -> Iterator[tuple[str, ProtocolError]]:
    """Yield the members whose subscription cannot be read, with the error."""
    for member, _, metadata in members:
        try:
            decode_subscription(metadata)
        except ProtocolError as error:
            yield member, error


def _topics_by_member(subscriptions: Sequence[tuple[str, str | None, Subscription]]) -> dict[str, frozenset[str]]:
    lists = {id(subscription.topics): subscription.topics for _, _, subscription in subscriptions}
    sets = {key: frozenset(topics) for key, topics in lists.items()}
    return {
        member_key(member, instance): sets[id(subscription.topics)] for member, instance, subscription in subscriptions
    }
