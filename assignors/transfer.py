"""Cooperative rebalancing in two rounds (KIP-429): what this round must withhold.

Only the difference between a final plan and the present owners; how the final plan came about does not matter here.
"""

from __future__ import annotations

import numpy as np

from assignors.model import NOBODY, BoolArray, Int32Array, Problem


def transferring(problem: Problem, owner: Int32Array) -> BoolArray:
    """True where the plan gives a partition to one member while another member of the group may still read it, [P].

    That is its present owner, one of several that claim the partition with equal right, or one that claims it and no
    longer subscribes to its topic (as in Java's `computePartitionsTransferringOwnership`).
    """
    held = problem.owner != NOBODY
    if problem.contested is not None:
        held |= problem.contested
    moving: BoolArray = (owner != NOBODY) & held & (owner != problem.owner)
    return moving


def withhold(problem: Problem, owner: Int32Array) -> Int32Array:
    """The first cooperative round of a plan: transferring partitions go to nobody until their owner revoked them.

    Args:
        problem: the group, with present owners.
        owner: [P] the final plan.

    Returns:
        [P] a copy of the plan with NOBODY where another current member may still read the partition.
    """
    return np.where(transferring(problem, owner), np.int32(NOBODY), owner)
