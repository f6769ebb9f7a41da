"""The agent is a guest: groups whose consumers have gone are as they would be without an agent.

Each test does to a group what operators do, with an agent that led it a moment ago.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from sandbox.admin import Admin, wait_until
from sandbox.agent_process import AgentProcess
from sandbox.contract import KafkaCluster
from sandbox.errors import SandboxError
from sandbox.jvm import BROKER_VERSION
from tests.integration import guest
from tests.integration.guest import (
    RETENTION_SECONDS,
    TOOL_SECONDS,
    committed,
    consumer_groups,
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


@pytest.fixture
def cluster(guest_cluster: KafkaCluster) -> KafkaCluster:
    """The cluster of these tests."""
    return guest_cluster


@pytest.fixture
def alone(cluster: KafkaCluster, admin: Admin, tmp_path: Path) -> Iterator[Scene]:
    """A second group, which has no agent."""
    with Scene(cluster, admin, folder=tmp_path) as opened:
        yield opened


def _led(scene: Scene, *, assignor: str = "range", **properties: str) -> AgentProcess:
    """An agent that is there first, and leads a group of two Java members that have begun to read."""
    agent = scene.agent()
    wait_watching(agent)
    for rack in (A, B):
        scene.join("java", rack, assignor=assignor, **properties)
    scene.wait_settled()
    agent.wait_role("leading")
    return agent


def _reads_everything(scene: Scene) -> None:
    """Holds that a new record of each partition is read."""
    ends = scene.admin.ends([scene.topic])
    write(scene, _PARTITIONS)
    (seat,) = scene.seats
    seat.member.wait(
        lambda: all(seat.member.last_read(partition) >= end for partition, end in ends.items()),
        "it reads what has been written",
    )


def test_offsets_expire_no_sooner_than_without_an_agent(scene: Scene, alone: Scene) -> None:
    """Offsets older than the retention outlive the last consumer by the retention: what it missed is read.

    Both groups are idle until their commits are older than the retention, which hurts no group with consumers. Then
    the consumers stop, records are written, and others start five seconds later with `auto.offset.reset=latest`: they
    read those records only if the offsets are still there.
    """
    for one in (scene, alone):
        place(one, _PARTITIONS)
        write(one, _PARTITIONS)
        set_offsets(one, _PARTITIONS, 1)
    commit = time.monotonic()
    agent = scene.agent()
    wait_watching(agent)
    for one in (scene, alone):  # idle partitions keep their old commits where commits are the application's
        one.join("confluent", A, enable_auto_commit="false")
        one.wait_settled()
    agent.wait_role("leading")
    while (left := commit + RETENTION_SECONDS + 1 - time.monotonic()) > 0:
        time.sleep(left)
    assert [len(committed(one)) for one in (scene, alone)] == [_PARTITIONS, _PARTITIONS]
    for one in (scene, alone):
        leave_all(one)
        write(one, _PARTITIONS)
    time.sleep(5.0)  # brokers look for old offsets once a second
    kept = {name: len(committed(one)) for name, one in (("with an agent", scene), ("without", alone))}
    read = {}
    for name, one in (("with an agent", scene), ("without", alone)):
        member = one.join("confluent", A, auto_offset_reset="latest", enable_auto_commit="false")
        one.wait_settled()
        with suppress(SandboxError):  # what is not read is told below
            member.wait(lambda: len(records(member)) >= _PARTITIONS, "all is read", timeout=10)  # noqa: B023 - waited for here
        read[name] = len(records(member))
    assert (kept, read) == (dict.fromkeys(kept, _PARTITIONS), dict.fromkeys(read, _PARTITIONS))
    agent.wait_role("leading")


@pytest.mark.parametrize("before", ["range", "range,homegrown"])
def test_a_foreign_assignor_starts_when_the_last_consumer_has_left(scene: Scene, before: str) -> None:
    """A consumer that offers only a name that the agent does not have is not refused, nor after a roll to that name."""
    place(scene, _PARTITIONS)
    agent = _led(scene, assignor=before)
    leave_all(scene)
    scene.join("java", A, assignor="homegrown")
    scene.wait_settled()
    _reads_everything(scene)
    assert scene.presence() is None
    assert agent.running


def test_tools_work_when_the_last_consumer_has_left(scene: Scene) -> None:
    """Two seconds later kafka-consumer-groups.sh resets offsets and deletes the group; consumers then start anew."""
    place(scene, _PARTITIONS)
    write(scene, _PARTITIONS)
    agent = _led(scene, auto_commit_interval_ms="100")
    wait_until(lambda: len(committed(scene)) == _PARTITIONS, "all offsets are committed")
    left = leave_all(scene)
    assert set(committed(scene).values()) == {1}
    time.sleep(max(0.0, left + TOOL_SECONDS - time.monotonic()))
    consumer_groups(scene, "--reset-offsets", "--to-earliest", "--topic", scene.topic, "--execute")
    assert committed(scene) == {(scene.topic, number): 0 for number in range(_PARTITIONS)}
    assert "was successful" in consumer_groups(scene, "--delete")
    assert not is_known(scene, scene.group)
    scene.join("java", A)
    scene.wait_settled()
    _reads_everything(scene)
    agent.wait_role("leading")


@pytest.mark.skipif(BROKER_VERSION.startswith("3."), reason="brokers assign no groups before Kafka 4")
def test_the_new_protocol_starts_when_the_last_consumer_has_left(scene: Scene) -> None:
    """Where brokers convert no groups, an empty one takes a consumer of the new protocol (KIP-848) all the same."""
    assert guest.PROPERTIES["group.consumer.migration.policy"] == "disabled"
    place(scene, _PARTITIONS)
    _led(scene)
    leave_all(scene)
    scene.join("confluent", A, assignor="", heartbeat_interval_ms="", group_protocol="consumer")
    scene.wait_settled()
    _reads_everything(scene)
