"""Fixtures of the integration tests: one three-rack Kafka for most of them, and unique names for each test."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from lab.sandbox.admin import Admin
from lab.sandbox.contract import RACKS, KafkaCluster
from lab.sandbox.processes import PATIENCE
from tests.integration.cluster import ContainerCluster
from tests.integration.pods import Pods
from tests.integration.poller import Poller, settings_for
from tests.integration.scenario import IN_TWO_RACKS, Scenario
from tests.integration.secured import Secured, secured_cluster
from tests.integration.shared_cluster import shared

_HERE = Path(__file__).parent
_SECONDS = 300
"""The time limit of one test: limits within it are longer than an idle machine needs."""
_SECURED = {
    *("test_clouds.py", "test_coordinator.py", "test_no_secret_leaks.py", "test_permissions.py", "test_security.py"),
}
"""The files whose tests use the secured cluster."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test of this folder, and give it the time that real brokers need."""
    if not item.path.is_relative_to(_HERE):
        return
    item.add_marker(pytest.mark.integration)
    # kafka-python leaves sockets to the garbage collector, which may find them in any later test
    item.add_marker(pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning"))
    if item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(_SECONDS * PATIENCE))
    if item.get_closest_marker("moves_brokers") is not None:
        item.add_marker(pytest.mark.own_cluster)


class _ByCluster(LoadFileScheduling):
    """Gives the files of the secured cluster to one worker, as one."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return "secured" if Path(file).name in _SECURED else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Keep tests of the secured cluster together in the gate; all of them would be too many for one worker."""
    return _ByCluster(config, log) if "not extended" in config.option.markexpr else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests on clusters of their own first: they take longest."""
    items.sort(key=lambda item: item.get_closest_marker("own_cluster") is None)


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[KafkaCluster]:
    """One cluster for the whole run; a test that stops or moves brokers has the mark `moves_brokers`."""
    with shared() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """One secured cluster for all tests of a worker that need one."""
    with secured_cluster(tmp_path_factory.mktemp("secured")) as opened:
        yield opened


@pytest.fixture(scope="session")
def movable_cluster() -> Iterator[KafkaCluster]:
    """One cluster for all tests of a worker that stop brokers or move them."""
    with ContainerCluster() as movable:
        yield movable


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """The cluster that all tests share; for a test that moves brokers one of its own, each broker in its own rack."""
    if request.node.get_closest_marker("moves_brokers") is None:
        yield request.getfixturevalue("shared_cluster")
        return
    movable: KafkaCluster = request.getfixturevalue("movable_cluster")
    yield movable
    for broker in movable.brokers.values():
        if not broker.running:
            movable.start_broker(broker.id, rack=RACKS[broker.id])
        elif broker.rack != RACKS[broker.id]:
            movable.restart_broker(broker.id, rack=RACKS[broker.id])


@pytest.fixture
def admin(cluster: KafkaCluster) -> Iterator[Admin]:
    """The cluster's administration."""
    with Admin(cluster.bootstrap) as client:
        yield client


@pytest.fixture
def topic(admin: Admin) -> Iterator[str]:
    """A unique topic name; the topic is deleted afterwards if the test created it."""
    name = f"topic-{uuid.uuid4().hex[:12]}"
    yield name
    if admin.replicas([name]):
        admin.delete_topic(name)


@pytest.fixture
def group() -> str:
    """A unique group id."""
    return f"group-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def placed(admin: Admin, topic: str) -> str:
    """A topic of six partitions, four of which have a replica in any one rack."""
    admin.create_topic(topic, IN_TWO_RACKS)
    return topic


@pytest.fixture
def poller(cluster: KafkaCluster, group: str) -> Iterator[Poller]:
    """A measurement of all groups whose names start with the test's group id."""
    opened = Poller(settings_for(cluster, f"{group}*"), group)
    yield opened
    opened.watch.close()


@pytest.fixture
def scenario(cluster: KafkaCluster, admin: Admin, tmp_path: Path) -> Iterator[Scenario]:
    """A unique group with members, records and agents; all of it ends with the test."""
    with Scenario(cluster, admin, folder=tmp_path) as opened:
        yield opened


@pytest.fixture
def other(cluster: KafkaCluster, admin: Admin, tmp_path: Path) -> Iterator[Scenario]:
    """A second group, which has no agent of its own."""
    with Scenario(cluster, admin, folder=tmp_path) as opened:
        yield opened


@pytest.fixture
def pods(cluster: ContainerCluster) -> Iterator[Pods]:
    """A network with the cluster's brokers and no other connection."""
    with Pods(cluster) as opened:
        yield opened
