"""Groups that the agent must not join: it reports why, and observes without an effect on the group."""

import json
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from sandbox.admin import wait_until
from sandbox.agent_process import AgentProcess
from tests.integration.scene import INTERLEAVED, A, B, Scene, holds_for


class Homegrown(RangePartitionAssignor):  # type: ignore[misc]  # kafka-python is untyped
    """An assignor with a name that no other client knows."""

    name = "homegrown"


@pytest.fixture
def homegrown(scene: Scene) -> Iterator[KafkaConsumer]:
    """A member of the group that offers only its own protocol."""
    consumer = KafkaConsumer(
        scene.topic,
        bootstrap_servers=scene.cluster.bootstrap.split(","),
        group_id=scene.group,
        partition_assignment_strategy=[Homegrown],
        metadata_max_age_ms=1000,  # it may ask a broker that does not know the topic yet
    )
    yield consumer
    consumer.close()


def _observed(agent: AgentProcess, scene: Scene) -> str:
    """The agent's reason; asserts that it is reported once, and that the group has no rebalance."""
    agent.wait_role("observing")
    before = scene.rebalances()
    assert holds_for(2.0, lambda: scene.presence() is None and scene.rebalances() == before)
    (event,) = agent.events("observing")
    assert agent.events("joined") == agent.events("plan-sent") == []
    reason = str(event["reason"])
    status, page = agent.get("/readyz")
    assert status == 503
    assert json.loads(page)["wrong"] == {f"group {scene.group}": f"observing: {reason}"}
    told = json.loads(agent.get("/v1/events?kind=role")[1])["events"][0]
    assert (told["action"], told["detail"]) == ("observing", reason)
    return reason


def test_a_group_that_brokers_assign_is_observed(scene: Scene) -> None:
    """A group of the new protocol (KIP-848) has no leader, so the agent only observes it."""
    scene.lay_out(INTERLEAVED)
    scene.join("confluent", A, assignor="", heartbeat_interval_ms="", group_protocol="consumer")
    scene.wait_settled()
    assert _observed(scene.agent(), scene) == "the brokers assign it (group type consumer)"
    scene.finish()


@pytest.mark.promise("A group that shares no assignor with the agent is only observed.")
def test_a_group_with_an_unknown_protocol_is_observed(scene: Scene, homegrown: KafkaConsumer) -> None:
    """A group that shares no protocol with the agent would refuse it, so the agent only observes it."""
    scene.lay_out(INTERLEAVED)
    # kafka-python forgets a join that ends between two polls, so polls have to be longer than a join
    wait_until(lambda: bool(homegrown.poll(timeout_ms=5000)), "the member reads")
    assert _observed(scene.agent(), scene) == "its members chose protocol 'homegrown', which the agent does not offer"


def test_roundrobin_of_kafka_python_is_observed(scene: Scene) -> None:
    """The agent observes it, because a leader with it fails on a member without topics, and so does the whole group."""
    scene.lay_out(INTERLEAVED)
    for rack in (A, B):
        scene.join("kafka-python", rack, assignor="roundrobin")
    scene.wait_settled()
    assert "kafka-python 3's roundrobin fails on a member without topics" in _observed(scene.agent(), scene)
    scene.finish()


def _members(*topics: Sequence[str]) -> list[SimpleNamespace]:
    return [
        SimpleNamespace(
            member_id=f"member-{number}", group_instance_id=None, metadata=SimpleNamespace(topics=list(names))
        )
        for number, names in enumerate(topics)
    ]


class _Cluster:
    """The part of kafka-python's cluster metadata that the assignor uses."""

    def partitions_for_topic(self, _topic: str) -> set[int]:
        """The numbers of two partitions."""
        return {0, 1}


def test_kafka_pythons_roundrobin_fails_on_a_member_without_topics() -> None:
    """The reason for the rule: once this bug is fixed, the rule has to go."""
    assigned: dict[str, Any] = RoundRobinPartitionAssignor.assign(_Cluster(), _members(["t"], ["t"]))
    assert len(assigned) == 2
    with pytest.raises(KeyError):
        RoundRobinPartitionAssignor.assign(_Cluster(), _members([], ["t"]))
