"""Helpers of the publishing tests: a fleet's topics as a consumer reads them, and an agent's own totals."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from lab.sandbox.admin import wait_until
from lab.sandbox.agent_process import AgentProcess
from samerack.common.records import GroupState, TrafficSample
from tests.integration.scenario import A, B, Scenario

Flows = dict[tuple[str, ...], tuple[int, int]]
"""Bytes and records by topic, client rack, replica rack and method."""

_MINUTE_MS: Final = 60_000
ENOUGH_BYTES: Final = 200_000
_OFTEN: Final = {"traffic__poll_seconds": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The topics that an agent publishes to, and their content."""

    bootstrap: str
    traffic: str
    groups: str

    def settings(self, every: int) -> dict[str, Any]:
        """The settings of an agent that publishes to these topics."""
        return {
            **_OFTEN,
            "publishing__traffic_topic": self.traffic,
            "publishing__states_topic": self.groups,
            "publishing__every_seconds": every,
        }

    def samples(self) -> list[TrafficSample]:
        """All samples."""
        return [TrafficSample.model_validate_json(value) for _, value in self.read(self.traffic)]

    def states(self) -> list[GroupState]:
        """All states, by time."""
        found = [GroupState.model_validate_json(value) for _, value in self.read(self.groups)]
        return sorted(found, key=lambda state: state.at)

    def sums(self) -> Flows:
        """The sums of the samples."""
        sums: Flows = {}
        for one in self.samples():
            key = (one.topic, one.client_rack, one.replica_rack, one.method)
            wire_bytes, records = sums.get(key, (0, 0))
            sums[key] = (wire_bytes + one.bytes, records + one.records)
        return sums

    def read(self, topic: str) -> list[tuple[bytes, bytes]]:
        """Keys and values of all records that are in the topic now."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "nobody",
                "enable.auto.commit": "false",
                "enable.partition.eof": "true",
                "log_level": 0,
            }
        )
        found: list[tuple[bytes, bytes]] = []
        ended: set[int | None] = set()

        def is_read() -> bool:
            for message in consumer.consume(1000, timeout=0.2):
                error = message.error()
                if error is None:
                    found.append((message.key() or b"", message.value() or b""))
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
            return len(ended) == len(partitions)

        try:
            partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
            wait_until(is_read, f"{topic} is read", pause=0)
        finally:
            consumer.close()
        return found


def totals(agent: AgentProcess) -> Flows:
    """The agent's counts in /metrics."""
    found: dict[str, dict[tuple[str, ...], int]] = {"bytes": {}, "records": {}}
    for family in text_string_to_metric_families(agent.get("/metrics")[1]):
        what = family.name.removeprefix("samerack_consumed_")
        for sample in family.samples if what in found else ():
            labels = ("topic", "client_rack", "replica_rack", "method")
            found[what][tuple(sample.labels[label] for label in labels)] = int(sample.value)
    return {key: (count, found["records"][key]) for key, count in found["bytes"].items()}


def counted(agent: AgentProcess) -> int:
    """All bytes that the agent has counted."""
    return sum(wire_bytes for wire_bytes, _ in totals(agent).values())


def dropped(agent: AgentProcess) -> Counter[tuple[str, str]]:
    """The number of dropped records, by kind and reason."""
    return Counter(
        {
            (sample.labels["kind"], sample.labels["reason"]): int(sample.value)
            for sample in agent.samples("samerack_dropped_records_total")
        }
    )


def reading(scenario: Scenario) -> None:
    """Start two members in two racks, and wait until the group settles."""
    for rack in (A, B):
        scenario.join("confluent", rack, auto_commit_interval_ms="500")
    scenario.wait_settled()


def at_rest(scenario: Scenario, agent: AgentProcess) -> Flows:
    """Stop all members; return the agent's totals once they no longer change."""
    for participant in scenario.participants:
        participant.member.stop()
    scenario.participants.clear()
    seen: list[Flows] = []

    def unchanged() -> bool:
        seen.append(totals(agent))
        time.sleep(1.2)
        empty = agent.metric("samerack_members", group=scenario.group) == 0
        return empty and len(seen) > 3 and seen[-1] == seen[-2] == seen[-3]

    wait_until(unchanged, "nothing more is counted", timeout=40)
    return seen[-1]


def run_of(sample: TrafficSample) -> str:
    """The agent run of a sample."""
    return sample.id.rpartition("-")[0]


def hold_form(samples: list[TrafficSample], *, every: int) -> None:
    """Assert that ids are unique, and that windows are not empty, not too long, and within a minute."""
    assert len({one.id for one in samples}) == len(samples)
    for one in samples:
        assert 0 < one.window_end - one.window_start <= every * 1000
        assert one.window_start // _MINUTE_MS == (one.window_end - 1) // _MINUTE_MS
        assert one.bytes or one.records
