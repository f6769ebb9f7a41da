"""Reads from the settings the identity with which the agent authenticates to brokers (OAUTHBEARER), and checks it.

Setting names are librdkafka's. `AWS_MSK_IAM` is a mechanism of Java clients; MSK brokers accept the same signature as
an OAUTHBEARER token, and both of the agent's clients send that.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from urllib.parse import urlencode

from samerack.common.errors import SettingsError


class TokenError(Exception):
    """There is no token; the message has the cause and the remedy, and no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token as its source returned it."""

    text: str = field(repr=False)
    seconds: float  # how long it is valid, from now
    principal: str = ""


AWS_MSK_IAM: Final = "AWS_MSK_IAM"
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISM_KEYS: Final = ("sasl.mechanism", "sasl.mechanisms")
METHOD: Final = "sasl.oauthbearer.method"
ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT: Final = "sasl.oauthbearer.client.id"
SECRET: Final = "sasl.oauthbearer.client.secret"  # noqa: S105 - the name of a setting
SCOPE: Final = "sasl.oauthbearer.scope"
EXTENSIONS: Final = "sasl.oauthbearer.extensions"
CONFIG: Final = "sasl.oauthbearer.config"
METADATA: Final = "sasl.oauthbearer.metadata.authentication.type"
AUTHORITY: Final = "https.ca.location"
KEYS: Final = frozenset({METHOD, ENDPOINT, CLIENT, SECRET, SCOPE, EXTENSIONS, CONFIG, METADATA, AUTHORITY})
"""Settings of the token source."""

_AWS_HOST: Final = re.compile(
    r"\.kafka(?:-serverless)?\.([a-z]{2}(?:-[a-z]+)+-\d+)\.(?:vpce\.)?amazonaws\.com(?:\.cn)?$"
)
"""Host names of MSK brokers, MSK Serverless included."""
AZURE_IMDS: Final = "azure_imds"
AZURE_WORKLOAD: Final = "azure_workload_identity"
GOOGLE: Final = "gcp_metadata"
_AZURE_HOST: Final = re.compile(r"[a-z0-9-]+\.servicebus\.(?:windows\.net|usgovcloudapi\.net|chinacloudapi\.cn)")
"""Host names of Event Hubs namespaces."""
_AZURE_METADATA: Final = "http://169.254.169.254/metadata/identity/oauth2/token"
_AZURE_VERSION: Final = "2018-02-01"
_REGION: Final = re.compile(r"[a-z0-9-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """A client id and its secret, which an endpoint exchanges for tokens (RFC 6749, section 4.4)."""

    endpoint: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""  # to request; "" for none
    authority: str = ""  # file of CA certificates (PEM) for the endpoint's certificate; "" for the system's


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsIdentity:
    """The IAM role or user that AWS gives to this process."""

    region: str
    authority: str = ""  # file of CA certificates (PEM) for the certificate of STS; "" for the system's


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureManagedIdentity:
    """The identity that Azure gives to the machine that this runs on."""

    endpoint: str  # URL of the token endpoint of its metadata service
    query: str  # of the request: the resource that the token is for, and the identity if the machine has several


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureWorkloadIdentity:
    """The identity that Microsoft Entra gives in exchange for the token of a Kubernetes ServiceAccount."""

    scope: str  # to request; it names the service that tokens are for
    client_id: str = ""  # of the identity; "" takes it from the environment
    endpoint: str = ""  # URL of Entra's token endpoint; "" takes it from the environment
    authority: str = ""  # file of CA certificates (PEM) for Entra's certificate; "" for the system's


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleIdentity:
    """The service account that Google Cloud gives to the machine or pod that this runs on."""


Identity: TypeAlias = ClientCredentials | AwsIdentity | AzureManagedIdentity | AzureWorkloadIdentity | GoogleIdentity


def mechanism(kafka: Mapping[str, str]) -> str:
    """Return the configured SASL mechanism in capitals; if both setting names are given, the last counts.

    This is what librdkafka does.
    """
    given = [text.upper() for key, text in kafka.items() if key in MECHANISM_KEYS]
    return given[-1] if given else ""


def other_names(kafka: Mapping[str, str]) -> frozenset[str]:
    """Return the other names of what these settings set: in weaker settings, keys with these names do not count."""
    return frozenset() if kafka.keys().isdisjoint(MECHANISM_KEYS) else frozenset(MECHANISM_KEYS) - kafka.keys()


def of_cloud(kafka: Mapping[str, str]) -> bool:
    """Return whether tokens are those of a cloud identity; then both clients use the same token provider."""
    chosen = mechanism(kafka)
    return chosen == AWS_MSK_IAM or (chosen == OAUTHBEARER and kafka.get(METADATA, "none") != "none")


def identity(kafka: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> Identity | None:
    """Return the identity to get tokens for, or None if the mechanism uses no tokens.

    Args:
        kafka: Kafka settings in librdkafka's names.
        environment: Environment variables, from which the AWS region may be read.

    Raises:
        SettingsError: A setting is missing or wrong.
    """
    chosen = mechanism(kafka)
    if chosen == AWS_MSK_IAM:
        return _aws(kafka, environment)
    if of_cloud(kafka):
        return _of_metadata(kafka)
    return _client_credentials(kafka) if chosen == OAUTHBEARER else None


def extensions(kafka: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the SASL extensions to send to the brokers with each token.

    Raises:
        SettingsError: The setting is not a list of NAME=VALUE.
    """
    return tuple(_pairs(kafka, EXTENSIONS).items())


def _client_credentials(kafka: Mapping[str, str]) -> ClientCredentials:
    if kafka.get(METHOD) != "oidc":
        raise SettingsError(f"kafka.{METHOD}: set it to oidc: tokens are fetched from kafka.{ENDPOINT}")
    missing = [key for key in (ENDPOINT, CLIENT, SECRET) if not kafka.get(key)]
    if missing:
        raise SettingsError(f"kafka.{missing[0]}: is missing; fetching tokens needs {ENDPOINT}, {CLIENT}, {SECRET}")
    if CONFIG in kafka:
        raise SettingsError(f"kafka.{CONFIG}: has no effect when tokens come from kafka.{ENDPOINT}; remove it")
    return ClientCredentials(
        endpoint=_url(kafka[ENDPOINT]),
        client_id=kafka[CLIENT],
        client_secret=kafka[SECRET],
        scope=kafka.get(SCOPE, ""),
        authority=kafka.get(AUTHORITY, ""),
    )


def _aws(kafka: Mapping[str, str], environment: Mapping[str, str]) -> AwsIdentity:
    _check_keys(kafka, {CONFIG, AUTHORITY}, AWS_MSK_IAM)
    given = _pairs(kafka, CONFIG)
    if given.keys() - {"region"} or ("region" in given and not _REGION.fullmatch(given["region"])):
        raise SettingsError(f"kafka.{CONFIG}: expected region=REGION, such as region=eu-central-1, or nothing")
    region = given.get("region") or _region_of(kafka)
    region = region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or ""
    if not _REGION.fullmatch(region):
        raise SettingsError(
            f"kafka.{CONFIG}: is missing, and neither the broker names nor AWS_REGION give the region; set it to "
            "region=REGION, such as region=eu-central-1"
        )
    return AwsIdentity(region=region, authority=kafka.get(AUTHORITY, ""))


def _of_metadata(kafka: Mapping[str, str]) -> Identity:
    kind = kafka[METADATA]
    if kind not in _METADATA:
        raise SettingsError(
            f"kafka.{METADATA}: {kind!r} is not one of {', '.join(_METADATA)}; for Amazon MSK set sasl.mechanism to "
            f"{AWS_MSK_IAM}"
        )
    if kafka.get(METHOD) != "oidc":
        raise SettingsError(f"kafka.{METHOD}: set it to oidc: tokens are those of {kind}")
    return _METADATA[kind](kafka)


def _azure_managed(kafka: Mapping[str, str]) -> AzureManagedIdentity:
    _check_keys(kafka, {METHOD, METADATA, ENDPOINT, CLIENT, SCOPE, CONFIG}, AZURE_IMDS)
    given = _pairs(kafka, CONFIG)
    if given.keys() - {"query"}:
        raise SettingsError(f"kafka.{CONFIG}: expected query=QUERY of Azure's metadata service, or nothing")
    query = given.get("query", "")
    if not query:
        asked = {"api-version": _AZURE_VERSION, "resource": _azure_scope(kafka).removesuffix("/.default")}
        query = urlencode({**asked, **({"client_id": kafka[CLIENT]} if kafka.get(CLIENT) else {})})
    return AzureManagedIdentity(endpoint=_url(kafka.get(ENDPOINT, _AZURE_METADATA)), query=query)


def _azure_workload(kafka: Mapping[str, str]) -> AzureWorkloadIdentity:
    _check_keys(kafka, {METHOD, METADATA, ENDPOINT, CLIENT, SCOPE, AUTHORITY}, AZURE_WORKLOAD)
    return AzureWorkloadIdentity(
        scope=_azure_scope(kafka),
        client_id=kafka.get(CLIENT, ""),
        endpoint=_url(kafka[ENDPOINT]) if kafka.get(ENDPOINT) else "",
        authority=kafka.get(AUTHORITY, ""),
    )


def _google(kafka: Mapping[str, str]) -> GoogleIdentity:
    _check_keys(kafka, {METHOD, METADATA}, GOOGLE)
    return GoogleIdentity()


def _azure_scope(kafka: Mapping[str, str]) -> str:
    """Return the configured scope, or else that of the Event Hubs namespace in the brokers' host names."""
    if kafka.get(SCOPE):
        return kafka[SCOPE]
    found = sorted({host for host in _hosts(kafka) if _AZURE_HOST.fullmatch(host)})
    if len(found) != 1:
        raise SettingsError(
            f"kafka.{SCOPE}: is missing, and bootstrap.servers does not name exactly one Event Hubs namespace; set it "
            "to the audience of the tokens, such as https://NAMESPACE.servicebus.windows.net/.default"
        )
    return f"https://{found[0]}/.default"


_METADATA: Final[Mapping[str, Callable[[Mapping[str, str]], Identity]]] = {
    AZURE_IMDS: _azure_managed,
    AZURE_WORKLOAD: _azure_workload,
    GOOGLE: _google,
}


def _check_keys(kafka: Mapping[str, str], known: AbstractSet[str], what: str) -> None:
    """Refuse keys that have no effect, and connections without TLS, on which a token could be read and reused."""
    strange = sorted(KEYS.intersection(kafka) - known - {EXTENSIONS})
    if strange:
        raise SettingsError(f"kafka.{strange[0]}: has no effect with {what}; remove it")
    if (protocol := kafka.get("security.protocol", "")).upper() != "SASL_SSL":
        raise SettingsError(
            f"kafka.security.protocol: {protocol or 'is missing'}; {what} needs SASL_SSL: anyone who reads a token can "
            "use it"
        )


def _url(text: str) -> str:
    if "@" in text:  # the address is in messages
        raise SettingsError(f"kafka.{ENDPOINT}: has a user or password; use {CLIENT} and {SECRET}")
    if not text.startswith(("https://", "http://")):
        raise SettingsError(f"kafka.{ENDPOINT}: {text!r} is not a URL that begins with https://")
    return text


def _hosts(kafka: Mapping[str, str]) -> list[str]:
    servers = kafka.get("bootstrap.servers", "").split(",")
    return [server.strip().rpartition("://")[2].partition(":")[0].lower() for server in servers]


def _region_of(kafka: Mapping[str, str]) -> str:
    """Return the one region in the brokers' host names, or "" if there is none."""
    regions = sorted({found.group(1) for host in _hosts(kafka) if (found := _AWS_HOST.search(host))})
    if len(regions) > 1:
        raise SettingsError(
            f"kafka.bootstrap.servers: are in several regions ({', '.join(regions)}); list brokers of one cluster only"
        )
    return regions[0] if regions else ""


def _pairs(kafka: Mapping[str, str], key: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in kafka.get(key, "").split(",") if pair.strip()]
    if not all(equals and name.strip() for name, equals, _ in pairs):
        raise SettingsError(f"kafka.{key}: expected NAME=VALUE[,NAME=VALUE...]")
    return {name.strip(): value for name, _, value in pairs}
