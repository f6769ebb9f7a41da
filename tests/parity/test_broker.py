"""The brokers' assignor `samerack` holds its promises on random groups; `scripts/bench broker --proof` has more."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests import effort
from tests.parity.broker import BrokerPeer, compare, java

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.parity.peer import Peer

pytestmark = [pytest.mark.parity, pytest.mark.timeout(600)]  # Maven may have to build the assignor for the first test


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    """The brokers' assignor."""
    with BrokerPeer() as running:
        yield running


def test_objective_equals_the_python_engines(peer: Peer) -> None:
    """Both engines reach the same cost on every group, with each option, and no plain plan is used."""
    assert [found for seed in range(effort.of(400)) if (found := compare(peer, seed))] == []


@pytest.mark.parametrize(
    ("kind", "cases"), [("exhaustive", 2000), ("limits", 2000), ("kafka", 1000), ("histories", 100)]
)
@pytest.mark.usefixtures("peer")
def test_proof(kind: str, cases: int) -> None:
    """No small group has a better plan (within limits), Kafka's are never better, histories never move without need."""
    tried = effort.of(cases)
    run = subprocess.run(java("Proof", kind, str(tried)), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["cases"] == tried


@pytest.mark.usefixtures("peer")
def test_threads() -> None:
    """Groups on eight threads at once, some cancelled or interrupted, get the plans that they get alone (KIP-1263)."""
    run = subprocess.run(java("Threads", "1000"), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["groups"] == 1000


@pytest.mark.usefixtures("peer")
def test_guest() -> None:
    """It registers its metrics, survives wrong properties, and answers every kind of failure with a plain plan."""
    run = subprocess.run(java("Guest", options=("-Xmx512m",)), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("exhaustive", str(effort.of(2000))), {"cases": effort.of(2000)}),
        (("threads", "300"), {"groups": 300}),
        (("guest",), {"checks": 12}),
        (("restart",), {"checks": 4}),
        (("large", "600", "30"), {"tasks": 600}),
    ],
)
@pytest.mark.usefixtures("peer")
def test_tasks(arguments: tuple[str, ...], found: dict[str, int]) -> None:
    """No plan of a small group is better (KIP-1357); threads, unknown racks, restarts, 600 tasks are as documented."""
    run = subprocess.run(java("TaskProof", *arguments), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout).items() >= found.items()


@pytest.mark.usefixtures("peer")
def test_tasks_in_another_kafka() -> None:
    """Where the coordinator has other classes than those of 4.4, tasks have a plan all the same."""
    run = subprocess.run(java("TaskProof", "another", coordinator=False), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.usefixtures("peer")
def test_oldest_kafka() -> None:
    """It works where Kafka cannot say yet whether a partition may be assigned (4.0)."""
    tried = str(effort.of(300))
    run = subprocess.run(java("Proof", "exhaustive", tried, oldest=True), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.extended
@pytest.mark.usefixtures("peer")
def test_benchmark_runs() -> None:
    """The benchmark beside Kafka's assignors still runs."""
    jmh = ("-f", "0", "-wi", "0", "-i", "1", "-r", "10ms", "-p", "shape=30x300x10", "AssignorBenchmark")
    run = subprocess.run(java("org.openjdk.jmh.Main", *jmh), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "ERROR" not in run.stdout
