"""What an active agent knows of all waiting agents: their racks by address, and the members that report to them.

It comes from DescribeGroups. A group shows its members' metadata only while it is stable; while it rebalances, the last
assignment counts, which holds the same content. An agent that moves from one group to another is in none for a moment,
so an address is kept for some seconds more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from samerack.election.asking import DescribedAgents
from samerack.election.model import NO_TOLD, Advertisement, Told, decode_presence, is_told

KEPT_SECONDS: Final = 30.0
"""How long an address keeps its rack after its agent was last seen."""


class Registry:
    """All groups of agents, as last described. Not thread-safe."""

    def __init__(self, election: str, waiting: Iterable[str]) -> None:
        """Prepare.

        Args:
            election: the election's own group: the members that report to its agents come with its verdicts.
            waiting: the groups of waiting agents.
        """
        self._election = election
        self._groups: dict[str, dict[str, Advertisement]] = {}
        self._complete_at = dict.fromkeys(waiting, float("-inf"))
        self._told: dict[str, frozenset[Told]] = {}
        self._seen: dict[str, tuple[str, float]] = {}
        self.racks: Mapping[str, str] = {}
        self.told: frozenset[Told] = NO_TOLD
        self.waiting = 0

    def take(self, group: str, described: DescribedAgents, *, asked_at: float) -> None:
        """Store one description.

        Args:
            group: the group.
            described: its members.
            asked_at: seconds, monotonic, before the request was sent.
        """
        known = self._groups.get(group, {})
        told: set[Told] = set()
        complete = True
        members: dict[str, Advertisement] = {}
        for member in described.members:
            said = [decode_presence("", content) for content in (member.metadata, member.assignment) if content]
            if group == self._election:
                said = said[:1] if member.metadata else []  # its members are assigned verdicts
            if said:
                members[member.id] = said[0]
                told.update(one for presence in said for one in presence.told)
            else:
                complete = False
                if member.id in known:
                    members[member.id] = known[member.id]
                    told.update(known[member.id].told)
        self._groups[group] = members
        self._told[group] = frozenset(told)
        if complete and group in self._complete_at:
            self._complete_at[group] = asked_at

    def skip(self, group: str, *, asked_at: float) -> None:
        """Treat a group as empty that this agent may not see: no agent is expected there."""
        self._groups[group] = {}
        self._told[group] = NO_TOLD
        if group in self._complete_at:
            self._complete_at[group] = asked_at

    def sum_up(self, now: float) -> bool:
        """Compute the results from all descriptions; return whether any changed."""
        here: dict[str, str | None] = {}
        for members in self._groups.values():
            for presence in members.values():
                for address in filter(is_told, presence.addresses if presence.rack else ()):
                    here[address] = presence.rack if here.get(address, presence.rack) == presence.rack else None
        seen = {address: one for address, one in self._seen.items() if now - one[1] < KEPT_SECONDS}
        seen.update((address, (rack, now)) for address, rack in here.items() if rack is not None)
        self._seen = {address: one for address, one in seen.items() if here.get(address, "") is not None}
        racks = {address: rack for address, (rack, _) in sorted(self._seen.items())}
        told = frozenset[Told]().union(*(told for group, told in self._told.items() if group != self._election))
        waiting = sum(len(members) for group, members in self._groups.items() if group != self._election)
        changed = (racks, told, waiting) != (self.racks, self.told, self.waiting)
        if racks != self.racks:
            self.racks = racks
        if told != self.told:
            self.told = told
        self.waiting = waiting
        return changed

    def complete_since(self) -> float:
        """Return until when all advertisements are known; seconds, monotonic, minus infinity at first."""
        return min(self._complete_at.values())
