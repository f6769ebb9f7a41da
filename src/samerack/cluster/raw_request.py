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
        """Prepare a request from its body without header; `flexible` versions have compact fields and tags."""
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
        request = RequestHeader(
            request_api_key=self.API_KEY,
            request_api_version=self.API_VERSION,
            correlation_id=correlation_id,
            client_id=client_id,
        )
        self.header = _Header(correlation_id=correlation_id, request=request, flexible=self._flexible, read=self._read)

    def encode(self, *, framed: bool, header: bool) -> bytes:
        """Encode the frame.

        Raises:
            AgentError: It has no header yet.
        """
        if self.header is None or not framed or not header:
            raise AgentError("kafka: a raw request goes out with its frame and header only")
        content = bytes(self.header.request.encode(flexible=self._flexible)) + self._body
        return len(content).to_bytes(4, "big") + content


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    """A request's header, and the reader of its answer, which kafka-python takes from the header."""

    correlation_id: int
    request: Any
    flexible: bool
    read: Read

    def get_response_class(self) -> _Header:
        return self

    def parse_header(self, buffer: Any) -> Any:
        return ResponseHeader.decode(buffer, flexible=self.flexible)

    def decode(self, buffer: Any) -> Any:
        return self.read(buffer.read())
