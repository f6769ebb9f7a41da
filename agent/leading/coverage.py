"""What a plan has to cover: every member and every subscribed topic, or no plan may be sent.

A member that cannot be read, and a topic that nobody could look at, would be given nothing, and nothing in the plan
would show it. So this is found out beside the plan; where it fails the agent leaves the group, which then leads itself.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from agent.cluster import SettledCluster
from agent.group import GroupView, topics_of
from agent.leading.planner import Mode, Plan
from assignors.model import NOBODY
from protocol.model import Subscription, TopicPartitions


def coverage(subscriptions: Iterable[Subscription], cluster: SettledCluster) -> dict[str, int]:
    """Partition counts of all subscribed topics that exist."""
    return {topic: len(cluster.topics[topic]) for topic in sorted(topics_of(subscriptions) & cluster.topics.keys())}


def owned_topics(owned: Iterable[TopicPartitions]) -> frozenset[str]:
    """Topics of which somebody owns a partition: one that says they do not exist may just not know them yet."""
    return frozenset(owned_counts(owned))


def owned_counts(owned: Iterable[TopicPartitions]) -> dict[str, int]:
    """By topic of which somebody owns a partition, how many there have to be at least."""
    counts: dict[str, int] = {}
    for one in owned:
        for topic, numbers in zip(one.topics, one.numbers, strict=True):
            if len(numbers):
                counts[topic] = max(counts.get(topic, 0), int(numbers.max()) + 1)
    return counts


def starved(plan: Plan, mode: Mode) -> tuple[str, ...]:
    """Members that would get nothing of their topics although there are partitions enough.

    That is where another member has two partitions or more (beyond the allowed skew), one of them of a topic of
    theirs. Where co-partitioned topics stay together, it needs two of that topic: Kafka's range deals topic by topic,
    and leaves members without partitions too where topics have fewer partitions than members.

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


# why the agent must not lead a group, in words; nothing where it may


def blind(unseen: frozenset[str]) -> str:
    """The agent may not see these topics."""
    return f"may not see topics {', '.join(sorted(unseen))}; allow DESCRIBE on them" if unseen else ""


def unlooked(unknown: frozenset[str]) -> str:
    """These topics could not be looked at."""
    return f"topics {', '.join(sorted(unknown))} could not be looked at in time" if unknown else ""


def illegible(view: GroupView) -> str:
    """A member's subscription cannot be read."""
    return next(
        (f"member {one.id}: {one.unreadable}" for one in view.members if one.unreadable and one.subscription is None),
        "",
    )
