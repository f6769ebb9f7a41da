"""One membership of the agent in one group, in turns: poll, join or stay out, lead, or keep a good position.

A turn never waits for long and returns when the next is due; the caller owns time and threads. JoinGroup stays parked
until all members have joined, so a join takes several turns; when it has ended, the plan that was sent goes to the
policy, the reports and the back-off. What outlives this membership is in `agent.leading.parts`; the description that a
turn decides about is in `agent.leading.polled_group`.
"""

from __future__ import annotations

from typing import Final

from kafka import errors as kafka_errors

from samerack.agent.group_status import FOLLOWING, LEADING
from samerack.agent.leading.assigning import Sent
from samerack.agent.leading.initial_rebalance import (
    InitialRebalance,
    earliest_eviction,
    is_forming,
    safe_to_join_until,
    safe_until,
)
from samerack.agent.leading.membership import Hold, Membership
from samerack.agent.leading.parts import GroupParts
from samerack.agent.leading.polled_group import PolledGroup
from samerack.agent.leading.rebalance_evaluator import Evaluation
from samerack.agent.policy import Action
from samerack.agent.policy.back_off import PlanRecord
from samerack.agent.policy.back_off_causes import BackOffError, Cause
from samerack.auth.kafka_config import client_id
from samerack.cluster.group import EMPTY_STATES, GroupView, is_agent
from samerack.cluster.group_member import EndedError
from samerack.cluster.group_poller import GroupPoll
from samerack.cluster.joining import endangered_reason, foreign, is_led_unknowingly
from samerack.cluster.view import changed_topics
from samerack.planning.planner import denied_topics_reason, unreadable_member_reason
from samerack.settings.protocols import unsound

TURN_SECONDS: Final = 0.2
_RESTING_SECONDS: Final = 1.0
"""The longest pause in a group that is as it should be: what needs an answer sooner wakes the leader."""
_COMMITS_SECONDS: Final = 2.0
_PARKED_SECONDS: Final = 0.15
"""While JoinGroup is parked the group is described this often: only the description has the hosts of new members."""
_JOIN_SECONDS: Final = 0.15
_DECIDED_SECONDS: Final = 0.5
"""How long to wait at a time in an initial rebalance that only the agent can lead."""
_HELD_JOIN_SECONDS: Final = 0.02
"""How long one wait for the JoinGroup response takes while a takeover delays the group."""


class Session:
    """One membership, from the first poll to leaving."""

    def __init__(self, parts: GroupParts, member: Membership, poll: GroupPoll, *, seen_at: float) -> None:
        """Start without knowledge of the group but for the poll that showed consumers, at `seen_at` (monotonic)."""
        self._parts = parts
        self._reporter = parts.reporter
        self.member = member
        self._group = PolledGroup(parts, member)
        self._seen_at, self._empty_at, self._first_seen = seen_at, poll.empty_at, poll.member_ids
        self._initial_rebalance: InitialRebalance | None = None
        self._last_sent = parts.assigning.sent
        self._asked = False
        """Whether the agent itself has asked for the next rebalance, so that it does not count as a rejected plan."""
        self._decided: Evaluation | None = None
        """The last evaluation that was decided about while the agent led."""
        self.is_alone = False
        """Whether the JoinGroup response names only the agent."""

    @property
    def lacks_consumers(self) -> bool:
        """Whether the group was last seen without consumers, so that the agent must not stay in it.

        Two agents that do not know of each other must not keep each other in it. Not true during a rebalance:
        consumers that the agent has evicted from a forming group are about to join again.
        """
        if self.is_alone:
            return True
        view, others = self._group.view, self._group.others
        own = client_id(self._parts.settings.kafka)
        if view is None or others is None or not all(is_agent(member, own) for member in others.members):
            return False
        return view.state in EMPTY_STATES or (view.stable and not self.member.wants_join)

    def leave(self) -> None:
        """Leave the group by member id.

        Raises:
            KafkaError: The brokers did not accept it.
        """
        member = self.member
        self._parts.takeovers.end(member)
        self._parts.evaluator.forget()  # what was decided in the group waits for nothing any more
        self._reporter.leaves(member=bool(member.member_id) and not member.fenced)
        member.leave()

    def recover(self) -> None:
        """Undo a takeover under way after a failed turn, and drop what was seen: the next turn polls first."""
        self._parts.takeovers.end(self.member)
        stable_at = self._group.stable_at  # the failure may be the first sign that the brokers removed the agent
        self._group.forget()
        self._group.stable_at = stable_at

    def turn(self) -> float:
        """Run one turn; return how many seconds to wait for the next one unless something happens.

        Raises:
            FencedInstanceIdError: Another agent has taken over the membership.
            BackOffError: The agent must stay out of the group for a while, also to make room for consumers.
            KafkaError, AgentError: It failed; start a new session later.
        """
        member, group = self.member, self._group
        self._release_orphans()
        if self._parts.takeovers.is_under_way:
            return self._take_over()
        if group.due_seconds <= 0:
            group.poll()
        self._parts.takeovers.sees(group.view)
        self._handle_loss()
        if member.is_outside:
            self._parts.evaluator.forget()  # as in `leave`
            if member.is_ending or group.view is None or group.others is None or self.lacks_consumers:
                return TURN_SECONDS
            if not (self._begins_initial_rebalance(group.view) or self._may_join(group.view, group.others)):
                return TURN_SECONDS
            if not member.member_id:
                self._parts.position.enter(member, group.view)
        self._handle_heartbeats()
        if member.wants_join:
            self._make_room()
            return self._rejoin()
        if self.lacks_consumers:
            return 0.0  # the caller ends the session
        if group.view is None or group.others is None or not group.view.stable:
            return _PARKED_SECONDS
        if denied := self._parts.watch.denied_topics(self._parts.group):
            raise BackOffError(Cause.NOT_ALLOWED, denied_topics_reason(denied))
        if unreadable := unreadable_member_reason(group.others):
            raise BackOffError(Cause.UNREADABLE, unreadable)
        group.stable_at = self._parts.clock()
        if member.leading:
            return self._lead(group.others)
        return self._follow(group.view, group.others)

    def _release_orphans(self) -> None:
        """Release reserved ids that a former membership could not; retry at the next turn if that fails."""
        try:
            self._parts.takeovers.release_orphans(self.member)
        except kafka_errors.KafkaError as error:
            if isinstance(error, EndedError):
                raise
            self._reporter.failed("leave", error, TURN_SECONDS)

    def _make_room(self) -> None:
        """Poll a group of limited size before the agent joins again, and while it waits: a consumer may need its place.

        Raises:
            BackOffError: One needs it.
        """
        group = self._group
        may_be_old = group.due_seconds <= 0 or (group.view is not None and group.view.stable)
        if may_be_old and self._parts.admission.max_size is not None:
            group.poll()
            group.poll_within(_PARKED_SECONDS)

    def _may_join(self, view: GroupView, others: GroupView) -> bool:
        admission = self._parts.admission
        if self._is_expected(view) and not admission.back_off.is_out:
            if not admission.full:
                return True
            instance_id = self._parts.settings.leading.instance_id
            for former in (member for member in view.members if member.instance_id == instance_id):
                self.member.release(former.id, instance_id)
            self._group.forget()
        return admission.admits(others)

    def _handle_loss(self) -> None:
        """Drop what was seen before a loss, and count a lost membership: in a stable group a moment ago, and gone."""
        stable_at = self._group.stable_at
        if self.member.is_outside and self._group.seen_inside:
            self._group.forget()  # its own instance id in it looks like that of a restarted agent
        if stable_at is None or self.member.member_id:
            return
        self._group.stable_at = None
        self._reporter.loses()
        if self._parts.clock() - stable_at < self._parts.settings.leading.session_timeout_seconds / 2:
            self._reporter.log.warning("membership-lost")
            self._parts.admission.back_off.lost()

    def _handle_heartbeats(self) -> None:
        """Act on the results of the heartbeats.

        Raises:
            FencedInstanceIdError: Another agent has taken over the membership.
        """
        self.member.poll_heartbeat()
        if self.member.fenced:
            raise kafka_errors.FencedInstanceIdError(self._parts.group)

    # joining

    def _is_expected(self, view: GroupView) -> bool:
        """Return whether the group has this instance id and waits for it, so a restarted agent continues there."""
        instance_id = self._parts.settings.leading.instance_id
        return any(member.instance_id == instance_id for member in view.members)

    def _begins_initial_rebalance(self, view: GroupView) -> bool:
        """Return whether the group is just forming and the agent may lead it from its first generation."""
        delay, empty_at = self._parts.watch.initial_delay_seconds, self._empty_at
        if not is_forming(view, empty_at=empty_at, delay_seconds=delay, now=self._parts.clock()):
            return False
        if empty_at is None or delay is None or not self._parts.admission.admits_initial_rebalance():
            return False
        self._initial_rebalance = InitialRebalance(
            first_seen=self._first_seen,
            begin=earliest_eviction(empty_at, self._seen_at, delay),
            rejoin_until=safe_to_join_until(empty_at, delay),
            until=safe_until(empty_at, delay),
            clock=self._parts.clock,
            log=self._reporter.log,
            own_client_id=client_id(self._parts.settings.kafka),
            on_evict=self._parts.evictions.begin,
        )
        return True

    def _rejoin(self) -> float:
        """Wait a moment for the JoinGroup response; return how many seconds to wait for the next turn.

        Raises:
            BackOffError: The agent must stay out of the group for a while.
            KafkaError: The broker refuses the membership.
        """
        if self.member.is_ending and self.member.is_outside:
            return TURN_SECONDS  # the membership was lost: to join again would take it from the agent that has it
        view = self._group.view
        self._reporter.rejoins(expected=view is not None and self._is_expected(view))
        others = self._group.others
        if others is not None and others.stable and others.protocol:
            self.member.offer(others.protocol)
        if self.member.join(self._join_seconds()):
            initial, self._initial_rebalance = self._initial_rebalance is not None, None
            self._joined(initial=initial)
            return 0.0
        if self._initial_rebalance is None or not self._initial_rebalance.is_open:
            self._group.poll_within(_PARKED_SECONDS)
            return 0.0
        # what was seen before the wait is too old: a member that joined since could lead once those before it are gone
        while (view := self._group.poll()) is not None and self._initial_rebalance.turn(self.member, view):
            pass
        return 0.0

    def _join_seconds(self) -> float:
        """Return how long to wait for the JoinGroup response at a time: not beyond the time of an eviction."""
        initial, now = self._initial_rebalance, self._parts.clock()
        if initial is None:
            return _JOIN_SECONDS
        if initial.is_decided:
            return max(_JOIN_SECONDS, min(_DECIDED_SECONDS, initial.until - now))
        return min(_JOIN_SECONDS, initial.begin - now) if initial.begin > now else _JOIN_SECONDS

    def _joined(self, *, initial: bool = False) -> None:
        """Report the result after SyncGroup, which may be that of the initial rebalance.

        Raises:
            BackOffError: The group has no classic leader any more, or does not accept the agent's plans.
        """
        member, parts, reporter = self.member, self._parts, self._reporter
        self._group.forget()
        parts.position.reconsider()
        if not member.leader_id:
            raise BackOffError(Cause.CONVERTED)
        reporter.become(LEADING if member.leading else FOLLOWING)
        before, self._last_sent = self._last_sent, parts.assigning.sent
        sent = self._last_sent
        if sent is not None and sent is not before and member.leading:
            parts.evaluator.planned(sent)
            reporter.planned(sent)
            self._record_plan(sent, before)
        else:
            reporter.joined(generation=member.generation_id, leader=member.leader_id)
        parts.takeovers.joined(member, initial=initial)

    def _record_plan(self, sent: Sent, before: Sent | None) -> None:
        """Pass a plan to the back-off, which counts plans that the group did not accept."""
        asked, self._asked = self._asked, False
        plan = sent.plan
        self._parts.admission.back_off.planned(
            PlanRecord(
                at=self._parts.clock(),
                subscriptions=sent.subscriptions,
                failed=plan.assignor != "optimal",
                withheld=plan.withheld > 0,
                asked=asked,
                changed=before is not None and bool(changed_topics(before.cluster, sent.cluster, plan.problem.topics)),
            )
        )

    # leading

    def _lead(self, others: GroupView) -> float:
        """Run a turn of a stable group that the agent leads: starts a rebalance if the policy decides so."""
        self._parts.requests.leads(self._parts.group)
        evaluation = self._evaluate(others)
        if evaluation is None:
            return TURN_SECONDS
        if self._group.is_resting:
            if evaluation is not self._decided:
                self._group.poll_within(0.0)  # a decision needs the group as it is now
            return self._resting_seconds()
        self._decided = evaluation
        decision, news = self._parts.evaluator.decide(evaluation)
        self._ask_for_commits()
        if news:
            self._reporter.decided(decision)
        self._reporter.broken(self._parts.evaluator.breaker)
        if decision.action is Action.REBALANCE:
            self._group.forget()
            self._asked = True
            self.member.trigger(decision.reason.value)
            return 0.0
        if decision.action is Action.NOTHING:
            self._group.rest()
        return self._resting_seconds()

    def _resting_seconds(self) -> float:
        """Return the pause in a group that needs nothing: until its next poll."""
        due = self._group.due_seconds
        return min(_RESTING_SECONDS, max(TURN_SECONDS, due)) if due > 0 else 0.0

    def _evaluate(self, others: GroupView) -> Evaluation | None:
        leading = self._reporter.role == LEADING
        generation = self.member.generation_id
        evaluation, anew = self._parts.evaluator.evaluate(others, leading=leading, generation=generation)
        if anew:
            self._reporter.publish(others, first=leading, condition=self._parts.evaluator.condition)
        return evaluation

    def _ask_for_commits(self) -> None:
        """Ask for the group's commits while a rebalance waits for signs of life; without an answer it waits longer."""
        lives, at = self._parts.evaluator.lives, self._parts.clock()
        if not lives.awaits_commits(at):
            return
        offsets = None
        try:
            offsets = self.member.committed(_COMMITS_SECONDS)
        except EndedError:
            raise
        except kafka_errors.KafkaError as error:
            self._reporter.failed("kafka", error, 0.0)
        lives.asked(at, self._parts.clock(), offsets)

    # following

    def _follow(self, view: GroupView, others: GroupView) -> float:
        """Run a turn of a stable group that another member leads: takes over if asked, and keep a good position."""
        member = self.member
        if other := foreign(others, self._parts.settings.leading, member.leader_id):
            raise BackOffError(Cause.FOREIGN_AGENT, other)
        if reason := unsound(view.protocol) or endangered_reason(others, self._parts.settings.leading):
            raise BackOffError(Cause.UNSOUND_LEADER, reason)
        if is_led_unknowingly(view, member.leader_id, member.group_instance_id):
            self._reporter.log.info("leads-unknowingly", leader=member.leader_id)
            self._group.forget()
            member.nudge()
            return 0.0
        evaluation = self._evaluate(others)
        if evaluation is not None and not evaluation.condition.partitions_changed:
            self._parts.position.check_shares(member, others)
        considered = evaluation is not None and self._parts.takeovers.consider(member, view, evaluation)
        self._ask_for_commits()
        if considered:
            if self._parts.takeovers.is_under_way:
                self._asked = True
                self._reporter.begins_rebalance("takeover")
            self._group.forget()
            return 0.0
        if self._parts.position.keep(member, view):
            self._report_return()
            self._group.forget()
            return 0.0
        return self._resting_seconds()

    def _report_return(self) -> None:
        """Report a rebalance if the agent asked the group's leader to reassign partitions given to the agent."""
        if self.member.wants_join and len(self.member.assigned):
            self._reporter.begins_rebalance("gives partitions back")

    def _take_over(self) -> float:
        """Run a turn of a takeover: its rebalances end like others, with the takeover's steps in between."""
        member, takeovers = self.member, self._parts.takeovers
        self._make_room()
        self._handle_heartbeats()
        if not member.member_id:
            takeovers.end(member)
            return 0.0
        if member.hold_state is Hold.NONE and self._group.due_seconds <= 0:
            self._group.poll()  # released: who was evicted is seen to be back, however long the rebalance lasts
        if member.wants_join and member.join(_HELD_JOIN_SECONDS):
            self._joined()
            return 0.0
        return takeovers.turn(member)
