"""Tests of the chart's permissions in the Kubernetes API: none by default, otherwise only those that settings need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helm.chart import (
    NAMESPACE,
    SCENARIOS,
    Manifest,
    environment,
    of_kind,
    one,
    pods,
    scenario,
    values_of,
    with_values,
)

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


_GET_NODES, _LIST_PODS = (["nodes"], ["get"]), (["pods"], ["list"])


@pytest.mark.parametrize(
    ("name", "cluster_role", "roles", "knows_node"),
    [
        ("api-racks", {"": [_GET_NODES]}, {"orders": [_LIST_PODS], "payments": [_LIST_PODS]}, True),
        ("api-racks-labelled-pods", {}, {NAMESPACE: [(["pods"], ["get", "list"])]}, False),
        ("all-on", {"": [_GET_NODES, _LIST_PODS]}, {}, True),
        ("own rack", {"": [_GET_NODES]}, {}, True),
    ],
)
def test_what_is_asked_takes_these_rules(
    tmp_path: Path, name: str, cluster_role: Manifest, roles: Manifest, *, knows_node: bool
) -> None:
    """Members' racks take pods of their namespaces and nodes; labelled pods no ClusterRole; `*` all namespaces.

    The own rack alone takes nodes, of which the downward API names the pod's.
    """
    own = {"config": {"pod": {"sources": ["kubernetes"]}}}
    manifests = with_values(own, tmp_path) if name == "own rack" else scenario(name)
    assert _rules(manifests, "ClusterRole") == cluster_role
    assert _rules(manifests, "Role") == roles
    (container,) = one(manifests, "Deployment", "leader")["spec"]["template"]["spec"]["containers"]
    node = environment(container).get("NODE_NAME", {}).get("valueFrom")
    assert node == ({"fieldRef": {"fieldPath": "spec.nodeName"}} if knows_node else None)


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
