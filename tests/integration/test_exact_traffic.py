"""Compares the counters of Java clients, scraped by a real agent, with the kernel's counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from sandbox.admin import Admin
from sandbox.agent_process import AgentProcess
from sandbox.contract import RACKS, KafkaCluster
from sandbox.feeder import Feeder
from sandbox.members.lines import MemberSettings
from sandbox.members.process import Member
from sandbox.settings import HOST, free_ports
from sandbox.sockets import Sockets
from tests.integration.members import start

pytestmark = pytest.mark.alone
Key = TypeVar("Key")

_PLACES = [[1], [2], [3], [1], [2], [3]]
_BYTES = 4_000_000
_QUIET_BYTES = 3_000
"""The most that all members receive in a second without writes: heartbeats and empty fetches."""


def consumed(agent: AgentProcess, method: str) -> dict[tuple[str, str], float]:
    """Bytes by client rack and replica rack, as the agent exports them."""
    sums: dict[tuple[str, str], float] = {}
    for sample in agent.samples("samerack_consumed_bytes_total"):
        if sample.labels["method"] == method:
            racks = (sample.labels["client_rack"], sample.labels["replica_rack"])
            sums[racks] = sums.get(racks, 0.0) + sample.value
    return sums


def grown(first: Mapping[Key, float], last: Mapping[Key, float]) -> dict[Key, float]:
    """The growth of each count."""
    return {key: count - first.get(key, 0) for key, count in last.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Bytes at one moment: the kernel's, of each member by broker rack; the agent's, by client and broker rack."""

    java: dict[str, int]
    other: dict[str, int]
    exact: dict[tuple[str, str], float]
    estimated: dict[tuple[str, str], float]


class Watched:
    """The counts of an agent and of the kernel for the same members."""

    def __init__(self, cluster: KafkaCluster, agent: AgentProcess) -> None:
        self._agent = agent
        ports = {int(broker.address.rpartition(":")[2]): broker.id for broker in cluster.brokers.values()}
        self._sockets = Sockets(brokers=ports)

    def received(self, member: Member) -> dict[str, int]:
        """The kernel's received bytes of a member, by the broker's rack."""
        self._sockets.look()
        counts = self._sockets.received().items()
        return {RACKS[broker] or "": count for (process, broker), count in counts if process == member.pid}

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait while the agent runs."""
        self._agent.wait(holds, what, timeout=60)

    def at_rest(self, java: Member, other: Member) -> Reading:
        """The figures once all records are read, committed and polled by the agent."""
        before = [0]

        def quiet() -> bool:
            time.sleep(1.0)
            count = sum(sum(self.received(member).values()) for member in (java, other))
            grown, before[0] = count - before[0], count
            return grown < _QUIET_BYTES

        self.until(quiet, "nothing is read any more")
        looks = self._looks() + 3  # the first may already run, the second sees the last commits
        self.until(lambda: self._looks() >= looks, "the agent has looked")
        return Reading(
            java=self.received(java),
            other=self.received(other),
            exact=consumed(self._agent, "exact"),
            estimated=consumed(self._agent, "estimated"),
        )

    def _looks(self) -> float:
        return self._agent.metric("samerack_traffic_cycle_seconds_count") or 0.0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_java_clients_are_exact_to_a_hundredth(
    cluster: KafkaCluster, admin: Admin, topic: str, tmp_path: Path, protocol: str
) -> None:
    """Scraped counters are exact to 1 % by rack for their member; the other member's estimate stays within 5 %."""
    admin.create_topic(topic, _PLACES)
    group = f"group-of-{topic}"
    (port,) = free_ports(1)

    def settings(rack: str, **properties: str) -> MemberSettings:
        given = {"group.protocol": protocol, "auto.commit.interval.ms": "500"}
        return MemberSettings(
            bootstrap=cluster.bootstrap,
            group=group,
            topics=(topic,),
            client_id=f"{group}-{rack}",
            rack=rack,
            properties=given | {key.replace("_", "."): value for key, value in properties.items()},
        )

    endpoints = [{"url": f"http://{HOST}:{port}/metrics", "group": group}]
    observing = {"traffic.groups": [group], "traffic.poll_seconds": 0.5, "traffic.client_endpoints": endpoints}
    with (
        start("java", settings("rack-a", metrics_port=str(port))) as java,
        start("confluent", settings("rack-b")) as other,
        AgentProcess(cluster.bootstrap, groups=["none"], log=tmp_path / "agent.log", settings=observing) as agent,
    ):
        watched = Watched(cluster, agent)
        with Feeder(cluster.bootstrap, {topic: 6}):
            watched.until(lambda: len(java.owned) == len(other.owned) == 3, "both have their share")
            watched.until(lambda: sum(consumed(agent, "exact").values()) > 0, "the agent knows one member exactly")
        first = watched.at_rest(java, other)
        with Feeder(cluster.bootstrap, {topic: 6}, pause=0.002):
            watched.until(lambda: sum(watched.received(java).values()) > sum(first.java.values()) + _BYTES, "it is fed")
        last = watched.at_rest(java, other)
    exact, truth = grown(first.exact, last.exact), grown(first.java, last.java)
    assert {client for client, _ in exact} == {"rack-a"}
    for (_, rack), count in exact.items():
        assert count == pytest.approx(truth[rack], rel=0.01)
    assert sum(exact.values()) == pytest.approx(sum(truth.values()), rel=0.01)
    estimated = {racks: count for racks, count in grown(first.estimated, last.estimated).items() if count}
    assert {client for client, _ in estimated} == {"rack-b"}
    assert sum(estimated.values()) == pytest.approx(sum(grown(first.other, last.other).values()), rel=0.05)
