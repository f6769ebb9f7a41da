"""Decides whether the lead of a group is taken over now, on request or by the setting, and starts the attempt.

There is one controller per group; it outlives memberships. The group's leader drives it; other threads use its
`request`. The steps are in `agent.leading.takeover_attempt`, their rules in `agent.leading.takeover`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kafka import errors as kafka_errors

from samerack.agent.group_status import FOLLOWING, LEADING, WAITING
from samerack.agent.leading.group_reporter import GroupReporter
from samerack.agent.leading.join_position import JoinPosition
from samerack.agent.leading.membership import Membership
from samerack.agent.leading.progress import UNDER_WAY, Gain, Progress, TakeoverOutcome
from samerack.agent.leading.rebalance_evaluator import Evaluation, RebalanceEvaluator
from samerack.agent.leading.takeover import (
    MAX_AHEAD,
    MAX_REJOINS,
    gain_of,
    no_position_reason,
    place_refusal,
    refusal,
    slow_refusal,
    worth_refusal,
)
from samerack.agent.leading.takeover_attempt import TakeoverAttempt
from samerack.agent.policy import Reason
from samerack.agent.policy.requests import OperatorRequest
from samerack.cluster.group import GroupView, MemberView
from samerack.cluster.joining import ahead
from samerack.common import words
from samerack.settings.leading import LeadingSettings

# Requests for a takeover of one group, and its progress: users ask from other threads, the group's leader answers.
#
# A request that the group's leader does not start in time is refused, so that its user gets an answer.

_ASKED_SECONDS: Final = 5.0
"""A request that the group's leader has not started by then is refused."""


class TakeoverRequest:
    """The last request for a takeover of one group, at first none; thread-safe."""

    def __init__(self, *, group: str, reporter: GroupReporter, clock: Callable[[], float]) -> None:
        self._group = group
        self._reporter = reporter
        self._clock = clock
        self._lock = threading.Lock()
        self._progress = Progress(group=group)
        self._asked_at = float("-inf")
        self.approached = False
        """Whether the agent has moved to the best position that it found, since the request or the last rebalance."""

    def ask(self, *, dry_run: bool) -> Progress:
        """Request a takeover, or only its gain; return its progress, or that of one already under way."""
        with self._lock:
            if self._now().outcome in UNDER_WAY:
                return self._progress
            role = self._reporter.role
            asked = Progress(group=self._group, number=self._progress.number + 1, dry_run=dry_run)
            if role == FOLLOWING:
                self._asked_at, self.approached = self._clock(), False
                self._progress = replace(asked, outcome=TakeoverOutcome.ASKED)
            else:
                self._progress = replace(
                    asked, outcome=TakeoverOutcome.REFUSED, reason=_role_refusal(role, self._reporter.trouble)
                )
            return self._progress

    @property
    def progress(self) -> Progress:
        """The progress of the last takeover."""
        with self._lock:
            return self._now()

    @property
    def next_number(self) -> int:
        """The number of the takeover that starts now: the request's, or a new one without a request."""
        progress = self._progress
        return progress.number if progress.outcome is TakeoverOutcome.ASKED else progress.number + 1

    def extend(self) -> None:
        """Start the time of the request again: the group's leader works on it."""
        self._asked_at = self._clock()

    def publish(self, progress: Progress) -> None:
        """Replace the progress."""
        with self._lock:
            self._progress = progress

    def _now(self) -> Progress:
        overdue = self._clock() - self._asked_at > _ASKED_SECONDS
        if self._progress.outcome is TakeoverOutcome.ASKED and overdue:
            reason = (
                f"the group did not become Stable within {_ASKED_SECONDS:g} s, or its topics are not known yet; try "
                "again"
            )
            self._progress = replace(self._progress, outcome=TakeoverOutcome.REFUSED, reason=reason)
        return self._progress


def _role_refusal(role: str, trouble: str) -> str:
    """Return why an agent in this role cannot take the lead over."""
    if role == LEADING:
        return "the agent leads it already"
    if role == WAITING:
        return "it has no consumers; the agent leads it when the first ones start"
    return (f"the agent's role in it is {role}") + (
        f": {trouble}" if trouble else ", and only a following agent can take over"
    )


_STABLE_SECONDS: Final = 5.0
"""Without a request the agent takes over only a group that had no rebalance for this time."""
_AGAIN_SECONDS: Final = (30.0, 60.0)
"""Without a request the agent retries an undone takeover after these pauses, then no more: each costs a rebalance."""
_TURN_SECONDS: Final = 0.02
_REJOINS: Final = 5
"""Rebalances from which the members' rejoin time is known; one that others started shows only a part of it."""


class TakeoverLock:
    """Allows one takeover at a time in the whole agent: each one makes the members of a group wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder = ""

    def take(self, group: str) -> str:
        """Take the lock for a group if it is free; return the group that holds it."""
        with self._lock:
            self._holder = self._holder or group
            return self._holder

    def give(self, group: str) -> None:
        """Release the lock if this group holds it."""
        with self._lock:
            if self._holder == group:
                self._holder = ""


@dataclass(kw_only=True, eq=False)
class TakeoverController:
    """Takes over the lead of one group, on request or by the setting; no takeover is under way at first.

    Attributes:
        notify_supervisor: Sends the supervisor the agent's member ids; returns when it has them.
        on_evict: Called with all members and those that are about to be evicted.
        returned: What is left of an operator's leave, who may wish that the agent leads again after it.
        never_evicts: Why the agent evicts nobody in the group; empty if it may.
    """

    group: str
    leading: LeadingSettings
    evaluator: RebalanceEvaluator
    position: JoinPosition
    reporter: GroupReporter
    lock: TakeoverLock
    notify_supervisor: Callable[[], None] = lambda: None
    on_evict: Callable[[Sequence[MemberView], Sequence[MemberView]], None] = lambda _all, _evicted: None
    returned: Callable[[], OperatorRequest | None] = lambda: None
    never_evicts: Callable[[], str] = lambda: ""
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.request = TakeoverRequest(group=self.group, reporter=self.reporter, clock=self.clock)
        """The last request, and the progress; other threads may use it."""
        self._attempt: TakeoverAttempt | None = None
        self._tries = 0
        self._again_at = float("-inf")
        self._left: OperatorRequest | None = None
        """The leave since which those tries are."""
        self._joined_at = float("inf")
        self._rejoins: deque[float] = deque(maxlen=_REJOINS)
        self._refused = ""
        self.orphans: frozenset[str] = frozenset()
        """Reserved ids that could not be released when their membership ended."""

    @property
    def is_under_way(self) -> bool:
        """Whether the steps of an attempt are running; an agent that leads waits for late members as it leads."""
        return self._attempt is not None and not self._attempt.is_led

    def consider(self, member: Membership, view: GroupView, evaluation: Evaluation) -> bool:
        """Answer a request, or start an attempt if nothing prevents it; return whether the membership has changed.

        The member follows, and the group is stable.
        """
        progress = self.request.progress
        asked = progress.outcome is TakeoverOutcome.ASKED
        if not asked and not self._is_due():
            return False
        dry_run = asked and progress.dry_run
        gain = gain_of(view, evaluation.condition, self.evaluator, self._rejoin_seconds)
        decision = self.evaluator.dry_run(evaluation)
        reason = (
            refusal(view, member, self.leading)
            or self.never_evicts()
            or slow_refusal(self._rejoin_seconds or 0.0, self.leading.takeover_wait_seconds)
            or worth_refusal(view.name, decision, asked=asked)
        )
        if not reason and not self.request.approached:
            reason = no_position_reason(view, member)
        if not reason and not dry_run and decision.reason is Reason.MEMBER_MAY_BE_AWAY:
            self.request.extend()
            return False
        if not reason and not dry_run:
            if member.is_static and not self.request.approached and ahead(view, member.member_id, member.leader_id):
                self.request.approached = self.position.approach(member, view, max_ahead=MAX_AHEAD, rejoins=MAX_REJOINS)
                if self.request.approached:
                    self.request.extend()
                return True
            reason = place_refusal(view, member) or self._lock_refusal()
        if reason or dry_run:
            self._answer(progress, reason, gain, asked=asked)
            return False
        self._begin(member, view, gain, asked=asked)
        return True

    def turn(self, member: Membership) -> float:
        """Continue the attempt; return how many seconds to wait for the next turn.

        Raises:
            KafkaError: It failed; `end` undoes it.
        """
        if self._attempt is not None:
            self._attempt.turn(member)
            self._settle()
        return _TURN_SECONDS

    def sees(self, view: GroupView | None) -> None:
        """Handle a description of the group, while the agent leads and members that it evicted may be late."""
        if self._attempt is not None:
            self._attempt.sees(view)
            self._settle()

    def joined(self, member: Membership, *, initial: bool = False) -> None:
        """Handle the end of a rebalance, started by the agent or not; the initial one waits by rule.

        Raises:
            KafkaError: The pending member could not be released; `end` tries again.
        """
        self._joined_at, self.request.approached = self.clock(), False
        if self._attempt is None:
            if not initial:
                self._rejoins.append(member.waited_seconds)
        else:
            self._attempt.joined(member)
            self._settle()
        if member.leading:
            self._tries, self._again_at = 0, float("-inf")

    def end(self, member: Membership) -> None:
        """Undo an attempt under way and release reserved ids, as the membership ends."""
        try:
            if self._attempt is not None:
                self._attempt.end(member)
            elif member.pending:
                member.let_go()
        except kafka_errors.KafkaError as error:
            self.reporter.failed("leave", error, 0.0)
        self._settle()
        self.orphans |= member.pending

    def release_orphans(self, member: Membership) -> None:
        """Release reserved ids that a former membership could not.

        Raises:
            KafkaError: The brokers did not accept it.
        """
        for member_id in tuple(self.orphans):
            member.release(member_id)
            self.orphans -= {member_id}

    # refusing and starting

    def _is_due(self) -> bool:
        """Return whether the setting, or a leave, asks for a takeover now: no recent rebalance, no pause after one."""
        now, left = self.clock(), self.returned()
        if left != self._left:
            self._left, self._tries, self._again_at = left, 0, float("-inf")
        wanted = self.leading.takeover == "clean" or (left is not None and left.lead_again)
        return wanted and now >= self._again_at and now - self._joined_at >= _STABLE_SECONDS

    def _lock_refusal(self) -> str:
        """Return why the takeover has to wait for that of another group; empty once it has the lock."""
        holder = self.lock.take(self.group)
        return "" if holder == self.group else f"the agent is taking over {holder}; only one takeover runs at a time"

    @property
    def _rejoin_seconds(self) -> float | None:
        """The longest recent rejoin time of the members; None if none was seen."""
        return max(self._rejoins, default=None)

    def _answer(self, progress: Progress, reason: str, gain: Gain, *, asked: bool) -> None:
        if asked:
            outcome = TakeoverOutcome.REFUSED if reason else TakeoverOutcome.WOULD
            self.request.publish(replace(progress, outcome=outcome, reason=reason, gain=gain))
        if reason and (not progress.dry_run if asked else reason != self._refused):
            self.reporter.takeover(TakeoverOutcome.REFUSED.value, reason=reason)
        self._refused = "" if asked else reason

    def _begin(self, member: Membership, view: GroupView, gain: Gain, *, asked: bool) -> None:
        self.evaluator.takes_over()
        pause = _AGAIN_SECONDS[self._tries] if self._tries < len(_AGAIN_SECONDS) else float("inf")
        self._again_at = max(self._again_at, self.clock() + (_AGAIN_SECONDS[0] if asked else pause))
        self._tries += not asked
        number = self.request.next_number
        self.reporter.takeover(
            "begin", reason=f"{words.percent(gain.share_now)} across racks, {words.percent(gain.share_then)} possible"
        )
        self._attempt = TakeoverAttempt(
            progress=Progress(group=self.group, number=number, gain=gain),
            before=view,
            wait_seconds=self.leading.takeover_wait_seconds,
            reporter=self.reporter,
            notify_supervisor=self.notify_supervisor,
            publish=self.request.publish,
            on_evict=self.on_evict,
            clock=self.clock,
        )
        self._attempt.begin(member)

    def _settle(self) -> None:
        """Release the takeover lock after the end of an attempt, for the next one."""
        if self._attempt is None or self._attempt.is_over:
            self._attempt = None
            self.lock.give(self.group)
