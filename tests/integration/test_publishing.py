"""What a real agent publishes on real brokers, read by a consumer and compared with /metrics and the brokers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported in fact
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from samerack.common.records import TrafficSample
from sandbox.admin import Admin, wait_until
from sandbox.cluster import Cluster
from sandbox.contract import KafkaCluster
from sandbox.security import Listener, Security, plain
from tests.integration.fleet import ENOUGH_BYTES, Fleet, at_rest, counted, dropped, hold_form, reading, run_of
from tests.integration.scene import INTERLEAVED, A, B, Scene, now_ms


@pytest.fixture
def fleet(cluster: KafkaCluster, admin: Admin) -> Iterator[Fleet]:
    """Two topics with replicas on brokers 1 and 3; they are deleted afterwards."""
    name = uuid.uuid4().hex[:12]
    made = Fleet(bootstrap=cluster.bootstrap, traffic=f"samples-{name}", groups=f"states-{name}")
    for topic in (made.traffic, made.groups):
        admin.create_topic(topic, [[1, 3], [3, 1]])
    yield made
    for topic in (made.traffic, made.groups):
        admin.delete_topic(topic)


@pytest.mark.promise("What agents publish adds up to what they measured, to the byte, and states are the brokers'.")
def test_samples_add_up_and_states_are_the_brokers(scene: Scene, fleet: Fleet, admin: Admin) -> None:
    """The sum of all samples equals /metrics to the byte; a group's state equals the broker's description."""
    scene.lay_out(INTERLEAVED)
    agent = scene.waiting_agent(**fleet.settings(5))
    reading(scene)
    agent.wait(lambda: counted(agent) > ENOUGH_BYTES, "bytes are counted", timeout=90)
    described = {
        member.member_id: {(p.topic, p.partition) for p in member.assignment.topic_partitions}
        for member in scene.describe().members
        if member.client_id != "samerack"
    }
    since = now_ms()
    wait_until(lambda: any(one.at > since for one in fleet.states()), "a state was published", pause=1)
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
    wait_until(lambda: fleet.sums() == ended, f"the samples add up to {ended}", timeout=60, pause=1)
    samples = fleet.samples()
    hold_form(samples, every=5)
    assert {one.agent for one in (*samples, state)} == {samples[0].agent}
    assert {one.cluster for one in samples} == {state.cluster}
    assert {one.election for one in samples} == {f"samerack-{scene.group}"}
    assert [member.tells_rack for member in state.members] == [True, True]
    assert {key for key, _ in fleet.read(fleet.traffic)} == {f"{state.cluster}/{scene.group}".encode()}
    assert agent.metric("samerack_published_records_total", kind="sample") == len(samples)
    at_once = [one.at for one in fleet.states()]
    assert all(after - before >= 1000 for before, after in pairwise(at_once))


def test_what_was_counted_is_published_at_the_end(scene: Scene, fleet: Fleet) -> None:
    """With a minute between samples, the agent publishes on SIGTERM what it has counted, and ends within 5 s."""
    scene.lay_out(INTERLEAVED)
    agent = scene.waiting_agent(**fleet.settings(60))
    reading(scene)
    agent.wait(lambda: counted(agent) > ENOUGH_BYTES, "bytes are counted", timeout=90)
    ended = at_rest(scene, agent)
    code, seconds = agent.stop()
    assert (code, seconds < 5) == (0, True)
    assert fleet.sums() == ended
    hold_form(fleet.samples(), every=60)


@pytest.mark.moves_brokers
@pytest.mark.parametrize("how", ["in good order", "killed"])
def test_a_broker_goes_and_comes_back(
    scene: Scene, fleet: Fleet, cluster: KafkaCluster, admin: Admin, how: str
) -> None:
    """Samples are buffered while no broker accepts them; afterwards each of them is published once."""
    here = f"samples-{uuid.uuid4().hex[:12]}"
    admin.create_topic(here, [[2]])
    mine = Fleet(bootstrap=fleet.bootstrap, traffic=here, groups=fleet.groups)
    scene.lay_out([[1], [3], [1], [3]])
    agent = scene.waiting_agent(**mine.settings(1))
    reading(scene)
    agent.wait(lambda: bool(mine.samples()), "samples are published", timeout=90)
    cluster.stop_broker(2, kill=how == "killed")
    agent.wait(lambda: (agent.metric("samerack_buffered_records", kind="sample") or 0) > 10, "samples wait", timeout=60)
    assert agent.role() == "leading"
    cluster.start_broker(2)
    ended = at_rest(scene, agent)
    wait_until(lambda: mine.sums() == ended, f"the samples add up to {ended}", timeout=60, pause=1)
    hold_form(mine.samples(), every=1)
    assert agent.metric("samerack_buffered_records", kind="sample") == 0
    assert not any(dropped(agent).values())
    admin.delete_topic(here)


def test_a_topic_that_is_missing_disturbs_nobody(scene: Scene, cluster: KafkaCluster, admin: Admin) -> None:
    """A missing topic is logged once with a cure; records wait, the agent leads; with the topic, nothing is lost."""
    name = uuid.uuid4().hex[:12]
    missing = Fleet(bootstrap=cluster.bootstrap, traffic=f"missing-{name}", groups="")
    scene.lay_out(INTERLEAVED)
    agent = scene.waiting_agent(**missing.settings(1))
    reading(scene)
    agent.wait(lambda: counted(agent) > ENOUGH_BYTES, "bytes are counted", timeout=90)
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
    """After SIGKILL, all but the last window has been published, and the next agent repeats none of it."""
    every = 2
    scene.lay_out(INTERLEAVED)
    agent = scene.waiting_agent(**fleet.settings(every), election__identity="same")
    reading(scene)
    agent.wait(lambda: counted(agent) > ENOUGH_BYTES, "bytes are counted", timeout=90)
    agent.kill()
    killed = now_ms()
    former = fleet.samples()
    # a check every second may be late, and the record takes a moment to arrive
    assert killed - max(one.window_end for one in former) < (every + 2) * 1000
    again = scene.agent(**fleet.settings(every), election__identity="same")
    again.wait(lambda: counted(again) > ENOUGH_BYTES, "bytes are counted", timeout=90)
    ended = at_rest(scene, again)
    runs = {run_of(one) for one in former}

    def later() -> list[TrafficSample]:
        return [one for one in fleet.samples() if run_of(one) not in runs]

    wait_until(
        lambda: sum(one.bytes for one in later()) == sum(wire_bytes for wire_bytes, _ in ended.values()),
        "the second agent's samples are its totals",
        timeout=60,
        pause=1,
    )
    hold_form(fleet.samples(), every=every)
    assert min(one.window_start for one in later()) >= max(one.window_end for one in former)


def test_of_two_agents_one_publishes(scene: Scene, fleet: Fleet) -> None:
    """Only the group's active agent publishes; when it dies, the other continues without repeating anything."""
    scene.lay_out(INTERLEAVED)
    first = scene.waiting_agent(**fleet.settings(1), election__identity="first")
    second = scene.agent(**fleet.settings(1), election__identity="second")
    reading(scene)
    first.wait(lambda: counted(first) > ENOUGH_BYTES, "bytes are counted", timeout=90)
    assert counted(second) == 0
    (run,) = {run_of(one) for one in fleet.samples()}
    first.kill()
    second.wait(lambda: {run_of(one) for one in fleet.samples()} > {run}, "the second agent publishes", timeout=60)
    at_rest(scene, second)
    samples = fleet.samples()
    hold_form(samples, every=1)
    ended = max(one.window_end for one in samples if run_of(one) == run)
    # threads of the first agent may take one last sample while the second starts
    assert ended - min(one.window_start for one in samples if run_of(one) != run) <= 3_000


def test_topics_are_created_on_request_and_what_is_too_large_is_dropped(scene: Scene, cluster: KafkaCluster) -> None:
    """Topics get the brokers' defaults; a record that is too large for its topic is counted and blocks no other."""
    name = uuid.uuid4().hex[:12]
    fleet = Fleet(bootstrap=cluster.bootstrap, traffic=f"made-{name}", groups=f"narrow-{name}")
    scene.admin.create_topic(fleet.groups, [[1]], config={"max.message.bytes": "100"})
    scene.lay_out(INTERLEAVED)
    agent = scene.waiting_agent(**fleet.settings(1), publishing__create_topics=True)
    reading(scene)
    agent.wait(lambda: counted(agent) > ENOUGH_BYTES, "bytes are counted", timeout=90)
    assert [event["topic"] for event in agent.events("topic-created")] == [fleet.traffic]
    (said,) = agent.events("record-too-large")
    assert (said["group"], said["topic"]) == (scene.group, fleet.groups)
    assert "max.message.bytes" in said["cure"]
    assert agent.role() == "leading"
    ended = at_rest(scene, agent)
    wait_until(lambda: fleet.sums() == ended, f"the samples add up to {ended}", timeout=60, pause=1)
    gone = dropped(agent)
    assert gone.pop(("state", "too-large")) > 0
    assert not any(gone.values())
    assert fleet.states() == []
    for topic in (fleet.traffic, fleet.groups):
        scene.admin.delete_topic(topic)


def test_without_permission_the_agent_goes_on_and_counts_what_it_drops(tmp_path: Path) -> None:
    """A full buffer drops its oldest records and counts them; once WRITE is allowed, each other record arrives once."""
    user, topic = "samerack", "samerack-traffic"
    listener = Listener(name="FLEET", protocol="SASL_PLAINTEXT", properties=plain({user: "secret"}))
    with (
        Cluster({1: A}, security=Security(listeners=(listener,), authorizer=True)) as secured,
        Admin(secured.bootstrap) as admin,
        Scene(secured, admin, folder=tmp_path) as scene,
    ):
        admin.create_topic(topic, [[1]])
        allow(secured, user, topic, AclOperation.DESCRIBE)
        scene.lay_out([[1], [1]])
        own = {
            "bootstrap.servers": secured.secured("FLEET"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": "secret",
        }
        fleet = Fleet(bootstrap=secured.bootstrap, traffic=topic, groups="")
        settings = {**fleet.settings(1), "publishing__kafka": own, "publishing__max_buffered_records": 5}
        agent = scene.waiting_agent(**settings, election__group="")
        reading(scene)
        agent.wait(lambda: dropped(agent)["sample", "buffer-full"] > 20, "records are dropped", timeout=60)
        agent.wait(lambda: agent.metric("samerack_buffered_records", kind="sample") == 5, "the rest waits")
        (said,) = agent.events("publishing-refused")
        assert "--operation Write" in said["cure"]
        assert agent.metric("samerack_publishing_refused", topic=topic, reason="not-allowed") == 1
        (gap,) = [gap for gap in json.loads(agent.get("/v1/traffic")[1])["gaps"] if gap["what"] == "publishing"]
        assert (gap["where"], gap["refused"]) == (topic, True)
        assert agent.role() == "leading"
        assert agent.get("/readyz")[0] == 200

        allow(secured, user, topic, AclOperation.WRITE)
        agent.wait(lambda: bool(fleet.samples()), "samples are published", timeout=60)
        at_rest(scene, agent)
        samples = fleet.samples()
        hold_form(samples, every=1)
        assert {one.election for one in samples} == {""}
        assert agent.metric("samerack_publishing_refused", topic=topic, reason="not-allowed") == 0
        gone = dropped(agent)
        # the agent numbers its records: missing numbers were dropped
        numbers = {int(one.id.rpartition("-")[2]) for one in samples}
        assert max(numbers) - len(numbers) == gone.pop(("sample", "buffer-full"))
        assert not any(gone.values())


def allow(cluster: KafkaCluster, user: str, topic: str, operation: AclOperation) -> None:
    """Give a user a permission on a topic."""
    binding = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )
    client = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for done in client.create_acls([binding]).values():
        done.result()
