"""Joins and rejoins one group within a membership, from its initial rebalance if it is just forming; reports results.

JoinGroup stays parked until all members have joined, so a join takes several turns. When it has ended, the plan that
was sent goes to the policy, the reports and the back-off.
"""

from __future__ import annotations

from typing import Final

from samerack.agent.group_status import FOLLOWING, LEADING
from samerack.agent.leading.assigning import Sent
from samerack.agent.leading.initial_rebalance import (
    InitialRebalance,
    Sighting,
    earliest_eviction,
    is_forming,
    safe_to_join_until,
    safe_until,
)
from samerack.agent.leading.membership import Membership
from samerack.agent.leading.parts import GroupParts
from samerack.agent.leading.polled_group import PolledGroup
from samerack.agent.policy.back_off_causes import BackOffError, Cause
from samerack.agent.policy.plan_health import PlanRecord
from samerack.auth.kafka_config import client_id
from samerack.cluster.group import GroupView
from samerack.cluster.view import changed_topics

PARKED_SECONDS: Final = 0.15
"""While JoinGroup is parked the group is described this often: only the description has the hosts of new members."""
_JOIN_SECONDS: Final = 0.15
_DECIDED_SECONDS: Final = 0.5
"""How long to wait at a time in an initial rebalance that only the agent can lead."""


class Joining:
    """The joins of one membership."""

    def __init__(self, parts: GroupParts, member: Membership, group: PolledGroup, sighting: Sighting) -> None:
        """Prepare; nothing is sent. `sighting` is when the group was seen with consumers."""
        self._parts = parts
        self._reporter = parts.reporter
        self._member = member
        self._group = group
        self._sighting = sighting
        self._last_sent = parts.assigning.sent
        self._initial_rebalance: InitialRebalance | None = None
        self.asked = False
        """Whether the agent itself has asked for the next rebalance, so that it does not count as a rejected plan."""

    def is_expected(self, view: GroupView) -> bool:
        """Return whether the group has this instance id and waits for it, so a restarted agent continues there."""
        instance_id = self._parts.settings.leading.instance_id
        return any(member.instance_id == instance_id for member in view.members)

    def begins_initial_rebalance(self, view: GroupView) -> bool:
        """Return whether the group is just forming and the agent may lead it from its first generation."""
        delay, empty_at = self._parts.watch.initial_delay_seconds, self._sighting.empty_at
        if not is_forming(view, empty_at=empty_at, delay_seconds=delay, now=self._parts.clock()):
            return False
        if empty_at is None or delay is None or not self._parts.admission.admits_initial_rebalance():
            return False
        self._initial_rebalance = InitialRebalance(
            sighting=self._sighting,
            begin=earliest_eviction(empty_at, self._sighting.at, delay),
            rejoin_until=safe_to_join_until(empty_at, delay),
            until=safe_until(empty_at, delay),
            clock=self._parts.clock,
            log=self._reporter.log,
            own_client_id=client_id(self._parts.settings.kafka),
            on_evict=self._parts.evictions.begin,
        )
        return True

    def rejoin(self) -> float:
        """Wait a moment for the JoinGroup response; return how many seconds to wait for the next turn.

        Raises:
            BackOffError: The agent must stay out of the group for a while.
            KafkaError: The broker refuses the membership.
        """
        view = self._group.view
        self._reporter.observer.rejoins(expected=view is not None and self.is_expected(view))
        others = self._group.others
        if others is not None and others.stable and others.protocol:
            self._member.offer(others.protocol)
        if self._member.join(self._join_seconds()):
            initial, self._initial_rebalance = self._initial_rebalance is not None, None
            self.joined(initial=initial)
            return 0.0
        if self._initial_rebalance is None or not self._initial_rebalance.is_open:
            self._group.poll_within(PARKED_SECONDS)
            return 0.0
        # what was seen before the wait is too old: a member that joined since could lead once those before it are gone
        while (view := self._group.poll()) is not None and self._initial_rebalance.turn(self._member, view):
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

    def joined(self, *, initial: bool = False) -> None:
        """Report the result after SyncGroup, which may be that of the initial rebalance.

        Raises:
            BackOffError: The group has no classic leader any more, or does not accept the agent's plans.
        """
        member, parts, reporter = self._member, self._parts, self._reporter
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
        asked, self.asked = self.asked, False
        plan = sent.plan
        self._parts.admission.back_off.planned(
            PlanRecord(
                at=self._parts.clock(),
                subscriptions=sent.subscriptions,
                failed=plan.failure is not None,
                withheld=plan.withheld > 0,
                asked=asked,
                changed=before is not None and bool(changed_topics(before.cluster, sent.cluster, plan.problem.topics)),
            )
        )
