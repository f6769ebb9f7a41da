"""The properties with which the sandbox's nodes start."""

import socket
from pathlib import Path

from sandbox.settings import CONTROLLER, HOST, NodeSettings, free_ports, new_cluster_id, write_properties


def _written(folder: Path, node: NodeSettings, more: dict[str, str]) -> dict[str, str]:
    path = write_properties(folder, node, "id", more)
    pairs = (line.partition("=") for line in path.read_text().splitlines())
    return {key: value for key, _, value in pairs}


def test_a_broker_has_its_rack_and_formatted_storage(tmp_path: Path) -> None:
    """A broker's properties name its rack, later settings override earlier ones; its storage has the cluster's id."""
    node = NodeSettings(id=2, rack="rack-b", port=1002, controller_port=1000)
    written = _written(tmp_path, node, {"num.io.threads": "9"})
    assert written["broker.rack"] == "rack-b"
    assert written["num.io.threads"] == "9"
    assert written["listeners"] == f"PLAINTEXT://{HOST}:1002"
    assert written["controller.quorum.voters"] == f"{CONTROLLER}@{HOST}:1000"
    assert "cluster.id=id" in (tmp_path / "data-2" / "meta.properties").read_text()


def test_a_broker_may_have_no_rack(tmp_path: Path) -> None:
    """Without a rack the property is absent, not empty."""
    assert "broker.rack" not in _written(tmp_path, NodeSettings(id=1, rack=None, port=1, controller_port=2), {})


def test_the_controller_serves_no_clients(tmp_path: Path) -> None:
    """The controller has only a controller listener, and Kafka formats its storage."""
    written = _written(tmp_path, NodeSettings(id=CONTROLLER, rack=None, port=1, controller_port=1000), {})
    assert written["listeners"] == f"CONTROLLER://{HOST}:1000"
    assert not (tmp_path / f"data-{CONTROLLER}" / "meta.properties").exists()


def test_ports_are_free_and_differ() -> None:
    """Ports can be bound, are unique, and lie below the range of outgoing connections."""
    ports = free_ports(5)
    assert len(set(ports)) == 5
    for port in ports:
        with socket.socket() as listener:
            listener.bind((HOST, port))
    assert max(ports) < int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])


def test_cluster_ids_are_kafkas() -> None:
    """A cluster id is a new UUID in Kafka's 22 characters each time."""
    assert len(new_cluster_id()) == 22
    assert new_cluster_id() != new_cluster_id()
