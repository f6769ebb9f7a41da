"""The broker side of an agent's connection: decodes requests, calls the group's coordinator, encodes the answers.

Like a broker, it handles a connection's next request only when the previous one is answered. Requests and answers
are kafka-python's classes, so that versions and fields are those of the wire.
"""

from __future__ import annotations

import io
import struct
from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from kafka.protocol.admin.groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafka.protocol.api_header import RequestHeader
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)

from tests.simulator.group import AGENTS, Described, Error, Join, Joined, Sync, Synced

if TYPE_CHECKING:
    from tests.simulator.network import Network, Trouble
    from tests.simulator.process import Process

Reply = Callable[[Any], None]
BROKERS: Final = (1, 2, 3)
FIRST_PORT: Final = 9092  # the port of the bootstrap server; broker 1 has the next one
_REQUESTS: Final = {
    one.API_KEY: one
    for one in (
        ApiVersionsRequest,
        DescribeGroupsRequest,
        FindCoordinatorRequest,
        HeartbeatRequest,
        JoinGroupRequest,
        LeaveGroupRequest,
        MetadataRequest,
        OffsetFetchRequest,
        SyncGroupRequest,
    )
}
_NAMES: Final = {
    HeartbeatRequest.API_KEY: "heartbeat",
    JoinGroupRequest.API_KEY: "join",
    SyncGroupRequest.API_KEY: "sync",
    LeaveGroupRequest.API_KEY: "leave",
    FindCoordinatorRequest.API_KEY: "find",
    DescribeGroupsRequest.API_KEY: "describe",
    OffsetFetchRequest.API_KEY: "commits",
}
VERSIONS: Final = {0: (3, 13), 1: (4, 18), 2: (1, 11), 75: (0, 0)} | {
    DescribeGroupsRequest.API_KEY: (0, 6),
    FindCoordinatorRequest.API_KEY: (0, 6),
    HeartbeatRequest.API_KEY: (0, 4),
    JoinGroupRequest.API_KEY: (0, 9),
    LeaveGroupRequest.API_KEY: (0, 5),
    MetadataRequest.API_KEY: (0, 13),
    OffsetFetchRequest.API_KEY: (1, 10),
    SyncGroupRequest.API_KEY: (0, 5),
    ApiVersionsRequest.API_KEY: (0, 4),
}
"""API versions of Kafka 4.3 that the agent's connections use, and three by which clients infer the broker's version."""


class BrokerEnd:
    """The broker side of one connection."""

    def __init__(
        self,
        process: Process,
        broker: int,  # 0 if the client connected to the bootstrap server
        *,
        answer: Callable[[bytes], None],
        hang_up: Callable[[], None],
    ) -> None:
        self._process = process
        self._network = process.network
        self._broker = broker or BROKERS[0]
        self._send, self._hang_up = answer, hang_up
        self._queue: deque[bytes] = deque()
        self._asked: deque[str] = deque()
        self._busy = self._closed = False

    def close(self) -> None:
        """The connection is closed: requests in progress are completed, but not answered."""
        self._closed = True
        self._queue.clear()

    def sends(self, content: bytes) -> None:
        """The client sends requests; called before they are transmitted."""
        for frame in _frames(content):
            request = _request(frame[4:8], frame[12:])
            name = _NAMES.get(request.API_KEY, "")
            if name:
                self._process.sends(name, request)
            if name == "join":
                self._process.changes("join-sent")
            elif name == "sync":
                self._process.changes("sync-sent")

    def arrives(self, content: bytes) -> None:
        """The client has received an answer; called before it reads it."""
        name = self._asked.popleft()
        if name not in ("join", "sync", "leave"):
            return
        if name == "leave":
            self._process.changes("released")
            return
        size = 8 + (1 if name in ("join", "sync") else 0)  # frame, correlation id, no tagged fields
        (code,) = struct.unpack_from(">h", content, size + 4)  # after the throttle time
        if code == Error.NONE:
            self._process.changes("join-answered" if name == "join" else "synced")
        elif code == Error.MEMBER_ID_REQUIRED:
            self._process.changes("reserved")
        elif code in (Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION):
            self._process.changes("reset")

    def receive(self, content: bytes) -> None:
        """Requests arrive at the broker."""
        self._queue.extend(_frames(content))
        self._next()

    def _next(self) -> None:
        if self._busy or not self._queue:
            return
        self._busy = True
        frame = self._queue.popleft()
        request = _request(frame[4:8], frame[12:])
        name = _NAMES.get(request.API_KEY, "")
        trouble = self._network.trouble(name) if name else None
        reply = partial(self._reply, frame[8:12], request, name, trouble)
        if trouble is not None and trouble.error is not None:
            reply(_refused(request, trouble.error))
        elif trouble is not None and trouble.before:
            reply(None)
        else:
            self._serve(request, reply)

    def _reply(self, correlation: bytes, request: Any, name: str, trouble: Trouble | None, response: Any) -> None:
        self._busy = False
        if self._closed:
            return
        if trouble is not None and trouble.lost:
            self.close()
            self._hang_up()
            return
        content = _encoded(request, response, correlation)
        self._asked.append(name)
        self._process.answered(name, response)
        self._send(content)
        if self._queue:  # only after all answers of this moment
            self._process.timeline.after(0, self._next, repeats=True)

    def _serve(self, request: Any, reply: Reply) -> None:
        network = self._network
        if request.API_KEY == ApiVersionsRequest.API_KEY:
            reply(_VERSIONS)
        elif request.API_KEY == MetadataRequest.API_KEY:
            reply(_METADATA)
        elif request.API_KEY == FindCoordinatorRequest.API_KEY:
            reply(find(request, network))
        elif not network.available or self._broker != network.broker:
            reply(_refused(request, Error.NOT_COORDINATOR))
        else:
            _HANDLERS[request.API_KEY](network, AGENTS, request, reply)


def _join(network: Network, client: str, request: Any, reply: Reply) -> None:
    def answer(joined: Joined) -> None:
        reply(_joined(joined, request.protocol_type))

    network.coordinator.join(
        Join(
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            protocols=tuple((one.name, bytes(one.metadata)) for one in request.protocols),
            session_ms=request.session_timeout_ms,
            rebalance_ms=request.rebalance_timeout_ms,
            protocol_type=request.protocol_type,
            client_id=client,
        ),
        answer,
    )


def _joined(joined: Joined, protocol_type: str) -> Any:
    good = joined.error is Error.NONE
    return JoinGroupResponse(
        throttle_time_ms=0,
        error_code=int(joined.error),
        generation_id=joined.generation,
        protocol_type=protocol_type if good else None,
        protocol_name=joined.protocol if good else None,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponse.JoinGroupResponseMember(member_id=one, group_instance_id=instance, metadata=metadata)
            for one, instance, metadata in joined.members
        ],
    )


def _sync(network: Network, _: str, request: Any, reply: Reply) -> None:
    def answer(synced: Synced) -> None:
        good = synced.error is Error.NONE
        reply(
            SyncGroupResponse(
                throttle_time_ms=0,
                error_code=int(synced.error),
                protocol_type=request.protocol_type if good else None,
                protocol_name=request.protocol_name if good else None,
                assignment=synced.assignment,
            )
        )

    sync = Sync(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol=request.protocol_name,
        assignments=tuple((one.member_id, bytes(one.assignment)) for one in request.assignments),
    )
    network.coordinator.sync(sync, answer)


def _heartbeat(network: Network, _: str, request: Any, reply: Reply) -> None:
    error = network.coordinator.heartbeat(request.member_id, request.group_instance_id, request.generation_id)
    reply(HeartbeatResponse(throttle_time_ms=0, error_code=int(error)))


def _leave(network: Network, _: str, request: Any, reply: Reply) -> None:
    members = [(one.member_id, one.group_instance_id) for one in request.members]
    errors = network.coordinator.leave(members)
    reply(
        LeaveGroupResponse(
            throttle_time_ms=0,
            error_code=0,
            members=[
                LeaveGroupResponse.MemberResponse(
                    member_id=member_id, group_instance_id=instance_id, error_code=int(error)
                )
                for (member_id, instance_id), error in zip(members, errors, strict=True)
            ],
        )
    )


def _describe(network: Network, _: str, request: Any, reply: Reply) -> None:
    reply(describe(request, network, network.broker))


def describe(request: Any, network: Network, broker: int) -> Any:
    """A broker's answer to DescribeGroups."""
    if not network.available or broker != network.broker:
        return _refused(request, Error.NOT_COORDINATOR)
    return _described(request.groups, network.outdated or network.coordinator.describe(), Error.NONE)


def _described(groups: list[str], described: Described, error: Error) -> Any:
    return DescribeGroupsResponse(
        throttle_time_ms=0,
        groups=[
            DescribeGroupsResponse.DescribedGroup(
                error_code=int(error),
                group_id=group,
                group_state=described.state,
                protocol_type=described.protocol_type,
                protocol_data=described.protocol,
                members=[
                    DescribeGroupsResponse.DescribedGroup.DescribedGroupMember(
                        member_id=one.member_id,
                        group_instance_id=one.group_instance_id,
                        client_id=one.client_id,
                        client_host=f"/{one.client_host}",
                        member_metadata=one.member_metadata,
                        member_assignment=one.member_assignment,
                    )
                    for one in described.members
                ],
            )
            for group in groups
        ],
    )


def _commits(network: Network, _: str, request: Any, reply: Reply) -> None:
    reply(_fetched(request, network.commits(), Error.NONE))


def _fetched(request: Any, commits: Mapping[tuple[str, int], int], error: Error) -> Any:
    group = OffsetFetchResponse.OffsetFetchResponseGroup
    topic = group.OffsetFetchResponseTopics
    return OffsetFetchResponse(
        throttle_time_ms=0,
        groups=[
            group(
                group_id=one.group_id,
                error_code=int(error),
                topics=[
                    topic(
                        name=name,
                        partitions=[
                            topic.OffsetFetchResponsePartitions(
                                partition_index=number,
                                committed_offset=offset,
                                committed_leader_epoch=-1,
                                metadata="",
                                error_code=0,
                            )
                        ],
                    )
                    for (name, number), offset in commits.items()
                ],
            )
            for one in request.groups
        ],
    )


_HANDLERS: Final[dict[int, Callable[[Network, str, Any, Reply], None]]] = {
    HeartbeatRequest.API_KEY: _heartbeat,
    JoinGroupRequest.API_KEY: _join,
    SyncGroupRequest.API_KEY: _sync,
    LeaveGroupRequest.API_KEY: _leave,
    DescribeGroupsRequest.API_KEY: _describe,
    OffsetFetchRequest.API_KEY: _commits,
}


def find(request: Any, network: Network) -> Any:
    """Any broker's answer to FindCoordinator."""
    if not network.available:
        return _refused(request, Error.COORDINATOR_NOT_AVAILABLE)
    return _found(request, network.broker, Error.NONE)


def _found(request: Any, broker: int, error: Error) -> Any:
    good = error is Error.NONE
    return FindCoordinatorResponse(
        throttle_time_ms=0,
        coordinators=[
            FindCoordinatorResponse.Coordinator(
                key=key,
                node_id=broker,
                host="simulated" if good else "",
                port=FIRST_PORT + broker if good else -1,
                error_code=int(error),
                error_message=None if good else error.name,
            )
            for key in request.coordinator_keys
        ],
    )


def _refused(request: Any, error: Error) -> Any:
    """An answer with only an error."""
    key = request.API_KEY
    if key == JoinGroupRequest.API_KEY:
        return _joined(Joined(error=error, member_id=request.member_id), request.protocol_type)
    if key == SyncGroupRequest.API_KEY:
        return SyncGroupResponse(throttle_time_ms=0, error_code=int(error), assignment=b"")
    if key == LeaveGroupRequest.API_KEY:
        return LeaveGroupResponse(throttle_time_ms=0, error_code=int(error), members=[])
    if key == DescribeGroupsRequest.API_KEY:
        return _described(request.groups, Described(state=""), error)
    if key == FindCoordinatorRequest.API_KEY:
        return _found(request, -1, error)
    if key == OffsetFetchRequest.API_KEY:
        return _fetched(request, {}, error)
    return HeartbeatResponse(throttle_time_ms=0, error_code=int(error))


_VERSIONS: Final = ApiVersionsResponse(
    error_code=0,
    api_keys=[
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=least, max_version=most)
        for key, (least, most) in VERSIONS.items()
    ],
    throttle_time_ms=0,
    supported_features=[],
    finalized_features_epoch=-1,
    finalized_features=[],
    zk_migration_ready=False,
)
_METADATA: Final = MetadataResponse(
    throttle_time_ms=0,
    brokers=[
        MetadataResponse.MetadataResponseBroker(node_id=one, host="simulated", port=FIRST_PORT + one, rack=None)
        for one in BROKERS
    ],
    cluster_id="simulated",
    controller_id=1,
    topics=[],
    error_code=0,
)


def _frames(content: bytes) -> list[bytes]:
    frames = []
    at = 0
    while at < len(content):
        (size,) = struct.unpack_from(">i", content, at)
        frames.append(content[at : at + 4 + size])
        at += 4 + size
    return frames


@lru_cache(maxsize=2048)
def _request(kind: bytes, rest: bytes) -> Any:
    """A request, decoded from its API key and version and the bytes after the correlation id."""
    key, version = struct.unpack(">hh", kind)
    cls = _REQUESTS[key]
    flexible = cls.flexible_version_q(version)
    content = io.BytesIO(kind + b"\0\0\0\0" + rest)
    RequestHeader.decode(content, flexible=flexible)
    request = cls.decode(content.read(), version=version)
    request._header = None
    request.API_VERSION = version
    return request


def _encoded(request: Any, response: Any, correlation: bytes) -> bytes:
    version = request.API_VERSION
    if request.API_KEY == HeartbeatRequest.API_KEY:
        content = _known("beat", response.error_code, version)
    elif response is _VERSIONS or response is _METADATA:
        content = _known("versions" if response is _VERSIONS else "metadata", 0, version)
    else:
        content = _frame(response, version)
    return content[:4] + correlation + content[8:]


@lru_cache(maxsize=64)
def _known(kind: str, code: int, version: int) -> bytes:
    """One of the answers that are always the same."""
    if kind == "beat":
        return _frame(HeartbeatResponse(throttle_time_ms=0, error_code=code), version)
    return _frame(_VERSIONS if kind == "versions" else _METADATA, version)


def _frame(response: Any, version: int) -> bytes:
    response._header = None
    response.API_VERSION = version
    response.with_header(correlation_id=0)
    return bytes(response.encode(header=True, framed=True))
