"""Samerack's assignor of Streams groups (KIP-1357) in real brokers of Kafka 4.4: tasks and standbys by racks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from lab.sandbox.admin import Admin, wait_until
from lab.sandbox.broker_assignor import jar
from lab.sandbox.cluster import Cluster
from lab.sandbox.contract import RACKS
from lab.sandbox.demo_streams import PLACES, crossing, prepare, racks_by_task
from lab.sandbox.feeder import Feeder
from lab.sandbox.settings import CONTROLLER
from lab.sandbox.streams import StreamsApplication, compare
from samerack.cluster.broker_configs import TASK_LINE

pytestmark = [pytest.mark.own_cluster, pytest.mark.timeout(600)]

_APPLICATION: Final = "shipments"
_TOPIC: Final = "parcels"
_PARTITIONS: Final = 12
_SOURCES: Final = [[1]] * 4 + [[2]] * 4 + [[3]] * 4
_CHANGELOGS: Final = [[2, 3]] * 4 + [[3, 1]] * 4 + [[1, 2]] * 4
_PLACES: Final = tuple(replace(place, instances=2) for place in PLACES)
"""Two instances in each rack: both could have a copy of one task."""
_SETTING: Final = {
    **dict([TASK_LINE.split("=", 1)]),
    "group.streams.num.standby.replicas": "1",
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
}


@pytest.fixture
def brokers() -> Iterator[Cluster]:
    """Three brokers of Kafka 4.4 in three racks, with Kafka's own assignor first in the line.

    The controller has the line too: it refuses names of assignors that it does not know.
    """
    made = Cluster(version="4.4.0")
    for node in (CONTROLLER, *RACKS):
        made.override(node, properties=_SETTING, jars=[jar()])
    with made:
        yield made


def _use_samerack(brokers: Cluster) -> None:
    """Select the assignor for one group."""
    client = KafkaAdminClient(bootstrap_servers=brokers.bootstrap)
    try:
        setting = ConfigResource(ConfigResourceType.GROUP, _APPLICATION, {"streams.assignor.name": "samerack"})
        assert client.alter_configs([setting], incremental=True) == {"group": {_APPLICATION: "OK"}}
    finally:
        client.close()


def _standbys_near(application: StreamsApplication) -> int:
    """How many standbys are in the rack of their task."""
    racks = {instance: application.places[instance.rpartition("-")[0]].rack for instance in application.tasks()}
    runs = {task: racks[instance] for instance, tasks in application.tasks().items() for task in tasks.active}
    return sum(
        runs.get(task) == racks[instance] for instance, tasks in application.tasks().items() for task in tasks.standby
    )


def _wait_near(application: StreamsApplication, admin: Admin) -> None:
    """Wait until tasks run in the racks of their partitions, and standbys in others."""
    wait_until(
        lambda: (
            application.complete(_PARTITIONS, standbys=1)
            and application.crossing(racks_by_task(admin, _TOPIC)) == 0
            and _standbys_near(application) == 0
        ),
        "tasks are in the racks of their partitions, and standbys in others",
        timeout=90,
    )


def _share(application: StreamsApplication, admin: Admin) -> float:
    """The share of bytes of sources that cross racks within some seconds."""
    before = application.received("sources")
    time.sleep(3)
    return crossing(admin, before, application.received("sources"))


def test_tasks_and_standbys_by_racks(brokers: Cluster, tmp_path: Path) -> None:
    """After one line for the group, tasks read in their racks, standbys are in others, and no output record is lost.

    The assignor counts from the group's next change. Killed processes come back to the same, and replicas that move to
    other racks are followed.
    """
    with Admin(brokers.bootstrap) as admin:
        admin.create_topic(_TOPIC, _SOURCES)
        prepare(admin, _APPLICATION, _CHANGELOGS)
        application = StreamsApplication(
            _PLACES,
            bootstrap=brokers.bootstrap,
            application=_APPLICATION,
            topic=_TOPIC,
            folder=tmp_path / "state",
            properties={"group.protocol": "streams", "num.stream.threads": "1", "commit.interval.ms": "1000"},
        )
        with application, Feeder(brokers.bootstrap, {_TOPIC: _PARTITIONS}, pause=0.2) as feeder:
            application.start_all()
            application.wait_complete(_PARTITIONS, standbys=1)
            assert application.crossing(racks_by_task(admin, _TOPIC)) > 0
            _use_samerack(brokers)
            for kill in (False, True):
                application.stop(PLACES[0].name, kill=kill)
                application.start(PLACES[0].name)
                _wait_near(application, admin)
            admin.move_replicas({(_TOPIC, 0): [2], (_TOPIC, 4): [1]})
            _wait_near(application, admin)
            wait_until(lambda: _share(application, admin) < 0.1, "hardly any bytes of sources cross racks", timeout=60)
            feeder.finish()
            output = compare(application, admin)
        assert output.records > 0
        assert (output.lost, output.doubled, output.miscounted) == (0, 0, 0)
    assert [broker for broker in RACKS if "plain plan" in brokers.log(broker, 10_000)] == []
