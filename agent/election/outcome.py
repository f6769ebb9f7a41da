"""What follows for this agent from its last election, and from what agents outside say: claims, and racks of hosts.

One thread changes it, others read: every value is replaced as a whole.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

from agent.election.choice import told_of_others
from agent.election.counting import NOTHING, Claim, Claims
from agent.election.model import NO_TOLD, Told, Verdict
from agent.election.registry import Registry

_NO_RACKS: Final[Mapping[str, str]] = MappingProxyType({})
_NO_TERM: Final = -1


class Reader(Protocol):
    """Who reads what agents outside say."""

    registry: Registry

    def follow(self, *, active: bool) -> None:
        """Read while this agent is active for something."""

    def is_fresh(self) -> bool:
        """Whether enough is known of agents outside to count beside them."""


class Outcome:
    """The last verdict, and all that follows from it."""

    def __init__(self, reader: Reader) -> None:
        """Prepare.

        Args:
            reader: who reads what agents outside say; it is asked to while this agent is active for something.
        """
        self.verdict: Verdict | None = None
        self.claims = NOTHING
        self.racks = _NO_RACKS
        self._reader = reader
        self._racks_from: tuple[object, object] = (None, None)
        self._elected_as = ""
        self._since = float("-inf")
        self._counts_groups = False
        self._told_outside: frozenset[Told] = NO_TOLD
        self._claims_term = _NO_TERM

    @property
    def term(self) -> int:
        """Number of the last election; 0 before the first."""
        return self.verdict.term if self.verdict is not None else 0

    def elected(self, verdict: Verdict, member_id: str) -> bool:
        """Take note of an election; whether it brought anything new.

        Claims go on that this agent has as the same member: it was never given up.

        Args:
            verdict: what this agent is to do.
            member_id: by what id it took part.
        """
        if verdict == self.verdict:
            return False
        first = self.verdict is None and verdict.agents == 1  # nobody before this agent
        if member_id != self._elected_as:
            self.claims, self._counts_groups, self._claims_term = NOTHING, False, _NO_TERM
        self._since = float("-inf") if first else time.monotonic()
        self.verdict, self._elected_as = verdict, member_id
        self._reader.follow(active=bool(verdict.active))
        self.settle()
        return True

    def end(self) -> None:
        """Take note that this agent takes part no more, so that it is active for nothing."""
        self.verdict, self._elected_as = Verdict(term=self.term, agents=0), ""
        self.claims, self._counts_groups, self._claims_term = NOTHING, False, _NO_TERM
        self.racks, self._racks_from = _NO_RACKS, (None, None)
        self._reader.follow(active=False)

    def claim(self, held: Mapping[str | Told, Claim]) -> None:
        """Take note of what an agent outside counts."""
        if held != self.claims.held:
            self.claims = Claims(held)

    def settle(self) -> bool:
        """Take note of what agents outside say; whether it lets this agent begin to count groups."""
        verdict = self.verdict
        if verdict is None:
            return False
        registry = self._reader.registry
        if not (self._racks_from[0] is verdict and self._racks_from[1] is registry.racks):
            self._racks_from = (verdict, registry.racks)
            self.racks = _merged(verdict.racks, registry.racks) if verdict.active else _NO_RACKS
        counts = bool(verdict.active) and (self._counts_groups or self._reader.is_fresh())
        told = registry.told if verdict.active else NO_TOLD
        if (counts, told, verdict.term) == (self._counts_groups, self._told_outside, self._claims_term):
            return False
        begins = counts and not self._counts_groups
        before = self.claims.held
        given: tuple[str | Told, ...] = (*(verdict.active if counts else ()), *verdict.told)
        self.claims = Claims(
            {what: before.get(what) or Claim(what=what, term=verdict.term, since=self._since) for what in given},
            duties=verdict.counting,
            elsewhere=verdict.elsewhere | told_of_others(verdict.active, told - verdict.told),
        )
        self._counts_groups, self._told_outside, self._claims_term = counts, told, verdict.term
        return begins

    def knows_those_outside(self) -> bool:
        """Whether the claims leave out all that agents outside may count by now."""
        if self.verdict is None or not self.verdict.active:
            return True
        return self._reader.is_fresh() and self._reader.registry.told == self._told_outside


def _merged(verdict: Mapping[str, str], read: Mapping[str, str]) -> dict[str, str]:
    """Racks from both; an address of two racks says nothing."""
    return {
        address: rack
        for address, rack in {**read, **verdict}.items()
        if verdict.get(address, rack) == read.get(address, rack)
    }
