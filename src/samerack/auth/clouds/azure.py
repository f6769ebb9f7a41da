"""Fetches tokens of Microsoft Entra for a machine (managed identity) or a Kubernetes ServiceAccount.

Both are JWTs that brokers check by themselves; Azure calls the second a workload identity.

Sources: Microsoft, "How to use managed identities on an Azure VM to acquire an access token"; "OAuth 2.0 client
credentials flow", third case: a federated credential. The variables are those that Azure's webhook sets in pods.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

from samerack.auth import identities
from samerack.auth.clouds.asking import (
    METADATA_SECONDS,
    SECONDS,
    asked_at,
    bearer,
    check_clock,
    file_text,
    reason_of,
    secure,
)
from samerack.auth.identities import AzureManagedIdentity, AzureWorkloadIdentity, Token, TokenError

CURE: Final = (
    f"check that the identity has a data role (docs/clouds.md), that kafka.{identities.SCOPE} is what the brokers "
    "expect, and the clocks"
)
_NEAR: Final = ("169.254.169.254",)
_LOGIN: Final = "https://login.microsoftonline.com/"
_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_CURES: Final[Mapping[str, str]] = {
    "AADSTS70021": "give the identity a federated credential for this cluster's issuer and this ServiceAccount",
    "AADSTS700016": "AZURE_CLIENT_ID must be an identity of the tenant AZURE_TENANT_ID",
    "AADSTS500011": f"kafka.{identities.SCOPE} must be a resource that the tenant knows",
}
"""Hints by the start of Entra's error number: 700211, 700212 and 700213 say which part of a credential differs."""


def managed(identity: AzureManagedIdentity) -> Token:
    """Fetch a token of the machine's identity from its metadata service.

    Raises:
        TokenError: There is no such service or identity.
    """
    endpoint = secure(f"kafka.{identities.ENDPOINT}", identity.endpoint, near=_NEAR)
    who = f"Azure's metadata service ({endpoint})"
    metadata = {"Metadata": "true"}
    answer = asked_at(who, endpoint, query=identity.query, seconds=METADATA_SECONDS, headers=metadata)
    if answer.status != 200:
        raise TokenError(
            f"{who} answers {answer.status}: {reason_of(answer, 'error_description', 'error')}; give the machine a "
            f"managed identity; if it has several, name one in kafka.{identities.CLIENT}"
        )
    check_clock(who, answer)
    return bearer(who, answer)


def workload(identity: AzureWorkloadIdentity, environment: Mapping[str, str] = os.environ) -> Token:
    """Exchange the token of a ServiceAccount for a token of Entra.

    Raises:
        TokenError: The environment does not contain the identity, or Entra refuses.
    """
    client = identity.client_id or _variable(environment, "AZURE_CLIENT_ID")
    path = _variable(environment, "AZURE_FEDERATED_TOKEN_FILE")
    given = identity.endpoint and secure(f"kafka.{identities.ENDPOINT}", identity.endpoint)
    endpoint = given or _endpoint(environment)
    form = {
        "grant_type": "client_credentials",
        "client_id": client,
        "scope": identity.scope,
        "client_assertion_type": _ASSERTION,
        "client_assertion": file_text("AZURE_FEDERATED_TOKEN_FILE", path),
    }
    who = f"Microsoft Entra ({endpoint})"
    answer = asked_at(
        who,
        endpoint,
        authority=identity.authority,
        seconds=SECONDS,
        method="POST",
        headers={"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"},
        body=urlencode(form).encode(),
    )
    check_clock(who, answer)
    if answer.status != 200:
        reason = reason_of(answer, "error_description", "error")
        cure = next((cure for number, cure in _CURES.items() if reason.startswith(number)), "")
        raise TokenError(
            f"{who} refuses the identity {client}: {reason}; "
            f"{cure or 'check its federated credential, AZURE_CLIENT_ID and AZURE_TENANT_ID'}"
        )
    return bearer(who, answer)


def _endpoint(environment: Mapping[str, str]) -> str:
    host = secure("AZURE_AUTHORITY_HOST", environment.get("AZURE_AUTHORITY_HOST") or _LOGIN)
    tenant = quote(_variable(environment, "AZURE_TENANT_ID"), safe="")
    return f"{host.rstrip('/')}/{tenant}/oauth2/v2.0/token"


def _variable(environment: Mapping[str, str], name: str) -> str:
    text = environment.get(name, "")
    if not text:
        raise TokenError(
            f'{name}: is not set; Azure sets it in pods with the label azure.workload.identity/use: "true" and a '
            "ServiceAccount that names an identity (docs/clouds.md)"
        )
    return text
