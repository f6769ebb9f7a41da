"""A token endpoint on loopback for SASL OAUTHBEARER: signs JWTs with its own key and publishes the key as JWKS."""

import base64
import json
import time
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from tests.clouds.certificates import openssl
from tests.clouds.http_server import Answer, Asked, Server

_KEY_ID: Final = "sandbox"
_JSON: Final = {"Content-Type": "application/json"}


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
