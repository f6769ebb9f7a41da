"""Tests that the documentation is true: each command in its code blocks is run as it stands, on a real group."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from sandbox.admin import Admin, wait_until
from sandbox.contract import KafkaCluster
from sandbox.members.lines import MemberSettings
from sandbox.members.process import Member
from sandbox.processes import end, spawn, tail
from sandbox.settings import HOST, free_ports
from tests.docs import ROOT, Command, blocks, yaml_of

BROKER: Final = "127.0.0.1:9092"
GROUP: Final = "orders"
RUN_ELSEWHERE: Final = {
    "scripts/test": "this very run",
    "scripts/demo": "test_the_demo_shows_what_it_promises",
    "scripts/bench": "its scenarios are unit-tested; a whole run takes minutes",
}


@pytest.fixture
def orders(cluster: KafkaCluster, admin: Admin, topic: str) -> Iterator[None]:
    """A running group `orders`, whose clients tell their racks by their ids."""
    admin.create_topic(topic, [[1], [2], [3], [1], [2], [3]])
    members = [
        Member.python(
            "confluent",
            MemberSettings(bootstrap=cluster.bootstrap, group=GROUP, topics=(topic,), client_id=f"{GROUP}-{rack}"),
        )
        for rack in ("rack-a", "rack-b")
    ]
    try:
        wait_until(lambda: sum(len(member.owned) for member in members) == 6, "the group is complete")
        yield
    finally:
        for member in members:
            member.stop()  # in good order: the next test's group has the same name


def environment() -> dict[str, str]:
    """Ours, with this environment's programs first."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "200"}


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    "command", [c for c in blocks() if c.words[0] not in RUN_ELSEWHERE and "run" not in c.words], ids=str
)
def test_a_command_of_the_documentation_works(command: Command, cluster: KafkaCluster, tmp_path: Path) -> None:
    """It ends with exit code 0 and says something, once the broker's address is this cluster's."""
    words = [word.replace(BROKER, cluster.bootstrap) for word in command.words]
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=60, cwd=tmp_path, env=environment(), check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.usefixtures("orders")
def test_the_agent_runs_with_the_file_of_the_documentation(cluster: KafkaCluster, tmp_path: Path) -> None:
    """`samerack run --config samerack.yaml` becomes ready with the file shown beside it, and ends in good order."""
    (command,) = [command for command in blocks() if "run" in command.words]
    (port,) = free_ports(1)
    (tmp_path / "samerack.yaml").write_text(yaml_of("start.md").replace(BROKER, cluster.bootstrap), encoding="utf-8")
    log = tmp_path / "agent.log"
    with log.open("wb") as stream:
        agent = spawn(
            [str(Path(sys.executable).parent / command.words[0]), *command.words[1:]],
            stdout=subprocess.DEVNULL,
            stderr=stream,
            env={**environment(), "SAMERACK_WEB__PORT": str(port)},
            cwd=tmp_path,
        )

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{port}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    try:
        wait_until(ready, "the agent is ready", timeout=30)
    finally:
        code = end(agent, timeout=10)
    assert code == 0, tail(log)


@pytest.mark.timeout(240)
def test_the_demo_shows_what_it_promises() -> None:
    """`scripts/demo --json` reaches the optimum, follows a move within six seconds, and nobody stops for three."""
    done = subprocess.run(
        [sys.executable, "-m", "sandbox.demo", "--json"],
        capture_output=True,
        text=True,
        timeout=220,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout.splitlines()[-1])
    assert shown["after"] == shown["optimum"] < shown["before"]
    assert shown["followed_seconds"] < 6
    assert shown["consumption_gap_seconds"] < 3
