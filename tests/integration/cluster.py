"""A real three-broker, three-rack Kafka in containers, by Testcontainers, for the integration tests.

Clients reach a broker at a port that the engine chooses, so a broker's advertised address is known only once its
container is up. Each container therefore runs a small loop that waits for a start script; a broker is stopped, killed
and started in another rack within its container, which keeps its port, its name and its data. The controller is a
separate node, so that any broker can stop.

Most tests leave the brokers as they are, and have groups and topics of their own: `tests.integration.clusters` keeps
one cluster for all workers of a run. An idle cluster costs a tenth of a processor, and brokers get faster the longer
they run.

Ryuk, Testcontainers' cleanup container, needs another image, which is not available everywhere: containers and
networks have the id of the process that made them as a label instead, and a shell removes them when that process ends,
however it ends. The next start removes what was left if the shell was killed too.
"""

import io
import os
import shlex
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from docker.errors import APIError, DockerException, NotFound
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient
from testcontainers.core.network import Network

from lab.sandbox.contract import RACK_AWARE_SELECTOR, RACKS, KafkaCluster
from lab.sandbox.errors import SandboxError
from lab.sandbox.jvm import BROKER_VERSION
from lab.sandbox.settings import BROKER, COMMON, CONTROLLER, new_cluster_id

IMAGE: Final = os.environ.get("SANDBOX_KAFKA_IMAGE") or f"samerack/kafka:{BROKER_VERSION}"
OLDEST_IMAGE: Final = os.environ.get("SANDBOX_OLDEST_KAFKA_IMAGE") or "samerack/kafka:3.9.2"
_LABEL: Final = "samerack.test-owner"
_CLIENT_PORT: Final = 9092
_INNER_PORT: Final = 9093
_JARS_FOLDER: Final = "/opt/jars"
_DATA_FOLDER: Final = "/tmp/node"  # noqa: S108 - the container's own folder, writable for any image's user
_STEADY_SESSION_MS: Final = "30000"
_START_TRIES: Final = 3
_REMOVAL: Final = """
cat
docker ps --all --quiet --filter "label=$1" | xargs --no-run-if-empty docker rm --force --volumes
docker network ls --quiet --filter "label=$1" | xargs --no-run-if-empty docker network rm
docker volume ls --quiet --filter "label=$1" | xargs --no-run-if-empty docker volume rm
"""
"""Waits until its standard input ends, which the kernel closes with the process that made the containers."""

# Runs as process 1. Each start script runs the node once; between two runs the container waits.
_LOOP: Final = """
mkdir -p /tmp/node
while :; do
  while [ ! -e /tmp/node/start ]; do sleep 0.1; done
  mv /tmp/node/start /tmp/node/life
  sh /tmp/node/life & echo $! > /tmp/node/pid
  wait $!
  rm -f /tmp/node/pid
done
"""
_END: Final = """
pid=$(cat /tmp/node/pid) || exit 0
kill -{signal} "$pid"
while [ -e /tmp/node/pid ]; do sleep 0.1; done
"""


class ContainerCluster(KafkaCluster):
    """Kafka brokers in containers; a context manager."""

    def __init__(
        self,
        racks: Mapping[int, str | None] = RACKS,
        *,
        properties: Mapping[str, str] | None = None,
        jars: Sequence[Path] = (),
        image: str = IMAGE,
        steady: bool = False,
    ) -> None:
        """Prepare a cluster; `start` or `with` starts it.

        Args:
            racks: broker id to rack; None is a broker without a rack.
            properties: broker properties that are added or replaced.
            jars: further jars for the brokers, after Kafka's.
            image: the Kafka image.
            steady: no test stops a broker, so a broker without heartbeats only waits for a processor. The controller
                fences it late: otherwise partitions and groups move to other brokers in the middle of unrelated tests.
        """
        super().__init__(racks)
        self._properties = {
            **COMMON,
            **BROKER,
            "offsets.topic.replication.factor": str(min(3, len(racks))),
            "replica.selector.class": RACK_AWARE_SELECTOR,
            **(properties or {}),
        }
        self._controller = {**COMMON, **({"broker.session.timeout.ms": _STEADY_SESSION_MS} if steady else {})}
        self._jars = tuple(jars)
        self._image = image
        self._cluster_id = new_cluster_id()
        self._docker: Any = None
        """The client of the docker library, which has no annotations."""
        self._network = ""
        self._containers: dict[int, Any] = {}
        self._addresses: dict[int, str] = {}
        self._running: set[int] = set()
        self._shared = False

    def start(self) -> None:
        """Start the containers and their nodes; return when each broker lists all brokers with their racks.

        Raises:
            SandboxError: a node did not start; with the last lines of its log.
        """
        testcontainers_config.ryuk_disabled = True
        _remove_leftovers()
        _remove_at_end()
        for left in reversed(range(_START_TRIES)):
            try:
                self._start_once()
            except (SandboxError, DockerException):
                if not left:
                    raise
            else:
                return

    def _start_once(self) -> None:
        self._docker = DockerClient().client
        try:
            network = Network(docker_network_kw={"labels": _owner()}).create()
            self._network = network.name
            for node in (CONTROLLER, *self._racks):
                self._start_container(node, network)
                self._begin(node)
            network._docker.client.close()
            self._wait_listed()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove containers, network and data."""
        for container in self._containers.values():
            with suppress(NotFound):
                container.remove(force=True, v=True)
        self._containers.clear()
        self._running.clear()
        if self._docker is not None:
            with suppress(NotFound):
                self._docker.networks.get(self._network).remove()
            self._docker.close()
            self._docker = None

    def handle(self) -> dict[str, Any]:
        """Return what `attach` needs, as JSON values."""
        return {
            "network": self._network,
            "containers": {node: container.id for node, container in self._containers.items()},
            "addresses": self._addresses,
        }

    def attach(self, handle: Mapping[str, Any]) -> None:
        """Use the running cluster of another process, which was prepared like this one, instead of starting one."""
        self._shared = True
        self._docker = DockerClient().client
        self._network = handle["network"]
        self._containers = {int(node): self._docker.containers.get(id_) for node, id_ in handle["containers"].items()}
        self._addresses = {int(node): address for node, address in handle["addresses"].items()}
        self._running = set(self._racks)

    def log(self, broker: int, lines: int = 30) -> str:
        """Return the last lines of a node's log."""
        printed: bytes = self._containers[broker].logs(tail=lines)
        return printed.decode(errors="replace")

    def _start_container(self, node: int, network: Network) -> None:
        container = DockerContainer(self._image).with_command(["sh", "-c", _LOOP]).with_network(network)
        container.with_network_aliases(f"node-{node}").with_kwargs(labels=_owner())
        container.with_tmpfs_mount(_DATA_FOLDER)  # brokers wait for no disk
        if node != CONTROLLER:
            container.with_exposed_ports(_CLIENT_PORT)
        with closing(container.start().get_docker_client().client):
            self._containers[node] = self._docker.containers.get(container.get_wrapped_container().id)
            if self._jars:
                self._containers[node].put_archive("/opt", _archive(self._jars))
            if node != CONTROLLER:
                host = container.get_container_host_ip()
                port = container.get_exposed_port(_CLIENT_PORT)
                # The name `localhost` may resolve to ::1 first, where the engine may not listen.
                self._addresses[node] = f"{'127.0.0.1' if host == 'localhost' else host}:{port}"

    def _address(self, broker: int) -> str:
        return self._addresses[broker]

    def _is_running(self, broker: int) -> bool:
        return broker in self._running

    def _end(self, broker: int, *, kill: bool) -> None:
        if self._shared:
            raise SandboxError(
                "other tests use this cluster as well; a test that stops brokers needs the mark `moves_brokers`"
            )
        self._shell(broker, _END.format(signal="KILL" if kill else "TERM"))
        self._running.discard(broker)

    def _begin(self, node: int) -> None:
        variables = {_variable(key): value for key, value in self._node_properties(node).items()}
        variables |= {"CLUSTER_ID": self._cluster_id, "KAFKA_HEAP_OPTS": "-Xms64m -Xmx320m"}
        # This replaces the default options of the official image.
        variables["KAFKA_JVM_PERFORMANCE_OPTS"] = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
        variables["CLASSPATH"] = ":".join(f"{_JARS_FOLDER}/{jar.name}" for jar in self._jars)
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
        script = f"{exports}exec /etc/kafka/docker/run\n"
        # Moved in one step: the loop must not find half a script.
        put = f"mkdir -p /tmp/node && printf %s {shlex.quote(script)} > /tmp/node/next"
        self._shell(node, f"{put} && mv /tmp/node/next /tmp/node/start")
        if node != CONTROLLER:
            self._running.add(node)

    def _node_properties(self, node: int) -> dict[str, str]:
        common = {
            "node.id": str(node),
            "controller.quorum.voters": f"{CONTROLLER}@node-{CONTROLLER}:{_INNER_PORT}",
            "log.dirs": f"{_DATA_FOLDER}/data",
        }
        if node == CONTROLLER:
            return {
                **self._controller,
                **common,
                "process.roles": "controller",
                "listeners": f"CONTROLLER://:{_INNER_PORT}",
            }
        rack = self._racks[node]
        return {
            **self._properties,
            **common,
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://:{_CLIENT_PORT},INNER://:{_INNER_PORT}",
            "advertised.listeners": f"PLAINTEXT://{self._addresses[node]},INNER://node-{node}:{_INNER_PORT}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INNER",
            **({} if rack is None else {"broker.rack": rack}),
        }

    def _shell(self, node: int, script: str) -> None:
        code, output = self._containers[node].exec_run(["sh", "-c", script])
        if code != 0:
            raise SandboxError(f"in the container of node {node}: {output.decode(errors='replace')}")


def _archive(jars: Sequence[Path]) -> bytes:
    """Return the jars as a tar archive, in the folder that the brokers' class path names."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for jar in jars:
            archive.add(jar, arcname=f"{Path(_JARS_FOLDER).name}/{jar.name}")
    return content.getvalue()


def _variable(key: str) -> str:
    """Return the environment variable that the image maps to this property."""
    return "KAFKA_" + key.replace("_", "___").replace("-", "__").replace(".", "_").upper()


def _owner() -> dict[str, str]:
    """The label of what this process has created."""
    return {_LABEL: f"{os.getpid()}-{_started(os.getpid())}"}


@cache
def _remove_at_end() -> subprocess.Popen[bytes]:
    """Start the shell that removes what this process has created and not removed when it ends."""
    (label,) = (f"{name}={owner}" for name, owner in _owner().items())
    return subprocess.Popen(
        ["sh", "-c", _REMOVAL, "samerack-removal", label],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C in a terminal does not reach it
    )


def _started(process: int | str) -> str:
    """Return when a process was started, which distinguishes it from a later one with its id."""
    return Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19]


def _lives(owner: str) -> bool:
    """Return whether the process that created something still runs."""
    process, _, started = owner.partition("-")
    try:
        return _started(process) == started
    except OSError:
        return False


def _remove_leftovers() -> None:
    docker = DockerClient().client
    try:
        for container in docker.containers.list(all=True, filters={"label": _LABEL}, ignore_removed=True):
            if not _lives(container.labels[_LABEL]):
                with suppress(APIError):  # another run may be removing it
                    container.remove(force=True, v=True)
        for network in docker.networks.list(filters={"label": _LABEL}):
            if not _lives(network.attrs["Labels"][_LABEL]):
                with suppress(APIError):
                    network.remove()
    finally:
        docker.close()
