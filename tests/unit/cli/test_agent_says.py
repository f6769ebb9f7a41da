"""Why an agent only observes a group, in the same words in `plan`, on the page, in metrics and in /readyz."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from samerack.agent.policy.requests import RequestKind
from samerack.agent.program import Agent
from samerack.cli.asking import agent_says
from samerack.cli.plan import show
from samerack.planning.members_wanted import RackMembers
from samerack.reporting.wanted import MembersWanted
from samerack.settings.all_settings import Settings
from samerack.settings.loading import load
from tests.unit.agent.measured import A, B, C, snapshot
from tests.unit.agent.measured import group as measured
from tests.unit.agent.serving import ask
from tests.unit.agent.values import group
from tests.unit.cli.test_widths import planned

BOOTSTRAP = "127.0.0.1:1"
WHY = "its protocol type is 'connect', not consumer"


@pytest.fixture
def agent() -> Iterator[Agent]:
    """An agent whose services do not run but its web server, with a group that it only observes."""
    flags = {"kafka": {"bootstrap.servers": BOOTSTRAP}, "groups": ("orders", "sinks"), "web": {"port": 0}}
    flags["events"] = {"path": "memory"}
    made = Agent(load(flags=flags, environment={}))
    for leader in made.clusters[""].parts.led.values():
        if leader.group == "sinks":
            leader.reporter.trouble = WHY
            leader.reporter.become("observing")
    made.web.start()
    yield made
    made.web.stop()


def settings(agent: Agent, bootstrap: str = BOOTSTRAP) -> Settings:
    """The settings of a command beside the agent."""
    return load(flags={"kafka": {"bootstrap.servers": bootstrap}, "web": {"port": agent.web.port}}, environment={})


def get(agent: Agent, path: str) -> str:
    """What the agent answers."""
    return ask(agent.web.port, path)[1]


def test_the_reason_is_the_same_everywhere(agent: Agent) -> None:
    """plan, /v1/status, /readyz and metrics have one text; a group without a reason has none."""
    assert agent_says(settings(agent), "sinks")["trouble"] == WHY
    assert agent_says(settings(agent), "orders")["trouble"] == ""
    trouble = {one["group"]: one["trouble"] for one in json.loads(get(agent, "/v1/status"))["groups"]}
    assert trouble["sinks"] == WHY
    assert f"observing: {WHY}" in get(agent, "/readyz").replace('\\"', '"')
    assert f'samerack_group_reason{{group="sinks",why="{WHY}"}} 1.0' in get(agent, "/metrics")
    assert [status.why for status in agent.clusters[""].parts.metrics.board.all() if status.group == "sinks"] == [WHY]


def test_the_reason_of_a_request_is_the_same_everywhere(agent: Agent) -> None:
    """A group that was left on request shows who asked and why, and does not make the agent unready."""
    sinks = agent.clusters[""].parts.led["sinks"]
    sinks.operators.ask(RequestKind.LEAVE, seconds=None, by="alice", why="moving brokers")
    sinks.reporter.is_left(sinks.operators.left)
    why = "the agent was asked to stay out of it by alice (moving brokers); `samerack resume sinks` ends that"
    assert agent_says(settings(agent), "sinks")["trouble"] == why
    assert f'samerack_group_reason{{group="sinks",why="{why}"}} 1.0' in get(agent, "/metrics")
    assert "observing" not in get(agent, "/readyz")  # the group's thread does not run, which is another reason
    (event,) = agent.clusters[""].parts.events.latest(group="sinks", kinds=["decision"])
    assert (event.action, event.reason) == ("leave", "alice: moving brokers")
    sinks.operators.ask(None, seconds=None, by="", why="")
    assert "observing" in get(agent, "/readyz")


def test_members_wanted_are_the_same_everywhere(agent: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    """plan, /v1/status and metrics have the same numbers of a group that the agent leads; of another none."""
    parts = agent.clusters[""].parts
    parts.wanted.capacity_of = lambda _: 1e6
    parts.led["orders"].reporter.become("leading")
    parts.traffic.publish(snapshot(measured("orders"), measured("sinks")), ())
    racks = tuple(RackMembers(rack=rack, members=1, wanted=1) for rack in (A, B, C))
    wanted = agent_says(settings(agent), "orders")["members_wanted"]
    assert wanted == MembersWanted(racks=racks, saved_dollars_per_month=None, text="each rack has as many as it needs")
    assert agent_says(settings(agent), "sinks")["members_wanted"] is None
    status = {one["group"]: one["members_wanted"] for one in json.loads(get(agent, "/v1/status"))["groups"]}
    assert (status["orders"]["text"], status["sinks"]) == (wanted.text, None)
    assert f'samerack_members_wanted{{group="orders",rack="{A}"}} 1.0' in get(agent, "/metrics")
    assert "Members wanted: each rack has as many as it needs." in get(agent, "/group?name=orders")
    assert "Members wanted" not in get(agent, "/group?name=sinks")
    show(replace(planned("leaders", "leaders", "leaders"), members_wanted=wanted))
    assert "members wanted: each rack has as many as it needs" in capsys.readouterr().out


def test_an_agent_of_another_cluster_says_nothing(agent: Agent) -> None:
    """Its groups are others of the same name."""
    assert not agent_says(settings(agent, "127.0.0.1:2"), "sinks")


def test_no_agent_says_nothing() -> None:
    """`plan` works where no agent runs."""
    alone = load(flags={"kafka": {"bootstrap.servers": BOOTSTRAP}, "web": {"port": 1}}, environment={})
    assert not agent_says(alone, "sinks")


def test_a_pause_is_shown_beside_the_role(agent: Agent) -> None:
    """Status, plan and page name the request; the group has no trouble, as the agent leads it."""
    orders = agent.clusters[""].parts.led["orders"]
    orders.operators.ask(RequestKind.PAUSE, seconds=None, by="alice", why="")
    orders._parts.reporter.publish(group(state="Empty"), first=False, condition=None)
    (why,) = orders.operators.status.reasons
    assert "start no rebalance in it for racks or traffic by alice" in why
    assert agent_says(settings(agent), "orders")["paused"] == why
    assert agent_says(settings(agent), "orders")["trouble"] == ""
    orders.operators.ask(None, seconds=None, by="", why="")
    orders._parts.reporter.publish(group(state="Empty"), first=False, condition=None)
    assert agent_says(settings(agent), "orders")["paused"] == ""
