"""What people see of a group's reading: the same for a commit every five seconds and one every five minutes."""

from __future__ import annotations

import pytest

from samerack.traffic.attribute import AttributedBytes
from samerack.traffic.throughput import ReadRates

T0 = ("t", 0)


def _part(wire_bytes: float) -> AttributedBytes:
    return AttributedBytes(partition=T0, member=None, broker=1, wire_bytes=wire_bytes, records=1)


@pytest.mark.parametrize("every", [1, 12, 60])
def test_rare_commits_do_not_count_as_bursts(every: int) -> None:
    """A group that reads 1000 bytes a second is said to read about that, whenever one polls, after some commits."""
    rates = ReadRates()
    for poll in range(1, 20 * every):
        rates.measured("g", [_part(5000.0 * every)] if poll % every == 0 else [], [T0], 5.0)
        if poll > 10 * every:
            assert rates.rates("g")[T0] == pytest.approx(1000.0, rel=0.25)


def test_a_group_that_stops_comes_to_rest() -> None:
    """In a minute without commits two thirds are forgotten, where there was one in every poll."""
    rates = ReadRates()
    for _ in range(100):
        rates.measured("g", [_part(5000.0)], [T0], 5.0)
    for _ in range(36):
        rates.measured("g", [], [T0], 5.0)
    assert rates.rates("g")[T0] < 150.0
    rates.forget(["g"])
    assert rates.rates("g") == {}
