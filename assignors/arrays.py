"""Array functions on small integers by counting: a million partitions cost a few passes and no comparison sort.

Only generic array functions belong here, nothing about partitions, members or racks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from samerack.assignors.problem import BoolArray, Int32Array, Int64Array

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

IntArray: TypeAlias = "npt.NDArray[np.integer[Any]]"

DIGIT: Final = 16
"""Bits of a key that numpy's stable sort handles by counting instead of comparing."""


def stable_order(keys: IntArray, bound: int) -> Int64Array:
    """Return the permutation that sorts `keys` (all in 0..bound-1), stably.

    Args:
        keys: [N] any integer type.
        bound: one more than the greatest possible key.

    Complexity: O(N) per 16 bits of `bound`.
    """
    order = np.argsort(keys.astype(np.uint16), kind="stable")  # the cast keeps the lowest digit
    shift = DIGIT
    while bound > 1 << shift:
        digit = (keys >> shift).astype(np.uint16)
        order = order[np.argsort(digit[order], kind="stable")]
        shift += DIGIT
    return order


def dense_rank(keys: IntArray, bound: int) -> tuple[Int32Array, Int64Array]:
    """Renumber `keys` (all in 0..bound-1) to 0..K-1 in ascending order, without gaps.

    Returns:
        The [N] new numbers and the [K] keys they stand for.

    Complexity: O(N + bound) while `bound` is not much greater than N, else O(N log N).
    """
    if bound > 8 * len(keys) + 65_536:
        values, ranks = np.unique(keys, return_inverse=True)
        return ranks.astype(np.int32), values.astype(np.int64)
    present = np.bincount(keys, minlength=bound) > 0
    values = np.flatnonzero(present)
    if len(values) == bound:
        return keys.astype(np.int32, copy=False), values
    new_number = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return new_number[keys], values


def combine(left: IntArray, left_bound: int, right: IntArray, right_bound: int) -> tuple[Int32Array, int]:
    """Make one dense key for each pair of keys that occurs, in the order of the pairs.

    Returns:
        The [N] keys and their number.
    """
    pairs = left if right_bound == 1 else left.astype(np.int64) * right_bound + right
    ranks, values = dense_rank(pairs, left_bound * right_bound)
    return ranks, len(values)


def is_in(keys: IntArray, chosen: IntArray, bound: int) -> BoolArray:
    """Return [N] whether each key is one of `chosen`; all are in 0..bound-1.

    Complexity: O(N + bound) while `bound` is not much greater than N, else by sorting.
    """
    if bound > 8 * len(keys) + 65_536:
        return np.isin(keys, chosen)
    present = np.zeros(bound, np.bool_)
    present[chosen] = True
    return present[keys]


def row_codes(columns: Sequence[BoolArray]) -> tuple[Int32Array, BoolArray]:
    """Give numbers to the distinct rows of a boolean matrix that is given by its columns.

    Args:
        columns: W arrays [N], at least one.

    Returns:
        The [N] row numbers, and the [K, W] distinct rows in the order of the numbers.
    """
    codes, count = np.zeros(len(columns[0]), np.int32), 1
    for first in range(0, len(columns), 8):
        byte = np.zeros(len(codes), np.uint8)
        for bit, column in enumerate(columns[first : first + 8]):
            byte |= column.astype(np.uint8) << np.uint8(bit)
        codes, count = combine(codes, count, byte, 256)
    some = first_of_each(codes, count)
    return codes, np.stack([column[some] for column in columns], axis=1)


def count_rows(columns: Sequence[Int64Array]) -> tuple[Int32Array, Int64Array]:
    """Give numbers to the distinct rows of a matrix of small counts that is given by its columns.

    Args:
        columns: W arrays [N], at least one.

    Returns:
        The [N] row numbers, and the [K, W] distinct rows in the order of the numbers.
    """
    codes, count = np.zeros(len(columns[0]), np.int32), 1
    for column in columns:
        ranks, values = dense_rank(column, int(column.max(initial=0)) + 1)
        codes, count = combine(codes, count, ranks, max(len(values), 1))
    some = first_of_each(codes, count) if len(codes) else np.empty(0, np.int64)
    return codes, np.stack([column[some] for column in columns], axis=1)


def first_of_each(keys: IntArray, bound: int) -> Int64Array:
    """Return, for each key in 0..bound-1 (each must occur), the position where it occurs first."""
    first = np.empty(bound, np.int64)
    first[keys[::-1]] = np.arange(len(keys) - 1, -1, -1)  # the last write wins
    return first


def starts_of(counts: IntArray) -> Int64Array:
    """Return the offsets of consecutive runs of the given lengths, then the total: [N] → [N + 1]."""
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def ranges(starts: IntArray, lengths: IntArray) -> Int64Array:
    """Return the concatenation of start, start+1, …, start+length-1 for every pair."""
    offsets = starts_of(lengths)
    return np.arange(offsets[-1], dtype=np.int64) + np.repeat(starts - offsets[:-1], lengths)
