"""A request of which kafka-python does not know the messages: its body is given, and a function reads the response."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from kafka.protocol.api_header import RequestHeader, ResponseHeader

from samerack.common.errors import AgentError

Read: TypeAlias = Callable[[bytes], Any]
"""Returns the response that these bytes contain, without their header; it may raise ValueError or struct.error."""


class RawRequest:
    """A request in the form that kafka-python sends."""

    def __init__(self, *, api_key: int, version: int, flexible: bool, body: bytes, read: Read) -> None:
        """Prepare.

        Args:
            api_key: The request's API.
            version: Its version.
            flexible: Whether this version has compact fields and tags, and so has its header.
            body: The request without its header.
            read: Reads the response.
        """
        self.API_KEY = api_key
        self.API_VERSION = version
        self.header: _Header | None = None
        self._flexible = flexible
        self._body = body
        self._read = read

    def expect_response(self) -> bool:
        """Return True: every request has a response."""
        return True

    def with_header(self, *, correlation_id: int, client_id: str) -> None:
        """Store the header."""
        self.header = _Header(
            correlation_id=correlation_id,
            api_key=self.API_KEY,
            api_version=self.API_VERSION,
            client_id=client_id,
            response=_Response(flexible=self._flexible, read=self._read),
        )

    def encode(self, *, framed: bool, header: bool) -> bytes:
        """Encode the frame.

        Raises:
            AgentError: It has no header yet.
        """
        if self.header is None or not framed or not header:
            raise AgentError("kafka: a raw request goes out with its frame and header only")
        content = self.header.encoded(flexible=self._flexible) + self._body
        return len(content).to_bytes(4, "big") + content


@dataclass(frozen=True, slots=True, kw_only=True)
class _Response:
    """Reads one answer for kafka-python."""

    flexible: bool
    read: Read

    def parse_header(self, buffer: Any) -> Any:
        return ResponseHeader.decode(buffer, flexible=self.flexible)

    def decode(self, buffer: Any) -> Any:
        return self.read(buffer.read())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    correlation_id: int
    api_key: int
    api_version: int
    client_id: str
    response: _Response

    def encoded(self, *, flexible: bool) -> bytes:
        header = RequestHeader(
            request_api_key=self.api_key,
            request_api_version=self.api_version,
            correlation_id=self.correlation_id,
            client_id=self.client_id,
        )
        return bytes(header.encode(flexible=flexible))

    def get_response_class(self) -> _Response:
        """Return the reader of the response, which kafka-python takes from the request's header."""
        return self.response
