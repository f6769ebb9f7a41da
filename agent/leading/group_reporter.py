"""Reports one group's events to log, metrics, status board and event store, each event once and in one place.

Its rebalances are recorded as the agent observes them, as a member of the group or from outside.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from samerack.agent.group_status import FENCED, FOLLOWING, INSIDE, OBSERVING, OUTSIDE, WAITING, GroupStatus
from samerack.agent.leading.assigning import Sent
from samerack.agent.leading.membership import HEARTBEAT_SECONDS
from samerack.agent.leading.rebalance_evaluator import RebalanceEvaluator
from samerack.agent.metrics import Metrics
from samerack.agent.policy import Action, Breaker, Decision, GroupCondition, Reason
from samerack.agent.policy.back_off_causes import RULES, BackOffError, Cause
from samerack.agent.policy.requests import OperatorRequest
from samerack.cluster.errors import explained
from samerack.cluster.group import EMPTY_STATES, GroupView
from samerack.cluster.view import SettledCluster
from samerack.common.words import short_id, some, when
from samerack.events import EventLog
from samerack.events.cause import clients_of, of_plan, of_view
from samerack.events.rebalance_tracker import RebalanceTracker
from samerack.events.rebalances import LedPlan, Rebalances
from samerack.planning.members import members_of_view, placed
from samerack.reporting.verify_spread import rack_warnings
from samerack.settings.all_settings import Settings

_FENCED_CURE: Final = (
    "agents with the same instance id need the same election.group; otherwise stop one of them or give them different "
    "leading.instance_id"
)


@dataclass(kw_only=True, eq=False)
class GroupReporter:
    """Reports what happens with one group.

    Attributes:
        rebalances: The record of the group's rebalances; by default a new one.
        paused: Why the agent starts no rebalance on request; empty while it may.
        returned: That the agent follows the group since it was asked to leave, by a view of it; empty if it does not.
        never_evicts: Why the agent evicts nobody in the group, so that it leads late or never; empty if it may.
    """

    group: str
    settings: Settings
    evaluator: RebalanceEvaluator
    metrics: Metrics
    events: EventLog
    rebalances: Rebalances | None = None
    paused: Callable[[], str] = lambda: ""
    returned: Callable[[GroupView], str] = lambda _: ""
    never_evicts: Callable[[], str] = lambda: ""
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        tracker = RebalanceTracker(self.events, clock=self.clock)
        self._rebalances = self.rebalances or tracker.of(self.group)
        self._clients: dict[str, str] = {}
        self._quiet = False
        self._rejoining = False
        """True from JoinGroup on. A poll that shows the group Stable is then older than JoinGroup or newer than the
        plan."""
        self._stable_at = float("-inf")
        self._last_reported = sys.maxsize
        self.log = structlog.get_logger("leader").bind(group=self.group)
        self._warned: list[str] = []
        self._broken: float | None = None
        self.role = OUTSIDE
        self._observes_for = ""
        """Why the agent observes; empty in other roles."""
        self._waits_for = ""
        self.trouble = ""
        """What prevents the agent from leading the group at the moment; empty while nothing does."""
        self.refused = False
        """Whether the trouble is that the brokers do not allow something."""
        self.stable: GroupView | None = None
        """The group without the agent, as it was last seen stable."""

    def become(self, role: str) -> None:
        """Set and reports the agent's role in the group."""
        detail = self.trouble if role == OBSERVING else ""
        if (role, detail) == (self.role, self._observes_for):
            return
        if role != self.role:
            self.log.info("role", now=role, before=self.role)
        self.events.add("role", self.group, action=role, reason=f"was {self.role}", detail=detail)
        self.role, self._observes_for = role, detail
        self.metrics.board.become(self.group, role, self._why(role))
        if role in INSIDE or role == WAITING:
            self.trouble = ""

    def waits_for(self, what: str) -> None:
        """Record what the agent waits for if not for consumers of a group that exists; warns once."""
        if what and what != self._waits_for:
            self.log.warning("waiting", reason=what)
        self._waits_for = what

    def _why(self, role: str) -> str:
        """Return why the agent does not lead the group; empty if it does, or just waits for consumers or its turn."""
        if role in (OBSERVING, OUTSIDE):
            return self.trouble
        if role == FENCED:
            return f"{RULES[Cause.FENCED].symptom}; {_FENCED_CURE}"
        return (role == WAITING and self._waits_for) or (self.never_evicts() if role in (WAITING, FOLLOWING) else "")

    # what goes wrong

    def failed(self, kind: str, error: Exception, retry_seconds: float) -> None:
        """Count a failure, and log it unless logged before."""
        self.metrics.failed(self.group, kind)
        text = explained(error)
        if text != self.trouble or (kind == "refused") != self.refused:
            self.log.warning("failed", kind=kind, error=text, retry_seconds=retry_seconds)
        self.trouble, self.refused = text, kind == "refused"

    def broke(self, error: Exception, retry_seconds: float) -> None:
        """Count and log an error in the agent."""
        self.metrics.failed(self.group, "internal")
        self.log.exception("failed", kind="internal", error=str(error), retry_seconds=retry_seconds)

    def backs_off(self, error: BackOffError, seconds: float) -> None:
        """Report that the agent stays out of the group for a while."""
        self.metrics.back_offs.labels(self.group, error.cause.value).inc()
        self.log.error("backs-off", cause=error.cause.value, reason=str(error), seconds=seconds)
        self.trouble, self.refused = str(error), error.cause is Cause.NOT_ALLOWED
        self.events.add(
            "back-off", self.group, action="leaves", reason=str(error), detail=f"for {seconds:g} s at least"
        )
        self.become(OBSERVING)

    def evicts_nobody(self, reason: str) -> None:
        """Report that evicted members have not come back, so that nobody is evicted any more."""
        self.metrics.back_offs.labels(self.group, Cause.EVICTION_FATAL.value).inc()
        self.log.error("eviction-fatal", reason=reason)
        self.events.add("back-off", self.group, action="evicts nobody", reason=reason)

    def is_left(self, reason: str) -> None:
        """Report that the agent has left the group on request, which is not a failure."""
        self.trouble, self.refused = reason, False
        self.become(OBSERVING)

    def requested(self, action: str, request: OperatorRequest | None, *, by: str, why: str = "") -> None:
        """Report what an operator asks: leave, pause or resume; or that the time of a request is over."""
        until = f"until {when(request.until)} UTC" if request is not None and request.until is not None else ""
        reason = f"{by}: {why}" if by and why else by or why
        self.log.info("request", action=action, reason=reason or None, until=until or None)
        self.events.add("decision", self.group, action=action, reason=reason, detail=until)

    def is_fenced(self) -> None:
        """Report that another agent has taken the membership without a handover."""
        self.become(FENCED)
        self.metrics.back_offs.labels(self.group, Cause.FENCED.value).inc()
        cause = RULES[Cause.FENCED].symptom
        self.events.add("back-off", self.group, action="fenced", reason=cause, detail=_FENCED_CURE)
        self.log.error("fenced", cause=cause, cure=_FENCED_CURE)

    # what is done

    def joined(self, *, generation: int, leader: str) -> None:
        """Report that the agent has joined the group without sending a plan."""
        self._rejoining = False
        self._stable_at = self.clock()
        self._last_reported = generation
        self._rebalances.joined(generation, self._stable_at, quiet=self._quiet)
        self.log.info("joined", role=self.role, generation=generation, leader=leader)

    def planned(self, sent: Sent) -> None:
        """Report a plan that was sent to the group."""
        plan = sent.plan
        self._record_plan(sent)
        self.metrics.planned(self.group, plan.assignor, sent.seconds)
        if plan.failure is not None:
            self.metrics.failed(self.group, "plan")
            self.log.error("fell-back", to=plan.assignor, error=plan.failure)
        self.log.info(
            "plan-sent",
            generation=sent.generation,
            assignor=plan.assignor,
            members=sent.members,
            partitions=len(plan.final),
            cross_rack_before=plan.before.known_partitions_across,
            cross_rack_after=plan.after.known_partitions_across,
            load_above_least=plan.uneven and round(plan.uneven[1], 4),
            moved=plan.after.moved,
            withheld=plan.withheld,
            seconds=round(sent.seconds, 4),
        )
        self.events.add(
            "plan",
            self.group,
            action=plan.assignor,
            assignor=plan.assignor,
            generation=sent.generation,
            seconds=sent.seconds,
            members=sent.members,
            partitions=len(plan.final),
            moved=plan.after.moved,
            share_before=plan.before.min_share,
            share_after=plan.after.min_share,
            failure=plan.failure or "",
            detail=f"{plan.after.moved} of {len(plan.final)} partitions are taken from members that stay, "
            f"{plan.withheld} of them a round later",
        )

    def decided(self, decision: Decision) -> None:
        """Report a decision of the policy: to rebalance, to propose it, or to suppress it."""
        until = when(decision.until) if decision.until is not None else None
        acts = decision.action in (Action.REBALANCE, Action.PROPOSE)
        changed = decision.changes.text if acts and decision.changes is not None else ""
        detail = f"until {until} UTC" if until else f"changed: {changed}" if changed else ""
        if decision.reason is Reason.UNEVEN_LOAD and decision.uneven is not None:
            now, then = decision.uneven
            detail = f"the most loaded member is {now:.0%} above the least possible, and {then:.0%} with the plan"
        growing = decision.growing
        if growing is not None:
            late = some(tuple(map(short_id, growing.members)), "member")
            detail = f"lag of {growing.seconds:.0f} s grows by {growing.growth:.0%} of the time; too slow: {late}"
        self.events.add(
            "decision",
            self.group,
            action=decision.action.value,
            reason=decision.reason.value,
            share_before=decision.before,
            share_after=decision.after,
            pause_seconds=decision.pause_seconds,
            detail=detail,
        )
        self.log.info(
            "decision",
            action=decision.action.value,
            reason=decision.reason.value,
            cross_rack_share_before=decision.before and round(decision.before, 4),
            cross_rack_share_after=decision.after and round(decision.after, 4),
            load_above_least_before=decision.uneven and round(decision.uneven[0], 4),
            load_above_least_after=decision.uneven and round(decision.uneven[1], 4),
            lag_seconds=growing and round(growing.seconds, 1),
            expected_pause_seconds=decision.pause_seconds and round(decision.pause_seconds, 1),
            until=until,
        )
        if decision.action is Action.REBALANCE:
            self.begins_rebalance(decision.reason.value)
            self.metrics.rebalances.labels(self.group, decision.reason.value).inc()
        elif decision.action is Action.PROPOSE:
            self.metrics.proposals.labels(self.group, decision.reason.value).inc()
        else:
            self.metrics.suppressed.labels(self.group, decision.reason.value).inc()

    def broken(self, breaker: Breaker) -> None:
        """Report that the breaker has opened (also again after a failed trial) or closed."""
        if breaker.opened == self._broken:
            return
        self._broken = breaker.opened
        if breaker.opened is None:
            self.events.add("breaker", self.group, action="close")
            self.log.info("breaker-closed")
            return
        self.events.add("breaker", self.group, action="open", reason="breaker-open", detail=breaker.cause)
        self.log.error(
            "breaker-open",
            failures=breaker.failures,
            cause=breaker.cause,
            consequence="no rebalance for racks or traffic",
        )

    def takeover(self, action: str, *, reason: str = "", seconds: float | None = None, detail: str = "") -> None:
        """Report a step of a takeover, or its end."""
        self.log.info("takeover", action=action, reason=reason or None, seconds=seconds, detail=detail or None)
        self.events.add("takeover", self.group, action=action, reason=reason, seconds=seconds, detail=detail)

    # its rebalances

    def begins_rebalance(self, ours: str) -> None:
        """Record that the agent starts a rebalance, and why."""
        self._rebalances.begins(self.clock(), agent_reason=ours)

    def rejoins(self, *, expected: bool) -> None:
        """Record that the agent sends JoinGroup, or is about to; `expected`: the group has its instance id."""
        self._rejoining = True
        if self._rebalances.inside:
            # the last heartbeat reported the rebalance, the one before it did not
            self._rebalances.begins(max(self.clock() - HEARTBEAT_SECONDS, self._stable_at))
            return
        self._rebalances.enters()
        self._quiet = expected
        self._rebalances.begins(self.clock(), agent_reason="" if expected else "joined")

    def loses(self) -> None:
        """Record that the brokers have removed the agent from the group."""
        self._rejoining = False
        self._rebalances.loses(self.clock())

    def leaves(self, *, member: bool) -> None:
        """Record that the agent has left; `member`: it was a member, so that the group rebalances."""
        now = self.clock()
        self._rejoining = False
        self._rebalances.leaves(now)
        if member:
            self._rebalances.begins(now, agent_reason="left")

    def _record_plan(self, sent: Sent) -> None:
        plan = sent.plan
        self._rejoining = False
        self._stable_at = self.clock()
        self._rebalances.meets(
            {key: client for number, met in sent.rounds if number > self._last_reported for key, client in met.items()}
        )
        self._last_reported = sent.generation
        snapshot = of_plan(plan.problem, plan.sent, clients=self._clients, cooperative=sent.cooperative)
        self._rebalances.joined(
            sent.generation,
            self._stable_at,
            plan=LedPlan(
                snapshot=snapshot,
                share_before=plan.before.min_share,
                share_after=plan.after.min_share,
                assignor=plan.assignor,
                failure=plan.failure or "",
                returned=sent.returned,
            ),
        )

    def _record_view(self, view: GroupView, *, condition: GroupCondition | None, cluster: SettledCluster) -> None:
        """Record a description of the group without the agent, and its cost if that was computed."""
        clients = clients_of(view.members, agent=self.settings.leading.instance_id)
        if not (view.stable or view.state in EMPTY_STATES):
            self._clients |= clients
            self._rebalances.moving(clients, self.clock())
            return
        if self._rejoining:
            return
        self._clients, self._stable_at = clients, self.clock()
        topics = {topic for member in view.members if member.subscription for topic in member.subscription.topics}
        self._rebalances.stable(
            of_view(
                view,
                partitions={topic: len(cluster.topics[topic]) for topic in topics & cluster.topics.keys()},
            ),
            self._stable_at,
            share=condition.present.min_share if condition is not None else None,
        )

    # its status

    def publish(self, view: GroupView, *, first: bool, condition: GroupCondition | None) -> None:
        """Publish the group's status, by a view without the agent, which is to lead the group next if it is `first`."""
        evaluator, cluster = self.evaluator, self.evaluator.watch.cluster
        decision, breaker = evaluator.decision, evaluator.breaker
        self.stable = view if view.stable else self.stable
        waits = decision is not None and (decision.action is Action.SUPPRESS or decision.reason is Reason.PROPOSED)
        self._record_view(view, condition=condition, cluster=cluster)
        members = placed(members_of_view(view, self.settings.racks, evaluator.hosts), cluster.racks)
        warnings = rack_warnings([member.rack.named for member in members], self.settings.racks, cluster.racks)
        if warnings != self._warned:
            for warning in warnings:
                self.log.warning("racks-never-match", detail=warning)
            self._warned = warnings
        self.metrics.board.publish(
            GroupStatus(
                group=self.group,
                state=view.state,
                protocol=view.protocol,
                role=self.role,
                first_in_order=first,
                members=len(view.members),
                members_without_rack=sum(member.rack.rack is None for member in members) if members else None,
                partitions=sum(len(member.assigned) for member in view.members) if view.stable else None,
                cross_rack=condition.present.known_partitions_across if condition is not None else None,
                possible_cross_rack=condition.possible.known_partitions_across if condition is not None else None,
                load_above_least=condition.uneven[0]
                if condition is not None and condition.uneven is not None
                else None,
                fullest_member=condition.greatest_loads[0]
                if condition is not None and condition.greatest_loads
                else None,
                budget=evaluator.tokens,
                mode=evaluator.mode,
                waits=decision.reason.value if decision is not None and waits else "",
                waits_until=decision.until if decision is not None else None,
                breaker_open=breaker.opened is not None,
                breaker_cause=breaker.cause,
                saved_bytes_per_second=evaluator.saved_bytes_per_second,
                saved_dollars_per_day=evaluator.saved_dollars_per_day,
                why=self._why(self.role),
                paused=self.paused(),
                returned=self.returned(view) if self.role == FOLLOWING else "",
                rack_sources=Counter(member.rack.source for member in members),
            )
        )
