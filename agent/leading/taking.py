"""A takeover done: asked for, refused or begun, step after step, and undone on any trouble.

One for each group; it outlives memberships. The group's thread drives it, a turn at a time and never for long; other
threads ask and look. What must not enter: what allows a step (`agent.leading.takeover`).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from kafka import errors as kafka_errors

from agent.group import GroupView
from agent.leading.judge import Evaluation, Judge
from agent.leading.member import Hold, Member
from agent.leading.order import ahead
from agent.leading.policy import Action, share
from agent.leading.progress import UNDER_WAY, Did, Gain, Outcome, Progress
from agent.leading.seat import Seat
from agent.leading.takeover import (
    HELD_SECONDS,
    MOST_TRIES,
    Step,
    is_back,
    may_evict,
    place_refusal,
    refusal,
    slow_refusal,
    standing_of,
)
from agent.leading.teller import FOLLOWING, LEADING, Teller
from common.settings import LeadingSettings

_ASKED_SECONDS: Final = 5.0
"""A question that the group's thread has not taken up by then is answered no."""
_CALM_SECONDS: Final = 5.0
"""Of its own accord the agent takes over only in a group that has been at peace for so long."""
_LOOK_SECONDS: Final = 0.02
_LEAD_SECONDS: Final = 10.0
_REJOINS: Final = 5
"""Rebalances that tell how long the members take to rejoin; one that others began shows a part of it only."""


class Floor:
    """One takeover at a time in all of an agent."""

    def __init__(self) -> None:
        """Nobody has it."""
        self._lock = threading.Lock()
        self._holder = ""

    def take(self, group: str) -> str:
        """Have the floor for a group; the answer is the group that has it, by now this one if it was free."""
        with self._lock:
            self._holder = self._holder or group
            return self._holder

    def give(self, group: str) -> None:
        """Let the next have it, if this group had."""
        with self._lock:
            if self._holder == group:
                self._holder = ""


@dataclass(slots=True, kw_only=True)
class _Run:
    """One takeover under way."""

    before: GroupView
    began: float
    step: Step
    step_began: float
    tries: int = 0
    evicted: frozenset[str] = frozenset()
    held_since: float | None = None


class Taking:
    """Takes the lead of one group over, when asked to or by the setting."""

    def __init__(  # noqa: PLR0913 - it brings together what a takeover is decided by and whom it concerns
        self,
        *,
        group: str,
        leading: LeadingSettings,
        judge: Judge,
        seat: Seat,
        teller: Teller,
        floor: Floor,
        told: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is under way.

        Args:
            group: The group's name.
            leading: Whether to take over unasked, and the limits.
            judge: What there is to gain.
            seat: The place among the members.
            teller: Who is told.
            floor: Who may take over in this agent.
            told: Tells the supervisor at once by which ids brokers know the agent; returns when it is told.
            clock: Seconds, monotonic.
        """
        self._group = group
        self._leading = leading
        self._judge = judge
        self._seat = seat
        self._teller = teller
        self._floor = floor
        self._told = told
        self._clock = clock
        self._lock = threading.Lock()
        self._progress = Progress(group=group)
        self._asked_at = float("-inf")
        self._approached = False
        self._run: _Run | None = None
        self._tried = False
        self._joined_at = float("inf")
        self._rejoins: deque[float] = deque(maxlen=_REJOINS)
        self._refused = ""
        self.orphans: frozenset[str] = frozenset()
        """Reserved ids that could not be given back when their membership ended."""

    # what others ask, on any thread

    def ask(self, *, dry_run: bool) -> Progress:
        """Ask for a takeover, or only what it would bring; one that is under way already is the answer instead."""
        with self._lock:
            if self._now().outcome in UNDER_WAY:
                return self._progress
            role = self._teller.role
            asked = Progress(group=self._group, number=self._progress.number + 1, dry_run=dry_run)
            if role == FOLLOWING:
                self._asked_at, self._approached = self._clock(), False
                self._progress = replace(asked, outcome=Outcome.ASKED)
            else:
                self._progress = replace(
                    asked, outcome=Outcome.REFUSED, reason=_role_refusal(role, self._teller.trouble)
                )
            return self._progress

    @property
    def progress(self) -> Progress:
        """How the last one stands."""
        with self._lock:
            return self._now()

    def _now(self) -> Progress:
        overdue = self._clock() - self._asked_at > _ASKED_SECONDS
        if self._progress.outcome is Outcome.ASKED and overdue:
            reason = f"the group did not settle within {_ASKED_SECONDS:g} s, or its topics are not known yet; try again"
            self._progress = replace(self._progress, outcome=Outcome.REFUSED, reason=reason)
        return self._progress

    # what the group's thread does

    @property
    def is_under_way(self) -> bool:
        """Whether steps are being taken."""
        return self._run is not None

    def consider(self, member: Member, look: GroupView, evaluation: Evaluation) -> bool:
        """Answer what was asked, and begin where nothing speaks against it; whether the membership has changed thereby.

        Args:
            member: The membership, following.
            look: The group, stable.
            evaluation: What the agent's plan would bring to it.
        """
        progress = self.progress
        asked = progress.outcome is Outcome.ASKED
        if not asked and not self._is_due():
            return False
        gain = self._gain(look, evaluation)
        standing = standing_of(member)
        reason = (
            refusal(look, standing, self._leading)
            or slow_refusal(max(self._rejoins, default=0.0), self._leading.takeover_wait_seconds)
            or self._worth_refusal(evaluation, asked=asked)
        )
        if not reason and not progress.dry_run and not self._approached and ahead(look, standing.me, standing.leader):
            self._approached = True
            self._seat.approach(member, look)
            return True
        if not progress.dry_run:
            reason = reason or place_refusal(look, standing)
        if not reason and not progress.dry_run and (holder := self._floor.take(self._group)) != self._group:
            reason = f"the agent is taking the lead of {holder} over; one at a time"
        if reason or (asked and progress.dry_run):
            self._answer(progress, reason, gain, asked=asked)
            return False
        self._begin(member, look, evaluation, gain)
        return True

    def turn(self, member: Member) -> float:
        """Go on with the steps; the answer is how many seconds to wait for the next turn.

        Raises:
            KafkaError: It failed; `end` undoes it.
        """
        run = self._run
        if run is None:
            return 0.0
        if run.step is Step.GATHER:
            self._gather(member, run)
        elif run.step is Step.HOLD:
            self._hold(member, run)
        elif run.step is Step.EVICT:
            self._await_return(member, run)
        elif self._clock() - run.step_began > _LEAD_SECONDS:
            self._undo(member, f"the group did not come to an end of its rebalance within {_LEAD_SECONDS:g} s")
        return _LOOK_SECONDS

    def joined(self, member: Member) -> None:
        """A rebalance is over, the agent's own or not.

        Raises:
            KafkaError: The brake could not be released; `end` tries again.
        """
        self._joined_at, self._approached = self._clock(), False
        if member.leading:
            self._tried = False
        run = self._run
        if run is None:
            self._rejoins.append(member.waited_seconds)
            return
        if not member.leading:
            self._undo(member, "the rebalance ended under its former leader")
            return
        self._let_go(member, run)
        self._finish(Outcome.LEADS, "")

    def end(self, member: Member) -> None:
        """The membership ends: undo what is under way, and give back what it reserved."""
        try:
            if self._run is not None:
                self._undo(member, "the agent's membership ended")
            elif member.pending:
                member.let_go()
        except kafka_errors.KafkaError as error:
            self._teller.failed("leave", error, 0.0)
            if self._run is not None:
                self._finish(Outcome.UNDONE, f"the agent's membership ended; the brake: {error}")
        self.orphans |= member.pending

    def release_orphans(self, member: Member) -> None:
        """Give back what a former membership could not.

        Raises:
            KafkaError: The brokers did not take it.
        """
        for member_id in tuple(self.orphans):
            member.release(member_id)
            self.orphans -= {member_id}

    # refusing and beginning

    def _is_due(self) -> bool:
        """Whether the setting asks for a takeover: once for each time that the agent lost the lead, in peace."""
        calm = self._clock() - self._joined_at >= _CALM_SECONDS
        return self._leading.takeover == "clean" and not self._tried and calm

    def _worth_refusal(self, evaluation: Evaluation, *, asked: bool) -> str:
        decision = self._judge.opinion(evaluation)
        allowed = {Action.REBALANCE, Action.PROPOSE} if asked else {Action.REBALANCE}
        if decision.action in allowed and decision.before > decision.after:
            return ""
        return (
            f"the gain is not worth a rebalance now ({decision.reason.value}): {decision.before:.1%} is read across "
            f"racks, {decision.after:.1%} would be"
        )

    def _gain(self, look: GroupView, evaluation: Evaluation) -> Gain:
        situation, outlook = evaluation.situation, self._judge.outlook
        return Gain(
            members=len(look.members) - 1,
            cross_rack_now=situation.present.cross_rack,
            cross_rack_then=situation.possible.cross_rack,
            share_now=share(situation.present),
            share_then=share(situation.possible),
            saved_bytes_per_second=outlook.saved_bytes_per_second,
            saved_dollars_per_day=outlook.saved_dollars_per_day,
            rejoin_seconds=max(self._rejoins, default=None),
            held_seconds_at_most=HELD_SECONDS,
        )

    def _answer(self, progress: Progress, reason: str, gain: Gain, *, asked: bool) -> None:
        if asked:
            self._set(replace(progress, outcome=Outcome.REFUSED if reason else Outcome.WOULD, reason=reason, gain=gain))
        if reason and not progress.dry_run and (asked or reason != self._refused):
            self._teller.takeover(Outcome.REFUSED.value, reason=reason)
        self._refused = "" if asked else reason

    def _begin(self, member: Member, look: GroupView, evaluation: Evaluation, gain: Gain) -> None:
        now = self._clock()
        self._judge.decide(evaluation)  # it costs what a rebalance costs
        self._tried = True
        self._run = _Run(before=look, began=now, step=Step.GATHER, step_began=now)
        progress = self._progress
        number = progress.number if progress.outcome is Outcome.ASKED else progress.number + 1
        self._set(
            Progress(group=self._group, number=number, outcome=Outcome.RUNNING, step=Step.GATHER.value, gain=gain)
        )
        self._teller.takeover("begin", reason=f"{gain.share_now:.1%} across racks, {gain.share_then:.1%} possible")
        member.hold()
        member.nudge()

    # the steps

    def _gather(self, member: Member, run: _Run) -> None:
        if member.hold_state is Hold.HELD:
            run.held_since = self._clock()
            self._told()
            self._go_on(run, Step.HOLD)
            self._hold(member, run)
        elif member.hold_state is not Hold.ASKED:
            self._undo(member, "the brokers gave no member id to hold the group with")
        elif self._clock() - run.step_began > self._leading.takeover_wait_seconds:
            self._undo(
                member,
                f"the members did not rejoin within leading.takeover_wait_seconds "
                f"({self._leading.takeover_wait_seconds:g} s); the rebalance goes on without the agent's doing",
            )

    def _hold(self, member: Member, run: _Run) -> None:
        look = member.describe()
        verdict = may_evict(run.before, look, standing_of(member))
        if verdict.again and run.tries + 1 < MOST_TRIES:
            run.tries += 1
            run.held_since = None
            member.hold()
            for member_id in tuple(member.pending):
                member.release(member_id)
            self._go_on(run, Step.GATHER)
        elif verdict.again:
            self._undo(member, f"the group's leader was faster with its plan {MOST_TRIES} times")
        elif verdict.trouble:
            self._undo(member, verdict.trouble)
        else:
            before = ahead(look, member.member_id, member.leader_id)
            run.evicted = frozenset({member.leader_id, *(one.id for one in before)})
            member.evict(*run.evicted)
            self._go_on(run, Step.EVICT)

    def _await_return(self, member: Member, run: _Run) -> None:
        verdict = is_back(run.before, member.describe(), run.evicted)
        held = self._clock() - (run.held_since or run.began)
        if verdict.go:
            self._let_go(member, run)
            self._go_on(run, Step.RELEASE)
        elif verdict.trouble:
            self._undo(member, verdict.trouble)
        elif held > HELD_SECONDS:
            self._undo(member, f"who was evicted did not come back within {HELD_SECONDS:g} s, and may join any time")

    def _go_on(self, run: _Run, step: Step) -> None:
        now = self._clock()
        did = Did(step=run.step.value, seconds=round(now - run.step_began, 3))
        self._teller.takeover(did.step, seconds=did.seconds)
        run.step, run.step_began = step, now
        progress = self.progress
        self._set(replace(progress, step=step.value, did=(*progress.did, did), seconds=round(now - run.began, 3)))

    def _undo(self, member: Member, reason: str) -> None:
        run = self._run
        if run is not None:
            self._let_go(member, run)
        self._finish(Outcome.UNDONE, reason)

    def _let_go(self, member: Member, run: _Run) -> None:
        member.let_go()
        if run.held_since is not None:
            held = round(self._clock() - run.held_since, 3)
            run.held_since = None
            self._set(replace(self.progress, held_seconds=held))

    def _finish(self, outcome: Outcome, reason: str) -> None:
        run, self._run = self._run, None
        self._floor.give(self._group)
        if run is None:
            return
        now = self._clock()
        did = Did(step=run.step.value, seconds=round(now - run.step_began, 3))
        progress = replace(
            self.progress,
            outcome=outcome,
            reason=reason,
            step="",
            did=(*self._progress.did, did),
            seconds=round(now - run.began, 3),
        )
        self._set(progress)
        self._teller.takeover(
            outcome.value, reason=reason, seconds=progress.seconds, detail=f"held for {progress.held_seconds:.2f} s"
        )

    def _set(self, progress: Progress) -> None:
        with self._lock:
            self._progress = progress


def _role_refusal(role: str, trouble: str) -> str:
    if role == LEADING:
        return "the agent leads it already"
    return f"the agent is {role} to it" + (f": {trouble}" if trouble else ", and only one that follows can take over")
