"""Descriptions of groups that brokers assign (KIP-848, KIP-1071), in kio's messages: kafka-python has none.

Import it where such a group is to be described: kio's messages take time and memory to load, and most clusters have no
such group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from kafka.protocol.api_header import RequestHeader, ResponseHeader
from kio.schema.consumer_group_describe.v0.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v0.response import ConsumerGroupDescribeResponse
from kio.schema.streams_group_describe.v0.request import StreamsGroupDescribeRequest
from kio.schema.streams_group_describe.v0.response import StreamsGroupDescribeResponse
from kio.schema.types import GroupId
from kio.serial import entity_reader, entity_writer

from samerack.common.errors import AgentError


def describe_consumer(groups: Sequence[str]) -> KioRequest:
    """Returns the request for descriptions of groups of type consumer."""
    entity = ConsumerGroupDescribeRequest(group_ids=tuple(map(GroupId, groups)), include_authorized_operations=False)
    return KioRequest(entity, ConsumerGroupDescribeResponse)


def describe_streams(groups: Sequence[str]) -> KioRequest:
    """Returns the request for descriptions of groups of type streams."""
    entity = StreamsGroupDescribeRequest(group_ids=tuple(map(GroupId, groups)), include_authorized_operations=False)
    return KioRequest(entity, StreamsGroupDescribeResponse)


class KioRequest:
    """A kio request in the form that kafka-python sends; its response is of kio's type."""

    def __init__(self, entity: Any, response_type: type[Any]) -> None:
        self._entity = entity
        self._response_type = response_type
        self.API_KEY = int(entity.__api_key__)
        self.API_VERSION = int(entity.__version__)
        self.header: _KioHeader | None = None

    def expect_response(self) -> bool:
        """Return True: every request has a response."""
        return True

    def with_header(self, *, correlation_id: int, client_id: str) -> None:
        """Store the header."""
        self.header = _KioHeader(
            correlation_id=correlation_id,
            api_key=self.API_KEY,
            api_version=self.API_VERSION,
            client_id=client_id,
            response_type=self._response_type,
        )

    def encode(self, *, framed: bool, header: bool) -> bytes:
        """Encode the frame.

        Raises:
            AgentError: It has no header yet.
        """
        if self.header is None or not framed or not header:
            raise AgentError("kafka: a raw request goes out with its frame and header only")
        body = BytesIO()
        entity_writer(type(self._entity))(body, self._entity)
        content = self.header.encoded() + body.getvalue()
        return len(content).to_bytes(4, "big") + content


@dataclass(frozen=True, slots=True, kw_only=True)
class _KioHeader:
    correlation_id: int
    api_key: int
    api_version: int
    client_id: str
    response_type: type[Any]

    def encoded(self) -> bytes:
        """Encode the header: both messages in use are flexible, so it is version 2."""
        header = RequestHeader(
            request_api_key=self.api_key,
            request_api_version=self.api_version,
            correlation_id=self.correlation_id,
            client_id=self.client_id,
        )
        return bytes(header.encode(flexible=True))

    def get_response_class(self) -> _KioResponse:
        """Return the reader of the response, which kafka-python takes from the request's header."""
        return _KioResponse(self.response_type)


class _KioResponse:
    """Reads one answer for kafka-python."""

    def __init__(self, response_type: type[Any]) -> None:
        self._response_type = response_type

    def parse_header(self, buffer: Any) -> Any:
        return ResponseHeader.decode(buffer, flexible=True)

    def decode(self, buffer: Any) -> Any:
        value, _ = entity_reader(self._response_type)(bytes(buffer.read()), 0)
        return value
