"""Runs real Helm on the chart: renders its scenarios and returns the messages of refusals."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from typer.testing import CliRunner

from samerack.cli.main import app

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "helm" / "samerack"
CONSUMER: Final = ROOT / "helm" / "examples" / "consumer"
STREAMS: Final = ROOT / "helm" / "examples" / "streams"
SCENARIOS: Final = tuple(
    sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").glob("*-values.yaml"))
)
KUBERNETES: Final = ("1.29", "1.33", "1.35", "1.37")
"""The oldest version that Chart.yaml allows, one between, the first whose pods have zones, and the newest one."""
EACH_VERSION: Final = [
    pytest.param(version, marks=() if version in (KUBERNETES[0], KUBERNETES[-1]) else pytest.mark.extended)
    for version in KUBERNETES
]
"""For tests of each version, of which the gate has the oldest and the newest."""
NAMESPACE: Final = "streaming"

Manifest = dict[str, Any]


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Helm once."""
    return subprocess.run(["helm", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60)


def values_of(scenario: str) -> Path:
    """The values file of a scenario."""
    return CHART / "ci" / f"{scenario}-values.yaml"


def render(
    *options: str | Path,
    chart: Path = CHART,
    kubernetes: str = KUBERNETES[-1],
    release: str = "release",
    namespace: str = NAMESPACE,
) -> tuple[Manifest, ...]:
    """The manifests that a chart renders, without empty documents."""
    run = helm("template", release, chart, "--namespace", namespace, "--kube-version", kubernetes, *options)
    assert run.returncode == 0, run.stderr
    return tuple(each for each in yaml.load_all(run.stdout, yaml.CSafeLoader) if each)  # seven times as fast


@cache
def scenario(name: str, kubernetes: str = KUBERNETES[-1]) -> tuple[Manifest, ...]:
    """The manifests of a scenario; callers must not change them."""
    return render("--values", values_of(name), kubernetes=kubernetes)


def with_values(values: Manifest, folder: Path, base: str = "minimal") -> tuple[Manifest, ...]:
    """The manifests of a scenario with other values on top."""
    return render("--values", values_of(base), "--values", _file(values, folder))


def refusal(values: Manifest, folder: Path, base: str = "minimal") -> str:
    """The error message with which Helm refuses the values."""
    files = ("--values", values_of(base), "--values", _file(values, folder))
    run = helm("template", "release", CHART, "--kube-version", KUBERNETES[-1], *files)
    assert run.returncode != 0, f"Helm takes {values}"
    return run.stderr


def _file(values: Manifest, folder: Path) -> Path:
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def consumer_copy(folder: Path, example: Path = CONSUMER) -> Path:
    """A copy of an example chart in a folder, with this chart as its dependency."""
    shutil.copytree(ROOT / "helm", folder / "helm")  # links become files
    chart = folder / "helm" / example.relative_to(ROOT / "helm")
    run = helm("dependency", "update", chart)
    assert run.returncode == 0, run.stderr
    return chart


def of_kind(manifests: tuple[Manifest, ...], kind: str, component: str = "") -> list[Manifest]:
    """The manifests of a kind and, if given, of a component."""
    label = "app.kubernetes.io/component"
    return [
        each
        for each in manifests
        if each["kind"] == kind and (not component or each["metadata"].get("labels", {}).get(label) == component)
    ]


def one(manifests: tuple[Manifest, ...], kind: str, component: str = "") -> Manifest:
    """The only manifest of a kind."""
    (found,) = of_kind(manifests, kind, component)
    return found


def pods(manifests: tuple[Manifest, ...]) -> dict[str, Manifest]:
    """All pods and pod templates, by the kind and name of the pod or its owner."""
    found = {}
    for each in manifests:
        spec = each.get("spec", {})
        template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
        if each["kind"] == "Pod":
            template = {"metadata": each["metadata"], "spec": spec}
        if template is not None:
            found[f"{each['kind']}/{each['metadata']['name']}"] = template
    return found


def containers(pod: Manifest) -> list[Manifest]:
    """All containers of a pod, init containers and native sidecars first."""
    return [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]


def settings_file(manifests: tuple[Manifest, ...]) -> str:
    """The text of the agent's settings file: from the chart's ConfigMap, or else from the one that its pods mount."""
    made = of_kind(manifests, "ConfigMap", "config")
    if made:
        found, key = made[0], "samerack.yaml"
    else:
        volumes = (volume for pod in pods(manifests).values() for volume in pod["spec"].get("volumes", ()))
        source = next(volume["configMap"] for volume in volumes if volume["name"] == "samerack-config")
        named = (each for each in of_kind(manifests, "ConfigMap") if each["metadata"]["name"] == source["name"])
        found, key = next(named), source["items"][0]["key"]
    text: str = found["data"][key]
    return text


def settings_of(manifests: tuple[Manifest, ...]) -> Manifest:
    """The agent's settings as the file has them."""
    settings: Manifest = yaml.safe_load(settings_file(manifests))
    return settings


def mounts_agree(pod: Manifest, claims: Collection[str] = ()) -> bool:
    """Whether every mount names a volume or claim of its pod, and every one of them is mounted."""
    mounted = {mount["name"] for container in containers(pod) for mount in container.get("volumeMounts", ())}
    return mounted == {volume["name"] for volume in pod["spec"].get("volumes", ())} | set(claims)


def unknown_words(*words: str) -> list[str]:
    """The options that the real command line does not know of its command; all words if there is no such command."""
    command = [word for word in words[:2] if not word.startswith("-")]
    answer = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "300", "TERM": "dumb"})
    if answer.exit_code:
        return [*words]
    return [word for word in words if word.startswith("--") and word.partition("=")[0] not in answer.stdout]


def environment(container: Manifest) -> dict[str, Manifest]:
    """The environment variables of a container by name."""
    return {entry["name"]: entry for entry in container.get("env", ())}
