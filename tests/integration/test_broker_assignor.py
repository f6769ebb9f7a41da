"""Samerack's assignor in real brokers (KIP-848): members read in their racks, and follow what moves."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from lab.sandbox.admin import wait_until
from lab.sandbox.contract import RACKS
from lab.sandbox.jvm import BROKER_VERSION
from tests.integration.new_protocol import SPREAD, assignor, join, join_on_both_clients
from tests.integration.scene import INTERLEAVED, A, B, C, Scene

pytestmark = pytest.mark.skipif(BROKER_VERSION.startswith("3."), reason="brokers assign no groups before Kafka 4")


@pytest.mark.promise("With samerack's assignor in the brokers (KIP-848) members read in their own racks.")
def test_reads_come_into_the_members_racks(scene: Scene) -> None:
    """Members on librdkafka and Java have the partitions of their racks, and no record is lost."""
    scene.lay_out(SPREAD)
    join_on_both_clients(scene)
    scene.wait_settled(cross_rack=0)
    assert assignor(scene) == "samerack"
    scene.finish()


def test_moved_replicas_are_followed(scene: Scene) -> None:
    """KIP-1101: the brokers compute a new assignment when racks of replicas change; members need do nothing."""
    scene.lay_out(INTERLEAVED)
    for rack in (A, B, C):
        join(scene, "confluent", rack)
    scene.wait_settled(cross_rack=0)
    scene.admin.move_replicas({(scene.topic, 0): [2], (scene.topic, 1): [3], (scene.topic, 2): [1]})
    scene.wait_settled(cross_rack=0, timeout=45.0)
    scene.check_owned_once()
    scene.finish()


def test_members_without_racks_get_their_fair_share(scene: Scene) -> None:
    """Members with racks read near; one without a rack has as many partitions as they."""
    scene.lay_out(SPREAD)
    for rack in (A, B, C, ""):
        join(scene, "confluent", rack)
    scene.wait_settled()

    def near() -> bool:
        leaders = {partition: RACKS[placed.leader] for partition, placed in scene.admin.replicas(scene.topics).items()}
        return all(
            len(seat.member.owned) == 3 and all(seat.rack in ("", leaders[one]) for one in seat.member.owned)
            for seat in scene.seats
        )

    wait_until(near, "all are even, and those with a rack read there", timeout=30)
    scene.finish()


def test_static_members_that_change_racks_need_another_one_for_a_while(scene: Scene) -> None:
    """Brokers give a static member that comes back what it had; a dynamic one that joins for seconds brings a new plan.

    The advice of `samerack plan` says so. After restarting each member, and all of them, 6 of 9 partitions stayed far.
    """
    scene.lay_out(((1,), (2,), (3,)) * 3)
    for rack in (A, B, C):
        join(scene, "confluent", rack, group_instance_id=f"static-{rack}")
    scene.wait_settled(cross_rack=0)
    for rack, name in ((B, A), (C, B), (A, C)):
        scene.leave(scene.seats[0])
        join(scene, "confluent", rack, group_instance_id=f"static-{name}")
        scene.wait_settled()
    assert scene.cross_rack() > 0
    assert "start another consumer in it without group.instance.id" in _advice(scene)
    another = join(scene, "confluent", A)
    another.wait(lambda: bool(another.owned), "it has partitions")
    scene.leave(scene.seats[-1])
    scene.wait_settled(cross_rack=0)
    scene.finish()


def _advice(scene: Scene) -> str:
    line = [sys.executable, "-m", "samerack.cli.main", "plan", scene.group, "--json", "-b", scene.cluster.bootstrap]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["server"]["advice"])


@pytest.mark.promise(
    "A led group moves to KIP-848 member by member: the agent steps back, and the brokers' plan is near."
)
def test_a_led_group_moves_to_the_new_protocol(scene: Scene) -> None:
    """The agent leads the classic members, steps back when the first one changes, and the brokers read near too.

    Members change one by one, as in a deploy. No record is lost or read twice.
    """
    scene.lay_out(INTERLEAVED)
    agent = scene.waiting_agent()
    for rack in (A, B, C):
        scene.join("confluent", rack)
    scene.wait_led(agent, cross_rack=0)
    for seat in tuple(scene.seats):
        scene.leave(seat)
        join(scene, "confluent", seat.rack)
        scene.wait_settled()
    agent.wait_role("observing")
    assert scene.presence() is None
    scene.wait_settled(cross_rack=0)
    assert assignor(scene) == "samerack"
    scene.finish()
