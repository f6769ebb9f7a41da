"""Weights from rates: few different ones, and stable under noise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.common.weights import LEVELS, level_of, phase_of, weights_of, weights_of_rates
from samerack.planning.problem import fit_weights

RATES = st.floats(1, 1e9)


@given(RATES, st.floats(-0.5, 0.5))
def test_a_level_is_near_its_rate(rate: float, phase: float) -> None:
    """A level is never further from the rate than a factor of 1.5."""
    assert 1 / 1.5 < max(rate, 1.0) / 2 ** (level_of(rate, None, phase=phase) + phase) < 1.5


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


def test_weights_fit_topics_that_grew() -> None:
    """A new partition has the usual weight of its topic, and topics that are gone are left out."""
    assert fit_weights({"t": (1, 4, 4), "gone": (2,)}, {"t": 5}) == {"t": (1, 4, 4, 4, 4)}
    assert fit_weights({"t": (1, 4, 4)}, {"t": 2}) == {"t": (1, 4)}
