"""What replication carries between racks of a real cluster, against what followers hold and what a producer sent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from contextlib import closing

import numpy as np
import pytest
from confluent_kafka import Producer

from samerack.cluster.wire import Wire
from samerack.common.kafka_config import for_kafka_python
from samerack.traffic import cluster_logs, collect
from samerack.traffic.log_growth import Copied, Logs, copied, first_growth, growth
from sandbox.admin import wait_until
from sandbox.contract import RACKS, KafkaCluster
from sandbox.feeder import VALUE_BYTES, Feeder
from tests.integration.looking import settings_for

_VALUE = bytes(10_000)
_RECORDS = 900
_PAUSE_SECONDS = 0.05


def _send(cluster: KafkaCluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "compression.type": "none"})
    for number in range(_RECORDS):
        producer.produce(topic, _VALUE, partition=number % 6)
    assert producer.flush(30) == 0


def _of_topic(logs: Logs, before: Logs, topic: str) -> Copied:
    """What was copied of one topic: other tests write to the cluster, too."""
    appended = growth(before, first_growth(before).density, logs).appended
    own = np.full(len(appended), np.nan)
    rows = slice(logs.rows[topic].start, logs.rows[topic].stop)
    own[rows] = appended[rows]
    return copied(logs, own, lambda broker: RACKS[broker] or "")


def test_followers_hold_what_was_measured(cluster: KafkaCluster, placed: str) -> None:
    """For each pair of racks the measured bytes are those of the followers' logs, and producers' what was sent."""
    brokers = sorted(RACKS)
    with closing(Wire(for_kafka_python(settings_for(cluster).kafka))) as wire:
        before, gaps = cluster_logs.poll(wire, brokers, {}, {})
        assert before is not None
        assert gaps == []
        _send(cluster, placed)

        def held(broker: int) -> dict[tuple[str, int], int]:
            own = [(placed, number) for number in range(6)]
            return collect.log_sizes(wire, {broker: own}, collect.plain_key)[0]

        rows = before.rows[placed]
        replicas = [before.placements[before.placement[row]] for row in rows]
        wait_until(
            lambda: all(
                held(follower)[placed, n] == held(leader)[placed, n] > 0
                for n, (leader, *followers) in enumerate(replicas)
                for follower in followers
            ),
            "followers have all records",
        )
        after, gaps = cluster_logs.poll(wire, brokers, {}, {})
        assert after is not None
        assert gaps == []
        expected: dict[tuple[str, str], float] = defaultdict(float)
        for number, (leader, *followers) in enumerate(replicas):
            for follower in followers:
                expected[RACKS[leader] or "", RACKS[follower] or ""] += held(follower)[placed, number]
    found = _of_topic(after, before, placed)
    assert found.carried == expected
    assert len(expected) > 2
    assert sum(found.produced.values()) == pytest.approx(_RECORDS * len(_VALUE), rel=0.03)


def test_cost_has_the_whole_bill(cluster: KafkaCluster, placed: str) -> None:
    """`samerack cost` measures replication and producers of the whole cluster, a steadily written topic among them."""
    line = [sys.executable, "-m", "samerack.cli.main", "cost", "--measure", "--window", "6", "--json"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SAMERACK_")}
    with Feeder(cluster.bootstrap, {placed: 6}, pause=_PAUSE_SECONDS):
        done = subprocess.run(
            [*line, "-b", cluster.bootstrap], capture_output=True, text=True, check=True, timeout=120, env=environment
        )
    bill = json.loads(done.stdout)["bill"]
    assert bill["unknown"] == ""
    assert bill["window_seconds"] == pytest.approx(6, abs=3)
    fed = 6 * VALUE_BYTES * bill["window_seconds"] / _PAUSE_SECONDS
    producers, replication = bill["producers"], bill["replication"]
    assert producers["log_bytes"] > 0.8 * fed
    assert replication["cross_rack_bytes"] > 0.8 * fed  # each partition has one follower, in another rack
    assert producers["least"]["cross_rack_bytes"] == 0
    assert producers["random"]["cross_rack_bytes"] == pytest.approx(2 / 3 * producers["most"]["cross_rack_bytes"])
    assert 0 < producers["random"]["dollars_per_month"] < producers["most"]["dollars_per_month"]
    assert replication["dollars_per_month"] > 0
