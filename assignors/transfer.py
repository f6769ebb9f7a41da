"""Cooperative rebalancing in two rounds (KIP-429): computes the partitions that the first round must withhold.

It depends only on the difference between a final plan and the current owners, not on the assignor.
"""

from __future__ import annotations

import numpy as np

from samerack.assignors.problem import NOBODY, BoolArray, Int32Array, Problem


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

    Args:
        problem: the group, with current owners.
        owner: [P] the final plan.

    Returns:
        [P] a copy of the plan with NOBODY where another current member may still read the partition.
    """
    return np.where(transferring(problem, owner), np.int32(NOBODY), owner)
