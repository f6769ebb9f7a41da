"""Which bytes this agent counts, so that the sum over all agents has each byte once.

A group is counted by the agent that is active for leading it; one that nobody leads and measures, by the agent that is
active for the most exact pattern that it matches. What a client tells an agent of itself is counted by that agent, be
it active or not, and by no other. A claim counts between two moments only if it holds at both: what lies around a
change of agents is counted by nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from agent.election.model import Told, lead, observe, observed_by


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to count something, held without a break.

    Attributes:
        what: a duty, or a member that tells of itself.
        term: the election that gave it.
        since: until when another agent may have counted it, on the monotonic clock.
    """

    what: str | Told
    term: int
    since: float


class Claims:
    """All claims of this agent between two elections."""

    def __init__(
        self,
        held: Mapping[str | Told, Claim],
        *,
        duties: Iterable[str] = (),
        elsewhere: AbstractSet[Told] = frozenset(),
        whole: Claim | None = None,
    ) -> None:
        """Prepare.

        Args:
            held: the claims by what they are for.
            duties: those of all agents by which groups are counted.
            elsewhere: what other agents are told, and count.
            whole: a claim to everything that there is.
        """
        self.held = held
        self._duties = frozenset(duties)
        self._patterns = sorted(observed_by(self._duties), key=lambda pattern: (-len(pattern), pattern))
        self._elsewhere = elsewhere
        self._whole = whole
        self._known: dict[str, Claim | None] = {}

    @property
    def any_duty(self) -> bool:
        """Whether the agent counts groups at all, rather than only what it is told."""
        return self._whole is not None or any(isinstance(what, str) for what in self.held)

    def of_group(self, group: str) -> Claim | None:
        """The claim to a group, if there is one."""
        if self._whole is not None:
            return self._whole
        if group not in self._known:
            duty = lead(group)
            if duty not in self._duties:
                duty = next((observe(one) for one in self._patterns if fnmatchcase(group, one)), "")
            self._known[group] = self.held.get(duty)
        return self._known[group]

    def of_member(self, group: str, member: str) -> frozenset[Claim]:
        """The claims to what a member tells of itself: by the group, and by its own."""
        by_group = None if (group, member) in self._elsewhere else self.of_group(group)
        return frozenset(claim for claim in (by_group, self.held.get((group, member))) if claim is not None)

    def elsewhere(self, group: str) -> frozenset[str]:
        """Ids of a group's members that another agent counts."""
        return frozenset(member for where, member in self._elsewhere if where == group)


NOTHING: Final = Claims({})
EVERYTHING: Final = Claims({}, whole=Claim(what="", term=0, since=float("-inf")))
"""Of an agent that is alone, or acts as if it were."""
