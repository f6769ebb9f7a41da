"""`samerack streams plan --group` on real Kafka Streams applications, and the commands of its page."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from lab.sandbox.admin import Admin, wait_until
from lab.sandbox.contract import KafkaCluster
from lab.sandbox.feeder import Feeder
from lab.sandbox.jvm import BROKER_VERSION
from lab.sandbox.members.lines import MemberSettings
from lab.sandbox.members.process import Member
from lab.sandbox.streams import runs
from tests.docs import Command, blocks
from tests.integration.scenario import IN_TWO_RACKS

_SAMERACK: Final = str(Path(sys.executable).parent / "samerack")
Applications = dict[str, "Application"]
"""Applications by protocol."""
_RACKS: Final = {"one": "rack-a", "two": "rack-b", "three": "rack-c"}


@dataclass(kw_only=True)
class Application:
    """Three instances, one in each rack, that count records of six partitions behind a repartition topic.

    `standbys` is how many there are in all: brokers ignore `num.standby.replicas` of an application.
    """

    cluster: KafkaCluster
    name: str
    standbys: int
    members: list[Member] = field(default_factory=list)

    def plan(self, *options: str) -> dict[str, Any]:
        """What the command shows, as JSON."""
        shown: dict[str, Any] = json.loads(self.run("--json", *options))
        return shown

    def run(self, *options: str) -> str:
        """What the command prints."""
        line = [_SAMERACK, "streams", "plan", "--group", self.name, "-b", self.cluster.bootstrap, *options]
        done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def settled(self) -> dict[str, Any]:
        """The plan once every instance has tasks, and all standbys are there."""
        shown: list[dict[str, Any]] = []

        def complete() -> bool:
            shown.append(self.plan())
            clients = shown[-1]["clients"]
            return (
                len(clients) == len(_RACKS)
                and sum(len(one["active"]) for one in clients) == 12
                and sum(len(one["standby"]) for one in clients) == self.standbys
                and shown[-1]["changelogs"][0]["subtopology"] is not None
            )

        wait_until(complete, "the application has settled", timeout=120, pause=2)
        return shown[-1]


@pytest.fixture(scope="module")
def applications(shared_cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Applications]:
    """An application on each protocol, under load, of a topic of which each partition has replicas in two racks."""
    topic = f"topic-{uuid.uuid4().hex[:12]}"
    protocols = ["classic"] if BROKER_VERSION.startswith("3.") else ["classic", "streams"]
    with Admin(shared_cluster.bootstrap) as admin, ExitStack() as stack:
        admin.create_topic(topic, IN_TWO_RACKS)
        stack.callback(admin.delete_topic, topic)
        stack.enter_context(Feeder(shared_cluster.bootstrap, {topic: len(IN_TWO_RACKS)}))
        started = {}
        for protocol in protocols:
            made = started[protocol] = Application(
                cluster=shared_cluster,
                name=f"group-{uuid.uuid4().hex[:12]}",
                standbys={"classic": 6, "streams": 0}[protocol],
            )
            for name, rack in _RACKS.items():
                settings = MemberSettings(
                    bootstrap=shared_cluster.bootstrap,
                    group=made.name,
                    topics=(topic,),
                    client_id=name,
                    rack=rack,
                    properties={
                        "group.protocol": protocol,
                        "state.dir": str(tmp_path_factory.mktemp(name)),
                        "counts": "true",
                        "commit.interval.ms": "500",
                        "num.standby.replicas": "1",
                        "num.stream.threads": "1",
                        "probing.rebalance.interval.ms": "60000",
                        "client.tag.zone": rack,
                    },
                )
                made.members.append(stack.enter_context(Member.on("java-streams", settings)))
            # one protocol after the other: six JVMs that start at once leave the other tests no processor
            for running in made.members:
                running.wait(lambda running=running: runs(running), "it runs")  # type: ignore[misc]  # the default binds it
        yield started


@pytest.fixture(params=["classic", "streams"])
def application(request: pytest.FixtureRequest, applications: Applications) -> Application:
    """The application on either protocol, which tests only read."""
    if request.param not in applications:
        pytest.skip("brokers assign no Streams groups before Kafka 4")
    return applications[request.param]


def test_a_live_application_is_planned(application: Application, admin: Admin, request: pytest.FixtureRequest) -> None:
    """Clients, tasks, racks, changelog and standbys are those of the real application, and the bill is counted anew.

    `min_traffic` reads no source across racks: every partition has a replica in two of three racks.
    """
    shown = application.settled()
    name, protocol = application.name, request.node.callspec.params["application"]
    assert shown["protocol"] == protocol
    assert shown["assigned_by"] == {"classic": "members", "streams": "brokers"}[protocol]
    assert ("have no effect" in shown["advice"][0]) == (protocol == "streams")
    racks = {one["rack"]: one for one in shown["clients"]}
    assert racks.keys() == set(_RACKS.values())
    assert all(one["rack_from"] == "subscription" for one in shown["clients"])
    assert all(one["tags"] == {"zone": one["rack"]} for one in shown["clients"])
    active = sorted(task for one in shown["clients"] for task in one["active"])
    assert active == sorted(f"{part}_{number}" for part in (0, 1) for number in range(6))
    (log,) = shown["changelogs"]
    assert (log["topic"], log["subtopology"], log["partitions"]) == (f"{name}-counts-changelog", 1, 6)
    assert [(one["tasks"], one["stateful"]) for one in shown["subtopologies"]] == [(6, False), (6, True)]
    assert {task.partition("_")[0] for one in shown["clients"] for task in one["standby"]} <= {"1"}
    assert shown["standbys_now"] == application.standbys // 6
    # what crosses racks, counted from the replicas alone
    sources = {one["subtopology"]: one["sources"] for one in shown["subtopologies"]}
    topics = [topic for read in sources.values() for topic in read]
    places = admin.replicas([*topics, log["topic"]])
    crossing = 0
    for one in shown["clients"]:
        for task in one["active"]:
            part, number = map(int, task.split("_"))
            near = [{f"rack-{' abc'[broker]}" for broker in places[topic, number].replicas} for topic in sources[part]]
            crossing += sum(one["rack"] not in each for each in near)
    assert shown["present"]["sources"] == {
        "near": 12 - crossing,
        "across": crossing,
        "unknown": 0,
        "across_bytes_per_second": None,
    }
    best = next(one for one in shown["options"] if (one["assignor"], one["strategy"]) == ("ha", "min_traffic"))
    assert best["error"] is None
    assert best["bill"]["sources"]["across"] <= crossing
    assert best["bill"]["standbys"] == application.standbys
    assert sorted(task for one in best["clients"].values() for task in one["active"]) == active


@pytest.mark.parametrize("application", ["classic"], indirect=True)
def test_bytes_are_measured(application: Application) -> None:
    """With `--seconds` sources, changelogs and restored state have bytes, and what crosses racks has a price."""
    application.settled()
    shown = application.plan("--seconds", "10")
    across = [shown["present"]["sources"], shown["present"]["changelogs"]]
    assert all(one["across_bytes_per_second"] is not None for one in across)
    assert all(one["across_bytes_per_second"] > 0 for one in across if one["across"])
    assert (shown["present"]["dollars_per_month"] > 0) == any(one["across"] for one in across)
    assert all(one["bill"]["restored_bytes"] is not None for one in shown["options"])
    assert "bytes" not in [one["what"] for one in shown["unknown"]]


@pytest.mark.parametrize("application", ["classic"], indirect=True)
def test_the_commands_of_the_page_run(application: Application) -> None:
    """Each command of docs/streams-plan.md ends with exit code 0 and prints something, with this group and address."""
    application.settled()
    commands: list[Command] = [one for one in blocks() if one.page == "streams-plan.md"]
    assert len(commands) == 6
    for command in commands:
        words = [
            {"127.0.0.1:9092": application.cluster.bootstrap, "shipments": application.name}.get(w, w)
            for w in command.words
        ]
        done = subprocess.run([_SAMERACK, *words[1:]], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout
