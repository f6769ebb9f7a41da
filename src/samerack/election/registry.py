"""What an active agent knows of all waiting agents: their racks by address, and the members that report to them.

It comes from DescribeGroups. A group shows its members' metadata only while it is stable; while it rebalances, the last
assignment counts, which holds the same content. An agent that moves from one group to another is in none for a moment,
so an address is kept for some seconds more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from samerack.cluster.group import DescribedGroup
from samerack.election.messages import NO_MEMBERS, Advertisement, ReportingMember, decode_advertisement, identifies_host

KEPT_SECONDS: Final = 30.0
"""How long an address keeps its rack after its agent was last seen."""


class Registry:
    """All groups of agents, as last described. Not thread-safe."""

    def __init__(self, election: str, waiting: Iterable[str]) -> None:
        """Start without groups; the members that report to the election's own agents come with its verdicts."""
        self._election = election
        self._groups: dict[str, dict[str, Advertisement]] = {}
        self._complete_at = dict.fromkeys(waiting, float("-inf"))
        self._reporting: dict[str, frozenset[ReportingMember]] = {}
        self._seen: dict[str, tuple[str, float]] = {}
        self.racks: Mapping[str, str] = {}
        self.reporting: frozenset[ReportingMember] = NO_MEMBERS
        self.waiting = 0

    def take(self, group: str, described: DescribedGroup, *, asked_at: float) -> None:
        """Store one description, of a request that was sent after `asked_at` (monotonic seconds)."""
        known = self._groups.get(group, {})
        reporting: set[ReportingMember] = set()
        complete = True
        members: dict[str, Advertisement] = {}
        for member in described.members:
            contents = (member.member_metadata, member.member_assignment)
            said = [decode_advertisement("", content) for content in contents if content]
            if group == self._election:
                said = said[:1] if member.member_metadata else []  # its members are assigned verdicts
            if said:
                members[member.member_id] = said[0]
                reporting.update(one for advertisement in said for one in advertisement.reporting)
            else:
                complete = False
                if (before := known.get(member.member_id)) is not None:
                    members[member.member_id] = before
                    reporting.update(before.reporting)
        self._groups[group] = members
        self._reporting[group] = frozenset(reporting)
        if complete and group in self._complete_at:
            self._complete_at[group] = asked_at

    def skip(self, group: str, *, asked_at: float) -> None:
        """Treat a group as empty that this agent may not see: no agent is expected there."""
        self._groups[group] = {}
        self._reporting[group] = NO_MEMBERS
        if group in self._complete_at:
            self._complete_at[group] = asked_at

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
        reporting = frozenset[ReportingMember]().union(
            *(reporting for group, reporting in self._reporting.items() if group != self._election)
        )
        waiting = sum(len(members) for group, members in self._groups.items() if group != self._election)
        changed = (racks, reporting, waiting) != (self.racks, self.reporting, self.waiting)
        if racks != self.racks:
            self.racks = racks
        if reporting != self.reporting:
            self.reporting = reporting
        self.waiting = waiting
        return changed

    def complete_since(self) -> float:
        """Return until when all advertisements are known; seconds, monotonic, minus infinity at first."""
        return min(self._complete_at.values())
