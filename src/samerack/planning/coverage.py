"""What a plan must cover: every member and every subscribed topic, or no plan may be sent.

A member whose subscription cannot be read, and a topic that could not be polled, would get nothing, and the plan would
not show it. So this is checked apart from the plan; on failure the agent leaves the group, which then leads itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from samerack.assignors.problem import NOBODY
from samerack.cluster.group import GroupView, topics_of
from samerack.cluster.view import SettledCluster
from samerack.planning.mode import Mode
from samerack.planning.planner import Plan
from samerack.protocol.values import TopicPartitions


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
    """Return the members that would get no partition although there are enough.

    There are enough if another member has two partitions or more (beyond the allowed skew), one of them of a topic of
    such a member. If co-partitioned topics stay together, it needs two of that topic: Kafka's range assigns topic by
    topic, and leaves members without partitions too if topics have fewer partitions than members.

    Complexity: O(P) in numpy.
    """
    problem, final = plan.problem, plan.final
    given = np.flatnonzero(final != NOBODY)
    loads = np.bincount(final[given], minlength=len(problem.members))
    if not len(given) or bool(np.all(loads)):
        return ()
    if mode.keep_copartitioned:
        of_one_topic = final[given].astype(np.int64) * len(problem.topics) + problem.topic_of[given]
        crowded = np.bincount(of_one_topic)[of_one_topic] > 1
    else:
        crowded = loads[final[given]] > 1 + mode.max_skew
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
        (f"member {one.id}: {one.unreadable}" for one in view.members if one.unreadable and one.subscription is None),
        "",
    )
