"""On real brokers a plan covers every member and every topic that they read; else the agent leaves and logs why."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from samerack.agent.leading.assigning import Assigning
from samerack.agent.leading.membership import Membership
from samerack.agent.metrics import Metrics
from samerack.agent.policy.back_off_causes import BackOffError, Cause
from samerack.cluster import metadata
from samerack.cluster import watch as watching
from samerack.cluster.client import close, connect
from samerack.cluster.view import ClusterView, SettlingTimes
from samerack.cluster.watch import ClusterWatch
from samerack.cluster.wire import Wire
from samerack.common.kafka_config import for_kafka_python
from samerack.common.settings import Settings
from samerack.protocol.consumer import encode_subscription
from samerack.protocol.model import Subscription
from sandbox.admin import wait_until
from sandbox.agent_process import AgentProcess
from tests.integration.raw_member import RawMember
from tests.integration.scene import INTERLEAVED, A, B, C, Scene, holds_for

_PATTERN_MEMBERS = 9
_REFRESH_MS = 2000
"""Members refresh metadata at multiples of it, so that each finds a new topic at a different time."""


def _early(scene: Scene) -> AgentProcess:
    """Starts an agent before the group has members, and waits until it leads or waits for them."""
    agent = scene.agent()
    agent.wait(lambda: agent.role() in ("leading", "waiting"), "the agent is there before the members")
    return agent


def _kafka_go(topic: str) -> bytes:
    """The subscription of a member of segmentio/kafka-go 0.4 with default settings."""
    return bytes.fromhex("000100000001") + len(topic).to_bytes(2, "big") + topic.encode() + bytes.fromhex("ffffffff")


@pytest.mark.promise("Members whose subscription ends early, as kafka-go's does, get their partitions.")
def test_members_of_kafka_go_get_every_partition(scene: Scene) -> None:
    """Members whose subscription says version 1 but ends like version 0 get partitions like all others."""
    scene.lay_out(INTERLEAVED)
    agent = scene.waiting_agent()
    with (
        RawMember(
            scene.cluster.bootstrap, group=scene.group, protocol="range", metadata=_kafka_go(scene.topic)
        ) as first,
        RawMember(
            scene.cluster.bootstrap, group=scene.group, protocol="range", metadata=_kafka_go(scene.topic)
        ) as second,
    ):
        everything = frozenset((scene.topic, number) for number in range(len(INTERLEAVED)))
        wait_until(
            lambda: first.assigned | second.assigned == everything and len(first.assigned) == len(second.assigned) == 3,
            "both have their half",
        )
        agent.wait_role("leading")
        assert agent.events("backs-off") == []
        first.stop()
        wait_until(lambda: second.assigned == everything, "the other has what the first had")


@pytest.mark.promise(
    "The agent leaves a group with a member that it cannot read, says why, and comes back when that member has gone."
)
def test_a_member_that_cannot_be_read_is_left_to_its_group(scene: Scene) -> None:
    """The agent leaves to a more lenient leader, logs which member's subscription is invalid, and later rejoins."""
    scene.lay_out(INTERLEAVED)
    agent = _early(scene)
    scene.join("confluent", A)
    scene.wait_settled()
    agent.wait_role("leading")
    odd = encode_subscription(Subscription(version=0, topics=(scene.topic,)))
    odd = odd[:2] + bytes.fromhex("00000002") + odd[6:-4] + bytes.fromhex("0002fffe") + odd[-4:]  # a name not in UTF-8
    everything = tuple((scene.topic, number) for number in range(len(INTERLEAVED)))
    with RawMember(
        scene.cluster.bootstrap, group=scene.group, protocol="range", metadata=odd, deals=everything
    ) as unreadable:
        agent.wait(lambda: bool(agent.events("backs-off", cause=Cause.UNREADABLE.value)), "it backs off")
        reason = agent.events("backs-off")[0]["reason"]
        assert "subscription: topics[1]" in reason
        assert unreadable.member_id in reason
        wait_until(
            lambda: (
                len(unreadable.assigned) == len(INTERLEAVED) / 2
                and unreadable.assigned | scene.seats[0].member.owned == frozenset(everything)
            ),
            "the group leads itself, and both have their half",
        )
        wait_until(lambda: scene.presence() is None, "the agent has left")
        status, page = agent.get("/readyz")
        assert (status, unreadable.member_id in page) == (503, True), json.loads(page)
        pause = agent.events("backs-off")[0]["seconds"]
        assert holds_for(pause + 1, lambda: scene.presence() is None)
    agent.wait(lambda: agent.role() in ("following", "leading"), "it is back in the group")
    scene.wait_settled()
    scene.finish()


@contextmanager
def _in_this_process(scene: Scene, watch: ClusterWatch) -> Iterator[tuple[Membership, Assigning]]:
    """The agent's membership and plans without the rest of it, with the test's watch."""
    configured = _settings(scene)
    assigning = Assigning(group=scene.group, settings=configured, watch=watch)
    client = connect(for_kafka_python(configured.kafka))
    membership = Membership(
        client, group=scene.group, settings=configured.leading, assign=assigning.assign, wake=lambda: None
    )
    try:
        yield membership, assigning
    finally:
        membership.leave()
        close(client)


def _settings(scene: Scene) -> Settings:
    return Settings.model_validate(
        {"kafka": {"bootstrap.servers": scene.cluster.bootstrap, "client.id": "samerack"}, "groups": [scene.group]}
    )


def _watch(scene: Scene) -> ClusterWatch:
    return ClusterWatch(
        Wire(for_kafka_python(_settings(scene).kafka)),
        pause=0.1,
        times=SettlingTimes(change=1.0, leader=600.0),
        selector="leader",
        metrics=Metrics(),
    )


def _come_first(membership: Membership) -> None:
    """Joins first, so that consumers can join within the initial delay of the group's first rebalance."""
    assert not membership.join(0.5)


def _join(membership: Membership) -> bool:
    """Rejoins, as a session does, until the group is stable."""
    membership.poll_heartbeat()
    while membership.wants_join:
        membership.join(0.2)
    return True


def test_a_group_whose_topics_are_unknown_is_left(scene: Scene) -> None:
    """An agent without cluster metadata refuses to plan and backs off, and the group settles without it."""
    scene.lay_out(INTERLEAVED)
    with _in_this_process(scene, _watch(scene)) as (membership, assigning):  # its watch never polls
        _come_first(membership)
        scene.join("confluent", A)
        scene.join("aiokafka", B)
        with pytest.raises(BackOffError, match="could not be described") as caught:
            wait_until(lambda: not _join(membership), "the agent refuses to plan")
        assert (caught.value.cause, _planned_for(assigning)) == (Cause.TOPICS_UNKNOWN, 0)
        membership.leave()
        scene.wait_settled()
    scene.finish()


def test_a_look_that_comes_within_the_deadline_is_waited_for(scene: Scene) -> None:
    """If metadata is two seconds late, the plan waits for it, and all members get their partitions."""
    scene.lay_out(INTERLEAVED)
    watch = _watch(scene)
    with _in_this_process(scene, watch) as (membership, assigning):
        _come_first(membership)

        def look_late() -> None:
            wait_until(lambda: assigning.since is not None, "the group waits for the plan")
            time.sleep(2)
            watch.start()

        late = threading.Thread(target=look_late)
        late.start()
        scene.join("confluent", A)
        wait_until(lambda: _join(membership) and _planned_for(assigning) == 1, "there is a plan")
        late.join()
        scene.wait_settled()
        assert assigning.sent is not None
        assert assigning.sent.plan.failure is None
        assert 2 < assigning.sent.seconds < 5
        watch.stop()
        watch.join()
    scene.finish()


def _planned_for(assigning: Assigning) -> int:
    return assigning.sent.members if assigning.sent is not None else 0


def test_a_broker_that_lags_behind_takes_no_partition_away(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """If every second answer lacks half of the partitions, as from a broker that lags, the view does not change."""
    scene.lay_out(INTERLEAVED)
    real, looks = metadata.look, 0

    def lagging(wire: Wire, topics: Collection[str]) -> ClusterView:
        nonlocal looks
        view, looks = real(wire, topics), looks + 1
        if looks % 2:
            return view
        return replace(view, topics={topic: views[: len(views) // 2] for topic, views in view.topics.items()})

    monkeypatch.setattr(watching, "look", lagging)
    watch = _watch(scene)
    watch.show_interest(scene.group, frozenset({scene.topic}))
    watch.start()
    try:
        wait_until(lambda: scene.topic in watch.cluster.topics, "the topic is known")
        first = watch.cluster
        wait_until(lambda: looks > 8, "both kinds of answers came several times")
        assert watch.cluster is first
        assert len(first.topics[scene.topic]) == len(INTERLEAVED)
    finally:
        watch.stop()
        watch.join()


@pytest.mark.timeout(120)
def test_a_topic_that_appears_is_no_rejected_plan(scene: Scene) -> None:
    """Members with a pattern find a topic one after the other and rejoin soon after a plan; the agent still leads."""
    scene.lay_out(INTERLEAVED)
    agent = _early(scene)
    scene.topics = (f"^{scene.topic}.*",)
    for number in range(_PATTERN_MEMBERS):
        refresh = str(_REFRESH_MS * (number + 2))
        scene.join("confluent", (A, B, C)[number % 3], topic_metadata_refresh_interval_ms=refresh)
    scene.topics = (scene.topic,)
    scene.wait_settled()
    agent.wait_role("leading")
    plans = len(agent.events("plan-sent"))
    scene.topics = (scene.topic, f"{scene.topic}-new")
    scene.lay_out(INTERLEAVED, scene.topics[1])
    time.sleep(_REFRESH_MS * (_PATTERN_MEMBERS + 3) / 1000)  # each member has refreshed its metadata once
    scene.wait_settled()
    rejoins = len(agent.events("plan-sent")) - plans
    print(f"{rejoins} rebalances for one topic")  # noqa: T201 - pytest -rP shows the measurement
    assert rejoins > 4  # more than the limit of rejoins after a plan
    assert agent.events("backs-off") == []
    assert agent.role() == "leading"
    scene.finish()
