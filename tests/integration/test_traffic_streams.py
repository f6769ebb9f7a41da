"""The agent's measurements of real Kafka Streams applications, on the classic protocol and on KIP-1071."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from samerack.traffic.model import BlindSpot
from sandbox.admin import Admin
from sandbox.contract import KafkaCluster
from sandbox.feeder import Feeder
from sandbox.members.lines import MemberSettings
from sandbox.members.process import Member
from tests.integration.looking import Looking, costs_what_crosses, measured, member_rack, named
from tests.integration.members import start_streams


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_kafka_streams_is_measured(
    cluster: KafkaCluster, placed: str, looking: Looking, tmp_path: Path, protocol: str
) -> None:
    """A Streams application is measured on either protocol: instances with racks, tasks, bytes and shares."""
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
                and [len(member.owned) for member in one.members] == [3, 3]
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
    if protocol == "streams":  # KIP-1071 describes the current tasks, the classic protocol those of the last join
        assert all(member.streams is not None and len(member.streams.active) == 3 for member in one.members)
    # the tag is no rack for fetches: the second instance reads from leaders, two of which are in its rack
    crossing = sum(partition.serving_rack != member_rack(one, partition.member) for partition in one.partitions)
    assert one.shares.present_partitions == pytest.approx(crossing / 6)
    assert one.shares.optimal == pytest.approx(1 / 6)
    assert BlindSpot.STATE not in one.blind_spots


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_tasks_of_kafka_streams_stay_whole(
    cluster: KafkaCluster, admin: Admin, looking: Looking, tmp_path: Path, protocol: str
) -> None:
    """Each task reads one topic in rack and one across: half of the reads cross racks, because tasks are not split."""
    topics = (f"{looking.group}-a", f"{looking.group}-b")
    for topic, broker in zip(topics, (1, 2), strict=True):
        admin.create_topic(topic, [[broker]] * 4)
    properties = {"group.protocol": protocol, "state.dir": str(tmp_path), "num.stream.threads": "1"}
    settings = MemberSettings(
        bootstrap=cluster.bootstrap,
        group=looking.group,
        topics=topics,
        client_id="joins",
        rack="rack-a",
        properties=properties,
    )
    other = replace(settings, rack="rack-b", properties=properties | {"state.dir": str(tmp_path / "other")})
    with start_streams(settings), start_streams(other):
        snapshot = looking.until(
            lambda seen: bool(seen.groups) and [len(member.owned) for member in seen.groups[0].members] == [4, 4]
        )
    assert named(snapshot, looking.group).shares.optimal == pytest.approx(1 / 2)
    for topic in topics:
        admin.delete_topic(topic)
