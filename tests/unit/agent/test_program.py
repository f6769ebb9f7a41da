"""The parts of an agent that is not started: wrong input, health, and readiness by role."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from samerack.agent.cluster_agent import ClusterAgent
from samerack.agent.group_status import GroupStatus
from samerack.agent.program import only_observing
from samerack.common.errors import SettingsError
from samerack.common.settings import load
from tests.docs import ROOT

_ROOMS = ("agent", "cli", "cluster", "common", "election", "offline", "planning", "traffic")
_STARTS = re.compile(r"sys\.executable,\s*(?P<options>(\"-\w+\",\s*)*)\"-m\"")


def built(groups: tuple[str, ...]) -> ClusterAgent:
    """An agent of these groups, without brokers."""
    flags = {"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "groups": groups}
    return ClusterAgent(load(flags=flags, environment={}))


@pytest.fixture
def agent() -> ClusterAgent:
    """An agent of two groups."""
    return built(("orders", "payments"))


def test_groups_are_required() -> None:
    """Without a group the agent is refused, and the message has every place that may name one."""
    with pytest.raises(SettingsError, match=r"groups: is empty; .*--group, SAMERACK_GROUPS or in the file"):
        built(())


def test_observing_without_groups_is_observing_all() -> None:
    """`run --observe -b B` measures every group and leads none; named ones are measured alone."""
    flags = {"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "web": {"port": 0}}
    every = only_observing(load(flags=flags, environment={}))
    assert (every.groups, every.traffic.groups) == ((), ("*",))
    named = only_observing(load(flags={**flags, "groups": ["orders"]}, environment={}))
    assert (named.groups, named.traffic.groups) == ((), ("orders",))
    made = ClusterAgent(every)
    assert not made.parts.led


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


def test_services_stop_before_what_they_need(agent: ClusterAgent) -> None:
    """The leaders stop first, then the election, so that others take over; measuring stops last and is published."""
    names = [service.name for service in agent.in_stopping_order()]
    assert names == ["group orders", "group payments", "election", "watch", "poller", "traffic"]


def test_readiness_asks_for_looks_and_roles(agent: ClusterAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent is ready once it has polled the cluster and is in every group, waits for consumers, or is standby."""
    monkeypatch.setattr(agent.health, "unhealthy", dict)
    assert set(agent.health.unready()) == {"watch", "group orders", "group payments"}
    agent.parts.watch.last_look = time.monotonic()
    for group, role in (("orders", "leading"), ("payments", "observing")):
        agent.parts.metrics.board.publish(GroupStatus(group=group, role=role))
    assert agent.health.unready() == {"group payments": "observing"}
    agent.parts.metrics.board.publish(GroupStatus(group="payments", role="standby"))
    assert agent.health.unready() == {}
    agent.parts.metrics.board.publish(GroupStatus(group="orders", role="fenced"))
    agent.parts.watch.last_look = time.monotonic() - 31
    assert agent.health.unready() == {
        "watch": "no poll of the cluster in the last 30 s",
        "group orders": "fenced",
    }


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
                said = agent.communicate()[1]
    assert agent.returncode == 0, said
    assert '"stopping"' in said
    assert "kafka-unreachable" not in said


def test_programs_are_started_without_the_working_directory() -> None:
    """Each `python -m` of the agent has -P, without which Python looks for modules in the working directory first."""
    starts = {
        (path.name, "-P" in found["options"])
        for room in _ROOMS
        for path in (ROOT / room).rglob("*.py")
        for found in _STARTS.finditer(path.read_text(encoding="utf-8"))
    }
    assert starts == {("pickle_process.py", True), ("process.py", True)}


def test_nothing_is_imported_from_the_working_directory(tmp_path: Path) -> None:
    """A file there with the name of a module is not run."""
    for name in ("pickle", "json", "samerack", "numpy"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')", encoding="utf-8")
    subprocess.run([sys.executable, "-P", "-m", "samerack.planning.worker"], input=b"", cwd=tmp_path, check=False)
    assert not (tmp_path / "run").exists()
