"""The settings of the sandbox's Kafka nodes: small, quick to start, otherwise as in production."""

import base64
import fcntl
import os
import random
import socket
import tempfile
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, TextIO

from lab.sandbox.errors import SandboxError

HOST: Final = "127.0.0.1"
CONTROLLER: Final = 100
"""Node id of the controller, a separate process so that any broker may be killed."""

COMMON: Final[Mapping[str, str]] = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    # A broker can start again only when its last session is over, often even after an orderly stop: 9 s by default.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    # Leaders return to their first replica only by an explicit election, not automatically within five minutes.
    "auto.leader.rebalance.enable": "false",
}

BROKER: Final[Mapping[str, str]] = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    # All brokers share one small machine: few threads, and no 128 MiB for the log cleaner.
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": "4194304",
}

_PORTS: Final = range(10_000, 30_000)
"""Below the kernel's range for outgoing connections, so that the port is free at a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """One Kafka node; the id `CONTROLLER` makes it the controller, which may be a broker too."""

    id: int
    rack: str | None
    port: int  # where clients reach a broker; unused for a pure controller
    controller_port: int
    combined: bool = False
    listeners: Mapping[str, tuple[str, int]] = field(default_factory=dict)  # further ones: name to protocol and port


@cache
def _given_ports() -> TextIO:
    """Open the file whose bytes stand for ports; it stays open, as each lock ends with it."""
    return (Path(tempfile.gettempdir()) / f"samerack-ports-{os.getuid()}").open("a", encoding="ascii")


def _is_taken(port: int) -> bool:
    """Take a port for this process; return False if another one has it, which may listen there in a moment."""
    try:
        fcntl.lockf(_given_ports(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback address on which no process listens, and that no other process was given."""
    found: list[int] = []
    for port in random.sample(_PORTS, k=min(len(_PORTS), 50 * count)):
        if not _is_taken(port):
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise SandboxError(f"found only {len(found)} free ports of {count} on {HOST}")


def new_cluster_id() -> str:
    """Return a random cluster id, so that no client of another cluster can mistake this one for its own."""
    while True:
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not made.startswith("-"):  # Kafka's tools would read it as an option; its own generator avoids it too
            return made


def write_properties(folder: Path, node: NodeSettings, cluster_id: str, more: Mapping[str, str]) -> Path:
    """Write a node's properties, and for a broker the file that marks its storage as formatted; return the properties.

    They are in the cluster's folder, and data goes to `data-<id>` there; `more` are properties added or replaced.
    """
    controller = node.id == CONTROLLER
    data = folder / f"data-{node.id}"
    settings = {
        **COMMON,
        "node.id": str(node.id),
        "process.roles": "broker,controller" if node.combined else "controller" if controller else "broker",
        "controller.quorum.voters": f"{CONTROLLER}@{HOST}:{node.controller_port}",
        "log.dirs": str(data),
    }
    listeners = [f"CONTROLLER://{HOST}:{node.controller_port}"] if controller else []
    if node.combined or not controller:
        listeners.insert(0, f"PLAINTEXT://{HOST}:{node.port}")
        listeners += [f"{name}://{HOST}:{port}" for name, (_, port) in node.listeners.items()]
        protocols = [f"{name}:{protocol}" for name, (protocol, _) in node.listeners.items()]
        settings["listener.security.protocol.map"] = ",".join([settings["listener.security.protocol.map"], *protocols])
        settings |= BROKER
    settings["listeners"] = ",".join(listeners)
    if node.rack is not None:
        settings["broker.rack"] = node.rack
    data.mkdir(exist_ok=True)
    if not controller and not (data / "meta.properties").exists():
        (data / "meta.properties").write_text(f"version=1\ncluster.id={cluster_id}\nnode.id={node.id}\n")
    path = folder / f"node-{node.id}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in {**settings, **more}.items()))
    return path
