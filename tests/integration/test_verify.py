"""`samerack verify` on real clusters, sound ones and broken ones; tests/unit/agent/test_verify.py has every finding."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from lab.sandbox.admin import Admin
from lab.sandbox.cluster import Cluster
from lab.sandbox.commands import samerack
from lab.sandbox.contract import RACK_AWARE_SELECTOR, KafkaCluster
from tests.integration.scenario import INTERLEAVED, Scenario

_WINDOW_SECONDS: Final = 4
_LONG_WINDOW_SECONDS: Final = 30
"""Members commit twice a second: one commit more or less is no more than three per cent."""
_MOSTLY_SERVED_NEAR: Final = ((1, 2),) * 4 + ((1, 3), (1, 2))
"""Of what range gives to members in three racks, leaders serve a third near, as with any plan, and all replicas five
sixths."""
_EVERYWHERE: Final = ((1, 2, 3), (2, 3, 1), (3, 1, 2)) * 2


def verify(
    cluster: KafkaCluster, groups: str, *settings: str, window: int = _WINDOW_SECONDS
) -> tuple[int, dict[str, Any]]:
    """Exit code and verdict over the groups of a pattern, measured for so many seconds."""
    words = ["verify", "--json", "--measure", "-b", cluster.bootstrap]
    words += ["--window", str(window), "-s", f"traffic.groups={json.dumps([groups])}"]
    words += [part for setting in settings for part in ("-s", setting)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SAMERACK_")}
    done = samerack(*words, env=environment)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def codes(verdict: Mapping[str, Any]) -> list[str]:
    """The kinds of findings."""
    return [finding["code"] for finding in verdict["findings"]]


def the_one(verdict: Mapping[str, Any], group: str, kind: str) -> dict[str, Any]:
    """The only finding about a group; asserts that it is of this kind, costs money, and has cause and cure."""
    (finding,) = [one for one in verdict["findings"] if one["where"] == f"group {group}"]
    assert finding["code"] == kind
    assert finding["costs"]
    assert finding["cause"]
    assert finding["cure"]
    return dict(finding)


@pytest.mark.promise("`samerack verify` finds nothing in a sound group, and says of members without a rack what to do.")
def test_a_sound_group_and_one_without_racks(scenario: Scenario, other: Scenario) -> None:
    """Of two groups on the same brokers only the one whose clients send no rack has a finding, which costs money."""
    for one, client in ((scenario, "confluent"), (other, "kafka-python")):
        one.lay_out(INTERLEAVED)
        one.join_each(client, client, client)
        one.wait_settled()
    code, verdict = verify(scenario.cluster, scenario.group)
    assert (codes(verdict), code) == ([], 0)
    code, verdict = verify(other.cluster, other.group)
    assert code == 1
    assert "3 of 3 members" in the_one(verdict, other.group, "members-without-rack")["cause"]


@pytest.mark.own_cluster
def test_what_is_wrong_with_brokers_is_found(tmp_path: Path) -> None:
    """Brokers without a selector, one of them without rack, read by members with zone ids and by some with zone names.

    Zone names do not match zone ids. What the settings say of the selector is compared with the brokers' answers.
    """
    names = {1: "us-east-1a", 2: None, 3: "us-east-1c"}
    with (
        Cluster(names, rack_aware=False) as cluster,
        Admin(cluster.bootstrap) as admin,
        Scenario(cluster, admin, folder=tmp_path) as ids,
        Scenario(cluster, admin, folder=tmp_path) as flat,
    ):
        for scenario, racks in (
            (ids, ("use1-az1", "use1-az2", "use1-az4")),
            (flat, ("us-east-1a", "us-east-1c", "us-east-1a")),
        ):
            scenario.lay_out(_EVERYWHERE)
            for rack in racks:
                scenario.join("confluent", rack, auto_commit_interval_ms="500")
            scenario.wait_settled()
            scenario.wait_read()
        code, found = verify(cluster, ids.group)
        _, claimed = verify(cluster, flat.group, "racks.replica_selector=rack-aware")
    assert (code, len(found["findings"])) == (1, 3)
    zones = the_one(found, ids.group, "zone-name-against-id")["cause"]
    assert "use1-az1" in zones
    assert "us-east-1a" in zones
    others = {one["code"]: one for one in found["findings"]}
    assert (others["brokers-without-rack"]["where"], others["brokers-without-rack"]["costs"]) == ("broker 2", True)
    assert "RackAwareReplicaSelector" in others["no-rack-aware-selector"]["cure"]
    finding = the_one(claimed, flat.group, "followers-do-not-serve")
    assert "the brokers answer fetches with these racks so" in finding["cause"]
    assert "racks.replica_selector" in finding["cure"]


@pytest.mark.own_cluster
@pytest.mark.extended
def test_follower_fetching_saves_its_price(tmp_path: Path) -> None:
    """Its finding comes first; the bill after the brokers have the selector is lower by its price, within 5 %."""
    with (
        Cluster(rack_aware=False) as cluster,
        Admin(cluster.bootstrap) as admin,
        Scenario(cluster, admin, folder=tmp_path) as scenario,
    ):
        scenario.lay_out(_MOSTLY_SERVED_NEAR)
        scenario.join_each("confluent", "confluent", "confluent", auto_commit_interval_ms="500")
        scenario.wait_settled()
        scenario.wait_read()
        _, before = verify(cluster, scenario.group, window=_LONG_WINDOW_SECONDS)
        for broker in sorted(cluster.brokers):
            cluster.override(broker, properties={"replica.selector.class": RACK_AWARE_SELECTOR})
            cluster.restart_broker(broker)
        scenario.wait_settled()
        scenario.wait_read()
        _, after = verify(cluster, scenario.group, window=_LONG_WINDOW_SECONDS)
    first = before["findings"][0]
    assert first["code"] == "no-rack-aware-selector"
    assert first["dollars_per_month"] == pytest.approx(
        before["dollars_per_month"] - after["dollars_per_month"], rel=0.05
    )
    assert after["dollars_per_month"] == pytest.approx(before["dollars_per_month"] / 4, rel=0.1)
