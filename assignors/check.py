"""Decides what of a plan may be sent to a group now: withholds what cooperative members must revoke first, and checks.

Independent of every assignor on purpose: nothing here may be shared with the code that makes plans.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from samerack.assignors.problem import NOBODY, AssignmentError, BoolArray, Int32Array, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping


def round_to_send(
    problem: Problem, owner: Int32Array, *, cooperative: bool, cover: Mapping[str, int] | None = None
) -> Int32Array:
    """Return [P] the checked owners of this round of a plan: the plan itself, or its first cooperative round.

    Args:
        problem: the group, with current owners.
        owner: [P] the final plan.
        cooperative: whether members rebalance incrementally (KIP-429).
        cover: see `check`.

    Raises:
        AssignmentError: the plan must not be sent, see `check`.
    """
    sent = withhold(problem, owner) if cooperative else owner
    check(problem, sent, cooperative=cooperative, cover=cover)
    return sent


def transferring(problem: Problem, owner: Int32Array) -> BoolArray:
    """Return [P] true where the plan gives a partition to a member while another member may still read it.

    The other member is the current owner, one of several that claim the partition in the newest generation, or one that
    claims it and no longer subscribes to its topic (as in Java's `computePartitionsTransferringOwnership`).
    """
    held = problem.owner != NOBODY
    if problem.contested is not None:
        held |= problem.contested
    moving: BoolArray = (owner != NOBODY) & held & (owner != problem.owner)
    return moving


def withhold(problem: Problem, owner: Int32Array) -> Int32Array:
    """Return the first cooperative round of a plan: transferring partitions are withheld until they are revoked.

    It depends only on the difference between a final plan and the current owners, not on the assignor (KIP-429).

    Args:
        problem: the group, with current owners.
        owner: [P] the final plan.

    Returns:
        [P] a copy of the plan with NOBODY where another current member may still read the partition.
    """
    return np.where(transferring(problem, owner), np.int32(NOBODY), owner)


def check(problem: Problem, owner: Int32Array, *, cooperative: bool, cover: Mapping[str, int] | None = None) -> None:
    """Check a plan, and raise an error if it is invalid.

    Args:
        problem: the group, with current owners.
        owner: [P] member per partition, or NOBODY.
        cooperative: Whether partitions that another member still owns must be withheld this round (KIP-429).
        cover: Partition counts of the subscribed topics from a source other than the problem, if there is one: topics
            may be missing in the problem, which the plan alone could not show.

    Raises:
        AssignmentError: The array has the wrong shape, a member index does not exist, a partition with subscribers is
            not assigned (and not withheld), a partition goes to a member that does not subscribe to its topic, a
            transferring partition was not withheld, or the problem lacks a topic or partition to be covered.

    Complexity: O(P + S * T).
    """
    if owner.shape != problem.topic_of.shape:
        raise AssignmentError(
            f"plan has shape {owner.shape}: expected one owner for each of {len(problem.topic_of)} partitions"
        )
    if cover is not None:
        _refuse_gaps(problem, cover)
    assigned = owner != NOBODY
    _refuse(
        problem, owner, assigned & ((owner < 0) | (owner >= len(problem.members))), "names a member that does not exist"
    )
    subscribes = np.zeros(len(owner), np.bool_)
    subscription = problem.subscription_of[owner[assigned]]
    subscribes[assigned] = problem.subscriptions[subscription, problem.topic_of[assigned]]
    _refuse(problem, owner, assigned & ~subscribes, "goes to a member that does not subscribe to its topic")
    readable = np.logical_or.reduce(problem.subscriptions, axis=0)[problem.topic_of]
    held = problem.owner != NOBODY
    if problem.contested is not None:
        held |= problem.contested
    missing = readable & ~assigned & ~(held & cooperative)
    _refuse(problem, owner, missing, "is not assigned although its topic has subscribers")
    if cooperative:
        early = assigned & held & (owner != problem.owner)
        _refuse(problem, owner, early, "was not withheld although another member still owns it")


def _refuse_gaps(problem: Problem, cover: Mapping[str, int]) -> None:
    counts = np.bincount(problem.topic_of, minlength=len(problem.topics))
    subscribed = np.logical_or.reduce(problem.subscriptions, axis=0)
    planned = {topic: int(counts[index]) if subscribed[index] else 0 for index, topic in enumerate(problem.topics)}
    for topic, count in cover.items():
        if planned.get(topic, 0) != count:
            raise AssignmentError(
                f"topic {topic!r} has {count} partitions, and the plan is for {planned.get(topic, 0)} of them: "
                "it must not be sent"
            )


def _refuse(problem: Problem, owner: Int32Array, wrong: BoolArray, what: str) -> None:
    if not wrong.any():
        return
    partition = int(np.flatnonzero(wrong)[0])
    name = f"{problem.topics[problem.topic_of[partition]]}-{problem.number_of[partition]}"
    index = int(owner[partition])
    member = f" (member {problem.members[index]!r})" if 0 <= index < len(problem.members) else ""
    more = int(wrong.sum()) - 1
    others = f", and {more} more" if more else ""
    raise AssignmentError(f"partition {name}{member} {what}{others}: the plan must not be sent, use the fall-back")
