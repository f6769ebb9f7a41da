"""A led group that is balanced by bytes: a hot partition gets a member of its own, and a canary little."""

from __future__ import annotations

from typing import Any

import pytest

from lab.sandbox.feeder import Feeder
from tests.integration.scenario import A, B, C, Scenario

_PARTITIONS = 10
_USUAL = 3
_HOT = 20


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
