"""Agents that wait outside the election, thousands in one process: they send a real agent's requests without threads.

A real agent has three threads and its own clients; one machine holds a few hundred of them. These agents use the
program's own code for the place of an agent, the groups, the metadata sent in them, and the times. When an agent is
needed in the election, it leaves its waiting group and calls `needed`, which starts a real agent.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from kafka.protocol.admin.groups import DescribeGroupsRequest
from kafka.protocol.consumer.group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.parser import KafkaProtocol

from samerack.cluster.group import DESCRIBE_VERSION
from samerack.cluster.group_member import JOIN_VERSION, SYNC_VERSION
from samerack.election.asking import answer_of
from samerack.election.member import WAITING_HEARTBEAT_SECONDS, WAITING_REBALANCE_SECONDS, WAITING_SESSION_SECONDS
from samerack.election.model import PROTOCOL_TYPE, WAITING_PROTOCOL, Advertisement, encode
from samerack.election.places import Place, look_pause, place_for, waiting_group, waiting_instance

_UNKNOWN_MEMBER: Final = 25
_REBALANCE: Final = 27
_RETRY_SECONDS: Final = 0.5
_HEARTBEAT_VERSION: Final = 4
_LEAVE_VERSION: Final = 5
_FIND_VERSION: Final = 4


class Connection:
    """One connection to the broker; one request at a time."""

    def __init__(self, host: str, port: int, sent: Counter[str]) -> None:
        self._address = (host, port)
        self._sent = sent
        self._protocol = KafkaProtocol(client_id="samerack")

    async def open(self) -> None:
        """Connect."""
        self._reader, self._writer = await asyncio.open_connection(*self._address)

    async def ask(self, request: Any) -> Any:
        """Send one request and return its answer."""
        self._sent[type(request).__name__.removesuffix("Request").partition("_")[0]] += 1
        self._protocol.send_request(request)
        self._writer.write(self._protocol.send_bytes())
        while True:
            data = await self._reader.read(1 << 16)
            if not data:
                raise ConnectionError("the broker has closed the connection")
            for _, response in self._protocol.receive_bytes(data):
                return response

    def close(self) -> None:
        """Disconnect."""
        self._writer.close()


class WaitingAgent:
    """One agent, from its first look at the election on."""

    def __init__(
        self, connection: Connection, *, election: str, advertisement: Advertisement, needed: Callable[[], None]
    ) -> None:
        """Prepare.

        Args:
            connection: The agent's own, not open yet.
            election: The election's group.
            advertisement: What the agent advertises.
            needed: Called when the agent must take part; it has left its waiting group by then.
        """
        self._connection = connection
        self._election = election
        self._advertisement = advertisement
        self._needed = needed
        self._group = waiting_group(election, advertisement.identity)
        self._instance = waiting_instance(advertisement.identity)
        self._member = ""
        self._generation = -1
        self.registered = False

    async def run(self) -> None:
        """Wait outside until the agent is needed."""
        await self._connection.open()
        while not await self._is_needed():
            look_at = time.monotonic() + look_pause(self._members, random.random())  # noqa: S311 - no secret
            while time.monotonic() < look_at:
                while not self.registered:
                    await self._join()
                await asyncio.sleep(WAITING_HEARTBEAT_SECONDS)
                await self._heartbeat()
        if self._member:
            await self._ask_with_member(LeaveGroupRequest, version=_LEAVE_VERSION, members=[self._identity()])
        self._connection.close()
        self._needed()

    async def _is_needed(self) -> bool:
        place = Place.UNDECIDED
        while place is Place.UNDECIDED:
            keys = {"key": self._election, "key_type": 0, "coordinator_keys": [self._election]}
            await self._connection.ask(FindCoordinatorRequest(version=_FIND_VERSION, **keys))
            request = DescribeGroupsRequest(
                version=DESCRIBE_VERSION, groups=[self._election], include_authorized_operations=False
            )
            described = answer_of((await self._connection.ask(request)).groups[0])
            if not isinstance(described, Exception):
                self._members = len(described.members)
                place = place_for(self._advertisement, described)
            if place is Place.UNDECIDED:
                await asyncio.sleep(_RETRY_SECONDS * (1 + random.random()))  # noqa: S311 - no secret
        return place is Place.INSIDE

    async def _join(self) -> None:
        said = encode(Advertisement(rack=self._advertisement.rack, addresses=self._advertisement.addresses))
        joined = await self._connection.ask(
            JoinGroupRequest(
                version=JOIN_VERSION,
                group_id=self._group,
                session_timeout_ms=round(1000 * WAITING_SESSION_SECONDS),
                rebalance_timeout_ms=round(1000 * WAITING_REBALANCE_SECONDS),
                member_id=self._member,
                group_instance_id=self._instance,
                protocol_type=PROTOCOL_TYPE,
                protocols=[(WAITING_PROTOCOL, said)],
                reason="waits outside",
            )
        )
        if joined.error_code:
            await self._failed(joined.error_code)
            return
        self._member, self._generation = joined.member_id, joined.generation_id
        leads = joined.leader == joined.member_id and not joined.skip_assignment
        synced = await self._ask_with_member(
            SyncGroupRequest,
            version=SYNC_VERSION,
            generation_id=self._generation,
            group_instance_id=self._instance,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=WAITING_PROTOCOL,
            assignments=[(one.member_id, bytes(one.metadata)) for one in joined.members] if leads else [],
        )
        if synced.error_code:
            await self._failed(synced.error_code)
            return
        self.registered = True

    async def _heartbeat(self) -> None:
        beat = await self._ask_with_member(
            HeartbeatRequest,
            version=_HEARTBEAT_VERSION,
            generation_id=self._generation,
            group_instance_id=self._instance,
        )
        if beat.error_code:
            await self._failed(beat.error_code)

    async def _failed(self, code: int) -> None:
        self.registered = False
        if code == _UNKNOWN_MEMBER:
            self._member = ""
        elif code != _REBALANCE:
            await asyncio.sleep(_RETRY_SECONDS)

    async def _ask_with_member(self, kind: type[Any], **fields: Any) -> Any:
        return await self._connection.ask(kind(group_id=self._group, member_id=self._member, **fields))

    def _identity(self) -> Any:
        return LeaveGroupRequest.MemberIdentity(
            member_id=self._member, group_instance_id=self._instance, reason="is needed in the election"
        )
