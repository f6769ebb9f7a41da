"""What the agent measures of real groups of every kind on real brokers, and what it does without a permission."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.protocol.admin.cluster import DescribeLogDirsRequest
from kafka.protocol.consumer.fetch import FetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest
from kio.schema.streams_group_heartbeat.v0.request import StreamsGroupHeartbeatRequest, Subtopology, TaskIds, Topology
from kio.schema.streams_group_heartbeat.v0.response import StreamsGroupHeartbeatResponse
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i32Timedelta

from agent.traffic.board import TrafficBoard
from agent.traffic.metrics import TrafficMetrics
from agent.traffic.model import BlindSpot, Family, GroupTraffic, TrafficSnapshot
from agent.traffic.watch import TrafficWatch, observe
from agent.traffic.wire import ANY_BROKER, Answer, KioRequest, Question, Wire
from common.settings import Settings, load
from sandbox.admin import Admin
from sandbox.contract import KafkaCluster
from sandbox.feeder import Feeder
from sandbox.members.lines import MemberSettings
from sandbox.members.process import Member

PLACES = [[1, 2], [2, 3], [3, 1], [1, 3], [2, 1], [3, 2]]


def settings_for(cluster: KafkaCluster, *groups: str) -> Settings:
    """An agent that observes these groups."""
    return load(
        flags={"kafka": {"bootstrap.servers": cluster.bootstrap}, "traffic": {"groups": list(groups)}}, environment={}
    )


@pytest.fixture
def placed(admin: Admin, topic: str) -> str:
    """A topic of six partitions, four of which have a replica in any one rack."""
    admin.create_topic(topic, PLACES)
    return topic


class Looking:
    """An agent's measuring part that looks when it is told to."""

    def __init__(self, settings: Settings) -> None:
        self.board = TrafficBoard()
        self.watch = TrafficWatch(settings, board=self.board, metrics=TrafficMetrics.silent(), rack_aware=lambda: True)

    def until(self, holds: Callable[[TrafficSnapshot], bool], *, seconds: float = 45) -> TrafficSnapshot:
        """Look until a condition holds."""
        deadline = time.monotonic() + seconds
        while True:
            snapshot = self.watch.look()
            if holds(snapshot):
                return snapshot
            assert time.monotonic() < deadline, snapshot
            time.sleep(1.0)


@pytest.fixture
def looking(cluster: KafkaCluster, group: str) -> Iterator[Looking]:
    """Looks at every group whose name begins with the test's own."""
    opened = Looking(settings_for(cluster, f"{group}*"))
    yield opened
    opened.watch.close()


def member(cluster: KafkaCluster, group: str, topic: str, rack: str, **properties: str) -> Member:
    """A librdkafka consumer in a rack."""
    return Member.python(
        "confluent",
        MemberSettings(
            bootstrap=cluster.bootstrap,
            group=group,
            topics=(topic,),
            client_id=f"{group}-{rack}",
            rack=rack,
            properties=properties,
        ),
    )


def measured(snapshot: TrafficSnapshot, name: str) -> GroupTraffic | None:
    """A group of which bytes are known in the window."""
    for one in snapshot.groups:
        if one.group == name and one.shares.present_bytes is not None and one.bytes_per_second:
            return one
    return None


def test_classic_and_new_groups_are_measured(cluster: KafkaCluster, placed: str, group: str, looking: Looking) -> None:
    """Both protocols appear with racks, shares and bytes that match what their clients counted."""
    new = f"{group}-new"
    with (
        Feeder(cluster.bootstrap, {placed: 6}, pause=0.02),
        member(cluster, group, placed, "rack-a") as classic,
        member(cluster, new, placed, "rack-c", **{"group.protocol": "consumer"}),
    ):
        snapshot = looking.until(lambda seen: bool(measured(seen, group) and measured(seen, new)))
        assert snapshot.gaps == ()
        first, second = measured(snapshot, group), measured(snapshot, new)
        assert first is not None
        assert second is not None
        assert (first.kind, second.kind) == ("classic", "consumer")
        assert [one.rack.rack for one in (*first.members, *second.members)] == ["rack-a", "rack-c"]
        # four of the six partitions have a replica in either rack: what is read across is a third
        for one in (first, second):
            assert one.shares.present_partitions == pytest.approx(1 / 3)
            assert one.shares.present_bytes == pytest.approx(1 / 3, abs=0.1)
            assert one.shares.random == pytest.approx(2 / 3)
            assert one.problem is not None
            assert BlindSpot.SERVING_GUESSED not in one.blind_spots
        before, told = dict(classic.received), looking.board.totals()
        time.sleep(8)
        looking.watch.look()
        grown = sum(classic.received.values()) - sum(before.values())
        counted = sum(
            volume.wire_bytes - (told[key].wire_bytes if key in told else 0)
            for key, volume in looking.board.totals().items()
            if key.group == group
        )
        assert counted == pytest.approx(grown, rel=0.35)  # a second's difference in eight; the benchmark is exact


def test_statistics_make_a_member_exact(cluster: KafkaCluster, placed: str, group: str, looking: Looking) -> None:
    """Posted counters replace the estimate of their member, and only theirs."""
    with (
        Feeder(cluster.bootstrap, {placed: 6}),
        member(cluster, group, placed, "rack-a"),
        member(cluster, group, placed, "rack-b"),
    ):
        looking.until(lambda seen: (one := measured(seen, group)) is not None and len(one.members) == 2)
        body = {
            "name": "rdkafka#consumer-1",
            "client_id": f"{group}-rack-a",
            "type": "consumer",
            "age": 1_000_000,
            "brokers": {"b": {"nodeid": 2, "rxbytes": 10_000_000}},
            "topics": {placed: {"partitions": {"0": {"broker": 2, "fetch_state": "active", "rxmsgs": 5}}}},
        }
        taken = looking.watch.post(group, json.dumps(body).encode())
        assert taken.rack.rack == "rack-a"
        one = measured(looking.watch.look(), group)
        assert one is not None
        assert sorted(member.method for member in one.members) == ["estimated", "exact"]
        exact = [flow for flow in one.flows if flow.key.method == "exact"]
        assert [(flow.key.client_rack, flow.key.replica_rack) for flow in exact] == [("rack-a", "rack-b")]
        assert 9_000_000 < exact[0].volume.wire_bytes <= 10_000_000


def heartbeat(wire: Wire, group: str, topic: str, *, member_id: str, epoch: int, active: Sequence[TaskIds]) -> Any:
    """One heartbeat of a Kafka Streams client of KIP-1071 that reads one topic; the answer."""
    subtopology = Subtopology(
        subtopology_id="0",
        source_topics=(TopicName(topic),),
        state_changelog_topics=(),
        repartition_source_topics=(),
        copartition_groups=(),
    )
    request = StreamsGroupHeartbeatRequest(
        group_id=GroupId(group),
        member_id=member_id,
        member_epoch=i32(epoch),
        endpoint_information_epoch=i32(-1),
        instance_id=None,
        rack_id="rack-b",
        rebalance_timeout=i32Timedelta.parse(timedelta(seconds=60)),
        topology=Topology(epoch=i32(0), subtopologies=(subtopology,)) if epoch == 0 else None,
        active_tasks=tuple(active),
        standby_tasks=(),
        warmup_tasks=(),
        process_id="process" if epoch == 0 else None,
        user_endpoint=None,
        client_tags=() if epoch == 0 else None,
        task_offsets=None,
        task_end_offsets=None,
        shutdown_application=False,
    )
    for _ in range(30):
        keys = FindCoordinatorRequest(key_type=0, coordinator_keys=[group], min_version=4)
        found = wire.ask([Question(broker=ANY_BROKER, request=keys)])[0].response.coordinators[0]
        if not found.error_code:
            raw = KioRequest(request, StreamsGroupHeartbeatResponse)
            answer = wire.ask([Question(broker=int(found.node_id), request=raw)])[0]
            assert answer.error is None, answer.error
            if answer.response.error_code.value == 0:
                return answer.response
            assert answer.response.error_code.retriable, answer.response
        time.sleep(0.5)
    raise AssertionError(f"no coordinator for {group}")


def test_streams_groups_are_shown(cluster: KafkaCluster, placed: str, group: str, looking: Looking) -> None:
    """A KIP-1071 group appears with its rack, the partitions of its active tasks, and shares."""
    wire = Wire({"bootstrap_servers": cluster.bootstrap.split(",")})
    member_id = uuid.uuid4().hex
    try:
        answer = heartbeat(wire, group, placed, member_id=member_id, epoch=0, active=())
        active: tuple[TaskIds, ...] = ()
        for _ in range(20):
            if answer.active_tasks:
                active = tuple(
                    TaskIds(subtopology_id=one.subtopology_id, partitions=one.partitions) for one in answer.active_tasks
                )
            answer = heartbeat(wire, group, placed, member_id=member_id, epoch=int(answer.member_epoch), active=active)
            if active:
                break
            time.sleep(0.5)
        snapshot = looking.until(lambda seen: bool(seen.groups and seen.groups[0].partitions))
    finally:
        wire.close()
    (one,) = snapshot.groups
    assert (one.kind, [member.rack.rack for member in one.members]) == ("streams", ["rack-b"])
    assert len(one.partitions) == 6
    assert one.shares.present_partitions == pytest.approx(1 / 3)
    assert one.shares.optimal == pytest.approx(1 / 3)


def test_a_missing_permission_costs_one_figure(
    cluster: KafkaCluster, placed: str, group: str, looking: Looking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without log sizes there are no bytes, without READ the serving replica is told by the rule; all else stays."""
    ask = Wire.ask
    denied: list[type[Any]] = [DescribeLogDirsRequest, FetchRequest]

    def refusing(wire: Wire, questions: Sequence[Question], timeout: float = 10.0) -> list[Answer]:
        allowed = [one for one in questions if not isinstance(one.request, tuple(denied))]
        refused = [
            Answer(question=one, error=kafka_errors.ClusterAuthorizationFailedError())
            for one in questions
            if one not in allowed
        ]
        return [*ask(wire, allowed, timeout), *refused]

    monkeypatch.setattr(Wire, "ask", refusing)
    with Feeder(cluster.bootstrap, {placed: 6}), member(cluster, group, placed, "rack-a"):
        snapshot = looking.until(lambda seen: bool(seen.groups and seen.groups[0].partitions))
        (one,) = snapshot.groups
        assert {gap.family for gap in snapshot.gaps if gap.refused} == {Family.LOG_DIRS, Family.PROBE}
        assert {BlindSpot.SIZES_UNKNOWN, BlindSpot.SERVING_GUESSED} <= set(one.blind_spots)
        assert one.bytes_per_second is None
        assert one.shares.present_partitions == pytest.approx(1 / 3)
        denied.clear()
        looking.until(lambda seen: measured(seen, group) is not None)


def test_one_look_for_the_command_line(cluster: KafkaCluster, placed: str, group: str) -> None:
    """A look without an agent shows groups and shares at once, and ends its connections."""
    with member(cluster, group, placed, "rack-a") as one:
        one.wait(lambda: len(one.owned) == 6, "it has all partitions")
        snapshot = observe(settings_for(cluster, group), seconds=0)
    assert [found.group for found in snapshot.groups] == [group]
    assert snapshot.rack_aware_fetch is True
    share = snapshot.groups[0].shares.present_partitions
    assert share is not None
    assert 0.3 < share < 0.7  # followers of a new topic serve from their second fetch on
