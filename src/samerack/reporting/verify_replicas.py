"""Whether the racks of replicas allow locality at all: the best balanced plan if every replica could serve reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from samerack.assignors.model import NOBODY, AssignmentError, Problem
from samerack.assignors.streams.whole_tasks import WholeTasks, min_traffic_plan
from samerack.planning.byte_shares import Rates, share_of_owners
from samerack.planning.deadline import assign_aside


def share_with_every_replica(problem: Problem, rates: Rates, whole: WholeTasks | None = None) -> float | None:
    """Returns the cross-rack share of the best balanced plan if members read from any replica in their rack.

    Args:
        problem: the group.
        rates: measured bytes per second; see `share_of_owners`.
        whole: its tasks, if it is of Kafka Streams: they stay whole.
    """
    ideal = replace(problem, reads_any_replica=np.ones_like(problem.reads_any_replica))
    try:
        best = assign_aside("optimal", ideal) if whole is None else min_traffic_plan(ideal, whole)
    except AssignmentError:
        return None
    return share_of_owners(ideal, best, rates)


def worst_topics(problem: Problem, max_topics: int = 3) -> str:
    """Returns a text with the topics that have most partitions without a replica in some rack of a member."""
    wanted = np.unique(problem.member_rack[problem.member_rack != NOBODY])
    lacking = ~problem.replica_racks[:, wanted].all(axis=1)
    counts = np.bincount(problem.topic_of[lacking], minlength=len(problem.topics))
    totals = np.bincount(problem.topic_of, minlength=len(problem.topics))
    worst = [int(topic) for topic in np.argsort(-counts, kind="stable")[:max_topics] if counts[topic]]
    return "; ".join(
        f"{counts[topic]} of {totals[topic]} partitions of {problem.topics[topic]} have no replica in some rack of a "
        "member"
        for topic in worst
    )
