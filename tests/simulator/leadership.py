"""The agents' election in virtual time: participants, verdicts and delays; the choice is the real code."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from samerack.election.member import choose
from samerack.election.messages import Advertisement, Verdict, lead
from tests.simulator.network import Host
from tests.simulator.timeline import Timeline

VERDICT_MS: Final = 60
GOODBYE_MS: Final = 200
SESSION_MS: Final = 5000


class SimulatedLeadership:
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
        """Whether this agent is active for it."""
        return self.verdict is not None and responsibility in self.verdict.active

    def has_standby(self, responsibility: str) -> bool:
        """Whether another agent can replace it."""
        return self.verdict is not None and responsibility in self.verdict.with_standby

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this listener after each election."""
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Call this listener no more."""
        self._listeners = [one for one in self._listeners if one != listener]

    def take(self, verdict: Verdict) -> None:
        """Take the verdict of an election."""
        self.verdict = verdict
        for listener in self._listeners:
            listener()


class SimulatedElection:
    """All agents of one election group."""

    def __init__(self, timeline: Timeline, group: str) -> None:
        self._timeline = timeline
        self._responsibility = lead(group)
        self._leaderships: dict[str, SimulatedLeadership] = {}
        self._gone: list[SimulatedLeadership] = []
        """Those of processes that have left, which may still wait for a successor."""
        self._verdicts: dict[str, Verdict] = {}
        self._term = 0

    def enter(self, identity: str, host: Host) -> SimulatedLeadership:
        """Add a process; one that returns within its session gets its last verdict again.

        If there was an election meanwhile, there is a new one.
        """
        known = identity in self._leaderships
        leadership = self._leaderships[identity] = SimulatedLeadership(host)
        verdict = self._verdicts.get(identity)
        if known and verdict is not None and verdict.term == self._term:
            host.later(VERDICT_MS, partial(leadership.take, verdict))
        else:
            self._timeline.after(VERDICT_MS, self.elect)
        return leadership

    def leave(self, identity: str) -> None:
        """Remove a process that leaves cleanly."""
        leadership = self._leaderships.pop(identity, None)
        if leadership is not None:
            self._gone.append(leadership)
        self._timeline.after(GOODBYE_MS, self.elect)

    def falls_silent(self, identity: str) -> None:
        """A process is killed or suspended: its session expires, unless it returns before."""
        leadership = self._leaderships.get(identity)

        def expire() -> None:
            same = leadership is not None and self._leaderships.get(identity) is leadership
            if same and leadership is not None and (not leadership.host.alive or leadership.host.stopped):
                del self._leaderships[identity]
                self._verdicts.pop(identity, None)
                self.elect()

        self._timeline.after(SESSION_MS, expire)

    def comes_back(self, identity: str, leadership: SimulatedLeadership) -> None:
        """A suspended process resumes; if its session has expired, it takes part again."""
        if identity not in self._leaderships and leadership.host.alive:
            self._leaderships[identity] = leadership
            self._timeline.after(VERDICT_MS, self.elect)

    def elect(self, *, other: bool = False) -> None:
        """Hold an election; with `other`, another agent than now must become active, as when duties change."""
        present = {identity: leadership for identity, leadership in self._leaderships.items() if leadership.host.alive}
        self._term += 1
        if not present:
            for leadership in self._gone:
                if leadership.host.alive and leadership.verdict is not None:
                    leadership.take(leadership.verdict.model_copy(update={"with_standby": frozenset()}))
            self._gone.clear()
            return
        holders = {name for name, verdict in self._verdicts.items() if self._responsibility in verdict.active}
        advertised = {}
        for identity in present:
            known = self._verdicts.get(identity)
            refused = other and len(present) > 1 and identity in holders
            advertised[identity] = Advertisement(
                identity=identity,
                responsibilities=() if refused else (self._responsibility,),
                held=() if known is None or refused else tuple(known.active),
                term=0 if known is None else known.term,
            )
        for identity, verdict in choose(advertised, self._term).items():
            self._verdicts[identity] = verdict
            leadership = self._leaderships[identity]
            leadership.host.later(VERDICT_MS, partial(leadership.take, verdict))

    def active(self) -> frozenset[str]:
        """The agents whose last verdict is to lead."""
        return frozenset(name for name, verdict in self._verdicts.items() if self._responsibility in verdict.active)
