"""A small HTTP server on loopback for services that tests simulate; a subclass defines the answers."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request to the server."""

    method: str
    path: str
    headers: Mapping[str, str]
    content: bytes

    @property
    def body(self) -> str:
        """Its content as text."""
        return self.content.decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The server's answer."""

    status: int = HTTPStatus.OK
    text: str = ""
    headers: Mapping[str, str] | None = None


class Server:
    """A server on loopback that answers by `answer` and records all requests; a context manager."""

    def __init__(self, port: int = 0) -> None:
        """Bind the port, or a free one; it answers once entered."""
        self.asked: list[Asked] = []
        self.clock_ahead = 0.0
        """Seconds by which its clock is ahead of this machine's."""
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, asked: Asked) -> Answer:
        """Return the answer to a request."""
        raise NotImplementedError

    def now(self) -> float:
        """Return seconds since 1970, by its clock."""
        return time.time() + self.clock_ahead

    def __enter__(self) -> Self:
        """Start to answer."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def _serve(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                asked = Asked(method=self.command, path=self.path, headers=dict(self.headers), content=content)
                server.asked.append(asked)
                answer = server.answer(asked)
                text = answer.text.encode()
                self.send_response(answer.status)
                self.send_header("Content-Length", str(len(text)))
                for name, value in (answer.headers or {}).items():
                    self.send_header(name, value)
                self.end_headers()
                try:
                    self.wfile.write(text)
                except OSError:
                    return  # the client has disconnected

            do_GET = do_PUT = do_POST = _serve  # noqa: N815 - the library's own names

            def date_time_string(self, timestamp: float | None = None) -> str:
                return super().date_time_string(server.now() if timestamp is None else timestamp)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler
