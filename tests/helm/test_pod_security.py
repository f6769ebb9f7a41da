"""Tests that every pod of the chart may run where the Pod Security Standard `restricted` is enforced.

Kubernetes' own checks decide, for each version that the chart supports.
"""

from __future__ import annotations

import copy

import pytest

from tests.helm.chart import KUBERNETES, SCENARIOS, containers, of_kind, pods, scenario
from tests.helm.pod_security import forbidden

pytestmark = pytest.mark.helm


def test_every_pod_of_every_scenario_is_allowed() -> None:
    """No pod of the agent, of jobs or of `helm test` is forbidden."""
    found = {f"{name}: {owner}": pod for name in SCENARIOS for owner, pod in pods(scenario(name)).items()}
    kinds = {owner.partition(": ")[2].partition("/")[0] for owner in found}
    assert kinds == {"Deployment", "CronJob", "Pod"}
    assert forbidden(found) == {}


@pytest.mark.parametrize("kind", ["Deployment", "CronJob", "Pod"])
def test_a_weakened_container_is_found(kind: str) -> None:
    """The checks find it in each kind of pod at each version; checks that allow everything would prove nothing."""
    name, pod = next((owner, copy.deepcopy(pod)) for owner, pod in pods(scenario("all-on")).items() if kind in owner)
    containers(pod)[-1]["securityContext"]["allowPrivilegeEscalation"] = True
    reasons = forbidden({name: pod})[name]
    assert len(reasons) == len(KUBERNETES)
    assert all("allowPrivilegeEscalation != false" in each for each in reasons)


def test_on_openshift_no_pod_names_user_or_groups() -> None:
    """The SCC restricted-v2 refuses ids outside the namespace's range; null takes the chart's own away everywhere."""
    found = pods(scenario("openshift"))
    assert {owner.partition("/")[0] for owner in found} == {"Deployment", "CronJob", "Pod"}
    for pod in found.values():
        for context in (pod["spec"]["securityContext"], *(each["securityContext"] for each in containers(pod))):
            assert context["runAsNonRoot"] is True
            assert not {"runAsUser", "runAsGroup", "fsGroup"} & context.keys()


def test_no_pod_has_variables_of_services() -> None:
    """Otherwise Kubernetes would add the variables of a Service called samerack to the agent's settings."""
    for name in SCENARIOS:
        for pod in pods(scenario(name)).values():
            assert pod["spec"]["enableServiceLinks"] is False
    assert of_kind(scenario("minimal"), "Service")
