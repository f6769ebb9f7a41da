"""The agent's user data, which start a rebalance: no leader's assignor may fail on them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as AiokafkaSticky
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as KafkaPythonSticky
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from samerack.agent.leading.join_metadata import user_data

TOPIC = "t"
PARTITIONS = {0, 1, 2, 3}
CLUSTER: Any = SimpleNamespace(
    partitions_for_topic=lambda _topic: PARTITIONS,
    topics=lambda: {TOPIC},
    available_partitions_for_topic=lambda _: PARTITIONS,
)
NUDGES = (0, 1, 2, 1000)


@pytest.mark.parametrize("nudges", NUDGES)
def test_sticky_leaders_bear_it(nudges: int) -> None:
    """Their assignors iterate over the former partitions: a list of length -1 made one and its application fail."""
    data = user_data("sticky", nudges) or b""
    of_aiokafka = AiokafkaSticky.assign(
        CLUSTER,
        {
            "m": ConsumerProtocolMemberMetadata(0, [TOPIC], b""),
            "agent": ConsumerProtocolMemberMetadata(0, [], data),
        },
    )
    members = [
        ("m", ConsumerProtocolSubscription(0, [TOPIC], b"")),
        ("agent", ConsumerProtocolSubscription(0, [], data)),
    ]
    group = [SimpleNamespace(member_id=one, group_instance_id=None, metadata=metadata) for one, metadata in members]
    for assigned in (of_aiokafka, KafkaPythonSticky().assign(CLUSTER, group)):
        assert len(assigned["m"].partitions()) == len(PARTITIONS)
        assert not assigned["agent"].partitions()
