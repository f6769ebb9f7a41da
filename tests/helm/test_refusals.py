"""Tests that wrong values are refused by Helm before anything is installed, with the place and what would be right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helm.chart import refusal

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
    "repository with a digest": ({"image": {"repository": "a@sha256:b"}}, "at '/image/repository'"),
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
    "port": ({"networkPolicy": {"kafkaPorts": ["9092"]}}, "at '/networkPolicy/kafkaPorts/0': got string, want integer"),
    "interval": ({"monitoring": {"podMonitor": {"interval": "30"}}}, "at '/monitoring/podMonitor/interval'"),
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
        {"config": {"policy": {"least_saving": "5 %"}}},
        "at '/config/policy/least_saving': got string, want number",
    ),
    "range of a setting": ({"config": {"policy": {"least_saving": 5}}}, "at '/config/policy/least_saving': maximum"),
    "choice of a setting": (
        {"config": {"pod": {"sources": ["node"]}}},
        "must be one of 'env', 'file', 'label', 'kubernetes', 'cloud'",
    ),
    "groups as text": ({"config": {"groups": "orders"}}, "at '/config/groups': got string, want array"),
}

RULES: dict[str, tuple[dict[str, Any], str]] = {
    "no image": ({"image": {"repository": ""}}, "image.repository is empty; build the image"),
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
    "replicas of a sidecar": ({"shape": "sidecar", "replicas": 2}, "a sidecar runs once in every pod"),
    "two without an election": (
        {"replicas": 2, "config": {"election": {"group": ""}}},
        "name a group for their election, or set replicas to 1",
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
}


@pytest.mark.parametrize("mistake", SCHEMA)
def test_the_schema_names_place_and_right_value(mistake: str, tmp_path: Path) -> None:
    """The message has the path in the values and what is expected there."""
    values, message = SCHEMA[mistake]
    assert message in refusal(values, tmp_path)


@pytest.mark.parametrize("mistake", RULES)
def test_a_rule_between_values_names_the_cure(mistake: str, tmp_path: Path) -> None:
    """The message has the keys in question and what to write instead; no secret is repeated in it."""
    values, message = RULES[mistake]
    said = " ".join(refusal(values, tmp_path).split())
    assert message in said
    assert "geheim" not in said
