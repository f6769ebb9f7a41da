"""One membership of the agent in one group, in turns: poll, join or stay out, lead, or keep a good position.

A turn never waits for long and returns when the next is due; the caller owns time and threads. State of the group that
outlives this membership is in `agent.leading.rebalance_evaluator` and `agent.leading.assigning`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from kafka import errors as kafka_errors

from samerack.agent.leading.admission import Admission, foreign, unsound
from samerack.agent.leading.assigning import Assigning, Sent
from samerack.agent.leading.birth import Birth, earliest_eviction, is_forming, safe_until
from samerack.agent.leading.group_reporter import FOLLOWING, INSIDE, LEADING, OBSERVING, GroupReporter
from samerack.agent.leading.join_position import JoinPosition
from samerack.agent.leading.member import Member
from samerack.agent.leading.order import is_first, is_led_unawares
from samerack.agent.leading.rebalance_evaluator import Evaluation, RebalanceEvaluator
from samerack.agent.leading.takeover_controller import TakeoverController
from samerack.agent.policy import Action
from samerack.agent.policy.back_off import BackOffError, Cause, PlanRecord
from samerack.cluster.coordination import EndedError
from samerack.cluster.group import EMPTY_STATES, GroupView, is_agent
from samerack.cluster.racks import NO_HOSTS, Hosts
from samerack.cluster.refusals import is_refusal
from samerack.cluster.view import topics_differ
from samerack.cluster.watch import ClusterWatch
from samerack.common.kafka_config import client_id
from samerack.common.settings import Settings
from samerack.planning.coverage import denied_topics_reason, unreadable_member_reason

TURN_SECONDS: Final = 0.2
_PARKED_SECONDS: Final = 0.15
"""While JoinGroup is parked the group is described this often: only the description has the hosts of new members."""
_JOIN_SECONDS: Final = 0.15
_TAKING_SECONDS: Final = 0.02
"""How long one wait for the JoinGroup response takes while a takeover delays the group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts that lead one group, for as long as the agent runs.

    Attributes:
        group: the group's name.
        settings: all settings.
        watch: source of settled clusters.
        reporter: reports what happens.
        admission: whether the agent may be in the group.
        assigning: what is known for planning the group.
        evaluator: whether a rebalance is worth it.
        position: the agent's position in the join order.
        takeovers: takeovers of the lead.
        hosts: what other sources know about client hosts.
        clock: seconds, monotonic.
    """

    group: str
    settings: Settings
    watch: ClusterWatch
    reporter: GroupReporter
    admission: Admission
    assigning: Assigning
    evaluator: RebalanceEvaluator
    position: JoinPosition
    takeovers: TakeoverController
    hosts: Hosts = NO_HOSTS
    clock: Callable[[], float] = time.monotonic


class Session:
    """One membership, from the first poll to leaving."""

    def __init__(self, parts: Parts, member: Member, *, seen_at: float, empty_at: float | None = None) -> None:
        """Starts without knowledge of the group.

        Args:
            parts: What outlives this membership.
            member: The membership; `leave` leaves it.
            seen_at: When the group was seen with consumers, monotonic seconds.
            empty_at: When it was last seen without members; None if it was not.
        """
        self._seen_at, self._empty_at = seen_at, empty_at
        self._parts = parts
        self._reporter = parts.reporter
        self.member = member
        self._look: GroupView | None = None
        self._others: GroupView | None = None
        self._look_at = float("-inf")
        self._well_at: float | None = None
        self._asked = False
        self._last_sent = parts.assigning.sent
        self._birth: Birth | None = None
        self._alone = False
        self._forget_looks()

    @property
    def lacks_consumers(self) -> bool:
        """Whether the group was last seen without consumers, so that the agent must not stay in it.

        Two agents that do not know of each other must not keep each other in it. Not true during a rebalance:
        consumers that the agent has evicted from a forming group are about to join again.
        """
        if self._alone:
            return True
        look, others = self._look, self._others
        own = client_id(self._parts.settings.kafka)
        if look is None or others is None or not all(is_agent(one, own) for one in others.members):
            return False
        return look.state in EMPTY_STATES or (look.stable and not self.member.wants_join)

    def leave(self) -> None:
        """Leaves the group by member id.

        Raises:
            KafkaError: The brokers did not accept it.
        """
        member = self.member
        self._parts.takeovers.end(member)
        self._reporter.observer.leaves(member=bool(member.member_id) and not member.fenced)
        member.leave()

    def sees_no_consumers(self) -> None:
        """Records that the JoinGroup response names only the agent."""
        self._alone = True

    def recover(self) -> None:
        """Undoes a takeover under way after a failed turn, and drops what was seen: the next turn polls first."""
        self._parts.takeovers.end(self.member)
        well_at = self._well_at  # the failure may be the first sign that the brokers removed the agent
        self._forget_looks()
        self._well_at = well_at

    def turn(self) -> float:
        """Runs one turn; returns how many seconds to wait for the next one unless something happens.

        Raises:
            FencedInstanceIdError: Another agent has taken the membership over.
            BackOffError: The agent must stay out of the group for a while.
            KafkaError, AgentError: It failed; start a new session later.
        """
        member = self.member
        takeovers = self._parts.takeovers
        self._release_orphans()
        if takeovers.is_under_way:
            return self._take_over()
        if self._parts.clock() >= self._look_at:
            self._look_again()
        self._heed_loss()
        if member.is_outside:
            if self._look is None or self._others is None or self.lacks_consumers:
                return TURN_SECONDS
            if not (self._begins_at_birth(self._look) or self._may_join(self._look, self._others)):
                return TURN_SECONDS
            if not member.member_id:
                self._parts.position.enter(member, self._look)
        self._heed_heartbeats()
        if member.wants_join:
            return self._rejoin()
        if self.lacks_consumers:
            return 0.0  # the caller ends the session
        if self._look is None or self._others is None or not self._look.stable:
            return _PARKED_SECONDS
        if unseen := self._parts.watch.unseen(self._parts.group):
            raise BackOffError(Cause.NOT_ALLOWED, denied_topics_reason(unseen))
        if unreadable := unreadable_member_reason(self._others):
            raise BackOffError(Cause.UNREADABLE, unreadable)
        self._well_at = self._parts.clock()
        if member.leading:
            return self._lead(self._others)
        return self._follow(self._look, self._others)

    def _release_orphans(self) -> None:
        """Releases reserved ids that a former membership could not; retries at the next turn if that fails."""
        try:
            self._parts.takeovers.release_orphans(self.member)
        except kafka_errors.KafkaError as error:
            if isinstance(error, EndedError):
                raise
            self._reporter.failed("leave", error, TURN_SECONDS)

    def _follow(self, look: GroupView, others: GroupView) -> float:
        """Runs a turn of a stable group that another member leads: takes over if asked, and keeps a good position."""
        member = self.member
        if other := foreign(others, self._parts.settings.leading, member.leader_id):
            raise BackOffError(Cause.FOREIGN_AGENT, other)
        if reason := unsound(look.protocol):
            raise BackOffError(Cause.UNSOUND_LEADER, reason)
        if is_led_unawares(look, member.leader_id, member.group_instance_id):
            self._reporter.log.info("leads-unawares", leader=member.leader_id)
            self._forget_looks()
            member.nudge()
            return 0.0
        evaluation = self._evaluate(others)
        if evaluation is not None and self._parts.takeovers.consider(member, look, evaluation):
            if self._parts.takeovers.is_under_way:
                self._asked = True
                self._reporter.observer.begins("takeover")
            self._forget_looks()
            return 0.0
        if self._parts.position.keep(member, look):
            self._give_back()
            self._forget_looks()
            return 0.0
        return TURN_SECONDS

    def _give_back(self) -> None:
        """Reports a rebalance if the agent asked the group's leader to reassign partitions given to the agent."""
        if self.member.wants_join and len(self.member.assigned):
            self._reporter.observer.begins("gives partitions back")

    def _take_over(self) -> float:
        """Runs a turn of a takeover: its rebalances end like others, with the takeover's steps in between."""
        member, takeovers = self.member, self._parts.takeovers
        self._heed_heartbeats()
        if not member.member_id:
            takeovers.end(member)
            return 0.0
        if member.wants_join and member.join(_TAKING_SECONDS):
            self._joined()
            return 0.0
        return takeovers.turn(member)

    def _heed_heartbeats(self) -> None:
        self.member.poll_heartbeat()
        if self.member.fenced:
            raise kafka_errors.FencedInstanceIdError(self._parts.group)

    def _forget_looks(self) -> None:
        """Drops what was seen, so that the group is polled again before anything is decided."""
        self._look = self._others = self._well_at = None
        self._look_at = float("-inf")
        self._parts.evaluator.forget()
        self._parts.admission.forget()

    # in or out

    def _may_join(self, look: GroupView, others: GroupView) -> bool:
        admission = self._parts.admission
        return (self._is_expected(look) and not admission.back_off.is_out) or admission.admits(others)

    def _begins_at_birth(self, look: GroupView) -> bool:
        """Returns whether the group is just forming and the agent may lead it from its first generation."""
        delay, empty_at = self._parts.watch.initial_delay_seconds, self._empty_at
        if not is_forming(look, empty_at=empty_at, delay_seconds=delay, now=self._parts.clock()):
            return False
        if empty_at is None or delay is None or not self._parts.admission.admits_at_birth():
            return False
        self._birth = Birth(
            begin=earliest_eviction(empty_at, self._seen_at, delay),
            until=safe_until(empty_at, delay),
            clock=self._parts.clock,
            log=self._reporter.log,
            own_client_id=client_id(self._parts.settings.kafka),
        )
        return True

    def _heed_loss(self) -> None:
        """Counts a lost membership: one that was in a stable group a moment ago and is gone."""
        if self._well_at is None or self.member.member_id:
            return
        well_at, self._well_at = self._well_at, None
        self._reporter.observer.loses()
        if self._parts.clock() - well_at < self._parts.settings.leading.session_timeout_seconds / 2:
            self._reporter.log.warning("membership-lost")
            self._parts.admission.back_off.lost()

    def _is_expected(self, look: GroupView) -> bool:
        """Returns whether the group has this instance id and waits for it, so a restarted agent continues there."""
        instance_id = self._parts.settings.leading.instance_id
        return any(member.instance_id == instance_id for member in look.members)

    def _rejoin(self) -> float:
        self._reporter.observer.rejoins(expected=self._look is not None and self._is_expected(self._look))
        view = self._others
        if view is not None and view.stable and view.protocol:
            self.member.offer(view.protocol)
        if self.member.join(self._join_seconds()):
            self._birth = None
            self._joined()
            return 0.0
        if self._birth is None or not self._birth.is_open:
            self._look_at = min(self._look_at, self._parts.clock() + _PARKED_SECONDS)
            return 0.0
        # what was seen before the wait is too old: a member that joined since could lead once those before it are gone
        if (look := self._look_again()) is not None:
            self._birth.turn(self.member, look)
        return 0.0

    def _join_seconds(self) -> float:
        """Returns how long to wait for the JoinGroup response at a time: not beyond the time of an eviction."""
        now = self._parts.clock()
        if self._birth is None or self._birth.begin <= now:
            return _JOIN_SECONDS
        return min(_JOIN_SECONDS, self._birth.begin - now)

    def _joined(self) -> None:
        """Reports the result after SyncGroup."""
        member, parts, reporter = self.member, self._parts, self._reporter
        self._forget_looks()
        parts.position.reconsider()
        if not member.leader_id:
            raise BackOffError(Cause.CONVERTED)
        reporter.become(LEADING if member.leading else FOLLOWING)
        before, self._last_sent = self._last_sent, parts.assigning.sent
        sent = self._last_sent
        if sent is not None and sent is not before and member.leading:
            parts.evaluator.planned(sent)
            reporter.planned(sent)
            self._answer_for(sent, before)
        else:
            reporter.joined(generation=member.generation_id, leader=member.leader_id)
        parts.takeovers.joined(member)

    def _answer_for(self, sent: Sent, before: Sent | None) -> None:
        """Passes a plan to the back-off, which counts plans that the group did not accept."""
        asked, self._asked = self._asked, False
        plan = sent.plan
        self._parts.admission.back_off.planned(
            PlanRecord(
                at=self._parts.clock(),
                subscriptions=sent.subscriptions,
                failed=plan.failure is not None,
                withheld=plan.withheld > 0,
                asked=asked,
                changed=before is not None and topics_differ(before.cluster, sent.cluster, plan.problem.topics),
            )
        )

    # polling

    def _look_again(self) -> GroupView | None:
        """Polls the group once; after a temporary failure the last poll stays valid, as leaving costs a rebalance.

        Returns:
            The description; None if the poll failed.
        """
        pause = self._parts.settings.watch.group_seconds
        self._look_at = self._parts.clock() + pause
        try:
            look = self.member.describe()
        except kafka_errors.KafkaError as error:
            # the group may wait for this member meanwhile: it must still handle its heartbeats and join
            if is_refusal(error) or isinstance(error, (kafka_errors.FencedInstanceIdError, EndedError)):
                raise
            self._reporter.failed("kafka", error, pause)
            return None
        self._see(look)
        return look

    def _see(self, look: GroupView) -> None:
        member, assigning = self.member, self._parts.assigning
        others = replace(look, members=tuple(one for one in look.members if one.id != member.member_id))
        if member.leading and not assigning.may_be_of(member.generation_id, others):
            self._reporter.log.info("outdated-look", generation=member.generation_id, members=len(others.members))
            return
        if others == self._others:
            others = self._others  # results are cached by object identity
        self._look, self._others = look, others
        if self._reporter.role in (*INSIDE, OBSERVING) and not self._parts.admission.is_troubled:
            self._reporter.trouble = ""
        assigning.see(others)
        self._publish(others, first=is_first(look, member.member_id, member.leader_id))

    def _publish(self, view: GroupView, *, first: bool) -> None:
        parts = self._parts
        self._reporter.publish(
            view,
            first=first,
            situation=parts.evaluator.situation,
            cluster=parts.watch.cluster,
            hosts=parts.hosts,
            outlook=parts.evaluator.outlook,
        )

    # leading

    def _lead(self, view: GroupView) -> float:
        evaluation = self._evaluate(view)
        if evaluation is None:
            return TURN_SECONDS
        decision, news = self._parts.evaluator.decide(evaluation)
        if news:
            self._reporter.decided(decision)
        self._reporter.broken(self._parts.evaluator.outlook)
        if decision.action is Action.REBALANCE:
            self._forget_looks()
            self._asked = True
            self.member.trigger(decision.reason.value)
            return 0.0
        return TURN_SECONDS

    def _evaluate(self, view: GroupView) -> Evaluation | None:
        leading = self._reporter.role == LEADING
        generation = self.member.generation_id
        evaluation, anew = self._parts.evaluator.evaluate(view, leading=leading, generation=generation)
        if anew:
            self._publish(view, first=leading)
        return evaluation
