"""Leads one group: runs one membership after the other while this agent is the active one for the group.

`agent.leading.session` has the logic within a membership; this module has pauses after failures, handing over to
another agent, and stopping. The leaders of all groups share threads and a client.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import cache
from typing import Final

from kafka import errors as kafka_errors

from samerack.agent.group_status import FENCED, OUTSIDE, STANDBY, WAITING
from samerack.agent.leading.admission import after_leave
from samerack.agent.leading.assigning import NoConsumersError
from samerack.agent.leading.group_requests import RequestStatus
from samerack.agent.leading.membership import Membership
from samerack.agent.leading.parts import GroupParts
from samerack.agent.leading.progress import Progress
from samerack.agent.leading.responsibility import Responsibility
from samerack.agent.leading.session import TURN_SECONDS, Session
from samerack.agent.policy.back_off_causes import BackOffError, Cause
from samerack.agent.policy.requests import RequestKind
from samerack.agent.supervisor.protocol import MemberIdentity
from samerack.assignors.problem import AssignmentError
from samerack.cluster.client import SharedClient
from samerack.cluster.errors import explained, is_refusal
from samerack.cluster.group_member import EndedError
from samerack.cluster.group_poller import GroupPoller
from samerack.common.attempts import REQUESTS, Attempts
from samerack.common.errors import AgentError, one_line
from samerack.common.shared_threads import Rest, SharedService, SharedThreads
from samerack.election.leadership_state import LeadershipState
from samerack.planning import planner

# What operators ask of the agent in one group, to leave it or to start no rebalance there; any thread may ask.


class OperatorRequests:
    """The requests for one group: they are kept, recorded as events, and in force at once."""

    def __init__(self, parts: GroupParts, *, wake: Callable[[], None]) -> None:
        """Change nothing; `wake` starts the group's next turn."""
        self._parts = parts
        self._wake = wake

    @property
    def left(self) -> str:
        """Why the agent stays out of the group on request; empty while nobody wants that."""
        return self._parts.admission.back_off.requested

    @property
    def status(self) -> RequestStatus:
        """The agent's role in the group, and what operators have asked for."""
        requests, group, reporter = self._parts.requests, self._parts.group, self._parts.reporter
        status = requests.status(group, reporter.role)
        leave = requests.of(group, RequestKind.LEAVE) or requests.of(group, RequestKind.RETURN)
        if leave is None:
            return status
        leading = self._parts.settings.leading
        return replace(status, after=after_leave(reporter.stable, leading, lead_again=leave.lead_again))

    def ask(
        self, kind: RequestKind | None, *, seconds: float | None, by: str, why: str, lead_again: bool = False
    ) -> RequestStatus:
        """Put an operator's request into force at once, for some seconds or until it is ended; None ends all."""
        requests, reporter, group = self._parts.requests, self._parts.reporter, self._parts.group
        if kind is None:
            requests.end(group)
            self._parts.evictions.forget()
            reporter.requested("resume", None, by=by, why=why)
        else:
            request = requests.ask(group, kind, seconds=seconds, by=by, why=why, lead_again=lead_again)
            reporter.requested(kind.value, request, by=by, why=why)
        self._wake()
        return self.status

    def end_overdue(self) -> None:
        """End requests whose time is over."""
        for over in self._parts.requests.end_overdue(self._parts.group):
            why = f"the time of the request to {over.kind.value} is over"
            self._parts.reporter.requested("resume", None, by="", why=why)


_RETRY_SECONDS: Final = 2.0
_OVERDUE_SECONDS: Final = 1.0
_NOT_ACCEPTED: Final = (
    kafka_errors.InconsistentGroupProtocolError,
    kafka_errors.InvalidGroupIdError,
    kafka_errors.InvalidSessionTimeoutError,
    kafka_errors.GroupMaxSizeReachedError,
    kafka_errors.UnsupportedVersionError,
)
"""Brokers do not accept the agent as a member with its settings."""


class GroupLeader(SharedService):
    """Leads one consumer group whenever this agent is elected for it."""

    is_awaited = True

    def __init__(  # noqa: PLR0913 - what the groups of an agent share, and what this one begins with
        self,
        parts: GroupParts,
        *,
        threads: SharedThreads,
        client: SharedClient,
        poller: GroupPoller,
        leadership: LeadershipState | None = None,
        hand_over_seconds: float = 0.0,
        empty_at: float | None = None,
    ) -> None:
        """Prepare; `start` begins to lead the group.

        The leaders of all groups share `threads` and `client`. `poller` describes the group while the agent stays
        outside because it has no consumers; without `leadership` this agent leads the group. `stop` lets the agent stay
        for `hand_over_seconds` until another one, if there is one, has taken over the membership. `empty_at`: when the
        group certainly had no members, monotonic seconds.
        """
        super().__init__(f"group {parts.group}", threads)
        self.group = parts.group
        self._parts = parts
        self._client = client
        self.reporter = parts.reporter
        self.operators = OperatorRequests(parts, wake=self.wake)
        self._hand_over_seconds = hand_over_seconds
        self._leadership = leadership = leadership or LeadershipState()
        self._responsibility = Responsibility(
            parts,
            leadership=leadership,
            poller=poller,
            new_membership=self._new_membership,
            prepare=_load_solver,
            empty_at=empty_at,
        )
        self._membership: Membership | None = None
        self._unleft: frozenset[MemberIdentity] = frozenset()
        """Member ids that the brokers may still have because LeaveGroup failed."""
        self._has_successor = False
        self._turns = Attempts(REQUESTS)
        parts.watch.listen(self.wake)
        leadership.listen(self.wake)

    # called by other threads

    def stop_for_successor(self) -> None:
        """Ask the leader to end; the next process of this agent continues the membership, if it is static."""
        self._has_successor = True
        membership = self._membership
        if membership is not None:
            membership.end_by(time.monotonic())
        super().stop()

    def stop(self) -> None:
        """Ask the leader to leave the group, or to hand the membership over, and end."""
        self._stop(self._hand_over_seconds if not self._stopping.is_set() else 0.0)

    def stop_at_once(self) -> None:
        """Ask the leader to leave the group and end, also while it waits for another agent."""
        self._stop(0.0)

    def _stop(self, hand_over_seconds: float) -> None:
        self._responsibility.hand_over(hand_over_seconds)
        membership = self._membership
        if membership is not None:
            membership.is_ending = True
            membership.end_by(time.monotonic() + (self.hand_over_seconds if membership.is_static else 0.0))
        super().stop()

    @property
    def hand_over_seconds(self) -> float:
        """How long it may still lead after `stop` until another agent has taken the membership over."""
        return self._responsibility.hand_over_seconds

    def is_due(self, pause: Rest) -> bool:
        """Return whether to end this pause before its time; `stop` ends none while another agent takes over."""
        return pause.may_hurry and self._wake.is_set() if self.hand_over_seconds else super().is_due(pause)

    @property
    def takeover(self) -> Progress:
        """The progress of the last takeover of the group."""
        return self._parts.takeovers.request.progress

    def take_over(self, *, dry_run: bool) -> Progress:
        """Ask the leader to take the lead over, or only for the gain of that; see `TakeoverRequest.ask`."""
        progress = self._parts.takeovers.request.ask(dry_run=dry_run)
        self.wake()
        return progress

    @property
    def makes_room(self) -> bool:
        """Whether the agent stays out so that consumers have their places in a group of limited size."""
        return self._parts.admission.makes_room

    def member_ids(self) -> frozenset[MemberIdentity]:
        """Return the agent's current member ids in this group, as far as it knows them."""
        membership = self._membership
        pending = self._parts.takeovers.orphans | (membership.pending if membership is not None else frozenset())
        ids = {MemberIdentity(group=self.group, member_id=one, pending=True) for one in pending}
        own = "" if membership is None or membership.fenced else membership.known_id
        if membership is not None and own:
            ids.add(MemberIdentity(group=self.group, member_id=own, instance_id=membership.group_instance_id))
        return frozenset(ids) | self._unleft

    def is_overdue(self) -> bool:
        """Return whether the group waits for a plan beyond the deadline, so that only a new process can help."""
        since = self._parts.assigning.since
        deadline = self._parts.settings.leading.deadline_seconds
        return since is not None and time.monotonic() - since > deadline + _OVERDUE_SECONDS

    # its work

    def work(self) -> Iterator[Rest]:
        """Run one membership after the other, and listen no more once asked to stop: the agent may run on."""
        while not self._stopping.is_set():
            seconds = yield from self._run_membership()
            if not self._stopping.is_set():
                # only an agent that is not active for the group waits for an election
                yield Rest(seconds, may_hurry=not self._responsibility.is_active())
        self._parts.watch.unlisten(self.wake)
        self._parts.watch.show_interest(self.group, frozenset())
        self._leadership.unlisten(self.wake)

    def _run_membership(self) -> Generator[Rest, None, float]:
        """Run one membership; return the pause after it. Every error is counted, logged and followed by a retry."""
        try:
            yield from self._stay()
        except BackOffError as error:
            self._back_off(error)
        except AssignmentError as error:
            self._back_off(BackOffError(Cause.PLANS_FAILED, f"no plan passes the check: {error}"))
        except kafka_errors.GroupMaxSizeReachedError:
            self._back_off(self._parts.admission.refused_as_full())
        except kafka_errors.InconsistentGroupProtocolError:
            self._back_off(BackOffError(Cause.NO_SHARED_PROTOCOL))
        except (kafka_errors.KafkaError, AgentError) as error:
            pause, refused = _RETRY_SECONDS, _is_refused(error)
            if refused:
                pause = max(pause, self._parts.admission.back_off.start(Cause.NOT_ALLOWED, explained(error)))
            self.reporter.failed("refused" if refused else "kafka", error, pause)
            return pause
        except Exception as error:  # noqa: BLE001 - the agent tries again, and leads its other groups on
            self.reporter.broke(error, _RETRY_SECONDS)
        else:
            if self.reporter.role == WAITING:
                return TURN_SECONDS  # the next consumers may join soon
        return _RETRY_SECONDS

    def _back_off(self, error: BackOffError) -> None:
        seconds = self._parts.admission.back_off.start(error.cause, str(error))
        if error.cause is Cause.INTERNAL_ERROR:
            self.reporter.broke(error, seconds)
        self.reporter.backs_off(error, seconds)

    def _stay(self) -> Generator[Rest, None, None]:
        """Run one membership, while this agent is the active one and the group has consumers."""
        if self._responsibility.is_fenced:
            yield from self._responsibility.wait_fenced(self.wake, self._stopping.is_set)
        poll = yield from self._responsibility.wait_for_consumers(
            self.wake, lambda: self._is_wanted() and not self._stopping.is_set()
        )
        if poll is None:
            return
        seen_at = time.monotonic()
        membership = self._new_membership()
        self._membership = membership
        session = Session(self._parts, membership, poll, seen_at=seen_at)
        try:
            while self._is_wanted() and not self._ends(membership) and not session.lacks_consumers:
                pause = self._turn(session, membership)
                while membership.kept_waiting:
                    self.reporter.metrics.join_to_sync.observe(membership.kept_waiting.pop(0))
                yield pause
        except kafka_errors.FencedInstanceIdError:
            self._give_way()
        except EndedError:
            self.reporter.log.info("interrupted")  # by `stop`
        except NoConsumersError:
            session.is_alone = True
            self._parts.evictions.ends_alone()
        finally:
            self._leave(session)
            self._membership = None
            membership.close()

    def _new_membership(self) -> Membership:
        """Return a membership of the group; nothing is sent yet.

        Raises:
            AgentError: No broker can be reached, or they refuse the agent.
        """
        return Membership(
            self._client.get(),
            group=self.group,
            settings=self._parts.settings.leading,
            assign=self._parts.assigning.assign,
            synced=self._parts.assigning.encoder.synced,
            wake=self.wake,
        )

    def _turn(self, session: Session, membership: Membership) -> Rest:
        """Run one turn; return the pause after it. A failed turn after which the membership is still valid causes one.

        Leaving and joining again would cost all members two rebalances.

        Raises:
            KafkaError: The membership is no longer of use, or there is none yet.
            BackOffError: An unexpected error in the group, which would come again after each return.
        """
        try:
            pause = session.turn()
        except kafka_errors.KafkaError as error:
            if not membership.member_id or membership.is_forgotten or _ends_membership(error):
                raise
            self._turns.failed()
            pause = max(TURN_SECONDS, self._turns.pause_seconds)
            self.reporter.failed("kafka", error, pause)
            session.recover()
            return self._rest(pause, may_hurry=False)
        except (AgentError, AssignmentError):
            raise
        except Exception as error:
            if membership.is_outside:
                raise
            raise BackOffError(Cause.INTERNAL_ERROR, one_line(error)) from error
        if membership.is_cut_off:
            raise kafka_errors.CoordinatorNotAvailableError(self.group)
        self._turns.succeeded()
        if (failure := membership.take_failure()) is not None:
            self.reporter.failed("kafka", failure, pause)
        return self._rest(pause)

    def _rest(self, seconds: float, *, may_hurry: bool = True) -> Rest:
        """Return a pause; it ends when the time is over in which another agent may take the membership over."""
        return Rest(min(seconds, self.hand_over_seconds or seconds), may_hurry=may_hurry)

    def _is_wanted(self) -> bool:
        """Return whether this agent is the active one for the group; end requests whose time is over."""
        self.operators.end_overdue()
        return self._responsibility.is_active()

    def _ends(self, membership: Membership) -> bool:
        """Return whether to leave: asked to, or stopped and not waiting for another agent to take the membership."""
        if self.operators.left and not membership.is_outside:
            return True
        waits = membership.is_static and not membership.is_outside and self.hand_over_seconds > 0
        return self._stopping.is_set() and not waits

    def _give_way(self) -> None:
        """Stay out and report why, after another agent has taken over the membership."""
        self._responsibility.fence()
        if self._stopping.is_set():
            self.reporter.log.info("handed-over")
        else:
            self.reporter.is_fenced()

    def _leave(self, session: Session) -> None:
        member = session.member
        member.end_by(float("inf"))  # wait for the leave within its own timeout
        try:
            if self._has_successor and member.is_static and member.member_id and not session.lacks_consumers:
                self._parts.takeovers.end(member)  # the next process continues the membership
                self._unleft = self.member_ids()
                return
            session.leave()
            self._unleft = frozenset()
            if session.lacks_consumers and not self._stopping.is_set():
                self._responsibility.check_empty(session.member)
        except kafka_errors.KafkaError as error:
            self._unleft = self.member_ids()  # for the supervisor, if this process ends now
            self.reporter.failed("leave", error, _RETRY_SECONDS)
        if session.lacks_consumers:
            self.reporter.become(WAITING)
        elif self.reporter.role not in (FENCED, STANDBY):
            if reason := self.operators.left:
                self.reporter.is_left(reason)
            else:
                self.reporter.become(OUTSIDE)


def _is_refused(error: Exception) -> bool:
    """Return whether the brokers refuse the agent: for missing permissions, or as a member with its settings."""
    return is_refusal(error) or isinstance(error, _NOT_ACCEPTED)


def _ends_membership(error: kafka_errors.KafkaError) -> bool:
    """Return whether the membership is of no more use; to leave and join again for less costs two rebalances."""
    return _is_refused(error) or isinstance(error, (kafka_errors.FencedInstanceIdError, EndedError))


@cache
def _load_solver() -> None:
    """Load the solver, before a group waits for its plan: a standby does without."""
    planner.warm_up()
