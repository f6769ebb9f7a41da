"""Containers as Kubernetes runs them: no privileges, nothing writable, no network but the one with Kafka.

The network is created here, without access to other networks; the cluster's brokers are connected to it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self
from uuid import uuid4

from docker.errors import NotFound
from testcontainers.core.docker_client import DockerClient

from lab.sandbox.admin import wait_until
from lab.sandbox.errors import SandboxError
from lab.sandbox.members.lines import MemberSettings, command_line
from tests.integration.cluster import ContainerCluster, _owner

Container = Any
"""A container of the docker library, which has no annotations."""

IMAGE: Final = os.environ.get("SANDBOX_AGENT_IMAGE", "samerack/agent:test")
PYTHON: Final = "/opt/samerack/bin/python"
SAMERACK: Final = "/opt/samerack/bin/samerack"
CONFINED: Final[Mapping[str, Any]] = {
    "read_only": True,
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges"],
    "pids_limit": 100,
}
_INNER_PORT: Final = 9093
_LAB: Final = Path(__file__).parents[2] / "lab"


class Pods:
    """A separate network with the brokers; a context manager that removes everything that it started."""

    def __init__(self, cluster: ContainerCluster) -> None:
        """Prepare the pods; `with` creates the network."""
        self._cluster = cluster
        self._docker = DockerClient().client
        self._network: Any = None
        self._started: list[Container] = []

    @property
    def bootstrap(self) -> str:
        """`bootstrap.servers` within the network."""
        return ",".join(f"node-{broker}:{_INNER_PORT}" for broker in self._cluster.brokers)

    @property
    def network(self) -> str:
        """The network's name."""
        return str(self._network.name)

    def addresses_elsewhere(self) -> list[str]:
        """The brokers' addresses in other networks; containers of this network must not reach them."""
        found = []
        for container in self._cluster._containers.values():
            container.reload()
            networks = container.attrs["NetworkSettings"]["Networks"]
            found += [one["IPAddress"] for name, one in networks.items() if name != self.network]
        return found

    def start(
        self,
        name: str,
        *,
        command: Sequence[str],
        image: str = IMAGE,
        environment: Mapping[str, str] | None = None,
        network: bool = True,
        beside: Container | None = None,
        **more: Any,
    ) -> Container:
        """Start a container, confined.

        Like containers of one pod, it shares the addresses of the container `beside`.
        """
        if beside is not None:
            joined = {"network_mode": f"container:{beside.id}"}
        else:
            joined = {"network": self.network} if network else {"network_mode": "none"}
        container: Container = self._docker.containers.create(
            image,
            command=list(command),
            environment=dict(environment or {}),
            **joined,
            labels={**_owner(), "samerack.pod": name},
            **{**CONFINED, **more},
        )
        self._started.append(container)
        container.start()
        return container

    def start_member(
        self, name: str, client: str, settings: MemberSettings, *, beside: Container | None = None
    ) -> Container:
        """Start a group member of the sandbox, with the image's Python and clients.

        `client` is its module in `lab.sandbox.members`.
        """
        mounted = "/tests/lab"
        return self.start(
            name,
            entrypoint=PYTHON,
            command=["-m", f"lab.sandbox.members.{client}", *command_line(settings)],
            environment={"PYTHONPATH": str(Path(mounted).parent)},
            mounts=[{"Type": "bind", "Source": str(_LAB), "Target": mounted, "ReadOnly": True}],
            user=f"{os.getuid()}:{os.getgid()}",  # whoever may read the checkout
            beside=beside,
        )

    def run(self, name: str, **options: Any) -> str:
        """Start a container without a network, wait for its end, and return what it printed.

        Raises:
            SandboxError: It failed.
        """
        container = self.start(name, network=False, **options)
        code = int(container.wait(timeout=60)["StatusCode"])
        printed = container.logs(stdout=True, stderr=code != 0).decode()
        if code:
            raise SandboxError(f"{name} ended with exit code {code}: {printed}")
        return str(printed)

    def __enter__(self) -> Self:
        """Create the network and connects the brokers to it."""
        self._network = self._docker.networks.create(f"samerack-{uuid4().hex[:12]}", internal=True, labels=_owner())
        for node, container in self._cluster._containers.items():
            self._network.connect(container, aliases=[f"node-{node}"])
        return self

    def __exit__(self, _kind: object, error: object, _trace: object, /) -> None:
        """Remove containers and network."""
        for container in self._started:
            if error is not None:
                print(f"--- {container.labels['samerack.pod']}\n{container.logs(tail=60).decode()}")  # noqa: T201 - for pytest
            with suppress(NotFound):
                container.remove(force=True, v=True)
        if self._network is not None:
            for container in self._cluster._containers.values():
                with suppress(NotFound):
                    self._network.disconnect(container, force=True)
            self._network.remove()
        self._docker.close()


def execute(container: Container, *line: str) -> tuple[int, str]:
    """Exit code and output of a command in a running container, as an exec probe runs it."""
    code, output = container.exec_run(list(line))
    return int(code), output.decode()


def wait_ready(container: Container, *, timeout: float = 60.0) -> float:
    """Wait until the agent in a container is ready; return the seconds that this took."""
    started = time.monotonic()

    def ready() -> bool:
        container.reload()
        if container.status != "running":
            raise SandboxError(f"the container is {container.status}: {container.logs(tail=30).decode()}")
        return execute(container, SAMERACK, "health", "--ready")[0] == 0

    wait_until(ready, "the agent in the container is ready", timeout=timeout)
    return time.monotonic() - started


def shown(container: Container, path: str) -> str:
    """A page of the agent's HTTP port, requested within its container."""
    program = f"import urllib.request as r; print(r.urlopen('http://127.0.0.1:9464{path}').read().decode())"
    code, output = execute(container, PYTHON, "-c", program)
    if code:
        raise SandboxError(output)
    return output


def role(container: Container, group: str) -> str:
    """The role of the agent in a container in a group."""
    lines = [line for line in shown(container, "/metrics").splitlines() if line.startswith("samerack_group_role{")]
    return next((line.split('role="')[1].split('"')[0] for line in lines if group in line), "unknown")


def logged(container: Container, event: str) -> list[dict[str, Any]]:
    """Events of one name in the agent's log."""
    lines = container.logs(stdout=False, stderr=True).decode().splitlines()
    events = [json.loads(line) for line in lines if line.startswith("{")]
    return [one for one in events if one.get("event") == event]
