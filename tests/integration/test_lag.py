"""The lag of a real group in records is that of Kafka's own tool; tests/unit/traffic/test_lag.py has seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from lab.sandbox.commands import samerack_json
from lab.sandbox.members.lines import MemberSettings
from lab.sandbox.members.process import Member
from samerack.traffic.snapshot import LowerBound
from tests.integration.guest import consumer_groups, set_offsets
from tests.integration.poller import Poller, named, settings_for
from tests.integration.scenario import Scenario

_RECORDS = (10, 20, 30, 40, 50, 0)
_COMMITTED = (10, 5, 0, 39)
"""Of the first partitions; the last two, one of which is empty, have no committed offset."""


@pytest.fixture
def measuring(scenario: Scenario) -> Iterator[Poller]:
    """A measurement of the scenario's group."""
    opened = Poller(settings_for(scenario.cluster, scenario.group), scenario.group)
    yield opened
    opened.watch.close()


def samerack_lag(scenario: Scenario) -> dict[str, Any]:
    """What `samerack lag` measures of the scenario's group by itself."""
    return samerack_json("lag", scenario.group, "--json", "--measure", "-b", scenario.cluster.bootstrap)


def test_lag_is_that_of_kafkas_tool(scenario: Scenario, placed: str, measuring: Poller) -> None:
    """Each partition has the lag that kafka-consumer-groups.sh shows; an empty one without a commit has 0."""
    group, bootstrap = scenario.group, scenario.cluster.bootstrap
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition, count in enumerate(_RECORDS):
        for _ in range(count):
            producer.produce(placed, b"x", partition=partition)
    assert producer.flush(30) == 0
    set_offsets(scenario, _COMMITTED, topic=placed)
    settings = MemberSettings(
        bootstrap=bootstrap,
        group=group,
        topics=(placed,),
        client_id=group,
        properties={"enable.auto.commit": "false"},
    )
    with Member.on("confluent", settings) as member:
        member.wait(lambda: len(member.owned) == len(_RECORDS), "it has all partitions")
        snapshot = measuring.until(
            lambda seen: (
                bool(seen.groups)
                and len(one := named(seen, group).partitions) == len(_RECORDS)
                and next(iter(one)).committed is not None  # the first poll of a group has none
            )
        )
        lag = samerack_lag(scenario)
        rows = [line.split() for line in consumer_groups(scenario, "--describe").splitlines() if placed in line.split()]
    lags = {one.number: one.lag_records for one in named(snapshot, group).partitions}
    assert lags == {0: 0, 1: 15, 2: 30, 3: 1, 4: None, 5: 0}
    # GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG ...
    assert {int(row[2]): row[5] for row in rows} == {0: "0", 1: "15", 2: "30", 3: "1", 4: "-", 5: "-"}
    assert named(snapshot, group).lag == {placed: LowerBound(value=46, unknown=1)}
    assert {one["partition"]: one["lag_records"] for one in lag["partitions"]} == lags
    assert {(one["client_id"], one["lag_records"], one["lag_unknown_partitions"]) for one in lag["members"]} == {
        (group, 46, 1)
    }
    for one in (lag, lag["topics"][placed]):
        assert (one["lag_records"], one["lag_unknown_partitions"]) == (46, 1)
