"""One agent that observes two real clusters, one that is gone and one that refuses it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from lab.sandbox.admin import Admin
from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.commands import samerack_json
from lab.sandbox.settings import HOST, free_ports
from tests.collector import Collector
from tests.integration import guest
from tests.integration.cluster import ContainerCluster
from tests.integration.fleet import reading
from tests.integration.scenario import INTERLEAVED, A, Scenario

_PASSWORD: Final = "geheim-4711"  # noqa: S105 - of nobody


@pytest.fixture
def west(tmp_path: Path) -> Iterator[Scenario]:
    """A group in another cluster, of one broker."""
    folder = tmp_path / "west"
    folder.mkdir()
    with (
        ContainerCluster({1: A}, steady=True) as cluster,
        Admin(cluster.bootstrap) as admin,
        Scenario(cluster, admin, folder=folder) as opened,
    ):
        yield opened


def rows(agent: AgentProcess) -> dict[str, dict[str, Any]]:
    """What the agent shows of each cluster; empty while it does not answer."""
    status, body = agent.get("/v1/clusters")
    return {one["cluster"]: one for one in json.loads(body)} if status == 200 else {}


def consumed(agent: AgentProcess, cluster: str, group: str) -> float:
    """All bytes that the agent has counted of a group."""
    return sum(
        sample.value
        for sample in agent.samples("samerack_consumed_bytes_total")
        if (sample.labels["cluster"], sample.labels["group"]) == (cluster, group)
    )


def test_each_is_measured_and_none_harms_another(scenario: Scenario, west: Scenario, tmp_path: Path) -> None:
    """Bytes of both groups, by cluster; a cluster that is gone or refuses the agent is reported; no group is joined."""
    scenario.lay_out(INTERLEAVED)
    reading(scenario)
    guest.place(west, 2)
    guest.write(west, 2)
    west.join("confluent", A)
    west.wait_settled()
    east = scenario.cluster.bootstrap
    (port,) = free_ports(1)
    clusters = {
        "east": {"kafka": {"bootstrap.servers": east}, "groups": [scenario.group]},
        "west": {"kafka": {"bootstrap.servers": west.cluster.bootstrap}, "groups": [west.group]},
        "gone": {"kafka": {"bootstrap.servers": f"{HOST}:{port}"}},
        "closed": {
            "kafka": {
                "bootstrap.servers": east,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "samerack",
                "sasl.password": _PASSWORD,
            }
        },
    }
    config = tmp_path / "samerack.yaml"
    config.write_text(json.dumps({"clusters": clusters}), encoding="utf-8")
    with ExitStack() as stack:
        collector = stack.enter_context(Collector())
        agent = stack.enter_context(
            AgentProcess(
                "",
                groups=[],
                log=tmp_path / "agent.log",
                config=config,
                settings={"otel.endpoint": collector.endpoint},
                prefix=["env", "OTEL_METRIC_EXPORT_INTERVAL=1000"],
            )
        )
        agent.wait(lambda: consumed(agent, "east", scenario.group) > 0, "bytes are counted in the east", timeout=90)
        agent.wait(lambda: (rows(agent).get("west") or {}).get("groups") == 1, "the group in the west is seen")
        agent.wait(lambda: "SASL" in rows(agent)["closed"]["trouble"], "the refusal is reported")
        agent.wait(lambda: f"{HOST}:{port}" in rows(agent)["gone"]["trouble"], "nobody answers, which is reported")
        found = rows(agent)
        assert {name for name, row in found.items() if row["trouble"]} == {"gone", "closed"}
        for name in ("gone", "closed"):
            assert found[name]["dollars_per_month"] is None
            assert found[name]["groups"] is None
        assert agent.get("/readyz")[0] == 200
        assert agent.metric("samerack_up", cluster="east") == agent.metric("samerack_up", cluster="west") == 1
        assert agent.metric("samerack_up", cluster="gone") == agent.metric("samerack_up", cluster="closed") == 0
        sent = collector.samples()
        assert sent["samerack_up", frozenset({("cluster", "east")})] == 1
        assert sent["samerack_up", frozenset({("cluster", "gone")})] == 0
        page = agent.get("/")[1]
        assert f'<a href="clusters/east/group?name={scenario.group}">' in page
        assert "Without gone, closed, for which this is unknown." in page
        done = subprocess.run(
            ["promtool", "check", "metrics"],
            input=agent.get("/metrics")[1],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        chosen = ("-s", "cluster=east", "-s", f"web.port={agent.port}")
        cost = samerack_json("cost", scenario.group, "--json", "--config", str(config), *chosen)
        assert cost["groups"][0]["wire_bytes"] > 0
        assert cost["bootstrap"] == east
        names = {event.get("cluster") for event in agent.events("poll-failed")}
        assert names <= {"gone", "closed"}
        assert "gone" in names
    assert scenario.agent_member() is None
    assert west.agent_member() is None
    assert _PASSWORD not in (tmp_path / "agent.log").read_text(encoding="utf-8")
    assert sorted(path.name for path in tmp_path.glob("agent.events*.db")) == [
        f"agent.events-{name}.db" for name in sorted(clusters)
    ]
