"""One takeover attempt: runs one step after the other, each with a time limit, and undoes all if a step fails.

The group's thread drives it, one short turn at a time. `agent.leading.takeover` has the rules of each step.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from kafka import errors as kafka_errors

from samerack.agent.leading.group_reporter import GroupReporter
from samerack.agent.leading.member import Hold, Member
from samerack.agent.leading.order import ahead
from samerack.agent.leading.progress import Did, Outcome, Progress
from samerack.agent.leading.takeover import (
    BACK_SECONDS,
    HELD_SECONDS,
    LATE_SECONDS,
    MAX_TRIES,
    REBALANCES,
    Step,
    is_back,
    may_evict,
    missing_of,
    parties_of,
)
from samerack.cluster.group import GroupView, MemberView

_LEAD_SECONDS: Final = 10.0


class TakeoverAttempt:
    """One takeover in progress; finished as soon as `progress.outcome` is not RUNNING."""

    def __init__(  # noqa: PLR0913 - its inputs, its listeners and the clock
        self,
        *,
        progress: Progress,
        before: GroupView,
        wait_seconds: float,
        reporter: GroupReporter,
        notify_supervisor: Callable[[], None],
        publish: Callable[[Progress], None],
        on_evict: Callable[[tuple[MemberView, ...]], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; `begin` starts the attempt.

        Args:
            progress: Group, number and gain of this takeover.
            before: The group, stable, as it was last seen.
            wait_seconds: How long the members may take to rejoin.
            reporter: Reports what happens.
            notify_supervisor: Sends the supervisor the agent's member ids; returns when it has them.
            publish: Called with every change of the progress.
            on_evict: Called with the members that are about to be evicted.
            clock: Seconds, monotonic.
        """
        self._before = before
        self._wait_seconds = wait_seconds
        self._reporter = reporter
        self._notify_supervisor = notify_supervisor
        self._publish = publish
        self._on_evict = on_evict
        self._clock = clock
        self._began = self._step_began = clock()
        self._step = Step.GATHER
        self._tries = 0
        self._evicted: frozenset[str] = frozenset()
        self._missing, self._missing_since = 0, 0.0
        self._evicted_at = self._assigned_at = self._began
        self._held_since: float | None = None
        self.progress = replace(progress, outcome=Outcome.RUNNING, step=self._step.value)
        publish(self.progress)

    @property
    def is_over(self) -> bool:
        """Whether the attempt has ended."""
        return self.progress.outcome is not Outcome.RUNNING

    @property
    def is_led(self) -> bool:
        """Whether the agent leads the group by now, and only waits for evicted members that are late."""
        return self._step is Step.REJOIN and not self.is_over

    def begin(self, member: Member) -> None:
        """Requests the rebalance."""
        member.hold()
        member.nudge()

    def turn(self, member: Member) -> None:
        """Runs one turn; retries after temporary failures while the group may be held.

        Raises:
            KafkaError: It failed; `undo` undoes it.
        """
        try:
            self._turn(member)
        except kafka_errors.RetriableError as error:
            if self.is_over or self._held() > HELD_SECONDS:
                raise
            self._reporter.failed("kafka", error, 0.0)

    def _turn(self, member: Member) -> None:
        if self._step is Step.HOLD and self._held() > HELD_SECONDS:
            self.undo(member, f"the group was held for {HELD_SECONDS:g} s, and its leader could not be evicted")
        elif self._step is Step.GATHER:
            self._gather(member)
        elif self._step is Step.HOLD:
            self._hold(member)
        elif self._step is Step.EVICT:
            self._await_return(member)
        elif self._clock() - self._step_began > _LEAD_SECONDS:
            self.undo(member, f"the rebalance did not end within {_LEAD_SECONDS:g} s")

    def joined(self, member: Member) -> None:
        """Goes on after a rebalance: the agent leads, or the attempt is undone. Members that are late begin another.

        Raises:
            KafkaError: The pending member could not be released.
        """
        if not member.leading:
            self.undo(member, "the rebalance ended under another leader")
            return
        self._let_go(member)
        self._assigned_at = self._clock()
        if self.is_led:
            late = max(self.progress.late, self._missing)
            self._publish_progress(replace(self.progress, rebalances=self.progress.rebalances + 1, late=late))
            return
        self.progress = replace(self.progress, rebalances=REBALANCES + self._tries)
        if self._missing:
            self._go_on(Step.REJOIN)
        else:
            self._finish(Outcome.LEADS, "")

    def sees(self, view: GroupView | None) -> None:
        """Ends the attempt of an agent that leads: the late members are back, or are not waited for any longer.

        Args:
            view: The group; None if it was not described since the last rebalance.
        """
        if not self.is_led:
            return
        if view is not None and view.stable:
            self._missing = missing_of(self._before, view)
        if not self._missing or self._clock() - self._step_began > LATE_SECONDS:
            self.conclude()

    def conclude(self) -> None:
        """Ends the attempt of an agent that leads, whoever is not back."""
        outside = round(self._assigned_at - self._evicted_at, 3) if self.progress.late else 0.0
        self.progress = replace(self.progress, late_seconds=outside, outside=self._missing)
        self._finish(Outcome.LEADS, "")

    def undo(self, member: Member, reason: str) -> None:
        """Releases the pending member and ends; the members then complete an ordinary rebalance.

        Raises:
            KafkaError: The pending member could not be released.
        """
        try:
            self._let_go(member)
        finally:
            self._finish(Outcome.UNDONE, reason)

    # the steps

    def _gather(self, member: Member) -> None:
        if member.hold_state is Hold.HELD:
            self._held_since = self._clock()
            self._notify_supervisor()
            self._go_on(Step.HOLD)
            self._hold(member)
        elif member.hold_state is not Hold.ASKED:
            self.undo(member, "the brokers gave no member id to hold the group with")
        elif self._clock() - self._step_began > self._wait_seconds:
            self.undo(
                member,
                f"the members did not rejoin within leading.takeover_wait_seconds ({self._wait_seconds:g} s); their "
                "rebalance goes on by itself",
            )

    def _hold(self, member: Member) -> None:
        view = member.describe()
        verdict = may_evict(self._before, view, parties_of(member))
        if verdict.again and self._tries + 1 < MAX_TRIES:
            self._tries += 1
            self._held_since = None
            member.hold()
            for member_id in tuple(member.pending):
                member.release(member_id)
            self._go_on(Step.GATHER, did="again")
        elif verdict.again:
            self.undo(member, f"the group's leader was faster with its plan {MAX_TRIES} times")
        elif verdict.trouble:
            self.undo(member, verdict.trouble)
        elif verdict.go:
            before = ahead(view, member.member_id, member.leader_id)
            self._evicted = frozenset({member.leader_id, *(one.id for one in before)})
            self._evicted_at = self._clock()
            self._on_evict(tuple(one for one in self._before.members if one.id in self._evicted))
            member.evict(*self._evicted)
            self._go_on(Step.EVICT)

    def _await_return(self, member: Member) -> None:
        verdict = is_back(self._before, member.describe(), self._evicted)
        if verdict.missing != self._missing:
            self._missing, self._missing_since = verdict.missing, self._clock()
        waited = self._clock() - self._missing_since
        some = 0 < verdict.missing < len(self._evicted) and waited > BACK_SECONDS
        # a member that is not back by then joins in another rebalance: the others have waited long enough
        if verdict.go or some or self._held() > HELD_SECONDS:
            self._let_go(member)
            self._go_on(Step.RELEASE)
        elif verdict.trouble:
            self.undo(member, verdict.trouble)

    # its progress

    def _go_on(self, step: Step, *, did: str = "") -> None:
        """Ends the present step and starts the next; `did` names the result if it is not the step itself."""
        over = self._over(did or self._step.value)
        self._reporter.takeover(over.step, seconds=over.seconds)
        self._step, self._step_began = step, self._clock()
        self._publish_progress(
            replace(self.progress, step=step.value, did=(*self.progress.did, over), seconds=self._seconds())
        )

    def _let_go(self, member: Member) -> None:
        member.let_go()
        if self._held_since is not None:
            self.progress = replace(self.progress, held_seconds=round(self._held(), 3))
            self._held_since = None

    def _finish(self, outcome: Outcome, reason: str) -> None:
        did = (*self.progress.did, self._over(self._step.value))
        until = self._assigned_at if outcome is Outcome.LEADS else self._clock()
        seconds = round(until - self._began, 3)
        self._publish_progress(
            replace(self.progress, outcome=outcome, reason=reason, step="", did=did, seconds=seconds)
        )
        self._reporter.takeover(
            outcome.value,
            reason=reason,
            seconds=self.progress.seconds,
            detail=f"held for {self.progress.held_seconds:.2f} s"
            + (f"; {self.progress.rebalances} rebalances" if outcome is Outcome.LEADS else ""),
        )

    def _held(self) -> float:
        return 0.0 if self._held_since is None else self._clock() - self._held_since

    def _over(self, name: str) -> Did:
        return Did(step=name, seconds=round(self._clock() - self._step_began, 3))

    def _seconds(self) -> float:
        return round(self._clock() - self._began, 3)

    def _publish_progress(self, progress: Progress) -> None:
        self.progress = progress
        self._publish(progress)
