"""Samerack's assignor in real brokers (KIP-848): what members read across racks with it, by the kernel's counts.

All tests share one cluster of JVM processes whose brokers have the assignor; a test that takes it away puts it back.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from samerack.cluster.server_assignors import LINE
from sandbox import broker_assignor
from sandbox.admin import wait_until
from sandbox.cluster import Cluster
from sandbox.contract import RACKS
from sandbox.jvm import BROKER_VERSION
from sandbox.members.process import Member
from sandbox.sockets import measure
from tests.integration.scene import INTERLEAVED, A, B, C, Scene, Seat

pytestmark = [
    pytest.mark.own_cluster,
    pytest.mark.skipif(BROKER_VERSION.startswith("3."), reason="brokers assign no groups before Kafka 4"),
]

SPREAD: Final = ((1,), (2,), (3,)) * 4
"""Twelve partitions, four of which can be read in any one rack."""
QUICK: Final = {"group.consumer.min.heartbeat.interval.ms": "1000", "group.consumer.heartbeat.interval.ms": "1000"}
"""Members hear of a new assignment after a second, not after five."""
OVERHEAD: Final = 0.1
"""More than the share of heartbeats and metadata in what members receive, which a rack cannot keep near."""
_MEASURE_SECONDS: Final = 3.0


@pytest.fixture(scope="module")
def brokers() -> Iterator[Cluster]:
    """Three brokers in three racks that have the assignor."""
    cluster = Cluster(properties=QUICK)
    for broker in RACKS:
        broker_assignor.install(cluster, broker)
    with cluster:
        yield cluster


@pytest.fixture(scope="module")
def shared_cluster(brokers: Cluster) -> Cluster:
    """The same, in place of the cluster of all other tests."""
    return brokers


def join(scene: Scene, client: str, rack: str, **properties: str) -> Member:
    """Starts a member of the new protocol."""
    return scene.join(client, rack, assignor="", heartbeat_interval_ms="", group_protocol="consumer", **properties)


def join_on_both_clients(scene: Scene, **properties: str) -> None:
    """Starts a member in each rack on Java, then on librdkafka, and waits until each partition has its owner."""
    for client in ("java", "confluent"):
        for rack in (A, B, C):
            join(scene, client, rack, **properties)
        scene.wait_settled()


def leave(scene: Scene, seat: Seat) -> None:
    """Stops a member cleanly."""
    seat.member.stop()
    scene.seats.remove(seat)
    scene.former.append(seat)


def measured_share(scene: Scene) -> float:
    """The share of bytes from another rack, by the kernel's counts."""
    own = {seat.member.pid: seat.rack for seat in scene.seats}
    return measure(scene.cluster.brokers.values(), own, seconds=_MEASURE_SECONDS).cross_rack_share


def assignor(scene: Scene) -> str:
    """The group's assignor, as its coordinator describes it."""
    return str(scene.describe().partition_assignor)


def command(scene: Scene, *words: str) -> dict[str, Any]:
    """The JSON of a command of samerack on the scene's cluster."""
    line = [sys.executable, "-m", "samerack.cli.main", *words, "--json", "-b", scene.cluster.bootstrap]
    line += ["-s", f'traffic.groups=["{scene.group}"]']
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SAMERACK_")}
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120, env=environment)
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout))


def verify(scene: Scene) -> dict[str, dict[str, Any]]:
    """The findings of `samerack verify` by code, from a measurement of some seconds."""
    found = command(scene, "verify", "--measure", "--window", "4")["findings"]
    return {finding["code"]: finding for finding in found}


@pytest.mark.promise("With samerack's assignor in the brokers (KIP-848) members read in their own racks.")
def test_reads_come_into_the_members_racks(scene: Scene) -> None:
    """Members on librdkafka and Java have the partitions of their racks, and no record is lost."""
    scene.lay_out(SPREAD)
    join_on_both_clients(scene)
    scene.wait_settled(cross_rack=0)
    assert assignor(scene) == "samerack"
    scene.finish()


def test_what_it_would_change_is_said_before_and_after(scene: Scene) -> None:
    """With uniform, members on librdkafka and Java receive bytes across racks; with samerack hardly any.

    Findings and plan name the assignor before and after, what samerack's would change, and what to do.
    """
    scene.lay_out(SPREAD)
    join_on_both_clients(scene, group_remote_assignor="uniform")
    wait_until(
        lambda: measured_share(scene) == pytest.approx(scene.cross_rack() / len(SPREAD), abs=OVERHEAD), "bytes cross"
    )
    plan = command(scene, "plan", scene.group)
    assert (plan["assigned_by"], plan["protocol"], plan["assignor"]) == ("brokers", "uniform", "samerack")
    assert (plan["present"]["cross_rack"], plan["proposed"]["cross_rack"]) == (scene.cross_rack(), 0)
    assert (plan["server"]["installed"], plan["server"]["lacking"], plan["server"]["share"]) == (True, [], 0.0)
    assert "unset their group.remote.assignor" in plan["server"]["advice"]
    finding = verify(scene)["broker-assigned-without-racks"]
    assert "(KIP-848, uniform) without regard to racks" in finding["cause"]
    assert "0% with samerack's assignor" in finding["cause"]
    assert finding["cure"] == plan["server"]["advice"]
    (cost,) = command(scene, "cost", scene.group, "--measure", "--window", "4")["groups"]
    assert (cost["server"]["assignor"], cost["server"]["share"]) == ("uniform", 0.0)
    assert 0 < cost["server"]["saves_dollars_per_month"] == pytest.approx(cost["dollars_per_month"])
    for seat in tuple(scene.seats):
        leave(scene, seat)
    join_on_both_clients(scene)
    scene.wait_settled(cross_rack=0)
    wait_until(lambda: measured_share(scene) < OVERHEAD, "hardly a byte crosses")
    plan = command(scene, "plan", scene.group)
    assert (plan["protocol"], plan["proposed"]["moved"]) == ("samerack", 0)
    assert plan["server"]["advice"].startswith("nothing to do")
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


def test_members_that_subscribe_by_expression(scene: Scene) -> None:
    """The brokers resolve the expressions of librdkafka and Java, and the assignor sees their topics.

    They do not tell which topics these are; the plan takes them from what the group reads.
    """
    topics = (scene.topic, f"{scene.topic}-more")
    for topic in topics:
        scene.lay_out(INTERLEAVED, topic)
    scene.topics = (f"^{scene.topic}.*",)
    for client, rack in (("confluent", A), ("confluent", B), ("java", C)):
        join(scene, client, rack)
    scene.topics = topics
    scene.wait_settled(cross_rack=0)
    plan = command(scene, "plan", scene.group)
    assert (plan["protocol"], plan["present"]["cross_rack"], plan["proposed"]["moved"]) == ("samerack", 0, 0)
    scene.finish()


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
        leave(scene, seat)
        join(scene, "confluent", seat.rack)
        scene.wait_settled()
    agent.wait_role("observing")
    assert scene.presence() is None
    scene.wait_settled(cross_rack=0)
    assert assignor(scene) == "samerack"
    scene.finish()


def test_a_coordinator_without_the_assignor(brokers: Cluster, scene: Scene, tmp_path: Path) -> None:
    """A group goes on reading while a broker without the assignor coordinates it, and gets another assignor.

    Its assignment stays as it was until something in the group changes. Once every broker has the assignor, the next
    change brings its assignment back. But if a member asks for samerack by name, such a coordinator fails at each
    change of its group, and Java's consumers end of that failure, those without a wish too.
    """
    scene.lay_out(SPREAD)
    for rack in (A, B, C):
        join(scene, "confluent", rack)
    with Scene(brokers, scene.admin, folder=tmp_path) as other:
        other.lay_out(INTERLEAVED)
        named = join(other, "confluent", A, group_remote_assignor="samerack")
        leaving, java = join(other, "confluent", B), join(other, "java", C)
        other.wait_settled(cross_rack=0)
        scene.wait_settled(cross_rack=0)
        with only_on_the_coordinator(brokers, scene) as lacking:
            scene.wait_settled(cross_rack=0)
            assert assignor(scene) == "uniform"
            finding = verify(scene)["assignor-on-some-brokers"]
            assert (finding["where"], finding["costs"]) == (f"brokers {lacking[0]}, {lacking[1]}", False)
            assert LINE in finding["cure"]
            scene.redeploy(scene.seats[0])
            scene.wait_settled()
            assert named.running
            assert java.running
            refused = join(other, "confluent", A, group_remote_assignor="samerack")
            refused.wait(lambda: "assignor" in refused.complaints, "it is refused", timeout=30)
            leaving.stop()
            wait_until(lambda: not java.running, "Java's consumer has ended", timeout=30)
    wait_until(lambda: assignor(scene) == "samerack", "the coordinator has the assignor")
    scene.redeploy(scene.seats[0])
    scene.wait_settled(cross_rack=0)


@contextmanager
def only_on_the_coordinator(brokers: Cluster, scene: Scene) -> Iterator[list[int]]:
    """Restarts brokers one by one so that only the group's coordinator has the assignor, which then loses the group.

    Yields the brokers without the assignor, one of which coordinates the group; all have it again at the end.
    """
    first = scene.coordinator()
    lacking = sorted(RACKS.keys() - {first})
    try:
        for broker in lacking:
            broker_assignor.remove(brokers, broker)
            brokers.restart_broker(broker)
        brokers.restart_broker(first)
        wait_until(lambda: scene.coordinator() in lacking, "another broker coordinates the group")
        yield lacking
    finally:
        for broker in lacking:
            broker_assignor.install(brokers, broker)
            brokers.restart_broker(broker)
