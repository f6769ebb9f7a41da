"""The invariants of partitions as runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.protocol.errors import ProtocolError
from samerack.protocol.values import from_flat, from_pairs, no_partitions, to_pairs
from tests.unit.protocol.strategies import pairs


@given(pairs())
def test_pairs_survive_in_order(given_pairs: list[tuple[str, int]]) -> None:
    """Pairs become runs of neighbours, which give the same pairs again."""
    runs = from_pairs(given_pairs)
    assert to_pairs(runs) == given_pairs
    assert len(runs) == len(given_pairs)
    assert all(left != right for left, right in zip(runs.topics, runs.topics[1:], strict=False))


@given(pairs(), pairs())
def test_equality_follows_the_pairs(left: list[tuple[str, int]], right: list[tuple[str, int]]) -> None:
    """Runs of equal pairs are equal with equal hashes; other runs differ."""
    assert (from_pairs(left) == from_pairs(right)) == (left == right)
    assert hash(from_pairs(left)) == hash(from_pairs(list(left)))


def test_runs_differ_from_other_things() -> None:
    """Runs are not equal to their pairs, nor to the same pairs in other runs."""
    joined = from_pairs([("a", 1), ("a", 2)])
    cut = from_flat(("a", "a"), (1, 1), np.array([1, 2], np.int32))
    assert joined != [("a", 1), ("a", 2)]
    assert joined != cut
    assert to_pairs(joined) == to_pairs(cut)


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**70])
def test_number_beyond_32_bits_is_refused(number: int) -> None:
    """A partition number beyond 32 bits is named in the error."""
    with pytest.raises(ProtocolError, match=f"partition {number} "):
        from_pairs([("a", 0), ("a", number)])


@given(st.lists(st.integers(0, 9), min_size=1))
def test_what_the_room_makes_is_read_only(numbers: list[int]) -> None:
    """The arrays of partitions cannot be written."""
    runs = from_pairs([("a", number) for number in numbers])
    with pytest.raises(ValueError, match="read-only"):
        runs.numbers[0][0] = 1
    assert len(no_partitions()) == 0
