"""`samerack verify` on real clusters, each broken in one way: it names the fault, and nothing on a sound one.

Brokers are JVM processes here: a cluster of its own for each fault of the brokers costs three seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import pytest

from sandbox.admin import Admin, wait_until
from sandbox.cluster import Cluster
from sandbox.contract import RACKS
from sandbox.feeder import Feeder
from sandbox.members.lines import MemberSettings
from sandbox.members.process import Member

TOPIC: Final = "clicks"
GROUP: Final = "orders"
ROTATED: Final = ((1,), (2,), (3,), (1,), (2,), (3,))
"""Placed so that range and uniform, which do not heed racks, read two thirds across them."""
_WINDOW_SECONDS: Final = 4
_LETTERS: Final = "abc"


@pytest.fixture(scope="module")
def sound() -> Iterator[Cluster]:
    """A cluster without faults, for the faults of groups."""
    with Cluster() as cluster:
        yield cluster


@contextmanager
def reading(
    cluster: Cluster,
    *,
    racks: Sequence[str | None] = ("rack-a", "rack-b", "rack-c"),
    client: str = "confluent",
    assignors: Sequence[str] = ("range",),
    replicas: Sequence[Sequence[int]] = ROTATED,
    properties: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """A topic that is written all the time and a group that reads it; its name."""
    suffix = f"{time.monotonic_ns():x}"
    topic, group = f"{TOPIC}-{suffix}", f"{GROUP}-{suffix}"
    commits = {"auto.commit.interval.ms": "500"}
    with ExitStack() as stack:
        admin = stack.enter_context(Admin(cluster.bootstrap))
        admin.create_topic(topic, replicas)
        stack.enter_context(Feeder(cluster.bootstrap, {topic: len(replicas)}, pause=0.02))
        members = []
        for letter, rack in zip(_LETTERS, racks, strict=True):
            settings = MemberSettings(
                bootstrap=cluster.bootstrap,
                group=group,
                topics=(topic,),
                client_id=f"member-{letter}",
                rack=rack,
                assignors=tuple(assignors),
                properties={**commits, **(properties or {})},
            )
            members.append(stack.enter_context(Member.python(client, settings)))
        wait_until(
            lambda: (
                all(member.owned for member in members)
                and sum(len(member.owned) for member in members) == len(replicas)
            ),
            "every member has partitions",
        )
        time.sleep(1.0)  # for commits of everybody, without which there is nothing to measure
        yield group


def verify(cluster: Cluster, group: str, *settings: str) -> tuple[int, dict[str, Any]]:
    """Exit code and verdict over one group."""
    line = [sys.executable, "-m", "agent.cli.main", "verify", "--json", "--measure", "-b", cluster.bootstrap]
    line += ["--window", str(_WINDOW_SECONDS), "-s", f"traffic.groups={json.dumps([group])}"]
    line += [part for setting in settings for part in ("-s", setting)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60, env=_environment())
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("SAMERACK_")}


def codes(verdict: Mapping[str, Any]) -> list[str]:
    """The kinds of findings."""
    return [finding["code"] for finding in verdict["findings"]]


def the_one(code: int, verdict: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The only finding: of this kind, with cause and cure, and it costs money."""
    assert (codes(verdict), code) == ([kind], 1)
    (finding,) = verdict["findings"]
    assert finding["costs"]
    assert finding["cause"]
    assert finding["cure"]
    return dict(finding)


def test_a_sound_set_up_has_nothing_to_find(sound: Cluster) -> None:
    """Racks on both sides, a selector, a client whose range heeds racks: exit code 0."""
    with reading(sound) as group:
        code, verdict = verify(sound, group)
    assert (codes(verdict), code) == ([], 0)
    assert (verdict["groups"], verdict["brokers"]) == (1, 3)


def test_members_without_rack(sound: Cluster) -> None:
    """Clients that name no rack are named, with what that costs at random."""
    with reading(sound, racks=(None, None, None)) as group:
        finding = the_one(*verify(sound, group), "members-without-rack")
    assert "3 of 3 members" in finding["cause"]
    assert "member-a" in finding["cause"]
    assert finding["dollars_per_month"] > 0


def test_racks_that_differ_only_in_case(sound: Cluster) -> None:
    """Both spellings are shown."""
    with reading(sound, racks=("Rack-A", "Rack-B", "Rack-C")) as group:
        finding = the_one(*verify(sound, group), "racks-differ-in-case")
    assert "'Rack-A' and 'rack-a'" in finding["cause"]


def test_racks_that_never_meet(sound: Cluster) -> None:
    """Racks of members that no broker stands in."""
    with reading(sound, racks=("x", "y", "z")) as group:
        finding = the_one(*verify(sound, group), "racks-never-meet")
    assert "x, y, z" in finding["cause"]


def test_zone_names_against_zone_ids() -> None:
    """Brokers name zones by name, members by id."""
    names = {1: "us-east-1a", 2: "us-east-1b", 3: "us-east-1c"}
    with Cluster(names) as cluster, reading(cluster, racks=("use1-az1", "use1-az2", "use1-az4")) as group:
        finding = the_one(*verify(cluster, group), "zone-name-against-id")
    assert "use1-az1" in finding["cause"]
    assert "us-east-1a" in finding["cause"]


def test_a_share_at_the_random_baseline(sound: Cluster) -> None:
    """Racks are known of everybody and roundrobin heeds none: two thirds cross, as at random."""
    racks = 'racks.client_ids={"member-a": rack-a, "member-b": rack-b, "member-c": rack-c}'
    rotated = ((2,), (3,), (1,), (2,), (3,), (1,))  # roundrobin gives the n-th partition to the n-th member
    with reading(sound, racks=(None, None, None), assignors=("roundrobin",), replicas=rotated) as group:
        finding = the_one(*verify(sound, group, racks), "at-random-baseline")
    assert "at random (67%)" in finding["cause"]
    assert finding["dollars_per_month"] > 0


def test_members_that_share_no_protocol_with_the_agent(sound: Cluster) -> None:
    """A group whose only assignor the agent does not offer; nothing is lost as long as its traffic is near."""
    with reading(sound) as group:
        code, verdict = verify(sound, group, 'leading.protocols=["sticky"]')
    assert (codes(verdict), code) == (["no-common-protocol"], 0)
    assert "add 'range' to leading.protocols" in verdict["findings"][0]["cure"]


def test_a_group_that_lost_rack_awareness_to_the_brokers(sound: Cluster) -> None:
    """KIP-848: the same clients with the same racks, assigned by brokers that do not heed them, and what it costs."""
    properties = {"group.protocol": "consumer", "group.remote.assignor": "range"}
    with reading(sound, assignors=(), properties=properties, replicas=((1,), (3,), (2,), (1,), (3,), (2,))) as group:
        finding = the_one(*verify(sound, group), "broker-assigned-without-racks")
    assert "KIP-848" in finding["cause"]
    assert finding["dollars_per_month"] > 0


def test_replicas_that_prevent_locality(sound: Cluster) -> None:
    """All of a topic in one rack, and members in three."""
    with reading(sound, replicas=((1,),) * 6) as group:
        finding = the_one(*verify(sound, group), "replicas-prevent-locality")
    assert "at least 67% has to cross" in finding["cause"]
    assert "6 of 6 partitions" in finding["cause"]


def test_brokers_without_rack() -> None:
    """The broker is named."""
    with Cluster({**RACKS, 2: None}) as cluster, reading(cluster) as group:
        code, verdict = verify(cluster, group)
    assert code == 1
    finding = next(one for one in verdict["findings"] if one["code"] == "brokers-without-rack")
    assert finding["where"] == "broker 2"


def test_no_rack_aware_selector() -> None:
    """Every rack has a replica, and consumers still have to read from leaders."""
    replicas = ((1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 2, 3), (2, 3, 1), (3, 1, 2))
    with Cluster(rack_aware=False) as cluster, reading(cluster, replicas=replicas) as group:
        code, verdict = verify(cluster, group)
    assert code == 1
    assert "no-rack-aware-selector" in codes(verdict)


def test_nobody_answers() -> None:
    """No broker, no verdict: exit code 1 with one line."""
    line = [sys.executable, "-m", "agent.cli.main", "verify", "--measure", "-b", "127.0.0.1:1"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60, env=_environment())
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("samerack: kafka: ")


def test_what_the_page_shows_is_text(sound: Cluster) -> None:
    """Without --json the same findings stand as lines with marks, causes and cures."""
    with reading(sound, racks=("x", "y", "z")) as group:
        line = [sys.executable, "-m", "agent.cli.main", "verify", "--measure", "-b", sound.bootstrap, "-w", "2"]
        line += ["-s", f"traffic.groups={json.dumps([group])}"]
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60, env=_environment())
    assert done.returncode == 1
    assert f"group {group}: racks-never-meet" in done.stdout
    assert "cure: correct client.rack" in " ".join(done.stdout.split())
    assert "1 finding that cost money" in " ".join(done.stdout.split()).replace("findings", "finding")
