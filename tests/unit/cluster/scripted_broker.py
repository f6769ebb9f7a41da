"""A broker on a loopback socket that acts as the coordinator of one group, with errors by script.

It speaks Kafka's protocol to the agent's real client: one running group whose only other member, a consumer, leads it.
Every request is stored with its time, so that a test can count attempts. JoinGroup is answered at once, never parked.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.protocol.admin.groups import DescribeGroupsRequest, DescribeGroupsResponse
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

from samerack.protocol.consumer import encode_assignment, encode_subscription
from samerack.protocol.values import Assignment, Subscription, from_pairs

CONSUMER: Final = "consumer-1"
TOPIC: Final = "t"
MEMBER_ID_REQUIRED: Final = 79
REBALANCE_IN_PROGRESS: Final = 27
_APIS: Final[dict[int, tuple[Any, Any]]] = {
    request.API_KEY: (request, response)
    for request, response in (
        (ApiVersionsRequest, ApiVersionsResponse),
        (MetadataRequest, MetadataResponse),
        (FindCoordinatorRequest, FindCoordinatorResponse),
        (JoinGroupRequest, JoinGroupResponse),
        (SyncGroupRequest, SyncGroupResponse),
        (HeartbeatRequest, HeartbeatResponse),
        (LeaveGroupRequest, LeaveGroupResponse),
        (DescribeGroupsRequest, DescribeGroupsResponse),
        (OffsetFetchRequest, OffsetFetchResponse),
    )
}
Script = Callable[[str, Any], int | None]
"""The error code for a request, by the name of its API; None where the request is not answered at all."""


def no_errors(_api: str, _request: Any) -> int:
    """Answer every request without an error."""
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One request, and when it arrived (seconds, monotonic)."""

    at: float
    api: str
    request: Any


@dataclass
class ScriptedBroker:
    """Listens from its construction to `close`; `script` may be replaced at any time."""

    script: Script = no_errors
    protocol: str = "range"
    others: tuple[str, ...] = (CONSUMER,)
    listed_as: int = 1
    """Its id in the metadata."""
    coordinator: int = 1
    """Its id as a coordinator."""
    coordinator_port: int = 0
    """The port that it names of the coordinator; 0 for its own."""
    may_reserve: threading.Event = field(default_factory=threading.Event)
    """While it is not set, requests that reserve a member id are not answered."""
    arrivals: list[Arrival] = field(default_factory=list)
    members: dict[str, str | None] = field(default_factory=dict)
    """Members other than the consumers: instance ids by member id."""
    pending: set[str] = field(default_factory=set)
    generation: int = 1
    on_close: Callable[[], None] = lambda: None
    _given: int = 0

    def __post_init__(self) -> None:
        """Start to listen."""
        self.may_reserve.set()
        self._lock = threading.RLock()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._listening.getsockname())
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Close every connection and stop listening."""
        self.on_close()
        self.may_reserve.set()
        self._listening.close()
        for one in tuple(self._open):
            one.close()

    def count(self, api: str, since: float = float("-inf")) -> int:
        """The number of requests of an API since then."""
        return sum(one.api == api and one.at >= since for one in tuple(self.arrivals))

    def busiest_second(self, api: str, since: float = float("-inf")) -> int:
        """The most requests of an API within any one second."""
        times = [one.at for one in tuple(self.arrivals) if one.api == api and one.at >= since]
        return max((sum(at <= other < at + 1 for other in times) for at in times), default=0)

    def forget(self) -> None:
        """Act as another coordinator that has read the group's log: it knows members, but no reserved ids."""
        with self._lock:
            self.pending.clear()

    # connections

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        reading = connection.makefile("rb")
        try:
            while len(size := reading.read(4)) == 4:
                frame = reading.read(int.from_bytes(size))
                key, version, correlation = struct.unpack_from(">hhi", frame)
                if key not in _APIS:
                    return  # a client of an earlier test, whose broker had this port
                answer = self._answer(key, version, frame)
                if answer is not None:
                    answer.API_VERSION = version
                    answer.with_header(correlation)
                    connection.sendall(answer.encode(header=True, framed=True))
        except OSError:
            return
        finally:
            connection.close()

    def _answer(self, key: int, version: int, frame: bytes) -> Any:
        kind, answer = _APIS[key]
        request = kind.decode(frame, version=version, header=True)
        api = kind.__name__.removesuffix("Request")
        self.arrivals.append(Arrival(at=time.monotonic(), api=api, request=request))
        code = self.script(api, request)
        if code is None:
            return None
        if api == "JoinGroup" and not code and self._is_reservation(request):
            self.may_reserve.wait()
        with self._lock:
            return getattr(self, f"_{api.lower()}")(answer, request, code)

    # answers

    def _apiversions(self, answer: Any, _request: Any, code: int) -> Any:
        keys = [
            answer.ApiVersion(api_key=key, min_version=0, max_version=request.max_version)
            for key, (request, _) in _APIS.items()
        ]
        return answer(error_code=code, api_keys=keys, throttle_time_ms=0)

    def _metadata(self, answer: Any, _request: Any, _code: int) -> Any:
        host, _, port = self.address.partition(":")
        broker = answer.MetadataResponseBroker(node_id=self.listed_as, host=host, port=int(port), rack=None)
        return answer(throttle_time_ms=0, brokers=[broker], cluster_id="c", controller_id=1, topics=[])

    def _findcoordinator(self, answer: Any, request: Any, code: int) -> Any:
        host, _, port = self.address.partition(":")
        named = {"node_id": -1 if code else self.coordinator, "host": host, "port": self.coordinator_port or int(port)}
        found = {**named, "error_code": code, "error_message": ""}
        keys = [answer.Coordinator(key=key, **found) for key in request.coordinator_keys or ()]
        return answer(throttle_time_ms=0, coordinators=keys, **found)

    @staticmethod
    def _is_reservation(request: Any) -> bool:
        return not request.member_id and not request.group_instance_id

    def _joingroup(self, answer: Any, request: Any, code: int) -> Any:
        member_id = request.member_id
        if not code and self._is_reservation(request):
            code, member_id = MEMBER_ID_REQUIRED, self._new_id()
            self.pending.add(member_id)
        elif not code and not member_id:
            member_id = self._new_id()
            self.members = {one: name for one, name in self.members.items() if name != request.group_instance_id}
        elif not code and member_id not in {*self.members, *self.pending}:
            code = 25
        if not code:
            self.pending.discard(member_id)
            self.members[member_id] = request.group_instance_id
        return answer(
            throttle_time_ms=0,
            error_code=code,
            generation_id=-1 if code else self.generation,
            protocol_type=None if code else "consumer",
            protocol_name=None if code else self.protocol,
            leader="" if code else CONSUMER,
            skip_assignment=False,
            member_id=member_id,
            members=[],
        )

    def _new_id(self) -> str:
        self._given += 1
        return f"agent-{self._given}"

    def _syncgroup(self, answer: Any, _request: Any, code: int) -> Any:
        return answer(
            throttle_time_ms=0,
            error_code=code,
            protocol_type=None if code else "consumer",
            protocol_name=None if code else self.protocol,
            assignment=b"",
        )

    def _heartbeat(self, answer: Any, request: Any, code: int) -> Any:
        if not code and request.member_id not in self.members:
            code = 25
        return answer(throttle_time_ms=0, error_code=code)

    def _leavegroup(self, answer: Any, request: Any, code: int) -> Any:
        of_member = code if code in (25, 82) else 0  # brokers say these two of a member
        if not code:
            for one in request.members:
                of_instance = [name for name, instance in self.members.items() if instance == one.group_instance_id]
                self.members.pop(one.member_id or next(iter(of_instance), ""), None)
                self.pending.discard(one.member_id)
        members = [
            answer.MemberResponse(
                member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=of_member
            )
            for one in request.members
        ]
        return answer(throttle_time_ms=0, error_code=0 if of_member else code, members=members)

    def _describegroups(self, answer: Any, request: Any, code: int) -> Any:
        wanted = encode_subscription(Subscription(version=1, topics=(TOPIC,)))
        owned = encode_assignment(Assignment(version=1, partitions=from_pairs([(TOPIC, 0)])))
        agent = encode_subscription(Subscription(version=0, topics=()))
        member = answer.DescribedGroup.DescribedGroupMember
        present = [
            member(
                member_id=name,
                group_instance_id=instance,
                client_id="samerack",
                client_host="/127.0.0.1",
                member_metadata=agent,
                member_assignment=b"",
            )
            for name, instance in self.members.items()
        ] + [
            member(
                member_id=name,
                group_instance_id=None,
                client_id="client",
                client_host="/127.0.0.1",
                member_metadata=wanted,
                member_assignment=owned if name == CONSUMER else b"",
            )
            for name in self.others
        ]
        groups = [
            answer.DescribedGroup(
                error_code=code,
                group_id=name,
                group_state="Stable",
                protocol_type="consumer",
                protocol_data=self.protocol,
                members=present,
                authorized_operations=frozenset(),
            )
            for name in request.groups
        ]
        return answer(throttle_time_ms=0, groups=groups)

    def _offsetfetch(self, answer: Any, request: Any, code: int) -> Any:
        of_partition = code if code in (3, 29, 88) else 0
        group = answer.OffsetFetchResponseGroup
        topic = group.OffsetFetchResponseTopics
        partition = topic.OffsetFetchResponsePartitions
        groups = [
            group(
                group_id=one.group_id,
                error_code=0 if of_partition else code,
                topics=[
                    topic(
                        name=TOPIC,
                        partitions=[
                            partition(
                                partition_index=0,
                                committed_offset=-1 if of_partition else 7,
                                committed_leader_epoch=-1,
                                metadata="",
                                error_code=of_partition,
                            )
                        ],
                    )
                ],
            )
            for one in request.groups
        ]
        return answer(throttle_time_ms=0, groups=groups)
