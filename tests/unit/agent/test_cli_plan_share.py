"""`samerack plan --seconds` shows shares of bytes, not of the rounded weights that planning takes from them."""

from __future__ import annotations

import pytest

from agent.cli import plan
from agent.leading.policy import share
from agent.traffic.weights import weights_of_rates
from assignors.build import MemberInput, build_problem
from assignors.evaluate import evaluate

FAR, ALL = 12, 120


def test_partitions_with_equal_traffic_count_alike() -> None:
    """12 of 120 partitions were shown as 5.6 %: about half of the others had fallen on the next power of two."""
    racks = [["b"]] * FAR + [["a"]] * (ALL - FAR)
    rates = {("t", number): 99.0 if number < FAR else 100.0 if number % 2 else 199.0 for number in range(ALL)}
    even = dict.fromkeys(rates, 100.0)
    member = MemberInput(id="m", topics=("t",), rack="a", owned={"t": list(range(ALL))})
    for measured, expected in ((even, 0.1), (rates, FAR * 99 / sum(rates.values()))):
        problem = build_problem(topics={"t": racks}, members=[member], weights=weights_of_rates(measured))
        cost = evaluate(problem, problem.owner)
        assert plan._share(cost, problem, problem.owner, measured) == pytest.approx(expected)
    assert share(cost) != pytest.approx(expected)
    assert plan._share(cost, problem, problem.owner, None) == share(cost)
    assert plan._share(cost, problem, problem.owner, dict.fromkeys(rates, 0.0)) == share(cost)
