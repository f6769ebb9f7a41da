"""Runs a real three-broker, three-rack Kafka as JVM processes on this machine's loopback address.

No container engine is needed. The controller and each broker are separate processes with separate ports, and one
temporary folder for all. `close` ends them and removes the folder. If this program is killed, the kernel ends them
(`lab.sandbox.processes`), and the next cluster removes the folder.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from lab.sandbox.contract import RACK_AWARE_SELECTOR, RACKS, KafkaCluster
from lab.sandbox.errors import SandboxError
from lab.sandbox.jvm import BROKER_VERSION, STARTED, command, format_storage
from lab.sandbox.processes import end, spawn, tail, wait_for_line
from lab.sandbox.security import Security
from lab.sandbox.settings import CONTROLLER, HOST, NodeSettings, free_ports, new_cluster_id, write_properties

_PREFIX: Final = "samerack-sandbox-"
_START_SECONDS: Final = 60.0


def _remove_leftovers() -> None:
    """Remove the folders of clusters whose program was killed; their names contain its process id."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(folder, ignore_errors=True)


class Cluster(KafkaCluster):
    """Kafka brokers as JVM processes; a context manager.

    Example:
        with Cluster() as cluster:
            print(cluster.bootstrap)
            cluster.restart_broker(2, rack="rack-c")
    """

    def __init__(  # noqa: PLR0913 - one parameter for each property of a cluster
        self,
        racks: Mapping[int, str | None] = RACKS,
        *,
        rack_aware: bool = True,
        properties: Mapping[str, str] | None = None,
        heap_megabytes: int | None = None,
        security: Security | None = None,
        version: str = BROKER_VERSION,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        """Prepare a cluster; `start` or `with` starts it.

        Args:
            racks: broker id to rack; None is a broker without a rack.
            rack_aware: brokers let consumers read from a replica of their rack (KIP-392).
            properties: broker properties that are added or replaced.
            heap_megabytes: maximum heap of each node; the default is enough for a few thousand partitions.
            security: further listeners besides the open one, and an authorizer.
            version: of the brokers' Kafka; scripts/setup installs 4.3.0 and that in SANDBOX_KAFKA_VERSION, scripts/test
                those that tests name.
            progress: called with messages while the cluster starts.
        """
        if not racks or CONTROLLER in racks:
            raise SandboxError(
                f"a cluster needs brokers, and none with the controller's id {CONTROLLER}: {dict(racks)}"
            )
        super().__init__(racks)
        self._properties = {
            "offsets.topic.replication.factor": str(min(3, len(racks))),
            "transaction.state.log.replication.factor": str(min(3, len(racks))),
            "share.coordinator.state.topic.replication.factor": str(min(3, len(racks))),
            **({"replica.selector.class": RACK_AWARE_SELECTOR} if rack_aware else {}),
            **(properties or {}),
        }
        self._security = security or Security()
        self._overrides: dict[int, tuple[Mapping[str, str], tuple[Path, ...]]] = {}
        heap = () if heap_megabytes is None else (f"-Xmx{heap_megabytes}m",)
        self._options = (*heap, *self._security.options)
        self._version = version
        self._progress = progress or (lambda _text: None)
        self._cluster_id = new_cluster_id()
        self._folder: Path | None = None
        self._ports: dict[int, int] = {}
        self._secured: dict[tuple[str, int], int] = {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._log_starts: dict[int, int] = {}

    def secured(self, listener: str) -> str:
        """Return `bootstrap.servers` for one of the further listeners."""
        return ",".join(f"{HOST}:{self._secured[listener, broker]}" for broker in self._racks)

    def start(self) -> None:
        """Start the controller and all brokers at once; return when every broker lists all with their racks."""
        _remove_leftovers()
        self._folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        nodes = [CONTROLLER, *self._racks]
        secured = [(listener.name, broker) for listener in self._security.listeners for broker in self._racks]
        ports = free_ports(len(nodes) + len(secured))
        self._ports = dict(zip(nodes, ports, strict=False))
        self._secured = dict(zip(secured, ports[len(nodes) :], strict=True))
        begun = time.monotonic()
        try:
            for broker in self._racks:  # they wait for the controller, which is formatted next
                self._spawn(broker)
            properties = self._write(CONTROLLER)
            jars = self._overrides.get(CONTROLLER, ({}, ()))[1]
            format_storage(properties, self._cluster_id, self._folder, more=jars, version=self._version)
            self._spawn(CONTROLLER)
            for node in nodes:
                self._wait_started(node)
                self._progress(f"{self._name(node)} is up after {time.monotonic() - begun:.1f} s")
            self._wait_listed()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Kill every process and remove the folder; no orderly stop is needed, as all data is deleted."""
        for process in self._processes.values():
            with suppress(ProcessLookupError):
                process.kill()
        for process in self._processes.values():
            end(process, kill=True)
        self._processes.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def override(self, broker: int, *, properties: Mapping[str, str], jars: Sequence[Path] = ()) -> None:
        """Give a broker, or the controller, properties and jars of its own, from its next start on.

        They replace earlier ones.
        """
        self._overrides[broker] = (dict(properties), tuple(jars))

    def log(self, broker: int, lines: int = 30) -> str:
        """Return the last lines of a broker's log; the controller's id is `lab.sandbox.settings.CONTROLLER`."""
        return tail(self._log_path(broker), lines)

    def _home(self) -> Path:
        if self._folder is None:
            raise SandboxError("the cluster is not started")
        return self._folder

    def _address(self, broker: int) -> str:
        return f"{HOST}:{self._ports[broker]}"

    def _is_running(self, broker: int) -> bool:
        process = self._processes.get(broker)
        return process is not None and process.poll() is None

    def _begin(self, broker: int) -> None:
        self._spawn(broker)
        self._wait_started(broker)

    def _end(self, broker: int, *, kill: bool) -> None:
        end(self._processes.pop(broker), kill=kill, timeout=30)

    def _name(self, node: int) -> str:
        return "the controller" if node == CONTROLLER else f"broker {node} ({self._racks.get(node) or 'no rack'})"

    def _log_path(self, node: int) -> Path:
        return self._home() / f"node-{node}.log"

    def _write(self, node: int) -> Path:
        listeners = self._security.listeners
        settings = NodeSettings(
            id=node,
            rack=self._racks.get(node),
            port=self._ports[node],
            controller_port=self._ports[CONTROLLER],
            listeners={one.name: (one.protocol, self._secured[one.name, node]) for one in listeners}
            if node != CONTROLLER
            else {},
        )
        more = self._security.common()
        if node != CONTROLLER:
            more |= self._properties | {key: value for one in listeners for key, value in one.prefixed().items()}
        more |= self._overrides.get(node, ({}, ()))[0]
        return write_properties(self._home(), settings, self._cluster_id, more)

    def _spawn(self, node: int) -> None:
        folder = self._home()
        line = command(
            "kafka.Kafka",
            [str(self._write(node))],
            folder=folder,
            options=self._options,
            more=(*self._security.jars, *self._overrides.get(node, ({}, ()))[1]),
            version=self._version,
        )
        with self._log_path(node).open("ab") as log:
            self._log_starts[node] = log.tell()
            self._processes[node] = spawn(line, stdout=log, stderr=subprocess.STDOUT)

    def _wait_started(self, node: int) -> None:
        try:
            wait_for_line(
                self._processes[node], self._log_path(node), STARTED, _START_SECONDS, start=self._log_starts[node]
            )
        except SandboxError as error:
            raise SandboxError(f"{self._name(node)} {error}") from None
