"""The agent is a guest: groups whose consumers have left behave as without an agent.

Each test does an operator's task on a group that the agent led a moment ago.
"""

from __future__ import annotations

from typing import Final

import pytest

from lab.sandbox.admin import wait_until
from lab.sandbox.agent_process import AgentProcess
from tests.integration.guest import (
    committed,
    delete,
    is_known,
    leave_all,
    place,
    set_offsets,
    wait_watching,
    write,
)
from tests.integration.scene import A, B, Scene

_PARTITIONS: Final = 12


def _led(scene: Scene, *, assignor: str = "range", **properties: str) -> AgentProcess:
    """Starts an agent before the members; it leads a group of two Java members."""
    agent = scene.agent()
    wait_watching(agent)
    for rack in (A, B):
        scene.join("java", rack, assignor=assignor, **properties)
    scene.wait_settled()
    agent.wait_role("leading")
    return agent


def _reads_everything(scene: Scene) -> None:
    """Waits until the member has read a new record of each partition."""
    ends = scene.admin.ends([scene.topic])
    write(scene, _PARTITIONS)
    (seat,) = scene.seats
    seat.member.wait(
        lambda: all(seat.member.last_read(partition) >= end for partition, end in ends.items()),
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
def test_a_foreign_assignor_starts_when_the_last_consumer_has_left(scene: Scene, before: str) -> None:
    """A consumer with only an assignor that the agent does not offer is accepted, also after a rolling change to it."""
    place(scene, _PARTITIONS)
    agent = _led(scene, assignor=before)
    leave_all(scene)
    scene.join("java", A, assignor="homegrown")
    scene.wait_settled()
    _reads_everything(scene)
    assert scene.presence() is None
    assert agent.running


@pytest.mark.promise("Offsets of a led group can be reset, and the group deleted, once its last consumer has left.")
def test_tools_work_when_the_last_consumer_has_left(scene: Scene) -> None:
    """Tools reset offsets and delete the group; new consumers then start."""
    place(scene, _PARTITIONS)
    write(scene, _PARTITIONS)
    agent = _led(scene, auto_commit_interval_ms="100")
    wait_until(lambda: list(committed(scene).values()) == [1] * _PARTITIONS, "every record is read and committed")
    leave_all(scene)
    set_offsets(scene, [0] * _PARTITIONS)
    assert committed(scene) == {(scene.topic, number): 0 for number in range(_PARTITIONS)}
    delete(scene)
    assert not is_known(scene, scene.group)
    scene.join("java", A)
    scene.wait_settled()
    _reads_everything(scene)
    agent.wait_role("leading")
