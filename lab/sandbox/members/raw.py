"""A member of a classic group that reads nothing, on the agent's own requests: its caller polls it and has it join."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lab.sandbox.members.lines import Partition
from samerack.cluster.client import ClusterClient
from samerack.cluster.group_member import GroupMember, Joined
from samerack.protocol.consumer import encode_assignment
from samerack.protocol.values import Assignment, from_pairs


class RawGroupMember(GroupMember):
    """A member that offers one protocol with a subscription as it is given, and deals partitions where it leads."""

    def __init__(  # noqa: PLR0913 - what a member is, and its times
        self,
        client: ClusterClient,
        *,
        group: str,
        offer: tuple[str, bytes],
        deals: Sequence[Partition],
        session_seconds: float,
        heartbeat_seconds: float,
        rebalance_seconds: float,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare; `offer` is its protocol and subscription, `deals` what it gives to members with topics in turn."""
        super().__init__(
            client,
            group=group,
            instance_id=None,
            session_seconds=session_seconds,
            heartbeat_seconds=heartbeat_seconds,
            rebalance_seconds=rebalance_seconds,
            assign=self._deal,
            wake=wake,
        )
        self._offer = offer
        self._deals = deals
        self.assignment = b""
        """Its last assignment, as it came."""

    def protocol_type(self) -> str:
        """Return the type of consumer groups."""
        return "consumer"

    def group_protocols(self) -> list[tuple[str, bytes]]:
        """Return its one protocol."""
        return [self._offer]

    def _take(self, content: bytes) -> None:
        self.assignment = content

    def _deal(self, joined: Joined) -> dict[str, bytes]:
        readers = sorted(name for name, _, metadata in joined.members if metadata[2:6] != bytes(4))  # with topics
        return {
            name: encode_assignment(Assignment(version=0, partitions=from_pairs(self._deals[index :: len(readers)])))
            for index, name in enumerate(readers)
        }
