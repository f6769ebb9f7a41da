"""Groups of every kind become one type, tested with the real messages of each kind."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from kio.schema.consumer_group_describe.v0 import response as consumer
from kio.schema.errors import ErrorCode
from kio.schema.share_group_describe.v1 import response as shares
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32

from samerack.protocol.consumer import encode_assignment, encode_subscription
from samerack.protocol.streams_values import LATEST_OFFSET, StreamsTask
from samerack.protocol.values import Assignment, Subscription, from_pairs, to_pairs
from samerack.settings.leading import RackSettings
from samerack.traffic import groups
from samerack.traffic.groups import ListedGroup
from samerack.traffic.snapshot import ObservedMember
from samerack.traffic.streams_members import StreamsClient
from tests.unit.agent.values import Described, partition, view_of
from tests.unit.protocol.streams_writers import SubscriptionInfo, encode_subscription_info
from tests.unit.traffic.live_streams import instance, kip_1071

RACKS = RackSettings(client_ids={"*-b": "b"}, fetch_with_rack=("*-b",))


def classic(*members: Described, protocol: str = "range", state: str = "Stable", kind: str = "consumer") -> Any:
    """A DescribeGroups answer."""
    return SimpleNamespace(
        group_id="g", group_state=state, protocol_type=kind, protocol_data=protocol, members=list(members)
    )


def described(name: str, *pairs: tuple[str, int], rack: str | None = None, **fields: Any) -> Described:
    """A member of a classic group."""
    return Described(
        member_id=name,
        member_metadata=encode_subscription(Subscription(topics=("t",), rack=rack)),
        member_assignment=encode_assignment(Assignment(partitions=from_pairs(pairs))),
        **fields,
    )


def test_classic_groups_carry_the_consumer_protocol() -> None:
    """Racks are from the subscription or the settings, owners from the assignment; the agent is left out."""
    agent = Described(
        member_id="agent", group_instance_id="samerack", member_metadata=encode_subscription(Subscription(topics=()))
    )
    group = groups.classic(
        classic(described("m1", ("t", 0), rack="a"), described("m2", ("t", 1), client_id="x-b"), agent),
        racks=RACKS,
        agent="samerack",
    )
    assert [one.version for one in group.members] == [3, 3], (
        "by which an agent knows clients whose leader may fail on it"
    )
    assert [(one.id, one.rack.rack, one.rack.source) for one in group.members] == [
        ("m1", "a", "subscription"),
        ("m2", "b", "client-id"),
    ]
    assert {where: owner.id for where, owner in groups.owners_of(group).items()} == {("t", 0): "m1", ("t", 1): "m2"}
    assert (group.kind, group.owned_known) == ("classic", True)


def test_rebalancing_groups_do_not_show_owners() -> None:
    """Owned partitions are unknown until every member has an assignment."""
    group = groups.classic(classic(Described(), state="PreparingRebalance"), racks=RACKS, agent="samerack")
    assert not group.owned_known


def test_streams_on_the_classic_protocol_is_recognised() -> None:
    """Kafka Streams has the assignor `stream`, and its clients are Java's."""
    group = groups.classic(classic(described("m", ("t", 0)), protocol="stream"), racks=RACKS, agent="samerack")
    assert group.kind == "streams-classic"
    assert group.members[0].sessions


def test_other_protocol_types_are_shown_and_not_read() -> None:
    """Connect's workers have no assignment of partitions, so the group is shown with a note only."""
    group = groups.classic(classic(Described(), kind="connect"), racks=RACKS, agent="samerack")
    assert group.kind == "other"
    assert "connect" in group.note


def test_unreadable_members_are_noted() -> None:
    """A member whose bytes cannot be decoded stays in the group, with a note."""
    group = groups.classic(classic(Described(member_metadata=b"\x00")), racks=RACKS, agent="samerack")
    assert len(group.members) == 1
    assert "subscription" in group.note


def managed(*members: tuple[str, dict[str, Any], tuple[str, Sequence[int]]]) -> dict[str, ObservedMember]:
    """The members of a group of the new protocol: name, fields that differ from a plain one's, and what it owns."""
    raw = consumer.DescribedGroup(
        error_code=ErrorCode.none,
        group_id=GroupId("g"),
        group_state="Stable",
        group_epoch=i32(1),
        assignment_epoch=i32(1),
        assignor_name="uniform",
        members=tuple(
            consumer.Member(
                member_id=name,
                member_epoch=i32(1),
                client_id="c",
                client_host="/2001:db8:0:0:0:0:0:9",
                assignment=consumer.Assignment(
                    topic_partitions=(
                        consumer.TopicPartitions(
                            topic_id=uuid.uuid4(), topic_name=TopicName(topic), partitions=tuple(map(i32, numbers))
                        ),
                    )
                ),
                target_assignment=consumer.Assignment(topic_partitions=()),
                **{"subscribed_topic_names": (), **fields},
            )
            for name, fields, (topic, numbers) in members
        ),
    )
    group = groups.managed(raw, racks=RACKS)
    assert (group.kind, group.assignor) == ("consumer", "uniform")
    return {one.id: one for one in group.members}


def test_groups_of_the_new_protocol_are_described_by_brokers() -> None:
    """KIP-848: rack, topics and the current assignment are fields of the description."""
    found = managed(("m", {"rack_id": "a", "subscribed_topic_names": (TopicName("t"),)}, ("t", (0, 2))))["m"]
    assert (found.rack.rack, found.rack.fetches_with_rack, found.client_host) == ("a", True, "2001:db8::9")
    assert found.topics == {"t"}
    assert to_pairs(found.owned) == [("t", 0), ("t", 2)]


def test_members_with_one_expression_share_its_topics() -> None:
    """Brokers do not report which topics an expression matches; what one member owns, the others may own too."""
    wanted = {"m1": ("t1", "t.*"), "m2": ("t2", "t.*"), "m3": ("u", "u.*"), "m4": ("v", None)}
    found = managed(*((name, {"subscribed_topic_regex": one}, (topic, (0,))) for name, (topic, one) in wanted.items()))
    topics = {name: one.topics for name, one in found.items()}
    assert topics == {"m1": {"t1", "t2"}, "m2": {"t1", "t2"}, "m3": {"u"}, "m4": {"v"}}


def test_streams_tasks_are_partitions_of_their_sources() -> None:
    """KIP-1071: an active task reads its partition of each source topic that has that many partitions."""
    raw = kip_1071(
        instance(1, None, {"0": [0, 1]}, client_id="app-b"), topology={"0": (["t"], ["inner"], [])}, partitions=1
    )
    assert groups.topics_of_streams(raw) == {"t", "inner"}
    group = groups.streams(raw, racks=RACKS, cluster=view_of(t=[partition(1), partition(2)], inner=[partition(1)]))
    assert to_pairs(group.members[0].owned) == [("inner", 0), ("t", 0), ("t", 1)]
    assert {str(task): read for task, read in group.tasks} == {"0_0": (("inner", 0), ("t", 0)), "0_1": (("t", 1),)}
    assert (group.kind, group.members[0].rack.rack, group.members[0].rack.source) == ("streams", "b", "client-id")


def test_groups_that_cannot_be_described_are_shown_by_name() -> None:
    """A group that cannot be described, such as one of a later kind, is shown by name with a note."""
    group = groups.only_listed(ListedGroup(group="s", coordinator=1, protocol_type="later", state="", type="later"))
    assert (group.kind, group.owned_known, group.members) == ("other", False, ())
    assert "later" in group.note


def test_members_of_a_share_group_read_partitions_together() -> None:
    """KIP-932: which of them read what is not known; if all are in one rack, that is. Leaders serve them."""

    def member(name: str, rack: str | None, *numbers: int) -> shares.Member:
        run = shares.TopicPartitions(topic_id=None, topic_name=TopicName("t"), partitions=tuple(map(i32, numbers)))
        return shares.Member(
            member_id=name,
            rack_id=rack,
            member_epoch=i32(1),
            client_id="c",
            client_host="/10.0.0.9",
            subscribed_topic_names=(TopicName("t"),),
            assignment=shares.Assignment(topic_partitions=(run,)),
        )

    raw = shares.DescribedGroup(
        error_code=ErrorCode.none,
        group_id=GroupId("g"),
        group_state="Stable",
        group_epoch=i32(1),
        assignment_epoch=i32(1),
        assignor_name="simple",
        members=(member("m1", "a", 0, 1, 2), member("m2", "b", 0), member("m3", "a", 1), member("m4", None, 2)),
    )
    group = groups.share(raw, racks=RACKS)
    assert (group.kind, group.assignor, group.owned_known) == ("share", "simple", True)
    assert [member.rack.rack for member in group.members] == ["a", "b", "a", None]
    owners = groups.owners_of(group)
    assert {number: owner.rack.rack for (_, number), owner in owners.items()} == {0: None, 1: "a", 2: None}
    assert {(owner.id, owner.rack.fetches_with_rack) for owner in owners.values()} == {("", False)}


def streams_member(
    name: str, info: SubscriptionInfo | None, *pairs: tuple[str, int], rack: str | None = None
) -> Described:
    """A member of Kafka Streams on the classic protocol."""
    user_data = encode_subscription_info(info) if info is not None else b"?"
    return Described(
        member_id=name,
        member_metadata=encode_subscription(Subscription(topics=("t",), rack=rack, user_data=user_data)),
        member_assignment=encode_assignment(Assignment(partitions=from_pairs(pairs))),
    )


def test_streams_on_the_classic_protocol_names_its_client() -> None:
    """Process, endpoint, tags and tasks are from the info; the rack is from the subscription, else from a tag."""
    process = uuid.uuid4()
    task = StreamsTask(subtopology=0, partition=1)
    kept = StreamsTask(subtopology=1, partition=0)
    tagged = SubscriptionInfo(
        process_id=process,
        user_endpoint="host:1",
        task_offset_sums=((task, LATEST_OFFSET), (kept, 17)),
        client_tags=(("zone", "c"), ("team", "x")),
    )
    group = groups.classic(
        classic(streams_member("m1", tagged, ("t", 1)), streams_member("m2", tagged, rack="a"), protocol="stream"),
        racks=RACKS,
        agent="samerack",
    )
    first, second = group.members
    assert first.streams == StreamsClient(
        process_id=str(process),
        endpoint="host:1",
        tags=(("team", "x"), ("zone", "c")),
        active=("0_1",),
        standby=("1_0",),
    )
    assert (first.rack.rack, first.rack.source, first.rack.fetches_with_rack) == ("c", "client-tag", False)
    assert (second.rack.rack, second.rack.source) == ("a", "subscription")
    assert group.note == ""


def test_infos_that_cannot_be_read_are_noted() -> None:
    """A newer version hides the process; invalid bytes leave the member without client, and a note says why."""
    old = streams_member("old", SubscriptionInfo(version=1, process_id=uuid.uuid4()))
    future = Described(
        member_id="new",
        member_metadata=encode_subscription(
            Subscription(topics=("t",), user_data=(99).to_bytes(4, "big") + (99).to_bytes(4, "big"))
        ),
    )
    broken = streams_member("broken", None)
    group = groups.classic(classic(old, future, broken, protocol="stream"), racks=RACKS, agent="samerack")
    clients = {member.id: member.streams for member in group.members}
    assert clients["old"] is not None
    assert clients["new"] is not None
    assert clients["new"].process_id == ""
    assert clients["broken"] is None
    assert "broken: streams info" in group.note
