"""Changed settings take effect in a running agent; wrong ones do not, and the former ones stay in force."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from samerack.agent.settings_source import SettingsSource, continues
from samerack.common.settings import Settings, load
from sandbox.agent_process import AgentProcess

NOWHERE = "127.0.0.1:1"
"""No broker answers here: the agent runs, and says so."""


def settings(**given: Any) -> Settings:
    """Settings with these on their upper level."""
    return load(flags={"kafka": {"bootstrap.servers": NOWHERE}, "groups": ("orders",), **given}, environment={})


class Running:
    """An agent with a file of settings."""

    def __init__(self, agent: AgentProcess, file: Path) -> None:
        self.agent = agent
        self._file = file

    def write(self, content: Mapping[str, Any] | str) -> None:
        """Replaces the file as Kubernetes does: by another one under the same name."""
        new = self._file.with_suffix(".new")
        new.write_text(content if isinstance(content, str) else yaml.safe_dump(dict(content)), encoding="utf-8")
        new.replace(self._file)

    def hang_up(self) -> None:
        """Asks it to read its settings now, not at its next look."""
        self.agent.process.send_signal(signal.SIGHUP)

    def waits(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        """Waits until so many events of a name are logged; returns them."""
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
    """The log tells each difference; the next process has the new settings, and knows why it is there.

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
    running.write({"groups": ["orders"]})
    running.hang_up()
    assert running.waits("started", 4)[-1]["groups"] == ["orders"]
    assert not agent.events("worker-died")
    code, _ = agent.stop()
    assert code == 0


def test_wrong_settings_are_refused_and_said(running: Running) -> None:
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


def test_the_identity_and_the_store_of_events_survive_other_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have names made of the groups; an agent that kept neither was unknown to its election and had no history."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    versions = [settings(), settings(groups=("orders", "payments"))]
    first = versions[0]
    source = SettingsSource(first, lambda: versions[0])
    del versions[0]
    assert source.reread() is not None
    assert source.renew() == "election.identity, events.path, groups"
    assert source.settings.events.path.endswith(".db")
    assert continues("orders", first, source.settings)
    assert not continues("others", first, source.settings)
    assert source.reread() is None


def test_what_was_tried_in_vain_is_not_tried_again() -> None:
    """Else two processes would replace each other for ever."""
    versions = [settings(), settings(groups=("payments",))]
    source = SettingsSource(versions[0], lambda: versions[0])
    del versions[0]
    source.renew()
    assert source.revert("exit code 1")
    assert (source.settings.groups, source.reread(), source.why_rejected) == (("orders",), None, "exit code 1")
    assert not source.revert("exit code 1")
