"""Helpers of the guest tests: Kafka's tools, and offsets.

The tests check a group by the broker, the group's members and Kafka's tools, not by the agent's reports.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from lab.sandbox.admin import wait_for, wait_until
from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.errors import SandboxError
from lab.sandbox.group_client import AGENT
from lab.sandbox.jvm import command
from tests.integration.scenario import Scenario

_WATCHING: Final = frozenset({"waiting", "observing", "following", "leading"})


def place(scenario: Scenario, partitions: int) -> None:
    """Create the scenario's topic on the one broker, without a feed."""
    scenario.admin.create_topic(scenario.topic, [[1]] * partitions)


def write(scenario: Scenario, partitions: int) -> None:
    """Write one record to each partition of the scenario's topic."""
    producer = Producer({"bootstrap.servers": scenario.cluster.bootstrap})
    for partition in range(partitions):
        producer.produce(scenario.topic, b"record", partition=partition)
    assert producer.flush(30) == 0


def set_offsets(scenario: Scenario, offsets: Sequence[int], *, topic: str = "") -> None:
    """Set the offsets of the first partitions, as tools do; the group must have no members."""
    wanted = {(topic or scenario.topic, partition): offset for partition, offset in enumerate(offsets)}
    wait_for(lambda: scenario.asked.set_offsets(wanted), f"the offsets of {scenario.group} are set")


def wait_watching(agent: AgentProcess, *groups: str) -> None:
    """Wait until the agent has polled its groups, or the given ones: it has a role for each."""
    agent.wait(
        lambda: all(agent.role(group) in _WATCHING for group in groups or agent.groups),
        "the agent polls its groups",
    )


def wait_only_agent(scenario: Scenario, *, timeout: float = 60.0) -> None:
    """Wait until no consumer is in the group; the agent may still be in it."""
    wait_until(
        lambda: all(member.client_id == AGENT for member in scenario.describe().members),
        f"no consumer is in {scenario.group}",
        timeout=timeout,
    )


def leave_all(scenario: Scenario) -> None:
    """Stop all members cleanly, and wait until they and the agent have left the group.

    A Java consumer that is stopped in the middle of a rebalance may leave only when its session ends. A consumer that
    the agent's membership excludes is refused until the agent has left, as while the last consumer was there.
    """
    scenario.leave_all()
    wait_until(lambda: not scenario.describe().members, "they and the agent have left", timeout=60)


def consumer_groups(scenario: Scenario, *arguments: str) -> str:
    """The output of Kafka's kafka-consumer-groups.sh for the scenario's group.

    Raises:
        SandboxError: the tool failed.
    """
    line = command(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        ["--bootstrap-server", scenario.cluster.bootstrap, "--group", scenario.group, *arguments],
        folder=Path(tempfile.gettempdir()),
    )
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=60)
    if done.returncode != 0 or "Error" in done.stdout:
        raise SandboxError(f"kafka-consumer-groups.sh {' '.join(arguments)} failed:\n{done.stdout}")
    return done.stdout
