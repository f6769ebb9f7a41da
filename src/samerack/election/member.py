"""An agent as a member of the agents' own groups: of the election, or of a waiting group.

In the election each member sends its advertisement, and the group's leader answers each with a verdict. In a waiting
group each sends its rack, and the leader assigns it back to each, since Kafka shows assignments also while a group
rebalances.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from samerack.cluster.client import ClusterClient
from samerack.cluster.group_member import GroupMember, Joined
from samerack.election.choice import choose
from samerack.election.messages import (
    PROTOCOL,
    PROTOCOL_TYPE,
    WAITING_PROTOCOL,
    Advertisement,
    Verdict,
    decode_advertisement,
    decode_verdict,
    encode,
)
from samerack.election.places import waiting_group, waiting_instance
from samerack.settings.election import ElectionSettings

ELECTION_HEARTBEAT_SECONDS: Final = 0.5
"""A hand-over takes about as long; three agents for each group send these."""
_ELECTION_REBALANCE_SECONDS: Final = 5.0
"""How long an election waits for an agent that does not answer."""
WAITING_SESSION_SECONDS: Final = 30.0
WAITING_HEARTBEAT_SECONDS: Final = 5.0
WAITING_REBALANCE_SECONDS: Final = 15.0
"""For waiting agents, of which there may be thousands: no agent waits for what they send."""


class _AgentMember(GroupMember):
    """Base class of the members of both kinds of groups."""

    def protocol_type(self) -> str:
        """Return a type of its own, so that the group is not taken for a consumer group."""
        return PROTOCOL_TYPE


class ElectionMember(_AgentMember):
    """A static member of the election: after an immediate restart it keeps its responsibilities."""

    def __init__(
        self,
        client: ClusterClient,
        *,
        settings: ElectionSettings,
        advertisement: Advertisement,
        wake: Callable[[], None],
    ) -> None:
        """Prepare; nothing is sent before `join`. `wake` is called from the network thread when an election is due."""
        super().__init__(
            client,
            group=settings.group,
            instance_id=advertisement.identity,
            session_seconds=settings.session_timeout_seconds,
            heartbeat_seconds=ELECTION_HEARTBEAT_SECONDS,
            rebalance_seconds=_ELECTION_REBALANCE_SECONDS,
            assign=_verdicts,
            wake=wake,
        )
        self.advertisement = advertisement
        """What this agent advertises, before it holds anything; a change takes effect when it joins again."""
        self._sent = self.advertisement
        self.verdict: Verdict | None = None
        self._sure_seconds = min(settings.session_timeout_seconds, _ELECTION_REBALANCE_SECONDS)

    def group_protocols(self) -> list[tuple[str, bytes]]:
        """Return what this agent advertises and holds."""
        self._sent = advertisement = self.advertisement
        verdict = self.verdict
        if verdict is not None:
            advertisement = advertisement.model_copy(
                update={"held": tuple(sorted(verdict.active)), "term": verdict.term}
            )
        return [(PROTOCOL, encode(advertisement))]

    @property
    def news(self) -> str:
        """What this agent advertises since it sent its last JoinGroup, which may be parked for seconds; else empty."""
        return "leads other groups than before" if self._sent is not self.advertisement else ""

    @property
    def offered(self) -> frozenset[str]:
        """The responsibilities that its last JoinGroup offers."""
        return frozenset(self._sent.responsibilities)

    def is_sure_of(self, verdict: Verdict) -> bool:
        """Return whether no election can have taken place since the one of this verdict.

        Brokers remove a member after its session timeout, and continue without it after the rebalance timeout.
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
            # the group's leader may be older, or no agent at all: only offered responsibilities are accepted
            able = frozenset(self.advertisement.responsibilities)
            self.verdict = verdict.model_copy(
                update={"active": verdict.active & able, "with_standby": verdict.with_standby & able}
            )


class WaitingMember(_AgentMember):
    """A static member of one of the waiting groups."""

    def __init__(
        self, client: ClusterClient, *, election: str, advertisement: Advertisement, wake: Callable[[], None]
    ) -> None:
        """Prepare; nothing is sent before `join`, and of what this agent advertises only rack and addresses."""
        super().__init__(
            client,
            group=waiting_group(election, advertisement.identity),
            instance_id=waiting_instance(advertisement.identity),
            session_seconds=WAITING_SESSION_SECONDS,
            heartbeat_seconds=WAITING_HEARTBEAT_SECONDS,
            rebalance_seconds=WAITING_REBALANCE_SECONDS,
            assign=_what_each_sent,
            wake=wake,
        )
        self._advertisement = Advertisement(rack=advertisement.rack, addresses=advertisement.addresses)

    def group_protocols(self) -> list[tuple[str, bytes]]:
        """Return where this agent runs."""
        return [(WAITING_PROTOCOL, encode(self._advertisement))]

    def _take(self, content: bytes) -> None:
        """Ignore the assignment: it is this agent's own metadata, for those that describe the group."""


def _verdicts(joined: Joined) -> dict[str, bytes]:
    present = {member: decode_advertisement(member, metadata) for member, _, metadata in joined.members}
    return {member: encode(verdict) for member, verdict in choose(present, joined.generation).items()}


def _what_each_sent(joined: Joined) -> dict[str, bytes]:
    return {member: metadata for member, _, metadata in joined.members}
