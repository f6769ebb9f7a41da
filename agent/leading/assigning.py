"""The leader's duty between JoinGroup and SyncGroup: a plan for everybody, from memory, on the network thread.

One thing is waited for, and not for long: the first look at topics that this process has never seen. An agent that has
just started in the middle of a rebalance would otherwise give nothing to anybody, and rebalance the group once more.

The group's thread tells what it sees of the group; the network thread asks for a plan. A lock keeps the two from
losing each other's news. Nothing is logged here: the group's thread tells afterwards what was sent.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from agent.cluster import SettledCluster
from agent.coordination import Joined
from agent.group import GroupView, topics_of
from agent.leading import planner
from agent.racks import NO_HOSTS, Hosts, client_id_of
from agent.traffic.weights import Weights
from agent.watch import ClusterWatch
from common.settings import Settings
from protocol.consumer import decode_subscription, encode_assignment
from protocol.errors import ProtocolError
from protocol.model import NO_PARTITIONS, Assignment, Subscription, TopicPartitions

Weigh = Callable[[str], Weights | None]
"""The weights of a group's partitions by topic, from memory; None while they are not known."""

_MOST_ROUNDS: Final = 4
_LOOK_SECONDS: Final = 2.0
_EMPTY_ASSIGNMENT: Final = encode_assignment(Assignment(version=0, partitions=NO_PARTITIONS))


def unweighed(_: str) -> Weights | None:
    """Every partition counts alike."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A plan that went to the group, and what it was made from; `unreadable` members got no partitions."""

    generation: int
    plan: planner.Plan
    cluster: SettledCluster
    seconds: float
    members: int
    unreadable: tuple[str, ...]
    cooperative: bool = False
    rounds: tuple[tuple[int, Mapping[str, str]], ...] = ()
    """The latest generations, this one last, with client ids by instance id or member id: of one that another
    overtook nobody else knows who was in it."""
    weights: Weights | None = None


class Assigning:
    """What is known for planning one group, and the last plan made of it."""

    def __init__(
        self,
        *,
        group: str,
        settings: Settings,
        watch: ClusterWatch,
        weigh: Weigh = unweighed,
        hosts: Hosts = NO_HOSTS,
    ) -> None:
        self._group = group
        self._weigh = weigh
        self._hosts = hosts
        self._settings = settings
        self._watch = watch
        self._lock = threading.Lock()
        self._view: GroupView | None = None
        self._owned: dict[str, TopicPartitions] = {}
        self._rounds: deque[tuple[int, Mapping[str, str]]] = deque(maxlen=_MOST_ROUNDS)
        self.sent: Sent | None = None
        self.since: float | None = None
        """When the plan that is being made was asked for (monotonic); None while none is."""

    def see(self, others: GroupView) -> None:
        """Take note of a look at the group without the agent itself."""
        with self._lock:
            self._view = others
            if others.stable:
                self._owned = {member.id: member.assigned for member in others.members} | {
                    member.instance_id: member.assigned for member in others.members if member.instance_id
                }
        if others.stable:
            self._watch.show_interest(
                self._group, topics_of(m.subscription for m in others.members if m.subscription is not None)
            )

    def may_be_of(self, generation: int, others: GroupView) -> bool:
        """Whether a look can be of this generation: if its plan was made here, it was made for just these members.

        A coordinator that has just taken the group over may describe a former generation, as stable, until the other
        brokers have followed it.
        """
        sent = self.sent
        if sent is None or sent.generation != generation or not others.stable:
            return True
        problem = sent.plan.problem
        planned = {instance or member for member, instance in zip(problem.members, problem.instance_ids, strict=True)}
        return planned == {
            member.instance_id or member.id for member in others.members if member.subscription is not None
        }

    def mode(self, protocol: str) -> planner.Mode:
        """How to plan for a group that uses this protocol."""
        return planner.mode_of(protocol, self._settings.leading, rack_aware_fetch=self._watch.rack_aware_fetch)

    def weights(self) -> Weights | None:
        """The measured weights where they are to count and known; the same object while they are the same."""
        return self._weigh(self._group) if self._settings.leading.weigh_by == "bytes" else None

    def assign(self, joined: Joined) -> dict[str, bytes]:
        """The plan for everybody in the JoinGroup answer.

        A member whose subscription makes no sense gets no partitions: the others must not wait for it.

        Raises:
            AssignmentError: No plan passes the check; the agent has to leave then.
        """
        self.since = time.monotonic()
        try:
            return self._plan(joined)
        finally:
            self.since = None

    def _plan(self, joined: Joined) -> dict[str, bytes]:
        started = time.perf_counter()
        subscriptions: list[tuple[str, str | None, Subscription]] = []
        unreadable: list[str] = []
        for member, instance, metadata in joined.members:
            if member == joined.me:
                continue
            try:
                subscriptions.append((member, instance, decode_subscription(metadata)))
            except ProtocolError as error:
                unreadable.append(f"{member}: {error}")
        topics = topics_of(subscription for _, _, subscription in subscriptions)
        self._watch.show_interest(self._group, topics)
        self._watch.wait_for(topics, _LOOK_SECONDS)
        cluster, mode, weights = self._watch.cluster, self.mode(joined.protocol), self.weights()
        with self._lock:
            view, owned = self._view, self._owned
        members = planner.members_of_join(
            subscriptions,
            group=view,
            remembered=owned,
            cooperative=mode.cooperative,
            racks=self._settings.racks,
            hosts=self._hosts,
            protocol=joined.protocol,
        )
        plan = planner.make_plan(planner.problem_of(members, cluster, mode, weights=weights), mode)
        encoded = planner.encode(plan, members)
        with self._lock:
            self._owned = planner.sent_partitions(plan)
        met = {instance or member: client_id_of(member) for member, instance, _ in subscriptions}
        self._rounds.append((joined.generation, met))
        self.sent = Sent(
            generation=joined.generation,
            plan=plan,
            cluster=cluster,
            seconds=time.perf_counter() - started,
            members=len(members),
            unreadable=tuple(unreadable),
            cooperative=mode.cooperative,
            rounds=tuple(self._rounds),
            weights=weights,
        )
        return {member: encoded.get(member, _EMPTY_ASSIGNMENT) for member, _, _ in joined.members}
