"""An agent as a member of the agents' own group: says its presence, and as the group's leader answers everybody.

What must not enter: what an agent does with a verdict, and threads.
"""

from __future__ import annotations

from collections.abc import Callable

from kafka.net.compat import KafkaNetClient

from agent.coordination import GroupMember, Joined
from agent.election.choice import choose
from agent.election.model import (
    PROTOCOL,
    PROTOCOL_TYPE,
    Presence,
    Verdict,
    decode_presence,
    decode_verdict,
    encode,
)
from common.settings import ElectionSettings


class ElectionMember(GroupMember):
    """A static member of the agents' group: one that is started again at once keeps what it was active for."""

    def __init__(
        self, client: KafkaNetClient, *, settings: ElectionSettings, presence: Presence, wake: Callable[[], None]
    ) -> None:
        """Prepare; nothing is sent before `join`.

        Args:
            client: A client of this group's own.
            settings: The group's name and its times.
            presence: What this agent says of itself, before it holds anything.
            wake: Called from the network thread when there is to be an election.
        """
        super().__init__(
            client,
            group=settings.group,
            instance_id=presence.identity,
            session_seconds=settings.session_timeout_seconds,
            heartbeat_seconds=settings.heartbeat_seconds,
            rebalance_seconds=settings.rebalance_timeout_seconds,
            assign=_answer,
            wake=wake,
        )
        self._presence = presence
        self.verdict: Verdict | None = None

    def protocol_type(self) -> str:
        """A type of its own: nobody takes the group for one of consumers."""
        return PROTOCOL_TYPE

    def group_protocols(self) -> list[tuple[str, bytes]]:
        """What this agent is and holds."""
        verdict = self.verdict
        presence = self._presence
        if verdict is not None:
            presence = presence.model_copy(update={"held": tuple(sorted(verdict.active)), "term": verdict.term})
        return [(PROTOCOL, encode(presence))]

    def _take(self, content: bytes) -> None:
        verdict = decode_verdict(content)
        if verdict is not None:
            self.verdict = verdict


def _answer(joined: Joined) -> dict[str, bytes]:
    present = {member: decode_presence(member, metadata) for member, _, metadata in joined.members}
    return {member: encode(verdict) for member, verdict in choose(present, joined.generation).items()}
