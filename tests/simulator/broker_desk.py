"""The `Desk` for a real broker: each name has its own connection, because requests are parked."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from itertools import count
from typing import Any, Final, Self

from kafka import errors as kafka_errors
from kafka.protocol.admin.groups import DescribeGroupsRequest
from kafka.protocol.consumer.group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from samerack.cluster.client import close, connect
from samerack.common.kafka_config import for_kafka_python
from tests.simulator.desk import GIVES_ID, PARKED, PATIENCE, Line, Record, play, wrapped
from tests.simulator.group import Described, DescribedMember, Error, Joined, Synced
from tests.simulator.scenarios import LONG, RANGE, REBALANCE, Scenario

_MILLISECONDS: Final = 60_000
_BUSY_SECONDS: Final = 5.0


class BrokerDesk:
    """Sends requests to a real broker; a context manager that closes all connections."""

    def __init__(self, bootstrap: str, group: str, expected: Sequence[Line]) -> None:
        """Waits until the group has a coordinator.

        Args:
            bootstrap: The cluster's `bootstrap.servers`.
            group: The group of this scenario.
            expected: The model's record: where it has an answer, a busy broker gets more time.
        """
        self._expected = expected
        self.record = Record()
        self._bootstrap = bootstrap
        self._group = group
        self._clients: dict[str, Any] = {}
        self._coordinator: int | None = None
        self._waiting: dict[str, dict[str, Any]] = {}
        self._generation: dict[str, int] = {}
        self._protocol: dict[str, str] = {}
        self._instance: dict[str, str | None] = {}
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
                close(client)

    def join(
        self,
        who: str,
        *,
        instance: str | None = None,
        anew: bool = False,
        protocols: tuple[tuple[str, bytes], ...] = RANGE,
        session: float = LONG,
        rebalance: float = REBALANCE,
        kind: str = "consumer",
    ) -> None:
        """JoinGroup."""
        self._instance[who] = instance
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=round(session * 1000),
            rebalance_timeout_ms=round(rebalance * 1000),
            member_id="" if anew else self.record.names.of.get(who, ""),
            group_instance_id=instance,
            protocol_type=kind,
            protocols=list(wrapped(protocols)),
            reason="a scenario",
            max_version=9,
        )
        self._waiting.setdefault(who, {})["join"] = self._send(who, request)
        self._take(who, "join", PATIENCE / 3)

    def sync(self, who: str, *, plan: dict[str, bytes] | None = None, generation: int | None = None) -> None:
        """SyncGroup."""
        of = self.record.names.of
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation.get(who, -1) if generation is None else generation,
            member_id=of.get(who, ""),
            group_instance_id=self._instance.get(who),
            protocol_type="consumer",
            protocol_name=self._protocol.get(who, "range"),
            assignments=[(of[name], assignment) for name, assignment in (plan or {}).items()],
            max_version=5,
        )
        self._waiting.setdefault(who, {})["sync"] = self._send(who, request)
        time.sleep(0.03)  # so that requests over several connections arrive in the order in which they were sent

    def beat(self, who: str, *, generation: int | None = None, instance: str | None = None) -> None:
        """Heartbeat."""
        request = HeartbeatRequest(
            group_id=self._group,
            generation_id=self._generation.get(who, -1) if generation is None else generation,
            member_id=self.record.names.of.get(who, ""),
            group_instance_id=instance,
        )
        self.record.add(f"beat {who}", error=Error(self._ask(request).error_code).name)

    def leave(self, who: str, *, instance: str | None = None, by_instance: bool = False) -> None:
        """LeaveGroup."""
        member_id = "" if by_instance else self.record.names.of.get(who, "")
        identity = LeaveGroupRequest.MemberIdentity(
            member_id=member_id, group_instance_id=instance, reason="a scenario"
        )
        answer = self._ask(LeaveGroupRequest(group_id=self._group, member_id=member_id, members=[identity]))
        code = answer.error_code or answer.members[0].error_code
        self.record.add(f"leave {who}", error=Error(code).name)

    def describe(self) -> None:
        """DescribeGroups."""
        found = self._described()
        self.record.described(
            Described(
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
        )

    def _described(self) -> Any:
        request = DescribeGroupsRequest(groups=[self._group], include_authorized_operations=False, max_version=5)
        return self._ask(request).groups[0]

    def hear(self, *names: str) -> None:
        """Record the answers."""
        waiting = [(who, kind) for who in names for kind in ("join", "sync") if kind in self._waiting.get(who, {})]
        for number, (who, kind) in enumerate(waiting, len(self.record.lines)):
            parked = number >= len(self._expected) or self._expected[number]["error"] == PARKED
            self._take(who, kind, PATIENCE if parked else _BUSY_SECONDS)
        for who, kind in waiting:
            (self._write_join if kind == "join" else self._write_sync)(who)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    # answers

    def _take(self, who: str, kind: str, seconds: float) -> None:
        """Wait a while for an answer, and keep its member id and generation for later requests."""
        answer = self._waiting[who][kind]
        deadline = time.monotonic() + seconds
        while not answer.is_done and time.monotonic() < deadline:
            time.sleep(0.005)
        if kind == "join" and answer.is_done:
            joined = answer.value
            if joined.error_code in GIVES_ID:
                self.record.names.learn(who, joined.member_id)
            if joined.error_code == Error.NONE:
                self._generation[who], self._protocol[who] = joined.generation_id, joined.protocol_name

    def _write_join(self, who: str) -> None:
        if not self._waiting[who]["join"].is_done:
            self.record.add(f"join {who}", error=PARKED)
            return
        answer = self._waiting[who].pop("join").value
        self.record.joined(
            who,
            Joined(
                error=Error(answer.error_code),
                member_id=answer.member_id,
                generation=answer.generation_id,
                protocol=answer.protocol_name or "",
                leader=answer.leader,
                skip_assignment=answer.skip_assignment,
                members=tuple(
                    (one.member_id, one.group_instance_id or None, bytes(one.metadata)) for one in answer.members
                ),
            ),
        )

    def _write_sync(self, who: str) -> None:
        if not self._waiting[who]["sync"].is_done:
            self.record.add(f"sync {who}", error=PARKED)
            return
        answer = self._waiting[who].pop("sync").value
        self.record.synced(who, Synced(error=Error(answer.error_code), assignment=bytes(answer.assignment)))

    # connections

    def _client(self, who: str) -> Any:
        if who not in self._clients:
            self._clients[who] = connect(for_kafka_python({"bootstrap.servers": self._bootstrap}))
        return self._clients[who]

    def _send(self, who: str, request: Any) -> Any:
        client = self._client(who)
        node = self._find(client)

        async def exchange() -> Any:
            return await client._manager.send(request, node_id=node, request_timeout_ms=_MILLISECONDS)

        return client._manager.call_soon(exchange)

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
            return await client._manager.send(request, node_id=client.least_loaded_node())

        return client._net.run(exchange)


def record(bootstrap: str, group: str, scenario: Scenario) -> Record:
    """The record of a scenario on a real broker."""
    expected = play(scenario, (f"member-{number}" for number in count()))
    with BrokerDesk(bootstrap, group, expected) as desk:
        scenario(desk)
        return desk.record
