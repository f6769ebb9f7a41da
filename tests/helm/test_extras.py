"""Tests of what users add: variables, a settings file, objects, hooks, names, accounts; and of `helm test`."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from samerack.common.fetching import address
from samerack.settings.flags import settings_from
from samerack.settings.loading import load
from tests.helm.chart import (
    CHART,
    SCENARIOS,
    Manifest,
    containers,
    environment,
    of_kind,
    one,
    pods,
    refusal,
    scenario,
    settings_file,
    with_values,
)

pytestmark = pytest.mark.helm


def _pod(manifests: tuple[Manifest, ...], component: str = "leader") -> dict[str, Any]:
    spec: dict[str, Any] = one(manifests, "Deployment", component)["spec"]["template"]["spec"]
    return spec


def test_a_file_of_the_reader_s_own_is_mounted(tmp_path: Path) -> None:
    """The agent reads the mounted file, overridden by the chart's variables; the chart makes no other ConfigMap."""
    manifests = scenario("existing-config-map")
    (container,) = _pod(manifests)["containers"]
    variables = {name: entry["value"] for name, entry in environment(container).items() if "value" in entry}
    volume = next(each for each in _pod(manifests)["volumes"] if each["name"] == "samerack-config")
    mount = next(each for each in container["volumeMounts"] if each["name"] == "samerack-config")
    (item,) = volume["configMap"]["items"]
    assert variables.pop("SAMERACK_CONFIG") == f"{mount['mountPath']}/{item['path']}"
    assert {each["metadata"]["name"] for each in of_kind(manifests, "ConfigMap")} == {"orders-racks", "release-note"}

    path = tmp_path / "agent.yaml"
    path.write_text(settings_file(manifests), encoding="utf-8")
    settings = load(path=path, environment=variables)
    assert (settings.groups, settings.policy.burst) == (("orders",), 2)
    assert settings.kafka["sasl.mechanism"] == "PLAIN"
    assert settings.web.port == container["ports"][0]["containerPort"]
    assert settings.web.host == "0.0.0.0"  # noqa: S104 - the kubelet comes from outside the pod
    assert settings.pod.sources == ("label",)
    assert settings.events.path.startswith("/var/lib/samerack-state/")


def test_certificates_reach_a_file_of_the_reader_s_own(tmp_path: Path) -> None:
    """Their paths come as variables; the file sets the protocol, because the chart does not see its mechanism."""
    values = {"kafka": {"tls": {"secret": "ca"}}}
    (container,) = _pod(with_values(values, tmp_path, "existing-config-map"))["containers"]
    given = yaml.safe_load(environment(container)["SAMERACK_KAFKA"]["value"])
    assert given == {"ssl.ca.location": "/etc/samerack-tls/ca.crt"}


@pytest.mark.parametrize("name", ["all-on", "api-racks", "pipeline-volume"])
def test_every_object_and_pod_has_the_common_annotations(name: str, tmp_path: Path) -> None:
    """Roles and their bindings have them too."""
    manifests = with_values({"commonAnnotations": {"owner": "streaming"}}, tmp_path, name)
    for each in (*manifests, *pods(manifests).values()):
        assert each["metadata"]["annotations"]["owner"] == "streaming"


def test_servers_may_come_from_elsewhere(tmp_path: Path) -> None:
    """The settings may lack servers if they come from a variable, a whole Secret, or a file hidden from the chart."""
    variable = {"name": "SAMERACK_KAFKA__BOOTSTRAP_SERVERS", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}
    sources: list[Manifest] = [
        {"extraEnv": [variable]},
        {"envFrom": [{"secretRef": {"name": "kafka"}}]},
        {"existingConfigMap": {"name": "mine"}},
    ]
    for source in sources:
        assert of_kind(with_values({"config": {"kafka": None}, **source}, tmp_path), "Deployment")


def test_whole_secrets_become_variables() -> None:
    """The agent's container gets `envFrom`, and the pipeline's containers get the pipeline's own `envFrom` too."""
    assert _pod(scenario("existing-config-map"))["containers"][0]["envFrom"] == [
        {"secretRef": {"name": "samerack-password"}}
    ]
    assert _pod(scenario("pipeline-object-store"), "stream")["containers"][0]["envFrom"] == [
        {"configMapRef": {"name": "bucket", "optional": True}, "prefix": "BUCKET_"}
    ]
    for owner, pod in pods(scenario("all-on")).items():
        for container in containers(pod):
            sources = container.get("envFrom", [])
            assert sources == ([] if owner.startswith("Pod/") else [{"configMapRef": {"name": "more"}}])


def test_objects_of_the_reader_s_are_rendered() -> None:
    """Extra objects may be maps or texts, and may contain templates."""
    maps = {each["metadata"]["name"]: each for each in of_kind(scenario("existing-config-map"), "ConfigMap")}
    assert maps["orders-racks"]["metadata"]["labels"] == {"release": "release"}
    assert maps["release-note"]["data"] == {"note": "written as a text"}


def test_pods_have_what_the_values_say() -> None:
    """Pods get host aliases, DNS settings and hooks; the pipeline's pods get all except the hooks."""
    manifests = scenario("all-on")
    for pod in pods(manifests).values():
        assert pod["spec"]["hostAliases"] == [{"ip": "10.0.0.1", "hostnames": ["kafka"]}]
        assert pod["spec"]["dnsPolicy"] == "None"
        assert pod["spec"]["dnsConfig"]["nameservers"] == ["10.0.0.2"]
    assert "preStop" in _pod(manifests)["containers"][0]["lifecycle"]
    assert not {"hostAliases", "dnsPolicy", "dnsConfig"} & _pod(scenario("minimal")).keys()
    assert "lifecycle" not in _pod(scenario("minimal"))["containers"][0]


@pytest.mark.parametrize("name", SCENARIOS)
def test_agent_and_pipeline_have_accounts_of_their_own(name: str) -> None:
    """Each pod runs as an account that the release makes or the values name; agent and pipeline share none."""
    manifests = scenario(name)
    made = {each["metadata"]["name"] for each in of_kind(manifests, "ServiceAccount")}
    used: dict[str, set[str]] = {"samerack": set(), "pipeline": set()}
    for pod in (each for owner, each in pods(manifests).items() if not owner.startswith("Pod/")):
        used[pod["spec"]["containers"][0]["name"]].add(pod["spec"]["serviceAccountName"])
    named = {"fleet"} if name == "pipeline-shared-account" else set()
    assert used["samerack"] | used["pipeline"] == made | named
    assert not used["samerack"] & used["pipeline"]


def test_each_account_has_its_own_annotations() -> None:
    """Agent and pipeline have different cloud roles, so neither has the other's permissions."""
    accounts = of_kind(scenario("pipeline-object-store"), "ServiceAccount")
    roles = {
        each["metadata"]["name"]: each["metadata"]["annotations"]["eks.amazonaws.com/role-arn"] for each in accounts
    }
    assert roles == {
        "release-samerack": "arn:aws:iam::111122223333:role/samerack",
        "release-samerack-pipeline": "arn:aws:iam::111122223333:role/samerack-tables",
    }
    assert all(each["automountServiceAccountToken"] is False for each in accounts)


def test_helm_test_asks_the_agent_by_its_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook pod asks the Service's name and port for /readyz, with the agent's image."""
    monkeypatch.delenv("SAMERACK_CONFIG", raising=False)
    for name in ("minimal", "all-on"):
        manifests = scenario(name)
        pod, service = one(manifests, "Pod"), one(manifests, "Service")
        assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
        assert pod["spec"]["restartPolicy"] == "Never"
        (container,) = pod["spec"]["containers"]
        assert container["image"] == _pod(manifests)["containers"][0]["image"]
        command, ready, *assignments = container["args"]
        assert (command, ready) == ("health", "--ready")
        flags = [word.removeprefix("--set=") for word in assignments]
        web = settings_from(None, None, flags, needs_kafka=False).web
        assert (
            address(web.host, web.port) == f"http://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
        )


@pytest.mark.parametrize("values", [{"tests": {"enabled": False}}, {"service": {"enabled": False}}])
def test_helm_test_can_be_left_out(values: Manifest, tmp_path: Path) -> None:
    """Its value disables it, and so does a chart without a Service."""
    assert not of_kind(with_values(values, tmp_path), "Pod")


def test_the_icon_stands_alone() -> None:
    """Chart.yaml contains the icon itself, so that no external address has to be kept alive."""
    icon = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["icon"]
    kind, _, content = icon.partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(content, validate=True) == (CHART / "icon.svg").read_bytes()


def test_a_password_is_never_rendered(tmp_path: Path) -> None:
    """No scenario renders a Secret; a password in the values is refused without being repeated."""
    for name in SCENARIOS:
        assert not of_kind(scenario(name), "Secret")
    values = {"extraEnv": [{"name": "SAMERACK_KAFKA__SASL_PASSWORD", "value": "geheim"}]}
    refused = refusal(values, tmp_path)
    assert "valueFrom: {secretKeyRef: {name: SECRET, key: KEY}}" in " ".join(refused.split())
    assert "geheim" not in refused
