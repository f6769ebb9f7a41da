"""The agent is a guest: groups whose consumers have left behave as without an agent.

Each test does an operator's task on a group that the agent led a moment ago.
"""

from __future__ import annotations

from typing import Final

import pytest

from lab.sandbox.admin import wait_until
from lab.sandbox.agent_process import AgentProcess
from tests.integration.guest import leave_all, place, set_offsets, wait_watching, write
from tests.integration.scenario import A, Scenario

_PARTITIONS: Final = 12


def _led(scenario: Scenario, *, assignor: str = "range", **properties: str) -> AgentProcess:
    """Start an agent before the members; it leads a group of two Java members."""
    agent = scenario.agent()
    wait_watching(agent)
    scenario.join_each("java", "java", assignor=assignor, **properties)
    scenario.wait_settled()
    agent.wait_role("leading")
    return agent


def _reads_everything(scenario: Scenario) -> None:
    """Wait until the member has read a new record of each partition."""
    ends = scenario.admin.ends([scenario.topic])
    write(scenario, _PARTITIONS)
    (one,) = scenario.participants
    one.member.wait(
        lambda: all(one.member.last_read(partition) >= end for partition, end in ends.items()),
        "it reads what has been written",
    )


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(
            "range",
            marks=pytest.mark.promise(
                "A consumer with an assignor that the agent does not offer starts in a group that was led."
            ),
        ),
        "range,homegrown",
    ],
)
def test_a_foreign_assignor_starts_when_the_last_consumer_has_left(scenario: Scenario, before: str) -> None:
    """A consumer with only an assignor that the agent does not offer is accepted, also after a rolling change to it."""
    place(scenario, _PARTITIONS)
    agent = _led(scenario, assignor=before)
    leave_all(scenario)
    scenario.join("java", A, assignor="homegrown")
    scenario.wait_settled()
    _reads_everything(scenario)
    assert scenario.agent_member() is None
    assert agent.running


@pytest.mark.promise("Offsets of a led group can be reset, and the group deleted, once its last consumer has left.")
def test_tools_work_when_the_last_consumer_has_left(scenario: Scenario) -> None:
    """Tools reset offsets and delete the group; new consumers then start."""
    place(scenario, _PARTITIONS)
    write(scenario, _PARTITIONS)
    agent = _led(scenario, auto_commit_interval_ms="100")
    wait_until(
        lambda: list(scenario.asked.offsets().values()) == [1] * _PARTITIONS, "every record is read and committed"
    )
    leave_all(scenario)
    set_offsets(scenario, [0] * _PARTITIONS)
    assert scenario.asked.offsets() == {(scenario.topic, number): 0 for number in range(_PARTITIONS)}
    scenario.asked.delete()
    assert scenario.describe().state.name == "DEAD"
    scenario.join("java", A)
    scenario.wait_settled()
    _reads_everything(scenario)
    agent.wait_role("leading")
