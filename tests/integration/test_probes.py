"""The answers of /healthz and /readyz while Kafka starts and stops."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.agent_process import AgentProcess
from sandbox.cluster import Cluster

pytestmark = pytest.mark.own_cluster


def test_alive_but_not_ready_without_kafka(tmp_path: Path) -> None:
    """The agent is healthy before Kafka starts, ready once it has metadata, and only healthy after all brokers stop."""
    with Cluster() as cluster:
        for broker in cluster.brokers:
            cluster.stop_broker(broker)
        with AgentProcess(cluster.bootstrap, groups=["orders"], log=tmp_path / "agent.log") as agent:
            agent.wait(lambda: agent.get("/healthz")[0] == 200, "it is alive")
            status, page = agent.get("/readyz")
            assert status == 503
            assert "metadata has not been read yet" in page
            for broker in cluster.brokers:
                cluster.start_broker(broker)
            agent.wait(lambda: agent.get("/readyz")[0] == 200, "it is ready", timeout=60)
            for broker in cluster.brokers:
                cluster.stop_broker(broker, kill=True)
            agent.wait(lambda: agent.get("/readyz")[0] == 503, "it is not ready", timeout=60)
            agent.wait(lambda: "no poll of the cluster" in agent.get("/readyz")[1], "it says why", timeout=60)
            assert agent.get("/healthz")[0] == 200
            assert agent.metric("samerack_up") == 0
