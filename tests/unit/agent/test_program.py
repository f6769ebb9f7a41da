"""The parts of an agent: wrong input, health and readiness by role; and changed settings of a running one."""

from __future__ import annotations

import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from structlog.testing import capture_logs

from lab.sandbox.agent_process import AgentProcess
from samerack.agent.cluster_agent import ClusterAgent
from samerack.agent.group_status import GroupStatus
from samerack.agent.metrics import Metrics
from samerack.agent.program import only_observing
from samerack.agent.settings_source import SettingsSource, continues
from samerack.agent.settings_watch import SettingsWatch
from samerack.agent.supervisor.protocol import WorkerStart
from samerack.common.errors import AgentError, SettingsError
from samerack.reporting.evidence import StreamsPlanning
from samerack.settings.all_settings import Settings
from samerack.settings.loading import load
from tests.commands import parsed
from tests.docs import blocks, sources
from tests.unit.agent.test_metrics import STREAMS_PLAN

_STARTS = re.compile(r"sys\.executable,\s*(?P<options>(\"-\w+\",\s*)*)\"-m\"")


def built(groups: tuple[str, ...]) -> ClusterAgent:
    """An agent of these groups, without brokers."""
    flags = {"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "groups": groups}
    return ClusterAgent(load(flags=flags, environment={}))


@pytest.fixture
def agent() -> ClusterAgent:
    """An agent of two groups."""
    return built(("orders", "payments"))


def test_observing_without_groups_is_observing_all() -> None:
    """To lead needs a group, and the message has every place that may name one; named ones are measured alone."""
    with pytest.raises(SettingsError, match=r"groups: is empty; .*--group, SAMERACK_GROUPS or in the file"):
        built(())
    flags = {"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "web": {"port": 0}}
    every = only_observing(load(flags=flags, environment={}))
    assert (every.groups, every.traffic.groups) == ((), ("*",))
    named = only_observing(load(flags={**flags, "groups": ["orders"]}, environment={}))
    assert (named.groups, named.traffic.groups) == ((), ("orders",))
    made = ClusterAgent(every)
    assert not made.parts.led


def test_an_agent_may_be_for_streams_applications_alone() -> None:
    """The command of the page plans for each application that asks, and so does an agent of the section alone."""
    (command,) = [one for one in blocks() if one.page == "streams.md"]
    name, given = parsed(shlex.join(command.words))
    assert (name, given["observe"]) == ("run", True)
    flags = {"kafka": {"bootstrap.servers": given["bootstrap"][0]}, "web": {"port": 0}}
    for settings in (
        only_observing(load(flags=flags, environment={})),
        load(flags=flags | {"streams": {"applications": {"orders": {"strategy": "min_traffic"}}}}, environment={}),
    ):
        assert ClusterAgent(settings).parts.streams is not None


def test_every_group_is_shown_once_from_the_start(agent: ClusterAgent) -> None:
    """A group is in the metrics before its first poll."""
    assert [(status.group, status.role) for status in agent.parts.metrics.board.all()] == [
        ("orders", "outside"),
        ("payments", "outside"),
    ]


def test_threads_that_have_ended_are_unhealthy(agent: ClusterAgent) -> None:
    """Each part is named with its error."""
    parts = {"watch", "poller", "traffic", "election", "events"}
    assert set(agent.health.unhealthy()) == parts | {"group orders", "group payments"}
    assert not agent.makes_progress(), "the supervisor replaces the process"
    agent.stop()
    assert agent.makes_progress(), "they were asked to end"


def test_findings_know_how_the_agent_plans_an_application(agent: ClusterAgent) -> None:
    """Strategy and weights of the last plan, as long as the application uses it."""
    assert agent.parts.streams is not None
    board = agent.parts.streams.board
    board.planned(STREAMS_PLAN, at=0.0, seconds=0.02)
    planning = StreamsPlanning(assignor="ha", strategy="min_traffic", weights="partitions")
    assert agent.reports.streams_plans() == {"payments": planning}
    board.fell_back("payments", "deadline")
    assert agent.reports.streams_plans() == {}


def test_services_stop_before_what_they_need(agent: ClusterAgent) -> None:
    """The leaders stop first, then the election, so that others take over; measuring stops last and is published."""
    names = [service.name for service in agent.in_stopping_order()]
    assert names == ["group orders", "group payments", "election", "watch", "poller", "traffic"]


def test_a_leader_that_hands_over_knows_the_cluster(agent: ClusterAgent) -> None:
    """It plans for its group meanwhile, also for topics that no poll has shown before."""
    stopping = {one.name: one._stopping for one in agent.in_stopping_order()}
    agent.stop()
    assert [name for name, one in stopping.items() if not one.is_set()] == ["watch"]
    assert agent.wait_handed_over(0.0) >= time.monotonic()
    assert stopping["watch"].is_set()


def test_readiness_asks_for_polls_and_roles(agent: ClusterAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent is ready once it has polled the cluster and is in every group, waits for consumers, or is standby."""
    monkeypatch.setattr(agent.health, "unhealthy", dict)
    assert set(agent.health.unready()) == {"watch", "group orders", "group payments"}
    agent.parts.watch.last_poll_at = time.monotonic()
    for group, role in (("orders", "leading"), ("payments", "observing")):
        agent.parts.metrics.board.publish(GroupStatus(group=group, role=role))
    assert agent.health.unready() == {"group payments": "observing"}
    agent.parts.metrics.board.publish(GroupStatus(group="payments", role="standby"))
    assert agent.health.unready() == {}
    agent.parts.metrics.board.publish(GroupStatus(group="orders", role="fenced", why="two of them"))
    agent.parts.watch.last_poll_at = time.monotonic() - 31
    waits = "no poll of the cluster in the last 30 s"
    assert agent.health.unready() == {"watch": waits, "group orders": "fenced: two of them"}


def test_publishing_that_no_broker_accepts_is_not_ready(agent: ClusterAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measuring may go on over connections that were made before; what publishes has another client."""
    monkeypatch.setattr(agent.health, "unhealthy", dict)
    monkeypatch.setattr(agent.parts, "publisher", SimpleNamespace(refusal="bad certificate; check it"))
    assert agent.health.unready()["publishing"] == "bad certificate; check it"


def test_a_leader_polls_its_group_from_when_it_had_no_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the lists of groups prove of a new one reaches the poller, so that it is led from its birth."""
    parts, polled = ClusterAgent(settings(groups=("found-*",), election={"group": ""})).parts, []

    def watch(group: str, _wake: object, *, empty_at: float | None) -> None:
        polled.append((group, empty_at))
        raise AgentError("no broker")

    monkeypatch.setattr(parts.poller, "watch", watch)
    parts.led.add("found-1", empty_at=5.0)
    next(parts.led["found-1"].work())
    assert polled == [("found-1", 5.0)]


def test_sigterm_before_the_first_answer_ends_it_at_once() -> None:
    """An agent whose brokers did not answer its first request waited for them, and ended after 5.7 s."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        line = [sys.executable, "-m", "samerack.cli.main", "run", "-g", "orders", "-b", address]
        line += ["-s", "web.port=0", "-s", "log.format=json", "-s", "events.path="]
        with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as agent:
            silent.settimeout(60)
            with silent.accept()[0]:
                agent.send_signal(signal.SIGTERM)
                errors = agent.communicate()[1]
    assert agent.returncode == 0, errors
    assert '"stopping"' in errors
    assert "kafka-unreachable" not in errors


def test_programs_are_started_without_the_working_directory() -> None:
    """Each `python -m` of the agent has -P, without which Python looks for modules in the working directory first."""
    starts = {
        (path.name, "-P" in found["options"])
        for path in sources()
        for found in _STARTS.finditer(path.read_text(encoding="utf-8"))
    }
    assert starts == {("pickle_process.py", True), ("process.py", True)}


def test_nothing_is_imported_from_the_working_directory(tmp_path: Path) -> None:
    """A file there with the name of a module is not run."""
    for name in ("pickle", "json", "samerack", "numpy"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')", encoding="utf-8")
    subprocess.run([sys.executable, "-P", "-m", "samerack.common.pickle_worker"], input=b"", cwd=tmp_path, check=False)
    assert not (tmp_path / "run").exists()


# changed settings

NOWHERE = "127.0.0.1:1"  # no broker answers here: the agent runs, and says so


def settings(**given: Any) -> Settings:
    """Settings with these on their upper level."""
    return load(flags={"kafka": {"bootstrap.servers": NOWHERE}, "groups": ("orders",), **given}, environment={})


class Running:
    """An agent with a file of settings."""

    def __init__(self, agent: AgentProcess, file: Path) -> None:
        self.agent = agent
        self._file = file

    def write(self, content: Mapping[str, Any] | str) -> None:
        """Replace the file as Kubernetes does: by another one under the same name."""
        new = self._file.with_suffix(".new")
        new.write_text(content if isinstance(content, str) else yaml.safe_dump(dict(content)), encoding="utf-8")
        new.replace(self._file)

    def hang_up(self) -> None:
        """Asks it to read its settings now, not at its next check."""
        self.agent.process.send_signal(signal.SIGHUP)

    def waits(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait until so many events of a name are logged; return them."""
        self.agent.wait(lambda: len(self.agent.events(event)) >= count, f"{event} is logged {count} times")
        return self.agent.events(event)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """An agent that has read its file once."""
    file = tmp_path / "samerack.yaml"
    file.write_text("groups: [orders]\n", encoding="utf-8")
    with AgentProcess(
        NOWHERE, groups=[], config=file, log=tmp_path / "agent.log", settings={"election.group": ""}
    ) as agent:
        one = Running(agent, file)
        one.waits("started")
        yield one


def test_a_changed_file_takes_effect_without_a_signal(running: Running) -> None:
    """The log has each difference; the next process has the new settings, and knows why it is there.

    Settings with which no process can begin are taken back, and the former ones return: an address that this machine
    does not have shows only when the port is opened. One agent for both, because each start takes a second.
    """
    agent = running.agent
    running.write({"groups": ["orders", "payments"], "policy": {"burst": 5}})
    (changed,) = running.waits("settings-changed")
    assert changed["changes"] == {
        "groups": {"before": ["orders"], "now": ["orders", "payments"]},
        "policy.burst": {"before": 3, "now": 5},
    }
    first, second = running.waits("started", 2)
    assert (first["groups"], second["groups"]) == (["orders"], ["orders", "payments"])
    running.write({"groups": ["payments"], "web": {"host": "192.0.2.1"}})
    running.hang_up()
    (reverted,) = running.waits("settings-reverted")
    assert reverted["exit_code"] == 1
    assert running.waits("started", 3)[-1]["groups"] == ["orders", "payments"]
    agent.wait(lambda: agent.metric("samerack_settings_refused") == 1, "the metric shows it")
    running.write({"groups": ["orders", "payments"], "policy": {"burst": 5}})
    running.hang_up()
    agent.wait(lambda: agent.metric("samerack_settings_refused") == 0, "the metric shows that the file is in force")
    running.write({"groups": ["orders"]})
    running.hang_up()
    assert running.waits("started", 4)[-1]["groups"] == ["orders"]
    assert not agent.events("worker-died")
    agent.stop()


def test_wrong_settings_are_refused_and_reported(running: Running) -> None:
    """The process goes on with the former ones, and a metric shows it until the file is right.

    A hangup reads the settings at once; without a change nothing begins anew.
    """
    agent = running.agent
    running.hang_up()
    running.waits("settings-unchanged")
    running.write("groups: [orders\n")
    (refused,) = running.waits("settings-refused")
    assert "samerack.yaml" in refused["reason"]
    agent.wait(lambda: agent.metric("samerack_settings_refused") == 1, "the metric shows it")
    running.write("groups: [orders]\n")
    running.hang_up()
    agent.wait(lambda: agent.metric("samerack_settings_refused") == 0, "the metric shows that the file is right")
    assert len(agent.events("started")) == 1


def test_identity_and_store_of_events_survive_other_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have names made of the groups; an agent that kept neither was unknown to its election and had no history."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    versions = [settings(), settings(groups=("orders", "payments"))]
    first = versions[0]
    source = SettingsSource(lambda: versions[0], start=WorkerStart())
    del versions[0]
    assert source.reread() is not None
    source.renew()
    assert source.in_force.changed == "groups", "not what the agent carried over"
    assert source.settings.events.path.endswith(".db")
    assert continues("orders", first, source.settings)
    assert not continues("others", first, source.settings)
    assert source.reread() is None


@pytest.mark.parametrize(
    ("servers", "stays"), [("b:1,a:1", True), ("PLAINTEXT://b:1, c:1", True), ("c:1", False), ("a:2", False)]
)
def test_lists_that_share_a_server_are_one_cluster(servers: str, *, stays: bool) -> None:
    """Found: the agent left every group when its bootstrap servers were listed in another order."""
    before, now = (settings(kafka={"bootstrap.servers": listed}) for listed in ("a:1,b:1", servers))
    assert continues("orders", before, now) == stays


def test_what_was_tried_in_vain_is_not_tried_again() -> None:
    """Else two processes would replace each other for ever."""
    versions = [settings(), settings(groups=("payments",))]
    source = SettingsSource(lambda: versions[0], start=WorkerStart())
    former = source.in_force.content
    del versions[0]
    source.reread()
    source.renew()
    start = WorkerStart(settings=former, rejected=source.in_force.content, why_rejected="exit code 1")
    source = SettingsSource(lambda: versions[0], start=start)
    assert source.settings.groups == ("orders",)
    with pytest.raises(SettingsError, match="exit code 1"):
        source.reread()


_RULES = {"payments-*": {"balance": "bytes"}, "*": {"balance": "records"}}
_NETWORKS = {"10.0.0.0/16": "a", "10.1.0.0/16": "b"}


def _reversed(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: values[key] for key in reversed([*values])}


def test_patterns_in_another_order_are_a_change() -> None:
    """Equal maps may differ in order: that another pattern was put first had no effect."""
    before = settings(leading={"groups": _RULES}, racks={"networks": _NETWORKS})
    now = settings(leading={"groups": _reversed(_RULES)}, racks={"networks": _reversed(_NETWORKS)})
    versions = [before, before, now]
    source = SettingsSource(lambda: versions.pop(0), start=WorkerStart())
    assert source.reread() is None
    found = source.reread()
    assert found is not None
    assert found.leading.of("payments-eu").balance == "records"
    source.renew()
    assert source.in_force.changed == "leading.groups"


def test_another_order_of_what_has_no_patterns_is_no_change() -> None:
    """It would begin the next worker with the same settings."""
    versions = [settings(racks={"networks": order}) for order in (_NETWORKS, _reversed(_NETWORKS))]
    assert SettingsSource(lambda: versions.pop(0), start=WorkerStart()).reread() is None


def test_what_was_saved_while_no_worker_watched_takes_effect(tmp_path: Path) -> None:
    """A cure that was saved in the pause after a worker died, or a second change while one ended, was never noticed."""
    file = tmp_path / "samerack.yaml"
    file.touch()
    start = WorkerStart(settings=SettingsSource(settings, start=WorkerStart()).in_force.content)
    source = SettingsSource(lambda: settings(groups=("payments",)), path=file, start=start)
    found: list[Settings] = []
    with capture_logs() as logged:
        SettingsWatch(source, metrics=Metrics(), on_change=found.append).turn()
    assert [one.groups for one in found] == [("payments",)]
    (change,) = logged
    assert change["changes"].keys() == {"groups"}
