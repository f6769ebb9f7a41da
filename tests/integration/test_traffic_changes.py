"""A leader weighs partitions by their traffic: its plan follows a hot partition, and noise moves no partition."""

from __future__ import annotations

import random

from sandbox.feeder import Feeder
from tests.integration.scene import A, B, Scene, holds_for

_TURN_SECONDS = 0.05
_NOISY_LOOKS = 60
_HOT = 40


def test_the_plan_follows_the_traffic_and_not_its_noise(scene: Scene) -> None:
    """Two of four partitions have to cross racks; when one of them gets hot, it is swapped with a cold one, once."""
    scene.lay_out([[1]] * 4)
    agent = scene.waiting_agent(traffic__poll_seconds=1)
    near = scene.join("confluent", A, auto_commit_interval_ms="500")
    far = scene.join("confluent", B, auto_commit_interval_ms="500")
    scene.wait_settled(cross_rack=2)

    def followed() -> float | None:
        return agent.metric("samerack_rebalances_total", group=scene.group, reason="traffic-changed")

    def looks() -> float:
        return agent.metric("samerack_traffic_cycle_seconds_count") or 0.0

    usual, dice = [2] * 4, random.Random(7)  # noqa: S311 - no secret

    def records(_topic: str, partition: int) -> int:
        return dice.randint(0, 2 * usual[partition])

    with Feeder(scene.cluster.bootstrap, {scene.topic: 4}, pause=_TURN_SECONDS, records=records):
        enough = looks() + _NOISY_LOOKS
        agent.wait(lambda: looks() >= enough, "rates are known", timeout=120)
        assert followed() == 0
        hot = min(far.owned)
        usual[hot[1]] = _HOT
        agent.wait(lambda: followed() == 1, "the plan follows", timeout=60)
        scene.wait_settled(cross_rack=2)
        assert hot in near.owned
        assert holds_for(15, lambda: followed() == 1)
    (decision,) = agent.events("decision", reason="traffic-changed")
    assert decision["cross_rack_share_before"] > decision["cross_rack_share_after"] + 0.05
    scene.finish()
