"""What the agent measures of real groups of every kind on real brokers, and what it does without a permission."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.protocol.admin.cluster import DescribeLogDirsRequest
from kafka.protocol.consumer.fetch import FetchRequest

from agent.costs import report
from agent.traffic.board import TrafficBoard
from agent.traffic.metrics import TrafficMetrics
from agent.traffic.model import BlindSpot, Family, GroupTraffic, TrafficSnapshot
from agent.traffic.watch import TrafficWatch, observe
from agent.traffic.wire import Answer, Question, Wire
from common.money import price_table
from common.settings import MoneySettings, Settings, load
from sandbox.admin import Admin
from sandbox.contract import KafkaCluster
from sandbox.feeder import Feeder
from sandbox.members.lines import MemberSettings
from sandbox.members.process import Member
from tests.integration.members import start_streams

_ENOUGH_RECORDS = 1_000
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """A member at rest: bytes that its client counted, and bytes and records that the agent did."""

    received: int
    counted: int
    records: int


class Looking:
    """An agent's measuring part that looks when it is told to, at groups whose names begin with `group`."""

    def __init__(self, settings: Settings, group: str) -> None:
        self.group = group
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

    def records(self, group: str) -> int:
        """Records that the group read, as counted until now."""
        return sum(volume.records for key, volume in self.board.totals().items() if key.group == group)

    def at_rest(self, member: Member, group: str) -> Rest:
        """The figures of a group's only member when nobody writes any more and all is read and committed."""
        self.until(lambda seen: all(one.lag_records == 0 for one in named(seen, group).partitions))
        heard = len(member.events)
        member.wait(lambda: any(event.brokers for event in member.events[heard:]), "it tells what it received")
        self.watch.look()
        totals = self.board.totals().items()
        return Rest(
            received=sum(member.received.values()),
            counted=sum(volume.wire_bytes for key, volume in totals if key.group == group),
            records=self.records(group),
        )


@pytest.fixture
def looking(cluster: KafkaCluster, group: str) -> Iterator[Looking]:
    """Looks at every group whose name begins with the test's own."""
    opened = Looking(settings_for(cluster, f"{group}*"), group)
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


def named(snapshot: TrafficSnapshot, name: str) -> GroupTraffic:
    """A group of a snapshot."""
    return next(one for one in snapshot.groups if one.group == name)


def member_rack(group: GroupTraffic, member: str | None) -> str | None:
    """The rack of a member by its id."""
    return next((one.rack.rack for one in group.members if one.id == member), None)


def costs_what_crosses(snapshot: TrafficSnapshot, name: str) -> bool:
    """Whether a group has a price: that of the bytes that crossed racks, above zero."""
    prices = price_table(MoneySettings())
    cost = next(one for one in report(snapshot, prices, roles={}).groups if one.group == name)
    return bool(cost.dollars_per_month) and cost.dollars == prices.dollars(cost.cross_rack_bytes) > 0


def measured(snapshot: TrafficSnapshot, name: str) -> GroupTraffic | None:
    """A group of which bytes are known in the window."""
    for one in snapshot.groups:
        if one.group == name and one.shares.present_bytes is not None and one.bytes_per_second:
            return one
    return None


def test_classic_and_new_groups_are_measured(cluster: KafkaCluster, placed: str, group: str, looking: Looking) -> None:
    """Both protocols appear with racks, shares and bytes that match what their clients counted."""
    new, feeds = f"{group}-new", {placed: 6}
    often = {"auto.commit.interval.ms": "500"}
    with (
        member(cluster, group, placed, "rack-a", **often) as classic,
        member(cluster, new, placed, "rack-c", **often, **{"group.protocol": "consumer"}),
    ):
        with Feeder(cluster.bootstrap, feeds):
            looking.until(lambda seen: bool(measured(seen, group) and measured(seen, new)))
        # the first commits of a group leave open where it began: counted is what comes after them
        begun = looking.at_rest(classic, group)
        with Feeder(cluster.bootstrap, feeds, pause=0.01):
            looking.until(lambda _: looking.records(group) > begun.records + _ENOUGH_RECORDS)
        ended = looking.at_rest(classic, group)
        # short batches in bursts are what envelopes are guessed worst of; `scripts/bench traffic` has the error of more
        assert ended.counted - begun.counted == pytest.approx(ended.received - begun.received, rel=0.15)
        snapshot = looking.board.latest()
        first, second = measured(snapshot, group), measured(snapshot, new)
    assert snapshot.gaps == ()
    assert first is not None
    assert second is not None
    assert (first.kind, second.kind) == ("classic", "consumer")
    assert [one.rack.rack for one in (*first.members, *second.members)] == ["rack-a", "rack-c"]
    # four of the six partitions have a replica in either rack: what is read across is a third
    for one in (first, second):
        assert one.shares.present_partitions == pytest.approx(1 / 3)
        assert one.shares.present_bytes == pytest.approx(1 / 3, abs=0.05)
        assert one.shares.random == pytest.approx(2 / 3)
        assert one.problem is not None
        assert BlindSpot.SERVING_GUESSED not in one.blind_spots
        assert costs_what_crosses(snapshot, one.group)


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


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_kafka_streams_is_measured(
    cluster: KafkaCluster, placed: str, looking: Looking, tmp_path: Path, protocol: str
) -> None:
    """A Streams application appears on either protocol: instances with racks, their tasks, bytes and shares."""
    group = looking.group

    def instance(rack: str | None, name: str, **properties: str) -> Member:
        given = {"group.protocol": protocol, "state.dir": str(tmp_path / name), "auto.commit.interval.ms": "500"}
        return start_streams(
            MemberSettings(
                bootstrap=cluster.bootstrap,
                group=group,
                topics=(placed,),
                client_id=name,
                rack=rack,
                properties=given | {key.replace("__", "."): value for key, value in properties.items()},
            )
        )

    with (
        Feeder(cluster.bootstrap, {placed: 6}),
        instance("rack-a", "first", application__server="127.0.0.1:7001"),
        instance(None, "second", client__tag__zone="rack-c"),
    ):
        snapshot = looking.until(
            lambda seen: (
                (one := measured(seen, group)) is not None
                and [member.partitions for member in one.members] == [3, 3]
                and costs_what_crosses(seen, group)
            )
        )
    one = named(snapshot, group)
    assert one.kind == {"classic": "streams-classic", "streams": "streams"}[protocol]
    assert one.note == ""
    racks = {member.rack.rack: member for member in one.members}
    assert {rack: member.rack.source for rack, member in racks.items()} == {
        "rack-a": "subscription",
        "rack-c": "client-tag",
    }
    clients = {rack: member.streams for rack, member in racks.items()}
    assert clients["rack-a"] is not None
    assert clients["rack-c"] is not None
    assert (clients["rack-a"].endpoint, clients["rack-c"].endpoint) == ("127.0.0.1:7001", "")
    assert (clients["rack-a"].tags, clients["rack-c"].tags) == ((), (("zone", "rack-c"),))
    assert len({client.process_id for client in clients.values() if client is not None} - {""}) == 2
    owned = {partition.number: partition.member for partition in one.partitions}
    assert len(owned) == 6
    if protocol == "streams":  # described are the tasks of now, and the classic protocol's are of the last join
        assert all(member.streams is not None and len(member.streams.active) == 3 for member in one.members)
    # the tag is no rack of fetches: the second instance reads from leaders, two of which stand in its rack
    crossing = sum(partition.serving_rack != member_rack(one, partition.member) for partition in one.partitions)
    assert one.shares.present_partitions == pytest.approx(crossing / 6)
    assert one.shares.optimal == pytest.approx(1 / 6)
    assert BlindSpot.STATE not in one.blind_spots


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
