"""Tests of the documentation: each command in its code blocks runs unchanged on a real group, and each demo works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from lab.sandbox.admin import Admin, wait_until
from lab.sandbox.contract import KafkaCluster
from lab.sandbox.members.lines import MemberSettings
from lab.sandbox.members.process import Member
from lab.sandbox.processes import end, spawn, tail
from lab.sandbox.settings import HOST, free_ports
from samerack.common import words
from tests.docs import ROOT, Command, blocks, yaml_of
from tests.integration.browser import Browser

pytestmark = pytest.mark.own_cluster  # of the demonstrations

BROKERS: Final = ("127.0.0.1:9092", "HOST:PORT")
GROUP: Final = "orders"
RUN_ELSEWHERE: Final = {
    "scripts/test": "this very run",
    "scripts/plant-faults": "tests/unit/package/test_faults.py holds that each applies; it runs seven rooms anew",
    "scripts/chart": "tests/helm, which holds what it writes",
    "scripts/demo": "test_the_demo_shows_what_it_promises, and those of its other forms",
    "scripts/simulate": "tests/unit/agent/leading/test_simulated_stories.py, with fewer seeds",
    "scripts/chaos": "tests/integration/test_chaos.py",
    "scripts/clients": "tests/integration/test_foreign_clients.py, its short form",
    "scripts/release": "tests/integration/test_release.py, twice; it proves what it made",
    "scripts/bench": "tests/unit/package/test_benchmark_pages.py holds what it writes; a run takes minutes",
    "samerack pipeline": "tests/spark, which has the session that it takes",
    "samerack cost": "tests/unit/cli/test_cost.py: it measures for a minute where no agent runs",
    "samerack events": "tests/unit/events/test_command.py: where an agent has something to report",
    "samerack lead": "tests/integration/test_takeover.py: where an agent follows",
    "samerack leave": "tests/integration/test_leave_pause.py: where an agent leads",
    "samerack pause": "tests/integration/test_leave_pause.py: where an agent leads",
    "samerack resume": "tests/integration/test_leave_pause.py: where an agent leads",
    "samerack rack": "tests/unit/agent/pod/test_docs.py: where there is a rack",
    "samerack streams": "tests/integration/test_streams_plan.py: where a Kafka Streams application runs",
    "samerack verify": "tests/integration/test_verify.py, on sound brokers and broken ones",
}


def runs_here(command: Command) -> bool:
    """Whether no other test runs the command."""
    return command.words[0] not in RUN_ELSEWHERE and " ".join(command.words[:2]) not in RUN_ELSEWHERE


def on_this_cluster(text: str, cluster: KafkaCluster) -> str:
    """A text of the documentation with this cluster's address."""
    for address in BROKERS:
        text = text.replace(address, cluster.bootstrap)
    return text


@pytest.fixture
def orders(cluster: KafkaCluster, admin: Admin, topic: str) -> Iterator[None]:
    """A running group `orders`, whose client ids contain the racks."""
    admin.create_topic(topic, [[1], [2], [3], [1], [2], [3]])
    members = [
        Member.on(
            "confluent",
            MemberSettings(bootstrap=cluster.bootstrap, group=GROUP, topics=(topic,), client_id=f"{GROUP}-{rack}"),
        )
        for rack in ("rack-a", "rack-b")
    ]
    try:
        wait_until(lambda: all(len(member.owned) == 3 for member in members), "the group is complete", timeout=60)
        yield
    finally:
        for member in members:
            member.stop()  # cleanly: the next test's group has the same name


def environment() -> dict[str, str]:
    """The current environment, with this Python environment's programs first in PATH."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "200"}


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("command", [c for c in blocks() if runs_here(c) and "run" not in c.words], ids=str)
def test_a_command_of_the_documentation_works(command: Command, cluster: KafkaCluster, tmp_path: Path) -> None:
    """With this cluster's address, the command ends with exit code 0 and prints something."""
    words = [on_this_cluster(word, cluster) for word in command.words]
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=environment(), check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("command", [c for c in blocks() if runs_here(c) and "run" in c.words], ids=str)
def test_the_agent_runs_as_the_documentation_says(command: Command, cluster: KafkaCluster, tmp_path: Path) -> None:
    """`samerack run` becomes ready, with the start page's file where the command needs one, and ends cleanly."""
    (port,) = free_ports(1)
    (tmp_path / "samerack.yaml").write_text(on_this_cluster(yaml_of("start.md"), cluster), encoding="utf-8")
    log = tmp_path / "agent.log"
    with log.open("wb") as stream:
        agent = spawn(
            [str(Path(sys.executable).parent / "samerack"), *(on_this_cluster(w, cluster) for w in command.words[1:])],
            stdout=subprocess.DEVNULL,
            stderr=stream,
            env={**environment(), "SAMERACK_WEB__PORT": str(port)},
            cwd=tmp_path,
        )

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{port}/readyz", timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    try:
        wait_until(ready, "the agent is ready")
    finally:
        code = end(agent)
    assert code == 0, tail(log)


def figures_of(demo: str, *options: str, seconds: int) -> dict[str, Any]:
    """What a demonstration ends with; it must succeed within this time."""
    line = [sys.executable, "-m", demo, "--json", *options]
    done = subprocess.run(line, capture_output=True, text=True, timeout=seconds, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    shown: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return shown


_PATIENCE_SECONDS: Final = 30.0


@pytest.mark.timeout(240)
def test_the_demo_shows_what_it_promises() -> None:
    """`scripts/demo --json` reaches the optimum and follows a move; consumers pause for a part of a minute at most.

    Members with the default heartbeat of three seconds may take that long to notice an eager rebalance.
    """
    shown = figures_of("lab.sandbox.demo", seconds=220)
    assert shown["after"] == shown["optimum"] < shown["before"]
    assert max(shown["followed_seconds"], shown["consumption_gap_seconds"]) < _PATIENCE_SECONDS


@pytest.mark.timeout(300)
def test_the_demo_of_the_new_protocol_shows_what_it_promises() -> None:
    """`scripts/demo --new-protocol --json`: with samerack's assignor hardly a byte crosses racks; a move is followed.

    Members hear of an assignment with a heartbeat, which brokers want every five seconds by default.
    """
    shown = figures_of("lab.sandbox.demo_new_protocol", seconds=280)
    assert shown["optimum"] == 0
    assert max(shown["after"], shown["followed"]) < 0.05 < shown["before"]
    assert shown["followed_seconds"] < 30


@pytest.mark.timeout(300)
def test_the_demo_of_members_by_load_shows_what_it_promises() -> None:
    """`scripts/demo --load --json`: the hot partition is alone on its member, and the canary has two partitions."""
    shown = figures_of("lab.sandbox.demo_load", seconds=280)
    assert shown["greatest_after"] < shown["greatest_before"]
    assert shown["across_after"] < 0.05
    assert shown["canary_partitions"] <= 2


@pytest.mark.timeout(400)
def test_the_demo_of_kafka_streams_shows_what_it_promises() -> None:
    """`scripts/demo --streams --json`: sources and changelogs are read in rack, and no record is lost or doubled."""
    shown = figures_of("lab.sandbox.demo_streams", seconds=380)
    assert (shown["sources_after"], shown["changelogs_after"]) == (0, 0)
    assert shown["share_after"] < 0.1 < shown["share_before"]
    assert shown["fallbacks"] >= 1
    assert shown["records"] > 0
    assert (shown["lost"], shown["doubled"], shown["miscounted"]) == (0, 0, 0)


@pytest.mark.alone
@pytest.mark.timeout(920)
def test_the_demo_of_the_pipeline_shows_what_it_promises(tmp_path: Path) -> None:
    """`scripts/demo --pipeline --json`: agents, Kafka, stream and report; the page has its numbers, and asks nobody."""
    page = tmp_path / "report.html"
    shown = figures_of("lab.sandbox.demo_pipeline", "--output", str(page), seconds=900)
    assert shown["report"] == str(page)
    assert (shown["groups"], shown["led_groups"]) == (2, 1)
    assert 0 < shown["crossing_bytes"] < shown["bytes"]
    assert 0 < shown["led"] < 1
    assert shown["saved_bytes"] > 0
    assert shown["possible_bytes"] > 0
    with Browser() as browser:
        browser.open(page.as_uri())
        text = browser.run("return document.querySelector('main').innerText")
        assert words.size(shown["crossing_bytes"]) in text
        assert words.percent(shown["share"]) in text
        assert "1 of 2 groups led by an agent" in text
        assert {"orders-service", "reports", "clicks"} <= set(text.split())
        assert browser.run("return performance.getEntriesByType('resource').length") == 0
        assert browser.complaints() == []
