"""Shares of measured bytes that cross racks under any owners of a group's partitions.

Plans are made with weights, which are rates rounded to powers of two; what they read is priced with the rates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from samerack.assignors.evaluate import cross_rack_mask, evaluate, known_mask
from samerack.assignors.problem import NOBODY, FloatArray, Int32Array, Problem

Rates: TypeAlias = Mapping[tuple[str, int], float]
"""Wire bytes per second by topic and partition."""


def share_of_owners(problem: Problem, owner: Int32Array, rates: Rates | None) -> float | None:
    """Return the cross-rack share with these owners; None if nothing is known.

    It is of bytes where the problem has weights and rates were measured, else of what the problem counts.
    """
    row = row_of(problem, rates) if rates is not None and problem.weights is not None else np.zeros(0)
    known = known_mask(problem, owner)
    whole = float(row[known].sum()) if len(row) else 0.0
    if not whole:
        return evaluate(problem, owner).known_share
    return known_crossing(problem, owner, row) / whole


def row_of(problem: Problem, rates: Rates) -> FloatArray:
    """Return [P] bytes per second of each partition."""
    numbers = zip(problem.topic_of.tolist(), problem.number_of.tolist(), strict=True)
    return np.array([rates.get((problem.topics[topic], number), 0.0) for topic, number in numbers], dtype=np.float64)


def known_crossing(problem: Problem, owner: Int32Array, row: FloatArray) -> float:
    """Return the bytes per second that are known to cross racks with these owners."""
    # what crosses has an owner with a rack, so that it is known where the rack of its leader replica is
    return float(row[cross_rack_mask(problem, owner) & (problem.leader_rack != NOBODY)].sum())
