"""One takeover attempt: finds out what happens in each step, and does what the table of transitions names.

The group's leader drives it, one short turn at a time; `agent.leading.takeover` has the rules of each step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple

from kafka import errors as kafka_errors

from samerack.agent.leading.group_reporter import GroupReporter
from samerack.agent.leading.membership import Hold, Membership
from samerack.agent.leading.progress import Did, Progress, TakeoverOutcome
from samerack.agent.leading.takeover import (
    BACK_SECONDS,
    HELD_SECONDS,
    LATE_SECONDS,
    LEAD_SECONDS,
    MAX_TRIES,
    REBALANCES,
    is_back,
    may_evict,
    missing_of,
)
from samerack.cluster.group import GroupView, MemberView
from samerack.cluster.joining import ahead

# The states of a takeover: in each step, what may happen, what the agent then does, and the step after it.
#
# An attempt does nothing that is not in this table, a test reaches every row of it, `scripts/simulate` reports which
# ones took place, and `docs/takeover.md` prints it.


class Step(Enum):
    """The steps of a takeover, in their order."""

    GATHER = "gather"
    HOLD = "hold"
    EVICT = "evict"
    RELEASE = "release"
    REJOIN = "rejoin"


class TakeoverEvent(Enum):
    """What may happen in a step."""

    IS_HELD = "all members have joined, and the broker has given the pending member's id"
    GOT_NO_ID = "the broker gives no id"
    MEMBERS_ARE_SLOW = "a member has not joined within `leading.takeover_wait_seconds`"
    LEADER_WAS_FASTER = "the leader's plan is in force already"
    LEADER_WAS_FASTER_AGAIN = f"the same in try {MAX_TRIES}"
    NOBODY_OWNS_ANYTHING = "the group is in PreparingRebalance, its members are those of before, without partitions"
    GROUP_IS_ANOTHER = "the group is in another state, or has other members"
    HELD_FOR_LONG = f"the group has been held for {HELD_SECONDS:g} s"
    ARE_BACK = "the evicted members are back, or have been waited for"
    DOES_NOT_END = f"the rebalance has not ended within {LEAD_SECONDS:g} s"
    LEADS_ALL = "the rebalance has ended, and the agent leads all members"
    LEADS_SOME = "the rebalance has ended, the agent leads, and an evicted member is outside"
    FOLLOWS = "the rebalance has ended under another leader"
    IS_REBALANCED = "another rebalance has ended under the agent"
    NOBODY_IS_LATE = f"the evicted members have partitions, or {LATE_SECONDS:g} s have passed"
    ENDS = "the agent's membership ends, or a request fails for good"


class Transition(NamedTuple):
    """A row of the table: in one of these steps, what happens, what the agent does, and where that leads."""

    steps: tuple[Step, ...]
    event: TakeoverEvent
    effect: str
    then: Step | TakeoverOutcome


_RELEASE: Final = "releases the pending member"
_NOT_LED: Final = (Step.GATHER, Step.HOLD, Step.EVICT, Step.RELEASE)
TRANSITIONS: Final = (
    Transition((Step.GATHER,), TakeoverEvent.IS_HELD, "sends its ids to the supervisor", Step.HOLD),
    Transition((Step.GATHER,), TakeoverEvent.GOT_NO_ID, _RELEASE, TakeoverOutcome.UNDONE),
    Transition((Step.GATHER,), TakeoverEvent.MEMBERS_ARE_SLOW, _RELEASE, TakeoverOutcome.UNDONE),
    Transition((Step.HOLD,), TakeoverEvent.LEADER_WAS_FASTER, "holds the next rebalance instead", Step.GATHER),
    Transition((Step.HOLD,), TakeoverEvent.LEADER_WAS_FASTER_AGAIN, _RELEASE, TakeoverOutcome.UNDONE),
    Transition(
        (Step.HOLD,),
        TakeoverEvent.NOBODY_OWNS_ANYTHING,
        "evicts the leader, and members that would lead next",
        Step.EVICT,
    ),
    Transition((Step.HOLD,), TakeoverEvent.HELD_FOR_LONG, _RELEASE, TakeoverOutcome.UNDONE),
    Transition((Step.HOLD, Step.EVICT), TakeoverEvent.GROUP_IS_ANOTHER, _RELEASE, TakeoverOutcome.UNDONE),
    Transition((Step.EVICT,), TakeoverEvent.ARE_BACK, _RELEASE, Step.RELEASE),
    Transition((Step.RELEASE,), TakeoverEvent.DOES_NOT_END, _RELEASE, TakeoverOutcome.UNDONE),
    Transition(_NOT_LED, TakeoverEvent.LEADS_ALL, "gives each member its partitions", TakeoverOutcome.LEADS),
    Transition((Step.EVICT, Step.RELEASE), TakeoverEvent.LEADS_SOME, "gives each member its partitions", Step.REJOIN),
    Transition(tuple(Step), TakeoverEvent.FOLLOWS, _RELEASE, TakeoverOutcome.UNDONE),
    Transition(_NOT_LED, TakeoverEvent.ENDS, _RELEASE, TakeoverOutcome.UNDONE),
    Transition((Step.REJOIN,), TakeoverEvent.IS_REBALANCED, "gives the late member its partitions", Step.REJOIN),
    Transition((Step.REJOIN,), TakeoverEvent.NOBODY_IS_LATE, "leads on", TakeoverOutcome.LEADS),
    Transition((Step.REJOIN,), TakeoverEvent.ENDS, "leaves as from any group", TakeoverOutcome.LEADS),
)
_BY_STEP: Final = {(step, row.event): row for row in TRANSITIONS for step in row.steps}


def transition(step: Step, event: TakeoverEvent) -> Transition:
    """Return the row for an event in a step.

    Raises:
        KeyError: The event cannot happen in this step.
    """
    return _BY_STEP[step, event]


@dataclass(kw_only=True, eq=False)
class TakeoverAttempt:
    """One takeover in progress; `begin` starts it, and it is over as soon as `progress.outcome` is not RUNNING.

    Attributes:
        progress: First only group, number and gain of this takeover.
        before: The group, stable, as it was last seen.
        wait_seconds: How long the members may take to rejoin.
        notify_supervisor: Sends the supervisor the agent's member ids; returns when it has them.
        publish: Called with every change of the progress.
        on_evict: Called with all members and those that are about to be evicted.
    """

    progress: Progress
    before: GroupView
    wait_seconds: float
    reporter: GroupReporter
    notify_supervisor: Callable[[], None]
    publish: Callable[[Progress], None]
    on_evict: Callable[[Sequence[MemberView], Sequence[MemberView]], None] = lambda _all, _evicted: None
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._began = self._step_began = self.clock()
        self._step = Step.GATHER
        self._tries = 0
        self._evicted: frozenset[str] = frozenset()
        self._missing, self._missing_since = 0, 0.0
        self._evicted_at = self._assigned_at = self._began
        self._held_since: float | None = None
        self._publish_progress(replace(self.progress, outcome=TakeoverOutcome.RUNNING, step=self._step.value))

    @property
    def is_over(self) -> bool:
        """Whether the attempt has ended."""
        return self.progress.outcome is not TakeoverOutcome.RUNNING

    @property
    def is_led(self) -> bool:
        """Whether the agent leads the group by now, and only waits for evicted members that are late."""
        return self._step is Step.REJOIN and not self.is_over

    def begin(self, member: Membership) -> None:
        """Request the rebalance."""
        member.hold()
        member.nudge()

    def turn(self, member: Membership) -> None:
        """Run one turn; retry after temporary failures while the group may be held.

        Raises:
            KafkaError: It failed; `end` undoes it.
        """
        try:
            self._turn(member)
        except kafka_errors.RetriableError as error:
            if self.is_over or self._held() > HELD_SECONDS:
                raise
            self.reporter.failed("kafka", error, 0.0)

    def _turn(self, member: Membership) -> None:
        if self._step is Step.GATHER:
            self._gather(member)
        elif self._step is Step.HOLD:
            self._hold(member)
        elif self._step is Step.EVICT:
            self._await_return(member)
        elif self._seconds_in_step() > LEAD_SECONDS:
            self._undo(member, TakeoverEvent.DOES_NOT_END, f"the rebalance did not end within {LEAD_SECONDS:g} s")

    # the steps

    def _gather(self, member: Membership) -> None:
        if member.hold_state is Hold.HELD:
            self._held_since = self.clock() - member.held_seconds
            self.notify_supervisor()
            self._happens(TakeoverEvent.IS_HELD)
            self._hold(member)
        elif member.hold_state is not Hold.ASKED:
            self._undo(member, TakeoverEvent.GOT_NO_ID, "the brokers gave no member id to hold the group with")
        elif self._seconds_in_step() > self.wait_seconds:
            reason = (
                f"the members did not rejoin within leading.takeover_wait_seconds ({self.wait_seconds:g} s); their "
                "rebalance continues without the agent"
            )
            self._undo(member, TakeoverEvent.MEMBERS_ARE_SLOW, reason)

    def _hold(self, member: Membership, announced: frozenset[str] = frozenset()) -> None:
        """Evict the leader, and those before the agent, once `on_evict` was called with them."""
        if self._is_late(member):
            return
        view = member.describe()
        verdict = may_evict(self.before, view, member)
        if verdict.again and self._tries + 1 < MAX_TRIES:
            self._tries += 1
            self._held_since = None
            member.hold()
            for member_id in tuple(member.pending):
                member.release(member_id)
            self._happens(TakeoverEvent.LEADER_WAS_FASTER, did="again")
        elif verdict.again:
            reason = f"the group's leader was faster with its plan {MAX_TRIES} times"
            self._undo(member, TakeoverEvent.LEADER_WAS_FASTER_AGAIN, reason)
        elif verdict.trouble:
            self._undo(member, TakeoverEvent.GROUP_IS_ANOTHER, verdict.trouble)
        elif verdict.go:
            before = ahead(view, member.member_id, member.leader_id)
            self._evicted = frozenset({member.leader_id, *(one.id for one in before)})
            if self._evicted != announced:
                members = self.before.members
                self.on_evict(members, tuple(one for one in members if one.id in self._evicted))
                self._hold(member, self._evicted)  # that may have waited for a disk: look at the group again
            elif not self._is_late(member):  # nor was the description late: no member owns partitions yet
                self._evicted_at = self.clock()
                member.evict(*self._evicted)
                self._happens(TakeoverEvent.NOBODY_OWNS_ANYTHING)

    def _is_late(self, member: Membership) -> bool:
        """Return whether the group has been held for so long that nobody may be evicted; then undo the attempt."""
        if self._held() <= HELD_SECONDS:
            return False
        reason = f"the group was held for {HELD_SECONDS:g} s, and its leader could not be evicted"
        self._undo(member, TakeoverEvent.HELD_FOR_LONG, reason)
        return True

    def _await_return(self, member: Membership) -> None:
        verdict = is_back(self.before, member.describe(), self._evicted)
        if verdict.missing != self._missing:
            self._missing, self._missing_since = verdict.missing, self.clock()
        waited = self.clock() - self._missing_since
        some = 0 < verdict.missing < len(self._evicted) and waited > BACK_SECONDS
        # a member that is not back by then joins in another rebalance: the others have waited long enough
        if verdict.go or some or self._held() > HELD_SECONDS:
            self._let_go(member)
            self._happens(TakeoverEvent.ARE_BACK)
        elif verdict.trouble:
            self._undo(member, TakeoverEvent.GROUP_IS_ANOTHER, verdict.trouble)

    def joined(self, member: Membership) -> None:
        """Go on after a rebalance: the agent leads, or the attempt is undone. Members that are late begin another.

        Raises:
            KafkaError: The pending member could not be released.
        """
        if not member.leading:
            self._undo(member, TakeoverEvent.FOLLOWS, "the rebalance ended under another leader")
            return
        self._let_go(member)
        self._assigned_at = self.clock()
        if self.is_led:
            late = max(self.progress.late, self._missing)
            self.progress = replace(self.progress, rebalances=self.progress.rebalances + 1, late=late)
            self._happens(TakeoverEvent.IS_REBALANCED)
            return
        self.progress = replace(self.progress, rebalances=REBALANCES + self._tries)
        self._happens(TakeoverEvent.LEADS_SOME if self._missing else TakeoverEvent.LEADS_ALL)

    def sees(self, view: GroupView | None) -> None:
        """End the attempt of an agent that leads: the late members are back, or are not waited for any longer.

        The view is None if the group was not described since the last rebalance.
        """
        if not self.is_led:
            return
        if view is not None and view.stable:
            self._missing = missing_of(self.before, view)
        if not self._missing or self._seconds_in_step() > LATE_SECONDS:
            self._conclude(TakeoverEvent.NOBODY_IS_LATE)

    def end(self, member: Membership) -> None:
        """End with the membership: undo what is under way, unless the agent leads.

        Raises:
            KafkaError: The pending member could not be released.
        """
        if self.is_led:
            self._conclude(TakeoverEvent.ENDS)
        elif not self.is_over:
            self._undo(member, TakeoverEvent.ENDS, "the agent's membership ended")

    def _conclude(self, event: TakeoverEvent) -> None:
        """End the attempt of an agent that leads, whoever is not back."""
        outside = round(self._assigned_at - self._evicted_at, 3) if self.progress.late else 0.0
        self.progress = replace(self.progress, late_seconds=outside, outside=self._missing)
        self._happens(event)

    def _undo(self, member: Membership, event: TakeoverEvent, reason: str) -> None:
        """Release the pending member and end; the members then complete an ordinary rebalance.

        Raises:
            KafkaError: The pending member could not be released.
        """
        try:
            self._let_go(member)
        finally:
            self._happens(event, reason=reason)

    # its progress

    def _happens(self, event: TakeoverEvent, *, did: str = "", reason: str = "") -> None:
        """Leave the present step as the table says; `did` names its result if that is not the step itself.

        Raises:
            KeyError: The table does not have this event in this step.
        """
        then = transition(self._step, event).then
        if isinstance(then, TakeoverOutcome):
            self._finish(then, reason)
        elif then is self._step:
            self._publish_progress(self.progress)
        else:
            over = self._over(did or self._step.value)
            self.reporter.takeover(over.step, seconds=over.seconds)
            self._step, self._step_began = then, self.clock()
            self._publish_progress(
                replace(
                    self.progress,
                    step=then.value,
                    did=(*self.progress.did, over),
                    seconds=round(self.clock() - self._began, 3),
                )
            )

    def _let_go(self, member: Membership) -> None:
        member.let_go()
        if self._held_since is not None:
            self.progress = replace(self.progress, held_seconds=round(self._held(), 3))
            self._held_since = None

    def _finish(self, outcome: TakeoverOutcome, reason: str) -> None:
        did = (*self.progress.did, self._over(self._step.value))
        until = self._assigned_at if outcome is TakeoverOutcome.LEADS else self.clock()
        seconds = round(until - self._began, 3)
        self._publish_progress(
            replace(self.progress, outcome=outcome, reason=reason, step="", did=did, seconds=seconds)
        )
        self.reporter.takeover(
            outcome.value,
            reason=reason,
            seconds=self.progress.seconds,
            detail=f"held for {self.progress.held_seconds:.2f} s"
            + (f"; {self.progress.rebalances} rebalances" if outcome is TakeoverOutcome.LEADS else ""),
        )

    def _held(self) -> float:
        return 0.0 if self._held_since is None else self.clock() - self._held_since

    def _seconds_in_step(self) -> float:
        return self.clock() - self._step_began

    def _over(self, name: str) -> Did:
        return Did(step=name, seconds=round(self._seconds_in_step(), 3))

    def _publish_progress(self, progress: Progress) -> None:
        self.progress = progress
        self.publish(progress)
