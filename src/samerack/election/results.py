"""What the last election gave this agent, for other parts of the program.

The election's thread records every verdict, a missing permission and fencing here; other threads read the result, and
listeners are called after every change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from threading import Lock

import structlog

from samerack.election.counting import EVERYTHING, Claims
from samerack.election.leadership_state import LeadershipState
from samerack.election.messages import Verdict
from samerack.election.outcome import ElectionOutcome
from samerack.election.reader import RegistryReader

log = structlog.get_logger("election")


class ElectionResults(LeadershipState):
    """What this agent is responsible for; one thread changes it, any thread may read it."""

    def __init__(self, *, group: str, identity: str, reader: RegistryReader) -> None:
        """Start before the first election: this agent is active for nothing."""
        self._group = group
        self._identity = identity
        self._reader = reader
        self._outcome = ElectionOutcome(reader)
        self.refused = ""
        """Why this agent cannot take part, so that it acts as if alone; "" while it can."""
        self._displaced = False
        self.elections = 0
        self._listening = Lock()
        self._listeners: tuple[Callable[[], None], ...] = ()

    # read by other packages

    @property
    def term(self) -> int:
        """Number of the last election that this agent took part in; 0 before the first."""
        return self._outcome.term

    @property
    def agents(self) -> int:
        """How many agents took part; 0 while this one waits outside."""
        verdict = self._outcome.verdict
        return verdict.agents if verdict is not None else 0

    @property
    def waiting_agents(self) -> int:
        """How many agents wait outside the election; 0 while this one is active for nothing."""
        return self._reader.registry.waiting if self.held else 0

    @property
    def held(self) -> AbstractSet[str]:
        """What this agent is active for."""
        verdict = self._outcome.verdict
        return verdict.active if verdict is not None else frozenset()

    @property
    def racks(self) -> Mapping[str, str]:
        """Rack by address of a host; empty while this agent is active for nothing."""
        return self._outcome.racks

    def rack_of(self, host: str) -> str | None:
        """Return the rack of the host with this address, if an agent runs on it."""
        return self.racks.get(host)

    @property
    def trouble(self) -> str:
        """Why this agent is inactive although it could act; "" while it takes part or waits."""
        return f"fenced: another agent has the election.identity {self._identity!r}" if self._displaced else ""

    def is_active(self, responsibility: str) -> bool:
        """Return whether this agent has this responsibility."""
        return bool(self.refused) or responsibility in self.held

    def has_standby(self, responsibility: str) -> bool:
        """Return whether another agent would take over if this one stopped."""
        verdict = self._outcome.verdict
        return verdict is not None and responsibility in verdict.with_standby

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener`, on the election's thread, after every election."""
        with self._listening:
            self._listeners += (listener,)

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Call `listener` no more."""
        with self._listening:
            self._listeners = tuple(one for one in self._listeners if one != listener)

    @property
    def claims(self) -> Claims:
        """What this agent counts, as far as it knows."""
        return EVERYTHING if self.refused else self._outcome.claims

    # recorded by the election's thread

    def _refuse(self, reason: str) -> None:
        """Record why this agent may not take part; "" once it may."""
        if reason == self.refused:
            return
        if reason:
            log.error("acts-alone", group=self._group, reason=reason)
        self.refused = reason
        self._notify()

    def _give_up(self) -> None:
        """Drop all responsibilities: they belong to another agent with this one's identity."""
        log.error("fenced", identity=self._identity, cure="give every agent its own election.identity")
        self._displaced = True
        self._outcome.end()
        self._notify()

    def _elected(self, verdict: Verdict, member_id: str) -> None:
        """Record an election, unless its verdict is known."""
        if not self._outcome.elected(verdict, member_id):
            return
        self.elections += 1
        log.info(
            "elected", term=verdict.term, agents=verdict.agents, active=sorted(verdict.active), hosts=len(self.racks)
        )
        self._notify()

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()
