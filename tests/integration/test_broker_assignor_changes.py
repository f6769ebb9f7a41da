"""Samerack's assignor in some of a cluster's brokers, in the oldest, and in the newest that there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.sandbox import broker_assignor
from lab.sandbox.admin import Admin, wait_until
from lab.sandbox.cluster import Cluster
from lab.sandbox.commands import samerack_json
from lab.sandbox.contract import RACKS
from lab.sandbox.jvm import BROKER_VERSION
from lab.sandbox.members.lines import Partition
from lab.sandbox.sockets import Received, measure
from samerack.cluster.broker_configs import ASSIGNORS_KEY, CLASS, LINE
from tests.integration.new_protocol import SPREAD, assignor, join, join_each
from tests.integration.scenario import INTERLEAVED, A, B, C, Scenario
from tests.integration.shared_cluster import QUICK
from tests.integration.test_move import move, roll, watched
from tests.integration.test_verify import verify

pytestmark = [
    pytest.mark.own_cluster,
    pytest.mark.skipif(BROKER_VERSION.startswith("3."), reason="brokers assign no groups before Kafka 4"),
]

_ON_SOME = "assignor-on-some-brokers"


@pytest.fixture
def shared_cluster() -> Iterator[Cluster]:
    """Three brokers in three racks that have the assignor, in place of the cluster of all other tests."""
    with _equipped() as cluster:
        yield cluster


def _equipped(version: str = BROKER_VERSION, properties: Mapping[str, str] = broker_assignor.SETTING) -> Cluster:
    """A cluster whose brokers have the assignor and these properties; it is not started yet."""
    cluster = Cluster(properties=QUICK, version=version)
    for broker in RACKS:
        broker_assignor.install(cluster, broker, properties)
    return cluster


def test_a_coordinator_without_the_assignor(shared_cluster: Cluster, scenario: Scenario, tmp_path: Path) -> None:
    """A group goes on reading while a broker without the assignor coordinates it, and gets another assignor.

    Its assignment stays as it was until something in the group changes. Once every broker has the assignor, the next
    change brings its assignment back. But if a member asks for samerack by name, such a coordinator fails at each
    change of its group, and Java's consumers end of that failure, those that name no assignor too.
    """
    scenario.lay_out(SPREAD)
    join_each(scenario, "confluent", "confluent", "confluent")
    brokers = shared_cluster
    with Scenario(brokers, scenario.admin, folder=tmp_path) as other:
        other.lay_out(INTERLEAVED)
        named = join(other, "confluent", A, group_remote_assignor="samerack")
        leaving, java = join(other, "confluent", B), join(other, "java", C)
        other.wait_settled(cross_rack=0)
        scenario.wait_settled(cross_rack=0)
        with only_on_the_coordinator(brokers, scenario) as lacking:
            scenario.wait_settled(cross_rack=0)
            assert assignor(scenario) == "uniform"
            (finding,) = [one for one in verify(brokers, scenario.group)[1]["findings"] if one["code"] == _ON_SOME]
            assert (finding["where"], finding["costs"]) == (f"brokers {lacking[0]}, {lacking[1]}", False)
            assert LINE in finding["cure"]
            scenario.redeploy(scenario.participants[0])
            scenario.wait_settled()
            assert named.running
            assert java.running
            refused = join(other, "confluent", A, group_remote_assignor="samerack")
            refused.wait(lambda: "assignor" in refused.complaints, "it is refused", timeout=30)
            leaving.stop()
            wait_until(lambda: not java.running, "Java's consumer has ended", timeout=30)
    wait_until(lambda: assignor(scenario) == "samerack", "the coordinator has the assignor")
    scenario.redeploy(scenario.participants[0])
    scenario.wait_settled(cross_rack=0)


@contextmanager
def only_on_the_coordinator(brokers: Cluster, scenario: Scenario) -> Iterator[list[int]]:
    """Restarts brokers one by one so that only the group's coordinator has the assignor, which then loses the group.

    Yields the brokers without the assignor, one of which coordinates the group; all have it again at the end.
    """
    first = scenario.coordinator()
    lacking = sorted(RACKS.keys() - {first})
    try:
        for broker in lacking:
            broker_assignor.remove(brokers, broker)
            brokers.restart_broker(broker)
        brokers.restart_broker(first)
        wait_until(lambda: scenario.coordinator() in lacking, "another broker coordinates the group")
        yield lacking
    finally:
        for broker in lacking:
            broker_assignor.install(brokers, broker)
            brokers.restart_broker(broker)


@contextmanager
def scenario_on(
    version: str, folder: Path, properties: Mapping[str, str] = broker_assignor.SETTING
) -> Iterator[Scenario]:
    """A scenario on brokers of another version, or with other properties, that have the assignor."""
    with (
        _equipped(version, properties) as cluster,
        Admin(cluster.bootstrap) as admin,
        Scenario(cluster, admin, folder=folder) as scenario,
    ):
        scenario.lay_out(SPREAD)
        yield scenario


@pytest.mark.parametrize("version", ["4.1.0", "4.4.0"])
def test_other_versions_of_brokers(version: str, tmp_path: Path) -> None:
    """The oldest and the newest brokers let a group move to the new protocol, read near, and follow moved replicas."""
    with scenario_on(version, tmp_path) as scenario:
        _moved(scenario, tmp_path, near=0.0)
        scenario.wait_settled(cross_rack=0)
        scenario.admin.move_replicas({(scenario.topic, 0): [2], (scenario.topic, 1): [3], (scenario.topic, 2): [1]})
        scenario.wait_settled(cross_rack=0, timeout=45.0)
        scenario.finish()


def test_four_clients_get_it_under_the_name_of_a_built_in(tmp_path: Path) -> None:
    """franz-go asks for `uniform` by name; where that is samerack's, a group of all clients reads near by the kernel.

    Brokers get the jar and the name one by one under the group, and lose them again; no record is lost or read twice.
    """
    renamed = {ASSIGNORS_KEY: f"{CLASS},range", "samerack.assignor.name": "uniform"}
    with (
        Cluster(properties=QUICK) as cluster,
        Admin(cluster.bootstrap) as admin,
        Scenario(cluster, admin, folder=tmp_path) as scenario,
    ):
        scenario.lay_out(((1,), (2,), (1,), (3,)) * 3)
        join_each(scenario, "franz-go", "confluent", "java", "platformatic")
        scenario.wait_settled()
        before = _received(scenario)
        assert before.cross_rack_share > 0.2
        _restarted(scenario, cluster, renamed)
        scenario.redeploy(scenario.participants[1])
        scenario.wait_settled(cross_rack=0)
        assert assignor(scenario) == "uniform"
        server = samerack_json("plan", scenario.group, "--json", "-b", cluster.bootstrap)["server"]
        assert (server["assignor"], server["advice"].partition(":")[0]) == ("samerack", "nothing to do")
        assert _received(scenario).cross_rack_share < before.cross_rack_share / 2
        _restarted(scenario, cluster, None)
        scenario.redeploy(scenario.participants[1])
        scenario.wait_settled()
        scenario.finish()


def _restarted(scenario: Scenario, cluster: Cluster, properties: Mapping[str, str] | None) -> None:
    """Give each broker the jar and these properties, or take them; wait until what was read by then is committed.

    Members cannot commit to a coordinator that restarts: partitions that moved then would be read twice.
    """
    for broker in RACKS:
        if properties is None:
            broker_assignor.remove(cluster, broker)
        else:
            broker_assignor.install(cluster, broker, properties)
        cluster.restart_broker(broker)
    ends = scenario.ends()

    def committed() -> bool:
        found: dict[Partition, int] = {}
        for event in scenario.events():
            found.update(event.offsets or {})
        return all(found.get(partition, 0) >= end for partition, end in ends.items())

    wait_until(committed, "all members have committed", timeout=60)


def _received(scenario: Scenario) -> Received:
    """What the members receive from the brokers, by the kernel's counts."""
    own = {one.member.pid: one.rack for one in scenario.participants}
    return measure(scenario.cluster.brokers.values(), own, seconds=5)


def test_kafka_4_0_gives_assignors_no_racks_of_partitions(tmp_path: Path) -> None:
    """The assignor runs there and deals evenly, but cannot know which partitions are near; the command says so."""
    with scenario_on("4.0.0", tmp_path) as scenario:
        warnings = _moved(scenario, tmp_path, near=None)["warnings"]
        assert any("samerack's saves nothing there" in one for one in warnings)
        assert assignor(scenario) == "samerack"
        join(scenario, "confluent", A)  # the others keep what they read near, if they did
        scenario.wait_settled()
        assert [len(owned) for owned in scenario.owned().values()] == [3, 3, 3, 3]
        assert scenario.cross_rack() > 0
        scenario.finish()


def _moved(scenario: Scenario, folder: Path, *, near: float | None) -> dict[str, Any]:
    """Move a group from the classic protocol as `samerack move` says; return what it said before."""
    scenario.join_each("confluent", "confluent", "confluent")
    scenario.wait_settled()
    answer = move(scenario)
    assert (answer["obstacles"], answer["shares"][2]["share"]) == ([], near)
    with watched(scenario, folder) as watch:
        roll(scenario, "confluent")
        assert watch.ends() == 0
    assert watch.lines()[-1]["outcome"] == "done"
    return answer
