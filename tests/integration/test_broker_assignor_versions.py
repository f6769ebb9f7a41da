"""Samerack's assignor in brokers of other versions than the sandbox's: the oldest, and the newest that there is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.sandbox import broker_assignor
from lab.sandbox.admin import Admin
from lab.sandbox.cluster import Cluster
from lab.sandbox.contract import RACKS
from tests.integration.new_protocol import SPREAD, assignor, join_each
from tests.integration.scenario import Scenario
from tests.integration.shared_cluster import QUICK

pytestmark = pytest.mark.own_cluster


@contextmanager
def scenario_on(version: str, folder: Path) -> Iterator[Scenario]:
    """A scenario on brokers of another version that have the assignor."""
    cluster = Cluster(properties=QUICK, version=version)
    for broker in RACKS:
        broker_assignor.install(cluster, broker)
    with cluster, Admin(cluster.bootstrap) as admin, Scenario(cluster, admin, folder=folder) as scenario:
        scenario.lay_out(SPREAD)
        yield scenario


@pytest.mark.parametrize("version", ["4.1.0", "4.4.0"])
def test_other_versions_of_brokers(version: str, tmp_path: Path) -> None:
    """The oldest and the newest brokers read near and follow moved replicas."""
    with scenario_on(version, tmp_path) as scenario:
        join_each(scenario, "confluent", "confluent", "confluent")
        scenario.wait_settled(cross_rack=0)
        scenario.admin.move_replicas({(scenario.topic, 0): [2], (scenario.topic, 1): [3], (scenario.topic, 2): [1]})
        scenario.wait_settled(cross_rack=0, timeout=45.0)
        scenario.finish()


def test_kafka_4_0_gives_assignors_no_racks_of_partitions(tmp_path: Path) -> None:
    """The assignor runs there and deals evenly, but cannot know which partitions are near."""
    with scenario_on("4.0.0", tmp_path) as scenario:
        join_each(scenario, "confluent", "confluent", "confluent")
        scenario.wait_settled()
        assert assignor(scenario) == "samerack"
        assert [len(owned) for owned in scenario.owned().values()] == [4, 4, 4]
        assert scenario.cross_rack() > 0
        scenario.finish()
