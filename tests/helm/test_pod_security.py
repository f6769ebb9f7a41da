"""Tests that every pod of the chart may run where the Pod Security Standard `restricted` is enforced.

Kubernetes' own checks decide, for each version that the chart supports.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.helm.chart import KUBERNETES, SCENARIOS, consumer_copy, containers, of_kind, pods, render, scenario
from tests.helm.pod_security import forbidden

pytestmark = pytest.mark.helm


def test_every_pod_of_every_scenario_is_allowed() -> None:
    """No pod of the agent, of jobs or of `helm test` is forbidden."""
    found = {f"{name}: {owner}": pod for name in SCENARIOS for owner, pod in pods(scenario(name)).items()}
    kinds = {owner.partition(": ")[2].partition("/")[0] for owner in found}
    assert kinds == {"Deployment", "CronJob", "Pod"}
    assert forbidden(found) == {}


def test_the_pod_of_the_example_is_allowed(tmp_path: Path) -> None:
    """The pod with the application's container, the init container and the sidecar is allowed."""
    found = pods(render(chart=consumer_copy(tmp_path)))
    (pod,) = found.values()
    assert {container["name"] for container in containers(pod)} == {"samerack-rack", "samerack", "consumer"}
    assert forbidden(found) == {}


WEAKENED: dict[str, tuple[str, Any, str]] = {
    "privilege": ("allowPrivilegeEscalation", True, "allowPrivilegeEscalation != false"),
    "capabilities": ("capabilities", {"drop": []}, "unrestricted capabilities"),
    "user": ("runAsUser", 0, "runAsUser=0"),
    "seccomp": ("seccompProfile", {"type": "Unconfined"}, "seccompProfile"),
}


@pytest.mark.parametrize("weakness", WEAKENED)
@pytest.mark.parametrize("kind", ["Deployment", "CronJob", "Pod"])
def test_a_weakened_container_is_found(kind: str, weakness: str) -> None:
    """The checks find it in each kind of pod at each version; checks that allow everything would prove nothing."""
    key, value, reason = WEAKENED[weakness]
    name, pod = next(
        (owner, copy.deepcopy(pod)) for owner, pod in pods(scenario("all-on")).items() if owner.startswith(kind)
    )
    containers(pod)[-1]["securityContext"][key] = value
    reasons = forbidden({name: pod})[name]
    assert len(reasons) == len(KUBERNETES)
    assert all(reason in each for each in reasons)


def test_an_init_container_counts(tmp_path: Path) -> None:
    """The sidecar is one of the init containers, and the same rules apply to it."""
    ((name, pod),) = pods(render(chart=consumer_copy(tmp_path))).items()
    del pod["spec"]["initContainers"][1]["securityContext"]["allowPrivilegeEscalation"]
    (reason, *_) = forbidden({name: pod})[name]
    assert '"samerack"' in reason


def test_no_pod_has_variables_of_services() -> None:
    """Otherwise Kubernetes would add the variables of a Service called samerack to the agent's settings."""
    for name in SCENARIOS:
        for pod in pods(scenario(name)).values():
            assert pod["spec"]["enableServiceLinks"] is False
    assert of_kind(scenario("minimal"), "Service")
