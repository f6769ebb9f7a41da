"""Which of several agents publishes a group."""

from __future__ import annotations

from agent.election.election import Alone
from agent.publishing.duties import publishes
from common.settings import Settings, load


class Elected(Alone):
    """An agent that is active for some duties."""

    def __init__(self, *duties: str) -> None:
        self._duties = duties

    def is_active(self, duty: str) -> bool:
        """Only for those."""
        return duty in self._duties


def settings() -> Settings:
    """Two groups to lead, and patterns that overlap with them and with each other."""
    flags = {
        "kafka": {"bootstrap.servers": "x"},
        "groups": ["orders", "payments"],
        "traffic": {"groups": ["orders*", "*"]},
    }
    return load(flags=flags, environment={})


def test_the_agent_that_is_elected_publishes() -> None:
    """Leading goes before observing, and the first pattern before the others: one agent for each group."""
    groups = ("orders", "payments", "orders-eu", "reports")
    shown = [
        [group for group in groups if publishes(settings(), standing)(group)]
        for standing in (
            Elected("lead orders"),
            Elected("lead payments", "observe orders*"),
            Elected("observe *"),
            Elected(),
            Alone(),
        )
    ]
    assert shown == [["orders"], ["payments", "orders-eu"], ["reports"], [], list(groups)]
