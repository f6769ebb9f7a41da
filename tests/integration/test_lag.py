"""The lag of a real group: in records as Kafka's own tool has it, in seconds as the records' timestamps have it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from sandbox.admin import wait_until
from sandbox.agent_process import AgentProcess
from sandbox.members.lines import MemberSettings
from sandbox.members.process import Member
from tests.integration.guest import consumer_groups, set_offsets
from tests.integration.looking import Looking, named, settings_for
from tests.integration.scene import Scene

_RECORDS = (10, 20, 30, 40, 50, 0)
_COMMITTED = (10, 5, 0, 39)
"""Of the first partitions; the last two, one of which is empty, have no committed offset."""


@pytest.fixture
def measuring(scene: Scene) -> Iterator[Looking]:
    """A measurement of the scene's group."""
    opened = Looking(settings_for(scene.cluster, scene.group), scene.group)
    yield opened
    opened.watch.close()


def samerack_lag(scene: Scene, *more: str) -> dict[str, Any]:
    """What `samerack lag` says of the scene's group, by itself unless `more` says otherwise."""
    more = more or ("--measure",)
    line = [
        sys.executable,
        "-m",
        "samerack.cli.main",
        "lag",
        scene.group,
        "--json",
        "-b",
        scene.cluster.bootstrap,
        *more,
    ]
    found: dict[str, Any] = json.loads(subprocess.run(line, check=True, capture_output=True, timeout=60).stdout)
    return found


def test_lag_is_that_of_kafkas_tool(scene: Scene, placed: str, measuring: Looking) -> None:
    """Each partition has the lag that kafka-consumer-groups.sh shows; an empty one without a commit has 0."""
    group, bootstrap = scene.group, scene.cluster.bootstrap
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition, count in enumerate(_RECORDS):
        for _ in range(count):
            producer.produce(placed, b"x", partition=partition)
    assert producer.flush(30) == 0
    set_offsets(scene, _COMMITTED, topic=placed)
    settings = MemberSettings(
        bootstrap=bootstrap,
        group=group,
        topics=(placed,),
        client_id=group,
        properties={"enable.auto.commit": "false"},
    )
    with Member.python("confluent", settings) as member:
        member.wait(lambda: len(member.owned) == len(_RECORDS), "it has all partitions")
        snapshot = measuring.until(
            lambda seen: (
                bool(seen.groups)
                and len(one := named(seen, group).partitions) == len(_RECORDS)
                and one[0].committed is not None  # the first poll of a group has none
            )
        )
        told = samerack_lag(scene)
        rows = [line.split() for line in consumer_groups(scene, "--describe").splitlines() if placed in line.split()]
    lags = {one.number: one.lag_records for one in named(snapshot, group).partitions}
    assert lags == {0: 0, 1: 15, 2: 30, 3: 1, 4: None, 5: 0}
    # GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG ...
    assert {int(row[2]): row[5] for row in rows} == {0: "0", 1: "15", 2: "30", 3: "1", 4: "-", 5: "-"}
    assert named(snapshot, group).lag == {placed: None}
    assert {one["partition"]: one["lag_records"] for one in told["partitions"]} == lags
    assert {(one["client_id"], one["lag_records"]) for one in told["members"]} == {(group, None)}
    assert (told["lag_records"], told["topics"]) == (None, {placed: {"lag_records": None, "lag_seconds": None}})


@pytest.fixture
def still(scene: Scene, placed: str) -> Iterator[Consumer]:
    """A consumer that has committed the beginning of each partition, and reads nothing."""
    consumer = Consumer(
        {
            "bootstrap.servers": scene.cluster.bootstrap,
            "group.id": scene.group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,
        }
    )
    consumer.subscribe([placed])
    wait_until(lambda: consumer.poll(0.2) is None and len(consumer.assignment()) == len(_RECORDS), "it owns all")
    consumer.commit(offsets=[TopicPartition(placed, one, 0) for one in range(len(_RECORDS))], asynchronous=False)
    yield consumer
    consumer.close()


@pytest.fixture
def observing(scene: Scene, tmp_path: Path) -> Iterator[AgentProcess]:
    """An agent that polls the group twice a second, and joins none."""
    settings = {"traffic.groups": scene.group, "traffic.poll_seconds": 0.5}
    with AgentProcess(scene.cluster.bootstrap, groups=[], log=tmp_path / "agent.log", settings=settings) as agent:
        yield agent


def test_lag_in_seconds_is_the_age_of_the_oldest_record_that_is_not_read(
    scene: Scene, placed: str, still: Consumer, measuring: Looking, observing: AgentProcess
) -> None:
    """It agrees with the record's own timestamp within the time between two polls; who came later does not know it."""
    group, written, polled = scene.group, dict[tuple[int, int], float](), list[float]()
    producer = Producer({"bootstrap.servers": scene.cluster.bootstrap, "linger.ms": 0})

    def note(_: object, message: Message) -> None:
        written[message.partition() or 0, message.offset() or 0] = message.timestamp()[1] / 1000

    def ages() -> dict[int, float | None]:
        """The age by partition after one more poll."""
        snapshot = measuring.watch.poll()
        polled.append(snapshot.window_end)
        return {one.number: one.lag_seconds for one in named(snapshot, group).partitions} if snapshot.groups else {}

    def expect(age: float | None, partition: int, offset: int) -> None:
        """Compares an age at the last poll."""
        slack = max(after - before for before, after in pairwise(polled)) + 0.1
        assert age == pytest.approx(polled[-1] - written[partition, offset], abs=slack)

    wait_until(lambda: ages() == dict.fromkeys(range(len(_RECORDS)), 0.0), "nothing is left to be read")
    observing.wait(lambda: observing.metric("samerack_lag_seconds", group=group, topic=placed) == 0, "the agent polls")
    polled.clear()
    ages()
    producer.produce(placed, b"x", partition=1, on_delivery=note)
    for _ in range(30):
        producer.produce(placed, b"x", partition=0, on_delivery=note)
        assert producer.flush(30) == 0
        found = ages()
        time.sleep(0.2)  # the pace of production
    expect(found[0], 0, 0)
    expect(found[1], 1, 0)
    still.commit(offsets=[TopicPartition(placed, 0, 20)], asynchronous=False)
    found = ages()
    expect(found[0], 0, 20)
    assert found == {0: found[0], 1: found[1], 2: 0, 3: 0, 4: 0, 5: 0}
    port = observing.events("started")[-1]["url"].removesuffix("/metrics").rpartition(":")[2]
    observing.wait(
        lambda: json.loads(observing.get(f"/v1/lag?group={group}")[1])["partitions"][0]["committed"] == 20, "it polls"
    )
    told = samerack_lag(scene, "--set", f"web.port={port}")
    now = time.time()
    by_partition = {one["partition"]: one["lag_seconds"] for one in told["partitions"]}
    assert by_partition[0] == pytest.approx(now - written[0, 20], abs=5)
    assert by_partition[1] == told["lag_seconds"] == told["topics"][placed]["lag_seconds"]
    assert by_partition[1] == pytest.approx(now - written[1, 0], abs=5)
    assert told["lag_seconds"] > 5
    itself = samerack_lag(scene)
    assert [(one["lag_records"], one["lag_seconds"]) for one in itself["partitions"]][:3] == [
        (10, None),
        (1, None),
        (0, 0),
    ]
    assert (itself["lag_records"], itself["lag_seconds"]) == (11, None)
