"""What an active agent knows of all waiting agents: their racks by address.

It comes from DescribeGroups. A group shows its members' metadata only while it is stable; while it rebalances, the last
assignment counts, which holds the same content. An agent that moves from one group to another is in none for a moment,
so an address is kept for some seconds more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from samerack.cluster.group import DescribedGroup
from samerack.election.messages import Advertisement, decode_advertisement, identifies_host

KEPT_SECONDS: Final = 30.0
"""How long an address keeps its rack after its agent was last seen."""


class Registry:
    """All groups of agents, as last described. Not thread-safe."""

    def __init__(self, election: str) -> None:
        """Start without groups."""
        self._election = election
        self._groups: dict[str, dict[str, Advertisement]] = {}
        self._seen: dict[str, tuple[str, float]] = {}
        self.racks: Mapping[str, str] = {}
        self.waiting = 0

    def take(self, group: str, described: DescribedGroup) -> None:
        """Store one description."""
        known = self._groups.get(group, {})
        members: dict[str, Advertisement] = {}
        for member in described.members:
            # members of the election are assigned verdicts, others what they have sent
            content = member.member_metadata or (b"" if group == self._election else member.member_assignment)
            if content:
                members[member.member_id] = decode_advertisement("", content)
            elif (before := known.get(member.member_id)) is not None:
                members[member.member_id] = before
        self._groups[group] = members

    def skip(self, group: str) -> None:
        """Treat a group as empty that this agent may not see: no agent is expected there."""
        self._groups[group] = {}

    def sum_up(self, now: float) -> bool:
        """Compute the results from all descriptions; return whether any changed."""
        here: dict[str, str | None] = {}
        for members in self._groups.values():
            for advertisement in members.values():
                for address in filter(identifies_host, advertisement.addresses if advertisement.rack else ()):
                    here[address] = (
                        advertisement.rack if here.get(address, advertisement.rack) == advertisement.rack else None
                    )
        seen = {address: one for address, one in self._seen.items() if now - one[1] < KEPT_SECONDS}
        seen.update((address, (rack, now)) for address, rack in here.items() if rack is not None)
        self._seen = {address: one for address, one in seen.items() if here.get(address, "") is not None}
        racks = {address: rack for address, (rack, _) in sorted(self._seen.items())}
        waiting = sum(len(members) for group, members in self._groups.items() if group != self._election)
        changed = (racks, waiting) != (self.racks, self.waiting)
        if racks != self.racks:
            self.racks = racks
        self.waiting = waiting
        return changed
