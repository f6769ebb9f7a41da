"""Solves a group's assignment problem, checks the plan, falls back if needed, and encodes the assignments.

This runs between JoinGroup and SyncGroup, while every member of the group waits: it must do no I/O, and there must be
a plan within the deadline (`planning.deadline`).

A member whose subscription cannot be read, and a topic that could not be polled, would get nothing, and the plan would
not show it. So every member and every subscribed topic must be covered, which is checked apart from the plan; on
failure the agent leaves the group, which then leads itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Literal

import numpy as np

from samerack.assignors.arrays import stable_order
from samerack.assignors.check import round_to_send
from samerack.assignors.consumer.load.plan import greatest_loads, loads_above_least
from samerack.assignors.consumer.optimal import fair_shares
from samerack.assignors.evaluate import evaluate
from samerack.assignors.problem import NOBODY, Cost, Int32Array, Problem, by_counts
from samerack.cluster.group import GroupView, topics_of
from samerack.cluster.racks import MemberRack
from samerack.cluster.view import SettledCluster, SettledPartition
from samerack.common.errors import one_line
from samerack.planning.deadline import assign_in_time, fall_back
from samerack.planning.group import encode_owners
from samerack.planning.members import PlanMember
from samerack.planning.problem import Mode, problem_of
from samerack.protocol.consumer import with_user_data
from samerack.protocol.sticky import encode_sticky
from samerack.protocol.values import MAX_VERSION, TopicPartitions, from_flat, no_partitions

AssignorName = Literal["optimal", "range"]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A checked plan.

    Attributes:
        problem: The assignment problem; its members are sorted.
        final: [P] owner per partition once everything has moved.
        sent: [P] owner per partition of this round: NOBODY if a partition is withheld.
        assignor: The assignor that made the plan; `range` if the optimal one failed.
        failure: Why the fall-back was needed, or None; with `optimal` the plan is by counts instead of by load.
    """

    problem: Problem
    final: Int32Array
    sent: Int32Array
    assignor: AssignorName
    failure: str | None

    @cached_property
    def before(self) -> Cost:
        """Cost of the present assignment; computed when it is needed, not while the group waits."""
        return evaluate(self.problem, self.problem.owner)

    @cached_property
    def after(self) -> Cost:
        """Cost of `final`."""
        return evaluate(self.problem, self.final)

    @cached_property
    def uneven(self) -> tuple[float, float] | None:
        """How far the most loaded member is above a proven bound now, and with `final`; None where counts decide."""
        problem = self.problem
        above = loads_above_least(problem, problem.owner, self.final) if problem.by_load else None
        return None if above is None else (above[0], above[1])

    @cached_property
    def greatest_loads(self) -> tuple[float, float]:
        """The load of the most loaded member relative to its capacity, now and with `final`."""
        now, then = greatest_loads(self.problem, self.problem.owner, self.final)
        return now, then

    @property
    def withheld(self) -> int:
        """Partitions that wait until their present owner revokes them."""
        return int(np.count_nonzero(self.sent != self.final))


def warm_up() -> None:
    """Load what planning loads lazily (the solver takes a quarter of a second), before a group waits for it."""
    member = PlanMember(
        id="warm-up",
        instance_id=None,
        topics=("warm-up",),
        rack=MemberRack(rack="a", source="none", fetches_with_rack=True),
        owned=no_partitions(),
        repeats_user_data=True,
    )
    cluster = SettledCluster(brokers={0: "a"}, topics={"warm-up": (SettledPartition(leader=0, replicas=(0,)),)})
    mode = Mode(cooperative=True, rack_aware_fetch=True)
    plan = make_plan(problem_of((member,), cluster, mode), mode)
    encode(plan, (member,), user_data_of(plan, (member,), generation=1))


def make_plan(
    problem: Problem, mode: Mode, *, prefer: AssignorName = "optimal", cover: Mapping[str, int] | None = None
) -> Plan:
    """Return the plan of the preferred assignor if it passes the check in time, else that of range.

    A plan by load that fails, or takes more than half of the time, is made by counts before range has its turn.

    Args:
        problem: The group.
        mode: How it is to be planned.
        prefer: The assignor to try first.
        cover: Partition counts of all topics that the plan must cover, if they are known apart from the problem.

    Raises:
        AssignmentError: Not even range's plan passes; nothing may be sent then.
    """

    def checked(final: Int32Array, name: AssignorName, failure: str | None = None) -> Plan:
        sent = round_to_send(problem, final, cooperative=mode.cooperative, cover=cover)
        return Plan(problem=problem, final=final, sent=sent, assignor=name, failure=failure)

    failure, seconds = None, mode.deadline_seconds
    attempts = [(problem, seconds / 2), (by_counts(problem), seconds / 2)] if problem.by_load else [(problem, seconds)]
    for one, limit in attempts if prefer == "optimal" else ():
        try:
            final, _ = assign_in_time("optimal", one, mode.options, seconds=limit)
            return checked(final, "optimal", failure)
        except Exception as error:  # noqa: BLE001 - whatever breaks, the group must get a plan
            failure = one_line(error)
    return checked(fall_back(problem), "range", failure)


def user_data_of(plan: Plan, members: Sequence[PlanMember], *, generation: int) -> dict[str, bytes]:
    """Return what members that repeat it are to put into their next subscription: what they own in this generation.

    Without it they would own nothing for the next leader. It doubles an assignment, so no other member is given any.
    Its partitions descend: a member that makes the same of what it owns, as Java's does, is known by their order.
    """
    if not any(member.repeats_user_data for member in members):
        return {}
    owned = sent_partitions(plan)
    return {one.id: encode_sticky(_descending(owned[one.id]), generation) for one in members if one.repeats_user_data}


def _descending(partitions: TopicPartitions) -> TopicPartitions:
    numbers = [run[::-1] for run in partitions.numbers]
    flat = np.concatenate(numbers) if numbers else partitions.flat
    return from_flat(partitions.topics, partitions.run_sizes.tolist(), flat)


def encode(
    plan: Plan, members: Sequence[PlanMember], user_data: Mapping[str, bytes] = MappingProxyType({})
) -> dict[str, bytes]:
    """Return the encoded assignment of every member, with this user data, in the newest version that all support."""
    version = min((member.version for member in members), default=MAX_VERSION)
    result = encode_owners(plan.problem, plan.sent, version=min(version, MAX_VERSION))
    return result | {member: with_user_data(result[member], data) for member, data in user_data.items()}


def sent_partitions(plan: Plan) -> dict[str, TopicPartitions]:
    """Return what every member owns once the plan is applied, by member id and by instance id."""
    problem = plan.problem
    members = len(problem.members)
    order = stable_order(plan.sent + 1, members + 1)[np.count_nonzero(plan.sent == NOBODY) :]
    owner, topic_of, number_of = plan.sent[order], problem.topic_of[order], problem.number_of[order]
    number_of.setflags(write=False)
    first = np.flatnonzero((np.diff(owner, prepend=NOBODY) != 0) | (np.diff(topic_of, prepend=NOBODY) != 0))
    run_names, run_sizes = topic_of[first], np.diff(first, append=len(order)).astype(np.int32)
    runs = np.searchsorted(owner[first], np.arange(members + 1)).tolist()
    bounds = np.searchsorted(owner, np.arange(members + 1)).tolist()
    result: dict[str, TopicPartitions] = {}
    for index, (member, instance) in enumerate(zip(problem.members, problem.instance_ids, strict=True)):
        mine = slice(runs[index], runs[index + 1])
        result[member] = TopicPartitions(
            names=problem.topics,
            run_names=run_names[mine],
            run_sizes=run_sizes[mine],
            flat=number_of[bounds[index] : bounds[index + 1]],
        )
        if instance is not None:
            result[instance] = result[member]
    return result


def coverage(subscribed: Iterable[Collection[str]], cluster: SettledCluster) -> dict[str, int]:
    """Return the partition counts of all topics that members subscribe to and that exist."""
    return {topic: len(cluster.topics[topic]) for topic in sorted(topics_of(subscribed) & cluster.topics.keys())}


def owned_counts(owned: Iterable[TopicPartitions]) -> dict[str, int]:
    """Return how many partitions each topic has at least, as members own them, also if a broker denies the topic."""
    counts: dict[str, int] = {}
    for one in owned:
        runs = np.flatnonzero(one.run_sizes)
        begins = np.cumsum(one.run_sizes)[runs] - one.run_sizes[runs]
        largest = np.maximum.reduceat(one.flat, begins).tolist() if len(runs) else []
        for name, number in zip(one.run_names[runs].tolist(), largest, strict=True):
            topic = one.names[name]
            counts[topic] = max(counts.get(topic, 0), number + 1)
    return counts


def members_without_partitions(plan: Plan, mode: Mode) -> tuple[str, ...]:
    """Return the members that would get no partition although there are enough; none where loads decide.

    There are enough if another member has two partitions or more, one of them of a topic of such a member; with a
    `max_skew`, if it has more than its fair share and the skew. If co-partitioned topics stay together, it needs two of
    that topic: Kafka's range assigns topic by topic, and leaves members without partitions too if topics have fewer
    partitions than members.

    Complexity: O(P) in numpy, and with a skew a few flows.
    """
    problem, final = plan.problem, plan.final
    given = np.flatnonzero(final != NOBODY)
    loads = np.bincount(final[given], minlength=len(problem.members))
    if not len(given) or bool(np.all(loads)) or problem.by_load:
        return ()
    if mode.options.keep_copartitioned:
        of_one_topic = final[given].astype(np.int64) * len(problem.topics) + problem.topic_of[given]
        crowded = np.bincount(of_one_topic)[of_one_topic] > 1
    else:
        skew = mode.options.max_skew
        crowded = loads[final[given]] > (fair_shares(problem)[final[given]] + skew if skew else 1)
    enough = np.zeros(len(problem.topics), np.bool_)
    enough[problem.topic_of[given[crowded]]] = True
    wants = np.any(problem.subscriptions & enough, axis=1)[problem.subscription_of]
    return tuple(problem.members[index] for index in np.flatnonzero(wants & (loads == 0)))


# reasons why the agent must not lead a group; empty if it may


def denied_topics_reason(denied: frozenset[str]) -> str:
    """Return the reason that the agent may not describe these topics."""
    return f"may not see topics {', '.join(sorted(denied))}; allow DESCRIBE on them" if denied else ""


def unpolled_topics_reason(unknown: frozenset[str]) -> str:
    """Return the reason that these topics could not be polled."""
    return f"topics {', '.join(sorted(unknown))} could not be described in time" if unknown else ""


def unreadable_member_reason(view: GroupView) -> str:
    """Return the reason that a member's subscription cannot be read."""
    return next(
        (
            f"member {member.id}: {member.unreadable}"
            for member in view.members
            if member.unreadable and member.subscription is None
        ),
        "",
    )
