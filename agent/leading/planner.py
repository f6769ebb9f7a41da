"""Views -> plan: builds the assignment problem of a group, solves it, checks it, falls back, encodes it. Memory only.

This is what runs between JoinGroup and SyncGroup, while every member of the group waits: no I/O may enter, and within
the deadline there is a plan (`agent.leading.deadline`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from agent.cluster import SettledCluster, SettledPartition, replica_racks
from agent.group import GroupView, topics_of
from agent.leading.deadline import DEADLINE_SECONDS, assign_in_time, fall_back
from agent.racks import NO_HOSTS, Hosts, MemberRack, client_id_of, member_rack
from agent.traffic.rates import fitted
from assignors.build import MemberInput, build_problem
from assignors.check import check
from assignors.consumer.registry import Options
from assignors.evaluate import evaluate
from assignors.model import NOBODY, BoolArray, Cost, Int32Array, Problem
from assignors.transfer import withhold
from common.settings import LeadingSettings, RackSettings
from protocol.claims import COOPERATIVE_STICKY, STICKY, claims
from protocol.consumer import encode_assignments
from protocol.model import MAX_VERSION, NO_PARTITIONS, Subscription, TopicPartitions

AssignorName = Literal["optimal", "range"]
NO_GENERATION: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMember:
    """A member as planning needs it; `owned` is what it owns at present, claimed in `generation`."""

    id: str
    instance_id: str | None
    subscription: Subscription
    rack: MemberRack
    owned: TopicPartitions
    generation: int = NO_GENERATION


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """How a group wants to be planned.

    Attributes:
        cooperative: Members rebalance incrementally (KIP-429).
        keep_copartitioned: Partition i of co-partitioned topics stays together.
        rack_aware_fetch: Which replicas may serve: any in the member's rack, or leaders only.
        max_skew: Partitions beyond its fair share that a member may have for locality; not with keep_copartitioned.
        spread_moves: Partitions beyond the fewest that may move so that topics are spread.
        deadline_seconds: How long planning may take.
    """

    cooperative: bool
    keep_copartitioned: bool
    rack_aware_fetch: bool
    max_skew: int = 0
    spread_moves: int = 0
    deadline_seconds: float = DEADLINE_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A checked plan.

    Attributes:
        problem: What was asked; its members are sorted.
        final: [P] owner per partition once everything has moved.
        sent: [P] owner per partition of this round: NOBODY where a partition is withheld.
        assignor: Whose plan it is; `range` where the optimal one failed.
        before: Cost of the present assignment.
        after: Cost of `final`.
        failure: Why the fall-back was needed, or None.
    """

    problem: Problem
    final: Int32Array
    sent: Int32Array
    assignor: AssignorName
    before: Cost
    after: Cost
    failure: str | None

    @property
    def withheld(self) -> int:
        """Partitions that wait for their present owner to let go."""
        return int(np.count_nonzero(self.sent != self.final))


def warm_up() -> None:
    """Load what planning loads lazily (the solver takes a quarter of a second), before a group waits for it."""
    member = PlanMember(
        id="warm-up",
        instance_id=None,
        subscription=Subscription(topics=("warm-up",)),
        rack=MemberRack(rack="a", source="none", fetches_with_rack=True),
        owned=NO_PARTITIONS,
    )
    cluster = SettledCluster(brokers={0: "a"}, topics={"warm-up": (SettledPartition(leader=0, replicas=(0,)),)})
    mode = Mode(cooperative=True, keep_copartitioned=False, rack_aware_fetch=True)
    encode(make_plan(problem_of((member,), cluster, mode), mode), (member,))


def mode_of(protocol: str, leading: LeadingSettings, *, rack_aware_fetch: bool) -> Mode:
    """How to plan for a group whose members chose this protocol name. Bundles of partitions know no skew."""
    keep = leading.keep_copartitioned
    together = keep == "always" or (keep == "auto" and protocol == "range")
    return Mode(
        cooperative=protocol in leading.cooperative_protocols,
        keep_copartitioned=together,
        rack_aware_fetch=rack_aware_fetch,
        max_skew=0 if together else leading.max_skew,
        spread_moves=leading.spread_moves,
        deadline_seconds=leading.deadline_seconds,
    )


def members_of_view(group: GroupView, racks: RackSettings, hosts: Hosts = NO_HOSTS) -> tuple[PlanMember, ...]:
    """The members of a stable group with what the group's leader last assigned to them."""
    return tuple(
        PlanMember(
            id=member.id,
            instance_id=member.instance_id,
            subscription=member.subscription,
            rack=member_rack(
                racks,
                subscription=member.subscription,
                client_id=member.client_id,
                client_host=member.client_host,
                hosts=hosts,
            ),
            owned=member.assigned,
        )
        for member in group.members
        if member.subscription is not None
    )


def members_of_join(  # noqa: PLR0913 - all that is known of a group while it joins
    joined: Iterable[tuple[str, str | None, Subscription]],
    *,
    group: GroupView | None,
    remembered: Mapping[str, TopicPartitions],
    cooperative: bool,
    racks: RackSettings,
    hosts: Hosts = NO_HOSTS,
    protocol: str = "",
) -> tuple[PlanMember, ...]:
    """The members that a JoinGroup answer names: (member id, instance id, subscription).

    Args:
        joined: What the broker answered.
        group: The latest look at the group, for client ids and hosts.
        remembered: Partitions by member id or instance id from the assignment in force; eager members own those.
        cooperative: Cooperative members own what they claim in their subscription.
        protocol: Name of the protocol; `sticky` members tell in their user data what they own, which counts as long as
            nothing is remembered (KIP-54: "the new leader has access to the most recent partition assignment").
        racks: Where racks come from.
        hosts: What others know of client hosts.
    """
    seen = {member.id: member for member in group.members} if group is not None else {}
    members = []
    for member_id, instance_id, subscription in joined:
        known = seen.get(member_id)
        owned, generation = (
            remembered.get(member_id) or remembered.get(instance_id or "") or NO_PARTITIONS,
            NO_GENERATION,
        )
        if cooperative:
            owned, generation = claims(subscription, COOPERATIVE_STICKY)
        elif protocol == STICKY and not remembered:
            owned, generation = claims(subscription, STICKY)
        members.append(
            PlanMember(
                id=member_id,
                instance_id=instance_id,
                subscription=subscription,
                rack=member_rack(
                    racks,
                    subscription=subscription,
                    client_id=known.client_id if known is not None else client_id_of(member_id),
                    client_host=known.client_host if known is not None else None,
                    hosts=hosts,
                ),
                owned=owned,
                generation=generation,
            )
        )
    return tuple(members)


def problem_of(
    members: Sequence[PlanMember],
    cluster: SettledCluster,
    mode: Mode,
    *,
    weights: Mapping[str, Sequence[int]] | None = None,
) -> Problem:
    """The assignment problem of these members on this cluster, weighed by measured byte rates where those are given.

    Topics that the cluster does not show are left out; which those may be is decided by `agent.leading.coverage`.
    """
    topics = {
        topic: replica_racks(cluster, topic)
        for topic in topics_of(member.subscription for member in members) & cluster.topics.keys()
    }
    return build_problem(
        topics=topics,
        members=[
            MemberInput(
                id=member.id,
                instance_id=member.instance_id,
                topics=tuple(topic for topic in member.subscription.topics if topic in topics),
                rack=member.rack.rack,
                reads_any_replica=mode.rack_aware_fetch and member.rack.fetches_with_rack,
                owned=_by_topic(member.owned, topics.keys()),
                generation=member.generation,
            )
            for member in members
        ],
        weights=fitted(weights, {topic: len(replicas) for topic, replicas in topics.items()}) if weights else None,
    )


def _by_topic(owned: TopicPartitions, topics: AbstractSet[str]) -> dict[str, Int32Array]:
    result: dict[str, Int32Array] = {}
    for topic, numbers in zip(owned.topics, owned.numbers, strict=True):
        if topic in topics:
            result[topic] = np.concatenate((result[topic], numbers)) if topic in result else numbers
    return result


def make_plan(
    problem: Problem, mode: Mode, *, prefer: AssignorName = "optimal", cover: Mapping[str, int] | None = None
) -> Plan:
    """The best plan that passes the check and is there in time: the preferred assignor's, else range's.

    Args:
        problem: The group.
        mode: How it wants to be planned.
        prefer: Whose plan to try first.
        cover: Partition counts of all topics that the plan has to cover, where they are known apart from the problem.

    Raises:
        AssignmentError: Not even range's plan passes; nothing may be sent then.
    """
    failure = None
    if prefer == "optimal":
        try:
            options = Options(
                keep_copartitioned=mode.keep_copartitioned, max_skew=mode.max_skew, spread_moves=mode.spread_moves
            )
            final, _ = assign_in_time("optimal", problem, options, seconds=mode.deadline_seconds)
            return _checked(problem, final, mode, name="optimal", failure=None, cover=cover)
        except Exception as error:  # noqa: BLE001 - whatever breaks, the group must get a plan
            failure = f"{type(error).__name__}: {error}"
    final = fall_back(problem, seconds=mode.deadline_seconds)
    return _checked(problem, final, mode, name="range", failure=failure, cover=cover)


def _checked(  # noqa: PLR0913 - what is checked, against what
    problem: Problem,
    final: Int32Array,
    mode: Mode,
    *,
    name: AssignorName,
    failure: str | None,
    cover: Mapping[str, int] | None,
) -> Plan:
    sent = withhold(problem, final) if mode.cooperative else final
    check(problem, sent, cooperative=mode.cooperative, cover=cover)
    return Plan(
        problem=problem,
        final=final,
        sent=sent,
        assignor=name,
        before=evaluate(problem, problem.owner),
        after=evaluate(problem, final),
        failure=failure,
    )


def encode(plan: Plan, members: Sequence[PlanMember]) -> dict[str, bytes]:
    """The assignment of every member in bytes, in the newest version that all of them know."""
    version = min((member.subscription.version for member in members), default=MAX_VERSION)
    problem = plan.problem
    encoded = encode_assignments(
        topics=problem.topics,
        topic_of=problem.topic_of,
        number_of=problem.number_of,
        owner=plan.sent,
        members=len(problem.members),
        version=min(version, MAX_VERSION),
    )
    return dict(zip(problem.members, encoded, strict=True))


def sent_partitions(plan: Plan) -> dict[str, TopicPartitions]:
    """What every member owns once the plan is applied, by member id and by instance id."""
    problem = plan.problem
    result: dict[str, TopicPartitions] = {}
    order = np.argsort(plan.sent, kind="stable")
    bounds = np.searchsorted(plan.sent[order], np.arange(len(problem.members) + 1))
    for index, (member, instance) in enumerate(zip(problem.members, problem.instance_ids, strict=True)):
        mine = order[bounds[index] : bounds[index + 1]]
        owned = _runs(problem, mine)
        result[member] = owned
        if instance is not None:
            result[instance] = owned
    return result


def _runs(problem: Problem, partitions: Int32Array | np.ndarray[tuple[int], np.dtype[np.int64]]) -> TopicPartitions:
    topic_of, number_of = problem.topic_of[partitions], problem.number_of[partitions]
    starts = np.flatnonzero(np.diff(topic_of, prepend=NOBODY))
    return TopicPartitions(
        topics=tuple(problem.topics[topic] for topic in topic_of[starts]),
        numbers=tuple(np.split(number_of, starts[1:])) if len(starts) else (),
    )


def partitions_changed(problem: Problem, members: Sequence[PlanMember], cluster: SettledCluster) -> bool:
    """Whether the assignment in force lacks partitions that exist or has some that are gone, of topics looked at."""
    seen: BoolArray = np.array([topic in cluster.topics for topic in problem.topics], dtype=np.bool_)
    read: BoolArray = np.any(problem.subscriptions[np.unique(problem.subscription_of)], axis=0, keepdims=True)[0]
    if bool(np.any((seen & read)[problem.topic_of] & (problem.owner == NOBODY))):
        return True
    assigned = sum(
        len(numbers)
        for member in members
        for topic, numbers in zip(member.owned.topics, member.owned.numbers, strict=True)
        if topic in cluster.topics
    )
    return assigned != int(np.count_nonzero(seen[problem.topic_of] & (problem.owner != NOBODY)))
