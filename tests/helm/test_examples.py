"""Tests that hold for each example chart that uses this one, with real Helm."""

from __future__ import annotations

from pathlib import Path

import kubernetes_validate
import pytest

from tests.helm.chart import CONSUMER, EACH_VERSION, KUBERNETES, STREAMS, consumer_copy, helm, render

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


@pytest.mark.parametrize("kubernetes", EACH_VERSION)
def test_the_example_holds_against_kubernetes(chart: Path, kubernetes: str) -> None:
    """All that it renders, native sidecar and volumes among it, matches Kubernetes' schemas."""
    for manifest in render(chart=chart, kubernetes=kubernetes):
        kubernetes_validate.validate(manifest, kubernetes, strict=True)
