"""Tokens of Microsoft Entra from a cloud on loopback, and the errors if there is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from samerack.auth.clouds import azure
from samerack.auth.identities import AzureManagedIdentity, AzureWorkloadIdentity, Token, TokenError
from tests.clouds.http_server import Answer
from tests.clouds.servers import Azure
from tests.unit.auth.clouds.strange import Strange

CLIENT = "66666666-7777-8888-9999-000000000000"
SCOPE = "https://orders.servicebus.windows.net/.default"
TEXT = "e30.e30.of-entra"
QUERY = {"api-version": "2018-02-01", "resource": "https://orders.servicebus.windows.net"}


@pytest.fixture
def cloud() -> Iterator[Azure]:
    """A cloud that knows one identity."""
    with Azure(lambda: TEXT, client=CLIENT, scope=SCOPE) as server:
        yield server


def machine(cloud: Azure, **changed: str) -> Token:
    """The token from the machine's metadata service."""
    return azure.managed(AzureManagedIdentity(endpoint=cloud.metadata_url, query=urlencode({**QUERY, **changed})))


def refused_pod(cloud: Azure, variables: dict[str, str], identity: AzureWorkloadIdentity | None = None) -> str:
    """The error if Entra gives no token, in one line without any secret."""
    with pytest.raises(TokenError) as raised:
        azure.workload(identity or AzureWorkloadIdentity(scope=SCOPE), variables)
    text = str(raised.value)
    assert cloud.account_token not in text
    assert "\n" not in text
    return text


def test_a_machine_has_an_identity(cloud: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    """The metadata service gives a token, and no proxy is used; the identity may be named."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert machine(cloud) == Token(text=TEXT, seconds=3600)
    assert machine(cloud, client_id=CLIENT).seconds == 3600


def test_a_pod_has_an_identity(cloud: Azure, tmp_path: Path) -> None:
    """The token of its ServiceAccount is read each time, and Entra exchanges it for its own."""
    variables = cloud.for_workload(tmp_path)
    assert azure.workload(AzureWorkloadIdentity(scope=SCOPE), variables) == Token(text=TEXT, seconds=3600)
    cloud.account_token = "another"  # noqa: S105 - of this test
    cloud.for_workload(tmp_path)
    assert azure.workload(AzureWorkloadIdentity(scope=SCOPE), variables).text == TEXT


def test_settings_count_before_the_environment(cloud: Azure, tmp_path: Path) -> None:
    """Client id and endpoint may be set; then only the file comes from the environment."""
    file = {"AZURE_FEDERATED_TOKEN_FILE": cloud.for_workload(tmp_path)["AZURE_FEDERATED_TOKEN_FILE"]}
    endpoint = f"{cloud.url}/11111111-2222-3333-4444-555555555555/oauth2/v2.0/token"
    identity = AzureWorkloadIdentity(scope=SCOPE, client_id=CLIENT, endpoint=endpoint)
    assert azure.workload(identity, file).text == TEXT


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"client_id": "other"}, "answers 400: Identity not found; give the machine a managed identity"),
        ({"resource": "https://other"}, "answers 400: AADSTS500011: The resource principal was not found"),
    ],
)
def test_a_machine_that_is_refused(cloud: Azure, changed: dict[str, str], words: str) -> None:
    """One line contains the server, the reason and the advice."""
    with pytest.raises(TokenError) as raised:
        machine(cloud, **changed)
    assert str(raised.value).startswith(f"Azure's metadata service ({cloud.metadata_url}) ")
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"AZURE_CLIENT_ID": "other"}, "refuses the identity other: AADSTS700016: Application was not found"),
        ({"AZURE_CLIENT_ID": "other"}, "; AZURE_CLIENT_ID must be an identity of the tenant AZURE_TENANT_ID"),
        ({"AZURE_CLIENT_ID": ""}, "AZURE_CLIENT_ID: is not set; Azure sets it in pods with the label azure.workload"),
        ({"AZURE_TENANT_ID": ""}, "AZURE_TENANT_ID: is not set; "),
        ({"AZURE_TENANT_ID": "other"}, "refuses the identity 66666666-7777-8888-9999-000000000000: no reason given"),
        ({"AZURE_FEDERATED_TOKEN_FILE": ""}, "AZURE_FEDERATED_TOKEN_FILE: is not set; "),
        ({"AZURE_FEDERATED_TOKEN_FILE": "/absent"}, "AZURE_FEDERATED_TOKEN_FILE: /absent cannot be read"),
        ({"AZURE_AUTHORITY_HOST": "http://login.example/"}, "AZURE_AUTHORITY_HOST: http://login.example/ is not a URL"),
        ({"AZURE_AUTHORITY_HOST": "http://127.0.0.1:1/"}, "does not answer: http://127.0.0.1:1: Connection refused"),
    ],
)
def test_a_pod_that_is_refused(cloud: Azure, tmp_path: Path, changed: dict[str, str], words: str) -> None:
    """The error names what the environment lacks or Entra refuses, with advice."""
    assert words in refused_pod(cloud, {**cloud.for_workload(tmp_path), **changed})


def test_a_credential_that_entra_does_not_know(cloud: Azure, tmp_path: Path) -> None:
    """The error says what to create; Entra's trace stays on the same line."""
    variables = cloud.for_workload(tmp_path)
    cloud.account_token = "another"  # noqa: S105 - of this test
    text = refused_pod(cloud, variables)
    assert (
        "AADSTS700213: No matching federated identity record found Trace ID: 1; give the identity a federated "
        "credential"
    ) in text


def test_a_scope_that_entra_does_not_know(cloud: Azure, tmp_path: Path) -> None:
    """The error names the setting to correct."""
    text = refused_pod(cloud, cloud.for_workload(tmp_path), AzureWorkloadIdentity(scope="https://other/.default"))
    assert text.endswith("; kafka.sasl.oauthbearer.scope must be a resource that the tenant knows")


@pytest.mark.parametrize("ahead", [400, -400])
def test_a_clock_that_is_wrong(cloud: Azure, tmp_path: Path, ahead: float) -> None:
    """A token that another clock makes invalid is explained before a broker refuses it."""
    cloud.clock_ahead = ahead
    assert f"s {'behind' if ahead > 0 else 'ahead of'} that of Microsoft Entra" in refused_pod(
        cloud, cloud.for_workload(tmp_path)
    )
    with pytest.raises(TokenError, match="that of Azure's metadata service"):
        machine(cloud)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "did not return a JSON object"),
        ("[]", "did not return a JSON object"),
        ("{}", "returned neither access_token nor expires_in"),
        ('{"access_token": "x", "expires_in": "soon"}', "returned neither access_token nor expires_in"),
        ('{"access_token": "x", "expires_in": 0}', "returned a token that is empty or expired"),
        ('{"access_token": "", "expires_in": 60}', "returned a token that is empty or expired"),
        ('{"access_token": "x", "expires_in": "NaN"}', "returned a token that is empty or expired"),
    ],
)
def test_what_is_no_token(text: str, words: str) -> None:
    """If an answer contains no token, the error says what is missing."""
    with Strange(Answer(text=text)) as server, pytest.raises(TokenError, match=words):
        azure.managed(AzureManagedIdentity(endpoint=f"{server.url}/token", query=""))


def test_an_endpoint_that_others_could_read() -> None:
    """A token is never sent unencrypted over a network."""
    with pytest.raises(TokenError, match=r"token\.endpoint\.url: http://10\.0\.0\.1/ is not a URL that begins"):
        azure.managed(AzureManagedIdentity(endpoint="http://10.0.0.1/", query=""))
