"""Samerack's assignor in real brokers that lack it at first, or in part: what members receive, and what is said of it.

All tests share one cluster of JVM processes; a test that takes the assignor away puts it back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from samerack.cluster.server_assignors import LINE
from sandbox import broker_assignor
from sandbox.admin import wait_until
from sandbox.cluster import Cluster
from sandbox.contract import RACKS
from sandbox.jvm import BROKER_VERSION
from tests.integration.new_protocol import (
    OVERHEAD,
    SPREAD,
    assignor,
    command,
    join,
    join_on_both_clients,
    measured_share,
    verify,
)
from tests.integration.scene import INTERLEAVED, A, B, C, Scene
from tests.integration.shared_cluster import QUICK

pytestmark = [
    pytest.mark.own_cluster,
    pytest.mark.skipif(BROKER_VERSION.startswith("3."), reason="brokers assign no groups before Kafka 4"),
]


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
        scene.leave(seat)
    join_on_both_clients(scene)
    scene.wait_settled(cross_rack=0)
    wait_until(lambda: measured_share(scene) < OVERHEAD, "hardly a byte crosses")
    plan = command(scene, "plan", scene.group)
    assert (plan["protocol"], plan["proposed"]["moved"]) == ("samerack", 0)
    assert plan["server"]["advice"].startswith("nothing to do")
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
