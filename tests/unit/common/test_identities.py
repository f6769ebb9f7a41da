"""The identity that settings give the agent for the brokers, and settings that make no sense."""

from __future__ import annotations

import pytest

from samerack.common.errors import SettingsError
from samerack.common.identities import (
    AwsIdentity,
    AzureManagedIdentity,
    AzureWorkloadIdentity,
    ClientCredentials,
    GoogleIdentity,
    identity,
    mechanism,
)

MSK = {"sasl.mechanism": "AWS_MSK_IAM", "security.protocol": "SASL_SSL"}
ELSEWHERE = {"AWS_REGION": "us-east-1"}


@pytest.mark.parametrize(
    ("servers", "region"),
    [
        ("b-1.orders.ab12cd.c2.kafka.eu-central-1.amazonaws.com:9098", "eu-central-1"),
        ("SASL_SSL://b-1.kafka.eu-central-1.amazonaws.com:9098, b-2.kafka.eu-central-1.amazonaws.com", "eu-central-1"),
        ("b-1-public.orders.ab12cd.c2.kafka.ap-southeast-2.amazonaws.com:9198", "ap-southeast-2"),
        ("boot-a1b2c3.c1.kafka-serverless.us-gov-west-1.amazonaws.com:9098", "us-gov-west-1"),
        ("b-1.orders.ab12cd.c2.kafka.cn-north-1.amazonaws.com.cn:9098", "cn-north-1"),
        ("B-1.ORDERS.AB12CD.C2.KAFKA.EU-WEST-1.AMAZONAWS.COM:9098", "eu-west-1"),
        ("kafka.internal:9098", "us-east-1"),
        ("b-1.kafka.eu-west-1.amazonaws.com.example:9098", "us-east-1"),
    ],
)
def test_the_region_is_in_the_brokers_names(servers: str, region: str) -> None:
    """MSK's broker names contain it; for other names the environment gives it."""
    assert identity({**MSK, "bootstrap.servers": servers}, ELSEWHERE) == AwsIdentity(region=region)


def test_the_region_may_be_set() -> None:
    """The setting overrides the brokers' names, and AWS_REGION overrides AWS_DEFAULT_REGION."""
    named = {**MSK, "bootstrap.servers": "b-1.c.kafka.eu-west-1.amazonaws.com:9098"}
    assert identity({**named, "sasl.oauthbearer.config": "region=sa-east-1"}, {}) == AwsIdentity(region="sa-east-1")
    other = {"AWS_DEFAULT_REGION": "eu-north-1"}
    assert identity({**MSK, "bootstrap.servers": "a:1"}, {**other, **ELSEWHERE}) == AwsIdentity(region="us-east-1")
    assert identity({**MSK, "bootstrap.servers": "a:1"}, other) == AwsIdentity(region="eu-north-1")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"bootstrap.servers": "a:1"}, "kafka.sasl.oauthbearer.config: is missing, and neither the brokers' names nor"),
        (
            {"bootstrap.servers": "b.kafka.eu-west-1.amazonaws.com:1,b.kafka.eu-west-2.amazonaws.com:1"},
            "kafka.bootstrap.servers: are in several regions (eu-west-1, eu-west-2)",
        ),
        ({"sasl.oauthbearer.config": "region"}, "kafka.sasl.oauthbearer.config: expected NAME=VALUE"),
        ({"sasl.oauthbearer.config": "region=a/b"}, "kafka.sasl.oauthbearer.config: expected region=REGION"),
        ({"sasl.oauthbearer.config": "role=arn"}, "kafka.sasl.oauthbearer.config: expected region=REGION"),
        ({"sasl.oauthbearer.method": "oidc"}, "kafka.sasl.oauthbearer.method: says nothing with AWS_MSK_IAM"),
        ({"sasl.oauthbearer.client.secret": "hidden"}, "kafka.sasl.oauthbearer.client.secret: says nothing with"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "kafka.security.protocol: SASL_PLAINTEXT; AWS_MSK_IAM needs"),
        ({"security.protocol": ""}, "kafka.security.protocol: is missing; AWS_MSK_IAM needs SASL_SSL"),
    ],
)
def test_what_makes_no_sense_for_aws(changed: dict[str, str], message: str) -> None:
    """The error names the wrong key, and shows no secret."""
    with pytest.raises(SettingsError) as raised:
        identity({**MSK, **changed}, {})
    assert str(raised.value).startswith(message)
    assert "hidden" not in str(raised.value)


def test_other_mechanisms_need_no_token() -> None:
    """A password is no token; of two names for the mechanism the last counts, as in librdkafka."""
    assert identity({"sasl.mechanism": "PLAIN"}, {}) is None
    assert identity({}, {}) is None
    assert mechanism({"sasl.mechanism": "PLAIN", "sasl.mechanisms": "aws_msk_iam"}) == "AWS_MSK_IAM"


AZURE = {
    "bootstrap.servers": "Orders.servicebus.windows.net:9093",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
}
KIND = "sasl.oauthbearer.metadata.authentication.type"
METADATA = "http://169.254.169.254/metadata/identity/oauth2/token"


def test_a_machine_of_azure_comes_as_its_identity() -> None:
    """The namespace is in the broker's name; librdkafka's own setting may contain the whole query."""
    asked = "api-version=2018-02-01&resource=https%3A%2F%2Forders.servicebus.windows.net"
    given = {**AZURE, KIND: "azure_imds"}
    assert identity(given, {}) == AzureManagedIdentity(endpoint=METADATA, query=asked)
    named = {**given, "sasl.oauthbearer.client.id": "me"}
    assert identity(named, {}) == AzureManagedIdentity(endpoint=METADATA, query=f"{asked}&client_id=me")
    own = {"sasl.oauthbearer.config": "query=api-version=1&resource=a", "bootstrap.servers": "a:1"}
    assert identity({**given, **own}, {}) == AzureManagedIdentity(endpoint=METADATA, query="api-version=1&resource=a")


def test_a_pod_of_azure_comes_as_its_identity() -> None:
    """The scope comes from the broker's name or is set; the rest comes from the environment or is set."""
    given = {**AZURE, KIND: "azure_workload_identity"}
    scope = "https://orders.servicebus.windows.net/.default"
    assert identity(given, {}) == AzureWorkloadIdentity(scope=scope)
    changed = {
        "bootstrap.servers": "kafka:9092",
        "sasl.oauthbearer.scope": "api://kafka/.default",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
    }
    assert identity({**given, **changed}, {}) == AzureWorkloadIdentity(
        scope="api://kafka/.default", client_id="me", endpoint="https://login.example/token"
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({KIND: "aws_iam"}, f"kafka.{KIND}: 'aws_iam' is none of azure_imds, "),
        ({"sasl.oauthbearer.method": "default"}, "kafka.sasl.oauthbearer.method: set it to oidc: tokens are those of"),
        ({"bootstrap.servers": "a:1"}, "kafka.sasl.oauthbearer.scope: is missing, and bootstrap.servers name no one"),
        ({"sasl.oauthbearer.config": "resource=a"}, "kafka.sasl.oauthbearer.config: expected query=QUERY"),
        ({"sasl.oauthbearer.client.secret": "hidden"}, "kafka.sasl.oauthbearer.client.secret: says nothing with azure"),
        ({"sasl.oauthbearer.token.endpoint.url": "file:///x"}, "kafka.sasl.oauthbearer.token.endpoint.url: 'file:"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "kafka.security.protocol: SASL_PLAINTEXT; azure_imds needs SASL_SSL"),
    ],
)
def test_what_makes_no_sense_for_azure(changed: dict[str, str], message: str) -> None:
    """The error names the wrong key, and shows no secret."""
    with pytest.raises(SettingsError) as raised:
        identity({**AZURE, KIND: "azure_imds", **changed}, {})
    assert str(raised.value).startswith(message)
    assert "hidden" not in str(raised.value)


def test_no_cloud_is_a_client_with_a_secret() -> None:
    """With librdkafka's value for no cloud, the token endpoint is used."""
    asked = {
        "sasl.oauthbearer.token.endpoint.url": "https://tokens.example/token",
        "sasl.oauthbearer.client.id": "agent",
        "sasl.oauthbearer.client.secret": "hidden",
    }
    found = identity({**AZURE, **asked, KIND: "none"}, {})
    assert isinstance(found, ClientCredentials)
    assert "hidden" not in repr(found)


def test_a_service_account_of_google() -> None:
    """No further setting is needed; one without an effect is refused."""
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        KIND: "gcp_metadata",
    }
    assert identity(given, {}) == GoogleIdentity()
    with pytest.raises(SettingsError, match=r"kafka\.sasl\.oauthbearer\.scope: says nothing with gcp_metadata"):
        identity({**given, "sasl.oauthbearer.scope": "kafka"}, {})
