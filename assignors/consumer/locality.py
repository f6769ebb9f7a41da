"""Computes which partitions are near which members, as few distinct rows of prices.

Members with the same rack that read the same replicas (any, or the leader) form a column. A partition has a price in
each column: its weight if such a member would read it across racks, else 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from samerack.assignors.arrays import combine, dense_rank, first_of_each, row_codes
from samerack.assignors.build import check_weights
from samerack.assignors.problem import NOBODY, BoolArray, Int32Array, Int64Array, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Locality:
    """Prices of partitions in columns of members.

    Attributes:
        column: [M] column of each member of the problem.
        price: [P] row of `prices`.
        prices: [C, G] cost of reading across racks, minus the least cost of the row.
    """

    column: Int32Array
    price: Int32Array
    prices: Int64Array


def locality(problem: Problem) -> Locality:
    """Compute the columns and prices of a problem with at least one member.

    Raises:
        AssignmentError: the sum of the weights is too large.

    Complexity: O(P * distinct member racks).
    """
    column, racks, any_replica = _columns(problem)
    code, near = _near(problem, racks, any_replica)
    if problem.weights is None:
        weight, values = np.zeros(len(code), np.int32), np.ones(1, np.int64)
    else:
        check_weights(problem.weights)
        weight, values = dense_rank(problem.weights, int(problem.weights.max(initial=0)) + 1)
    price, count = combine(code, len(near), weight, len(values))
    first = first_of_each(price, count)
    prices = np.where(near[code[first]], 0, values[weight[first]][:, np.newaxis])
    prices -= prices.min(axis=1, initial=np.iinfo(np.int64).max, keepdims=True)
    distinct, row = np.unique(prices, axis=0, return_inverse=True)
    return Locality(column=column, price=row.astype(np.int32)[price], prices=distinct)


def _columns(problem: Problem) -> tuple[Int32Array, Int32Array, BoolArray]:
    """Return [M] column of each member, [G] rack of each column, [G] whether its members read from any replica."""
    has_rack = problem.member_rack != NOBODY
    keys = (problem.member_rack + 1) * 2 + (problem.reads_any_replica & has_rack)
    column, values = dense_rank(keys, 2 * len(problem.racks) + 2)
    return column, (values // 2 - 1).astype(np.int32), values % 2 == 1


def _near(problem: Problem, racks: Int32Array, any_replica: BoolArray) -> tuple[Int32Array, BoolArray]:
    """Return [P] a code per partition, and [codes, G] whether a column is near; a column without rack always is."""
    columns = [
        np.ones(len(problem.leader_rack), np.bool_)
        if rack == NOBODY
        else problem.replica_racks[:, rack]
        if reads_any
        else problem.leader_rack == rack
        for rack, reads_any in zip(racks.tolist(), any_replica.tolist(), strict=True)
    ]
    return row_codes(columns)
