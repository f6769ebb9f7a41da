"""The agent is a guest: offsets expire no sooner than without it, on a broker with the shortest retention there is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import pytest

from lab.sandbox.admin import wait_until
from lab.sandbox.cluster import Cluster
from lab.sandbox.contract import KafkaCluster
from lab.sandbox.members.lines import Partition
from tests.integration.guest import leave_all, place, set_offsets, wait_watching, write
from tests.integration.scenario import A, Scenario

pytestmark = [pytest.mark.own_cluster, pytest.mark.extended]

_PARTITIONS: Final = 12
_RETENTION_SECONDS: Final = 60.0
"""The shortest one that brokers allow."""
_CHECK_SECONDS: Final = 1.0


@pytest.fixture(scope="module")
def retention_cluster() -> Iterator[KafkaCluster]:
    """One broker that forgets offsets soon."""
    properties = {
        "offsets.retention.minutes": f"{_RETENTION_SECONDS / 60:.0f}",
        "offsets.retention.check.interval.ms": f"{_CHECK_SECONDS * 1000:.0f}",
    }
    with Cluster({1: A}, properties=properties) as cluster:
        yield cluster


@pytest.fixture
def cluster(retention_cluster: KafkaCluster) -> KafkaCluster:
    """The broker that forgets offsets soon."""
    return retention_cluster


@pytest.mark.promise("Offsets of a led group expire no sooner than without the agent.")
def test_offsets_older_than_retention_survive_the_last_consumer(scenario: Scenario, other: Scenario) -> None:
    """A later consumer reads what was written in between, of a group that was led as of one without an agent.

    Both groups are idle until their commits are older than the retention; a broker keeps these while there are
    consumers (KIP-211). Then the consumers stop, records are written, and others start with `auto.offset.reset=latest`:
    they read those records only if the offsets are still there.
    """
    for one in (scenario, other):
        place(one, _PARTITIONS)
        write(one, _PARTITIONS)
        set_offsets(one, [1] * _PARTITIONS)
    agent = scenario.agent()
    wait_watching(agent)
    for one in (scenario, other):  # without auto-commit, idle partitions keep their old commits
        one.join("confluent", A, enable_auto_commit="false")
        one.wait_settled()
    agent.wait_role("leading")
    old = time.monotonic() + _RETENTION_SECONDS
    wait_until(lambda: time.monotonic() > old, "the commits are old", timeout=2 * _RETENTION_SECONDS, pause=1.0)
    assert [len(one.asked.offsets()) for one in (scenario, other)] == [_PARTITIONS, _PARTITIONS]
    for one in (scenario, other):
        leave_all(one)
        write(one, _PARTITIONS)
    checked = time.monotonic() + 5 * _CHECK_SECONDS
    wait_until(lambda: time.monotonic() > checked, "offsets were checked several times", pause=0.5)
    kept = [len(one.asked.offsets()) for one in (scenario, other)]
    for one in (scenario, other):
        one.join("confluent", A, auto_offset_reset="latest", enable_auto_commit="false")
        one.wait_settled()
    assert kept == [_PARTITIONS, _PARTITIONS]
    for one in (scenario, other):
        _wait_read(one)
    agent.wait_role("leading")


def _wait_read(scenario: Scenario) -> None:
    """Wait until the one member has read the second record of each partition."""
    (reader,) = scenario.participants
    parts: list[Partition] = [(scenario.topic, number) for number in range(_PARTITIONS)]
    reader.member.wait(lambda: all(reader.member.last_read(part) >= 1 for part in parts), "what was written is read")
