"""A leader weighs partitions by what is read of them: its plan follows a hot partition, and noise moves nothing."""

from __future__ import annotations

import random
import threading
from types import TracebackType
from typing import Self

from confluent_kafka import Producer

from sandbox.feeder import VALUE_BYTES
from tests.integration.scene import A, B, Scene, holds_for

_TURN_SECONDS = 0.05
_NOISY_LOOKS = 40
_HOT = 40


class Load(threading.Thread):
    """Writes about `records` to each partition in every turn, give or take all of them; they may be changed."""

    def __init__(self, bootstrap: str, topic: str, records: list[int]) -> None:
        super().__init__(name="load", daemon=True)
        self.records = records
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 2})
        self._topic = topic
        self._closed = threading.Event()

    def run(self) -> None:
        """Write until closed."""
        dice = random.Random(7)  # noqa: S311 - no secret
        while not self._closed.wait(_TURN_SECONDS):
            for partition, usual in enumerate(self.records):
                for _ in range(dice.randint(0, 2 * usual)):
                    self._producer.produce(self._topic, bytes(VALUE_BYTES), partition=partition)
            self._producer.poll(0)

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """End; all that was written is out."""
        self._closed.set()
        self.join(5)
        self._producer.flush(10)


def test_the_plan_follows_the_traffic_and_not_its_noise(scene: Scene) -> None:
    """Two of four partitions have to cross racks; when one of them gets hot it changes places with a cold one, once."""
    scene.lay_out([[1]] * 4)
    agent = scene.leading_agent(traffic__poll_seconds=1)
    near = scene.join("confluent", A, auto_commit_interval_ms="500")
    far = scene.join("confluent", B, auto_commit_interval_ms="500")
    scene.wait_settled(cross_rack=2)

    def followed() -> float | None:
        return agent.metric("samerack_rebalances_total", group=scene.group, reason="traffic-changed")

    def looks() -> float:
        return agent.metric("samerack_traffic_cycle_seconds_count") or 0.0

    with Load(scene.cluster.bootstrap, scene.topic, [2] * 4) as load:
        enough = looks() + _NOISY_LOOKS
        agent.wait(lambda: looks() >= enough, "rates are known", timeout=90)
        assert followed() == 0
        hot = min(far.owned)
        load.records[hot[1]] = _HOT
        agent.wait(lambda: followed() == 1, "the plan follows", timeout=60)
        scene.wait_settled(cross_rack=2)
        assert hot in near.owned
        assert holds_for(15, lambda: followed() == 1)
    (decision,) = agent.events("decision", reason="traffic-changed")
    assert decision["cross_rack_share_before"] > decision["cross_rack_share_after"] + 0.05
    scene.finish()
