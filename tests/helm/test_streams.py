"""Tests of the example that runs the agent beside a Kafka Streams application, with real Helm."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from typer.testing import CliRunner

from samerack.cli.main import app
from samerack.settings.loading import load
from tests.helm.chart import (
    STREAMS,
    Manifest,
    consumer_copy,
    containers,
    of_kind,
    one,
    render,
    settings_file,
)

pytestmark = pytest.mark.helm

_FOLDERS: Final = {"/etc/shipments": "etc", "/run/samerack": "rack", "/run/shipments": "run"}


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with its dependency, in a folder of its own."""
    return consumer_copy(tmp_path_factory.mktemp("streams"), STREAMS)


@pytest.fixture(scope="module")
def manifests(chart: Path) -> tuple[Manifest, ...]:
    """What the example renders."""
    return render(chart=chart)


@pytest.fixture(scope="module")
def pod(manifests: tuple[Manifest, ...]) -> dict[str, Any]:
    """The pod that the example renders."""
    template: dict[str, Any] = one(manifests, "StatefulSet")["spec"]["template"]
    return template


def test_the_agent_runs_beside_the_application(pod: dict[str, Any]) -> None:
    """The rack is found first; the sidecar then runs as long as the application, which does not wait for it."""
    assert [container["name"] for container in containers(pod)] == ["samerack-rack", "samerack", "shipments"]
    _, sidecar = pod["spec"]["initContainers"]
    assert (sidecar["args"], sidecar["restartPolicy"]) == (["run", "--keep-trying"], "Always")


def test_the_agent_measures_the_application_and_does_not_lead_it(manifests: tuple[Manifest, ...]) -> None:
    """A Streams application among `groups` would be a mistake: the agent cannot lead it."""
    settings = load(flags=yaml.safe_load(settings_file(manifests)), environment={})
    assert settings.groups == ()
    assert settings.traffic.groups == ("shipments",)
    assert settings.web.host == "127.0.0.1"


def test_the_application_gets_its_configuration_with_its_rack(
    manifests: tuple[Manifest, ...], pod: dict[str, Any], tmp_path: Path
) -> None:
    """The container's real command makes one file of the chart's properties and of what the init container writes."""
    (application,) = pod["spec"]["containers"]
    for folder in _FOLDERS.values():
        (tmp_path / folder).mkdir()
    given = next(each for each in of_kind(manifests, "ConfigMap") if "application.properties" in each["data"])
    (tmp_path / "etc" / "application.properties").write_text(given["data"]["application.properties"], encoding="utf-8")
    arguments = [_here(argument, tmp_path) for argument in pod["spec"]["initContainers"][0]["args"]]
    found = CliRunner().invoke(app, arguments, env={"CLIENT_RACK": "rack-b"})
    assert found.exit_code == 0, found.output
    shell, flag, script = application["command"]
    script = _here(script, tmp_path).replace("exec shipments", "exec cat")
    run = subprocess.run([shell, flag, script], capture_output=True, text=True, check=True, timeout=20)
    properties = dict(line.split("=", 1) for line in run.stdout.splitlines() if line and not line.startswith("#"))
    assert properties.pop("client.rack") == "rack-b"
    assert properties.pop("client.tag.zone") == "rack-b"
    assert properties == yaml.safe_load((STREAMS / "values.yaml").read_text(encoding="utf-8"))["properties"]


def _here(text: str, folder: Path) -> str:
    for place, name in _FOLDERS.items():
        text = text.replace(place, str(folder / name))
    return text
