"""A group member with a subscription that a test gives byte for byte; it reads no records."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Final, Self

from kafka import errors as kafka_errors

from lab.sandbox.members.lines import Partition
from samerack.auth.kafka_config import for_kafka_python
from samerack.cluster.client import connect
from samerack.cluster.group_member import GroupMember, Joined
from samerack.common.errors import AgentError
from samerack.protocol.consumer import decode_assignment, encode_assignment
from samerack.protocol.values import Assignment, from_pairs, no_partitions, to_pairs

_TURN_SECONDS: Final = 0.1


class _Raw(GroupMember):
    def __init__(
        self,
        bootstrap: str,
        *,
        group: str,
        protocol: str,
        metadata: bytes,
        deals: tuple[Partition, ...],
        ends_at_errors: bool,
    ) -> None:
        self.client = connect(for_kafka_python({"bootstrap.servers": bootstrap, "client.id": "raw"}))
        super().__init__(
            self.client,
            group=group,
            instance_id=None,
            session_seconds=10,
            heartbeat_seconds=0.5,
            rebalance_seconds=10,
            assign=self._deal,
            wake=lambda: None,
        )
        self._offer = (protocol, metadata)
        self._deals = deals
        self.assigned = no_partitions()
        self._ends_at_errors = ends_at_errors
        self.has_ended = False

    async def _answered(self, sent: Any) -> Any:
        try:
            return await super()._answered(sent)
        except kafka_errors.KafkaError as error:
            if not self._ends_at_errors or isinstance(error, kafka_errors.MemberIdRequiredError):
                raise
            self.has_ended = True
            raise AgentError(str(error)) from error  # which no join is repeated after

    def protocol_type(self) -> str:
        return "consumer"

    def group_protocols(self) -> list[tuple[str, bytes]]:
        return [self._offer]

    def _take(self, content: bytes) -> None:
        self.assigned = decode_assignment(content).partitions if content else no_partitions()

    def _deal(self, joined: Joined) -> dict[str, bytes]:
        """As a leader it assigns all partitions in turn to the members with topics."""
        readers = sorted(name for name, _, metadata in joined.members if metadata[2:6] != bytes(4))
        return {
            name: encode_assignment(Assignment(version=0, partitions=from_pairs(self._deals[index :: len(readers)])))
            for index, name in enumerate(readers)
        }


class RawMember:
    """A running member; a context manager that has it leave the group."""

    def __init__(
        self,
        bootstrap: str,
        *,
        group: str,
        protocol: str,
        metadata: bytes,
        deals: tuple[Partition, ...] = (),
        ends_at_errors: bool = False,
    ) -> None:
        """Start the member.

        Args:
            bootstrap: `bootstrap.servers`.
            group: the group.
            protocol: the only protocol that it offers.
            metadata: the bytes of its subscription.
            deals: partitions that it assigns when it leads.
            ends_at_errors: whether an error of JoinGroup ends it, as samsa's members.
        """
        self._member = _Raw(
            bootstrap, group=group, protocol=protocol, metadata=metadata, deals=deals, ends_at_errors=ends_at_errors
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def assigned(self) -> frozenset[Partition]:
        """Its last assignment."""
        return frozenset(to_pairs(self._member.assigned))

    @property
    def has_ended(self) -> bool:
        """Whether an error of JoinGroup has ended it."""
        return self._member.has_ended

    @property
    def member_id(self) -> str:
        """Its member id; empty before it is in the group."""
        return self._member.member_id

    def stop(self) -> None:
        """Leave the group and end."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        member = self._member
        try:
            while not self._ended.wait(0 if member.wants_join else _TURN_SECONDS):
                try:
                    member.poll_heartbeat()
                    member.join(_TURN_SECONDS)
                except AgentError:
                    return
                except kafka_errors.KafkaError:
                    self._ended.wait(_TURN_SECONDS)
            member.leave()
        finally:
            member.client.close()

    def __enter__(self) -> Self:
        """Return the member."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Have the member leave the group."""
        self.stop()
