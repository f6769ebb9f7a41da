"""Cross-rack shares are of measured bytes, not of the rounded weights that planning makes of them."""

from __future__ import annotations

import pytest

from samerack.agent.policy.measured import shares_of
from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.consumer.registry import Options
from samerack.cli.curve import points_of
from samerack.planning import planner
from samerack.planning.mode import Mode
from samerack.reporting.baseline import curve_of
from samerack.traffic.weights import weights_of_rates

FAR, ALL = 12, 120
MODE = Mode(cooperative=False, keep_copartitioned=False, rack_aware_fetch=False)


def _plan(rates: dict[tuple[str, int], float]) -> planner.Plan:
    """A plan for a group of one member, which reads the first partitions across racks."""
    racks = [["b"]] * FAR + [["a"]] * (ALL - FAR)
    member = MemberInput(id="m", topics=("t",), rack="a", owned={"t": list(range(ALL))})
    return planner.make_plan(
        build_problem(topics={"t": racks}, members=[member], weights=weights_of_rates(rates)), MODE
    )


def test_partitions_with_almost_equal_traffic_count_alike() -> None:
    """12 of 120 partitions were shown as 5.6 %: most of the others had been rounded to the next power of two."""
    rates = {("t", number): 99.0 if number < FAR else 100.0 if number % 2 else 199.0 for number in range(ALL)}
    plan = _plan(rates)
    assert shares_of(plan, rates) == pytest.approx((FAR * 99 / sum(rates.values()),) * 2)
    assert plan.before.cross_rack_share != pytest.approx(shares_of(plan, rates)[0])


def test_the_curve_is_of_bytes_too() -> None:
    """The curves of the command and of the page have the share that is shown beside them."""
    rates = {("t", number): 99.0 if number < FAR else 100.0 if number % 2 else 199.0 for number in range(ALL)}
    problem = _plan(rates).problem
    crossing = pytest.approx(FAR * 99 / sum(rates.values()), abs=1e-6)
    assert points_of(problem, Options(), rates=rates)[0]["cross_rack_share"] == crossing
    assert curve_of(problem, rates)[0].share == crossing
    assert points_of(problem, Options())[0]["cross_rack_share"] != crossing


def test_without_bytes_partitions_count_as_they_do_in_planning() -> None:
    """If nothing was measured or read, each partition counts as in planning."""
    plan = _plan({})
    assert shares_of(plan, None) == (0.1, 0.1)
    assert shares_of(plan, {("t", 0): 0.0}) == (0.1, 0.1)
