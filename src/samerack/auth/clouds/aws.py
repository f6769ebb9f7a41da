"""Makes tokens for Amazon MSK: a signed request `kafka-cluster:Connect` as text, which the brokers verify with AWS.

Its form is that of AWS's own signers for OAUTHBEARER (aws-msk-iam-sasl-signer-go, -js, -python): the URL of a request
that is never sent, signed for 900 seconds, in base64 without padding. kafka-python signs the same request for its own
SASL mechanism; signing needs no network (AWS, "Signature Version 4 for API requests",
docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html).

Credentials come, in the order of AWS's own libraries, from the environment, a web identity (IRSA), a container (EKS Pod
Identity, ECS) or the instance's metadata (IMDSv2). Profile files are not read: they are for people. The names of
variables and the addresses are AWS's (AWS SDKs and Tools Reference Guide, "Standardized credential providers").
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final
from urllib.parse import quote, urlencode
from xml.etree import ElementTree as ET

from kafka.net.sasl.msk import AwsMskIamClient

from samerack.auth.clouds.asking import (
    METADATA_SECONDS,
    SECONDS,
    asked,
    asked_at,
    check_clock,
    file_text,
    line,
    parsed,
    reason_of,
    secure,
    trust,
)
from samerack.auth.identities import AwsIdentity, Token, TokenError
from samerack.common.fetching import HttpAnswer

CURE: Final = (
    "check that the role's IAM policy allows kafka-cluster:Connect on the cluster (docs/clouds.md), that the cluster "
    "is in the region that the brokers' names or kafka.sasl.oauthbearer.config say, and the clocks"
)
_TOKEN_SECONDS: Final = 900
_EARLY_SECONDS: Final = 1800.0
"""Credentials that expire sooner are replaced when the next token is signed."""
_MIN_SECONDS: Final = 30.0
"""Credentials that expire sooner are not used."""
_AGENT: Final = "samerack"
_SIGNED: Final = {
    "Action": "action",
    "X-Amz-Algorithm": "x-amz-algorithm",
    "X-Amz-Credential": "x-amz-credential",
    "X-Amz-Date": "x-amz-date",
    "X-Amz-Expires": "x-amz-expires",
    "X-Amz-Security-Token": "x-amz-security-token",
    "X-Amz-SignedHeaders": "x-amz-signedheaders",
    "X-Amz-Signature": "x-amz-signature",
}
"""The parameters of a signed URL, in the order in which they are signed, by what kafka-python calls them."""


def fetch(identity: AwsIdentity) -> Token:
    """Make a token for this identity; the process caches the credentials.

    Raises:
        TokenError: There are no credentials.
    """
    return _signer(identity).token()


class Signer:
    """Signs tokens, and caches the credentials until shortly before they expire."""

    def __init__(self, identity: AwsIdentity, environment: Mapping[str, str] = os.environ) -> None:
        self._identity = identity
        self._environment = environment
        self._kept: Credentials | None = None

    def token(self) -> Token:
        """Return a token, valid for 900 seconds or until the credentials expire.

        Raises:
            TokenError: There are no credentials.
        """
        credentials = self._credentials()
        now = time.time()
        # the user agent is for AWS's logs, and is not signed
        url = f"{_presigned(credentials, self._identity.region)}&User-Agent={_AGENT}"
        text = base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
        return Token(text=text, seconds=min(_TOKEN_SECONDS, _left(credentials, now)), principal=credentials.key)

    def _credentials(self) -> Credentials:
        now = time.time()
        if self._kept is None or _left(self._kept, now) < _EARLY_SECONDS:
            try:
                self._kept = find(self._identity, self._environment)
            except TokenError:
                if self._kept is None or _left(self._kept, now) < _MIN_SECONDS:
                    raise
        return self._kept


@cache
def _signer(identity: AwsIdentity) -> Signer:
    return Signer(identity)


def _left(credentials: Credentials, now: float) -> float:
    return float("inf") if credentials.ends is None else credentials.ends - now


_ECS: Final = "169.254.170.2"
_NEAR: Final = (_ECS, "169.254.170.23", "fd00:ec2::23")
"""Addresses at which ECS and EKS give credentials to containers; they are local to this machine."""
_INSTANCE: Final = "http://169.254.169.254"
_ROLES: Final = "/latest/meta-data/iam/security-credentials/"
_STS: Final = "STS"
_STS_CURES: Final[Mapping[str, str]] = {
    "AccessDenied": "the role's trust policy must allow sts:AssumeRoleWithWebIdentity to this cluster's OIDC provider "
    "and to system:serviceaccount:NAMESPACE:NAME of this pod",
    "ExpiredTokenException": "the token in AWS_WEB_IDENTITY_TOKEN_FILE has expired; check the clocks, and restart the "
    "pod if Kubernetes does not renew it",
    "InvalidIdentityToken": "add the OIDC issuer of this Kubernetes cluster to the account's identity providers, with "
    "the audience sts.amazonaws.com",
}
_SET: Final = "give the ServiceAccount a role (docs/clouds.md)"


def find(identity: AwsIdentity, environment: Mapping[str, str]) -> Credentials:
    """Return the credentials of the first source that is configured, or the instance's if none is.

    Raises:
        TokenError: No source is configured and the instance has none, or the configured source gives none.
    """
    found = _of_environment(environment) or _of_web_identity(identity, environment) or _of_container(environment)
    if found is not None:
        return found
    try:
        return _of_instance(environment)
    except TokenError as error:
        raise TokenError(
            "no AWS credentials: neither AWS_ACCESS_KEY_ID, AWS_WEB_IDENTITY_TOKEN_FILE nor "
            f"AWS_CONTAINER_CREDENTIALS_FULL_URI is set, and {error}"
        ) from None


def _of_environment(environment: Mapping[str, str]) -> Credentials | None:
    """Return access key, secret and session token from the environment variables."""
    key, secret = (environment.get(name, "") for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))
    if not key and not secret:
        return None
    if not key or not secret:
        missing = "AWS_SECRET_ACCESS_KEY" if key else "AWS_ACCESS_KEY_ID"
        raise TokenError(f"{missing}: is missing, but the other half is set; set both or neither")
    return Credentials(key=key, secret=secret, session=environment.get("AWS_SESSION_TOKEN", ""))


def _of_web_identity(identity: AwsIdentity, environment: Mapping[str, str]) -> Credentials | None:
    """Get credentials of a role from STS for the token of a Kubernetes ServiceAccount (IRSA)."""
    role, path = (environment.get(name, "") for name in ("AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"))
    if not path:
        return None
    if not role:
        raise TokenError("AWS_ROLE_ARN: is missing, but AWS_WEB_IDENTITY_TOKEN_FILE is set; set both or neither")
    form = {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": "2011-06-15",
        "RoleArn": role,
        "RoleSessionName": environment.get("AWS_ROLE_SESSION_NAME") or "samerack",
        "WebIdentityToken": file_text("AWS_WEB_IDENTITY_TOKEN_FILE", path),
    }
    url = _sts_url(identity.region, environment)
    answer = asked(
        _STS,
        url,
        "/",
        seconds=SECONDS,
        method="POST",
        headers={"Content-Type": "application/x-www-form-urlencoded"},
        body=urlencode(form).encode(),
        tls=trust(identity.authority) if url.startswith("https://") else None,
    )
    check_clock(f"{_STS} ({url})", answer)
    fields = _xml(answer)
    if answer.status != 200:
        code, message = (fields.get(name, "") for name in ("Code", "Message"))
        answer_text = f"{line(code)}: {line(message)}" if code else f"answers {answer.status}"
        raise TokenError(
            f"{_STS} ({url}) refuses the role {role}: {answer_text}; "
            f"{_STS_CURES.get(code, 'check AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE')}"
        )
    return _credentials(f"{_STS} ({url})", {**fields, "Token": fields.get("SessionToken", "")})


def _sts_url(region: str, environment: Mapping[str, str]) -> str:
    given = environment.get("AWS_ENDPOINT_URL_STS", "")
    if given:
        return secure("AWS_ENDPOINT_URL_STS", given)
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or region
    return f"https://sts.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"


def _of_container(environment: Mapping[str, str]) -> Credentials | None:
    """Get the credentials that EKS Pod Identity or ECS gives to this container."""
    variable = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
    relative, url = environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", ""), environment.get(variable)
    if relative:
        variable, url = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", f"http://{_ECS}{relative}"
    if not url:
        return None
    who = f"{variable} {secure(variable, url, near=_NEAR)}"
    answer = asked_at(who, url, seconds=METADATA_SECONDS, headers=_authorization(environment))
    if answer.status != 200:
        raise TokenError(
            f"{who} answers {answer.status}: {reason_of(answer, 'message', 'Message')}; check the Pod Identity "
            "association of this ServiceAccount (aws eks list-pod-identity-associations), or the task's role, and its "
            "trust policy"
        )
    check_clock(who, answer)
    return _credentials(who, parsed(who, answer))


def _authorization(environment: Mapping[str, str]) -> dict[str, str]:
    path = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "")
    token = file_text("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path) if path else ""
    token = token or environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
    return {"Authorization": token} if token else {}


def _of_instance(environment: Mapping[str, str]) -> Credentials:
    """Get the credentials of the instance's role from IMDSv2, which requires a token; IMDSv1 is not used."""
    if environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        raise TokenError(f"AWS_EC2_METADATA_DISABLED is true; {_SET}")
    given = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "").rstrip("/")
    url = secure("AWS_EC2_METADATA_SERVICE_ENDPOINT", given, near=("169.254.169.254", "fd00:ec2::254")) if given else ""
    url = url or _INSTANCE
    who = f"instance metadata ({url})"
    try:
        life = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        proof = asked(who, url, "/latest/api/token", seconds=METADATA_SECONDS, method="PUT", headers=life)
    except TokenError as error:
        raise TokenError(f"{error}; {_SET}, or let containers reach it (a hop limit of 2)") from None
    headers = {"X-aws-ec2-metadata-token": _text(who, proof)}
    role = _text(who, asked(who, url, _ROLES, seconds=METADATA_SECONDS, headers=headers)).partition("\n")[0].strip()
    answer = asked(who, url, _ROLES + quote(role, safe=""), seconds=METADATA_SECONDS, headers=headers)
    check_clock(who, answer)
    _text(who, answer)
    return _credentials(who, parsed(who, answer))


def _text(who: str, answer: HttpAnswer) -> str:
    text = answer.body.decode(errors="replace").strip()
    if answer.status == 404:
        raise TokenError(f"{who} knows no role of this instance; {_SET}, or the instance a profile")
    if answer.status != 200 or not text:
        raise TokenError(f"{who} answers {answer.status}; {_SET}")
    return text


def _xml(answer: HttpAnswer) -> dict[str, str]:
    """Return the texts in an answer by element name; none if it is not XML."""
    try:
        root = ET.fromstring(answer.body)  # noqa: S314 - short, over TLS; expat bounds entities
    except ET.ParseError:
        return {}
    return {one.tag.rpartition("}")[2]: one.text.strip() for one in root.iter() if one.text and one.text.strip()}


def _credentials(who: str, found: Mapping[str, Any]) -> Credentials:
    """Read credentials from a mapping with AWS's names, and refuse what is incomplete or expired."""
    if found.get("Code", "Success") != "Success":
        raise TokenError(f"{who} gives no credentials: {line(str(found['Code']))}; check the role's trust policy")
    try:
        ends = datetime.fromisoformat(str(found["Expiration"])).timestamp()
        key, secret, session = (str(found[name]) for name in ("AccessKeyId", "SecretAccessKey", "Token"))
    except (KeyError, ValueError, OverflowError):
        raise TokenError(
            f"{who} did not return AccessKeyId, SecretAccessKey, token and Expiration; is it an AWS service?"
        ) from None
    if not key or not secret or not session:
        raise TokenError(f"{who} returned empty credentials; is it an AWS service?")
    now = time.time()
    if ends <= now:
        ended, here = (datetime.fromtimestamp(one, UTC).isoformat(timespec="seconds") for one in (ends, now))
        raise TokenError(f"{who} returned credentials that expired at {ended}, but it is {here} here; check the clocks")
    return Credentials(key=key, secret=secret, session=session, ends=ends)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """AWS credentials."""

    key: str  # the access key's id, which is not secret
    secret: str = field(repr=False)
    session: str = field(default="", repr=False)  # token of temporary credentials
    ends: float | None = None  # when they expire, in seconds since 1970; None for never


def _presigned(credentials: Credentials, region: str) -> str:
    """Return a signed URL of a GET request; anyone who has it may use it, repeatedly, until it expires."""
    host = f"kafka.{region}.amazonaws.com"
    client = AwsMskIamClient(host, credentials.key, credentials.secret, region, credentials.session)
    signed = json.loads(client.first_message())
    query = {name: signed[key] for name, key in _SIGNED.items() if key in signed}
    return f"https://{host}/?{urlencode(query, quote_via=quote, safe='-._~')}"
