"""Decides whether the lead of a group is taken over now, on request or by the setting, and starts the attempt.

There is one controller per group; it outlives memberships. The group's thread drives it; other threads request a
takeover and read its progress. The steps are in `agent.leading.takeover_attempt`, their rules in
`agent.leading.takeover`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from kafka import errors as kafka_errors

from samerack.agent.leading.group_reporter import FOLLOWING, LEADING, WAITING, GroupReporter
from samerack.agent.leading.join_position import JoinPosition
from samerack.agent.leading.member import Member
from samerack.agent.leading.order import ahead
from samerack.agent.leading.progress import UNDER_WAY, Gain, Outcome, Progress
from samerack.agent.leading.rebalance_evaluator import Evaluation, RebalanceEvaluator
from samerack.agent.leading.takeover import (
    HELD_SECONDS,
    MAX_REJOINS,
    MOST_AHEAD,
    longest_pause,
    outlook_refusal,
    place_refusal,
    refusal,
    slow_refusal,
    standing_of,
)
from samerack.agent.leading.takeover_attempt import TakeoverAttempt
from samerack.agent.policy import Action
from samerack.agent.policy.measured import weighed_shares
from samerack.cluster.group import GroupView
from samerack.common.settings import LeadingSettings

_ASKED_SECONDS: Final = 5.0
"""A request that the group's thread has not started by then is refused."""
_CALM_SECONDS: Final = 5.0
"""Without a request the agent takes over only a group that had no rebalance for so long."""
_AGAIN_SECONDS: Final = (30.0, 60.0)
"""Without a request the agent retries an undone takeover after these pauses, then no more: each costs a rebalance."""
_LOOK_SECONDS: Final = 0.02
_REJOINS: Final = 5
"""Rebalances from which the members' rejoin time is known; one that others started shows only a part of it."""


class TakeoverLock:
    """Allows one takeover at a time in the whole agent."""

    def __init__(self) -> None:
        """The lock is free at first."""
        self._lock = threading.Lock()
        self._holder = ""

    def take(self, group: str) -> str:
        """Takes the lock for a group if it is free; returns the group that holds it."""
        with self._lock:
            self._holder = self._holder or group
            return self._holder

    def give(self, group: str) -> None:
        """Releases the lock if this group holds it."""
        with self._lock:
            if self._holder == group:
                self._holder = ""


class TakeoverController:
    """Takes over the lead of one group, on request or by the setting."""

    def __init__(  # noqa: PLR0913 - a takeover needs this many parts
        self,
        *,
        group: str,
        leading: LeadingSettings,
        evaluator: RebalanceEvaluator,
        position: JoinPosition,
        reporter: GroupReporter,
        lock: TakeoverLock,
        notify_supervisor: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """No takeover is under way at first.

        Args:
            group: The group's name.
            leading: Whether to take over without a request, and the limits.
            evaluator: Computes the gain.
            position: The agent's position in the join order.
            reporter: Reports what happens.
            lock: Which group may take over in this agent.
            notify_supervisor: Sends the supervisor the agent's member ids; returns when it has them.
            clock: Seconds, monotonic.
        """
        self._group = group
        self._leading = leading
        self._evaluator = evaluator
        self._position = position
        self._reporter = reporter
        self._takeover_lock = lock
        self._notify_supervisor = notify_supervisor
        self._clock = clock
        self._lock = threading.Lock()
        self._progress = Progress(group=group)
        self._asked_at = float("-inf")
        self._approached = False
        self._run: TakeoverAttempt | None = None
        self._tries = 0
        self._again_at = float("-inf")
        self._joined_at = float("inf")
        self._rejoins: deque[float] = deque(maxlen=_REJOINS)
        self._refused = ""
        self.orphans: frozenset[str] = frozenset()
        """Reserved ids that could not be released when their membership ended."""

    # called by other threads

    def ask(self, *, dry_run: bool) -> Progress:
        """Requests a takeover, or only its gain; returns its progress, or that of one already under way."""
        with self._lock:
            if self._now().outcome in UNDER_WAY:
                return self._progress
            role = self._reporter.role
            asked = Progress(group=self._group, number=self._progress.number + 1, dry_run=dry_run)
            if role == FOLLOWING:
                self._asked_at, self._approached = self._clock(), False
                self._progress = replace(asked, outcome=Outcome.ASKED)
            else:
                self._progress = replace(
                    asked, outcome=Outcome.REFUSED, reason=_role_refusal(role, self._reporter.trouble)
                )
            return self._progress

    @property
    def progress(self) -> Progress:
        """The progress of the last takeover."""
        with self._lock:
            return self._now()

    def _now(self) -> Progress:
        overdue = self._clock() - self._asked_at > _ASKED_SECONDS
        if self._progress.outcome is Outcome.ASKED and overdue:
            reason = f"the group did not settle within {_ASKED_SECONDS:g} s, or its topics are not known yet; try again"
            self._progress = replace(self._progress, outcome=Outcome.REFUSED, reason=reason)
        return self._progress

    # called by the group's thread

    @property
    def is_under_way(self) -> bool:
        """Whether an attempt is running."""
        return self._run is not None

    def consider(self, member: Member, look: GroupView, evaluation: Evaluation) -> bool:
        """Answers a request, or starts an attempt if nothing prevents it; returns whether the membership has changed.

        Args:
            member: The membership, following.
            look: The group, stable.
            evaluation: What the agent's plan would gain.
        """
        progress = self.progress
        asked = progress.outcome is Outcome.ASKED
        if not asked and not self._is_due():
            return False
        dry_run = asked and progress.dry_run
        gain = self._gain(look, evaluation)
        standing = standing_of(member)
        reason = (
            refusal(look, standing, self._leading)
            or slow_refusal(self._rejoin_seconds or 0.0, self._leading.takeover_wait_seconds)
            or self._worth_refusal(evaluation, asked=asked)
        )
        if not reason and not self._approached:
            reason = outlook_refusal(look, standing)
        if not reason and not dry_run:
            if standing.static and not self._approached and ahead(look, standing.me, standing.leader):
                self._approached = self._position.approach(member, look, most=MOST_AHEAD, rejoins=MAX_REJOINS)
                if self._approached:
                    self._asked_at = self._clock()  # the request was started
                return True
            reason = place_refusal(look, standing) or self._floor_refusal()
        if reason or dry_run:
            self._answer(progress, reason, gain, asked=asked)
            return False
        self._begin(member, look, evaluation, gain)
        return True

    def turn(self, member: Member) -> float:
        """Continues the attempt; returns how many seconds to wait for the next turn.

        Raises:
            KafkaError: It failed; `end` undoes it.
        """
        if self._run is not None:
            self._run.turn(member)
            self._settle()
        return _LOOK_SECONDS

    def joined(self, member: Member) -> None:
        """Handles the end of a rebalance, started by the agent or not.

        Raises:
            KafkaError: The pending member could not be released; `end` tries again.
        """
        self._joined_at, self._approached = self._clock(), False
        if self._run is None:
            self._rejoins.append(member.waited_seconds)
        else:
            self._run.joined(member)
            self._settle()
        if member.leading:
            self._tries, self._again_at = 0, float("-inf")

    def end(self, member: Member) -> None:
        """Undoes an attempt under way and releases reserved ids, as the membership ends."""
        try:
            if self._run is not None and not self._run.is_over:
                self._run.undo(member, "the agent's membership ended")
            elif member.pending:
                member.let_go()
        except kafka_errors.KafkaError as error:
            self._reporter.failed("leave", error, 0.0)
        self._settle()
        self.orphans |= member.pending

    def release_orphans(self, member: Member) -> None:
        """Releases reserved ids that a former membership could not.

        Raises:
            KafkaError: The brokers did not accept it.
        """
        for member_id in tuple(self.orphans):
            member.release(member_id)
            self.orphans -= {member_id}

    # refusing and starting

    def _is_due(self) -> bool:
        """Returns whether the setting asks for a takeover now: the group is calm, and no pause after an undone one."""
        now = self._clock()
        calm = now - self._joined_at >= _CALM_SECONDS
        return self._leading.takeover == "clean" and now >= self._again_at and calm

    def _worth_refusal(self, evaluation: Evaluation, *, asked: bool) -> str:
        decision = self._evaluator.dry_run(evaluation)
        allowed = {Action.REBALANCE, Action.PROPOSE} if asked else {Action.REBALANCE}
        if decision.action in allowed and decision.before > decision.after:
            return ""
        return (
            f"the gain is not worth a rebalance now ({decision.reason.value}): {decision.before:.1%} is read across "
            f"racks, {decision.after:.1%} would be"
        )

    def _floor_refusal(self) -> str:
        holder = self._takeover_lock.take(self._group)
        return "" if holder == self._group else f"the agent is taking the lead of {holder} over; one at a time"

    @property
    def _rejoin_seconds(self) -> float | None:
        """The longest recent rejoin time of the members; None if none was seen."""
        return max(self._rejoins, default=None)

    def _gain(self, look: GroupView, evaluation: Evaluation) -> Gain:
        situation, outlook = evaluation.situation, self._evaluator.outlook
        now, then = weighed_shares(situation.present, situation.possible, situation.rates)
        return Gain(
            members=len(look.members) - 1,
            cross_rack_now=situation.present.cross_rack,
            cross_rack_then=situation.possible.cross_rack,
            share_now=now,
            share_then=then,
            saved_bytes_per_second=outlook.saved_bytes_per_second,
            saved_dollars_per_day=outlook.saved_dollars_per_day,
            rejoin_seconds=self._rejoin_seconds,
            held_seconds_at_most=HELD_SECONDS,
            pause_seconds_at_most=longest_pause(self._rejoin_seconds),
        )

    def _answer(self, progress: Progress, reason: str, gain: Gain, *, asked: bool) -> None:
        if asked:
            self._set(replace(progress, outcome=Outcome.REFUSED if reason else Outcome.WOULD, reason=reason, gain=gain))
        if reason and (not progress.dry_run if asked else reason != self._refused):
            self._reporter.takeover(Outcome.REFUSED.value, reason=reason)
        self._refused = "" if asked else reason

    def _begin(self, member: Member, look: GroupView, evaluation: Evaluation, gain: Gain) -> None:
        self._evaluator.decide(evaluation)  # takes a token from the budget, as for a rebalance
        pause = _AGAIN_SECONDS[self._tries] if self._tries < len(_AGAIN_SECONDS) else float("inf")
        self._tries, self._again_at = self._tries + 1, self._clock() + pause
        progress = self._progress
        number = progress.number if progress.outcome is Outcome.ASKED else progress.number + 1
        self._reporter.takeover("begin", reason=f"{gain.share_now:.1%} across racks, {gain.share_then:.1%} possible")
        self._run = TakeoverAttempt(
            progress=Progress(group=self._group, number=number, gain=gain),
            before=look,
            wait_seconds=self._leading.takeover_wait_seconds,
            reporter=self._reporter,
            notify_supervisor=self._notify_supervisor,
            publish=self._set,
            clock=self._clock,
        )
        self._run.begin(member)

    def _settle(self) -> None:
        """Releases the takeover lock after the end of an attempt, for the next one."""
        if self._run is None or self._run.is_over:
            self._run = None
            self._takeover_lock.give(self._group)

    def _set(self, progress: Progress) -> None:
        with self._lock:
            self._progress = progress


def _role_refusal(role: str, trouble: str) -> str:
    if role == LEADING:
        return "the agent leads it already"
    if role == WAITING:
        return "it has no consumers; the agent leads it when the first of them start"
    return f"the agent is {role} to it" + (f": {trouble}" if trouble else ", and only one that follows can take over")
