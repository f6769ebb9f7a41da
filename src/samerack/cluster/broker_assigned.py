"""Messages about groups that brokers assign (KIP-848, KIP-1071, KIP-932), in kio's types: kafka-python has none.

Import it where such a group is to be described: kio's messages take time and memory to load, and most clusters have no
such group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any, Final

from kio.schema.consumer_group_describe.v0.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v0.response import ConsumerGroupDescribeResponse
from kio.schema.describe_share_group_offsets.v0.request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kio.schema.describe_share_group_offsets.v0.response import DescribeShareGroupOffsetsResponse
from kio.schema.share_group_describe.v1.request import ShareGroupDescribeRequest
from kio.schema.share_group_describe.v1.response import ShareGroupDescribeResponse
from kio.schema.streams_group_describe.v0.request import StreamsGroupDescribeRequest
from kio.schema.streams_group_describe.v0.response import StreamsGroupDescribeResponse
from kio.schema.types import GroupId
from kio.serial import entity_reader, entity_writer

from samerack.cluster.wire import RawRequest

MESSAGES: Final[Mapping[str, tuple[type[Any], type[Any]]]] = {
    "consumer": (ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
    "streams": (StreamsGroupDescribeRequest, StreamsGroupDescribeResponse),
    "share": (ShareGroupDescribeRequest, ShareGroupDescribeResponse),
}
"""The request for descriptions and its response, by type of group."""


class KioRequest(RawRequest):
    """A request of kio's type with a response of kio's type; both messages in use are flexible."""

    def __init__(self, entity: Any, response_type: type[Any]) -> None:
        body = BytesIO()
        entity_writer(type(entity))(body, entity)
        super().__init__(
            api_key=int(entity.__api_key__),
            version=int(entity.__version__),
            flexible=True,
            body=body.getvalue(),
            read=lambda content: entity_reader(response_type)(content, 0)[0],
        )


def ask_share_offsets(groups: Sequence[str]) -> KioRequest:
    """Return the request for where what these share groups have not read begins."""
    wanted = tuple(DescribeShareGroupOffsetsRequestGroup(group_id=GroupId(name), topics=None) for name in groups)
    return KioRequest(DescribeShareGroupOffsetsRequest(groups=wanted), DescribeShareGroupOffsetsResponse)
