"""Rates of production, weights that stay while it is steady, and what people see of a group's reading."""

from __future__ import annotations

from math import erf, gamma, pi, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.common.weights import GroupWeights
from samerack.traffic.collect import Partition
from samerack.traffic.sizes import AttributedBytes
from samerack.traffic.throughput import BLOCK_SECONDS, BLOCKS, STUDENT, Production, Rate, ReadRates
from samerack.traffic.weights import WeightBook, have_changed
from tests import effort
from tests.unit.traffic.worlds import DAY, polls


def weighed(
    seed: int, *, seconds: float, shifted_after: float = float("inf")
) -> list[tuple[float, GroupWeights | None]]:
    """Each change of the weights in a world, with its time."""
    production, book = Production(), WeightBook()
    changes: list[tuple[float, GroupWeights | None]] = []
    now = 0.0
    for step, appended in polls(seed, seconds=seconds, shifted_after=shifted_after):
        now += step
        production.polled(appended, appended.values(), step)
        book.measured("g", production.rates(appended))
        weights = book.weights("g")
        if weights is not (changes[-1][1] if changes else None):
            changes.append((now, weights))
    return changes


@pytest.mark.parametrize("seed", range(effort.of(200, minimum=8)))
def test_steady_production_keeps_its_weights(seed: int) -> None:
    """Constant, random, in bursts once a minute, or by day and night: after ten minutes they are never changed."""
    assert max(at for at, _ in weighed(seed, seconds=DAY / 4)) < 600.0


@pytest.mark.parametrize("seed", range(effort.of(200, minimum=8)))
def test_a_lasting_shift_is_followed_once(seed: int) -> None:
    """After ten minutes of four times the traffic one partition has more weight, by one change."""
    shift = 1800.0
    *_, before, after = weighed(seed, seconds=shift + 1800.0, shifted_after=shift)
    assert before[0] < 600.0
    assert shift < after[0] <= shift + 660.0
    assert before[1] != after[1]


def test_a_rate_needs_three_steps_and_knows_its_error() -> None:
    """Equal steps have no error; a step without growth has one, which is less sure as it is from four steps only."""
    production = Production()
    production.polled([("t", 0)], [0.0], 0.0)
    found = []
    for size in (500.0, 500.0, 500.0, 0.0):
        production.polled([("t", 0)], [size], 5.0)
        found.append(production.rates([("t", 0)]).get(("t", 0)))
    assert found[:2] == [None, None]
    assert found[2] == Rate(value=100.0, error=0.0, seconds=15.0)
    assert found[3] is not None
    assert (found[3].value, found[3].error) == pytest.approx((75.0, 22.82 * 1.65), abs=0.02)


@pytest.mark.parametrize("blocks", range(3, BLOCKS + 1))
def test_two_errors_of_few_blocks_are_as_sure_as_two_of_many(blocks: int) -> None:
    """By the density of Student's t with one degree of freedom fewer than blocks: 95.45 % lie within."""
    free = blocks - 1
    bound = 2 * STUDENT[blocks]
    at = np.linspace(-bound, bound, 20_001)
    scale = gamma((free + 1) / 2) / (sqrt(free * pi) * gamma(free / 2))
    within = (scale * (1 + at**2 / free) ** (-(free + 1) / 2)).mean() * 2 * bound
    assert within == pytest.approx(erf(sqrt(2)), abs=0.001)


@given(st.lists(st.tuples(st.floats(1, 100), st.floats(0, 1e9)), min_size=3, max_size=300))
def test_a_rate_is_what_was_appended_in_its_time(steps: list[tuple[float, float]]) -> None:
    """Whatever blocks are made of the steps, the rate is that of the last ones together."""
    production = Production()
    production.polled([("t", 0)], [0.0], 0.0)
    for seconds, size in steps:
        production.polled([("t", 0)], [size], seconds)
    rate = production.rates([("t", 0)]).get(("t", 0))
    assert rate is not None
    whole, seconds = 0.0, 0.0
    for step, size in reversed(steps):
        whole, seconds = whole + size, seconds + step
        if seconds >= rate.seconds - 1e-6:
            break
    assert seconds == pytest.approx(rate.seconds)
    assert rate.value == pytest.approx(whole / seconds)
    longest = max(BLOCK_SECONDS, *(step for step, _ in steps))
    assert rate.seconds <= (BLOCKS + 1) * 2 * longest


def test_a_partition_that_comes_later_has_its_own_time() -> None:
    """It is measured from the next block on; one that goes is forgotten."""
    production = Production()
    production.polled([("t", 0)], [0.0], 0.0)
    for _ in range(20):
        production.polled([("t", 0)], [100.0], 5.0)
    for _ in range(30):
        production.polled([("t", 0), ("t", 1)], [100.0, 50.0], 5.0)
    late = production.rates([("t", 1)]).get(("t", 1))
    assert late is not None
    assert late.value == pytest.approx(10.0)
    assert late.seconds < 150.0
    production.polled([("t", 0)], [100.0], 5.0)
    assert production.rates([("t", 1)]).get(("t", 1)) is None


def test_a_pause_of_the_machine_is_no_rate() -> None:
    """What was appended while nobody polled for minutes is left out."""
    production = Production()
    production.polled([("t", 0)], [0.0], 0.0)
    for seconds, size in ((5.0, 50.0), (5.0, 50.0), (900.0, 1e9), (5.0, 50.0)):
        production.polled([("t", 0)], [size], seconds)
    assert production.rates([("t", 0)]).get(("t", 0)) == Rate(value=10.0, error=0.0, seconds=15.0)


def _rate(value: float, *, error: float = 0.0) -> Rate:
    return Rate(value=value, error=error, seconds=480.0)


def test_what_all_do_alike_is_no_change() -> None:
    """Weights are relative."""
    before = {("t", number): _rate(100.0) for number in range(3)}
    assert not have_changed(before, {partition: _rate(500.0) for partition in before})
    assert have_changed(before, before | {("t", 0): _rate(201.0)})
    assert not have_changed(before, before | {("t", 0): _rate(400.0, error=150.0)})


def test_partitions_that_come_or_go_leave_the_others_their_weights() -> None:
    """A new one is weighed by the measure of the old ones."""
    book = WeightBook()
    rates = {("t", number): _rate(1000.0 * 8**number) for number in range(3)}
    book.measured("g", rates)
    assert dict(book.weights("g") or {}) == {"t": (64, 512, 4096)}
    book.measured("g", {one: _rate(rate.value * 1.4) for one, rate in rates.items()} | {("t", 3): _rate(8000.0)})
    assert dict(book.weights("g") or {}) == {"t": (64, 512, 4096, 512)}


def test_a_change_is_not_hidden_by_the_error_of_the_rate_before() -> None:
    """Traffic grew to four times after a rate of 264 +- 56: the same rate, known better meanwhile, is compared with."""
    before = {("t", 0): _rate(264.0, error=56.0), ("t", 1): _rate(357.0, error=33.0)}
    after = {("t", 0): _rate(291.0, error=30.0), ("t", 1): _rate(1404.0, error=13.0)}
    hidden, found = WeightBook(), WeightBook()
    for book, better in ((hidden, before), (found, {("t", 0): _rate(256.0, error=6.0), ("t", 1): _rate(346.0)})):
        book.measured("g", before)
        book.measured("g", better)
        assert dict(book.weights("g") or {}) == {"t": (4096, 4096)}
        book.measured("g", after)
    assert dict(hidden.weights("g") or {}) == {"t": (4096, 4096)}
    assert dict(found.weights("g") or {}) == {"t": (1024, 4096)}


def test_another_rate_is_no_better_one() -> None:
    """What grows in small steps is compared with what it was at first, however well each step is known."""
    book = WeightBook()
    for factor in (1.0, 1.4, 1.9, 2.5):
        book.measured("g", {("t", 0): _rate(100.0 * factor, error=4.0 / factor**2), ("t", 1): _rate(100.0)})
    assert dict(book.weights("g") or {}) == {"t": (4096, 2048)}


def test_weights_wait_until_rates_are_sure() -> None:
    """In the first seconds a burst says little; after some minutes there is no more to be had."""
    book = WeightBook()
    uncertain = Rate(value=100.0, error=80.0, seconds=15.0)
    book.measured("g", {("t", 0): uncertain, ("t", 1): uncertain})
    assert (book.weights("g"), book.rates("g")) == (None, None)
    book.measured("g", {("t", number): _rate(100.0, error=80.0) for number in (0, 1)})
    assert dict(book.weights("g") or {}) == {"t": (4096, 4096)}
    book.forget(["g"])
    assert (book.weights("g"), book.rates("g")) == (None, None)
    book.measured("idle", {("t", 0): _rate(0.0)})
    assert book.weights("idle") is None


T0 = ("t", 0)


def _part(wire_bytes: float, number: int = 0, *, records: int = 1) -> AttributedBytes:
    return AttributedBytes(partition=("t", number), member=None, broker=1, wire_bytes=wire_bytes, records=records)


@pytest.mark.parametrize("every", [1, 12, 60])
def test_rare_commits_do_not_count_as_bursts(every: int) -> None:
    """A group that reads 1000 bytes a second is said to read about that, whenever one polls, after some commits."""
    rates = ReadRates()
    for poll in range(1, 20 * every):
        rates.measured("g", [_part(5000.0 * every)] if poll % every == 0 else [], [T0], 5.0)
        if poll > 10 * every:
            assert rates.rates("g")[T0] == pytest.approx(1000.0, rel=0.25)


def test_a_group_that_stops_comes_to_rest() -> None:
    """In a minute without commits two thirds are forgotten, where there was one in every poll.

    Others of its partitions, which get envelopes only, or got records once, are nothing to that.
    """
    rates, idle = ReadRates(), range(1, 200)
    owned = [("t", number) for number in (0, *idle)]
    for poll in range(100):
        others = [_part(5.0, number, records=number % 2 if not poll else 0) for number in idle]
        rates.measured("g", [_part(5000.0), *others], owned, 5.0)
    for _ in range(36):
        rates.measured("g", [_part(5.0, number, records=0) for number in idle], owned, 5.0)
    assert rates.rates("g")[T0] < 150.0
    assert rates.rates("g")["t", 1] == pytest.approx(1.0)
    rates.forget(["g"])
    assert rates.rates("g") == {}


def test_loads_follow_what_moves_between_partitions_and_no_wave() -> None:
    """Groups that are balanced by bytes get new loads when traffic moves; their weights and all other groups stay."""
    book = WeightBook()
    rates = {("t", number): _rate(1_000.0) for number in range(4)}

    def loads(group: str) -> list[int]:
        return list((book.weights(group) or GroupWeights({})).loads["t"])

    def both(now: dict[Partition, Rate]) -> None:
        book.measured("balanced", now, now)
        book.measured("other", now)

    both(rates)
    first = book.weights("balanced")
    both({one: _rate(3_000.0) for one in rates})
    assert book.weights("balanced") is first
    both(rates | {("t", 0): _rate(1_900.0, error=1_000.0)})
    assert book.weights("balanced") is first
    both(rates | {("t", 0): _rate(1_900.0)})
    assert (loads("balanced"), loads("other")) == ([1_900, 1_000, 1_000, 1_000], [1_000] * 4)
    assert book.weights("balanced") == first
