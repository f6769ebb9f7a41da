"""An API server for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.agent.pod.api_server import ZONE, ApiServer, PodObject, certify


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of a cluster, made once."""
    return certify(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def api(tmp_path: Path, certificates: Path) -> Iterator[ApiServer]:
    """A cluster with two nodes in two zones, and a pod on each in the namespace `shop`."""
    folder = tmp_path / "api"
    folder.mkdir()
    with ApiServer(folder, certificates) as server:
        server.nodes = {"node-1": {ZONE: "zone-1"}, "node-2": {ZONE: "zone-2"}, "bare": {}}
        server.pods = {
            ("shop", "orders-1"): PodObject(node="node-1", address="10.0.0.1"),
            ("shop", "orders-2"): PodObject(node="node-2", address="10.0.0.2"),
        }
        yield server
