"""The pages on racks and on the image are true: commands, the init container, manifests and rules are checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from typer.testing import CliRunner

from samerack.agent.pod.sources import LABEL_VARIABLE, RACK_VARIABLE
from samerack.cli.main import app
from samerack.settings.leading import PodSettings
from samerack.settings.loading import load
from tests.docs import ROOT, Command, blocks
from tests.unit.agent.pod.api_server import ApiServer


def examples(page: str = "racks.md") -> list[Any]:
    """The YAML blocks of a page."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return [yaml.safe_load(block.partition("```")[0]) for block in text.split("```yaml\n")[1:]]


@pytest.mark.parametrize("command", [c for c in blocks() if c.words[:2] == ("samerack", "rack")], ids=str)
def test_a_command_of_the_page_works(command: Command) -> None:
    """The command prints the rack if there is one."""
    done = CliRunner().invoke(app, list(command.words[1:]), env={"CLIENT_RACK": "rack-a"})
    assert done.exit_code == 0
    assert "rack-a" in done.stdout


def test_the_init_container_of_the_page_runs(tmp_path: Path) -> None:
    """The init container runs with its arguments and variables, with a zone set as the downward API does."""
    (container,) = next(one["initContainers"] for one in examples() if "initContainers" in one)
    mounted = container["volumeMounts"][0]["mountPath"]
    arguments = [word.replace(mounted, str(tmp_path)) for word in container["args"]]
    environment = {entry["name"]: "zone-1" for entry in container["env"]}
    assert CliRunner().invoke(app, arguments, env=environment).exit_code == 0
    assert (tmp_path / "env").read_text() == "CLIENT_RACK=zone-1\n"
    assert (tmp_path / "client.properties").read_text() == "client.rack=zone-1\n"


def test_the_variables_of_the_page_are_those_of_the_settings() -> None:
    """The label and the variables of its examples are the defaults."""
    fields = [
        (entry["name"], entry["valueFrom"]["fieldRef"]["fieldPath"])
        for one in examples()
        for entry in one.get("env", ()) or one.get("initContainers", [{}])[0].get("env", ())
    ]
    settings = PodSettings()
    path = f"metadata.labels['{settings.label}']"
    assert fields == [(RACK_VARIABLE, path), (LABEL_VARIABLE, path)]


def test_the_rules_of_the_page_are_enough(api: ApiServer) -> None:
    """The rules are what the API server of these tests allows, except reading a pod by its name."""
    granted = {
        (verb, resource, "" if one["kind"] == "ClusterRole" else "shop")
        for one in examples()
        if "rules" in one
        for rule in one["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert granted == api.rules - {("get", "pods", "shop")}


def manifests() -> list[Any]:
    """The examples as whole objects: containers and variables in a pod."""
    whole = []
    scaling = (one for one in examples("load.md") if one.get("kind") == "HorizontalPodAutoscaler")
    for one in (*examples(), *examples("image.md"), *scaling):
        if "kind" in one:
            whole.append(one)
        elif "pod" not in one:  # settings of the agent
            containers = one.get("containers") or [{"name": "app", "image": "app", "env": one.get("env", [])}]
            spec = {
                "containers": containers,
                "initContainers": one.get("initContainers", []),
                "volumes": [{"name": "rack", "emptyDir": {}}],
            }
            whole.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "app"}, "spec": spec})
    return whole


@pytest.mark.parametrize("manifest", manifests(), ids=lambda one: str(one["kind"]))
def test_manifests_of_the_pages_are_valid(manifest: Any) -> None:
    """The manifests are validated strictly with Kubernetes' own schemas."""
    kubernetes_validate.validate(manifest, "1.34", strict=True)


def test_keda_accepts_the_page_on_loads() -> None:
    """The ScaledObject has the fields of KEDA's own schema, and refuses a missing series; both scale by the same."""
    (keda,) = (one for one in examples("load.md") if one.get("kind") == "ScaledObject")
    schema = json.loads((ROOT / "tests" / "data" / "keda" / "scaledobject.json").read_text(encoding="utf-8"))
    jsonschema.validate(keda["spec"], schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(keda["spec"] | {"maxReplicas": 20}, schema)
    (trigger,) = keda["spec"]["triggers"]
    assert trigger["metadata"]["ignoreNullValues"] == "false"
    (scaler,) = (one for one in examples("load.md") if one.get("kind") == "HorizontalPodAutoscaler")
    metric = scaler["spec"]["metrics"][0]["external"]["metric"]
    labels = ", ".join(f'{name}="{value}"' for name, value in metric["selector"]["matchLabels"].items())
    assert trigger["metadata"]["query"] == f"max({metric['name']}{{{labels}}})"
    (rule,) = next(one["externalRules"] for one in examples("load.md") if "externalRules" in one)
    assert rule["seriesQuery"] == metric["name"]


def test_the_agents_variables_of_the_page_are_settings() -> None:
    """The settings load with the variables of the container on the image's page."""
    (one,) = examples("image.md")
    environment = {entry["name"]: entry["value"] for entry in one["containers"][0]["env"]}
    settings = load(environment=environment)
    assert (settings.groups, settings.web.host) == (("orders", "payments"), "0.0.0.0")  # noqa: S104 - as the page has it
