"""Tests of the NetworkPolicy: it opens what the agent's settings need, and anything else only if the values say so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helm.chart import SCENARIOS, Manifest, of_kind, one, refusal, scenario, with_values

pytestmark = pytest.mark.helm

_TOKENS: Manifest = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "samerack",
}
_URL = "sasl.oauthbearer.token.endpoint.url"
_CLOUD: Manifest = {**_TOKENS, "sasl.oauthbearer.metadata.authentication.type": "azure_workload_identity"}
_DNS = [53, 53, 5353, 5353]
"""Pods of OpenShift's DNS listen on 5353."""
_SECRET = {"name": "kafka", "key": "key"}


def _egress(manifests: tuple[Manifest, ...]) -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = one(manifests, "NetworkPolicy")["spec"]["egress"]
    return rules


def _ports(manifests: tuple[Manifest, ...]) -> list[list[int]]:
    return [[port["port"] for port in rule["ports"]] for rule in _egress(manifests)]


def _policy(**more: object) -> Manifest:
    return {"networkPolicy": {"enabled": True, **more}}


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_rule_is_without_ports(name: str) -> None:
    """Every rule has ports, because Kubernetes reads a rule without ports as all ports."""
    for policy in of_kind(scenario(name), "NetworkPolicy"):
        for rule in (*policy["spec"]["egress"], *policy["spec"]["ingress"]):
            assert rule["ports"]
            assert all(port["port"] for port in rule["ports"])


def test_a_policy_lets_through_what_is_needed() -> None:
    """DNS and the brokers' ports (also those of the cluster that is published to) are open, to the named peers only."""
    two = scenario("two-replicas-tls-sasl")
    assert _ports(two) == [_DNS, [9094, 9095, 9192]]
    assert _egress(two)[1]["to"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kafka"}}}]
    all_on = _ports(scenario("all-on"))
    assert all_on[1] == [9092, 9093]
    assert {port for ports in all_on[2:] for port in ports} == {443, 6443, 80, 9404}


def test_the_token_endpoint_is_let_through() -> None:
    """The endpoint's port from its URL is open, to the peers that the values name."""
    assert _ports(scenario("tokens")) == [_DNS, [9093], [8443]]
    assert _egress(scenario("tokens"))[2]["to"] == [{"ipBlock": {"cidr": "10.7.0.0/16"}}]


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("https://sso.example/token", 443),
        ("http://sso.example", 80),
        ("https://sso.example:444?realm=a:1", 444),
        ("https://[2001:db8::1]:8443/token", 8443),
        ("https://[2001:db8::1]/token", 443),
    ],
)
def test_the_port_is_that_of_the_url(url: str, port: int, tmp_path: Path) -> None:
    """The port is the URL's own, or the default of its scheme."""
    values = {"config": {"kafka": {**_TOKENS, _URL: url}}, **_policy()}
    assert _ports(with_values(values, tmp_path)) == [_DNS, [9092], [port]]


def test_tokens_of_the_producer_are_let_through(tmp_path: Path) -> None:
    """The cluster that is published to may have its own token endpoint."""
    publishing = {"traffic_topic": "t", "kafka": {**_TOKENS, _URL: "https://fleet.example:8444/token"}}
    values = {"config": {"publishing": publishing}, **_policy()}
    assert _ports(with_values(values, tmp_path))[2] == [8444]


@pytest.mark.parametrize(
    "config",
    [
        {"kafka": _CLOUD},
        {"kafka": _CLOUD, "publishing": {"traffic_topic": "t", "kafka": {"bootstrap.servers": "fleet:9092"}}},
        {"kafka": {"sasl.mechanism": "AWS_MSK_IAM"}},
    ],
    ids=["tokens of a cloud", "the producer too", "signatures"],
)
def test_an_identity_of_the_cloud_needs_no_token_port(config: Manifest, tmp_path: Path) -> None:
    """Its token comes from where the cloud says, which `extraEgress` allows: there is no endpoint of the reader's."""
    values = {"config": config, **_policy(extraEgress=[{"ports": [{"port": 443}]}])}
    assert _ports(with_values(values, tmp_path)) == [_DNS, [9092], [443]]


def test_a_collector_is_let_through(tmp_path: Path) -> None:
    """The port of `otel.endpoint` is open."""
    values = {"config": {"otel": {"endpoint": "http://collector:4318/v1/metrics"}}, **_policy()}
    assert _ports(with_values(values, tmp_path)) == [_DNS, [9092], [4318]]


def test_ports_that_are_set_are_let_through(tmp_path: Path) -> None:
    """If addresses come from a Secret, the values name the ports."""
    assert _ports(scenario("servers-from-secret")) == [_DNS, [9093]]
    values = {"config": {"kafka": _TOKENS}, "kafka": {"secrets": {_URL: _SECRET}}, **_policy(tokenPorts=[8443])}
    assert _ports(with_values(values, tmp_path)) == [_DNS, [9092], [8443]]


_HIDDEN: tuple[tuple[Manifest, str], ...] = (
    ({"config": {"kafka": None}, "kafka": {"secrets": {"bootstrap.servers": _SECRET}}}, "kafkaPorts: [9093]"),
    ({"kafka": {"secrets": {"bootstrap.servers": _SECRET}}}, "kafkaPorts: [9093]"),
    ({"extraEnv": [{"name": "SAMERACK_KAFKA__BOOTSTRAP_SERVERS", "value": "kafka:9093"}]}, "kafkaPorts: [9093]"),
    ({"extraEnv": [{"name": "SAMERACK_KAFKA", "value": "{bootstrap.servers: kafka:9093}"}]}, "kafkaPorts: [9093]"),
    ({"config": {"kafka": None}, "envFrom": [{"secretRef": {"name": "kafka"}}]}, "kafkaPorts: [9093]"),
    ({"config": {"kafka": None}, "existingConfigMap": {"name": "mine"}}, "kafkaPorts: [9093]"),
    ({"config": {"kafka": None, "groups": [], "clusters": {"east": {"kafka": {}}}}}, "kafkaPorts: [9093]"),
    (
        {
            "config": {
                "kafka": None,
                "groups": [],
                "clusters": {"east": {"kafka": {"bootstrap.servers": "east:9092"}}},
            },
            "extraEnv": [{"name": "SAMERACK_CLUSTERS__WEST_2__KAFKA__BOOTSTRAP_SERVERS", "value": "west:9093"}],
        },
        "kafkaPorts: [9093]",
    ),
    ({"config": {"kafka": _TOKENS}}, "tokenPorts: [443]"),
    (
        {"config": {"kafka": {**_TOKENS, _URL: "https://sso.example"}}, "kafka": {"secrets": {_URL: _SECRET}}},
        "tokenPorts: [443]",
    ),
)


@pytest.mark.parametrize(("values", "cure"), _HIDDEN)
def test_ports_that_are_not_set_are_refused(values: Manifest, cure: str, tmp_path: Path) -> None:
    """If the chart cannot see the addresses, it asks for the ports instead of rendering a wrong policy."""
    assert cure in " ".join(refusal({**values, **_policy()}, tmp_path).split())


def test_the_pod_of_helm_test_is_let_in() -> None:
    """If the policy limits who may use the port, it allows the pod of `helm test`."""
    manifests = scenario("two-replicas-tls-sasl")
    (rule,) = one(manifests, "NetworkPolicy")["spec"]["ingress"]
    labels = one(manifests, "Pod")["metadata"]["labels"]
    selectors = [peer["podSelector"]["matchLabels"] for peer in rule["from"] if "podSelector" in peer]
    assert [selector.items() <= labels.items() for selector in selectors] == [True]
