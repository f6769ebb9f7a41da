"""Tests of the chart's permissions in the Kubernetes API: none by default, otherwise only those that settings need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helm.chart import NAMESPACE, SCENARIOS, environment, of_kind, one, pods, scenario, values_of, with_values

pytestmark = pytest.mark.helm

_KINDS = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
_ASKING = tuple(
    name for name in SCENARIOS if "kubernetes" in values_of(name).read_text(encoding="utf-8").partition("pod:")[2]
)


@pytest.mark.parametrize("name", sorted(set(SCENARIOS) - set(_ASKING)))
def test_nothing_is_granted_unasked(name: str) -> None:
    """Without the source `kubernetes` there is no role, and no pod mounts a token."""
    assert not [each for each in scenario(name) if each["kind"] in _KINDS]
    assert not any(pod["spec"]["automountServiceAccountToken"] for pod in pods(scenario(name)).values())


def _rules(manifests: tuple[dict[str, Any], ...], kind: str) -> dict[str, list[tuple[list[str], list[str]]]]:
    return {
        each["metadata"].get("namespace", ""): [(rule["resources"], rule["verbs"]) for rule in each["rules"]]
        for each in of_kind(manifests, kind)
    }


def test_racks_of_members_take_two_rules() -> None:
    """The agent may list pods in the named namespaces, and get nodes."""
    manifests = scenario("api-racks")
    assert _rules(manifests, "ClusterRole") == {"": [(["nodes"], ["get"])]}
    assert _rules(manifests, "Role") == {"orders": [(["pods"], ["list"])], "payments": [(["pods"], ["list"])]}


def test_pods_with_their_own_label_take_no_cluster_role() -> None:
    """If pods carry the zone, a Role in the own namespace is enough; the agent does not get its node's name."""
    manifests = scenario("api-racks-labelled-pods")
    assert not of_kind(manifests, "ClusterRole")
    assert _rules(manifests, "Role") == {NAMESPACE: [(["pods"], ["get", "list"])]}
    (container,) = one(manifests, "Deployment", "leader")["spec"]["template"]["spec"]["containers"]
    assert "NODE_NAME" not in environment(container)


def test_the_own_rack_alone_takes_one_rule(tmp_path: Path) -> None:
    """The downward API names the node, so the agent only needs to get nodes."""
    manifests = with_values({"config": {"pod": {"sources": ["kubernetes"]}}}, tmp_path)
    assert _rules(manifests, "ClusterRole") == {"": [(["nodes"], ["get"])]}
    assert not of_kind(manifests, "Role")
    (container,) = one(manifests, "Deployment", "leader")["spec"]["template"]["spec"]["containers"]
    assert environment(container)["NODE_NAME"]["valueFrom"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}


def test_every_namespace_takes_a_cluster_role_for_pods() -> None:
    """With `*` a ClusterRole lists pods in all namespaces, and there is no Role."""
    manifests = scenario("all-on")
    assert _rules(manifests, "ClusterRole") == {"": [(["nodes"], ["get"]), (["pods"], ["list"])]}
    assert not of_kind(manifests, "Role")


@pytest.mark.parametrize("name", _ASKING)
def test_what_is_granted_is_bound_to_the_account(name: str) -> None:
    """Each role has a binding to the account of the pods, which mount its token."""
    manifests = scenario(name)
    for kind in ("Role", "ClusterRole"):
        roles = {(each["metadata"].get("namespace"), each["metadata"]["name"]) for each in of_kind(manifests, kind)}
        bindings = of_kind(manifests, f"{kind}Binding")
        assert {(each["metadata"].get("namespace"), each["roleRef"]["name"]) for each in bindings} == roles
        for binding in bindings:
            (subject,) = binding["subjects"]
            for owner in of_kind(manifests, "Deployment", "leader"):
                pod = owner["spec"]["template"]["spec"]
                assert subject["name"] == pod["serviceAccountName"]
                assert subject["namespace"] == owner["metadata"]["namespace"]
                assert pod["automountServiceAccountToken"] is True


def test_permissions_can_be_left_to_others(tmp_path: Path) -> None:
    """With rbac.create off nothing is granted; the token is still mounted."""
    manifests = with_values({"rbac": {"create": False}}, tmp_path, "api-racks")
    assert not [each for each in manifests if each["kind"] in _KINDS]
    assert one(manifests, "Deployment", "leader")["spec"]["template"]["spec"]["automountServiceAccountToken"] is True


def test_the_pipeline_has_no_token() -> None:
    """Only the agent's pods mount a token; Spark's pods have none."""
    for name, pod in pods(scenario("all-on")).items():
        assert pod["spec"]["automountServiceAccountToken"] is (name == "Deployment/same")
