"""The coordination of a real broker: each name has its own connection, because requests are parked."""

from __future__ import annotations

import time
import warnings
from itertools import count
from typing import Any, Final, Self

from kafka import errors as kafka_errors
from kafka.protocol.admin.groups import DescribeGroupsRequest
from kafka.protocol.consumer.group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from samerack.auth.kafka_config import for_kafka_python
from samerack.cluster.client import connect
from tests.simulator.desk import PARKED, PATIENCE, Answer, Desk, Record, Scenario, play
from tests.simulator.group import Described, DescribedMember, Error, Join, Joined, Sync, Synced

_MILLISECONDS: Final = 60_000
_BUSY_SECONDS: Final = 5.0


class _Broker:
    """A context manager that closes all connections; the group has a coordinator from the start."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._clients: dict[str, Any] = {}
        self._coordinator: int | None = None
        self._waiting: dict[tuple[str, str], Any] = {}
        deadline = time.monotonic() + 30.0
        while self._described().error_code:
            assert time.monotonic() < deadline
            self._coordinator = None
            time.sleep(0.2)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # kafka-python leaves sockets to the collector
            for client in self._clients.values():
                client.close()

    def join(self, who: str, request: Join) -> None:
        join = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=request.session_ms,
            rebalance_timeout_ms=request.rebalance_ms,
            member_id=request.member_id,
            group_instance_id=request.instance_id,
            protocol_type=request.protocol_type,
            protocols=list(request.protocols),
            reason="a scenario",
            max_version=9,
        )
        self._waiting[who, "join"] = self._send(who, join)

    def sync(self, who: str, request: Sync) -> None:
        sync = SyncGroupRequest(
            group_id=self._group,
            generation_id=request.generation,
            member_id=request.member_id,
            group_instance_id=request.instance_id,
            protocol_type="consumer",
            protocol_name=request.protocol,
            assignments=list(request.assignments),
            max_version=5,
        )
        self._waiting[who, "sync"] = self._send(who, sync)
        time.sleep(0.03)  # so that requests over several connections arrive in the order in which they were sent

    def answer(self, who: str, kind: str, seconds: float) -> Answer:
        waiting = self._waiting[who, kind]
        deadline = time.monotonic() + seconds
        while not waiting.is_done:
            if time.monotonic() > deadline:
                return None
            time.sleep(0.005)
        answer = waiting.value
        if kind == "sync":
            return Synced(error=Error(answer.error_code), assignment=bytes(answer.assignment))
        return Joined(
            error=Error(answer.error_code),
            member_id=answer.member_id,
            generation=answer.generation_id,
            protocol=answer.protocol_name or "",
            leader=answer.leader,
            skip_assignment=answer.skip_assignment,
            members=tuple(
                (one.member_id, one.group_instance_id or None, bytes(one.metadata)) for one in answer.members
            ),
        )

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> Error:
        request = HeartbeatRequest(
            group_id=self._group, generation_id=generation, member_id=member_id, group_instance_id=instance_id
        )
        return Error(self._ask(request).error_code)

    def leave(self, member_id: str, instance_id: str | None) -> Error:
        identity = LeaveGroupRequest.MemberIdentity(
            member_id=member_id, group_instance_id=instance_id, reason="a scenario"
        )
        answer = self._ask(LeaveGroupRequest(group_id=self._group, member_id=member_id, members=[identity]))
        return Error(answer.error_code or answer.members[0].error_code)

    def describe(self) -> Described:
        found = self._described()
        return Described(
            state=found.group_state,
            protocol_type=found.protocol_type,
            protocol=found.protocol_data,
            members=tuple(
                DescribedMember(
                    member_id=one.member_id,
                    group_instance_id=one.group_instance_id or None,
                    client_id=one.client_id,
                    client_host=one.client_host,
                    member_metadata=bytes(one.member_metadata),
                    member_assignment=bytes(one.member_assignment),
                )
                for one in found.members
            ),
        )

    def _described(self) -> Any:
        request = DescribeGroupsRequest(groups=[self._group], include_authorized_operations=False, max_version=5)
        return self._ask(request).groups[0]

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    # connections

    def _client(self, who: str) -> Any:
        if who not in self._clients:
            self._clients[who] = connect(for_kafka_python({"bootstrap.servers": self._bootstrap}))
        return self._clients[who]

    def _send(self, who: str, request: Any) -> Any:
        client = self._client(who)
        node = self._find(client)

        async def exchange() -> Any:
            return await client.connections.send(request, node_id=node, request_timeout_ms=_MILLISECONDS)

        return client.connections.call_soon(exchange)

    def _ask(self, request: Any) -> Any:
        """Send a request over a connection without parked requests, and wait for the answer."""
        answer = self._send("*", request)
        deadline = time.monotonic() + 10.0
        while not answer.is_done:
            assert time.monotonic() < deadline
            time.sleep(0.002)
        return answer.value

    def _find(self, client: Any) -> int:
        if self._coordinator is not None:
            return self._coordinator
        deadline = time.monotonic() + 30.0
        while self._coordinator is None:
            request = FindCoordinatorRequest(key=self._group, key_type=0, coordinator_keys=[self._group])
            found = self._run(client, request)
            one = found.coordinators[0] if found.coordinators else found
            if one.error_code == 0:
                self._coordinator = one.node_id
                break
            assert time.monotonic() < deadline, kafka_errors.for_code(one.error_code)
            time.sleep(0.2)
        return int(self._coordinator)

    @staticmethod
    def _run(client: Any, request: Any) -> Any:
        async def exchange() -> Any:
            return await client.connections.send(request, node_id=client.connections.least_loaded_node())

        return client.net.run(exchange)


def record(bootstrap: str, group: str, scenario: Scenario) -> Record:
    """The record of a scenario on a real broker; where the model has an answer, a busy broker gets more time."""
    expected = play(scenario, (f"member-{number}" for number in count()))

    def patience(number: int) -> float:
        return PATIENCE if number >= len(expected) or expected[number]["error"] == PARKED else _BUSY_SECONDS

    with _Broker(bootstrap, group) as broker:
        desk = Desk(broker, patience)
        scenario(desk)
        return desk.record
