"""A pod's rack by the Kubernetes API, over TLS on loopback: requests, permissions and errors."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from samerack.agent.pod import members
from samerack.agent.pod.kubernetes import KubernetesError
from samerack.agent.pod.members import PodRacks
from samerack.agent.pod.own import own_rack
from samerack.common.service import Service
from tests.unit.agent.pod.api_server import ZONE, ApiServer, PodObject, certify
from tests.unit.waiting import until

NODE = {"NODE_NAME": "node-1"}


def reason(api: ApiServer, environment: dict[str, str], **more: Any) -> str:
    """The answer of the source if it does not know the rack."""
    found = own_rack(api.settings(**more), {**api.environment, **environment})
    assert found.rack is None
    return found.answers[0].detail


@pytest.mark.parametrize(
    ("environment", "questions"),
    [
        (NODE, ["/api/v1/nodes/node-1"]),
        ({"POD_NAME": "orders-1"}, ["/api/v1/namespaces/shop/pods/orders-1", "/api/v1/nodes/node-1"]),
        ({"HOSTNAME": "orders-1"}, ["/api/v1/namespaces/shop/pods/orders-1", "/api/v1/nodes/node-1"]),
        (
            {"POD_IP": "10.0.0.1", "HOSTNAME": "elsewhere"},
            [
                "/api/v1/namespaces/shop/pods?fieldSelector=status.podIP%3D10.0.0.1%2Cstatus.phase%21%3DSucceeded%2C"
                "status.phase%21%3DFailed&limit=5",
                "/api/v1/nodes/node-1",
            ],
        ),
    ],
)
def test_two_questions_at_most(api: ApiServer, environment: dict[str, str], questions: list[str]) -> None:
    """Node name, pod name or address, as the downward API gives it, leads to the node's zone in two requests."""
    found = own_rack(api.settings(zones={"zone-1": "rack-a"}), {**api.environment, **environment})
    assert (found.rack, found.source) == ("rack-a", "kubernetes")
    assert [one.path for one in api.asked] == questions


def test_a_pods_own_label_spares_the_node(api: ApiServer) -> None:
    """From Kubernetes 1.35 on the pod has the label itself, so that no permission on nodes is needed."""
    api.pods["shop", "orders-1"].labels[ZONE] = "zone-own"
    api.rules = {("get", "pods", "shop")}
    assert own_rack(api.settings(), {**api.environment, "POD_NAME": "orders-1"}).rack == "zone-own"


def test_a_token_that_was_replaced_is_read_again(api: ApiServer) -> None:
    """Kubernetes replaces tokens while the agent runs; the answer reports an old one, and a new one is read."""
    api.token = "second"  # noqa: S105 - of nothing real
    assert "rejects this service account (401): Unauthorized" in reason(api, NODE)
    api.give_token("second")
    assert own_rack(api.settings(), {**api.environment, **NODE}).rack == "zone-1"


@pytest.mark.parametrize(
    ("rules", "environment", "rule"),
    [
        ((), NODE, "a ClusterRole with the rule {}, resources: [nodes], verbs: [get]"),
        ((), {"POD_NAME": "orders-1"}, "a Role in namespace shop with the rule {}, resources: [pods], verbs: [get]"),
        (
            (("get", "pods", "shop"),),
            {"POD_IP": "10.0.0.1"},
            "a Role in namespace shop with the rule {}, resources: [pods], verbs: [list]",
        ),
    ],
)
def test_a_refusal_names_the_rule_that_is_missing(
    api: ApiServer, rules: tuple[tuple[str, str, str], ...], environment: dict[str, str], rule: str
) -> None:
    """A refusal has the server's message and the rule to grant."""
    api.rules = set(rules)
    answer = reason(api, environment)
    assert "(403)" in answer
    assert 'User "system:serviceaccount:shop:agent" cannot' in answer
    assert rule.format('{apiGroups: [""]') in answer


@pytest.mark.parametrize(
    ("environment", "more", "part"),
    [
        ({"POD_NAME": "gone"}, {}, "pod shop/gone does not exist; set NODE_NAME with the downward API"),
        ({"NODE_NAME": "gone"}, {}, "node 'gone' does not exist"),
        ({"NODE_NAME": "bare"}, {}, f"node bare has no label {ZONE}"),
        ({**NODE, "KUBERNETES_SERVICE_PORT": "1"}, {}, "Connection refused"),
        (NODE, {"kubernetes_account": "/nowhere"}, "automountServiceAccountToken: true"),
        ({**NODE, "KUBERNETES_SERVICE_HOST": ""}, {}, "this is not a pod; set it and KUBERNETES_SERVICE_PORT"),
    ],
)
def test_each_failure_is_reported(api: ApiServer, environment: dict[str, str], more: dict[str, str], part: str) -> None:
    """A missing pod, node, label, server, account or cluster gives one line with the cure."""
    assert part in reason(api, environment, **more)


def test_only_the_clusters_own_ca_is_trusted(api: ApiServer, tmp_path: Path) -> None:
    """A server with the certificate of another CA gets no token."""
    with ApiServer(tmp_path, certify(tmp_path)) as other:
        answer = reason(api, {**NODE, **other.environment})
        assert "its certificate is not trusted" in answer
        assert other.asked == []


# members


def asking(api: ApiServer, outcomes: list[str] | None = None, **more: Any) -> PodRacks:
    """The racks of pods, not started: tests poll."""
    found = outcomes if outcomes is not None else []
    return PodRacks(api.settings(**more), asked=found.append, environment=api.environment)


def racks_of(racks: PodRacks, *hosts: str) -> list[str | None]:
    """The racks of these hosts after a poll for them."""
    for host in hosts:
        racks.rack_of(host)
    racks.look_up(time.monotonic())
    return [racks.rack_of(host) for host in hosts]


def test_addresses_are_asked_for_after_they_are_wanted(api: ApiServer) -> None:
    """An answer is from memory; the next poll asks, each node once, and the version changes with an answer."""
    api.pods["shop", "orders-3"] = PodObject(node="node-1", address="10.0.0.3")
    outcomes: list[str] = []
    racks = asking(api, outcomes, zones={"zone-1": "rack-a"})
    hosts = ("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.9.9.9", "no-address")
    before = racks.hosts().version()
    assert [racks.rack_of(host) for host in hosts] == [None] * 5
    racks.look_up(time.monotonic())
    assert [racks.rack_of(host) for host in hosts] == ["rack-a", "zone-2", "rack-a", None, None]
    assert outcomes == ["found", "found", "found", "unknown"]
    assert len([one for one in api.asked if "/nodes/" in one.path]) == 2
    assert racks.hosts().version() != before
    asked, version = len(api.asked), racks.hosts().version()
    racks.look_up(time.monotonic())
    assert (len(api.asked), racks.hosts().version()) == (asked, version)


def test_a_pod_that_has_ended_does_not_keep_its_address(api: ApiServer) -> None:
    """An address belongs to the pod that runs, not to one that has ended."""
    api.pods = {
        ("shop", "done"): PodObject(node="node-1", address="10.0.0.7", phase="Succeeded"),
        ("shop", "pending"): PodObject(node="", address="10.0.0.7", phase="Pending"),
        ("shop", "runs"): PodObject(node="node-2", address="10.0.0.7"),
    }
    assert racks_of(asking(api), "10.0.0.7") == ["zone-2"]


def test_answers_age_and_unwanted_ones_are_forgotten(api: ApiServer) -> None:
    """An address is asked for again after the refresh time, unless it is not wanted any more."""
    racks = asking(api)
    now = time.monotonic()
    racks.rack_of("10.0.0.1")
    racks.look_up(now)
    api.pods["shop", "orders-1"].node = "node-2"
    racks.look_up(now + 299)
    assert racks.rack_of("10.0.0.1") == "zone-1"
    racks.look_up(now + 301)
    assert racks.rack_of("10.0.0.1") == "zone-2"
    asked = len(api.asked)
    racks.look_up(now + 1000)
    assert len(api.asked) == asked


def test_what_was_known_counts_while_the_api_refuses(api: ApiServer) -> None:
    """A permission that is revoked takes no known rack from a member."""
    racks = asking(api)
    assert racks_of(racks, "10.0.0.1") == ["zone-1"]
    api.rules = set()
    with pytest.raises(KubernetesError, match=r"verbs: \[list\]"):
        racks.look_up(time.monotonic() + 301)
    assert racks.rack_of("10.0.0.1") == "zone-1"


def test_a_node_that_has_gone_keeps_nobody_waiting(api: ApiServer) -> None:
    """Pods of a node that does not exist have no rack; pods of other nodes do."""
    api.pods["shop", "orders-1"].node = "gone"
    assert racks_of(asking(api), "10.0.0.1", "10.0.0.2") == [None, "zone-2"]


def test_all_namespaces_need_a_cluster_role(api: ApiServer) -> None:
    """`*` asks for the pods of the whole cluster; several namespaces are asked one after the other."""
    api.pods["bank", "ledger"] = PodObject(node="node-2", address="10.0.0.9")
    racks = asking(api, kubernetes_namespaces=("*",))
    with pytest.raises(KubernetesError, match=r"a ClusterRole with the rule .*pods.*list"):
        racks_of(racks, "10.0.0.9")
    api.rules |= {("list", "pods", "")}
    assert racks_of(racks, "10.0.0.9") == ["zone-2"]
    assert racks_of(asking(api, kubernetes_namespaces=("shop", "bank")), "10.0.0.9") == ["zone-2"]


def test_one_poll_asks_a_bounded_number(api: ApiServer) -> None:
    """One poll asks for a bounded number of addresses, the next poll for more."""
    racks = asking(api)
    for number in range(members.MAX_QUESTIONS + 10):
        racks.rack_of(f"10.1.0.{number}")
    assert racks.look_up(time.monotonic()) == 10
    assert len(api.asked) == members.MAX_QUESTIONS
    assert racks.look_up(time.monotonic()) == 0
    assert len(api.asked) == members.MAX_QUESTIONS + 10


def test_the_thread_asks_by_itself(api: ApiServer, monkeypatch: pytest.MonkeyPatch, started: list[Service]) -> None:
    """The thread finds wanted addresses, and ends when it is stopped."""
    monkeypatch.setattr(members, "_PAUSE_SECONDS", 0.01)
    racks = asking(api)
    started.append(racks)
    racks.start()
    assert until(lambda: racks.rack_of("10.0.0.1") == "zone-1")
