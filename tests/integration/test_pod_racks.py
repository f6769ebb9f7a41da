"""Racks of pods on a real Kafka: an API server knows those of members that do not send theirs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from lab.sandbox.commands import samerack
from lab.sandbox.members.lines import MemberSettings
from tests.integration.pods import Container, Pods
from tests.integration.scenario import INTERLEAVED, A, B, C, Scenario
from tests.unit.agent.pod.api_server import ZONE, ApiServer, PodObject, certify

_ZONES: Final = {"zone-1": A, "zone-2": B, "zone-3": C}


def planned(scenario: Scenario, *options: str) -> list[tuple[str, str]]:
    """Rack and rack source of each member by `samerack plan`, from the brokers and from a running agent."""
    done = samerack("plan", scenario.group, "--json", "-b", scenario.cluster.bootstrap, *options)
    if done.returncode:
        return []  # the group has no members yet
    members: list[dict[str, Any]] = json.loads(done.stdout)["members"]
    return sorted((member["rack"] or "-", member["rack_from"]) for member in members)


@pytest.mark.timeout(240)
def test_the_api_server_knows_racks_of_members_that_send_none(
    pods: Pods, scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent logs a missing permission; with it, it finds each member's node, and all reads are in rack."""
    scenario.lay_out(INTERLEAVED)
    with ApiServer(tmp_path, certify(tmp_path)) as api:
        api.rules = {("get", "nodes", "")}
        for variable, value in api.environment.items():
            monkeypatch.setenv(variable, value)  # which the agent inherits
        agent = scenario.waiting_agent(
            racks__client_ids={},
            pod__kubernetes_members=True,
            pod__kubernetes_account=str(api.account),
            pod__zones=_ZONES,
        )
        for number, zone in enumerate(_ZONES):
            settings = MemberSettings(
                bootstrap=pods.bootstrap, group=scenario.group, topics=scenario.topics, client_id=f"python-{number}"
            )
            member = pods.start_member(f"member-{number}", "kafka_python", settings)
            api.nodes[f"node-{number}"] = {ZONE: zone}
            api.pods["shop", f"orders-{number}"] = PodObject(node=f"node-{number}", address=address(member, pods))
        agent.wait(lambda: bool(agent.events("pod-racks-unknown")), "it is refused", timeout=60)
        (refused,) = agent.events("pod-racks-unknown")
        assert 'a Role in namespace shop with the rule {apiGroups: [""], resources: [pods], verbs: [list]}' in str(
            refused["error"]
        )
        api.rules |= {("list", "pods", "shop")}

        def found(source: str) -> float | None:
            return agent.metric("samerack_member_racks", group=scenario.group, source=source)

        agent.wait(lambda: found("kubernetes") == len(_ZONES), "every member's rack is known", timeout=60)
        agent.wait(
            lambda: agent.metric("samerack_cross_rack_partitions", group=scenario.group) == 0,
            "nothing crosses racks",
            timeout=60,
        )
        assert planned(scenario) == [("-", "none")] * len(_ZONES)  # only the API server knows, and the agent asks it
        assert planned(scenario, "-s", f"web.port={agent.port}") == [(rack, "kubernetes") for rack in _ZONES.values()]
        assert agent.metric("samerack_pod_questions_total", outcome="found") == len(_ZONES)


def address(container: Container, pods: Pods) -> str:
    """The address of a container in the brokers' network."""
    container.reload()
    return str(container.attrs["NetworkSettings"]["Networks"][pods.network]["IPAddress"])
