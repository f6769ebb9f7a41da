"""Groups that are led by load: a hot partition is alone, a canary has little, a slow member what it can read."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from lab.sandbox.feeder import Feeder
from tests.integration.scenario import A, B, C, Scenario

_PARTITIONS = 10
_USUAL = 3
_HOT = 20
_LIMIT = 20.0
_MANY = 72
_FAST, _SLOW = "120", "48"
"""Records per second that a member can read; each of six members has 72 to read."""


@pytest.mark.timeout(900)
def test_a_hot_partition_is_alone_on_its_member_and_a_canary_has_two(scenario: Scenario) -> None:
    """By counts first, since nothing is measured yet; then once by bytes. No record is lost or read twice."""
    scenario.lay_out(([1, 2, 3],) * _PARTITIONS)
    rules: dict[str, Any] = {
        "leading.balance": "bytes",
        "leading.balance_tolerance": 0.05,
        "leading.members": [{"match": "*-4-*", "max_partitions": 2}],
    }
    agent = scenario.waiting_agent(**rules)
    members = [scenario.join("confluent", rack, assignor="cooperative-sticky") for rack in (A, B, C, A)]
    scenario.wait_settled()
    assert len(members[3].owned) == 2

    def records(_topic: str, partition: int) -> int:
        return _USUAL if partition else _HOT

    def alone() -> bool:
        return any({partition for _, partition in member.owned} == {0} for member in members)

    with Feeder(scenario.cluster.bootstrap, {scenario.topic: _PARTITIONS}, pause=0.1, records=records):
        agent.wait(alone, "the hot partition is alone", timeout=600)
        scenario.wait_settled()
    assert len(members[3].owned) <= 2
    (decision,) = agent.events("decision", action="rebalance", reason="uneven-load")
    assert decision["load_above_least_before"] > decision["load_above_least_after"] == pytest.approx(0.0, abs=0.05)
    scenario.finish()


def _lag(scenario: Scenario) -> float:
    """Return the lag of the partition that is furthest behind, in seconds; each gets six records per second."""
    read = {
        partition: max(one.member.last_read(partition) for one in scenario.participants)
        for partition in ((scenario.topic, number) for number in range(_MANY))
    }
    return max(end - 1 - read[partition] for partition, end in scenario.ends().items()) / 6.0


@pytest.mark.timeout(900)
@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "without"])
def test_a_slow_member_gets_what_it_can_read(scenario: Scenario, tmp_path: Path, *, guarded: bool) -> None:
    """Its lag grows without the guard; with it that ends, and all reads are near again after it is fast again."""
    speeds = [tmp_path / f"speed-{number}" for number in range(6)]
    for one in speeds:
        one.write_text(_FAST, encoding="utf-8")
    scenario.lay_out(([1], [2], [3]) * (_MANY // 3))
    rules: dict[str, Any] = (
        {"lag.max_seconds": _LIMIT, "lag.keep_seconds": 60, "policy.min_saving": 0.02} if guarded else {}
    )
    agent = scenario.waiting_agent(**rules)
    for speed, rack in zip(speeds, (A, B, C) * 2, strict=True):
        scenario.join("confluent", rack, assignor="cooperative-sticky", records_per_second_in=str(speed))
    scenario.wait_settled(cross_rack=0)
    time.sleep(40)  # what members keep up with is known then
    speeds[0].write_text(_SLOW, encoding="utf-8")
    if not guarded:
        agent.wait(lambda: _lag(scenario) > 2 * _LIMIT, "its lag is twice the limit", timeout=300)
        assert not agent.events("decision", action="rebalance")
        return
    agent.wait(lambda: _lag(scenario) > _LIMIT, "its lag is beyond the limit", timeout=300)
    agent.wait(lambda: bool(agent.events("decision", reason="lag-grows")), "load is taken from it", timeout=120)
    agent.wait(lambda: _lag(scenario) < _LIMIT, "its lag is within the limit", timeout=120)
    assert scenario.cross_rack() > 0
    assert 0 < len(scenario.participants[0].member.owned) < _MANY // 6
    speeds[0].write_text(_FAST, encoding="utf-8")
    scenario.wait_settled(cross_rack=0, timeout=300)
    assert len(agent.events("decision", action="rebalance")) <= 4
    scenario.finish()
