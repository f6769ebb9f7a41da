"""A leader weighs partitions by their traffic: its plan follows a hot partition, however members commit, not noise."""

from __future__ import annotations

import random
import time
from typing import Final

import pytest

from lab.sandbox.feeder import Feeder
from lab.sandbox.members.process import Member
from tests.integration.scenario import A, B, C, Scenario, holds_for

_LAYOUT: Final = ([1],) * 8 + ([2],) * 2 + ([3],) * 2
"""Each member can read four partitions; four of those on broker 1 have to cross racks."""
_TURN_SECONDS: Final = 0.1
_USUAL: Final = 2
_HOT: Final = 40


@pytest.mark.parametrize(
    ("commits_seconds", "watched_seconds"),
    [pytest.param(0.5, 60.0, id="twice a second"), pytest.param(60.0, 420.0, id="once a minute")],
)
@pytest.mark.timeout(2700)
def test_the_plan_follows_the_traffic_and_not_its_noise(
    scenario: Scenario, commits_seconds: float, watched_seconds: float
) -> None:
    """When a partition that crosses racks gets hot, it is swapped with a cold one, once.

    Three consumers that committed once a minute, each at its own time, were rebalanced nine times in seven minutes, so
    seven minutes are watched here; `tests/unit/traffic/test_throughput.py` holds the same for hours.
    """
    scenario.lay_out(_LAYOUT)
    agent = scenario.waiting_agent()
    near, *far = [_join_later(scenario, rack, commits_seconds) for rack in (A, B, C)]
    scenario.wait_settled(cross_rack=4)

    def followed() -> float | None:
        return agent.metric("samerack_rebalances_total", group=scenario.group, reason="traffic-changed")

    usual, dice = [_USUAL] * len(_LAYOUT), random.Random(7)  # noqa: S311 - no secret

    def records(_topic: str, partition: int) -> int:
        return dice.randint(0, 2 * usual[partition])

    with Feeder(scenario.cluster.bootstrap, {scenario.topic: len(_LAYOUT)}, pause=_TURN_SECONDS, records=records):
        assert holds_for(watched_seconds, lambda: not followed())
        hot = min(partition for member in far for partition in member.owned if partition[1] < 8)
        usual[hot[1]] = _HOT
        agent.wait(lambda: followed() == 1, "the plan follows", timeout=660)
        scenario.wait_settled(cross_rack=4)
        assert hot in near.owned
        assert holds_for(watched_seconds / 2, lambda: followed() == 1)
    (decision,) = agent.events("decision", reason="traffic-changed")
    assert decision["cross_rack_share_before"] > decision["cross_rack_share_after"] + 0.05
    scenario.finish()


def _join_later(scenario: Scenario, rack: str, commits_seconds: float) -> Member:
    """Start a member that commits at times of its own."""
    member = scenario.join("confluent", rack, auto_commit_interval_ms=str(round(1000 * commits_seconds)))
    time.sleep(commits_seconds / 3)
    return member
