"""Decides which bytes this agent counts, so that the sum over all agents has each byte once.

A group is counted by the agent that is active for leading it; a group that no agent both leads and measures, by the
agent that is active for the longest pattern that it matches. What a client reports to an agent is counted by that
agent only, active or not. A claim covers the time between two moments only if it is held at both: no agent counts
what was read around a change of agents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from samerack.common.patterns import fits, included
from samerack.election.messages import ReportingMember, lead, observe, observed_by


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to count something, held without interruption.

    Attributes:
        what: a responsibility, or a member whose client reports its reads.
        term: the election that gave it.
        since: until when another agent may have counted it, on the monotonic clock.
    """

    what: str | ReportingMember
    term: int
    since: float


class Claims:
    """All claims of this agent between two elections."""

    def __init__(
        self,
        held: Mapping[str | ReportingMember, Claim],
        *,
        responsibilities: Iterable[str] = (),
        elsewhere: AbstractSet[ReportingMember] = frozenset(),
        whole: Claim | None = None,
    ) -> None:
        """Prepare.

        `responsibilities` are those of all agents by which groups are counted; `elsewhere` are members that report to
        other agents, which count them; `whole` is a claim to everything.
        """
        self.held = held
        self._responsibilities = frozenset(responsibilities)
        self._patterns = sorted(included(observed_by(self._responsibilities)), key=lambda one: (-len(one), one))
        self._elsewhere = elsewhere
        self._whole = whole
        self._known: dict[str, Claim | None] = {}

    @property
    def counts_groups(self) -> bool:
        """Whether the agent counts any group, and not only members that report to it."""
        return self._whole is not None or any(isinstance(what, str) for what in self.held)

    def of_pattern(self, pattern: str) -> Claim | None:
        """Return the claim to the groups of a pattern, as `traffic.groups` has it, if any."""
        return self._whole or self.held.get(observe(pattern))

    def of_group(self, group: str) -> Claim | None:
        """Return the claim to a group, if any."""
        if self._whole is not None:
            return self._whole
        if group not in self._known:
            responsibility = lead(group)
            if responsibility not in self._responsibilities:
                responsibility = next((observe(one) for one in self._patterns if fits(one, group)), "")
            self._known[group] = self.held.get(responsibility)
        return self._known[group]

    def of_member(self, group: str, member: str) -> frozenset[Claim]:
        """Return the claims to what a reporting member read: the group's and its own."""
        by_group = None if (group, member) in self._elsewhere else self.of_group(group)
        return frozenset(claim for claim in (by_group, self.held.get((group, member))) if claim is not None)

    def elsewhere(self, group: str) -> frozenset[str]:
        """Return the ids of a group's members that another agent counts."""
        return frozenset(member for where, member in self._elsewhere if where == group)


NOTHING: Final = Claims({})
EVERYTHING: Final = Claims({}, whole=Claim(what="", term=0, since=float("-inf")))
"""Claims of an agent that is alone, or acts as if it were."""
