"""What measurements give to the policy, and which least savings cannot be checked with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from samerack.agent.policy import Crossing
from samerack.agent.policy.measured import UNMEASURED, check_min_savings, measured
from samerack.common.errors import SettingsError
from samerack.common.money import shipped
from samerack.common.settings import load
from samerack.traffic.board import TrafficBoard
from samerack.traffic.model import Shares
from samerack.traffic.weights import WeightBook
from tests.unit.agent.measured import group, publish, snapshot


def check(flags: Mapping[str, Any], prices: str = "aws") -> None:
    """Check the settings of these flags."""
    check_min_savings(load(flags={"kafka": {"bootstrap.servers": "x"}, **flags}, environment={}), shipped(prices))


def test_what_crossed_racks_is_of_the_window() -> None:
    """The share is the last published one; it is unknown while the group or its share is."""
    board = TrafficBoard()
    told = measured(board, WeightBook())
    assert told.crossing("orders") is None
    taken = snapshot(group("orders", shares=Shares(present_bytes=0.25)), group("new", shares=Shares()))
    publish(board, taken)
    assert told.crossing("orders") == Crossing(share=0.25, since=taken.window_start)
    assert told.crossing("new") is None
    assert told.rates("orders") is None
    assert (UNMEASURED.crossing("orders"), UNMEASURED.rates("orders")) == (None, None)


@pytest.mark.parametrize(
    ("flags", "prices", "parts"),
    [
        (
            {"policy": {"min_saving_bytes_per_second": 1}, "traffic": {"enabled": False}},
            "aws",
            ("policy.min_saving_bytes_per_second: needs measured bytes", "traffic.enabled"),
        ),
        (
            {"policy": {"groups": {"o-*": {"min_saving_dollars_per_day": 1}}}, "traffic": {"enabled": False}},
            "aws",
            ("policy.groups.o-*.min_saving_dollars_per_day: needs", "traffic.enabled"),
        ),
        (
            {"policy": {"groups": {"o-*": {"min_saving_dollars_per_day": 1}}}},
            "azure",
            ("policy.groups.o-*.min_saving_dollars_per_day: ", "Azure's prices", "min_saving_bytes_per_second"),
        ),
    ],
)
def test_a_least_saving_that_can_never_be_exceeded_is_refused(
    flags: Mapping[str, Any], prices: str, parts: tuple[str, ...]
) -> None:
    """The message has the key, and what to set instead."""
    with pytest.raises(SettingsError) as error:
        check(flags, prices)
    assert all(part in str(error.value) for part in parts), error.value


def test_what_can_be_judged_is_accepted() -> None:
    """Measured bytes, and dollars if bytes cost something, are accepted; so is neither."""
    check({"policy": {"min_saving_bytes_per_second": 1, "min_saving_dollars_per_day": 1}})
    check({"policy": {"min_saving_bytes_per_second": 1}}, "azure")
    check({"traffic": {"enabled": False}}, "azure")
