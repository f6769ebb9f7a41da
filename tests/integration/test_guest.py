"""The agent is a guest: groups whose consumers have left behave as without an agent.

Each test does an operator's task on a group that the agent led a moment ago.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

import pytest

from sandbox.admin import wait_until
from sandbox.agent_process import AgentProcess
from sandbox.errors import SandboxError
from sandbox.jvm import BROKER_VERSION
from tests.integration import guest
from tests.integration.guest import (
    RETENTION_SECONDS,
    committed,
    delete,
    is_known,
    leave_all,
    place,
    records,
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


@pytest.mark.guest_broker
def test_offsets_expire_no_sooner_than_without_an_agent(scene: Scene, other: Scene) -> None:
    """Offsets older than the retention survive the last consumer: a later consumer reads the records in between.

    Both groups are idle until their commits are older than the retention; with consumers none of them expires. Then
    the consumers stop, records are written, and others start five seconds later with `auto.offset.reset=latest`: they
    read those records only if the offsets are still there.
    """
    for one in (scene, other):
        place(one, _PARTITIONS)
        write(one, _PARTITIONS)
        set_offsets(one, [1] * _PARTITIONS)
    commit = time.monotonic()
    agent = scene.agent()
    wait_watching(agent)
    for one in (scene, other):  # without auto-commit, idle partitions keep their old commits
        one.join("confluent", A, enable_auto_commit="false")
        one.wait_settled()
    agent.wait_role("leading")
    while (left := commit + RETENTION_SECONDS + 1 - time.monotonic()) > 0:
        time.sleep(left)
    assert [len(committed(one)) for one in (scene, other)] == [_PARTITIONS, _PARTITIONS]
    for one in (scene, other):
        leave_all(one)
        write(one, _PARTITIONS)
    time.sleep(5.0)  # brokers check for expired offsets once a second
    kept = {name: len(committed(one)) for name, one in (("with an agent", scene), ("without", other))}
    read = {}
    for name, one in (("with an agent", scene), ("without", other)):
        member = one.join("confluent", A, auto_offset_reset="latest", enable_auto_commit="false")
        one.wait_settled()
        with suppress(SandboxError):  # the assertion below reports what is not read
            member.wait(lambda: len(records(member)) >= _PARTITIONS, "all is read", timeout=10)  # noqa: B023 - waited for here
        read[name] = len(records(member))
    assert (kept, read) == (dict.fromkeys(kept, _PARTITIONS), dict.fromkeys(read, _PARTITIONS))
    agent.wait_role("leading")


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


@pytest.mark.guest_broker
@pytest.mark.skipif(BROKER_VERSION.startswith("3."), reason="brokers assign no groups before Kafka 4")
def test_the_new_protocol_starts_when_the_last_consumer_has_left(scene: Scene) -> None:
    """If brokers convert no groups, an empty one still accepts a consumer of the new protocol (KIP-848)."""
    assert guest.PROPERTIES["group.consumer.migration.policy"] == "disabled"
    place(scene, _PARTITIONS)
    _led(scene)
    leave_all(scene)
    scene.join("confluent", A, assignor="", heartbeat_interval_ms="", group_protocol="consumer")
    scene.wait_settled()
    _reads_everything(scene)
