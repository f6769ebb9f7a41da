"""What replication carries between racks of a real cluster, against what followers hold and what a producer sent."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing

import numpy as np
import pytest
from confluent_kafka import Producer

from lab.sandbox.admin import wait_until
from lab.sandbox.contract import RACKS, KafkaCluster
from samerack.auth.kafka_config import for_kafka_python
from samerack.cluster.wire import BrokerClient
from samerack.traffic import collect
from samerack.traffic.log_growth import Copied, Logs, copied, first_growth, growth
from samerack.traffic.replication import poll_all_logs
from tests.integration.poller import settings_for

_VALUE = bytes(10_000)
_RECORDS = 900


def _send(cluster: KafkaCluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "compression.type": "none"})
    for number in range(_RECORDS):
        producer.produce(topic, _VALUE, partition=number % 6)
    assert producer.flush(30) == 0


def _of_topic(logs: Logs, before: Logs, topic: str) -> Copied:
    """What was copied of one topic: other tests write to the cluster, too."""
    appended = growth(before, first_growth(before).density, logs).appended
    own = np.full(len(appended), np.nan)
    rows = slice(logs.placed.rows[topic].start, logs.placed.rows[topic].stop)
    own[rows] = appended[rows]
    return copied(logs, own, lambda broker: RACKS[broker] or "")


def test_followers_hold_what_was_measured(cluster: KafkaCluster, placed: str) -> None:
    """For each pair of racks the measured bytes are those of the followers' logs, and producers' what was sent."""
    brokers = sorted(RACKS)
    with closing(BrokerClient(for_kafka_python(settings_for(cluster).kafka))) as wire:
        before, gaps = poll_all_logs(wire, brokers, {}, {})
        assert before is not None
        assert gaps == []
        _send(cluster, placed)

        def held(broker: int) -> dict[tuple[str, int], int]:
            own = [(placed, number) for number in range(6)]
            return collect.log_sizes(wire, {broker: own}, collect.plain_key)[0]

        rows = before.placed.rows[placed]
        replicas = [before.placed.brokers[before.placement[row]] for row in rows]
        wait_until(
            lambda: all(
                held(follower)[placed, n] == held(leader)[placed, n] > 0
                for n, (leader, *followers) in enumerate(replicas)
                for follower in followers
            ),
            "followers have all records",
        )
        after, gaps = poll_all_logs(wire, brokers, {}, {})
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
