"""Assignors in Python clients send, read and plan messages that members of all languages understand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocol, ConsumerProtocolMemberMetadata
from kafka.cluster import ClusterMetadata
from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka.protocol.metadata import MetadataResponse

from samerack.assignors.problem import AssignmentError
from samerack.plugins import aiokafka, kafka_python
from samerack.plugins.planning import NAMES
from samerack.protocol.consumer import decode_assignment, decode_subscription, encode_subscription
from samerack.protocol.sticky import decode_cooperative_sticky, decode_sticky
from samerack.protocol.values import Subscription, from_pairs, to_pairs

BROKERS = {0: "a", 1: "b", 2: None}
_ROWS = [*enumerate([[0], [1], [0], [1]])]
"""Each partition with its replicas."""


def cluster(client: str) -> Any:
    """Metadata of topic t as the client stores it."""
    if client == "kafka-python":
        sent = MetadataResponse(
            version=8,
            brokers=[
                MetadataResponse.MetadataResponseBroker(node_id=node, host="h", port=1, rack=rack)
                for node, rack in BROKERS.items()
            ],
            topics=[MetadataResponse.MetadataResponseTopic(name="t", partitions=[_placed(*one) for one in _ROWS])],
        )
        metadata = ClusterMetadata()
        metadata.update_metadata(MetadataResponse.decode(sent.encode(), version=8))
        return metadata
    brokers = [SimpleNamespace(nodeId=node, rack=rack) for node, rack in BROKERS.items()]
    partitions = {number: SimpleNamespace(replicas=nodes, leader=nodes[0]) for number, nodes in _ROWS}
    return SimpleNamespace(brokers=lambda: brokers, _partitions={"t": partitions})


def _placed(number: int, nodes: list[int]) -> Any:
    made = MetadataResponse.MetadataResponseTopic.MetadataResponsePartition
    return made(partition_index=number, leader_id=nodes[0], replica_nodes=nodes, isr_nodes=nodes)


def assigned(
    assignor: Any, members: dict[str, bytes], client: str = "kafka-python"
) -> dict[str, list[tuple[str, int]]]:
    """The assignment that a leader makes for members that sent these bytes."""
    subscriptions: Any
    if client == "kafka-python":
        subscriptions = [
            SimpleNamespace(
                member_id=member, group_instance_id=None, metadata=ConsumerProtocolSubscription.decode(data)
            )
            for member, data in members.items()
        ]
    else:
        subscriptions = {member: ConsumerProtocol.METADATA.decode(data) for member, data in members.items()}
    plan = assignor.assign(cluster(client), subscriptions)
    return {member: to_pairs(decode_assignment(data).partitions) for member, data in plan.items()}


@pytest.mark.parametrize("name", ["sticky", "range", "range-optimal"])
@pytest.mark.parametrize("client", ["kafka-python", "aiokafka"])
def test_members_read_in_their_rack(client: str, name: str) -> None:
    """Partitions go to members in the racks of their replicas, also to members of other languages."""
    make = kafka_python.assignor if client == "kafka-python" else aiokafka.assignor
    leader, java = make(name, rack="b"), Subscription(version=3, topics=("t", "absent"), rack="a")
    members = {"leader": leader.metadata(["t"]), "java": encode_subscription(java)}
    assert assigned(leader, members, client) == {"java": [("t", 0), ("t", 2)], "leader": [("t", 1), ("t", 3)]}


def _failing() -> dict[str, list[int]]:
    raise RuntimeError


@pytest.mark.parametrize("client", ["kafka-python", "aiokafka"])
def test_members_are_balanced_by_load(client: str) -> None:
    """By loads, with limits and capacities by name; by counts where loads cannot be had."""
    make: Any = kafka_python.assignor if client == "kafka-python" else aiokafka.assignor

    def counts(**options: Any) -> dict[str, int]:
        leader = make("sticky", **options)
        members = {"big-1": leader.metadata(["t"]), "canary-2": leader.metadata(["t"])}
        return {member: len(owned) for member, owned in assigned(leader, members, client).items()}

    assert sorted(counts(loads=lambda: {"t": [90, 30, 30, 30], "other": [1]}).values()) == [1, 3]
    assert counts(limits={"canary-*": 1}) == {"big-1": 3, "canary-2": 1}
    assert counts(capacities={"big-*": 3}) == {"big-1": 3, "canary-2": 1}
    assert counts(loads=_failing) == counts(loads=lambda: {"t": [1]}) == {"big-1": 2, "canary-2": 2}
    assert sorted(counts(loads=lambda: {"t": [90.4, 30.0, 29.6, 30.1]}).values()) == [1, 3]
    for wrong in (-1, float("nan"), float("inf"), 2**62, "90"):  # found: the leader's consumer ended
        assert counts(loads=lambda wrong=wrong: {"t": [wrong, 30, 30, 30]}) == {"big-1": 2, "canary-2": 2}
    with pytest.raises(
        AssignmentError, match="is exactly Kafka's, by counts; for loads and limits use one of range-opt"
    ):
        make("range", limits={"*": 1})
    negative: list[dict[str, Any]] = [{"limits": {"*": -1}}, {"max_skew": -1}]
    for options in (*negative, *({"capacities": {"*": wrong}} for wrong in (0, -2.0, float("inf"), 1e13))):
        with pytest.raises(AssignmentError, match=r"negative|above 0 and at most 1e\+12"):
            make("sticky", **options)
    with pytest.raises(AssignmentError, match="knows no max_skew"):
        make("range-optimal", max_skew=1)


def test_a_topic_that_is_read_no_more_is_not_claimed() -> None:
    """Found: the leader kept it from others until the member gave it up, which it had done before: nobody read it."""
    first = kafka_python.assignor(rack="a")
    whole = ConsumerProtocolAssignment(version=1, assigned_partitions=[("t", [0, 1]), ("u", [0])], user_data=b"")
    first.on_assignment(ConsumerProtocolAssignment.decode(whole.encode()), 7)
    assert to_pairs(decode_subscription(first.metadata(["t"])).owned) == [("t", 0), ("t", 1)]


def test_cooperative_members_give_up_first() -> None:
    """A partition that another member still owns is withheld for a round."""
    first = kafka_python.assignor(rack="a")
    assert first.supported_protocols() == [RebalanceProtocol.COOPERATIVE]
    whole = ConsumerProtocolAssignment(version=1, assigned_partitions=[("t", [0, 1, 2, 3])], user_data=b"")
    first.on_assignment(ConsumerProtocolAssignment.decode(whole.encode()), 7)
    sent = decode_subscription(first.metadata(["t"]))
    assert to_pairs(sent.owned) == [("t", n) for n in range(4)]
    assert (sent.generation, sent.rack, decode_cooperative_sticky(sent.user_data)) == (7, "a", 7)
    second = kafka_python.assignor(rack="b")
    members = {"first": first.metadata(["t"]), "second": second.metadata(["t"])}
    assert assigned(first, members) == {"first": [("t", 0), ("t", 2)], "second": []}


def test_sticky_sends_what_it_owns_as_kafka_does() -> None:
    """Sticky user data contains partitions and generation, so that any later leader keeps them."""
    member = kafka_python.assignor("sticky")
    assert decode_subscription(member.metadata(["t"])).user_data is None
    assert member.supported_protocols() == [RebalanceProtocol.EAGER]
    some = ConsumerProtocolAssignment(version=1, assigned_partitions=[("t", [3, 2])], user_data=b"")
    member.on_assignment(ConsumerProtocolAssignment.decode(some.encode()), 5)
    sent = decode_subscription(member.metadata(["t"]))
    claimed = decode_sticky(sent.user_data)
    assert (sorted(to_pairs(claimed.owned)), claimed.generation, len(sent.owned)) == ([("t", 2), ("t", 3)], 5, 0)
    other = kafka_python.assignor("sticky")
    given = assigned(other, {"a": other.metadata(["t"]), "b": member.metadata(["t"])})
    assert given["b"] == [("t", 2), ("t", 3)]


def test_aiokafka_remembers_without_a_generation() -> None:
    """Aiokafka does not know the generation, so claims have none."""
    member = aiokafka.assignor("sticky", rack="a")
    member.on_assignment(SimpleNamespace(partitions=lambda: [SimpleNamespace(topic="t", partition=1)]))
    claimed = decode_sticky(decode_subscription(member.metadata(["t"])).user_data)
    assert (to_pairs(claimed.owned), claimed.generation) == ([("t", 1)], -1)


def test_aiokafkas_own_assignors_read_as_before() -> None:
    """The fields that aiokafka itself reads of a subscription are unchanged."""
    aiokafka.assignor("sticky")
    data = encode_subscription(Subscription(version=3, topics=("t",), user_data=b"x", owned=from_pairs([("t", 1)])))
    read = ConsumerProtocol.METADATA.decode(data)
    assert isinstance(read, ConsumerProtocolMemberMetadata)
    assert (read.version, read.subscription, read.user_data) == (3, ["t"], b"x")


def test_leaders_only() -> None:
    """If brokers serve from leaders only, a single member still gets all partitions."""
    leader = kafka_python.assignor("sticky", rack="a", follower_fetching=False)
    assert leader.name == "sticky"
    given = assigned(leader, {"m": leader.metadata(["t"])})
    assert len(given["m"]) == 4


def test_unknown_names_are_refused() -> None:
    """The error for an unknown assignor lists the known ones."""
    with pytest.raises(AssignmentError, match=f"give one of {', '.join(NAMES)}"):
        kafka_python.assignor("lagom")
    with pytest.raises(AssignmentError, match="rebalances eagerly"):
        aiokafka.assignor("cooperative-sticky")
