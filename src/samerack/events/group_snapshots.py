"""Converts groups to snapshots (`GroupSnapshot`), from a member's poll, from measuring, or from the agent's own plan.

Members without topics are left out: they are agents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from samerack.assignors.evaluate import evaluate
from samerack.assignors.problem import NOBODY, Int32Array, Problem
from samerack.cluster.group import GroupView, MemberView, member_key
from samerack.cluster.racks import client_id_of
from samerack.events.cause import GroupSnapshot, MemberSnapshot, Partition
from samerack.protocol.values import to_pairs
from samerack.settings.leading import COOPERATIVE_PROTOCOLS
from samerack.traffic.snapshot import GroupTraffic


def of_view(view: GroupView, *, partitions: Mapping[str, int]) -> GroupSnapshot:
    """Convert a poll of a stable group without the agent; `partitions` has how many each topic has."""
    return GroupSnapshot(
        members={
            member.key: MemberSnapshot(
                client_id=member.client_id,
                static=member.instance_id is not None,
                topics=frozenset(member.subscription.topics if member.subscription is not None else ()),
                owned=frozenset(to_pairs(member.assigned)),
            )
            for member in view.members
            if member.subscription is None or member.subscription.topics
        },
        cooperative=view.protocol in COOPERATIVE_PROTOCOLS,
        partitions=partitions,
    )


def of_plan(problem: Problem, owner: Int32Array, *, clients: Mapping[str, str], cooperative: bool) -> GroupSnapshot:
    """Convert a problem and its solution in this round; `clients` are client ids by key, of polled members."""
    owned: dict[int, set[Partition]] = {}
    for topic, number, member in zip(
        problem.topic_of.tolist(), problem.number_of.tolist(), owner.tolist(), strict=True
    ):
        if member != NOBODY:
            owned.setdefault(member, set()).add((problem.topics[topic], number))
    members = {}
    for index, (member_id, instance) in enumerate(zip(problem.members, problem.instance_ids, strict=True)):
        key = member_key(member_id, instance)
        subscribed = problem.subscriptions[problem.subscription_of[index]].tolist()
        members[key] = MemberSnapshot(
            client_id=clients.get(key) or client_id_of(member_id),
            static=instance is not None,
            topics=frozenset(topic for topic, is_read in zip(problem.topics, subscribed, strict=True) if is_read),
            owned=frozenset(owned.get(index, ())),
        )
    counts = dict(Counter(problem.topics[topic] for topic in problem.topic_of.tolist()))
    return GroupSnapshot(members=members, cooperative=cooperative, partitions=counts)


def of_traffic(group: GroupTraffic, *, partitions: Mapping[str, int]) -> GroupSnapshot:
    """Convert a measured group; `partitions` has how many each topic has."""
    owned: dict[str, set[Partition]] = {}
    for one in group.partitions:
        if one.member is not None:
            owned.setdefault(one.member, set()).add(one.partition)
    return GroupSnapshot(
        members={
            member_key(member.id, member.instance_id): MemberSnapshot(
                client_id=member.client_id,
                static=member.instance_id is not None,
                topics=member.topics,
                owned=frozenset(owned.get(member.id, ())),
            )
            for member in group.members
        },
        cooperative=group.kind in ("consumer", "streams", "streams-classic") or group.assignor in COOPERATIVE_PROTOCOLS,
        partitions=partitions,
    )


def share_of(problem: Problem | None) -> float | None:
    """Return the share of a group's present assignment that crosses racks, by weight; None where unknown."""
    if problem is None:
        return None
    return evaluate(problem, problem.owner).min_share


def clients_of(members: Iterable[MemberView], *, agent: str) -> dict[str, str]:
    """Return client ids by key, without the agent of this instance id; also while the group rebalances."""
    return {
        member.key: member.client_id
        for member in members
        if member.instance_id != agent and (member.subscription is None or member.subscription.topics)
    }
