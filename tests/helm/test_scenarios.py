"""Tests of every scenario of the chart with real Helm: it lints, renders, and matches Kubernetes' own schemas."""

from __future__ import annotations

from pathlib import Path

import kubernetes_validate
import pytest

from samerack.agent.settings_source import cluster_settings
from samerack.settings.loading import load
from tests.helm.chart import (
    CHART,
    EACH_VERSION,
    KUBERNETES,
    SCENARIOS,
    environment,
    helm,
    of_kind,
    pods,
    scenario,
    settings_file,
    values_of,
)

pytestmark = pytest.mark.helm

_OPERATOR = "monitoring.coreos.com/v1"
"""The API of the Prometheus operator, which Kubernetes itself does not know."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_passes_strict_lint(name: str) -> None:
    """Helm finds neither an error nor a warning."""
    run = helm("lint", "--strict", CHART, "--values", values_of(name), "--kube-version", KUBERNETES[-1])
    assert run.returncode == 0, run.stdout
    assert "[WARNING]" not in run.stdout


@pytest.mark.parametrize("kubernetes", EACH_VERSION)
@pytest.mark.parametrize("name", SCENARIOS)
def test_manifests_hold_against_kubernetes(name: str, kubernetes: str) -> None:
    """No field of a manifest is unknown, missing or of the wrong type."""
    for manifest in scenario(name, kubernetes):
        if manifest["apiVersion"] != _OPERATOR:
            kubernetes_validate.validate(manifest, kubernetes, strict=True)


@pytest.mark.parametrize("name", SCENARIOS)
def test_an_agent_takes_its_settings(name: str, tmp_path: Path) -> None:
    """The file in the ConfigMap and the variables of the pods load as settings of the real agent."""
    manifests = scenario(name)
    path = tmp_path / "samerack.yaml"
    path.write_text(settings_file(manifests), encoding="utf-8")
    variables = {
        key: entry.get("value", "from-a-secret:9093")
        for pod in pods(manifests).values()
        for key, entry in environment(pod["spec"]["containers"][0]).items()
        if key.startswith("SAMERACK_") and key != "SAMERACK_CONFIG"
    }
    settings = load(path=path, environment=variables, several=True)
    for one in cluster_settings(settings).values():
        assert one.kafka["bootstrap.servers"]
        if one.cluster:  # its password has a variable of its own
            assert one.kafka["sasl.password"]


@pytest.mark.parametrize("name", SCENARIOS)
def test_names_are_unique(name: str) -> None:
    """No two manifests of a release are the same object."""
    names = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in scenario(name)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", SCENARIOS)
def test_selectors_find_their_pods(name: str) -> None:
    """Each Deployment, Service, budget and policy selects by labels that the pods of its component have."""
    manifests = scenario(name)
    templates = pods(manifests)
    for manifest in of_kind(manifests, "Deployment"):
        chosen = manifest["spec"]["selector"]["matchLabels"]
        assert chosen.items() <= templates[f"Deployment/{manifest['metadata']['name']}"]["metadata"]["labels"].items()
    leaders = [
        pod for pod in templates.values() if pod["metadata"]["labels"]["app.kubernetes.io/component"] == "leader"
    ]
    selectors = [service["spec"]["selector"] for service in of_kind(manifests, "Service")]
    selectors += [each["spec"]["selector"]["matchLabels"] for each in of_kind(manifests, "PodDisruptionBudget")]
    selectors += [each["spec"]["podSelector"]["matchLabels"] for each in of_kind(manifests, "NetworkPolicy")]
    for selector in selectors:
        matching = [pod for pod in templates.values() if selector.items() <= pod["metadata"]["labels"].items()]
        assert matching == leaders
