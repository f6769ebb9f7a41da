"""A group member with a subscription that a test gives byte for byte, on a thread of its own."""

from __future__ import annotations

import threading
from typing import Any, Final, Self

from kafka import errors as kafka_errors

from lab.sandbox.members.lines import Partition
from lab.sandbox.members.raw import RawGroupMember
from samerack.auth.kafka_config import for_kafka_python
from samerack.cluster.client import connect
from samerack.common.errors import AgentError
from samerack.protocol.consumer import decode_assignment
from samerack.protocol.values import to_pairs

_TURN_SECONDS: Final = 0.1


class _EndsAtErrors(RawGroupMember):
    """A member that an error of JoinGroup ends, as samsa's members."""

    has_ended = False

    async def _answered(self, sent: Any) -> Any:
        try:
            return await super()._answered(sent)
        except kafka_errors.KafkaError as error:
            if isinstance(error, kafka_errors.MemberIdRequiredError):
                raise
            self.has_ended = True
            raise AgentError(str(error)) from error  # which no join is repeated after


class RawMember:
    """A running member; a context manager that has it leave the group."""

    def __init__(
        self,
        bootstrap: str,
        *,
        group: str,
        metadata: bytes,
        deals: tuple[Partition, ...] = (),
        ends_at_errors: bool = False,
    ) -> None:
        """Start the member, which offers `range` with this subscription; `deals` is what it assigns when it leads."""
        kind = _EndsAtErrors if ends_at_errors else RawGroupMember
        self._client = connect(for_kafka_python({"bootstrap.servers": bootstrap, "client.id": "raw"}))
        self._member = kind(
            self._client,
            group=group,
            offer=("range", metadata),
            deals=deals,
            session_seconds=10,
            heartbeat_seconds=0.5,
            rebalance_seconds=10,
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def assigned(self) -> frozenset[Partition]:
        """Its last assignment."""
        content = self._member.assignment
        return frozenset(to_pairs(decode_assignment(content).partitions)) if content else frozenset()

    @property
    def has_ended(self) -> bool:
        """Whether an error of JoinGroup has ended it."""
        return isinstance(self._member, _EndsAtErrors) and self._member.has_ended

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
            self._client.close()

    def __enter__(self) -> Self:
        """Return the member."""
        return self

    def __exit__(self, *_: object) -> None:
        """Have the member leave the group."""
        self.stop()
