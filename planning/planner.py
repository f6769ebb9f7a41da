"""Builds a group's assignment problem, solves it, checks the plan, falls back if needed, and encodes it.

This runs between JoinGroup and SyncGroup, while every member of the group waits: it must do no I/O, and there must be
a plan within the deadline (`planning.deadline`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.check import check
from samerack.assignors.consumer.registry import Options
from samerack.assignors.evaluate import evaluate
from samerack.assignors.model import NOBODY, BoolArray, Cost, Int32Array, Problem
from samerack.assignors.transfer import withhold
from samerack.cluster.group import GroupView, topics_of
from samerack.cluster.racks import NO_HOSTS, Hosts, MemberRack, client_id_of, member_rack
from samerack.cluster.view import SettledCluster, SettledPartition, replica_racks
from samerack.common.settings import LeadingSettings, RackSettings
from samerack.planning.deadline import DEADLINE_SECONDS, assign_in_time, fall_back
from samerack.protocol.claims import COOPERATIVE_STICKY, STICKY, claims
from samerack.protocol.consumer import encode_assignments
from samerack.protocol.model import MAX_VERSION, NO_PARTITIONS, Subscription, TopicPartitions

AssignorName = Literal["optimal", "range"]
NO_GENERATION: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMember:
    """A member as planning needs it; `owned` is what it owns now, claimed in `generation`."""

    id: str
    instance_id: str | None
    subscription: Subscription
    rack: MemberRack
    owned: TopicPartitions
    generation: int = NO_GENERATION


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """How a group is to be planned.

    Attributes:
        cooperative: Members rebalance incrementally (KIP-429).
        keep_copartitioned: Partition i of co-partitioned topics stays together.
        rack_aware_fetch: Whether replicas in the member's rack may serve reads, or leaders only.
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
        problem: The assignment problem; its members are sorted.
        final: [P] owner per partition once everything has moved.
        sent: [P] owner per partition of this round: NOBODY if a partition is withheld.
        assignor: The assignor that made the plan; `range` if the optimal one failed.
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
        """Partitions that wait until their present owner revokes them."""
        return int(np.count_nonzero(self.sent != self.final))


def warm_up() -> None:
    """Loads what planning loads lazily (the solver takes a quarter of a second), before a group waits for it."""
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
    """Returns how to plan for a group whose members chose this protocol name; bundles of partitions have no skew."""
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
    """Returns the members of a stable group with what the group's leader last assigned to them."""
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
    """Returns the members that a JoinGroup response names.

    Args:
        joined: Member id, instance id and subscription of each member in the response.
        group: The latest description of the group, for client ids and hosts.
        remembered: Partitions by member id or instance id from the assignment in force; eager members own those.
        cooperative: Whether the protocol is cooperative; then members own what they claim in their subscription.
        protocol: Name of the protocol; `sticky` members send in their user data what they own, which counts as long as
            nothing is remembered (KIP-54: "the new leader has access to the most recent partition assignment").
        racks: How racks are found.
        hosts: What other sources know about client hosts.
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
    """Returns the assignment problem of these members on this cluster, weighted by measured byte rates if given.

    Topics that are not in the cluster are left out; `planning.coverage` decides which those may be.
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
    """Returns the plan of the preferred assignor if it passes the check in time, else that of range.

    Args:
        problem: The group.
        mode: How it is to be planned.
        prefer: The assignor to try first.
        cover: Partition counts of all topics that the plan must cover, if they are known apart from the problem.

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
    """Returns the encoded assignment of every member, in the newest version that all of them support."""
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
    """Returns what every member owns once the plan is applied, by member id and by instance id."""
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
    """Returns whether, for known topics, the present assignment lacks partitions or has some that no longer exist."""
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


def fitted(weights: Mapping[str, Sequence[int]], counts: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Fit weights to topics that have `counts` partitions now: cut, or filled up with the topic's median weight."""
    result = {}
    for topic, row in weights.items():
        count = counts.get(topic)
        if count is None:
            continue
        usual = sorted(row)[len(row) // 2] if row else 1
        result[topic] = (*row[:count], *((usual,) * (count - len(row))))
    return result
