"""Series of metrics are bounded, and groups that are gone are forgotten, while no counter goes down."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from samerack.reporting.money_metrics import BillCollector, Ledger, MoneyCollector
from samerack.traffic.metrics import OTHER, BoundedCounters, Places, SeriesLimits, TrafficCollector
from samerack.traffic.snapshot import FlowKey, GroupTraffic
from tests import effort
from tests.unit.agent.measured import A, B, flow, group, publish, reports, snapshot

_HOUR: Final = 3600.0
_SCRAPED: Final = 5
"""Of so many polls, one is followed by a scrape."""


@pytest.mark.parametrize("most", [100, 20_000, 50_000, 1_000_000])
def test_the_limits_together_are_the_bound(most: int) -> None:
    """Three series of a flow, four of a topic, eleven of a group, two of a pair of racks."""
    limits = SeriesLimits.of(most)
    assert 0.9 * most <= 3 * limits.flows + 4 * limits.topics + 11 * limits.groups + 2 * limits.pairs <= most


def test_places_are_of_the_largest_until_they_go() -> None:
    """A key keeps its place against a larger one, leaves it when it goes, and while it is still counted if needed."""
    places: Places[str] = Places(2)
    assert places.seen({"a": 1, "b": 3, "c": 2}) == {"a": False, "b": True, "c": True}
    assert places.seen({"a": 9, "b": 3, "c": 2}) == {"a": False, "b": True, "c": True}
    assert places.seen({"a": 9, "c": 2}) == {"a": True, "c": True}
    assert places.seen({"a": 9, "c": 2, "d": 1}, "c".__eq__) == {"a": True, "c": False, "d": True}
    assert places.seen({"a": 9, "d": 1}, "d".__eq__) == {"a": True, "d": True}


def test_a_group_after_many_short_lived_ones_has_its_own_series() -> None:
    """1,200 groups that are gone within the hour leave their places; what came before stays in the common series."""
    counters: BoundedCounters[str] = BoundedCounters(1000, lambda _: OTHER)
    values = {f"short-{number}": (1.0,) for number in range(1200)}
    assert counters.series(values)[OTHER] == (200.0,)
    values["payments"] = (50.0,)
    assert "payments" not in counters.series(values)
    found = counters.series(values | {"payments": (70.0,)}, lambda key: key != "payments")
    assert (found["payments"], found[OTHER]) == ((0.0,), (270.0,))
    found = counters.series(values | {"payments": (75.0,)}, lambda key: key != "payments")
    assert (found["payments"], found[OTHER], len(found)) == ((5.0,), (270.0,), 1001)
    assert counters.series({"payments": (80.0,)})["payments"] == (10.0,)


def test_a_group_that_comes_back_continues() -> None:
    """What it adds while it has no place is in the common series only."""
    counters: BoundedCounters[str] = BoundedCounters(1, lambda _: OTHER)
    assert counters.series({"a": (5.0,)}) == {"a": (5.0,)}
    assert counters.series({"a": (6.0,), "b": (1.0,)}, "a".__eq__) == {"b": (1.0,), OTHER: (1.0,)}
    assert counters.series({"a": (8.0,), "b": (1.0,)}) == {"b": (1.0,), OTHER: (3.0,)}
    assert counters.series({"a": (9.0,), "b": (1.0,)}, "b".__eq__) == {"a": (5.0,), OTHER: (4.0,)}
    assert counters.series({"a": (11.0,)}) == {"a": (7.0,), OTHER: (4.0,)}


STEPS = st.lists(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 9), max_size=6), max_size=12)


@given(STEPS)
def test_no_counter_goes_down(steps: list[dict[str, int]]) -> None:
    """Whatever keys come, grow and go: the common series grows by what those without a place add."""
    counters: BoundedCounters[str] = BoundedCounters(2, lambda _: OTHER)
    values: dict[str, int] = {}
    common, whole, own = 0.0, 0.0, dict[str, float]()
    for step in steps:
        values = {key: values.get(key, 0) + more for key, more in step.items()}
        found = {key: value for key, (value,) in counters.series({key: (now,) for key, now in values.items()}).items()}
        own, before = {key: value for key, value in found.items() if key != OTHER}, own
        assert len(own) <= 2
        assert all(values[key] >= value >= before.get(key, 0.0) for key, value in own.items())
        assert found.get(OTHER, 0.0) >= common
        common = found.get(OTHER, 0.0)
        whole += sum(step.values())
        assert sum(own.values()) + common <= whole
        assert sum(own.values()) + common >= sum(values.values())


def test_a_group_with_flows_in_the_common_series_shows_no_saving() -> None:
    """What it would have cost, less only a part of what it cost, would be too large a saving."""
    shown = reports()
    ledger = Ledger(shown.prices, roles=dict, own_share=lambda _group: 0.5)
    shown.board.listen(ledger.take)
    collector = MoneyCollector(shown, ledger, limits=SeriesLimits(flows=1, topics=1, groups=9, pairs=1))
    orders = group("orders", flows=[flow(A, B, 9000)])
    bills = group("bills", flows=[flow(A, B, 1000)])
    near = group("near", flows=[flow(A, A, 1000)])
    for groups, owns in (((orders, bills, near), {"orders", "near"}), ((bills, near), {"bills", "near"})):
        publish(shown.board, replace(snapshot(*groups), window_end=0.0))
        found = {
            family.name: {one.labels["group"] for one in family.samples}
            for family in collector.collect()
            if family.name.endswith("_dollars")
        }
        assert found == {
            "samerack_cross_rack_dollars": owns - {"near"} | {OTHER},
            "samerack_own_assignor_dollars": owns,
        }


def _week(groups: int, *, at_once: int) -> Iterator[tuple[float, range]]:
    """The groups that there are at each poll: each lives for two polls, and one of them always."""
    for number in range(0, groups, at_once):
        yield number * 7 * 24 * _HOUR / groups, range(max(0, number - at_once), number + at_once)


def _like(template: GroupTraffic, name: str) -> GroupTraffic:
    """The same group by another name."""
    flows = tuple(replace(one, key=replace(one.key, group=name)) for one in template.flows)
    return replace(template, group=name, flows=flows)


def test_a_week_of_short_lived_groups_leaves_nothing_behind() -> None:
    """Series, totals and ledger are bounded by what there was in an hour, and a later group has its name."""
    shown = reports()
    ledger = Ledger(shown.prices, roles=dict, own_share=lambda _group: 0.5)
    shown.board.listen(ledger.take)
    registry, limits = CollectorRegistry(), SeriesLimits.of(3000)
    registry.register(TrafficCollector(shown.board, limits=limits))
    registry.register(MoneyCollector(shown, ledger, limits=limits))
    registry.register(BillCollector(shown, limits=limits))
    template = group("always", flows=[flow(A, B, 1000)])
    series: list[int] = []
    objects: dict[int, int] = {}
    for poll, (at, numbers) in enumerate(_week(100_000 if effort.ALL else 5_000, at_once=50)):
        names = ["always", *(f"short-{number}" for number in numbers)]
        publish(shown.board, replace(snapshot(*(_like(template, name) for name in names)), window_end=at))
        if poll % _SCRAPED == 0:
            series.append(sum(len(family.samples) for family in registry.collect()))
        if (day := int(at / (24 * _HOUR))) not in objects:
            gc.collect()
            objects[day] = len(gc.get_objects())
    assert max(series) <= 3000
    assert max(series[len(series) // 2 :]) <= max(series[: len(series) // 2])
    assert objects[6] <= objects[2] * 1.01
    assert len(shown.board.totals()) <= 1000
    assert len(ledger.dollars()) <= 1000
    late = snapshot(group("late", flows=[flow(A, B, 1000)]))
    key = FlowKey(group="late", topic="clicks", client_rack=A, replica_rack=B, method="estimated")
    publish(shown.board, replace(late, window_end=7 * 24 * _HOUR + 2 * _HOUR))
    assert list(shown.board.totals()) == [key]
    named = {one.labels["group"] for family in registry.collect() for one in family.samples if "group" in one.labels}
    assert {"late"} <= named <= {"late", OTHER}
