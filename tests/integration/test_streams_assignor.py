"""A real Kafka Streams application that takes its tasks from the agent: racks, and everything that can go wrong.

The application has state and exactly-once processing, three processes in three racks and two standbys of each task. It
runs on under load while the tests run, and its output is compared at the end.
"""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from lab.sandbox.admin import Admin, wait_until
from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.contract import KafkaCluster
from lab.sandbox.demo_streams import PLACES, STANDBYS, prepare, racks_by_task
from lab.sandbox.feeder import Feeder
from lab.sandbox.jvm import KAFKA_VERSION
from lab.sandbox.processes import end
from lab.sandbox.settings import free_ports
from lab.sandbox.streams import CLASS, StreamsApplication, compare
from tests import effort
from tests.clouds.http_server import Answer, Asked, Server

_APPLICATION: Final = f"payments-{uuid.uuid4().hex[:12]}"
_TOPIC: Final = f"transactions-{uuid.uuid4().hex[:12]}"
_EACH: Final = 8 if effort.ALL else 3
"""Sources in each rack."""
_PARTITIONS: Final = 3 * _EACH
_SOURCES: Final = [[1]] * _EACH + [[2]] * _EACH + [[3]] * _EACH
_CHANGELOGS: Final = [[2, 3]] * _EACH + [[3, 1]] * _EACH + [[1, 2]] * _EACH
"""Brokers by partition: a rack can serve a third of the sources, the two others their changelogs."""
_DEADLINE_MS: Final = 2000
_SLACK_MS: Final = 1500
"""The first question of a process loads the HTTP client, on a machine that has much else to do."""
_LAST: Final = PLACES[-1].name
_FORMER: Final = f"{_APPLICATION}-3-9"
"""The application on Kafka Streams 3.9."""


class Scenario:
    """The cluster, the application and its load."""

    def __init__(self, folder: Path, cluster: KafkaCluster, admin: Admin) -> None:
        self.folder = folder
        self.cluster = cluster
        self.admin = admin
        (self.port,) = free_ports(1)
        self.application = self.new_application(_APPLICATION)

    def new_application(self, name: str, *, version: str = KAFKA_VERSION) -> StreamsApplication:
        """Return an application that reads the topic and asks the agent; nothing is started yet."""
        return StreamsApplication(
            PLACES,
            bootstrap=self.cluster.bootstrap,
            application=name,
            topic=_TOPIC,
            folder=self.folder / name,
            version=version,
            properties={
                "num.stream.threads": "1",
                "num.standby.replicas": str(STANDBYS),
                "acceptable.recovery.lag": "1000000",  # warm-ups would take ten minutes
                "commit.interval.ms": "1000",  # each commit of each thread is a transaction over its partitions
                "task.assignor.class": CLASS,
                "samerack.url": f"http://127.0.0.1:{self.port}",
                "samerack.retry.ms": "0",  # each rebalance asks
                "rack.aware.assignment.strategy": "min_traffic",
            },
        )

    def agent(self) -> AgentProcess:
        """Start an agent that answers."""
        made = AgentProcess(
            self.cluster.bootstrap,
            groups=(),
            log=self.folder / "agent.log",
            settings={
                "web.port": self.port,
                "traffic.groups": [_APPLICATION, _FORMER],
                "streams.applications": {_APPLICATION: {}, _FORMER: {}},
            },
        )
        made.wait(lambda: made.get("/healthz")[0] == 200, "the agent answers")
        return made

    def wait(self) -> None:
        """Wait until all tasks run."""
        self.application.wait_complete(_PARTITIONS, standbys=STANDBYS)

    def restart_last(self) -> None:
        """Restarts a process, which rebalances."""
        self.application.stop(_LAST)
        self.application.start(_LAST)

    def count(self, name: str) -> float:
        """Return a count of samerack's assignor."""
        return self.application.counts().get(name, 0)

    def waits_for(self, name: str, holds: Callable[[float], bool]) -> None:
        """Wait until a count of samerack's assignor is as wanted."""
        wait_until(lambda: holds(self.count(name)), f"{name} is as wanted", timeout=60)

    def sources_crossing(self) -> int:
        """Return how many tasks read across racks."""
        return self.application.crossing(racks_by_task(self.admin, _TOPIC))


@pytest.fixture(scope="module")
def scenario(shared_cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenario]:
    """The running application under load; in the end its output has each record once, counted on the right state."""
    with Admin(shared_cluster.bootstrap) as admin:
        admin.create_topic(_TOPIC, _SOURCES)
        prepare(admin, _APPLICATION, _CHANGELOGS)
        made = Scenario(tmp_path_factory.mktemp("streams"), shared_cluster, admin)
        with made.application, Feeder(shared_cluster.bootstrap, {_TOPIC: _PARTITIONS}, pause=0.2) as feeder:
            agent = made.agent()
            made.application.start_all()
            made.wait()
            agent.stop()
            yield made
            feeder.finish()
            output = compare(made.application, admin)
            assert output.records > 0
            assert (output.lost, output.doubled, output.miscounted) == (0, 0, 0)


@pytest.mark.promise(
    "A Kafka Streams application with samerack's task assignor runs its tasks where their partitions are (KIP-924)."
)
def test_tasks_run_where_their_partitions_are(scenario: Scenario) -> None:
    """All sources are read in rack, as the plan says; scripts/demo --streams says how many bytes still cross."""
    with scenario.agent():
        before = scenario.count("AgentPlans")
        scenario.restart_last()
        scenario.wait()
        scenario.waits_for("AgentPlans", lambda now: now > before)
        scenario.wait()
        assert scenario.sources_crossing() == 0


def test_standbys_are_in_other_racks_than_their_task(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """With two instances in one rack, where both could have a copy of a task, its three copies are in three racks."""
    monkeypatch.setitem(scenario.application.places, _LAST, replace(PLACES[-1], instances=2))
    with scenario.agent():
        before = scenario.count("AgentPlans")
        scenario.restart_last()
        scenario.waits_for("AgentPlans", lambda now: now > before)
        scenario.wait()
        racks: dict[str, list[str]] = {}
        for instance, tasks in scenario.application.tasks().items():
            for task in tasks.active | tasks.standby:
                racks.setdefault(task, []).append(scenario.application.places[instance.rpartition("-")[0]].rack)
        assert len(racks) == _PARTITIONS
        assert {tuple(sorted(copies)) for copies in racks.values()} == {tuple(place.rack for place in PLACES)}
        monkeypatch.undo()
        scenario.restart_last()
        scenario.wait()


def test_an_agent_that_is_stopped_in_a_rebalance_costs_the_deadline(scenario: Scenario) -> None:
    """After SIGSTOP the fall-back plans within the deadline, and all tasks go on."""
    with scenario.agent() as agent:
        agent.pause()
        before = scenario.count("FallbacksForDeadline")
        scenario.restart_last()
        scenario.waits_for("FallbacksForDeadline", lambda now: now > before)
        scenario.wait()
    assert _DEADLINE_MS <= scenario.count("LongestAssignmentMilliseconds") < _DEADLINE_MS + _SLACK_MS


@pytest.mark.promise("An agent that is killed while it plans for a Kafka Streams application costs it nothing.")
def test_an_agent_that_is_killed_in_a_rebalance_costs_nothing(scenario: Scenario) -> None:
    """With kill -9 while a question waits, the fall-back plans at once."""
    with scenario.agent() as agent:
        agent.pause()
        before = scenario.count("FallbacksForNoAnswer")
        scenario.restart_last()
        wait_until(lambda: _is_asked(scenario.port), "the application asks the agent", timeout=60, pause=0.01)
        end(agent.process, kill=True)
        scenario.waits_for("FallbacksForNoAnswer", lambda now: now > before)
        scenario.wait()


def _is_asked(port: int) -> bool:
    line = ["ss", "-tnHO", "state", "established", "dst", f"127.0.0.1:{port}"]
    return bool(subprocess.run(line, check=True, capture_output=True, text=True).stdout.strip())


def test_kafka_streams_3_9_takes_its_tasks(scenario: Scenario) -> None:
    """The same jar works in the oldest Kafka Streams that it is for; without the agent it plans itself."""
    prepare(scenario.admin, _FORMER, _CHANGELOGS)
    with scenario.new_application(_FORMER, version="streams-3.9") as former:
        with scenario.agent() as agent:
            former.start_all()
            agent.wait(
                lambda: _is_planned_in_rack(agent, clients=len(PLACES)), "all processes have tasks in their racks"
            )
            wait_until(lambda: former.runs_each(_PARTITIONS), "all tasks run", timeout=60)
            assert former.counts()["AgentPlans"] > 0
        former.stop(_LAST)
        former.start(_LAST)
        wait_until(lambda: former.counts().get("FallbacksForNoAnswer", 0) > 0, "it plans itself", timeout=60)
        wait_until(lambda: former.runs_each(_PARTITIONS), "all tasks run", timeout=60)
        assert former.events("error") == []


def _is_planned_in_rack(agent: AgentProcess, *, clients: int) -> bool:
    """Whether the last plan of the application on 3.9 has these clients, crosses no rack, and is in use."""
    statuses: list[dict[str, Any]] = agent.json("/v1/streams")["applications"]
    return any(
        (status["application"], plan["clients"], plan["sources_after"], status["trouble"]) == (_FORMER, clients, 0, "")
        for status in statuses
        if (plan := status["planned"]) is not None
    )


class WrongAgent(Server):
    """Answers questions with plans that break one rule each, in turn."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.given: list[str] = []

    def answer(self, asked: Asked) -> Answer:
        """Return the next wrong plan."""
        if "/assign?" not in asked.path:
            return Answer(status=204)
        question = json.loads(asked.body)
        wrongs = _wrong_plans(question)
        name = list(wrongs)[len(self.given) % len(wrongs)]
        self.given.append(name)
        return Answer(text=json.dumps({"version": 1, "plan": name, "clients": wrongs[name], "warnings": []}))


def _wrong_plans(question: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return a plan for each rule that a plan of stateful tasks can break, by the `AssignmentError` of KIP-924.

    INVALID_STANDBY_TASK needs a stateless one: `aPlanThatBreaksARuleOfTasksNeverReachesKafkaStreams`.
    """
    everything = list(range(len(question["tasks"])))

    def client(process: str, active: list[int], standby: list[int]) -> dict[str, Any]:
        return {"process": process, "active": active, "standby": standby, "followup_ms": None}

    first, *others = [one["process"] for one in question["clients"]]
    rest = [client(process, [], []) for process in others]
    whole = client(first, everything, [])
    return {
        "ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES": [client(first, [*everything, 0], []), *rest],
        "ACTIVE_AND_STANDBY_TASK_ASSIGNED_TO_SAME_KAFKASTREAMS": [client(first, everything, [0]), *rest],
        "UNKNOWN_TASK_ID": [client(first, [*everything, len(everything)], []), *rest],
        "UNKNOWN_PROCESS_ID": [whole, *rest, client("00000000-0000-0000-0000-000000000000", [], [])],
        "MISSING_PROCESS_ID": [client(first, everything, [])] if rest else [],
        "each task is active": [client(first, everything[1:], []), *rest],
        "each client once": [whole, whole, *rest],
    }


def test_wrong_plans_never_reach_kafka_streams(scenario: Scenario) -> None:
    """A plan that breaks any rule is not used: no stream thread ends, all tasks run, and each is counted."""
    planned, invalid = scenario.count("AgentPlans"), scenario.count("FallbacksForInvalidPlan")
    with WrongAgent(scenario.port) as wrong:
        while len(set(wrong.given)) < 7:  # a restart needs one rebalance or several
            scenario.restart_last()
            scenario.wait()
        assert scenario.count("AgentPlans") == planned
        assert scenario.count("FallbacksForInvalidPlan") >= invalid + 7
        assert scenario.application.events("error") == []
