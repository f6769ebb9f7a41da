"""A token endpoint on loopback for SASL OAUTHBEARER: signs JWTs with a key of its own and publishes it as JWKS.

What must not enter: anything that a client or a broker does with a token.
"""

import base64
import json
import subprocess
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import unquote

from sandbox.errors import SandboxError

_KEY_ID: Final = "sandbox"


class TokenServer:
    """Answers POST / with a token for the right client; a context manager."""

    def __init__(self, folder: Path, *, client: str, secret: str, audience: str, seconds: int = 3600) -> None:
        """Makes a key, and listens once entered.

        Args:
            folder: where the key's file goes.
            client: `client_id` that is known.
            secret: its `client_secret`.
            audience: whom tokens are for; may be changed at any time.
            seconds: how long they last; below zero they have ended already.

        Raises:
            SandboxError: OpenSSL makes no key.
        """
        self._key = folder / "tokens.key"
        _openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(self._key))
        self.client, self.secret, self.audience, self.seconds = client, secret, audience, seconds
        self.answered: list[HTTPStatus] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        """The token endpoint."""
        return f"http://127.0.0.1:{self._server.server_port}/"

    @property
    def keys_url(self) -> str:
        """Where brokers find the key."""
        return f"{self.url}keys"

    def __enter__(self) -> Self:
        """Begins to answer."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Ends."""
        self._server.shutdown()
        self._server.server_close()

    def keys(self) -> bytes:
        """The JSON Web Key Set."""
        shown = _openssl("rsa", "-in", str(self._key), "-noout", "-modulus").decode().partition("=")[2].strip()
        key = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": _KEY_ID, "e": "AQAB"}
        return json.dumps({"keys": [{**key, "n": _encoded(bytes.fromhex(shown))}]}).encode()

    def token(self) -> str:
        """A signed token."""
        now = int(time.time())
        claims = {"iss": self.url, "sub": self.client, "aud": self.audience, "scope": "kafka"}
        times = {"iat": min(now, now + self.seconds - 60), "exp": now + self.seconds}
        parts = ({"alg": "RS256", "typ": "JWT", "kid": _KEY_ID}, {**claims, **times})
        text = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
        return f"{text}.{_encoded(_openssl('dgst', '-sha256', '-sign', str(self._key), given=text.encode()))}"

    def _answer(self, authorization: str) -> tuple[HTTPStatus, bytes]:
        credentials = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        if unquote(credentials) != f"{self.client}:{self.secret}":
            return HTTPStatus.UNAUTHORIZED, b'{"error": "invalid_client"}'
        answer = {"access_token": self.token(), "token_type": "Bearer", "expires_in": max(1, self.seconds)}
        return HTTPStatus.OK, json.dumps(answer).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._send(HTTPStatus.OK, server.keys())

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                status, content = server._answer(self.headers.get("Authorization", ""))
                server.answered.append(status)
                self._send(status, content)

            def _send(self, status: HTTPStatus, content: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _openssl(*arguments: str, given: bytes = b"") -> bytes:
    done = subprocess.run(  # noqa: S603 - the sandbox starts programs of its own choosing, without a shell
        ["openssl", *arguments],  # noqa: S607 - and finds them on the PATH
        input=given,
        capture_output=True,
        check=False,
        timeout=30,
    )
    if done.returncode != 0:
        raise SandboxError(f"openssl {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
