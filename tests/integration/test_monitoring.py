"""A real Prometheus that scrapes a real agent on a real Kafka: every dashboard expression and alert rule evaluates."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox.admin import Admin, wait_until
from sandbox.agent_process import AgentProcess
from sandbox.cluster import Cluster
from sandbox.feeder import Feeder
from sandbox.members.lines import MemberSettings
from sandbox.members.process import Member
from tests.integration.prometheus import Prometheus

MONITORING: Final = Path(__file__).parents[2] / "monitoring"
GROUP: Final = "orders"
OBSERVED: Final = "reports"
PLACED: Final = {GROUP: ((1,), (2,), (3,), (1,), (2,), (3,)), OBSERVED: ((2,), (3,), (1,), (2,), (3,), (1,))}
"""Each group's topic, named like it; roundrobin gives partition n to member n, so the observed one reads all across."""
_VARIABLES: Final = {"$__rate_interval": "5s", "$group": ".*"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """An agent and the Prometheus that scrapes it."""

    agent: AgentProcess
    prometheus: Prometheus


def _member(cluster: Cluster, group: str, rack: str, *, tells: bool) -> Member:
    settings = MemberSettings(
        bootstrap=cluster.bootstrap,
        group=group,
        topics=(group,),
        client_id=f"{group}-{rack}",
        rack=rack if tells else None,
        assignors=("roundrobin",) if group == OBSERVED else ("range",),
        properties={"auto.commit.interval.ms": "500"},
    )
    return Member.python("confluent", settings)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The agent leads a group from its start and observes another, whose members it finds racks for."""
    folder = tmp_path_factory.mktemp("monitoring")
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster())
        admin = stack.enter_context(Admin(cluster.bootstrap))
        for topic, replicas in PLACED.items():
            admin.create_topic(topic, replicas)
        counts = {topic: len(replicas) for topic, replicas in PLACED.items()}
        stack.enter_context(Feeder(cluster.bootstrap, counts, pause=0.02))
        racks = {f"*-rack-{letter}": f"rack-{letter}" for letter in "abc"}
        settings = {
            "traffic.groups": ["*"],
            "traffic.poll_seconds": 1,
            "traffic.window_seconds": 10,
            "racks.client_ids": racks,
        }
        agent = stack.enter_context(
            AgentProcess(cluster.bootstrap, groups=[GROUP], log=folder / "agent.log", settings=settings)
        )
        agent.wait_role("leading")
        for group, tells in ((GROUP, True), (OBSERVED, False)):
            for rack in ("rack-b", "rack-c", "rack-a"):
                stack.enter_context(_member(cluster, group, rack, tells=tells))
        agent.wait(
            lambda: (agent.metric("samerack_cross_rack_share", group=OBSERVED) or 0) > 0.9, "traffic is measured"
        )
        agent.wait(lambda: agent.metric("samerack_cross_rack_share", group=GROUP) == 0, "the led group reads near")
        address = str(agent.events("started")[0]["url"]).removeprefix("http://").removesuffix("/metrics")
        prometheus = Prometheus(address, rules=MONITORING / "alerts.yaml", folder=folder)
        yield Running(agent=agent, prometheus=stack.enter_context(prometheus))


def _expressions() -> list[tuple[str, str]]:
    """Every expression of the dashboard with its panel's title."""
    dashboard: dict[str, Any] = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
    return [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel["targets"]]


_EMPTY_HERE: Final = frozenset({"Findings by kind", "Time of a plan (99th percentile)"})
"""Panels that show nothing on a sound group, or after a few seconds."""


def test_every_dashboard_expression_shows_data(running: Running) -> None:
    """Each one is understood, and each one that has something to show here shows it."""

    def missing() -> list[str]:
        found = []
        for title, expression in _expressions():
            for name, value in _VARIABLES.items():
                expression = expression.replace(name, value)  # noqa: PLW2901 - one variable after the other
            if not running.prometheus.ask(expression) and title not in _EMPTY_HERE:
                found.append(f"{title}: {expression}")
        return found

    wait_until(lambda: not missing(), "every panel has data", timeout=20, pause=1.0)
    assert missing() == []


def test_every_alert_rule_evaluates(running: Running) -> None:
    """Prometheus has evaluated each rule without an error."""
    wait_until(lambda: all(rule["health"] == "ok" for rule in running.prometheus.rules()), "rules were evaluated")
    rules = running.prometheus.rules()
    assert len(rules) == 10
    assert [rule["lastError"] for rule in rules if rule.get("lastError")] == []


def test_the_observed_group_costs_and_the_led_one_does_not(running: Running) -> None:
    """Dollars are booked for what crosses: none for the led group, what it would have cost for both."""
    ask = running.prometheus.ask
    assert ask(f'samerack_cross_rack_dollars_total{{group="{OBSERVED}"}} > 0')
    assert ask("count(samerack_random_share > 0.66) == 2")
    assert ask(f'samerack_cross_rack_share{{group="{OBSERVED}"}} > 0.6')


def test_promtool_finds_the_metrics_clean(running: Running) -> None:
    """`promtool check metrics` says nothing of a running agent's exposition."""
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=running.agent.get("/metrics")[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout + done.stderr, done.returncode) == ("", 0)


@pytest.mark.parametrize("arguments", [("check", "rules", "alerts.yaml"), ("test", "rules", "alerts_test.yaml")])
def test_promtool_accepts_the_rules(arguments: tuple[str, ...]) -> None:
    """The rules are well-formed, and each fires when it should and is quiet on a sound group."""
    done = subprocess.run(["promtool", *arguments], cwd=MONITORING, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_cost_asks_the_running_agent(running: Running) -> None:
    """`samerack cost` finds the agent by its port, without a cluster being named, and shows both groups."""
    port = str(running.agent.events("started")[0]["url"]).rpartition(":")[2].partition("/")[0]
    line = [sys.executable, "-m", "agent.cli.main", "cost", "--json", "-s", f"web.port={port}"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {group["group"]: group["role"] for group in told["groups"]} == {GROUP: "leading", OBSERVED: ""}
    assert told["groups"][0]["dollars"] > 0
