"""Tests that Helm refuses wrong values before it installs anything, and names the place and the right value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helm.chart import one, refusal, with_values

pytestmark = pytest.mark.helm

_API: dict[str, Any] = {"pod": {"sources": ["kubernetes"]}}

SCHEMA: dict[str, tuple[dict[str, Any], str]] = {
    "three replicas": ({"replicas": 3}, "at '/replicas': maximum: got 3, want 2"),
    "no replica": ({"replicas": 0}, "at '/replicas': minimum: got 0, want 1"),
    "replicas as text": ({"replicas": "2"}, "at '/replicas': got string, want integer"),
    "unknown key": ({"replica": 1}, "at '': additional properties 'replica' not allowed"),
    "unknown key below": ({"service": {"ports": 1}}, "at '/service': additional properties 'ports' not allowed"),
    "unknown shape": ({"shape": "daemonset"}, "at '/shape': value must be one of 'leader', 'sidecar'"),
    "tag as number": ({"image": {"tag": 1.2}}, "at '/image/tag': got number, want string"),
    "wrong digest": ({"image": {"digest": "latest"}}, "at '/image/digest'"),
    "repository with a space": ({"image": {"repository": "a b"}}, "at '/image/repository'"),
    "pull policy": ({"image": {"pullPolicy": "never"}}, "must be one of 'Always', 'IfNotPresent', 'Never'"),
    "resources": ({"resources": {"limit": {}}}, "at '/resources': additional properties 'limit' not allowed"),
    "label as number": ({"podLabels": {"a": 1}}, "at '/podLabels/a': got number, want string"),
    "secret without key": (
        {"kafka": {"secrets": {"sasl.password": {"name": "kafka"}}}},
        "at '/kafka/secrets/sasl.password': missing property 'key'",
    ),
    "password outright": (
        {"kafka": {"secrets": {"sasl.password": "geheim"}}},
        "at '/kafka/secrets/sasl.password': got string, want object",
    ),
    "misspelt setting of Kafka's": (
        {"config": {"kafka": {"sasl.mecanism": "PLAIN"}}},
        "at '/config/kafka': additional properties 'sasl.mecanism' not allowed",
    ),
    "misspelt setting from a Secret": (
        {"kafka": {"secrets": {"sasl.pasword": {"name": "kafka", "key": "password"}}}},
        "at '/kafka/secrets': additional properties 'sasl.pasword' not allowed",
    ),
    "setting that only one client has": (
        {"config": {"kafka": {"ssl.cipher.suites": "x"}}},
        "at '/config/kafka': additional properties 'ssl.cipher.suites' not allowed",
    ),
    "keys of Kafka's as maps": (  # --set gives this if dots are not escaped
        {"config": {"kafka": {"sasl": {"password": "geheim"}}}},
        "at '/config/kafka': additional properties 'sasl' not allowed",
    ),
    "setting without a text": ({"config": {"kafka": {"client.id": {}}}}, "at '/config/kafka/client.id': got object"),
    "port": ({"networkPolicy": {"kafkaPorts": ["9092"]}}, "at '/networkPolicy/kafkaPorts/0': got string, want integer"),
    "interval": ({"monitoring": {"podMonitor": {"interval": "30"}}}, "at '/monitoring/podMonitor/interval'"),
    "time of a scrape": (
        {"monitoring": {"serviceMonitor": {"scrapeTimeout": "10"}}},
        "at '/monitoring/serviceMonitor/scrapeTimeout'",
    ),
    "strategy": ({"updateStrategy": {"type": "OnDelete"}}, "at '/updateStrategy/type': value must be one of"),
    "surge": (
        {"updateStrategy": {"rollingUpdate": {"maxSurge": "one"}}},
        "at '/updateStrategy/rollingUpdate/maxSurge'",
    ),
    "source of variables": (
        {"envFrom": [{"secret": {"name": "a"}}]},
        "at '/envFrom/0': additional properties 'secret' not allowed",
    ),
    "former account of the pipeline": (
        {"pipeline": {"serviceAccountName": "fleet"}},
        "at '/pipeline': additional properties 'serviceAccountName' not allowed",
    ),
    "probe path": (
        {"probes": {"readiness": {"path": "/"}}},
        "at '/probes/readiness': additional properties 'path' not allowed",
    ),
    "access mode": ({"pipeline": {"volume": {"accessModes": ["RWX"]}}}, "at '/pipeline/volume/accessModes/0'"),
    "section of the settings": ({"config": {"polcy": {}}}, "at '/config': additional properties 'polcy' not allowed"),
    "key of the settings": (
        {"config": {"policy": {"least_savings": 0.1}}},
        "at '/config/policy': additional properties 'least_savings' not allowed",
    ),
    "type of a setting": (
        {"config": {"policy": {"min_saving": "5 %"}}},
        "at '/config/policy/min_saving': got string, want number",
    ),
    "range of a setting": ({"config": {"policy": {"min_saving": 5}}}, "at '/config/policy/min_saving': maximum"),
    "choice of a setting": (
        {"config": {"pod": {"sources": ["node"]}}},
        "must be one of 'env', 'file', 'label', 'kubernetes', 'cloud'",
    ),
    "groups as text": ({"config": {"groups": "orders"}}, "at '/config/groups': got string, want array"),
}

_EAST: dict[str, Any] = {"east": {"kafka": {"bootstrap.servers": "east:9092"}}}

RULES: dict[str, tuple[dict[str, Any], str]] = {
    "several clusters and groups to lead": (
        {"config": {"clusters": _EAST}},
        "config.groups: an agent of several clusters (config.clusters) leads none; install one release for each",
    ),
    "several clusters beside consumers": (
        {"shape": "sidecar", "config": {"groups": [], "clusters": _EAST}},
        "config.clusters: a sidecar is beside consumers of one cluster; observe several with shape: leader",
    ),
    "password of one of several clusters": (
        {"config": {"clusters": {"east": {"kafka": {"sasl.password": "x"}}}}},
        "config.clusters.east.kafka.sasl.password would stand in a ConfigMap for everybody to read",
    ),
    "no image": ({"image": {"repository": ""}}, "image.repository is empty; build the image"),
    "repository with a tag": (
        {"image": {"repository": "registry.example:5000/foo/bar:1.0"}},
        'image.repository ends with a tag; give them apart: repository: registry.example:5000/foo/bar, tag: "1.0"',
    ),
    "repository with a digest": (
        {"image": {"repository": "foo/bar:1.0@sha256:b"}},
        "image.repository has a digest in it; give them apart: repository: foo/bar, digest: sha256:b",
    ),
    "repository of the pipeline with a tag": (
        {"pipeline": {"image": {"repository": "spark:1"}}},
        'pipeline.image.repository ends with a tag; give them apart: repository: spark, tag: "1"',
    ),
    "repository of the pipeline with a digest": (
        {"pipeline": {"image": {"repository": "spark@sha256:b"}}},
        "pipeline.image.repository has a digest in it; give them apart: repository: spark, digest: sha256:b",
    ),
    "no servers": (
        {"config": {"kafka": {"bootstrap.servers": ""}}},
        "config.kafka: bootstrap.servers is missing; give config: {kafka: {bootstrap.servers: HOST:PORT}}",
    ),
    "no group": ({"config": {"groups": []}}, "config.groups is empty; name the consumer groups to lead"),
    "password in the settings": (
        {"config": {"kafka": {"sasl.password": "geheim"}}},
        "put it into a Secret and name that in kafka.secrets: {sasl.password: {name: SECRET, key: KEY}}",
    ),
    "password of the producer": (
        {"config": {"publishing": {"kafka": {"sasl.password": "geheim"}}}},
        "put it into a Secret and name that in extraEnv",
    ),
    "key of the object store": (
        {"config": {"pipeline": {"conf": {"spark.hadoop.fs.s3a.secret.key": "geheim"}}}},
        "put it into a Secret and name that in extraEnv",
    ),
    "password in a URL": (
        {"config": {"traffic": {"client_endpoints": [{"url": "http://me:geheim@jmx:9404", "group": "orders"}]}}},
        "config has a URL with a password in it",
    ),
    "password as a variable": (
        {"extraEnv": [{"name": "SAMERACK_KAFKA__SSL_KEY_PASSWORD", "value": "geheim"}]},
        "extraEnv: the value of SAMERACK_KAFKA__SSL_KEY_PASSWORD would stand in the pod for everybody to read",
    ),
    "password within a variable": (
        {"extraEnv": [{"name": "SAMERACK_KAFKA", "value": "{sasl.password: geheim}"}]},
        "extraEnv: the value of SAMERACK_KAFKA would stand in the pod for everybody to read",
    ),
    "key of the object store as a variable": (
        {"pipeline": {"extraEnv": [{"name": "AWS_SECRET_ACCESS_KEY", "value": "geheim"}]}},
        "pipeline.extraEnv: the value of AWS_SECRET_ACCESS_KEY would stand in the pod",
    ),
    "replicas of a sidecar": ({"shape": "sidecar", "replicas": 2}, "a sidecar runs once in every pod"),
    "two without an election": (
        {"replicas": 2, "config": {"election": {"group": ""}}},
        "name a group for their election, or set replicas to 1",
    ),
    "two with one volume": (
        {"replicas": 2, "state": {"existingClaim": "kept"}},
        "set replicas to 1, or leave state.existingClaim out",
    ),
    "volume of sidecars": (
        {"shape": "sidecar", "state": {"existingClaim": "kept"}},
        "state.existingClaim is for shape: leader",
    ),
    "monitors of both kinds": (
        {"monitoring": {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}}},
        "every agent would be scraped and counted twice; keep one",
    ),
    "any port": ({"config": {"web": {"port": 0}}}, "probes and Prometheus need one that they know"),
    "loopback": ({"config": {"web": {"host": "127.0.0.1"}}}, "the probes of the kubelet could not reach the agent"),
    "certificate without key": (
        {"kafka": {"tls": {"secret": "tls", "certificate": "tls.crt"}}},
        "a certificate of the agent's own needs its key",
    ),
    "permissions of a sidecar": (
        {"shape": "sidecar", "config": _API},
        "name the service account that your application's pods run as",
    ),
    "scraped loopback": (
        {"shape": "sidecar", "monitoring": {"annotations": True}},
        "whose port is on loopback; set config: {web: {host: 0.0.0.0}}",
    ),
    "monitor of nothing": (
        {"shape": "sidecar", "config": {"web": {"host": "::"}}, "monitoring": {"podMonitor": {"enabled": True}}},
        "give the labels of your application's pods",
    ),
    "monitor of a Service of sidecars": (
        {"shape": "sidecar", "monitoring": {"serviceMonitor": {"enabled": True}}},
        "set monitoring.podMonitor instead",
    ),
    "monitor of no Service": (
        {"service": {"enabled": False}, "monitoring": {"serviceMonitor": {"enabled": True}}},
        "set it to true, or take monitoring.podMonitor",
    ),
    "pipeline without image": ({"pipeline": {"enabled": True}}, "pipeline.image.repository is empty"),
    "tables nowhere": (
        {"pipeline": {"enabled": True, "image": {"repository": "spark"}}},
        "set config.pipeline.tables to an address in an object store, or pipeline.volume",
    ),
    "report nowhere": (
        {
            "pipeline": {"enabled": True, "image": {"repository": "spark"}},
            "config": {"pipeline": {"tables": "s3a://bucket"}},
        },
        "set pipeline.volume, or pipeline.report.enabled to false",
    ),
    "one account made twice": (
        {
            "serviceAccount": {"name": "fleet"},
            "pipeline": {
                "enabled": True,
                "image": {"repository": "spark"},
                "serviceAccount": {"name": "fleet"},
                "report": {"enabled": False},
            },
            "config": {"pipeline": {"tables": "s3a://bucket"}},
        },
        "set pipeline.serviceAccount.create to false to share one account",
    ),
}


@pytest.mark.parametrize("mistake", SCHEMA)
def test_the_schema_names_place_and_right_value(mistake: str, tmp_path: Path) -> None:
    """The message contains the path in the values and what is expected there."""
    values, message = SCHEMA[mistake]
    assert message in refusal(values, tmp_path)


@pytest.mark.parametrize("mistake", RULES)
def test_a_rule_between_values_names_the_cure(mistake: str, tmp_path: Path) -> None:
    """The message contains the keys and what to write instead, and repeats no secret."""
    values, message = RULES[mistake]
    said = " ".join(refusal(values, tmp_path).split())
    assert message in said
    assert "geheim" not in said


@pytest.mark.parametrize("repository", ["foo", "foo/bar", "registry.example:5000/foo/bar", "localhost:5000/bar"])
def test_a_port_of_a_registry_is_no_tag(repository: str, tmp_path: Path) -> None:
    """A colon before a slash begins a port."""
    manifests = with_values({"image": {"repository": repository, "tag": "2"}}, tmp_path)
    (container,) = one(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"{repository}:2"


def test_a_variable_may_name_another(tmp_path: Path) -> None:
    """A value that Kubernetes builds from another variable contains no secret."""
    variable = {"name": "SAMERACK_KAFKA__SASL_PASSWORD", "value": "$(PASSWORD)"}
    assert with_values({"extraEnv": [variable]}, tmp_path)
