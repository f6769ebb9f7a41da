"""How much is asked and kept at a time: one request per broker, one key per partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError
from kafka.protocol.metadata import ApiVersionsRequest
from kio.schema.describe_share_group_offsets.v0 import response as share
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i64

from samerack.cluster.wire import BrokerClient, BrokerRequest, BrokerResponse, in_turns
from samerack.settings.all_settings import Settings
from samerack.traffic.broker_poller import BrokerPoller, GroupReading
from samerack.traffic.collect import Keys, Offsets, Partition, local_starts, plain_key
from samerack.traffic.describe import Commits, committed, listed
from samerack.traffic.groups import ListedGroup
from samerack.traffic.positions import CommitSpans, Position, Positions
from samerack.traffic.snapshot import Uncounted
from tests.unit.agent.values import partition, view_of
from tests.unit.cluster.scripted_wire import ScriptedBrokerClient, offsets_response
from tests.unit.traffic.test_exact import group, member


def positions(offsets: dict[Partition, int]) -> Positions:
    """Where a group is that has committed these at the end of each log."""
    return {
        partition: Position(committed=offset, offset=offset, counted=offset, at=0.0, end=offset)
        for partition, offset in offsets.items()
    }


def committing(offsets: dict[Partition, int]) -> GroupReading:
    """What is known of a group that has committed these now."""
    return GroupReading(group=group(), owners={}, committed=offsets, commits=Commits(offsets=offsets))


class Recorded(BrokerClient):
    """Answers each request with its subject, and stores which brokers were asked together."""

    def __init__(self) -> None:
        super().__init__({})
        self.asked: list[list[int]] = []

    def ask(self, questions: Sequence[BrokerRequest], timeout: float = 10.0) -> list[BrokerResponse]:  # noqa: ARG002 - as in the original
        """Answer without a broker."""
        self.asked.append([question.broker for question in questions])
        return [BrokerResponse(question=question, response=question.about) for question in questions]


def test_many_questions_go_out_in_turns() -> None:
    """Each broker has one request at a time, all brokers in parallel, and every request is answered once."""
    wire = Recorded()
    questions = [
        BrokerRequest(broker=broker, request=ApiVersionsRequest(), about=number)
        for number, broker in enumerate(in_turns([[1, 1, 1], [2, 2], [3]]))
    ]
    assert [answer.response for answer in wire.ask_in_batches(questions)] == list(range(6))
    assert wire.asked == [[1, 2, 3], [1, 2], [1]]
    assert list(wire.ask_in_batches([])) == []


def test_requests_are_made_when_their_turn_comes() -> None:
    """Those for hundreds of thousands of partitions were all made before the first was sent."""
    wire, made = Recorded(), list[int]()

    def questions() -> Iterator[BrokerRequest]:
        for broker in in_turns([[1] * 9, [2] * 9]):
            made.append(broker)
            yield BrokerRequest(broker=broker, request=ApiVersionsRequest(), about=len(made))

    for answer in wire.ask_in_batches(questions()):
        assert len(made) <= answer.response + 2
    assert len(made) == 18


def test_agents_own_groups_are_not_listed() -> None:
    """The agents' own groups are left out even if a pattern matches, because they read nothing."""

    class Listing(Recorded):
        def ask(self, questions: Sequence[BrokerRequest], timeout: float = 10.0) -> list[BrokerResponse]:  # noqa: ARG002 - see above
            group = partial(SimpleNamespace, group_state="Stable", group_type="Classic")
            groups = [
                group(group_id=name, protocol_type=kind)
                for name, kind in (
                    ("orders", "consumer"),
                    ("samerack", "samerack"),
                    ("samerack-waiting-07", "samerack"),
                )
            ]
            response = SimpleNamespace(error_code=0, groups=groups)
            return [BrokerResponse(question=question, response=response) for question in questions]

    found = listed(Listing(), [1], ["*"])
    assert (set(found.groups), found.brokers, found.gaps) == ({"orders"}, frozenset({1}), [])


def test_a_group_that_stands_still_is_compared_with_what_can_be_read() -> None:
    """Only where an offset stays below the end; an open transaction holds it up, at the last stable offset."""
    asked: list[tuple[int, str, list[int]]] = []

    def answer(question: BrokerRequest) -> Any:
        (topic,) = question.request.topics
        asked.append((question.request.isolation_level, topic.name, [one.partition_index for one in topic.partitions]))
        return offsets_response(question.request, lambda _topic, _number: 12)

    poller = BrokerPoller(Settings(kafka={"bootstrap.servers": "h:1"}), ScriptedBrokerClient(answer))
    state = poller.state
    state.cluster = view_of(t=[partition(1)] * 4)
    state.logs = {("t", number): Offsets(start=0, end=20) for number in range(3)}
    before = CommitSpans(positions=positions({("t", 0): 10, ("t", 1): 9, ("t", 2): 20, ("t", 3): 5}))
    state.groups = {"g": GroupReading(group=group(), owners={}, committed={}, spans=before)}
    now = {("t", 0): 10, ("t", 1): 12, ("t", 2): 20, ("t", 3): 5}
    poller._poll_stable({"g": committing(now), "new": committing({("t", 1): 3})})
    assert asked == [(1, "t", [0])]
    assert state.stable == {("t", 0): 12}
    poller._poll_stable({"g": committing({("t", 0): 11})})
    assert (len(asked), state.stable) == (1, {})


@pytest.mark.parametrize(("same", "counts"), [(True, True), (False, False)])
def test_members_on_clients_of_two_kinds(same: bool, counts: bool) -> None:  # noqa: FBT001 - columns of the table
    """Java's members commit with leader epochs and sarama's without: what these read was taken for moved offsets.

    A member that stays has committed itself; of one that has just come a tool may have done it before.
    """
    poller = BrokerPoller(Settings(kafka={"bootstrap.servers": "h:1"}), ScriptedBrokerClient(lambda _: None))
    state, java, sarama = poller.state, member("java", "c", 0), member("sarama", "d", 1)
    owners = {("t", 0): java, ("t", 1): sarama}
    state.groups["g"] = GroupReading(
        group=group(java, sarama),
        owners=owners if same else {**owners, ("t", 1): member("former", "e", 1)},
        committed={},
        with_epochs=True,
        spans=CommitSpans(positions=positions({("t", 0): 10, ("t", 1): 10})),
    )
    state.logs = dict.fromkeys(owners, Offsets(start=0, end=20))
    commits = Commits(offsets=dict.fromkeys(owners, 20), bare=frozenset({("t", 1)}))
    one = poller._reading(group(java, sarama), None, commits, missed=0)
    assert one.owners == owners
    poller._find_spans({"g": one}, {}, now=5.0)
    found = one.spans
    assert [span.partition[1] for span in found.spans] == ([0, 1] if counts else [0])
    assert found.left == ({} if counts else {Uncounted.MOVED: 10})


def test_where_a_disk_begins_is_asked_of_tiered_topics() -> None:
    """Brokers answer by version 8; what fails is left out."""
    asked: list[tuple[int, int]] = []

    def answer(question: BrokerRequest) -> Any:
        asked.append((question.request.topics[0].partitions[0].timestamp, question.request._max_version))
        return KafkaConnectionError() if question.broker == 2 else offsets_response(question.request, lambda *_: 0)

    found = local_starts(ScriptedBrokerClient(answer), {1: [("t", 0)], 2: [("t", 1)]}, plain_key)
    assert (found, asked) == ({("t", 0): 0}, [(-4, 8)] * 2)


def test_a_partition_has_one_key() -> None:
    """The same object is returned each time; partitions that are gone are forgotten once they are the majority."""
    keys = Keys()
    topic = "".join(["t", "opic"])  # not the same text as below
    first = keys(topic, 1)
    assert keys("topic", 1) is first
    keys.keep([first])
    assert keys("topic", 1) is first
    for number in range(10):
        keys("gone", number)
    kept = keys("topic", 2)
    keys.keep([first, kept])
    assert keys("topic", 1) is first
    assert keys("topic", 2) is kept


@pytest.mark.parametrize("number", [-1, 2**31 - 1])
def test_a_partition_that_no_topic_has_needs_one_key(number: int) -> None:
    """Members' assignments are their own bytes: keys up to that number would fill the agent's memory."""
    keys = Keys()
    keys("t", 0)
    assert keys("t", number) == ("t", number)


def test_where_a_share_group_goes_on_stands_for_its_commits() -> None:
    """Brokers keep it, by another request than commits (KIP-932); a partition that nobody has read yet has none."""

    class Wired(Recorded):
        def ask(self, questions: Sequence[BrokerRequest], timeout: float = 10.0) -> list[BrokerResponse]:  # noqa: ARG002 - as above
            answers = {"s": _share_offsets(), "c": _offsets()}
            return [BrokerResponse(question=one, response=answers[one.about[0]]) for one in questions]

    def group(name: str, kind: str) -> ListedGroup:
        return ListedGroup(group=name, coordinator=1, protocol_type="", state="Stable", type=kind)

    found, gaps = committed(Wired(), [group("s", "share"), group("c", "classic")], plain_key, before={})
    assert found == {
        "s": Commits(offsets={("t", 0): 7}, failed=frozenset({("t", 2)}), with_epochs=True),
        "c": Commits(offsets={("t", 0): 5}, with_epochs=True),
    }
    assert [gap.where for gap in gaps] == ["s, topic t"]


def _share_offsets() -> Any:
    parts = [
        share.DescribeShareGroupOffsetsResponsePartition(
            partition_index=i32(number), start_offset=i64(offset), leader_epoch=i32(-1), error_code=code
        )
        for number, (offset, code) in enumerate(
            [(7, ErrorCode.none), (-1, ErrorCode.none), (-1, ErrorCode.not_coordinator)]
        )
    ]
    topic = share.DescribeShareGroupOffsetsResponseTopic(
        topic_name=TopicName("t"), topic_id=None, partitions=tuple(parts)
    )
    group = share.DescribeShareGroupOffsetsResponseGroup(
        group_id=GroupId("s"), topics=(topic,), error_code=ErrorCode.none
    )
    return SimpleNamespace(groups=[group])


def _offsets() -> Any:
    one = SimpleNamespace(partition_index=0, committed_offset=5, committed_leader_epoch=0, error_code=0)
    topic = SimpleNamespace(name="t", partitions=[one])
    return SimpleNamespace(groups=[SimpleNamespace(group_id="c", error_code=0, topics=[topic])])
