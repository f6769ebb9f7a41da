"""A coordinator that metadata do not list yet, and polls that fail: the agent joins when the group waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import errors as kafka_errors

from samerack.agent.leading.membership import Membership
from samerack.agent.metrics import Metrics
from samerack.cluster.client import close, connect
from samerack.common.kafka_config import for_kafka_python
from samerack.common.settings import LeadingSettings
from tests.unit.agent.leading.scripted import clear_away, leader_of
from tests.unit.cluster.scripted_broker import REBALANCE_IN_PROGRESS, ScriptedBroker
from tests.unit.waiting import until

_UNKNOWN_SERVER_ERROR = -1


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """A broker whose answers the test sets."""
    one = ScriptedBroker()
    yield one
    one.close()
    clear_away()


def test_a_coordinator_that_was_just_started_is_found(broker: ScriptedBroker) -> None:
    """A started broker coordinates before it is in the metadata, which were refreshed only minutes later."""
    broker.listed_as = 7
    client = connect(for_kafka_python({"bootstrap.servers": broker.address}))
    try:
        membership = Membership(
            client, group="orders", settings=LeadingSettings(), assign=lambda _: {}, wake=lambda: None
        )
        with pytest.raises(kafka_errors.NodeNotReadyError):
            membership.describe()
        threading.Timer(0.2, lambda: setattr(broker, "listed_as", 1)).start()
        assert membership.describe().members
    finally:
        close(client)


def test_a_look_that_fails_keeps_no_group_waiting(broker: ScriptedBroker) -> None:
    """Each turn failed at its poll, while heartbeats kept the membership alive: the group waited for minutes."""
    leader = leader_of(broker, "orders", Metrics())
    leader.start()
    try:
        assert until(lambda: broker.count("Heartbeat") > 2), "it follows"
        begun = time.monotonic()

        def waits(api: str, _request: Any) -> int:
            if api == "DescribeGroups":
                return _UNKNOWN_SERVER_ERROR
            rejoined = broker.count("JoinGroup", begun) > 0
            return REBALANCE_IN_PROGRESS if api == "Heartbeat" and not rejoined else 0

        broker.script = waits
        assert until(lambda: broker.count("JoinGroup", begun) > 0)
    finally:
        leader.stop()
        leader.join()
