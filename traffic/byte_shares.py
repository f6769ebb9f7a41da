"""Shares of measured bytes that cross racks under any owners of a group's partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from samerack.assignors.evaluate import cross_rack_mask, evaluate, known_mask
from samerack.assignors.model import FloatArray, Int32Array, Problem
from samerack.traffic.collect import Partition

Rates: TypeAlias = Mapping[Partition, float]
"""Wire bytes per second by partition."""


def share_of_owners(problem: Problem, owner: Int32Array, rates: Rates | None) -> float | None:
    """Returns the cross-rack share with these owners, of bytes if they were measured; None if nothing is known."""
    row = row_of(problem, rates) if rates is not None else np.zeros(0)
    known = known_mask(problem, owner)
    whole = float(row[known].sum()) if len(row) else 0.0
    if not whole:
        return evaluate(problem, owner).known_share
    return known_crossing(problem, owner, row) / whole


def row_of(problem: Problem, rates: Rates) -> FloatArray:
    """Returns [P] bytes per second of each partition."""
    numbers = zip(problem.topic_of.tolist(), problem.number_of.tolist(), strict=True)
    return np.array([rates.get((problem.topics[topic], number), 0.0) for topic, number in numbers], dtype=np.float64)


def known_crossing(problem: Problem, owner: Int32Array, row: FloatArray) -> float:
    """Returns the bytes per second that are known to cross racks with these owners."""
    return float(row[known_mask(problem, owner) & cross_rack_mask(problem, owner)].sum())
