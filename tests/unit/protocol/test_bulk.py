"""The assignments of a whole group, encoded at once, against those of single members."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.protocol.consumer import encode_assignment, encode_assignments
from samerack.protocol.errors import ProtocolError
from samerack.protocol.values import Assignment, Int32Array, from_pairs
from tests.unit.protocol.strategies import NAMES, VERSIONS


def one_by_one(
    *,
    topics: list[str],
    topic_of: Int32Array,
    number_of: Int32Array,
    owner: Int32Array,
    members: int,
    version: int = 3,
) -> list[bytes]:
    """The slow way: the pairs of each member, encoded one member after the other; most members have none."""
    pairs: dict[int, list[tuple[str, int]]] = {}
    for topic, number, member in zip(topic_of.tolist(), number_of.tolist(), owner.tolist(), strict=True):
        if member >= 0:
            pairs.setdefault(member, []).append((topics[topic], number))

    def encoded(own: list[tuple[str, int]]) -> bytes:
        return encode_assignment(Assignment(version=version, partitions=from_pairs(own)))

    nothing = encoded([])
    return [encoded(pairs[member]) if member in pairs else nothing for member in range(members)]


@given(
    st.lists(NAMES, unique=True, max_size=8),
    st.integers(1, 5),
    st.data(),
    VERSIONS,
)
def test_bulk_equals_one_by_one(topics: list[str], members: int, data: st.DataObject, version: int) -> None:
    """Every member gets the bytes of its own assignment, also if some partitions have no owner."""
    places = st.tuples(st.integers(0, max(0, len(topics) - 1)), st.integers(0, 2**31 - 1))
    partitions = sorted(data.draw(st.lists(places, max_size=30 if topics else 0)))
    owners = data.draw(st.lists(st.integers(-1, members - 1), min_size=len(partitions), max_size=len(partitions)))
    plan: dict[str, Any] = {
        "topics": topics,
        "topic_of": np.array([topic for topic, _ in partitions], dtype=np.int32),
        "number_of": np.array([number for _, number in partitions], dtype=np.int32),
        "owner": np.array(owners, dtype=np.int32),
        "members": members,
        "version": version,
    }
    assert encode_assignments(**plan) == one_by_one(**plan)


@pytest.mark.parametrize("members", [3, 65_534, 65_535, 65_536, 70_000])
def test_many_members_get_their_own(members: int) -> None:
    """The order is correct on both sides of the limit up to which owners are sorted in one pass."""
    partitions = 3000
    random = np.random.default_rng(members)
    topic_of = np.sort(random.integers(0, 7, partitions)).astype(np.int32)
    number_of = np.arange(partitions, dtype=np.int32)
    owner = random.choice([-1, 0, 1, members - 2, members - 1], partitions).astype(np.int32)
    topics = [f"t{'x' * (index % 3)}{index}" for index in range(7)]
    encoded = encode_assignments(topics=topics, topic_of=topic_of, number_of=number_of, owner=owner, members=members)
    assert encoded == one_by_one(topics=topics, topic_of=topic_of, number_of=number_of, owner=owner, members=members)


def test_nobody_and_nothing() -> None:
    """Without partitions assignments are empty; without members there are none."""
    none = np.array([], dtype=np.int32)
    empty = bytes.fromhex("0003 00000000 ffffffff")
    assert encode_assignments(topics=[], topic_of=none, number_of=none, owner=none, members=2) == [empty, empty]
    assert encode_assignments(topics=[], topic_of=none, number_of=none, owner=none, members=0) == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"owner": [0, 2]}, "owner"),
        ({"owner": [-2, 0]}, "owner"),
        ({"owner": [0]}, "topic_of, number_of, owner"),
        ({"topic_of": [1, 0]}, "topic_of"),
        ({"topic_of": [-1, 0]}, "topic_of"),
        ({"topic_of": [0, 2]}, "topic_of"),
        ({"topics": ["a", "x" * 40_000]}, "topics[1]"),
        ({"version": -1}, "version"),
    ],
)
def test_arrays_that_are_no_plan_are_refused(change: dict[str, object], field: str) -> None:
    """For arrays that do not match, the error names the array."""
    plan: dict[str, object] = {"topics": ["a", "b"], "topic_of": [0, 1], "number_of": [0, 0], "owner": [0, 1]} | change
    arrays = {name: np.array(plan[name], dtype=np.int32) for name in ("topic_of", "number_of", "owner")}
    with pytest.raises(ProtocolError) as error:
        encode_assignments(members=2, **(plan | arrays))  # type: ignore[arg-type] # each case names its own keys
    assert error.value.field == field
