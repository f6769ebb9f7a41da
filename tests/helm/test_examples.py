"""Tests that hold for each example chart that uses this one, with real Helm."""

from __future__ import annotations

from pathlib import Path

import kubernetes_validate
import pytest

from tests.helm.chart import (
    CONSUMER,
    EACH_VERSION,
    KUBERNETES,
    STREAMS,
    consumer_copy,
    helm,
    mounts_agree,
    pods,
    render,
    unknown_words,
)
from tests.helm.pod_security import forbidden

pytestmark = pytest.mark.helm


@pytest.fixture(scope="module", params=[CONSUMER, STREAMS], ids=lambda example: example.name)
def chart(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An example with its dependency, in a folder of its own."""
    example: Path = request.param
    return consumer_copy(tmp_path_factory.mktemp(example.name), example)


def test_the_example_passes_strict_lint(chart: Path) -> None:
    """Helm finds neither an error nor a warning in a chart that uses the templates."""
    run = helm("lint", "--strict", chart, "--kube-version", KUBERNETES[-1])
    assert run.returncode == 0, run.stdout


def test_the_pod_is_whole_and_allowed(chart: Path) -> None:
    """It runs under the standard `restricted`, mounts have volumes or claims, and commands are the real program's."""
    manifests = render(chart=chart)
    assert forbidden(pods(manifests)) == {}
    claims = [
        each["metadata"]["name"] for one in manifests for each in one.get("spec", {}).get("volumeClaimTemplates", ())
    ]
    (pod,) = pods(manifests).values()
    assert mounts_agree(pod, claims)
    rack, sidecar = pod["spec"]["initContainers"]
    for words in (rack["args"], sidecar["args"]):
        assert unknown_words(*words) == []


@pytest.mark.parametrize("kubernetes", EACH_VERSION)
def test_the_example_holds_against_kubernetes(chart: Path, kubernetes: str) -> None:
    """All that it renders, native sidecar and volumes among it, matches Kubernetes' schemas."""
    for manifest in render(chart=chart, kubernetes=kubernetes):
        kubernetes_validate.validate(manifest, kubernetes, strict=True)
