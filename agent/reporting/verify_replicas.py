"""Whether the racks of replicas allow locality at all: the best balanced plan if every replica could serve reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from samerack.assignors.consumer import optimal
from samerack.assignors.evaluate import evaluate
from samerack.assignors.model import NOBODY, AssignmentError, Problem


def share_with_every_replica(problem: Problem) -> float | None:
    """Returns the cross-rack share of the best balanced plan if members read from any replica in their rack."""
    ideal = replace(problem, reads_any_replica=np.ones_like(problem.reads_any_replica))
    try:
        return evaluate(ideal, optimal.assign(ideal)).cross_rack_share
    except AssignmentError:
        return None


def worst_topics(problem: Problem, max_topics: int = 3) -> str:
    """Returns a text with the topics that have most partitions without a replica in some rack of a member."""
    wanted = np.unique(problem.member_rack[problem.member_rack != NOBODY])
    lacking = ~problem.replica_racks[:, wanted].all(axis=1)
    counts = np.bincount(problem.topic_of[lacking], minlength=len(problem.topics))
    totals = np.bincount(problem.topic_of, minlength=len(problem.topics))
    worst = [int(topic) for topic in np.argsort(-counts, kind="stable")[:max_topics] if counts[topic]]
    if not worst:
        return "the members stand unevenly in the racks"
    return "; ".join(
        f"{counts[topic]} of {totals[topic]} partitions of {problem.topics[topic]} have no replica in some rack of a "
        "member"
        for topic in worst
    )
