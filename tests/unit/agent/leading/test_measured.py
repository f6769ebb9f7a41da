"""What measurements give to the policy, and which minimum savings cannot be checked with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from samerack.agent.policy import Action, CrossRackShare
from samerack.agent.policy.measured import UNMEASURED, check_min_savings, measured, shares_of
from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.consumer.registry import Options
from samerack.common.errors import SettingsError
from samerack.common.money import shipped
from samerack.common.weights import weights_of_rates
from samerack.planning import planner
from samerack.planning.curve import points_of
from samerack.planning.problem import Mode
from samerack.reporting.baseline import curve_of
from samerack.settings.loading import load
from samerack.traffic.board import TrafficBoard
from samerack.traffic.snapshot import Shares
from samerack.traffic.weights import WeightBook
from tests.unit.agent.leading.policies import Decisions, condition
from tests.unit.agent.measured import B, C, group, publish, snapshot


def check(flags: Mapping[str, Any], prices: str = "aws") -> None:
    """Check the settings of these flags."""
    check_min_savings(load(flags={"kafka": {"bootstrap.servers": "x"}, **flags}, environment={}), shipped(prices))


def test_what_crosses_racks_is_by_the_brokers_that_serve() -> None:
    """Of what is written to partitions, whenever members commit; unknown where no rack is known."""
    board = TrafficBoard()
    figures = measured(board, WeightBook())
    assert figures.crossing("orders") is None
    orders = group("orders", shares=Shares(present_bytes=1.0))
    first, second, third, unowned, unserved, unwritten = orders.partitions
    read = (
        replace(first, bytes_per_second=0.0, written_per_second=300.0),
        replace(second, serving_rack=B, written_per_second=50.0),
        replace(third, serving_rack=C, bytes_per_second=50.0),  # not known yet what is written: what is read
        replace(unowned, member=None),
        replace(unserved, serving_rack=None),
        replace(unwritten, bytes_per_second=None),
    )
    taken = snapshot(replace(orders, partitions=read), group("new", members={"m1": None}))
    publish(board, taken)
    assert figures.crossing("orders") == CrossRackShare(share=0.25, at=taken.window_end)
    assert figures.crossing("new") is None
    assert figures.rates("orders") is None
    assert (UNMEASURED.crossing("orders"), UNMEASURED.rates("orders")) == (None, None)


@pytest.mark.parametrize(
    ("flags", "prices", "parts"),
    [
        (
            {"policy": {"groups": {"o-*": {"min_saving_dollars_per_day": 1}}}},
            "azure",
            ("policy.groups.o-*.min_saving_dollars_per_day: ", "Azure's prices", "min_saving_bytes_per_second"),
        ),
    ],
)
def test_a_min_saving_out_of_reach_is_refused(flags: Mapping[str, Any], prices: str, parts: tuple[str, ...]) -> None:
    """The message has the key, and what to set instead."""
    with pytest.raises(SettingsError) as error:
        check(flags, prices)
    assert all(part in str(error.value) for part in parts), error.value


def test_what_can_be_checked_is_accepted() -> None:
    """Measured bytes, and dollars if bytes cost something, are accepted; so is neither."""
    check({"policy": {"min_saving_bytes_per_second": 1, "min_saving_dollars_per_day": 1}})
    check({"policy": {"min_saving_bytes_per_second": 1}}, "azure")
    check({}, "azure")


# shares of measured bytes, not of the rounded weights that planning makes of them

FAR, ALL = 12, 120
MODE = Mode(cooperative=False, rack_aware_fetch=False)


def _plan(rates: dict[tuple[str, int], float]) -> planner.Plan:
    """A plan for a group of one member, which reads the first partitions across racks."""
    racks = [["b"]] * FAR + [["a"]] * (ALL - FAR)
    member = MemberInput(id="m", topics=("t",), rack="a", owned={"t": list(range(ALL))})
    return planner.make_plan(
        build_problem(topics={"t": racks}, members=[member], weights=weights_of_rates(rates)), MODE
    )


def test_shares_are_of_bytes_in_plans_and_curves() -> None:
    """12 of 120 partitions were shown as 5.6 %: most of the others had been rounded to the next power of two."""
    rates = {("t", number): 99.0 if number < FAR else 100.0 if number % 2 else 199.0 for number in range(ALL)}
    plan, crossing = _plan(rates), pytest.approx(FAR * 99 / sum(rates.values()), abs=1e-6)
    shares = [*shares_of(plan, rates), points_of(plan.problem, Options(), rates=rates)[0].cross_rack_share]
    assert [*shares, curve_of(plan.problem, rates)[0].cross_rack_share] == [crossing] * 4
    assert plan.before.cross_rack_share != crossing
    assert points_of(plan.problem, Options())[0].cross_rack_share != crossing


@pytest.mark.parametrize(("weigh_by", "action"), [("bytes", Action.REBALANCE), ("partitions", Action.NOTHING)])
def test_a_saving_is_a_share_of_bytes_where_partitions_weigh_by_them(weigh_by: str, action: Action) -> None:
    """The partition with most bytes comes near and another one goes far: of 40 partitions one stays across racks."""
    rates = {("t", number): 1.0 if number else 64.0 for number in range(40)}
    owned = {"a": [*range(1, 21)], "b": [0, *range(21, 40)]}
    problem = build_problem(
        topics={"t": [["a"]] * 21 + [["b"]] * 19},
        members=[MemberInput(id=rack, topics=("t",), rack=rack, owned={"t": owned[rack]}) for rack in owned],
        weights=weights_of_rates(rates) if weigh_by == "bytes" else None,
    )
    plan = planner.make_plan(problem, replace(MODE, rack_aware_fetch=True))
    assert (plan.before.cross_rack, plan.after.cross_rack) == (1, 1)
    case = replace(condition(rates=(64.0, 1.0)), present=plan.before, possible=plan.after)
    assert Decisions().decide(case).action is action


def test_without_bytes_partitions_count_as_they_do_in_planning() -> None:
    """If nothing was measured or read, each partition counts as in planning."""
    plan = _plan({})
    assert shares_of(plan, None) == (0.1, 0.1)
    assert shares_of(plan, {("t", 0): 0.0}) == (0.1, 0.1)
