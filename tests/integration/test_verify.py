"""`samerack verify` on real clusters, each broken in one way: it names the fault, and nothing on a sound one.

The groups with faults read at the same time on a sound cluster of JVM processes, and one run finds them; a second
cluster has the faults of brokers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from sandbox.admin import Admin, wait_until
from sandbox.cluster import Cluster
from sandbox.contract import KafkaCluster
from sandbox.feeder import Feeder
from sandbox.members.lines import MemberSettings
from sandbox.members.process import Member
from tests.integration.scene import INTERLEAVED, A, B, C, Scene

pytestmark = pytest.mark.own_cluster

ROTATED: Final = ((1,), (2,), (3,), (1,), (2,), (3,))
"""Placed so that range and uniform, which ignore racks, read two thirds across racks."""
_WINDOW_SECONDS: Final = 4
_LETTERS: Final = "abc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A group with one fault or none: its members' racks and assignors, and its topic's replicas."""

    racks: Sequence[str | None] = ("rack-a", "rack-b", "rack-c")
    assignors: Sequence[str] = ("range",)
    replicas: Sequence[Sequence[int]] = ROTATED
    properties: Mapping[str, str] = field(default_factory=dict)


FAULTS: Final[Mapping[str, Fault]] = {
    "nothing": Fault(),
    "no-rack": Fault(racks=(None, None, None)),
    "case": Fault(racks=("Rack-A", "Rack-B", "Rack-C")),
    "strangers": Fault(racks=("x", "y", "z")),
    # roundrobin gives the n-th partition to the n-th member
    "random": Fault(racks=(None, None, None), assignors=("roundrobin",), replicas=((2,), (3,), (1,), (2,), (3,), (1,))),
    "half": Fault(racks=(None, None, None), assignors=("roundrobin",), replicas=((1,), (2,), (3,), (2,), (3,), (1,))),
    "protocol": Fault(assignors=("cooperative-sticky",), replicas=((1, 2, 3), (2, 3, 1), (3, 1, 2)) * 2),
    "kip-848": Fault(
        assignors=(),
        replicas=((1,), (3,), (2,), (1,), (3,), (2,)),
        properties={"group.protocol": "consumer", "group.remote.assignor": "range"},
    ),
    "one-rack": Fault(replicas=((1,),) * 6),
    "uneven": Fault(racks=("rack-a", "rack-a", "rack-b")),
}
"""The faults of groups, by group: all of them read at the same time and are verified once."""
_SETTINGS: Final = (
    "racks.client_ids="
    + json.dumps({f"{group}-{letter}": f"rack-{letter}" for group in ("random", "half") for letter in _LETTERS}),
    'leading.protocols=["range", "roundrobin"]',
)


@contextmanager
def reading(cluster: Cluster, faults: Mapping[str, Fault]) -> Iterator[None]:
    """Groups that read topics of their names, with constant writes; all members have partitions."""
    with ExitStack() as stack:
        admin = stack.enter_context(Admin(cluster.bootstrap))
        members = []
        for group, fault in faults.items():
            admin.create_topic(group, fault.replicas)
            for letter, rack in zip(_LETTERS, fault.racks, strict=True):
                settings = MemberSettings(
                    bootstrap=cluster.bootstrap,
                    group=group,
                    topics=(group,),
                    client_id=f"{group}-{letter}",
                    rack=rack,
                    assignors=tuple(fault.assignors),
                    properties={"auto.commit.interval.ms": "500", **fault.properties},
                )
                members.append(stack.enter_context(Member.python("confluent", settings)))
        counts = {group: len(fault.replicas) for group, fault in faults.items()}
        stack.enter_context(Feeder(cluster.bootstrap, counts, pause=0.1))
        wait_until(lambda: all(len(member.owned) == 2 for member in members), "every member has partitions")
        started = [len(member.events) for member in members]
        wait_until(
            lambda: all(
                any(event.kind == "records" for event in member.events[begun:])
                for member, begun in zip(members, started, strict=True)
            ),
            "every member reads",
        )
        yield


@pytest.fixture(scope="module")
def sound() -> Iterator[Cluster]:
    """A cluster without faults, with one group for each fault and one without."""
    with Cluster() as cluster, reading(cluster, FAULTS):
        yield cluster


@pytest.fixture(scope="module")
def verdict(sound: Cluster) -> dict[str, Any]:
    """The findings over all groups."""
    code, found = verify(sound, "*", *_SETTINGS)
    assert code == 1
    return found


def verify(cluster: KafkaCluster, groups: str, *settings: str) -> tuple[int, dict[str, Any]]:
    """Exit code and verdict over the groups of a pattern."""
    line = [sys.executable, "-m", "samerack.cli.main", "verify", "--json", "--measure", "-b", cluster.bootstrap]
    line += ["--window", str(_WINDOW_SECONDS), "-s", f"traffic.groups={json.dumps([groups])}"]
    line += [part for setting in settings for part in ("-s", setting)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120, env=_environment())
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("SAMERACK_")}


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
def test_a_sound_group_and_one_without_racks(scene: Scene, other: Scene) -> None:
    """Of two groups on the same brokers only the one whose clients send no rack has a finding, which costs money."""
    for one, client in ((scene, "confluent"), (other, "kafka-python")):
        one.lay_out(INTERLEAVED)
        for rack in (A, B, C):
            one.join(client, rack)
        one.wait_settled()
    code, verdict = verify(scene.cluster, scene.group)
    assert (codes(verdict), code) == ([], 0)
    code, verdict = verify(other.cluster, other.group)
    assert code == 1
    assert "3 of 3 members" in the_one(verdict, other.group, "members-without-rack")["cause"]


def test_a_sound_set_up_has_nothing_to_find(sound: Cluster) -> None:
    """Brokers and members with racks, a selector, and a client whose range is rack-aware give exit code 0."""
    code, verdict = verify(sound, "nothing")
    assert (codes(verdict), code) == ([], 0)
    assert (verdict["groups"], verdict["brokers"]) == (1, 3)


def test_a_sound_group_among_others_has_nothing_to_find(verdict: dict[str, Any]) -> None:
    """Only groups with faults have findings, sorted by cost, the highest first."""
    assert {finding["where"] for finding in verdict["findings"]} == {
        f"group {one}" for one in FAULTS.keys() - {"nothing"}
    }
    dollars = [finding["dollars_per_month"] or 0.0 for finding in verdict["findings"]]
    assert dollars == sorted(dollars, reverse=True)


def test_members_without_rack(verdict: dict[str, Any]) -> None:
    """The finding names clients without a rack, and the cost at random."""
    finding = the_one(verdict, "no-rack", "members-without-rack")
    assert "3 of 3 members" in finding["cause"]
    assert "no-rack-a" in finding["cause"]
    assert finding["dollars_per_month"] > 0


def test_racks_that_differ_only_in_case(verdict: dict[str, Any]) -> None:
    """The finding shows both spellings."""
    assert "'Rack-A' and 'rack-a'" in the_one(verdict, "case", "racks-differ-in-case")["cause"]


def test_racks_that_never_meet(verdict: dict[str, Any]) -> None:
    """The finding lists the members' racks that no broker has."""
    assert "x, y, z" in the_one(verdict, "strangers", "racks-never-meet")["cause"]


def test_a_share_at_the_random_baseline(verdict: dict[str, Any]) -> None:
    """All racks are known and roundrobin ignores them: all traffic crosses racks, more than at random."""
    finding = the_one(verdict, "random", "at-random-baseline")
    assert "at random (67%)" in finding["cause"]
    assert finding["dollars_per_month"] > 0


def test_traffic_that_could_be_avoided(verdict: dict[str, Any]) -> None:
    """Half of the traffic crosses racks, which is neither in rack nor random, and nothing else is wrong."""
    finding = the_one(verdict, "half", "avoidable-traffic")
    assert "50% crosses racks, 0% would do" in finding["cause"]
    assert finding["dollars_per_month"] > 0


def test_members_that_share_no_protocol_with_the_agent(verdict: dict[str, Any]) -> None:
    """A group whose only assignor the agent does not offer has a finding without cost while it reads in rack."""
    (finding,) = [one for one in verdict["findings"] if one["where"] == "group protocol"]
    assert (finding["code"], finding["costs"]) == ("no-common-protocol", False)
    assert "add 'cooperative-sticky' to leading.protocols" in finding["cure"]


def test_a_group_that_lost_rack_awareness_to_the_brokers(verdict: dict[str, Any]) -> None:
    """KIP-848: brokers that ignore racks assign the same clients with the same racks; the finding has the cost."""
    finding = the_one(verdict, "kip-848", "broker-assigned-without-racks")
    assert "KIP-848" in finding["cause"]
    assert finding["dollars_per_month"] > 0


def test_replicas_that_prevent_locality(verdict: dict[str, Any]) -> None:
    """A topic with all replicas in one rack and members in three cannot be read in rack."""
    finding = the_one(verdict, "one-rack", "replicas-prevent-locality")
    assert "at least 67% has to cross" in finding["cause"]
    assert "6 of 6 partitions" in finding["cause"]


def test_members_in_few_racks(sound: Cluster, verdict: dict[str, Any]) -> None:
    """A rack without a member has a third of the partitions; `plan` shows the same before an agent leads the group."""
    finding = the_one(verdict, "uneven", "uneven-over-racks")
    assert "at least 33% across racks (2 of 6 partitions), 0% if members were spread evenly" in finding["cause"]
    assert "fewer in rack-a (1, not 2), more in rack-c (1, not 0)" in finding["cure"]
    assert finding["dollars_per_month"] > 0
    line = [sys.executable, "-m", "samerack.cli.main", "plan", "uneven", "-b", sound.bootstrap]
    answer, shown = (
        subprocess.run(
            [*line, *more], capture_output=True, text=True, check=True, timeout=120, env=_environment()
        ).stdout
        for more in (["--json"], [])
    )
    spread = json.loads(answer)["over_racks"]
    assert [(one["rack"], one["members"], one["near_partitions"]) for one in spread["racks"]] == [
        ("rack-a", 2, 2),
        ("rack-b", 1, 2),
        ("rack-c", 0, 2),
    ]
    assert (spread["across"], spread["across_if_even"]) == (2, 0)
    assert "fewer in rack-a (1, not 2), more in rack-c (1, not 0)" in " ".join(shown.split())


def test_what_the_page_shows_is_text(sound: Cluster) -> None:
    """Without --json, the findings are printed as lines with causes and cures."""
    line = [sys.executable, "-m", "samerack.cli.main", "verify", "--measure", "-b", sound.bootstrap, "-w", "2"]
    line += ["-s", 'traffic.groups=["strangers"]']
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120, env=_environment())
    assert done.returncode == 1
    assert "group strangers: racks-never-meet" in done.stdout
    assert "cure: correct client.rack" in " ".join(done.stdout.split())
    assert "1 finding that cost money" in " ".join(done.stdout.split()).replace("findings", "finding")


@pytest.fixture(scope="module")
def broken() -> dict[str, Any]:
    """The findings of a cluster whose brokers have three kinds of faults at once."""
    ids = Fault(racks=("use1-az1", "use1-az2", "use1-az4"), replicas=((1, 2, 3), (2, 3, 1), (3, 1, 2)) * 2)
    flat = Fault(racks=("us-east-1a", "us-east-1c", "us-east-1a"), replicas=ids.replicas)
    names = {1: "us-east-1a", 2: None, 3: "us-east-1c"}
    with Cluster(names, rack_aware=False) as cluster, reading(cluster, {"orders": ids, "flat": flat}):
        code, found = verify(cluster, "orders")
        _, claimed = verify(cluster, "flat", "racks.replica_selector=rack-aware")
    assert code == 1
    assert len(found["findings"]) == 3
    return {**found, "claimed": claimed}


def test_zone_names_against_zone_ids(broken: dict[str, Any]) -> None:
    """The finding shows that brokers use zone names, and members zone ids."""
    finding = the_one(broken, "orders", "zone-name-against-id")
    assert "use1-az1" in finding["cause"]
    assert "us-east-1a" in finding["cause"]


def test_brokers_without_rack(broken: dict[str, Any]) -> None:
    """The finding names the broker."""
    finding = next(one for one in broken["findings"] if one["code"] == "brokers-without-rack")
    assert (finding["where"], finding["costs"]) == ("broker 2", True)


def test_no_rack_aware_selector(broken: dict[str, Any]) -> None:
    """Without the selector, consumers have to read from leaders although each rack has a replica."""
    finding = next(one for one in broken["findings"] if one["code"] == "no-rack-aware-selector")
    assert "RackAwareReplicaSelector" in finding["cure"]
    assert finding["costs"]


def test_brokers_that_do_not_do_what_is_said_of_them(broken: dict[str, Any]) -> None:
    """Members have racks with replicas and settings say that followers serve; the brokers' answer shows leaders."""
    finding = the_one(broken["claimed"], "flat", "followers-do-not-serve")
    assert "the brokers answer fetches with these racks so" in finding["cause"]
    assert "racks.replica_selector" in finding["cure"]
    assert finding["dollars_per_month"] > 0


def test_nobody_answers() -> None:
    """Without a broker, the command ends with exit code 1 and one line."""
    line = [sys.executable, "-m", "samerack.cli.main", "verify", "--measure", "-b", "127.0.0.1:1"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120, env=_environment())
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("samerack: kafka 127.0.0.1:1: ")
