"""Helpers of the guest tests: the broker's settings, Kafka's tools, offsets, and a Connect worker.

The broker delays a group's first rebalance by Kafka's default, expires offsets after the shortest configurable time,
and converts no classic group. The tests check a group by the broker, the group's members and Kafka's tools, not by the
agent's reports.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient
from kafka.protocol.admin.groups import DescribeGroupsRequest

from sandbox.admin import wait_until
from sandbox.agent_process import AgentProcess
from sandbox.errors import SandboxError
from sandbox.jvm import KAFKA_VERSION, cache_folder, command
from sandbox.members.lines import Partition
from sandbox.members.process import Member
from sandbox.processes import end, spawn, tail
from sandbox.settings import HOST, free_ports
from tests.integration.scene import AGENT, Scene

RACKS: Final[Mapping[int, str | None]] = {1: "rack-a"}
"""One broker: the guest tests do not need racks."""
RETENTION_SECONDS: Final = 60.0
"""The shortest retention that brokers allow."""
PROPERTIES: Final[Mapping[str, str]] = {
    "group.initial.rebalance.delay.ms": "3000",  # Kafka's default
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "1000",
    "group.consumer.migration.policy": "disabled",
}
_LOOKING: Final = frozenset({"waiting", "observing", "following", "leading"})


def place(scene: Scene, partitions: int) -> None:
    """Creates the scene's topic on the one broker, without a feed."""
    scene.admin.create_topic(scene.topic, [[1]] * partitions)


def write(scene: Scene, partitions: int) -> None:
    """Writes one record to each partition of the scene's topic."""
    producer = Producer({"bootstrap.servers": scene.cluster.bootstrap})
    for partition in range(partitions):
        producer.produce(scene.topic, b"record", partition=partition)
    assert producer.flush(30) == 0


def records(member: Member) -> set[tuple[Partition, int]]:
    """Partition and offset of each record that a member has read."""
    read = [event for event in member.events if event.kind == "records"]
    return {
        (partition, offset)
        for event in read
        for partition in event.partitions
        for offset in range(event.first, event.last + 1)
    }


def committed(scene: Scene, group: str = "") -> dict[Partition, int]:
    """The committed offsets of a group, the scene's by default; partitions without one are left out."""
    group = group or scene.group
    client = AdminClient({"bootstrap.servers": scene.cluster.bootstrap, "log_level": 0})
    asked = [ConsumerGroupTopicPartitions(group)]
    found = client.list_consumer_group_offsets(asked, request_timeout=10.0)[group].result()
    return {(one.topic, one.partition): one.offset for one in found.topic_partitions if one.offset >= 0}


def set_offsets(scene: Scene, offsets: Sequence[int], *, topic: str = "") -> None:
    """Sets the offsets of the first partitions, as tools do; the group must have no members."""
    client = AdminClient({"bootstrap.servers": scene.cluster.bootstrap, "log_level": 0})
    wanted = [TopicPartition(topic or scene.topic, partition, offset) for partition, offset in enumerate(offsets)]
    asked = [ConsumerGroupTopicPartitions(scene.group, wanted)]

    def are_set() -> bool:
        client.alter_consumer_group_offsets(asked, request_timeout=10.0)[scene.group].result()
        return len(committed(scene)) == len(offsets)

    wait_until(are_set, f"the offsets of {scene.group} are set")  # the coordinator may not know the topic yet


def wait_watching(agent: AgentProcess, *groups: str) -> None:
    """Waits until the agent has polled its groups, or the given ones: it has a role for each."""
    agent.wait(
        lambda: all(agent.role(group) in _LOOKING for group in groups or agent.groups),
        "the agent looks at its groups",
    )


def wait_only_agent(scene: Scene, *, timeout: float = 60.0) -> None:
    """Waits until no consumer is in the group; the agent may still be in it."""
    wait_until(
        lambda: all(member.client_id == AGENT for member in scene.describe().members),
        f"no consumer is in {scene.group}",
        timeout=timeout,
    )


def leave_all(scene: Scene) -> None:
    """Stops all members cleanly, and waits until they and the agent have left the group.

    A Java consumer that is stopped in the middle of a rebalance may leave only when its session ends. A consumer that
    the agent's membership excludes is refused until the agent has left, as while the last consumer was there.
    """
    for seat in tuple(scene.seats):
        scene.leave(seat)
    wait_until(lambda: not scene.describe().members, "they and the agent have left", timeout=60)


def delete(scene: Scene) -> None:
    """Deletes the scene's group, as tools do; it must have no members."""
    client = AdminClient({"bootstrap.servers": scene.cluster.bootstrap, "log_level": 0})
    client.delete_consumer_groups([scene.group], request_timeout=10.0)[scene.group].result()


def consumer_groups(scene: Scene, *arguments: str) -> str:
    """The output of Kafka's kafka-consumer-groups.sh for the scene's group.

    Raises:
        SandboxError: the tool failed.
    """
    line = command(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        ["--bootstrap-server", scene.cluster.bootstrap, "--group", scene.group, *arguments],
        folder=Path(tempfile.gettempdir()),
    )
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=60)
    if done.returncode != 0 or "Error" in done.stdout:
        raise SandboxError(f"kafka-consumer-groups.sh {' '.join(arguments)} failed:\n{done.stdout}")
    return done.stdout


class ConnectWorker:
    """A Kafka Connect cluster with one worker; a context manager that ends it."""

    def __init__(self, scene: Scene, *, group: str, folder: Path) -> None:
        """Prepares the worker; entering the context starts it.

        Args:
            scene: the scene with the brokers.
            group: `group.id` of the workers.
            folder: the folder for its properties and its log.
        """
        jars = tuple(sorted((cache_folder() / f"connect-{KAFKA_VERSION}").glob("*.jar")))
        if not jars:
            raise SandboxError("the jars of Kafka Connect are missing; scripts/setup --engine puts them into the cache")
        (port,) = free_ports(1)
        self._url = f"http://{HOST}:{port}"
        self._log = folder / f"{group}.log"
        properties = {
            "bootstrap.servers": scene.cluster.bootstrap,
            "group.id": group,
            "listeners": self._url,
            "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "offset.flush.interval.ms": "1000",
            "plugin.discovery": "service_load",  # other modes scan each class, which takes seconds
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "500",
            "scheduled.rebalance.max.delay.ms": "0",
        }
        for what, partitions in (("offset", 1), ("status", 1), ("config", None)):
            properties[f"{what}.storage.topic"] = f"{group}-{what}"
            properties[f"{what}.storage.replication.factor"] = "1"
            if partitions is not None:
                properties[f"{what}.storage.partitions"] = str(partitions)
        path = folder / f"{group}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8")
        self._line = command(
            "org.apache.kafka.connect.cli.ConnectDistributed",
            [str(path)],
            folder=folder,
            options=["-Dlog4j2.configurationFile=member-log4j2.yaml"],
            more=[*jars, cache_folder() / "java" / "consumer.jar"],
        )

    def put(self, connector: str, config: Mapping[str, str]) -> None:
        """Creates a connector, or changes its configuration."""
        body = json.dumps(dict(config)).encode()
        wait_until(
            lambda: self._ask("PUT", f"/connectors/{connector}/config", body) is not None,
            f"the worker takes connector {connector}\n{tail(self._log)}",
        )

    def state(self, connector: str) -> str:
        """The state of a connector's only task; "" if there is none."""
        told = self._ask("GET", f"/connectors/{connector}/status")
        return "" if not told or not told["tasks"] else str(told["tasks"][0]["state"])

    @property
    def log(self) -> str:
        """The last lines of the worker's log."""
        return tail(self._log)

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        """The answer of the worker's REST interface; None if there is none."""
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, data=body, method=method, headers=headers)  # noqa: S310 - our own worker
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - see above
                return json.loads(answer.read())
        except (urllib.error.URLError, OSError, json.JSONDecodeError):
            if self._process.poll() is not None:
                raise SandboxError(f"the Connect worker ended:\n{self.log}") from None
            return None

    def __enter__(self) -> Self:
        """Starts the worker."""
        with self._log.open("ab") as log:
            self._process = spawn(self._line, stdout=log, stderr=subprocess.STDOUT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Stops the worker cleanly."""
        end(self._process, timeout=30)


def client_ids(scene: Scene, group: str) -> list[str]:
    """The client ids of a group's members, whatever its protocol type."""
    client: Any = KafkaAdminClient(bootstrap_servers=scene.cluster.bootstrap)

    async def ask() -> Any:
        """The raw answer: kafka-python would decode each member's metadata as a consumer's."""
        return await client._manager.send(DescribeGroupsRequest(groups=[group]), node_id=min(RACKS))

    try:
        (described,) = client._manager.run(ask).groups
    finally:
        client.close()
    return sorted(str(member.client_id) for member in described.members)


def is_known(scene: Scene, group: str) -> bool:
    """Whether a coordinator knows the group."""
    client = AdminClient({"bootstrap.servers": scene.cluster.bootstrap, "log_level": 0})
    try:
        return str(client.describe_consumer_groups([group])[group].result().state.name) != "DEAD"
    except KafkaException:
        return False
