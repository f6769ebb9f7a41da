"""Weights from rates: few different ones, and stable under noise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.planning.topic_tables import fit_weights
from samerack.traffic.attribute import Part
from samerack.traffic.rates import LEVELS, level_of, phase_of, smooth, weights_of
from samerack.traffic.weights import WeightBook, weights_of_rates

RATES = st.floats(1, 1e9)


@given(RATES, st.lists(st.floats(2**-0.25, 2**0.25), max_size=50))
def test_noise_keeps_a_level(rate: float, noise: list[float]) -> None:
    """A rate that varies by a fifth around any value keeps its level."""
    level = level_of(rate, None, phase=0.0)
    for factor in noise:
        assert level_of(rate * factor, level, phase=0.0) == level


@given(RATES, RATES, st.floats(-0.5, 0.5))
def test_a_changed_rate_changes_its_level(before: float, after: float, phase: float) -> None:
    """A level is never further from the rate than a factor of 1.7."""
    level = level_of(after, level_of(before, None, phase=phase), phase=phase)
    assert 1 / 1.7 < max(after, 1.0) / 2 ** (level + phase) < 1.7


@given(st.floats(1_000, 1e9), st.lists(st.floats(0.85, 1.15), min_size=2, max_size=50))
def test_first_rates_that_are_nearly_alike_weigh_alike(rate: float, noise: list[float]) -> None:
    """Rates that differ little weigh alike, also near a power of two: a plan must not move partitions for noise."""
    weights = weights_of_rates({("t", number): rate * factor for number, factor in enumerate(noise)})
    assert weights is not None
    assert set(weights["t"]) == {1 << LEVELS}


def test_the_rates_that_count_most_lie_amid_a_level() -> None:
    """The phase is that of the greatest rates; rates near zero do not count."""
    assert phase_of([0.0, 0.5, 2**10.25, 2**10.25, 1.0]) == pytest.approx(0.25)
    assert phase_of([]) == 0.0


@given(st.lists(st.one_of(st.none(), st.integers(0, 60)), min_size=1, max_size=50))
def test_weights_are_few_and_in_order(levels: list[int | None]) -> None:
    """Weights are powers of two between 1 and 4096, and a greater rate has no smaller weight."""
    row = weights_of({"t": levels})["t"]
    assert {weight & (weight - 1) for weight in row} == {0}
    assert 1 <= min(row) <= max(row) <= 1 << LEVELS
    known = sorted((level, weight) for level, weight in zip(levels, row, strict=True) if level is not None)
    assert [weight for _, weight in known] == sorted(weight for _, weight in known)


def test_smoothing_forgets_slowly() -> None:
    """In a minute the smoothed rate goes two thirds of the way to a new rate."""
    assert smooth(None, 5.0, 1.0, 0.0) == 5.0
    assert 0.6 < smooth(0.0, 1.0, 60.0, 600.0) < 0.7


def test_first_looks_count_alike() -> None:
    """The first poll has the same weight as the next ones, whether or not it sees a commit."""
    for first in (0.0, 30.0):
        rate = smooth(None, first, 5.0, 0.0)
        for age in (5.0, 10.0, 15.0):
            rate = smooth(rate, 10.0, 5.0, age)
        assert rate == pytest.approx((first + 30.0) / 4)


def test_weights_fit_topics_that_grew() -> None:
    """A new partition has the usual weight of its topic, and topics that are gone are left out."""
    assert fit_weights({"t": (1, 4, 4), "gone": (2,)}, {"t": 5}) == {"t": (1, 4, 4, 4, 4)}
    assert fit_weights({"t": (1, 4, 4)}, {"t": 2}) == {"t": (1, 4)}


def part(number: int, wire_bytes: float) -> Part:
    """Bytes read from one partition."""
    return Part(partition=("t", number), member=None, broker=1, wire_bytes=wire_bytes, records=1)


@given(st.lists(st.lists(st.floats(0.9, 1.1), min_size=3, max_size=3), min_size=20, max_size=40))
def test_a_noisy_group_keeps_one_weights_object(noise: list[list[float]]) -> None:
    """Once rates are known, the weights stay the same object under noise."""
    weight_book = WeightBook()
    owned = [("t", number) for number in range(3)]
    for factors in noise[:10]:
        weight_book.measured("g", [part(n, 700_000 * 8**n * f) for n, f in enumerate(factors)], owned, 5.0)
    weights = weight_book.weights("g")
    assert weights is not None
    assert weights["t"] == (64, 512, 4096)
    for factors in noise[10:]:
        weight_book.measured("g", [part(n, 700_000 * 8**n * f) for n, f in enumerate(factors)], owned, 5.0)
        assert weight_book.weights("g") is weights


def test_rates_need_time_and_traffic() -> None:
    """There are no weights before commits may have arrived six times, nor while nothing is read."""
    weight_book = WeightBook()
    weight_book.measured("g", [part(0, 10_000)], [("t", 0)], 5.0)
    assert (weight_book.weights("g"), weight_book.rates("g")) == (None, None)
    for _ in range(5):
        weight_book.measured("idle", [], [("t", 0)], 5.0)
        weight_book.measured("g", [part(0, 10_000)], [("t", 0)], 5.0)
    assert dict(weight_book.rates("g") or {}) == pytest.approx({("t", 0): 2000.0})
    assert (weight_book.weights("idle"), weight_book.rates("idle")) == (None, None)
    assert weight_book.rate("idle", ("t", 0)) == 0.0
    weight_book.forget(["g"])
    assert weight_book.rate("g", ("t", 0)) is None
