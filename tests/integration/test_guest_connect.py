"""Kafka Connect: the agent never joins the workers' group, which is no consumer group; it can lead a sink's group."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from sandbox.admin import wait_until
from sandbox.agent_process import AgentProcess
from tests.integration.guest import ConnectWorker, client_ids, wait_watching
from tests.integration.scene import AGENT, Scene

_PLACES = ((1,), (1,), (1,), (1,))
_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _grows(path: Path, before: int) -> bool:
    return _lines(path) > before


def test_workers_start_where_an_agent_waits_and_their_sink_is_led(scene: Scene, tmp_path: Path) -> None:
    """An agent with both groups stays out of the workers' group from their first start, and leads the sink's group."""
    connector = scene.group
    workers, scene.group = f"{connector}-workers", f"connect-{connector}"  # as Connect names the groups of sinks
    written = tmp_path / "sink.txt"
    config = {"connector.class": _SINK, "topics": scene.topic, "file": str(written), "tasks.max": "1"}
    scene.lay_out(_PLACES)
    groups = [scene.group, workers]
    with AgentProcess(scene.cluster.bootstrap, groups=groups, log=tmp_path / "agent.log") as agent:
        wait_watching(agent)
        for _start in ("the first", "another"):
            with ConnectWorker(scene, group=workers, folder=tmp_path) as worker:
                grows = partial(_grows, written, _lines(written))
                worker.put(connector, config)
                wait_until(lambda: worker.state(connector) == "RUNNING", "the sink runs")
                wait_until(grows, "the sink writes")
                agent.wait_role("leading")
                agent.wait_role("observing", workers)
                assert len(client_ids(scene, workers)) == 1
                assert AGENT not in client_ids(scene, workers)
        assert {event["group"] for event in agent.events("joined")} <= {scene.group}
