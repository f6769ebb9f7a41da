"""Helpers of the tests of groups that brokers assign (KIP-848)."""

from __future__ import annotations

from typing import Final

from lab.sandbox.members.process import Member
from tests.integration.scenario import Scenario

SPREAD: Final = ((1,), (2,), (3,)) * 4
"""Twelve partitions, four of which can be read in any one rack."""


def join(scenario: Scenario, client: str, rack: str, **properties: str) -> Member:
    """Start a member of the new protocol."""
    return scenario.join(client, rack, assignor="", heartbeat_interval_ms="", group_protocol="consumer", **properties)


def join_each(scenario: Scenario, *clients: str) -> None:
    """Start a member on each of these clients, in the racks in turn."""
    scenario.join_each(*clients, assignor="", heartbeat_interval_ms="", group_protocol="consumer")


def assignor(scenario: Scenario) -> str:
    """The group's assignor, as its coordinator describes it."""
    return str(scenario.describe().partition_assignor)
