"""An agent as a member of the agents' own group: says its presence, and as the group's leader answers everybody.

What must not enter: what an agent does with a verdict, and threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kafka.net.compat import KafkaNetClient

from agent.coordination import GroupMember, Joined
from agent.election.choice import choose
from agent.election.model import (
    PROTOCOL,
    PROTOCOL_TYPE,
    Presence,
    Told,
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
        self.told: frozenset[Told] = frozenset()
        self.verdict: Verdict | None = None
        self.well_at = float("-inf")
        self._sure_seconds = min(settings.session_timeout_seconds, settings.rebalance_timeout_seconds)

    def protocol_type(self) -> str:
        """A type of its own: nobody takes the group for one of consumers."""
        return PROTOCOL_TYPE

    def group_protocols(self) -> list[tuple[str, bytes]]:
        """What this agent is and holds."""
        verdict = self.verdict
        presence = self._presence.model_copy(update={"told": tuple(sorted(self.told))})
        if verdict is not None:
            presence = presence.model_copy(update={"held": tuple(sorted(verdict.active)), "term": verdict.term})
        return [(PROTOCOL, encode(presence))]

    def _process_sync_group_response(self, response: Any, send_time: float) -> Any:
        content = super()._process_sync_group_response(response, send_time)
        self.well_at = send_time
        return content

    def _handle_heartbeat_response(self, response: Any, send_time: float) -> Any:
        result = super()._handle_heartbeat_response(response, send_time)  # raises where it is anything but well
        self.well_at = send_time
        return result

    def is_sure_of(self, verdict: Verdict) -> bool:
        """Whether no election can have taken place since the one of this verdict.

        Brokers give a member up after its session, and elect without it after the time that an election waits.
        """
        return (
            self.generation_id == verdict.term
            and not self.wants_join
            and not self.fenced
            and time.monotonic() - self.well_at < self._sure_seconds
        )

    def _take(self, content: bytes) -> None:
        verdict = decode_verdict(content)
        if verdict is not None:
            self.verdict = verdict


def _answer(joined: Joined) -> dict[str, bytes]:
    present = {member: decode_presence(member, metadata) for member, _, metadata in joined.members}
    return {member: encode(verdict) for member, verdict in choose(present, joined.generation).items()}
