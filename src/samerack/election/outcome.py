"""Derives claims and racks of hosts from this agent's last election and from what waiting agents advertise.

One thread changes them, others read: every value is replaced as a whole.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

from samerack.election.choice import reporting_to_others
from samerack.election.counting import NOTHING, Claim, Claims
from samerack.election.messages import NO_MEMBERS, ReportingMember, Verdict
from samerack.election.registry import Registry

_NO_RACKS: Final[Mapping[str, str]] = MappingProxyType({})
_NO_TERM: Final = -1


class Reader(Protocol):
    """Reads what waiting agents advertise."""

    registry: Registry

    def follow(self, *, active: bool) -> None:
        """Read while this agent is active for something."""

    def is_fresh(self) -> bool:
        """Return whether enough is known of waiting agents to count beside them."""


class ElectionOutcome:
    """The last verdict, and what follows from it."""

    def __init__(self, reader: Reader) -> None:
        self.verdict: Verdict | None = None
        self.claims = NOTHING
        self.racks = _NO_RACKS
        self._reader = reader
        self._racks_from: tuple[object, object] = (None, None)
        self._elected_as = ""
        self._since = float("-inf")
        self._counts_groups = False
        self._reporting_outside: frozenset[ReportingMember] = NO_MEMBERS
        self._claims_term = _NO_TERM

    @property
    def term(self) -> int:
        """Number of the last election; 0 before the first."""
        return self.verdict.term if self.verdict is not None else 0

    def elected(self, verdict: Verdict, member_id: str) -> bool:
        """Record an election; return whether its verdict is new.

        Claims continue while this agent keeps its member id: then its membership never ended.
        """
        if verdict == self.verdict:
            return False
        first = self.verdict is None and verdict.agents == 1  # no agent before this one
        if member_id != self._elected_as:
            self.claims, self._counts_groups, self._claims_term = NOTHING, False, _NO_TERM
        self._since = float("-inf") if first else time.monotonic()
        self.verdict, self._elected_as = verdict, member_id
        self._reader.follow(active=bool(verdict.active))
        self.settle()
        return True

    def end(self) -> None:
        """Record that this agent no longer takes part, so that it is active for nothing."""
        self.verdict, self._elected_as = Verdict(term=self.term, agents=0), ""
        self.claims, self._counts_groups, self._claims_term = NOTHING, False, _NO_TERM
        self.racks, self._racks_from = _NO_RACKS, (None, None)
        self._reader.follow(active=False)

    def claim(self, held: Mapping[str | ReportingMember, Claim]) -> None:
        """Record what this agent counts while it waits outside."""
        if held != self.claims.held:
            self.claims = Claims(held)

    def settle(self) -> bool:
        """Apply what waiting agents advertise; return whether this agent starts to count groups."""
        verdict = self.verdict
        if verdict is None:
            return False
        registry = self._reader.registry
        if not (self._racks_from[0] is verdict and self._racks_from[1] is registry.racks):
            self._racks_from = (verdict, registry.racks)
            self.racks = _merged(verdict.racks, registry.racks) if verdict.active else _NO_RACKS
        counts = bool(verdict.active) and (self._counts_groups or self._reader.is_fresh())
        reporting = registry.reporting if verdict.active else NO_MEMBERS
        if (counts, reporting, verdict.term) == (self._counts_groups, self._reporting_outside, self._claims_term):
            return False
        begins = counts and not self._counts_groups
        before = self.claims.held
        given: tuple[str | ReportingMember, ...] = (*(verdict.active if counts else ()), *verdict.reporting)
        self.claims = Claims(
            {what: before.get(what) or Claim(what=what, term=verdict.term, since=self._since) for what in given},
            responsibilities=verdict.counting,
            elsewhere=verdict.elsewhere | reporting_to_others(verdict.active, reporting - verdict.reporting),
        )
        self._counts_groups, self._reporting_outside, self._claims_term = counts, reporting, verdict.term
        return begins

    def knows_those_outside(self) -> bool:
        """Return whether the claims leave out all that waiting agents may count by now."""
        if self.verdict is None or not self.verdict.active:
            return True
        return self._reader.is_fresh() and self._reader.registry.reporting == self._reporting_outside


def _merged(verdict: Mapping[str, str], read: Mapping[str, str]) -> dict[str, str]:
    """Merge racks; an address with two racks is left out."""
    return {
        address: rack
        for address, rack in {**read, **verdict}.items()
        if verdict.get(address, rack) == read.get(address, rack)
    }
