"""Price tables with their sources, and the cost of bytes by group, topic and pair of racks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from samerack.common import money
from samerack.common.errors import AgentError, SettingsError
from samerack.common.money import SECONDS_PER_MONTH, shipped
from samerack.events.event import Event
from samerack.reporting import costs, report
from samerack.reporting.baseline import own_share, seen_share
from samerack.settings.measuring import MoneySettings, price_table
from samerack.traffic.snapshot import Shares
from tests.unit.agent.measured import (
    GB,
    NEAR,
    RANGE,
    ROTATED,
    SPREAD,
    WINDOW_SECONDS,
    A,
    B,
    C,
    flow,
    group,
    problem,
    snapshot,
    weighed,
)

PRICES = shipped("aws")
NAMES = sorted(file.stem for file in Path(money.__file__).with_name("prices").glob("*.yaml"))


@pytest.mark.parametrize("name", NAMES)
def test_every_shipped_table_says_where_its_prices_stand(name: str) -> None:
    """Every shipped table has a scope, a source with an address, a date and plausible prices in dollars."""
    table = shipped(name)
    assert table.source.startswith("https://")
    assert table.scope
    assert table.as_of is not None
    assert table.currency == "USD"
    assert 0 <= table.dollars_per_gb_sent + table.dollars_per_gb_received < 0.2
    assert table.bytes_per_gb in (10**9, 2**30)


def test_the_settings_know_every_shipped_table() -> None:
    """Each shipped table can be chosen by name, and each name is a table or custom."""
    choices = MoneySettings.model_fields["prices"].annotation.__args__  # type: ignore[union-attr]  # a Literal
    assert set(choices) == {*NAMES, "custom"}
    assert all(price_table(MoneySettings(prices=name)).provider for name in NAMES)  # type: ignore[arg-type]  # checked above


def test_both_directions_are_due_for_one_byte() -> None:
    """A GB that crosses costs the price of its sender plus that of its receiver; custom prices are per decimal GB."""
    assert PRICES.dollars(2**30) == pytest.approx(0.02)
    assert shipped("google-cloud").dollars(2**30) == pytest.approx(0.01)
    assert shipped("azure").dollars(2**50) == 0
    assert price_table(MoneySettings(prices="custom", dollars_per_gb_received=0.004)).dollars(10**9) == 0.004


@pytest.mark.parametrize(
    ("chosen", "part"),
    [
        (lambda: price_table(MoneySettings(prices="custom")), "set money.dollars_per_gb_sent"),
        (lambda: price_table(MoneySettings(dollars_per_gb_sent=0.1)), "whose prices are known; set it to custom"),
    ],
)
def test_wrong_prices_name_the_cure(chosen: Callable[[], object], part: str) -> None:
    """Custom without prices, and prices without custom, are refused."""
    with pytest.raises(SettingsError, match=part):
        chosen()


def priced(*, role: str = "", window: float = WINDOW_SECONDS) -> report.GroupCost:
    """A group that reads two topics: some bytes near, some across racks, some unknown."""
    flows = [
        flow(A, A, 6 * GB),
        flow(A, B, 3 * GB),
        flow(B, A, 1 * GB, topic="audit", method="exact"),
        flow("", A, 5 * GB),
    ]
    shares = Shares(present_bytes=0.4, optimal=0.0, random=2 / 3)
    measured = group(flows=flows, shares=shares, made=problem(ROTATED, SPREAD, NEAR))
    return costs.group_cost(measured, PRICES, window=window, role=role, own=lambda _: 0.9)


def test_bytes_are_near_across_or_unknown() -> None:
    """Only bytes with two known, different racks are priced; the topic with the most of them is first.

    One estimated flow makes the group's figure an estimate.
    """
    cost = priced()
    assert [(topic.topic, topic.cross_rack_bytes) for topic in cost.topics] == [("clicks", 3 * GB), ("audit", GB)]
    exact = group(flows=[flow(A, B, GB, method="exact")])
    assert (cost.exact, costs.group_cost(exact, PRICES, window=60.0, role="", own=own_share).exact) == (False, True)
    assert (cost.wire_bytes, cost.cross_rack_bytes, cost.unknown_bytes) == (15 * GB, 4 * GB, 5 * GB)
    assert cost.dollars == pytest.approx(PRICES.dollars(4 * GB))
    assert cost.dollars_per_month == pytest.approx(PRICES.dollars(4 * GB) * SECONDS_PER_MONTH / WINDOW_SECONDS)
    assert [(pair.client_rack, pair.replica_rack, pair.wire_bytes) for pair in cost.pairs] == [
        ("", A, 5 * GB),
        (A, A, 6 * GB),
        (A, B, 3 * GB),
        (B, A, GB),
    ]
    assert [pair.dollars for pair in cost.pairs] == [None, 0.0, PRICES.dollars(3 * GB), PRICES.dollars(GB)]


def test_savings_are_the_own_assignor_less_what_crossed() -> None:
    """Savings count bytes with known racks, only while the agent leads, and in a window that has a length."""
    led = priced(role="leading")
    assert led.own_share == 0.9
    assert led.saved_dollars_per_month == pytest.approx(
        PRICES.dollars(0.9 * 10 * GB - 4 * GB) / WINDOW_SECONDS * SECONDS_PER_MONTH
    )
    assert priced(role="following").saved_dollars_per_month is None
    for flows, saved in (([flow(A, A, 9 * GB), flow("", A, GB)], 0.9 * 9 * GB), ([flow("", A, GB)], None)):
        cost = costs.group_cost(group(flows=flows), PRICES, window=60.0, role="leading", own=lambda _: 0.9)
        expected = None if saved is None else pytest.approx(PRICES.dollars(saved) / 60.0 * SECONDS_PER_MONTH)
        assert cost.saved_dollars_per_month == expected
    none = priced(role="leading", window=0.0)
    assert (none.dollars_per_month, none.saved_dollars_per_month) == (None, None)


def test_shares_are_by_partitions_until_bytes_are_known() -> None:
    """Shares are by partitions until bytes are known, and the report says which."""
    shares = Shares(present_partitions=0.5, optimal=0.0, random=2 / 3)
    cost = costs.group_cost(group(shares=shares), PRICES, window=0.0, role="", own=own_share)
    assert (cost.share, cost.share_by) == (0.5, "partitions")


def test_range_without_racks_is_what_range_deals() -> None:
    """If only the agent knows the racks, range deals 0,1 / 2,3 / 4,5 of rotated replicas: two of six are near."""
    learned = group(source="client-id", made=problem(ROTATED, SPREAD, NEAR))
    assert own_share(learned) == pytest.approx(4 / 6)


@pytest.mark.parametrize(("seen", "share"), [(0.05, 0.0), (0.57, 4 / 6), (0.3, 0.3), (None, None)])
def test_whether_an_assignor_uses_racks_of_members_is_known_by_what_was(
    seen: float | None, share: float | None
) -> None:
    """Kafka's range uses racks (KIP-881), franz-go's does not: 0-4.8 % were reported where 43-57 % crossed."""
    assert own_share(group(made=problem(ROTATED, SPREAD, RANGE)), seen) == (
        None if share is None else pytest.approx(share)
    )


def _rebalance(share: float | None, *, assignor: str = "", generation: int | None = 7) -> Event:
    return Event(at=0.0, group="orders", kind="rebalance", share_after=share, assignor=assignor, generation=generation)


FOLLOWED, LED, LATER = _rebalance(0.5), _rebalance(0.0, assignor="optimal"), _rebalance(0.1)


@pytest.mark.parametrize(
    ("events", "assignor", "share"),
    [
        ((), "range", None),
        ((LED,), "range", None),
        ((LED, FOLLOWED), "range", 0.5),
        ((LED, FOLLOWED), "sticky", 0.5),
        ((LATER, LED, FOLLOWED), "range", 0.1),
        ((LATER, LED, FOLLOWED), "cooperative-sticky", 0.5),
        ((LATER, LED), "sticky", None),
        ((_rebalance(None), FOLLOWED), "range", 0.5),
        ((_rebalance(0.0, generation=None),), "range", None),
    ],
)
def test_what_a_group_did_under_another_leader(events: tuple[Event, ...], assignor: str, share: float | None) -> None:
    """The share is that of the last time the agent followed, unless a sticky assignor kept the agent's plan."""
    assert seen_share(events, assignor) == share


def test_the_own_share_is_by_bytes() -> None:
    """A partition with most bytes makes most of the share, though range cannot know that; the weights are rounded."""
    learned = group(source="client-id", made=problem(ROTATED, SPREAD, NEAR))
    heavy = weighed(learned, rates=(1, 95, 1, 1, 1, 1), weights=(1, 64, 1, 1, 1, 1))
    assert own_share(heavy) == pytest.approx(98 / 100)


def test_a_sticky_group_is_dealt_afresh() -> None:
    """Sticky is run without the plan in force, which is the agent's: kept by sticky, it would show no saving."""
    members, near = {"m1": B, "m2": C, "m3": A}, {"m1": (1, 4), "m2": (2, 5), "m3": (0, 3)}
    learned = group(source="client-id", assignor="cooperative-sticky", made=problem(ROTATED, members, near))
    assert (own_share(learned) or 0.0) > 0.3


@pytest.mark.parametrize("assignor", ["", "stream", "mine"])
def test_an_unknown_assignor_has_no_share(assignor: str) -> None:
    """An assignor that cannot be run has no share."""
    assert own_share(group(assignor=assignor)) is None


def test_another_json_is_no_report() -> None:
    """Another JSON is refused as no report, with the field that does not fit."""
    with pytest.raises(AgentError, match=r"the answer is not a traffic report: prices: Field required"):
        report.from_json(b'{"groups": []}')


def test_pairs_of_all_groups_add_up() -> None:
    """The cluster's matrix of racks is the sum of its groups' matrices."""
    made = costs.report(
        snapshot(group("a", flows=[flow(A, B, GB)]), group("b", flows=[flow(A, B, GB)])), PRICES, roles={}
    )
    assert [(pair.client_rack, pair.replica_rack, pair.wire_bytes) for pair in made.pairs] == [(A, B, 2 * GB)]
