"""The agents' election in virtual time: participants, verdicts and delays; the choice is the real code."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from samerack.election.choice import choose
from samerack.election.model import Advertisement, Verdict, lead
from tests.simulator.network import Host
from tests.simulator.timeline import Timeline

VERDICT_MS: Final = 60
GOODBYE_MS: Final = 200
SESSION_MS: Final = 5000


class SimulatedStanding:
    """The election as one process knows it."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.verdict: Verdict | None = None
        self._listeners: list[Callable[[], None]] = []

    @property
    def term(self) -> int:
        """The number of the last election."""
        return self.verdict.term if self.verdict is not None else 0

    def is_active(self, responsibility: str) -> bool:
        """Whether this agent is active for the duty."""
        return self.verdict is not None and responsibility in self.verdict.active

    def has_standby(self, responsibility: str) -> bool:
        """Whether another agent can replace it."""
        return self.verdict is not None and responsibility in self.verdict.with_standby

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this listener after each election."""
        self._listeners.append(listener)

    def take(self, verdict: Verdict) -> None:
        """Take the verdict of an election."""
        self.verdict = verdict
        for listener in self._listeners:
            listener()


class SimulatedElection:
    """All agents of one election group."""

    def __init__(self, timeline: Timeline, group: str) -> None:
        self._timeline = timeline
        self._duty = lead(group)
        self._standings: dict[str, SimulatedStanding] = {}
        self._verdicts: dict[str, Verdict] = {}
        self._term = 0

    def enter(self, identity: str, host: Host) -> SimulatedStanding:
        """Add a process; one that returns within its session gets its last verdict again.

        If there was an election meanwhile, there is a new one.
        """
        known = identity in self._standings
        standing = self._standings[identity] = SimulatedStanding(host)
        verdict = self._verdicts.get(identity)
        if known and verdict is not None and verdict.term == self._term:
            host.later(VERDICT_MS, partial(standing.take, verdict))
        else:
            self._timeline.after(VERDICT_MS, self.elect)
        return standing

    def leave(self, identity: str) -> None:
        """Remove a process that leaves cleanly."""
        self._standings.pop(identity, None)
        self._timeline.after(GOODBYE_MS, self.elect)

    def falls_silent(self, identity: str) -> None:
        """A process is killed or suspended: its session expires, unless it returns before."""
        standing = self._standings.get(identity)

        def expire() -> None:
            same = standing is not None and self._standings.get(identity) is standing
            if same and standing is not None and (not standing.host.alive or standing.host.stopped):
                del self._standings[identity]
                self._verdicts.pop(identity, None)
                self.elect()

        self._timeline.after(SESSION_MS, expire)

    def comes_back(self, identity: str, standing: SimulatedStanding) -> None:
        """A suspended process resumes; if its session has expired, it takes part again."""
        if identity not in self._standings and standing.host.alive:
            self._standings[identity] = standing
            self._timeline.after(VERDICT_MS, self.elect)

    def elect(self, *, other: bool = False) -> None:
        """Hold an election; with `other`, another agent than now must become active, as when duties change."""
        present = {identity: standing for identity, standing in self._standings.items() if standing.host.alive}
        self._term += 1
        if not present:
            return
        holders = {name for name, verdict in self._verdicts.items() if self._duty in verdict.active}
        said = {}
        for identity in present:
            known = self._verdicts.get(identity)
            barred = other and len(present) > 1 and identity in holders
            said[identity] = Advertisement(
                identity=identity,
                responsibilities=() if barred else (self._duty,),
                held=() if known is None or barred else tuple(known.active),
                term=0 if known is None else known.term,
            )
        for identity, verdict in choose(said, self._term).items():
            self._verdicts[identity] = verdict
            standing = self._standings[identity]
            standing.host.later(VERDICT_MS, partial(standing.take, verdict))

    def active(self) -> frozenset[str]:
        """The agents whose last verdict is to lead."""
        return frozenset(name for name, verdict in self._verdicts.items() if self._duty in verdict.active)
