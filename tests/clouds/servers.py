"""Simulates the credential and token services of clouds on loopback, as strict as the real ones.

AWS: STS accepts the token of one ServiceAccount for one role; containers send the token from their file (EKS Pod
Identity); instance metadata (IMDSv2) first require their own token. Azure: Entra accepts the token of one
ServiceAccount for one identity; a machine's metadata service answers requests with the header `Metadata: true`. The
token endpoint for SASL OAUTHBEARER signs JWTs with its own key and publishes the key as JWKS.
"""

import base64
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote

from tests.clouds.certificates import openssl
from tests.clouds.http_server import Answer, Asked, Server

ROLE: Final = "arn:aws:iam::111122223333:role/samerack"
_PROOF: Final = "metadata-token"
_CONTAINER: Final = "/v1/credentials"
_INSTANCE: Final = "/latest/meta-data/iam/security-credentials/"
_TENANT: Final = "11111111-2222-3333-4444-555555555555"
_AZURE_METADATA: Final = "/metadata/identity/oauth2/token"
_GOOGLE: Final = "/computeMetadata/v1/instance/service-accounts/default/"
_KEY_ID: Final = "sandbox"
_JSON: Final = {"Content-Type": "application/json"}
_STS: Final = "https://sts.amazonaws.com/doc/2011-06-15/"


class _Cloud(Server):
    """A server that gives credentials or tokens of one identity."""

    def __init__(self) -> None:
        super().__init__()
        self.account_token = "of-the-account"  # noqa: S105 - of the sandbox
        """The token that Kubernetes gives to the pod with the identity."""
        self.seconds = 3600
        """How long credentials or tokens are valid."""
        self.given = 0
        """How often it gave some."""


class Aws(_Cloud):
    """STS, Pod Identity and instance metadata, which all give credentials of one role."""

    def __init__(self, *, key: str, secret: str, session: str) -> None:
        """Prepare a server for one role: its access key's id, that key, and the token of the session."""
        super().__init__()
        self.key, self.secret, self.session = key, secret, session

    def for_web_identity(self, folder: Path) -> dict[str, str]:
        """Return the variables of a pod with IRSA."""
        file = _written(folder / "web-identity-token", self.account_token)
        return {
            "AWS_ROLE_ARN": ROLE,
            "AWS_WEB_IDENTITY_TOKEN_FILE": file,
            "AWS_ENDPOINT_URL_STS": self.url,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def for_container(self, folder: Path) -> dict[str, str]:
        """Return the variables of a pod with EKS Pod Identity."""
        file = _written(folder / "eks-pod-identity-token", self.account_token)
        return {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{self.url}{_CONTAINER}",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": file,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def for_instance(self) -> dict[str, str]:
        """Return the variables of a machine with this metadata service."""
        return {"AWS_EC2_METADATA_SERVICE_ENDPOINT": self.url}

    def answer(self, asked: Asked) -> Answer:
        """Answer as the three services do."""
        if asked.path == _CONTAINER:
            return self._container(asked)
        if asked.path == "/latest/api/token":
            lifetime = asked.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
            good = asked.method == "PUT" and lifetime.isdigit()
            return Answer(text=_PROOF) if good else Answer(status=HTTPStatus.BAD_REQUEST)
        if asked.path.startswith(_INSTANCE):
            return self._instance(asked)
        return self._sts(asked) if (asked.method, asked.path) == ("POST", "/") else Answer(status=HTTPStatus.NOT_FOUND)

    def _container(self, asked: Asked) -> Answer:
        if asked.headers.get("Authorization") != self.account_token:
            return Answer(status=HTTPStatus.BAD_REQUEST, text='{"message": "Service account token cannot be empty"}')
        return Answer(text=json.dumps(self._credentials()))

    def _instance(self, asked: Asked) -> Answer:
        if asked.headers.get("X-aws-ec2-metadata-token") != _PROOF:
            return Answer(status=HTTPStatus.UNAUTHORIZED)
        if asked.path == _INSTANCE:
            return Answer(text="samerack-node")
        if asked.path != f"{_INSTANCE}samerack-node":
            return Answer(status=HTTPStatus.NOT_FOUND)
        return Answer(text=json.dumps({"Code": "Success", "Type": "AWS-HMAC", **self._credentials()}))

    def _sts(self, asked: Asked) -> Answer:
        form = {name: values[0] for name, values in parse_qs(asked.body).items()}
        if (form.get("Action"), form.get("Version")) != ("AssumeRoleWithWebIdentity", "2011-06-15"):
            return _refusal("InvalidAction", "Could not find operation")
        if form.get("WebIdentityToken") != self.account_token:
            return _refusal("InvalidIdentityToken", "No OpenIDConnect provider found in your account")
        if form.get("RoleArn") != ROLE:
            return _refusal("AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity", status=403)
        found = self._credentials()
        found["SessionToken"] = found.pop("Token")
        inner = "".join(f"<{name}>{text}</{name}>" for name, text in found.items())
        return Answer(
            text=f'<AssumeRoleWithWebIdentityResponse xmlns="{_STS}"><AssumeRoleWithWebIdentityResult>'
            f"<Provider>oidc</Provider><Credentials>{inner}</Credentials></AssumeRoleWithWebIdentityResult>"
            "<ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></AssumeRoleWithWebIdentityResponse>"
        )

    def _credentials(self) -> dict[str, str]:
        self.given += 1
        ends = datetime.fromtimestamp(self.now() + self.seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        keys = {"AccessKeyId": self.key, "SecretAccessKey": self.secret, "Token": self.session}
        return {**keys, "Expiration": ends}


class Azure(_Cloud):
    """Microsoft Entra for one federated credential, and a machine's metadata service for its one managed identity."""

    def __init__(self, token: Callable[[], str], *, client: str, scope: str) -> None:
        """Prepare a server for one identity: what makes its tokens, its client id, and the scope of the tokens."""
        super().__init__()
        self._token = token
        self.client, self.scope = client, scope

    def for_workload(self, folder: Path) -> dict[str, str]:
        """Return the variables of a pod with a workload identity."""
        return {
            "AZURE_CLIENT_ID": self.client,
            "AZURE_TENANT_ID": _TENANT,
            "AZURE_FEDERATED_TOKEN_FILE": _written(folder / "azure-identity-token", self.account_token),
            "AZURE_AUTHORITY_HOST": f"{self.url}/",
        }

    @property
    def metadata_url(self) -> str:
        """The token endpoint of the machine's metadata service."""
        return f"{self.url}{_AZURE_METADATA}"

    def answer(self, asked: Asked) -> Answer:
        """Answer as both services do."""
        path, _, query = asked.path.partition("?")
        if (asked.method, path) == ("GET", _AZURE_METADATA):
            return self._machine(asked, query)
        if (asked.method, path) == ("POST", f"/{_TENANT}/oauth2/v2.0/token"):
            return self._entra(asked)
        return Answer(status=HTTPStatus.NOT_FOUND)

    def _machine(self, asked: Asked, query: str) -> Answer:
        wanted = {name: values[0] for name, values in parse_qs(query).items()}
        if asked.headers.get("Metadata") != "true" or "api-version" not in wanted:
            return _wrong("invalid_request", "Required metadata header not specified")
        if wanted.get("client_id", self.client) != self.client:
            return _wrong("invalid_request", "Identity not found")
        if wanted.get("resource") != self.scope.removesuffix("/.default"):
            return _wrong("invalid_resource", "AADSTS500011: The resource principal was not found in the tenant")
        return self._given(str)

    def _entra(self, asked: Asked) -> Answer:
        form = {name: values[0] for name, values in parse_qs(asked.body).items()}
        kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        if (form.get("grant_type"), form.get("client_assertion_type")) != ("client_credentials", kind):
            return _wrong("unsupported_grant_type", "AADSTS70003: The app requested an unsupported grant type")
        if form.get("client_id") != self.client:
            return _wrong("unauthorized_client", "AADSTS700016: Application was not found in the directory")
        if form.get("client_assertion") != self.account_token:
            return _wrong("invalid_client", "AADSTS700213: No matching federated identity record found\r\nTrace ID: 1")
        if form.get("scope") != self.scope:
            return _wrong("invalid_resource", "AADSTS500011: The resource principal was not found in the tenant")
        return self._given(int)

    def _given(self, number: Callable[[int], object]) -> Answer:
        self.given += 1
        found = {"token_type": "Bearer", "access_token": self._token(), "expires_in": number(self.seconds)}
        return Answer(text=json.dumps(found))


class Google(_Cloud):
    """The metadata server of a machine or pod with one service account."""

    def __init__(self, *, account: str, access: str) -> None:
        """Prepare a server for one service account: its e-mail address, and the access token that it gives."""
        super().__init__()
        self.account, self.access = account, access

    def for_machine(self) -> dict[str, str]:
        """Return the variables of a machine with this metadata server."""
        return {"GCE_METADATA_HOST": self.url.removeprefix("http://")}

    def answer(self, asked: Asked) -> Answer:
        """Answer as the real server does."""
        if asked.headers.get("Metadata-Flavor") != "Google":
            return Answer(status=HTTPStatus.FORBIDDEN, text="Missing Metadata-Flavor:Google header.")
        if asked.path == f"{_GOOGLE}email":
            return Answer(text=self.account)
        if asked.path != f"{_GOOGLE}token":
            return Answer(status=HTTPStatus.NOT_FOUND)
        self.given += 1
        found = {"access_token": self.access, "expires_in": self.seconds, "token_type": "Bearer"}
        return Answer(text=json.dumps(found))


def _wrong(error: str, description: str) -> Answer:
    return Answer(status=HTTPStatus.BAD_REQUEST, text=json.dumps({"error": error, "error_description": description}))


def _refusal(code: str, message: str, *, status: int = HTTPStatus.BAD_REQUEST) -> Answer:
    error = f"<Type>Sender</Type><Code>{code}</Code><Message>{message}</Message>"
    text = f'<ErrorResponse xmlns="{_STS}"><Error>{error}</Error><RequestId>1</RequestId></ErrorResponse>'
    return Answer(status=status, text=text)


def _written(path: Path, text: str) -> str:
    path.write_text(text, encoding="ascii")
    return str(path)


class TokenServer(Server):
    """Answers POST with a token for the right client, and other requests with the keys; a context manager."""

    def __init__(self, folder: Path, *, client: str, secret: str, audience: str) -> None:
        """Make a key, with a file in the folder; the server answers the one client once entered.

        The tokens' audience and `seconds`, their lifetime, may be changed at any time.
        """
        self._key = folder / "tokens.key"
        openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(self._key))
        super().__init__()
        self.client, self.secret, self.audience, self.seconds = client, secret, audience, 3600

    @property
    def url(self) -> str:
        """The token endpoint."""
        return f"{super().url}/"

    @property
    def keys_url(self) -> str:
        """The URL of the keys."""
        return f"{self.url}keys"

    def keys(self) -> bytes:
        """Return the JSON Web Key Set."""
        shown = openssl("rsa", "-in", str(self._key), "-noout", "-modulus").decode().partition("=")[2].strip()
        key = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": _KEY_ID, "e": "AQAB"}
        return json.dumps({"keys": [{**key, "n": _encoded(bytes.fromhex(shown))}]}).encode()

    def token(self) -> str:
        """Return a signed token."""
        now = int(time.time())
        claims = {"iss": self.url, "sub": self.client, "aud": self.audience, "scope": "kafka"}
        times = {"iat": min(now, now + self.seconds - 60), "exp": now + self.seconds}
        parts = ({"alg": "RS256", "typ": "JWT", "kid": _KEY_ID}, {**claims, **times})
        text = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
        return f"{text}.{_encoded(openssl('dgst', '-sha256', '-sign', str(self._key), given=text.encode()))}"

    def answer(self, asked: Asked) -> Answer:
        """Return a token, the keys, or an error for an unknown client."""
        if asked.method == "POST":
            return self._granted(asked.headers.get("Authorization", ""))
        return Answer(text=self.keys().decode(), headers=_JSON)

    def _granted(self, authorization: str) -> Answer:
        credentials = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        if unquote(credentials) != f"{self.client}:{self.secret}":
            return Answer(status=HTTPStatus.UNAUTHORIZED, text='{"error": "invalid_client"}', headers=_JSON)
        answer = {"access_token": self.token(), "token_type": "Bearer", "expires_in": max(1, self.seconds)}
        return Answer(text=json.dumps(answer), headers=_JSON)


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
