"""What the agent puts behind its subscription to be heard: nothing that a leader's assignor could trip over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as AiokafkaSticky
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as KafkaPythonSticky
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from agent.leading.membership import user_data
from protocol.sticky import decode_cooperative_sticky, decode_sticky

TOPIC = "t"
PARTITIONS = {0, 1, 2, 3}
CLUSTER: Any = SimpleNamespace(
    partitions_for_topic=lambda _topic: PARTITIONS,
    topics=lambda: {TOPIC},
    available_partitions_for_topic=lambda _: PARTITIONS,
)
NUDGES = (0, 1, 2, 1000)


@pytest.mark.parametrize("nudges", NUDGES)
def test_aiokafkas_sticky_leader_bears_it(nudges: int) -> None:
    """It iterates over the former partitions: it died of a list of length -1, and its application with it."""
    members = {
        "m": ConsumerProtocolMemberMetadata(0, [TOPIC], b""),
        "agent": ConsumerProtocolMemberMetadata(0, [], user_data("sticky", nudges) or b""),
    }
    assigned = AiokafkaSticky.assign(CLUSTER, members)
    assert len(assigned["m"].partitions()) == len(PARTITIONS)
    assert not assigned["agent"].partitions()


@pytest.mark.parametrize("nudges", NUDGES)
def test_kafka_pythons_sticky_leader_bears_it(nudges: int) -> None:
    """The same code, in a later version."""
    data = user_data("sticky", nudges) or b""
    members = [
        ("m", ConsumerProtocolSubscription(0, [TOPIC], b"")),
        ("agent", ConsumerProtocolSubscription(0, [], data)),
    ]
    group = [SimpleNamespace(member_id=one, group_instance_id=None, metadata=metadata) for one, metadata in members]
    assigned = KafkaPythonSticky().assign(CLUSTER, group)
    assert len(assigned["m"].partitions()) == len(PARTITIONS)
    assert not assigned["agent"].partitions()


def test_it_claims_nothing_of_a_generation_that_anybody_has() -> None:
    """Else partitions that others claim of theirs would not count; and it is another one each time."""
    for nudges in NUDGES[1:]:
        claimed = decode_sticky(user_data("sticky", nudges))
        assert (len(claimed.owned), claimed.generation) == (0, -1 - nudges)
        assert decode_cooperative_sticky(user_data("cooperative-sticky", nudges)) == -1 - nudges
    assert user_data("sticky", 0) is None
