"""Tests of the example that adds the sidecar to an application's own chart, with real Helm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from samerack.settings.loading import load
from tests.helm.chart import KUBERNETES, consumer_copy, environment, helm, one, render

pytestmark = pytest.mark.helm


@pytest.fixture(scope="module")
def consumer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with its dependency, in a folder of its own."""
    return consumer_copy(tmp_path_factory.mktemp("consumer"))


@pytest.fixture(scope="module")
def pod(consumer: Path) -> dict[str, Any]:
    """The pod that the example renders."""
    template: dict[str, Any] = one(render(chart=consumer), "Deployment")["spec"]["template"]
    return template


def test_the_rack_is_found_first_then_the_agent_runs(pod: dict[str, Any]) -> None:
    """The init container ends, the sidecar runs beside the application, which does not wait for it.

    A container that ends, or fails a probe, makes the whole pod not ready.
    """
    rack, sidecar = pod["spec"]["initContainers"]
    assert (rack["args"][0], rack.get("restartPolicy")) == ("rack", None)
    assert (sidecar["args"], sidecar["restartPolicy"]) == (["run", "--keep-trying"], "Always")
    assert not [key for key in sidecar if key.endswith("Probe")]


def test_the_application_reads_what_the_init_container_writes(pod: dict[str, Any]) -> None:
    """Both mount one volume in memory, the application read-only; the file that it reads is one that is written."""
    rack, _ = pod["spec"]["initContainers"]
    (application,) = pod["spec"]["containers"]
    (written,) = (mount["mountPath"] for mount in rack["volumeMounts"] if mount["name"] == "samerack-rack")
    assert application["volumeMounts"] == [{"name": "samerack-rack", "mountPath": written, "readOnly": True}]
    files = [argument.partition("=")[2] for argument in rack["args"] if argument.startswith("--") and "=" in argument]
    assert all(file.startswith(f"{written}/") for file in files)
    assert any(file in application["command"][-1] for file in files)


def test_the_settings_are_those_of_the_release(consumer: Path, pod: dict[str, Any]) -> None:
    """The pod mounts the dependency's ConfigMap, whose file is valid and keeps the port on loopback."""
    settings = one(render(chart=consumer), "ConfigMap")
    (volume,) = (each for each in pod["spec"]["volumes"] if each["name"] == "samerack-config")
    assert volume["configMap"]["name"] == settings["metadata"]["name"]
    _, sidecar = pod["spec"]["initContainers"]
    (folder,) = (mount["mountPath"] for mount in sidecar["volumeMounts"] if mount["name"] == "samerack-config")
    assert environment(sidecar)["SAMERACK_CONFIG"]["value"] == f"{folder}/samerack.yaml"
    loaded = load(flags=yaml.safe_load(settings["data"]["samerack.yaml"]), environment={})
    variables = {name: str(one["value"]) for name, one in environment(sidecar).items() if name.startswith("SAMERACK_W")}
    assert variables == {"SAMERACK_WEB__HOST": "127.0.0.1", "SAMERACK_WEB__PORT": "9464"}, "whatever the file becomes"
    assert loaded.web.host == "127.0.0.1"
    assert loaded.groups == ("orders",)


def test_a_sidecar_that_is_scraped_answers_from_outside(consumer: Path) -> None:
    """With another web.host the annotations name the port."""
    options = ("--set", "samerack.config.web.host=0.0.0.0", "--set", "samerack.monitoring.annotations=true")
    template = one(render(*options, chart=consumer), "Deployment")["spec"]["template"]
    _, sidecar = template["spec"]["initContainers"]
    assert template["metadata"]["annotations"]["prometheus.io/port"] == str(sidecar["ports"][0]["containerPort"])


def test_a_rack_can_be_required(consumer: Path) -> None:
    """With `rackRequired` the init container fails if no source knows the rack, so the application does not start."""
    template = one(render("--set", "samerack.sidecar.rackRequired=true", chart=consumer), "Deployment")
    rack, _ = template["spec"]["template"]["spec"]["initContainers"]
    assert "--or-empty" not in rack["args"]


def test_wrong_values_of_the_dependency_are_refused(consumer: Path) -> None:
    """The schema also applies when the chart is a dependency, and Helm's own keys pass."""
    passed = ("--set", "global.anything=1", "--set", "samerack.enabled=true")
    run = helm(
        "template", "release", consumer, "--kube-version", KUBERNETES[-1], *passed, "--set", "samerack.replica=1"
    )
    assert run.returncode != 0
    assert "additional properties 'replica' not allowed" in run.stderr
    assert render(*passed, chart=consumer)
