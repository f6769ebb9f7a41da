"""The deal in turns: every arc gets its units, and consecutive units go to different seats."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.assignors import deal


@pytest.mark.parametrize("tile", [1, 4, deal._TILE])
@given(counts=st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=6), min_size=1, max_size=5))
def test_every_arc_gets_its_units_at_even_distances(tile: int, counts: list[list[int]]) -> None:
    """Large holders repeat a short sequence; the counts of nearly equal arcs never differ by more than one."""
    holder = np.repeat(np.arange(len(counts)), [len(row) for row in counts])
    count = np.array([one for row in counts for one in row], np.int64)
    arc = np.arange(len(count), dtype=np.int64)[::-1].copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deal, "_TILE", tile)
        dealt = deal._in_turns(holder, count, arc)
    assert np.bincount(dealt, minlength=len(arc))[arc].tolist() == count.tolist()
    begin = 0
    for row in counts:
        part = dealt[begin : begin + sum(row)]
        of = (
            arc[sum(map(len, counts[: counts.index(row)])) :][: len(row)] if counts.count(row) == 1 else np.unique(part)
        )
        assert set(part.tolist()) == set(of.tolist())
        if max(row) - min(row) <= 1:
            for end in range(len(part) + 1):
                given_so_far = [int((part[:end] == one).sum()) for one in of]
                assert max(given_so_far) - min(given_so_far) <= 1
        begin += sum(row)


def test_a_large_holder_with_unlike_arcs_is_mixed_throughout() -> None:
    """Each thousandth of the units has about its share of every arc, not a run of one; the last takes the remainder."""
    count = np.array([600_000, 300_000, 100_000], np.int64)
    dealt = deal._in_turns(np.zeros(3, np.int64), count, np.arange(3))
    shares = np.array([np.bincount(part, minlength=3) / len(part) for part in np.split(dealt, 1_000)])
    assert np.abs(shares[:-1] - [0.6, 0.3, 0.1]).max() < 0.01
