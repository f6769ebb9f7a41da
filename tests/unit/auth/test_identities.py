"""The identity that settings give the agent for the brokers, and settings that make no sense."""

from __future__ import annotations

import pytest

from samerack.auth.identities import (
    AwsIdentity,
    AzureManagedIdentity,
    AzureWorkloadIdentity,
    ClientCredentials,
    GoogleIdentity,
    identity,
    mechanism,
)
from samerack.common.errors import SettingsError

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


GOOGLE = {key: AZURE[key] for key in ("security.protocol", "sasl.mechanism", "sasl.oauthbearer.method")}
GOOGLE[KIND] = "gcp_metadata"
CONFIG, METHOD = "sasl.oauthbearer.config", "sasl.oauthbearer.method"
HIDDEN = "sasl.oauthbearer.client.secret"
SERVERS, PROTOCOL, URL = "bootstrap.servers", "security.protocol", "sasl.oauthbearer.token.endpoint.url"
TWO_REGIONS = "b.kafka.eu-west-1.amazonaws.com:1,b.kafka.eu-west-2.amazonaws.com:1"


def test_a_service_account_of_google_needs_no_further_setting() -> None:
    """The machine's metadata say who it is."""
    assert identity(GOOGLE, {}) == GoogleIdentity()


@pytest.mark.parametrize(
    ("given", "key", "value", "message"),
    [
        (MSK, SERVERS, "a:1", f"kafka.{CONFIG}: is missing, and neither the broker names nor"),
        (MSK, SERVERS, TWO_REGIONS, "kafka.bootstrap.servers: are in several regions (eu-west-1, eu-west-2)"),
        (MSK, CONFIG, "region", f"kafka.{CONFIG}: expected NAME=VALUE"),
        (MSK, CONFIG, "region=a/b", f"kafka.{CONFIG}: expected region=REGION"),
        (MSK, CONFIG, "role=arn", f"kafka.{CONFIG}: expected region=REGION"),
        (MSK, METHOD, "oidc", f"kafka.{METHOD}: has no effect with AWS_MSK_IAM"),
        (MSK, HIDDEN, "hidden", f"kafka.{HIDDEN}: has no effect with"),
        (MSK, PROTOCOL, "SASL_PLAINTEXT", "kafka.security.protocol: SASL_PLAINTEXT; AWS_MSK_IAM needs"),
        (MSK, PROTOCOL, "", "kafka.security.protocol: is missing; AWS_MSK_IAM needs SASL_SSL"),
        (AZURE, KIND, "aws_iam", f"kafka.{KIND}: 'aws_iam' is not one of azure_imds, "),
        (AZURE, METHOD, "default", f"kafka.{METHOD}: set it to oidc"),
        (AZURE, SERVERS, "a:1", "kafka.sasl.oauthbearer.scope: is missing"),
        (AZURE, CONFIG, "resource=a", f"kafka.{CONFIG}: expected query=QUERY"),
        (AZURE, HIDDEN, "hidden", f"kafka.{HIDDEN}: has no effect with azure"),
        (AZURE, URL, "file:///x", f"kafka.{URL}: 'file:"),
        (AZURE, URL, "https://u:hidden@h/x", f"kafka.{URL}: has a user or password; "),
        (AZURE, URL, "u:hidden@h/x", f"kafka.{URL}: has a user or password; "),
        (AZURE, PROTOCOL, "SASL_PLAINTEXT", "kafka.security.protocol: SASL_PLAINTEXT; azure_imds needs SASL_SSL"),
        (GOOGLE, "sasl.oauthbearer.scope", "kafka", "kafka.sasl.oauthbearer.scope: has no effect with gcp_metadata"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, str], key: str, value: str, message: str) -> None:
    """The error names the wrong key, and shows no secret."""
    with pytest.raises(SettingsError) as raised:
        identity({KIND: "azure_imds", **given, key: value} if given is AZURE else {**given, key: value}, {})
    assert str(raised.value).startswith(message)
    assert "hidden" not in str(raised.value)
