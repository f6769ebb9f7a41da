"""Helpers of the tests of groups that brokers assign (KIP-848)."""

from __future__ import annotations

from typing import Final

from lab.sandbox.members.process import Member
from tests.integration.scenario import A, B, C, Scenario

SPREAD: Final = ((1,), (2,), (3,)) * 4
"""Twelve partitions, four of which can be read in any one rack."""


def join(scenario: Scenario, client: str, rack: str, **properties: str) -> Member:
    """Start a member of the new protocol."""
    return scenario.join(client, rack, assignor="", heartbeat_interval_ms="", group_protocol="consumer", **properties)


def join_on_both_clients(scenario: Scenario, **properties: str) -> None:
    """Start a member in each rack on Java, then on librdkafka, and wait until each partition has its owner."""
    for client in ("java", "confluent"):
        for rack in (A, B, C):
            join(scenario, client, rack, **properties)
        scenario.wait_settled()


def assignor(scenario: Scenario) -> str:
    """The group's assignor, as its coordinator describes it."""
    return str(scenario.describe().partition_assignor)
