"""What a real agent publishes on real brokers, read back by a consumer and held to /metrics and the brokers."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from common.records import GroupState, TrafficSample
from sandbox.admin import Admin, wait_until
from sandbox.agent_process import AgentProcess
from sandbox.contract import KafkaCluster
from tests.integration.scene import INTERLEAVED, A, B, Scene, now_ms

Flows = dict[tuple[str, ...], tuple[int, int]]
"""Bytes and records by topic, client rack, replica rack and method."""

_MINUTE_MS = 60_000
_ENOUGH_BYTES = 200_000
_OFTEN = {"traffic__poll_seconds": 1, "traffic__probe_seconds": 5}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The topics that an agent publishes to, and all that stands in them."""

    bootstrap: str
    traffic: str
    groups: str

    def settings(self, every: int) -> dict[str, object]:
        """An agent's settings."""
        return {
            **_OFTEN,
            "publishing__traffic_topic": self.traffic,
            "publishing__groups_topic": self.groups,
            "publishing__every_seconds": every,
        }

    def samples(self) -> list[TrafficSample]:
        """Every sample."""
        return [TrafficSample.model_validate_json(value) for _, value in self.read(self.traffic)]

    def states(self) -> list[GroupState]:
        """Every state, in order."""
        found = [GroupState.model_validate_json(value) for _, value in self.read(self.groups)]
        return sorted(found, key=lambda state: state.at)

    def sums(self) -> Flows:
        """The samples added up."""
        sums: Flows = {}
        for one in self.samples():
            key = (one.topic, one.client_rack, one.replica_rack, one.method)
            wire_bytes, records = sums.get(key, (0, 0))
            sums[key] = (wire_bytes + one.bytes, records + one.records)
        return sums

    def read(self, topic: str) -> list[tuple[bytes, bytes]]:
        """Keys and values, of all that stands in the topic now."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "nobody",
                "enable.auto.commit": "false",
                "enable.partition.eof": "true",
                "log_level": 0,
            }
        )
        found, ended = [], 0
        try:
            partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
            until = time.monotonic() + 20
            while ended < len(partitions):
                assert time.monotonic() < until, f"{topic} cannot be read"
                message = consumer.poll(1.0)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    found.append((message.key() or b"", message.value() or b""))
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended += 1
        finally:
            consumer.close()
        return found


@pytest.fixture
def fleet(cluster: KafkaCluster, admin: Admin) -> Iterator[Fleet]:
    """Two topics with their replicas on brokers 1 and 3; they are deleted afterwards."""
    name = uuid.uuid4().hex[:12]
    made = Fleet(bootstrap=cluster.bootstrap, traffic=f"samples-{name}", groups=f"states-{name}")
    for topic in (made.traffic, made.groups):
        admin.create_topic(topic, [[1, 3], [3, 1]])
    yield made
    for topic in (made.traffic, made.groups):
        admin.delete_topic(topic)


def totals(agent: AgentProcess) -> Flows:
    """What the agent counted until now, as /metrics shows it."""
    found: dict[str, dict[tuple[str, ...], int]] = {"bytes": {}, "records": {}}
    for family in text_string_to_metric_families(agent.get("/metrics")[1]):
        what = family.name.removeprefix("samerack_consumed_")
        for sample in family.samples if what in found else ():
            labels = ("topic", "client_rack", "replica_rack", "method")
            found[what][tuple(sample.labels[label] for label in labels)] = int(sample.value)
    return {key: (count, found["records"][key]) for key, count in found["bytes"].items()}


def counted(agent: AgentProcess) -> int:
    """All bytes."""
    return sum(wire_bytes for wire_bytes, _ in totals(agent).values())


def reading(scene: Scene) -> None:
    """Two members in two racks, who have settled."""
    for rack in (A, B):
        scene.join("confluent", rack, auto_commit_interval_ms="500")
    scene.wait_settled()


def at_rest(scene: Scene, agent: AgentProcess) -> Flows:
    """The agent's totals once nobody reads any more."""
    for seat in scene.seats:
        seat.member.stop()
    scene.seats.clear()
    seen: list[Flows] = []

    def unchanged() -> bool:
        seen.append(totals(agent))
        time.sleep(1.2)
        empty = agent.metric("samerack_members", group=scene.group) == 0
        return empty and len(seen) > 3 and seen[-1] == seen[-2] == seen[-3]

    wait_until(unchanged, "nothing more is counted", timeout=40)
    return seen[-1]


def run_of(sample: TrafficSample) -> str:
    """The run of an agent that a sample is of."""
    return sample.id.rpartition("-")[0]


def hold_form(samples: list[TrafficSample], *, every: int) -> None:
    """Ids are unique, windows are not empty, not longer than asked for, and within a minute."""
    assert len({one.id for one in samples}) == len(samples)
    for one in samples:
        assert 0 < one.window_end - one.window_start <= every * 1000
        assert one.window_start // _MINUTE_MS == (one.window_end - 1) // _MINUTE_MS
        assert one.bytes or one.records


def test_samples_add_up_and_states_are_the_brokers(scene: Scene, fleet: Fleet, admin: Admin) -> None:
    """The sum of all samples is what /metrics shows, to the byte; the state of a group is what its broker describes."""
    scene.lay_out(INTERLEAVED)
    agent = scene.leading_agent(**fleet.settings(5))
    reading(scene)
    agent.wait(lambda: counted(agent) > _ENOUGH_BYTES, "bytes are counted", timeout=90)
    described = {
        member.member_id: {(p.topic, p.partition) for p in member.assignment.topic_partitions}
        for member in scene.describe().members
        if member.client_id != "samerack"
    }
    since = now_ms()
    wait_until(lambda: any(one.at > since for one in fleet.states()), "a state was published", timeout=30, pause=1)
    state = fleet.states()[-1]
    assert {
        member.id: {
            (topic.name, number) for topic in state.topics for number, owner in enumerate(topic.owner) if owner == index
        }
        for index, member in enumerate(state.members)
    } == described
    assert sorted(state.racks[member.rack] for member in state.members) == [A, B]
    assert [[state.topics[index].name for index in member.topics] for member in state.members] == [[scene.topic]] * 2
    racks, placed = admin.racks(), admin.replicas([scene.topic])
    assert [[state.racks[rack] for rack in replicas] for replicas in state.topics[0].replicas] == [
        [racks[broker] for broker in placed[scene.topic, number].replicas] for number in range(len(placed))
    ]
    assert all(rate > 0 for rate in state.topics[0].bytes_per_second)
    assert (state.kind, state.state, state.role, state.rack_aware_fetch) == ("classic", "Stable", "leading", True)

    ended = at_rest(scene, agent)
    wait_until(lambda: fleet.sums() == ended, f"the samples add up to {ended}", timeout=20, pause=1)
    samples = fleet.samples()
    hold_form(samples, every=5)
    assert {one.agent for one in (*samples, state)} == {samples[0].agent}
    assert {one.cluster for one in samples} == {state.cluster}
    assert {key for key, _ in fleet.read(fleet.traffic)} == {f"{state.cluster}/{scene.group}".encode()}
    assert agent.metric("samerack_published_records_total", kind="sample") == len(samples)
    at_once = [one.at for one in fleet.states()]
    assert all(after - before >= 1000 for before, after in pairwise(at_once))


def test_what_was_counted_is_published_at_the_end(scene: Scene, fleet: Fleet) -> None:
    """With a minute between samples, SIGTERM publishes what the agent has, and it ends within five seconds."""
    scene.lay_out(INTERLEAVED)
    agent = scene.leading_agent(**fleet.settings(60))
    reading(scene)
    agent.wait(lambda: counted(agent) > _ENOUGH_BYTES, "bytes are counted", timeout=90)
    ended = at_rest(scene, agent)
    code, seconds = agent.stop()
    assert (code, seconds < 5) == (0, True)
    assert fleet.sums() == ended
    hold_form(fleet.samples(), every=60)


@pytest.mark.parametrize("how", ["in good order", "killed"])
def test_a_broker_goes_and_comes_back(
    scene: Scene, fleet: Fleet, cluster: KafkaCluster, admin: Admin, how: str
) -> None:
    """While no broker takes samples they wait; afterwards all of them are there, each once."""
    here = f"samples-{uuid.uuid4().hex[:12]}"
    admin.create_topic(here, [[2]])
    mine = Fleet(bootstrap=fleet.bootstrap, traffic=here, groups=fleet.groups)
    scene.lay_out([[1], [3], [1], [3]])
    agent = scene.leading_agent(**mine.settings(1))
    reading(scene)
    agent.wait(lambda: bool(mine.samples()), "samples are published", timeout=90)
    cluster.stop_broker(2, kill=how == "killed")
    agent.wait(lambda: (agent.metric("samerack_buffered_records", kind="sample") or 0) > 10, "samples wait", timeout=60)
    assert agent.role() == "leading"
    cluster.start_broker(2)
    ended = at_rest(scene, agent)
    wait_until(lambda: mine.sums() == ended, f"the samples add up to {ended}", timeout=40, pause=1)
    hold_form(mine.samples(), every=1)
    assert agent.metric("samerack_buffered_records", kind="sample") == 0
    dropped = [line for line in agent.get("/metrics")[1].splitlines() if line.startswith("samerack_dropped_records")]
    assert dropped
    assert all(line.endswith(" 0.0") for line in dropped)
    admin.delete_topic(here)


def test_a_topic_that_is_missing_disturbs_nobody(scene: Scene, cluster: KafkaCluster, admin: Admin) -> None:
    """It is said once with the cure, records wait, the agent leads on; once the topic is there, nothing is lost."""
    name = uuid.uuid4().hex[:12]
    missing = Fleet(bootstrap=cluster.bootstrap, traffic=f"missing-{name}", groups="")
    scene.lay_out(INTERLEAVED)
    agent = scene.leading_agent(**missing.settings(1))
    reading(scene)
    agent.wait(lambda: counted(agent) > _ENOUGH_BYTES, "bytes are counted", timeout=90)
    (said,) = agent.events("publishing-refused")
    assert said["reason"] == "UNKNOWN_TOPIC_OR_PART"
    assert f"--create --topic {missing.traffic}" in said["cure"]
    assert agent.role() == "leading"
    assert agent.get("/readyz")[0] == 200
    assert agent.metric("samerack_publishing_refused", topic=missing.traffic, reason="missing") == 1
    (gap,) = [gap for gap in json.loads(agent.get("/v1/traffic")[1])["gaps"] if gap["what"] == "publishing"]
    assert (gap["where"], gap["reason"]) == (missing.traffic, "UNKNOWN_TOPIC_OR_PART")
    admin.create_topic(missing.traffic, [[1, 2]])
    ended = at_rest(scene, agent)
    wait_until(lambda: missing.sums() == ended, f"the samples add up to {ended}", timeout=60, pause=1)
    assert agent.metric("samerack_publishing_refused", topic=missing.traffic, reason="missing") == 0
    hold_form(missing.samples(), every=1)
    admin.delete_topic(missing.traffic)


def test_a_killed_agent_loses_no_more_than_its_last_window(scene: Scene, fleet: Fleet) -> None:
    """After SIGKILL all but the last window has been published, and the next agent repeats none of it."""
    every = 2
    scene.lay_out(INTERLEAVED)
    agent = scene.leading_agent(**fleet.settings(every))
    reading(scene)
    agent.wait(lambda: counted(agent) > _ENOUGH_BYTES, "bytes are counted", timeout=90)
    agent.kill()
    killed = now_ms()
    former = fleet.samples()
    # a look every second may be late, and the record is on its way for a moment
    assert killed - max(one.window_end for one in former) < (every + 2) * 1000
    again = scene.agent(**fleet.settings(every))
    again.wait(lambda: counted(again) > _ENOUGH_BYTES, "bytes are counted", timeout=90)
    ended = at_rest(scene, again)
    runs = {run_of(one) for one in former}

    def later() -> list[TrafficSample]:
        return [one for one in fleet.samples() if run_of(one) not in runs]

    wait_until(
        lambda: sum(one.bytes for one in later()) == sum(wire_bytes for wire_bytes, _ in ended.values()),
        "the second agent's samples are its totals",
        timeout=20,
        pause=1,
    )
    hold_form(fleet.samples(), every=every)
    assert min(one.window_start for one in later()) >= max(one.window_end for one in former)
