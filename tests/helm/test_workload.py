"""Tests of the chart's pods: security, probes, roll-out, and the sources of their secrets."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from samerack.agent.metrics import Metrics
from samerack.agent.pod.sources import LABEL_VARIABLE
from samerack.agent.web.server import application
from tests.helm.chart import (
    NAMESPACE,
    SCENARIOS,
    containers,
    environment,
    mounts_agree,
    of_kind,
    one,
    pods,
    scenario,
    settings_of,
    unknown_words,
    with_values,
)

pytestmark = pytest.mark.helm


def _leader(name: str) -> dict[str, Any]:
    template: dict[str, Any] = one(scenario(name), "Deployment", "leader")["spec"]["template"]
    return template


@pytest.mark.parametrize("name", SCENARIOS)
def test_containers_are_bounded_and_run_a_command_of_the_program(name: str) -> None:
    """File systems are read-only, memory is limited, mounts have volumes, and options are the real program's."""
    for pod in pods(scenario(name)).values():
        assert mounts_agree(pod)
        for container in containers(pod):
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
            assert "memory" in container["resources"]["limits"]
            assert unknown_words(*container.get("command", ["samerack"])[1:], *container["args"]) == []


def test_what_happened_has_a_place_that_outlives_containers(tmp_path: Path) -> None:
    """Events lie in a size-limited volume of the pod or in a claim; the agent's setting is the path there."""
    (volume,) = (each for each in _leader("minimal")["spec"]["volumes"] if each["name"] == "samerack-state")
    assert volume["emptyDir"] == {"sizeLimit": "64Mi"}
    claimed = one(with_values({"state": {"existingClaim": "kept"}}, tmp_path), "Deployment", "leader")
    volumes = claimed["spec"]["template"]["spec"]["volumes"]
    assert {"name": "samerack-state", "persistentVolumeClaim": {"claimName": "kept"}} in volumes
    (mount,) = (each for each in containers(_leader("minimal"))[0]["volumeMounts"] if each["name"] == "samerack-state")
    settings = settings_of(scenario("minimal"))
    assert settings["events"]["path"] == f"{mount['mountPath']}/events.db"


def test_probes_ask_routes_of_the_agent() -> None:
    """The paths of all probes, scrapes and annotations are routes of the real agent."""
    shown = application(Metrics().exposition, healthy=dict, ready=dict)
    routes = {getattr(route, "path", "") for route in shown.routes}
    (container,) = _leader("all-on")["spec"]["containers"]
    probes = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert {probe["path"] for probe in probes.values()} <= routes
    assert probes["readiness"]["path"] == "/readyz"
    assert probes["liveness"]["path"] == probes["startup"]["path"] == "/healthz"
    assert _leader("all-on")["metadata"]["annotations"]["prometheus.io/path"] in routes
    endpoint = one(scenario("all-on"), "PodMonitor")["spec"]["podMetricsEndpoints"][0]
    assert endpoint["path"] in routes


@pytest.mark.parametrize(("name", "port"), [("minimal", 9464), ("all-on", 8080)])
def test_ports_are_those_of_the_settings(name: str, port: int) -> None:
    """The agent listens on all addresses, on the port of container, probes, Service, policy and annotations."""
    manifests = scenario(name)
    web = settings_of(manifests)["web"]
    (container,) = _leader(name)["spec"]["containers"]
    assert (web["host"], web["port"]) == ("0.0.0.0", port)  # noqa: S104 - the kubelet comes from outside the pod
    assert container["ports"] == [{"name": "samerack", "containerPort": port}]
    assert one(manifests, "Service")["spec"]["ports"][0]["targetPort"] == "samerack"
    for policy in of_kind(manifests, "NetworkPolicy"):
        assert policy["spec"]["ingress"][0]["ports"] == [{"port": "samerack", "protocol": "TCP"}]
    assert _leader(name)["metadata"]["annotations"].get("prometheus.io/port", str(port)) == str(port)


def test_changed_settings_replace_pods(tmp_path: Path) -> None:
    """The agent reads its settings only at start, so changed settings change the pod."""
    changed = with_values({"config": {"policy": {"burst": 2}}}, tmp_path)
    before = _leader("minimal")["metadata"]["annotations"]
    assert one(changed, "Deployment", "leader")["spec"]["template"]["metadata"]["annotations"] != before


def test_secrets_come_by_reference() -> None:
    """Passwords are variables from a Secret, certificates are files of one, and the settings name only the files."""
    manifests = scenario("all-on")
    settings = settings_of(manifests)
    (container,) = _leader("all-on")["spec"]["containers"]
    variable = environment(container)["SAMERACK_KAFKA__SASL_PASSWORD"]
    assert variable["valueFrom"] == {"secretKeyRef": {"name": "kafka", "key": "password"}}
    assert not {"sasl.password", "sasl.username", "ssl.key.password"} & settings["kafka"].keys()
    (folder,) = {mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "samerack-tls"}
    assert settings["kafka"]["ssl.ca.location"] == f"{folder}/ca.crt"
    assert settings["kafka"]["ssl.certificate.location"] == f"{folder}/tls.crt"
    assert settings["kafka"]["ssl.key.location"] == f"{folder}/tls.key"
    assert not of_kind(manifests, "Secret")


@pytest.mark.parametrize(
    ("name", "protocol"), [("mtls", "SSL"), ("two-replicas-tls-sasl", "SASL_SSL"), ("minimal", None)]
)
def test_the_protocol_follows_from_the_secrets(name: str, protocol: str | None) -> None:
    """With certificates the connection is encrypted even if the settings do not name the protocol."""
    settings = settings_of(scenario(name))
    assert settings["kafka"].get("security.protocol") == protocol


_CA: dict[str, Any] = {"tls": {"secret": "ca"}}
_MECHANISM = "SAMERACK_KAFKA__SASL_MECHANISM"


@pytest.mark.parametrize(
    ("values", "protocol"),
    [
        ({"kafka": {**_CA, "secrets": {"sasl.mechanism": {"name": "a", "key": "b"}}}}, "SASL_SSL"),
        ({"kafka": _CA, "extraEnv": [{"name": _MECHANISM, "value": "PLAIN"}]}, "SASL_SSL"),
        ({"kafka": _CA, "extraEnv": [{"name": f"{_MECHANISM}S", "value": "PLAIN"}]}, "SASL_SSL"),
        ({"kafka": _CA, "extraEnv": [{"name": "SAMERACK_KAFKA", "value": "{sasl.mechanism: PLAIN}"}]}, "SASL_SSL"),
        ({"kafka": _CA, "extraEnv": [{"name": "SAMERACK_KAFKA", "value": "{client.id: a}"}]}, "SSL"),
    ],
)
def test_a_mechanism_of_a_variable_counts_for_the_protocol(
    values: dict[str, Any], protocol: str, tmp_path: Path
) -> None:
    """With a mechanism from a Secret or a variable the protocol is not SSL, which would drop the login."""
    assert settings_of(with_values(values, tmp_path))["kafka"]["security.protocol"] == protocol


def test_each_cluster_has_the_protocol_of_its_mechanism(tmp_path: Path) -> None:
    """Only clusters with a mechanism of their own log in; what a cluster says itself stays."""
    clusters: dict[str, Any] = {
        "north": {"kafka": {"bootstrap.servers": "north:9092"}},
        "east": {"kafka": {"bootstrap.servers": "east:9092", "sasl.mechanism": "PLAIN"}},
        "west": {"kafka": {"bootstrap.servers": "west:9092"}},
        "south": {"kafka": {"bootstrap.servers": "south:9092", "sasl.mechanism": "PLAIN"}},
    }
    clusters["south"]["kafka"]["security.protocol"] = "SASL_PLAINTEXT"
    variable = {"name": "SAMERACK_CLUSTERS__WEST__KAFKA__SASL_MECHANISM", "value": "PLAIN"}
    values = {"config": {"groups": [], "clusters": clusters}, "kafka": _CA, "extraEnv": [variable]}
    settings = settings_of(with_values(values, tmp_path))
    assert settings["kafka"]["security.protocol"] == "SSL"
    protocols = {name: each["kafka"].get("security.protocol") for name, each in settings["clusters"].items()}
    assert protocols == {"north": None, "east": "SASL_SSL", "west": "SASL_SSL", "south": "SASL_PLAINTEXT"}


@pytest.mark.parametrize(
    "values",
    [
        {"config": {"kafka": {"security.protocol": "SSL"}}},
        {"extraEnv": [{"name": "SAMERACK_KAFKA__SECURITY_PROTOCOL", "value": "SSL"}]},
        {"config": {"kafka": {"sasl.mechanism": "PLAIN"}}},
        {"envFrom": [{"secretRef": {"name": "kafka"}}]},
    ],
)
def test_a_file_of_the_reader_s_own_takes_certificates(values: dict[str, Any], tmp_path: Path) -> None:
    """Certificates go with an own ConfigMap where the chart knows the protocol, or cannot know all variables."""
    assert with_values({"existingConfigMap": {"name": "mine"}, "kafka": _CA, **values}, tmp_path)


def test_the_own_words_of_the_reader_win(tmp_path: Path) -> None:
    """The chart's derived settings do not replace what `config.kafka` sets."""
    values = {
        "config": {"kafka": {"security.protocol": "SASL_SSL", "ssl.ca.location": "/elsewhere"}},
        "kafka": {"tls": {"secret": "ca"}},
    }
    settings = settings_of(with_values(values, tmp_path))
    assert settings["kafka"]["security.protocol"] == "SASL_SSL"
    assert settings["kafka"]["ssl.ca.location"] == "/elsewhere"


@pytest.mark.parametrize("more", [None, ["samerack.example.org"]])
def test_the_agent_knows_the_name_of_its_service(more: object, tmp_path: Path) -> None:
    """Prometheus may ask by SERVICE.NAMESPACE, a name with a dot that must be allowed; the user's names stay."""
    values = {"config": {"web": {"hosts": more} if more else {}}}
    settings = settings_of(with_values(values, tmp_path))
    wanted = {f"release-samerack.{NAMESPACE}"} | ({"samerack.example.org"} if more else set())
    assert set(settings["web"]["hosts"]) == wanted


def test_the_zone_comes_from_the_downward_api() -> None:
    """The agent's variable gets its value from the label that the settings name."""
    for name, label in (("minimal", "topology.kubernetes.io/zone"), ("all-on", "topology.k8s.aws/zone-id")):
        (container,) = _leader(name)["spec"]["containers"]
        field = environment(container)[LABEL_VARIABLE]["valueFrom"]["fieldRef"]["fieldPath"]
        assert field == f"metadata.labels['{label}']"


def test_two_agents_keep_apart() -> None:
    """Two replicas are spread over zones and drained one at a time, at any time if not ready; one needs neither."""
    two, alone = scenario("two-replicas-tls-sasl"), scenario("minimal")
    budget = one(two, "PodDisruptionBudget")["spec"]
    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")
    (spread,) = one(two, "Deployment")["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert spread["topologyKey"] == "topology.kubernetes.io/zone"
    assert not of_kind(alone, "PodDisruptionBudget")
    assert "topologySpreadConstraints" not in one(alone, "Deployment")["spec"]["template"]["spec"]


def test_a_sidecar_release_has_no_workload() -> None:
    """The agent runs in the application's pods; the chart only renders its settings."""
    assert [each["kind"] for each in scenario("sidecar")] == ["ConfigMap"]


def test_the_stream_has_one_writer() -> None:
    """The stream is one pod that ends before its successor starts; nothing else writes, and reports never overlap."""
    stream = one(scenario("pipeline-volume"), "Deployment", "stream")
    assert stream["spec"]["replicas"] == 1
    assert stream["spec"]["strategy"] == {"type": "Recreate"}
    report = one(scenario("pipeline-volume"), "CronJob")
    assert report["spec"]["concurrencyPolicy"] == "Forbid"
    (container,) = report["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert container["args"][0] == "report"


def test_the_pipeline_runs_its_own_image() -> None:
    """Without a name the pipeline's image lies beside the agent's, in the chart's version or the given one."""
    images = {
        name: {pod["spec"]["containers"][0]["image"].partition("/")[2] for pod in pods(scenario(name)).values()}
        for name in ("openshift", "pipeline-object-store", "pipeline-volume")
    }
    version = metadata.version("samerack")
    assert images == {
        "openshift": {f"samerack:{version}", f"samerack-pipeline:{version}"},
        "pipeline-object-store": {f"samerack:{version}", "samerack-pipeline:1"},
        "pipeline-volume": {f"samerack-spark:{version}"},
    }


def test_the_volume_holds_the_tables() -> None:
    """The settings put the tables on the claim that the pods mount; it remains after the release is uninstalled."""
    manifests = scenario("pipeline-volume")
    settings = settings_of(manifests)
    claim = one(manifests, "PersistentVolumeClaim")["metadata"]
    assert claim["annotations"]["helm.sh/resource-policy"] == "keep"
    for pod in pods(manifests).values():
        (volume,) = (each for each in pod["spec"]["volumes"] if each["name"] == "tables")
        (mount,) = (each for each in pod["spec"]["containers"][0]["volumeMounts"] if each["name"] == "tables")
        assert volume["persistentVolumeClaim"]["claimName"] == claim["name"]
        assert settings["pipeline"]["tables"].startswith(f"{mount['mountPath']}/")
