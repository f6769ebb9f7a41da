"""Tests that Helm refuses wrong values before it installs anything, and names the place and the right value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from samerack.pipeline.session import REDACTED
from tests.helm.chart import CHART, one, refusal, with_values

pytestmark = pytest.mark.helm

SCHEMA: tuple[tuple[dict[str, Any], str], ...] = (
    ({"replicas": 3}, "/replicas"),
    ({"replicas": 0}, "/replicas"),
    ({"replica": 1}, ""),
    ({"service": {"ports": 1}}, "/service"),
    ({"shape": "daemonset"}, "/shape"),
    ({"image": {"tag": 1.2}}, "/image/tag"),
    ({"image": {"digest": "latest"}}, "/image/digest"),
    ({"image": {"repository": "a b"}}, "/image/repository"),
    ({"image": {"pullPolicy": "never"}}, "/image/pullPolicy"),
    ({"resources": {"limit": {}}}, "/resources"),
    ({"podLabels": {"a": 1}}, "/podLabels/a"),
    ({"kafka": {"secrets": {"sasl.password": {"name": "kafka"}}}}, "/kafka/secrets/sasl.password"),
    ({"kafka": {"secrets": {"sasl.password": "geheim"}}}, "/kafka/secrets/sasl.password"),
    ({"kafka": {"secrets": {"sasl.pasword": {"name": "kafka", "key": "password"}}}}, "/kafka/secrets"),
    ({"config": {"kafka": {"sasl.mecanism": "PLAIN"}}}, "/config/kafka"),
    ({"config": {"kafka": {"sasl": {"password": "geheim"}}}}, "/config/kafka"),  # --set gives this without escapes
    ({"networkPolicy": {"kafkaPorts": ["9092"]}}, "/networkPolicy/kafkaPorts/0"),
    ({"monitoring": {"podMonitor": {"interval": "30"}}}, "/monitoring/podMonitor/interval"),
    ({"monitoring": {"serviceMonitor": {"scrapeTimeout": "10"}}}, "/monitoring/serviceMonitor/scrapeTimeout"),
    ({"fullnameOverride": "same.rack"}, "/fullnameOverride"),
    ({"nameOverride": "same.rack"}, "/nameOverride"),
    ({"updateStrategy": {"type": "OnDelete"}}, "/updateStrategy/type"),
    ({"updateStrategy": {"rollingUpdate": {"maxSurge": "one"}}}, "/updateStrategy/rollingUpdate/maxSurge"),
    ({"envFrom": [{"secret": {"name": "a"}}]}, "/envFrom/0"),
    ({"probes": {"readiness": {"path": "/"}}}, "/probes/readiness"),
    ({"pipeline": {"serviceAccountName": "fleet"}}, "/pipeline"),
    ({"pipeline": {"volume": {"accessModes": ["RWX"]}}}, "/pipeline/volume/accessModes/0"),
    ({"config": {"policy": {"min_saving": 5}}}, "/config/policy/min_saving"),
)
"""Values that the schema refuses, and the places that Helm names; for `config` the agent's model has the rules."""

_EAST: dict[str, Any] = {"east": {"kafka": {"bootstrap.servers": "east:9092"}}}

_TABLES: dict[str, Any] = {"pipeline": {"tables": "s3a://bucket"}}
_SIDECAR: dict[str, Any] = {"shape": "sidecar"}
_PIPELINE: dict[str, Any] = {"enabled": True, "image": {"repository": "spark"}}

_IDENTITY = "extraEnv: [{name: SAMERACK_ELECTION__IDENTITY, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]"
_RELEASE = "give the pipeline a release of its own (shape: sidecar)"


def _with_pipeline(**config: dict[str, Any]) -> dict[str, Any]:
    """Values of an agent and a pipeline in one release, with more settings."""
    tables = {"tables": "s3a://bucket", **config.pop("pipeline", {})}
    return {"pipeline": {**_PIPELINE, "report": {"enabled": False}}, "config": {"pipeline": tables, **config}}


_EU_AND_ALL: dict[str, Any] = {"groups": {"orders-eu": {"balance": "bytes"}, "orders-*": {"balance": "partitions"}}}
_FIRST = "Helm sorts keys and the first match wins; give the map in extraEnv, which keeps its order: {name: SAMERACK_"

RULES: tuple[tuple[dict[str, Any], str], ...] = (
    (
        {"config": {"policy": {"groups": {"orders-eu": {"mode": "propose"}, "orders-*": {"min_saving": 0.1}}}}},
        'config.policy.groups: "orders-*" would come before "orders-eu", which it matches, because ' + _FIRST,
    ),
    ({"config": {"leading": _EU_AND_ALL}}, _FIRST + "LEADING__GROUPS, "),
    ({"config": {"lag": {"groups": {"a1": {"max_seconds": 1}, "?1": {"max_seconds": 2}}}}}, _FIRST + "LAG__GROUPS, "),
    (
        {"config": {"streams": {"applications": {"a": {"standby": "apart"}, "[ab]": {"strategy": "min_traffic"}}}}},
        _FIRST + "STREAMS__APPLICATIONS, ",
    ),
    ({"config": {"pipeline": {"owners": {"orders-*": "a", "*": "b"}}}}, _FIRST + "PIPELINE__OWNERS, "),
    ({"config": {"racks": {"client_ids": {"a.b": "rack-a", "a*": "rack-b"}}}}, _FIRST + "RACKS__CLIENT_IDS, "),
    (
        {"config": {"pipeline": {"owners": {"a-*": "a", "*-b": "b"}}}},
        'config.pipeline.owners: "*-b" and "a-*" match the same names, and Helm sorts keys',
    ),
    ({"config": {"lag": {"groups": {"a*x*": {"max_seconds": 1}, "ab*": {"max_seconds": 2}}}}}, "match the same names"),
    ({"config": {"clusters": _EAST}}, "config.groups: an agent of several clusters (config.clusters) leads no groups"),
    ({**_SIDECAR, "config": {"groups": [], "clusters": _EAST}}, "or observe several with shape: leader"),
    (
        {"config": {"clusters": {"east": {"kafka": {"sasl.password": "x"}}}}},
        "config.clusters.east.kafka.sasl.password would be in a ConfigMap",
    ),
    ({"image": {"repository": ""}}, "image.repository is empty"),
    (
        {"image": {"repository": "registry.example:5000/foo/bar:1.0"}},
        'repository: registry.example:5000/foo/bar, tag: "1.0"',
    ),
    ({"image": {"repository": "foo/bar:1.0@sha256:b"}}, "repository: foo/bar, digest: sha256:b"),
    ({"pipeline": {"image": {"repository": "spark:1"}}}, "pipeline.image.repository ends with a tag"),
    ({"pipeline": {"image": {"repository": "spark@sha256:b"}}}, "pipeline.image.repository has a digest in it"),
    ({"config": {"kafka": {"bootstrap.servers": ""}}}, "config: {kafka: {bootstrap.servers: HOST:PORT}}"),
    ({"config": {"groups": []}}, "config.groups is empty"),
    (
        {"config": {"kafka": {"sasl.password": "geheim"}}},
        "kafka.secrets: {sasl.password: {name: SECRET, key: KEY}}",
    ),
    (
        {"config": {"publishing": {"kafka": {"sasl.password": "geheim"}}}},
        "put it into a Secret and name that in extraEnv",
    ),
    (
        {"config": {"pipeline": {"conf": {"spark.hadoop.fs.s3a.secret.key": "geheim"}}}},
        "put it into a Secret and name that in extraEnv",
    ),
    (
        {"config": {"pipeline": {"conf": {"spark.hadoop.fs.azure.account.key.me.dfs.core.windows.net": "geheim"}}}},
        "config.pipeline.conf.spark.hadoop.fs.azure.account.key.me.dfs.core.windows.net would be in a ConfigMap",
    ),
    (
        {"config": {"pipeline": {"conf": {"spark.hadoop.fs.azure.sas.box.me": "geheim"}}}},
        "config.pipeline.conf.spark.hadoop.fs.azure.sas.box.me would be in a ConfigMap",
    ),
    (
        {"extraEnv": [{"name": "HTTPS_PROXY", "value": "http://me:geheim@proxy:3128"}]},
        "extraEnv: the value of HTTPS_PROXY would be in the pod",
    ),
    (
        {"extraEnv": [{"name": "OTEL_EXPORTER_OTLP_HEADERS", "value": "Authorization=geheim"}]},
        "extraEnv: the value of OTEL_EXPORTER_OTLP_HEADERS would be in the pod",
    ),
    (
        {"extraEnv": [{"name": "SAMERACK_PIPELINE__CONF", "value": '{"spark.hadoop.fs.s3a.secret.key": "geheim"}'}]},
        "extraEnv: the value of SAMERACK_PIPELINE__CONF would be in the pod",
    ),
    (
        {
            "pipeline": {
                "extraEnv": [{"name": "PYSPARK_SUBMIT_ARGS", "value": "--conf spark.a.sas.b=geheim pyspark-shell"}]
            }
        },
        "pipeline.extraEnv: the value of PYSPARK_SUBMIT_ARGS would be in the pod",
    ),
    (
        {"config": {"otel": {"endpoint": "http://me:geheim@collector:4318/v1/metrics"}}},
        "leave it out of the URL (headers for otel.endpoint: OTEL_EXPORTER_OTLP_HEADERS in extraEnv, by valueFrom)",
    ),
    (
        {"config": {"traffic": {"client_endpoints": [{"url": "http://me:geheim@jmx:9404", "group": "orders"}]}}},
        "config has a URL with a password in it",
    ),
    (
        {"extraEnv": [{"name": "SAMERACK_KAFKA__SSL_KEY_PASSWORD", "value": "geheim"}]},
        "valueFrom: {secretKeyRef: {name: SECRET, key: KEY}}",
    ),
    (
        {"extraEnv": [{"name": "SAMERACK_KAFKA", "value": "{sasl.password: geheim}"}]},
        "extraEnv: the value of SAMERACK_KAFKA would",
    ),
    (
        {"pipeline": {"extraEnv": [{"name": "AWS_SECRET_ACCESS_KEY", "value": "geheim"}]}},
        "pipeline.extraEnv: the value of AWS_SECRET_ACCESS_KEY would",
    ),
    ({**_SIDECAR, "replicas": 2}, "replicas is for shape: leader"),
    ({"replicas": 2, "config": {"election": {"group": ""}}}, "config.election.group is empty"),
    ({"replicas": 2, "config": {"election": {"identity": "a"}}}, _IDENTITY),
    ({**_SIDECAR, "config": {"election": {"identity": "a"}}}, _IDENTITY),
    ({"replicas": 2, "state": {"existingClaim": "kept"}}, "set replicas to 1, or remove state.existingClaim"),
    ({**_SIDECAR, "state": {"existingClaim": "kept"}}, "state.existingClaim is for shape: leader"),
    ({"monitoring": {kind: {"enabled": True} for kind in ("podMonitor", "serviceMonitor")}}, "keep one"),
    ({"config": {"web": {"port": 0}}}, "config.web.port is 0"),
    ({"config": {"web": {"host": "127.0.0.1"}}}, "config.web.host is loopback"),
    ({"kafka": {"tls": {"secret": "tls", "certificate": "tls.crt"}}}, "kafka.tls.key is not"),
    (
        {"existingConfigMap": {"name": "mine"}, "kafka": {"tls": {"secret": "tls"}}},
        "set it here too: config: {kafka: {security.protocol: SSL}}, or SASL_SSL",
    ),
    (
        {
            "existingConfigMap": {"name": "mine"},
            "pipeline": _PIPELINE,
            "config": {"pipeline": {"tables": "s3a://bucket"}},
        },
        "set it here too: config.pipeline.master",
    ),
    ({**_SIDECAR, "config": {"pod": {"sources": ["kubernetes"]}}}, "serviceAccount.name is empty"),
    ({**_SIDECAR, "monitoring": {"annotations": True}}, "set config: {web: {host: 0.0.0.0}}"),
    (
        {**_SIDECAR, "config": {"web": {"host": "::"}}, "monitoring": {"podMonitor": {"enabled": True}}},
        "give the labels of your application's pods",
    ),
    ({**_SIDECAR, "monitoring": {"serviceMonitor": {"enabled": True}}}, "set monitoring.podMonitor instead"),
    (
        {"service": {"enabled": False}, "monitoring": {"serviceMonitor": {"enabled": True}}},
        "set it to true, or use monitoring.podMonitor",
    ),
    (
        {**_SIDECAR, "image": {"repository": ""}, "pipeline": {"enabled": True}},
        "pipeline.image.repository is empty; name the pipeline's image there, or the agent's in image.repository",
    ),
    ({"pipeline": _PIPELINE}, "set config.pipeline.tables to an address in an object store, or pipeline.volume"),
    (
        {
            "pipeline": {**_PIPELINE, "report": {"enabled": False}},
            "config": {"pipeline": {"tables": "s3a://bucket", "conf": {"spark.driver.memory": "2g"}}},
        },
        "(2Gi) has no room beside Java's heap (spark.driver.memory: 2g); make it 3Gi or more",
    ),
    ({"pipeline": _PIPELINE, "config": _TABLES}, "set pipeline.volume, or pipeline.report.enabled to false"),
    (
        _with_pipeline(publishing={"kafka": {"bootstrap.servers": "fleet:9092"}}),
        "agents publish to the brokers of config.publishing.kafka, and the pipeline reads those of config.kafka; "
        + _RELEASE,
    ),
    (_with_pipeline(publishing={"traffic_topic": "a"}), "a, and the pipeline reads samerack-traffic; " + _RELEASE),
    (
        _with_pipeline(publishing={"states_topic": "a"}, pipeline={"states_topic": "b"}),
        "config.publishing.states_topic is a, and the pipeline reads b; " + _RELEASE,
    ),
    (_with_pipeline(kafka={"sasl.mechanism": "AWS_MSK_IAM"}), "config.kafka.sasl.mechanism is AWS_MSK_IAM, which"),
    (_with_pipeline(kafka={"sasl.oauthbearer.method": "oidc"}), "has no sasl.oauthbearer.method; " + _RELEASE),
    (
        {**_with_pipeline(), "kafka": {"secrets": {"sasl.oauthbearer.client.secret": {"name": "a", "key": "b"}}}},
        "has no sasl.oauthbearer.client.secret; " + _RELEASE,
    ),
    (
        {
            "serviceAccount": {"name": "fleet"},
            "pipeline": {**_PIPELINE, "serviceAccount": {"name": "fleet"}, "report": {"enabled": False}},
            "config": _TABLES,
        },
        "set pipeline.serviceAccount.create to false to share one account",
    ),
)
"""Values that do not go together, and the keys or the cure that the message names."""


@pytest.mark.parametrize(("values", "place"), SCHEMA)
def test_the_schema_names_the_place(values: dict[str, Any], place: str, tmp_path: Path) -> None:
    """The message contains the path in the values."""
    assert f"at '{place}'" in refusal(values, tmp_path)


@pytest.mark.parametrize(("values", "named"), RULES)
def test_a_rule_between_values_names_the_cure(values: dict[str, Any], named: str, tmp_path: Path) -> None:
    """The message contains the keys or what to write instead, and repeats no secret."""
    refused = " ".join(refusal(values, tmp_path).split())
    assert named in refused
    assert "geheim" not in refused


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


@pytest.mark.parametrize(
    "owners",
    [
        {"orders-eu": "a", "orders-*": "a"},
        {"orders-eu": "a", "payments-*": "b"},
        {"a.c": "a", "?.b": "b"},
        {"(a)": "a", "*": "b"},
        {"ordersXeu": "a", "*.eu": "b"},
        {"a-*": "a", "*-b": "a"},
        {"a-*-x": "a", "b-*": "b", "a-*-y": "c", "c": "d"},
        {"(*": "a", "*": "b"},
    ],
    ids=[
        "equal values",
        "no match",
        "a dot is a dot",
        "the name comes first",
        "a dot is no sign",
        "equal values of patterns",
        "other begins and ends",
        "the narrow pattern comes first",
    ],
)
def test_an_order_that_does_not_matter_is_accepted(owners: dict[str, str], tmp_path: Path) -> None:
    """Sorted keys change nothing if no pattern comes before a key that it matches, or if both values are equal."""
    assert with_values({"config": {"pipeline": {"owners": owners}}}, tmp_path)


@pytest.mark.parametrize("shape", ["leader", "sidecar"])
@pytest.mark.parametrize(
    "named",
    [
        {"config": {"cluster": "east"}},
        {"extraEnv": [{"name": "SAMERACK_CLUSTER", "value": "east"}]},
        {"envFrom": [{"configMapRef": {"name": "others"}}]},
    ],
    ids=["settings", "variable", "elsewhere"],
)
def test_an_agent_for_one_of_several_clusters_may_lead(shape: str, named: dict[str, Any], tmp_path: Path) -> None:
    """The agent's own check is the same: `cluster` selects one of `clusters`, and `groups` are led there."""
    config = {"clusters": _EAST, **named.get("config", {})}
    assert with_values({"shape": shape, **named, "config": config}, tmp_path)


@pytest.mark.parametrize(
    "variable",
    [
        ("AWS_ACCESS_KEY_ID", "AKIA"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/run/token"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/run/key.json"),
        ("SAMERACK_KAFKA__SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL", "https://token.example:8443/token"),
        ("SAMERACK_KAFKA", "{sasl.oauthbearer.token.endpoint.url: 'https://token.example:8443'}"),
        ("SAMERACK_PIPELINE__CONF", "{spark.hadoop.fs.s3a.aws.credentials.provider: a.b.Provider}"),
    ],
)
def test_what_only_sounds_secret_is_accepted(variable: tuple[str, str], tmp_path: Path) -> None:
    """Ids, addresses, files and classes may stand in the values, although their names contain words of secrets."""
    name, value = variable
    conf = {"spark.hadoop.fs.s3a.aws.credentials.provider": "a.b.Provider"}
    values = {"extraEnv": [{"name": name, "value": value}], "config": {"pipeline": {"conf": conf}}}
    assert with_values(values, tmp_path)


def test_words_of_secrets_are_those_of_the_pipeline() -> None:
    """The chart takes as a secret what Spark hides."""
    assert REDACTED.removeprefix("(?i)") in (CHART / "templates" / "_validate.tpl").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "config",
    [
        {"publishing": {"traffic_topic": "samerack-traffic", "kafka": {"bootstrap.servers": "kafka:9092"}}},
        {"publishing": {"traffic_topic": "a"}, "pipeline": {"traffic_topic": "a"}},
        {"publishing": {"kafka": {"linger.ms": 5}}},
    ],
    ids=["same brokers and default topic", "same topic", "same brokers unsaid"],
)
def test_a_pipeline_may_read_what_agents_of_its_release_publish(config: dict[str, Any], tmp_path: Path) -> None:
    """One release has both where brokers and topics are the same."""
    assert with_values(_with_pipeline(**config), tmp_path)
