"""Detects the rebalances of one group, as a member of it or by polls from outside, and records each once.

A member knows each generation. From outside two polls are compared: what differs, or was seen under way, is one
rebalance, however many there were in between.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from samerack.events.cause import (
    GroupSnapshot,
    Known,
    Partition,
    Released,
    Signs,
    cause_of,
    moved,
    pause,
    release,
)
from samerack.events.event import Event

_POLLS_FOR_SHARE: Final = 2
"""After this many polls a rebalance is recorded even without the cross-rack share of its outcome."""
_MAX_OVERTAKEN: Final = 20
_MOMENT_SECONDS: Final = 0.001
"""Overtaken generations are recorded with the one that overtook them, each this much earlier."""
_FALSE_ALARM_SECONDS: Final = 2.0
"""If the group is stable this long after the agent started a rebalance and did not join again, there was none."""

Record = Callable[..., Event]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedPlan:
    """The agent's plan for the group, where it leads."""

    snapshot: GroupSnapshot
    share_before: float | None
    share_after: float | None
    assignor: str
    failure: str
    returned: Mapping[str, str] = field(default_factory=dict)
    """Former keys of members that are back under others."""


@dataclass(slots=True, kw_only=True)
class _Over:
    """A rebalance that is over and not recorded yet."""

    at: float
    generation: int | None
    missed: int
    overtaken: int = 0
    """Generations before it that began and never got an assignment."""
    polls: int = 0


class Rebalances:
    """What is known of one group's rebalances; any thread may call it."""

    def __init__(
        self,
        *,
        record: Record,
        last: Callable[[], tuple[int | None, int]],
        signs: Callable[[float], Signs] = lambda _at: Signs(),
    ) -> None:
        """Start with nothing known.

        `record` adds an event of this group. `last` returns the last recorded generation, and how many rebalances
        without one were recorded since; `signs` what commits showed about members at a time.
        """
        self._record = record
        self._last = last
        self._signs = signs
        self._lock = threading.RLock()
        self._generation: int | None = None
        self._before: GroupSnapshot | None = None
        self._share: float | None = None
        self._begun: float | None = None
        self._agent_reason = ""
        self._passing: dict[str, str] = {}
        self._begin_signs = Signs()
        self._since = float("-inf")
        self._is_measured = False
        self._is_lost = False
        self._released: Mapping[Partition, Released] = {}
        self._over: _Over | None = None
        self.inside = False
        """Whether the agent is a member: generations count then, not polls."""

    @property
    def awaits_poll(self) -> bool:
        """Whether a poll counts although it shows the same as the last one."""
        return self._before is None or self._begun is not None

    def begins(self, at: float, *, agent_reason: str = "") -> None:
        """Record that a rebalance is under way; `agent_reason` says why the agent starts one or leaves."""
        with self._lock:
            if self._over is not None:
                self._finish(None, None)
            if self._begun is None:
                self._begun, self._begin_signs = at, self._signs(at)
            self._agent_reason = self._agent_reason or agent_reason

    def loses(self, at: float) -> None:
        """Record that the brokers removed the agent: there was a rebalance without it, and it joins again."""
        with self._lock:
            self.begins(at, agent_reason="joined again")
            self._is_lost = True

    def moving(self, members: Mapping[str, str], at: float, *, measured: bool = False) -> None:
        """Record a poll of the group while no member has an assignment: client ids by key."""
        with self._lock:
            if self._counts(at, measured=measured) and self._over is None:
                self.begins(at)
                self._passing |= members

    def meets(self, members: Mapping[str, str]) -> None:
        """Record the client ids, by key, of the members in the generations that are recorded next."""
        with self._lock:
            self._passing |= members

    def joined(self, generation: int, at: float, *, plan: LedPlan | None = None, quiet: bool = False) -> None:
        """Record that the agent has joined; the same generation as before is not a rebalance.

        `at` is when it had its assignment. `plan` is its own for the group, if it leads; `quiet`: it only resumed its
        membership, in a group that was stable.
        """
        with self._lock:
            if self._over is not None:
                self._finish(None, None)
            goes_on = self._generation is not None and not self._is_lost
            last, unnumbered = (self._generation, 0) if self._generation is not None else self._last()
            self._generation = generation
            if generation == last or (quiet and last is None):
                self._forget()
                return
            self.begins(at)
            skipped = max(0, generation - last - 1 - unnumbered) if last is not None and generation > last else 0
            overtaken = skipped if goes_on and skipped <= _MAX_OVERTAKEN else 0
            self._over = _Over(at=at, generation=generation, missed=skipped - overtaken, overtaken=overtaken)
            if plan is not None:
                self._finish(plan.snapshot, plan.share_after, plan=plan)

    def stable(self, snapshot: GroupSnapshot, at: float, *, share: float | None = None, measured: bool = False) -> None:
        """Record a poll of the group with an assignment in force, and its cross-rack share by weight where that is new.

        `at` is when it was requested; `measured`: measuring polled, which alone counts while the agent is no member.
        """
        with self._lock:
            if not self._counts(at, measured=measured):
                return
            if not self.inside and self._over is None and self._differs(snapshot):
                if self._begun is None:
                    self._begin_signs = self._signs(at)
                self._over = _Over(at=at, generation=None, missed=0)
            if self._over is not None:
                self._over.polls += 1
                if share is not None or self._over.polls >= _POLLS_FOR_SHARE or not self.inside:
                    self._finish(snapshot, share)
                return
            begun = self._begun
            if begun is not None and (at - begun > _FALSE_ALARM_SECONDS or self._is_first_seen_under_way()):
                self._forget()
            if self._begun is None:
                self._before, self._share = snapshot, share if share is not None else self._share

    def enters(self) -> None:
        """Record that the agent is a member from now on."""
        with self._lock:
            self.inside = True

    def leaves(self, at: float) -> None:
        """Record that the agent is no longer a member; earlier polls do not count."""
        with self._lock:
            if self._over is not None:
                self._finish(None, None)
            self.inside, self._generation, self._since = False, None, at

    def _counts(self, at: float, *, measured: bool) -> bool:
        """Return whether a poll counts: of two sources outside only one, or an older poll would undo a newer one."""
        if self.inside:
            return not measured
        self._is_measured |= measured
        return at >= self._since and measured == self._is_measured

    def _is_first_seen_under_way(self) -> bool:
        """Return whether the first poll from outside found a rebalance under way: what was before is not known."""
        return self._before is None and not self.inside and not self._agent_reason

    def _differs(self, snapshot: GroupSnapshot) -> bool:
        """Return whether there was a rebalance since the last poll."""
        before = self._before
        if before is None:
            return False
        return self._begun is not None or (snapshot.members, snapshot.cooperative) != (
            before.members,
            before.cooperative,
        )

    def _finish(self, after: GroupSnapshot | None, share: float | None, *, plan: LedPlan | None = None) -> None:
        """Record the rebalance that is over."""
        over, before = self._over, self._before
        if over is None:
            return
        begun = self._begun
        known = Known(
            agent_reason=self._agent_reason,
            agent_leads=plan is not None,
            passing=self._passing,
            signs=self._begin_signs,
            released=self._released,
        )
        found = cause_of(before, after, known)
        for back in range(over.overtaken, 0, -1):
            self._record(
                at=over.at - back * _MOMENT_SECONDS,
                reason=self._agent_reason,
                cause=found.cause,
                generation=(over.generation or 0) - back,
                detail="the next rebalance began before any assignment was sent",
            )
        fields = self._outcome(before, after, over.at, returned=plan.returned if plan is not None else {})
        if plan is not None:
            fields |= {"assignor": plan.assignor, "failure": plan.failure}
        self._record(
            at=over.at,
            reason=self._agent_reason,
            cause=found.cause,
            joined=found.joined,
            left=found.left,
            generation=over.generation,
            missed=over.missed,
            seconds=over.at - begun if begun is not None else None,
            share_before=plan.share_before if plan is not None else self._share,
            share_after=share,
            **fields,
        )
        self._released = (
            release(before, after, self._released, ended=over.at) if before is not None and after is not None else {}
        )
        if after is not None:
            self._before, self._share, self._since = after, share, over.at
        self._over = None
        self._forget()

    def _outcome(
        self, before: GroupSnapshot | None, after: GroupSnapshot | None, ended: float, *, returned: Mapping[str, str]
    ) -> dict[str, Any]:
        if after is None:
            return {"detail": "the next rebalance began before it could be observed"}
        fields: dict[str, Any] = {"members": len(after.members), "partitions": len(after.owners())}
        if before is not None:
            fields["moved"] = moved(before, after, self._released, returned)
            fields["pause_seconds"] = pause(before, after, self._released, begun=self._begun, ended=ended)
        return fields

    def _forget(self) -> None:
        """Forget what was under way."""
        self._begun, self._agent_reason, self._passing, self._begin_signs = None, "", {}, Signs()
        self._is_lost = False
