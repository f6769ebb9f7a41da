"""Tests that docs/kubernetes.md is correct: its values render, its commands run, its template is the example's.

The values of docs/clouds.md render as well.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pytest
import yaml

from samerack.settings.loading import load
from tests.helm.chart import CHART, CONSUMER, KUBERNETES, ROOT, STREAMS, consumer_copy, helm, one, render

pytestmark = pytest.mark.helm

PAGE: Final = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
CLOUDS: Final = (ROOT / "docs" / "clouds.md").read_text(encoding="utf-8")
_YAML: Final = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE + CLOUDS, re.DOTALL)]
PLAIN: Final = list(yaml.safe_load_all((ROOT / "helm" / "examples" / "plain.yaml").read_text(encoding="utf-8")))
EXAMPLES: Final = (CONSUMER, STREAMS)
"""In the order of the page."""
VALUES: Final = [block for block in _YAML if "image" in block]
COMMANDS: Final = [
    line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines() if "helm " in line
]


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], ...]:
    """The manifests of the example chart."""
    return render(chart=consumer_copy(tmp_path_factory.mktemp("consumer")))


@pytest.mark.parametrize("values", VALUES, ids=[" ".join(values) for values in VALUES])
def test_values_render(values: dict[str, Any], tmp_path: Path) -> None:
    """Each values example on the pages renders valid Kubernetes manifests with settings that the agent accepts."""
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    manifests = render("--values", path)
    for manifest in manifests:
        if not manifest["apiVersion"].startswith("monitoring.coreos.com"):
            kubernetes_validate.validate(manifest, KUBERNETES[-1], strict=True)
    load(flags=yaml.safe_load(one(manifests, "ConfigMap", "config")["data"]["samerack.yaml"]), environment={})


@pytest.mark.parametrize("command", COMMANDS)
def test_a_helm_command_runs(command: str, tmp_path: Path) -> None:
    """Helm accepts the command with every option; without a cluster it renders instead of installing."""
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(VALUES[0]), encoding="utf-8")
    words = shlex.split(command.replace("values.yaml", str(path)).replace("./helm/samerack", str(CHART)))
    if words[1] == "test":
        run = helm("test", "--help")
        assert words[2] == "samerack"
        assert all(word in run.stdout for word in words[3:] if word.startswith("--"))
        return
    assert words[:2] == ["helm", "install"]
    run = helm("template", *words[2:], "--kube-version", KUBERNETES[-1])
    assert run.returncode == 0, run.stderr


def test_names_of_the_release_are_those_of_the_commands(tmp_path: Path) -> None:
    """Deployment and Service have the names that the page's kubectl commands use."""
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(VALUES[0]), encoding="utf-8")
    run = helm("template", "samerack", CHART, "--values", path, "--kube-version", KUBERNETES[-1])
    names = {f"{each['kind'].lower()}/{each['metadata']['name']}" for each in yaml.safe_load_all(run.stdout)}
    assert {"deployment/samerack", "service/samerack"} <= names


def test_the_dependency_is_that_of_the_example() -> None:
    """Chart.yaml and values.yaml on the page are parts of the examples' files; both have the same dependency."""
    (dependencies,) = (block for block in _YAML if "dependencies" in block)
    values = [block for block in _YAML if "samerack" in block]
    assert len(values) == len(EXAMPLES)
    for example, shown in zip(EXAMPLES, values, strict=True):
        assert dependencies.items() <= yaml.safe_load((example / "Chart.yaml").read_text(encoding="utf-8")).items()
        assert shown.items() <= yaml.safe_load((example / "values.yaml").read_text(encoding="utf-8")).items()


def test_the_template_is_that_of_the_example() -> None:
    """The example's template contains every line of the page's template."""
    (shown,) = re.findall(r"```gotemplate\n(.*?)```", PAGE, re.DOTALL)
    _holds(shown, (CONSUMER / "templates" / "deployment.yaml").read_text(encoding="utf-8"))


def _holds(shown: str, template: str) -> None:
    written = {line.strip() for line in template.splitlines()}
    assert not [line for line in shown.splitlines() if line.strip() not in written]


def test_plain_yaml_is_what_the_example_renders(rendered: tuple[dict[str, Any], ...]) -> None:
    """The pod of helm/examples/plain.yaml equals the chart's except for names, and mounts the ConfigMap there."""
    settings, plain = PLAIN
    pod = one(rendered, "Deployment")["spec"]["template"]["spec"]
    for volume in pod["volumes"]:
        if "configMap" in volume:
            volume["configMap"]["name"] = settings["metadata"]["name"]
    assert plain["spec"] == pod
    loaded = load(flags=yaml.safe_load(settings["data"]["samerack.yaml"]), environment={})
    example = yaml.safe_load(one(rendered, "ConfigMap")["data"]["samerack.yaml"])
    assert loaded == load(flags=example, environment={})
