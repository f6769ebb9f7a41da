"""Computes the cost of a plan, in the same way for Kafka's plans and for ours.

Only counts on arrays; the order of the fields of `Cost` says which plan is better. Plans are made with weights, which
are rates rounded to powers of two; what they read is priced with the rates (`share_of_owners`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from samerack.assignors.problem import NOBODY, BoolArray, Cost, FloatArray, Int32Array, Problem

Rates: TypeAlias = Mapping[tuple[str, int], float]
"""Wire bytes per second by topic and partition."""


def cross_rack_mask(problem: Problem, owner: Int32Array) -> BoolArray:
    """Return [P] true where a partition is read across racks.

    That is where its owner has a rack, and no replica in that rack may serve it (any replica if the member reads from
    any, KIP-392, else only the leader replica). Partitions without an owner, and those of members without a rack, are
    not read across racks.

    Args:
        problem: the group.
        owner: [P] member per partition, or NOBODY.
    """
    if not problem.members:
        return np.zeros(len(owner), np.bool_)
    rack = np.where(owner == NOBODY, NOBODY, problem.member_rack[owner])
    near = problem.leader_rack == rack
    if problem.reads_any_replica.any() and problem.racks:
        any_near = problem.replica_racks[np.arange(len(owner)), rack]
        near |= any_near & problem.reads_any_replica[owner]
    crossing: BoolArray = (rack != NOBODY) & ~near
    return crossing


def known_mask(problem: Problem, owner: Int32Array) -> BoolArray:
    """Return [P] true where it is known whether the owner reads across racks.

    That is where the owner has a rack, and either a replica there serves it or the rack of the leader replica, which
    serves it then, is known.

    Args:
        problem: the group.
        owner: [P] member per partition, or NOBODY.
    """
    if not problem.members:
        return np.zeros(len(owner), np.bool_)
    has_rack = (owner != NOBODY) & (problem.member_rack[owner] != NOBODY)
    known: BoolArray = has_rack & (~cross_rack_mask(problem, owner) | (problem.leader_rack != NOBODY))
    return known


def known_crossing_by_member(problem: Problem, owner: Int32Array) -> list[int | None]:
    """Return how many partitions each member is known to read across racks.

    None for a member without a rack, and for one of whose partitions it is known of none.

    Args:
        problem: the group.
        owner: [P] member per partition, or NOBODY.
    """
    count = len(problem.members)
    known = known_mask(problem, owner)
    owned, figures, crossing = (
        np.bincount(owner[mask], minlength=count).tolist()
        for mask in (owner != NOBODY, known, known & cross_rack_mask(problem, owner))
    )
    return [
        None if rack == NOBODY or (owned[at] and not figures[at]) else crossing[at]
        for at, rack in enumerate(problem.member_rack.tolist())
    ]


def evaluate(problem: Problem, owner: Int32Array) -> Cost:
    """Compute the `Cost` of a plan.

    Args:
        problem: the group, with current owners.
        owner: [P] member per partition, or NOBODY.

    Complexity: O(P + M).
    """
    crossing = cross_rack_mask(problem, owner)
    known = known_mask(problem, owner)
    known_crossing = crossing & known
    assigned = owner != NOBODY
    loads = np.bincount(owner[assigned], minlength=len(problem.members))
    moved = assigned & (problem.owner != NOBODY) & (problem.owner != owner)
    readable = np.logical_or.reduce(problem.subscriptions, axis=0)[problem.topic_of]
    weights = problem.weights
    return Cost(
        imbalance=int(loads.max() - loads.min()) if len(loads) else 0,
        sum_of_squares=int((loads * loads).sum()),
        cross_rack=int(crossing.sum()),
        cross_rack_weight=int(crossing.sum() if weights is None else weights[crossing].sum()),
        moved=int(moved.sum()),
        unassigned=int((~readable).sum()),
        assigned_weight=int(assigned.sum() if weights is None else weights[assigned].sum()),
        known=int(known.sum()),
        known_cross_rack=int(known_crossing.sum()),
        known_weight=int(known.sum() if weights is None else weights[known].sum()),
        known_cross_rack_weight=int(known_crossing.sum() if weights is None else weights[known_crossing].sum()),
    )


def share_of_owners(problem: Problem, owner: Int32Array, rates: Rates | None) -> float | None:
    """Return the cross-rack share with these owners; None if nothing is known.

    It is of bytes where the problem has weights and rates were measured, else of what the problem counts.
    """
    row, known = _bytes_of(problem, rates), known_mask(problem, owner)
    whole = 0.0 if row is None else float(row[known].sum())
    if row is None or not whole:
        return evaluate(problem, owner).known_share
    return known_crossing(problem, owner, row) / whole


def share_without_racks(problem: Problem, rates: Rates | None) -> float | None:
    """Return the cross-rack share to expect of assignors that know no racks; None if nothing is known.

    Each subscriber of a partition is as likely to be its owner as any other, which holds for every assignor that orders
    members by random ids. It is of bytes or counts as that of `share_of_owners`.

    Complexity: O(P) for each rack of members with each subscription.
    """
    row = _bytes_of(problem, rates)
    if row is None:
        row = np.ones(len(problem.owner))
    known, across = np.zeros(len(row)), np.zeros(len(row))
    kinds = np.stack([problem.member_rack, problem.reads_any_replica, problem.subscription_of], axis=1)
    _, first, counts = np.unique(kinds, axis=0, return_index=True, return_counts=True)
    for at, times in zip(first.tolist(), counts.tolist(), strict=True):
        reads = problem.subscriptions[problem.subscription_of[at]][problem.topic_of]
        owner = np.where(reads, at, NOBODY).astype(np.int32)
        is_known = known_mask(problem, owner)
        known += times * is_known
        across += times * (is_known & cross_rack_mask(problem, owner))
    shared = known > 0
    whole = float(row[shared].sum())
    return float((row[shared] * across[shared] / known[shared]).sum()) / whole if whole else None


def _bytes_of(problem: Problem, rates: Rates | None) -> FloatArray | None:
    """Return [P] bytes per second where the problem counts bytes; None where it does not, or nothing was measured."""
    if rates is None or problem.weights is None:
        return None
    row = row_of(problem, rates)
    return row if row.any() else None


def row_of(problem: Problem, rates: Rates) -> FloatArray:
    """Return [P] bytes per second of each partition."""
    numbers = zip(problem.topic_of.tolist(), problem.number_of.tolist(), strict=True)
    return np.array([rates.get((problem.topics[topic], number), 0.0) for topic, number in numbers], dtype=np.float64)


def known_crossing(problem: Problem, owner: Int32Array, row: FloatArray) -> float:
    """Return the bytes per second that are known to cross racks with these owners."""
    # what crosses has an owner with a rack, so that it is known where the rack of its leader replica is
    return float(row[cross_rack_mask(problem, owner) & (problem.leader_rack != NOBODY)].sum())
