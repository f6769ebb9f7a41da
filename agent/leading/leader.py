"""One thread per group: runs one membership after the other while this agent is the active one for the group.

`agent.leading.session` has the logic within a membership; this module has connections, pauses after failures, handing
over to another agent, and stopping.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient

from samerack.agent.events import EventLog
from samerack.agent.events.rebalances import Rebalances
from samerack.agent.leading.admission import Admission, no_reason
from samerack.agent.leading.assigning import Assigning, NoConsumersError, Weigh, unweighed
from samerack.agent.leading.foreign_protocols import ForeignProtocols
from samerack.agent.leading.group_reporter import FENCED, INSIDE, OUTSIDE, STANDBY, WAITING, GroupReporter
from samerack.agent.leading.join_position import JoinPosition
from samerack.agent.leading.member import Member
from samerack.agent.leading.membership import Membership
from samerack.agent.leading.progress import Progress
from samerack.agent.leading.rebalance_evaluator import RebalanceEvaluator
from samerack.agent.leading.session import TURN_SECONDS, Parts, Session
from samerack.agent.leading.takeover_controller import TakeoverController, TakeoverLock
from samerack.agent.metrics import Metrics
from samerack.agent.policy import EXEMPT, Action
from samerack.agent.policy.back_off import BackOffError, Cause
from samerack.agent.policy.measured import UNMEASURED, Measured
from samerack.agent.supervisor.line import MemberIdentity
from samerack.assignors.model import AssignmentError
from samerack.cluster.attempts import Attempts
from samerack.cluster.coordination import EndedError, close, connect
from samerack.cluster.group import EMPTY_STATES, GroupView, MemberView, is_agent
from samerack.cluster.group_poller import GroupPoll, GroupPoller
from samerack.cluster.racks import NO_HOSTS, Hosts
from samerack.cluster.refusals import explained, is_refusal
from samerack.cluster.watch import ClusterWatch
from samerack.common.errors import AgentError
from samerack.common.kafka_config import client_id, for_kafka_python
from samerack.common.settings import Settings
from samerack.election.leadership_state import Alone, LeadershipState
from samerack.election.model import lead

_RETRY_SECONDS: Final = 2.0
_OVERDUE_SECONDS: Final = 1.0
_USELESS: Final = (
    kafka_errors.InconsistentGroupProtocolError,
    kafka_errors.InvalidGroupIdError,
    kafka_errors.InvalidSessionTimeoutError,
    kafka_errors.GroupMaxSizeReachedError,
    kafka_errors.UnsupportedVersionError,
)
"""Errors after which a membership is of no use, apart from missing permissions."""


class GroupLeader(threading.Thread):
    """Leads one consumer group whenever this agent is elected for it."""

    def __init__(  # noqa: PLR0913 - it brings all parts of leading one group together
        self,
        *,
        group: str,
        settings: Settings,
        watch: ClusterWatch,
        poller: GroupPoller,
        foreign_protocols: ForeignProtocols,
        group_type: Callable[[str], str],
        metrics: Metrics,
        events: EventLog,
        weigh: Weigh = unweighed,
        standing: LeadershipState | None = None,
        hosts: Hosts = NO_HOSTS,
        unsupported_reason: Callable[[], str] = no_reason,
        measured: Measured = UNMEASURED,
        rebalances: Rebalances | None = None,
        lock: TakeoverLock | None = None,
        notify_supervisor: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare; `start` starts the thread.

        Args:
            group: The group's name.
            settings: All settings.
            watch: Source of settled clusters.
            poller: Describes the group while the agent stays outside because it has no consumers.
            foreign_protocols: Groups that last used a protocol that the agent does not offer.
            group_type: The type of a group by name, to tell classic groups from those that brokers assign.
            metrics: Metrics and status board.
            events: Store of decisions and plans for users.
            weigh: The measured weights of the group's partitions.
            standing: Whether this agent or another one leads the group; without it, this agent.
            hosts: What other sources know about client hosts.
            unsupported_reason: Why groups on these brokers cannot be led; empty if they can.
            measured: What is measured for the group.
            rebalances: The record of the group's rebalances.
            lock: Which group may take over in this agent; without it, this group at any time.
            notify_supervisor: Sends the supervisor the agent's member ids.
        """
        super().__init__(name=f"group-{group}", daemon=True)
        self.group = group
        self._settings = settings
        self._poller = poller
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._standing: LeadershipState = standing or Alone()
        self._duty = lead(group)
        self._hand_over_until = 0.0
        self._fenced_in: int | None = None
        self._membership: Membership | None = None
        self._unleft: frozenset[MemberIdentity] = frozenset()
        self._empty_at: float | None = None
        """When the group was empty after this agent had left it, monotonic seconds; None if it was not."""
        self._turns = Attempts()
        self._reporter = GroupReporter(
            group=group,
            settings=settings,
            metrics=metrics,
            events=events,
            rebalances=rebalances,
            clock=time.monotonic,
        )
        self._assigning = Assigning(group=group, settings=settings, watch=watch, weigh=weigh, hosts=hosts)
        evaluator = RebalanceEvaluator(
            settings=settings,
            watch=watch,
            assigning=self._assigning,
            hosts=hosts,
            clock=time.monotonic,
            group=group,
            measured=measured,
            recent=partial(_triggered, events, group),
        )
        position = JoinPosition(
            retry_seconds=settings.leading.position_retry_seconds,
            metrics=metrics,
            log=self._reporter.log,
            notify_supervisor=notify_supervisor,
        )
        self._takeovers = TakeoverController(
            group=group,
            leading=settings.leading,
            evaluator=evaluator,
            position=position,
            reporter=self._reporter,
            lock=lock or TakeoverLock(),
            notify_supervisor=notify_supervisor,
            clock=time.monotonic,
        )
        self._parts = Parts(
            group=group,
            settings=settings,
            watch=watch,
            reporter=self._reporter,
            admission=Admission(
                group=group,
                leading=settings.leading,
                watch=watch,
                group_type=group_type,
                reporter=self._reporter,
                foreign_protocols=foreign_protocols,
                unsupported_reason=unsupported_reason,
            ),
            assigning=self._assigning,
            evaluator=evaluator,
            position=position,
            takeovers=self._takeovers,
            hosts=hosts,
        )
        watch.listen(self._wake.set)
        self._standing.listen(self._wake.set)

    # called by other threads

    @property
    def trouble(self) -> str:
        """What prevents the agent from leading the group; empty while nothing does."""
        return self._reporter.trouble

    @property
    def refused(self) -> bool:
        """Whether the trouble is that the brokers do not allow something."""
        return self._reporter.refused

    def stop(self, *, hand_over_seconds: float = 0.0) -> None:
        """Asks the thread to leave the group and end.

        Args:
            hand_over_seconds: How long to stay until another agent has taken the membership over, if there is one.
        """
        if self._reporter.role in INSIDE and self._standing.has_deputy(self._duty):
            self._hand_over_until = time.monotonic() + hand_over_seconds
        membership = self._membership
        if membership is not None:
            membership.end_by(max(time.monotonic(), self._hand_over_until))
        self._stopping.set()
        self._wake.set()

    @property
    def takeover(self) -> Progress:
        """The progress of the last takeover of the group."""
        return self._takeovers.progress

    def take_over(self, *, dry_run: bool) -> Progress:
        """Asks the thread to take the lead over, or only for the gain of that; see `TakeoverController.ask`."""
        progress = self._takeovers.ask(dry_run=dry_run)
        self._wake.set()
        return progress

    def presences(self) -> frozenset[MemberIdentity]:
        """Returns the agent's current member ids in this group, as far as it knows them."""
        membership = self._membership
        pending = self._takeovers.orphans | (membership.pending if membership is not None else frozenset())
        ids = {MemberIdentity(group=self.group, member_id=one, pending=True) for one in pending}
        own = "" if membership is None or membership.fenced else membership.member_id or membership.parked_id
        if membership is not None and own:
            ids.add(MemberIdentity(group=self.group, member_id=own, instance_id=membership.group_instance_id))
        return frozenset(ids) | self._unleft

    def is_overdue(self) -> bool:
        """Returns whether the group waits for a plan beyond the deadline, so that only a new process can help."""
        since = self._assigning.since
        return (
            since is not None and time.monotonic() - since > self._settings.leading.deadline_seconds + _OVERDUE_SECONDS
        )

    # the thread

    def run(self) -> None:
        """Runs memberships until stopped; every error is counted, logged and followed by a retry."""
        while not self._stopping.is_set():
            pause = _RETRY_SECONDS
            try:
                self._stay()
                if self._reporter.role == WAITING:
                    pause = TURN_SECONDS  # the next consumers may join soon
            except BackOffError as error:
                self._back_off(error)
            except AssignmentError as error:
                self._back_off(BackOffError(Cause.PLANS_FAILED, f"no plan passes the check: {error}"))
            except kafka_errors.InconsistentGroupProtocolError:
                self._back_off(BackOffError(Cause.NO_SHARED_PROTOCOL))
            except (kafka_errors.KafkaError, AgentError) as error:
                refused = is_refusal(error) or _is_useless(error)
                if refused:
                    pause = max(pause, self._parts.admission.back_off.start(Cause.NOT_ALLOWED, explained(error)))
                self._reporter.failed("refused" if refused else "kafka", error, pause)
            except Exception as error:  # noqa: BLE001 - the group must not be left because of an error in the agent
                self._reporter.broke(error, pause)
            if self._is_wanted():
                self._stopping.wait(pause)
            else:
                self._wake.wait(pause)  # an election wakes it
                self._wake.clear()

    def _back_off(self, error: BackOffError) -> None:
        self._reporter.backs_off(error, self._parts.admission.back_off.start(error.cause, str(error)))

    def _stay(self) -> None:
        """Runs one membership, while this agent is the active one and the group has consumers."""
        poll = self._await_consumers()
        if poll is None:
            return
        seen_at = time.monotonic()
        client = connect(for_kafka_python(self._settings.kafka))
        membership = self._membership_over(client)
        self._membership = membership
        session = Session(self._parts, membership, seen_at=seen_at, empty_at=poll.empty_at)
        try:
            while self._is_wanted() and not self._ends(membership) and not session.lacks_consumers:
                self._turn(session, membership)
                while membership.kept_waiting:
                    self._reporter.metrics.answered(self.group, membership.kept_waiting.pop(0))
        except kafka_errors.FencedInstanceIdError:
            self._give_way()
        except EndedError:
            self._reporter.log.info("interrupted")  # by `stop`
        except NoConsumersError:
            session.sees_no_consumers()
        finally:
            self._leave(session)
            self._membership = None
            close(client)

    def _membership_over(self, client: KafkaNetClient) -> Membership:
        """Returns a membership of the group on this client; nothing is sent yet."""
        return Membership(
            client,
            group=self.group,
            settings=self._settings.leading,
            assign=self._assigning.assign,
            wake=self._wake.set,
        )

    def _turn(self, session: Session, membership: Membership) -> None:
        """Runs one turn and the pause after it; an error after which the membership is still valid causes only a pause.

        Leaving and joining again would cost all members two rebalances.

        Raises:
            KafkaError: The membership is no longer of use, or there is none yet.
        """
        try:
            pause = session.turn()
        except kafka_errors.KafkaError as error:
            if not membership.member_id or membership.is_forgotten or is_refusal(error) or _ends(error):
                raise
            self._turns.failed()
            pause = max(TURN_SECONDS, self._turns.pause_seconds)
            self._reporter.failed("kafka", error, pause)
            session.recover()
            self._stopping.wait(pause)
            return
        self._turns.succeeded()
        if (failure := membership.take_failure()) is not None:
            self._reporter.failed("kafka", failure, pause)
        self._wake.wait(pause)
        self._wake.clear()

    def _await_consumers(self) -> GroupPoll | None:
        """Waits outside the group until it has consumers; returns None if stopped or if another agent is active.

        An agent that stayed in a group without consumers would prevent the state Empty: committed offsets would
        expire by their own age (KIP-211), and applications with other protocols and tools would be refused.

        Raises:
            KafkaError: The brokers refuse to describe the group.
        """
        self._poller.watch(self.group, self._wake.set, empty_at=self._empty_at)
        self._empty_at = None
        try:
            while self._is_wanted() and not self._stopping.is_set():
                poll = self._poller.latest(self.group)
                if poll is not None and self._has_consumers(poll):
                    return poll
                # a pause after a back-off ends without an event
                self._wake.wait(None if self._reporter.role == WAITING else _RETRY_SECONDS)
                self._wake.clear()
        finally:
            self._poller.unwatch(self.group)
        return None

    def _has_consumers(self, poll: GroupPoll) -> bool:
        if poll.view is None:
            raise poll.error or AgentError(f"kafka: group {self.group} is not described")
        view = poll.view
        client = client_id(self._settings.kafka)
        own = [one for one in view.members if one.instance_id == self._settings.leading.instance_id]
        if any(one not in own and not is_agent(one, client) for one in view.members):
            return True
        if own:
            self._remove(own)
        elif view.state in EMPTY_STATES and self._parts.admission.admits(view):
            self._reporter.become(WAITING)
        self._publish_without_consumers(view)
        return False

    def _remove(self, own: Iterable[MemberView]) -> None:
        """Removes memberships of this instance id that an earlier process did not leave.

        Raises:
            KafkaError, AgentError: The brokers did not accept it.
        """
        client = connect(for_kafka_python(self._settings.kafka))
        membership = self._membership_over(client)
        try:
            for member in own:
                membership.release(member.id, member.instance_id)
        finally:
            close(client)

    def _publish_without_consumers(self, view: GroupView) -> None:
        self._reporter.publish(
            replace(view, members=()),
            first=False,
            situation=None,
            cluster=self._parts.watch.cluster,
            hosts=self._parts.hosts,
            outlook=self._parts.evaluator.outlook,
        )

    def _is_wanted(self) -> bool:
        """Returns whether this agent is to be in the group; reports its role if not."""
        if self._fenced_in is not None and self._standing.term <= self._fenced_in:
            return False
        if not self._standing.is_active(self._duty):
            self._reporter.become(STANDBY)
            return False
        self._fenced_in = None
        if self._reporter.role == STANDBY:
            self._reporter.become(OUTSIDE)
        return True

    def _ends(self, membership: Membership) -> bool:
        """Returns whether to leave: stopped, and not waiting for another agent to take the membership over."""
        waits = membership.is_static and time.monotonic() < self._hand_over_until
        return self._stopping.is_set() and not waits

    def _give_way(self) -> None:
        """Stays out after another agent has taken the membership, until a later election makes this one active."""
        self._fenced_in = self._standing.term
        if self._stopping.is_set():
            self._reporter.log.info("handed-over")
        else:
            self._reporter.is_fenced()

    def _leave(self, session: Session) -> None:
        session.member.end_by(float("inf"))  # wait for the leave within its own timeout
        try:
            session.leave()
            self._unleft = frozenset()
            if session.lacks_consumers and not self._stopping.is_set():
                self._see_empty(session.member)
        except kafka_errors.KafkaError as error:
            self._unleft = self.presences()  # for the supervisor, if this process ends now
            self._reporter.failed("leave", error, _RETRY_SECONDS)
        if session.lacks_consumers:
            self._reporter.become(WAITING)
        elif self._reporter.role not in (FENCED, STANDBY):
            self._reporter.become(OUTSIDE)

    def _see_empty(self, member: Member) -> None:
        """Describes the group that was just left: the next consumers may join before the poller's first poll."""
        asked_at = time.monotonic()
        with suppress(kafka_errors.KafkaError):  # the poller sees it a little later
            if member.describe().state in EMPTY_STATES:
                self._empty_at = asked_at


def _is_useless(error: Exception) -> bool:
    """Returns whether brokers do not accept the agent as a member with its settings."""
    return isinstance(error, _USELESS)


def _ends(error: kafka_errors.KafkaError) -> bool:
    """Returns whether this error ends the membership."""
    return _is_useless(error) or isinstance(error, (kafka_errors.FencedInstanceIdError, EndedError))


def _triggered(events: EventLog, group: str, since: float) -> tuple[float, ...]:
    """Returns when an earlier process triggered rebalances for racks or traffic, from `since` on."""
    exempt = {reason.value for reason in EXEMPT}
    return tuple(
        event.at
        for event in events.latest(group=group, kinds=("decision",), since=since, former=True)
        if event.action == Action.REBALANCE.value and event.reason not in exempt
    )
