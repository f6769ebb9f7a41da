"""One group, one thread: look at it, be in it, lead it, and decide when to rebalance it.

The thread owns the membership. It reads the settled cluster from the watch, decides through `agent.leading.policy`,
keeps its place through `agent.leading.seat` and lets `agent.leading.assigning` plan. Every decision leaves one event.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import structlog
from kafka import errors as kafka_errors
from kafka.structs import MemberState

from agent.cluster import SettledCluster, replica_racks
from agent.coordination import close, connect
from agent.election.election import Alone, Standing
from agent.election.model import lead
from agent.errors import StepBackError
from agent.events import Events
from agent.group import GroupView, topics_of
from agent.leading import planner
from agent.leading.admission import is_settled, refusal
from agent.leading.assigning import Assigning, Sent, Weigh, unweighed
from agent.leading.membership import Membership
from agent.leading.order import is_first
from agent.leading.policy import Action, Budget, Decision, Reason, Rules, Situation, decide, full, share
from agent.leading.seat import Seat
from agent.metrics import GroupStatus, Metrics
from agent.racks import NO_HOSTS, Hosts, rack_warnings
from agent.refusals import explained, is_refusal, next_pause
from agent.supervisor.line import Presence
from agent.traffic.weights import Weights
from agent.watch import ClusterWatch
from common.errors import AgentError
from common.kafka_config import for_kafka_python
from common.settings import Settings

_TURN_SECONDS: Final = 0.2
_PARKED_SECONDS: Final = 0.15
"""While JoinGroup is parked the group is described this often: only there do hosts of new members show."""
_JOIN_SECONDS: Final = 0.15
_RETRY_SECONDS: Final = 2.0
_OVERDUE_SECONDS: Final = 1.0
_CONVERTED_SECONDS: Final = 600.0
_CLASSIC: Final = frozenset({"classic", "unknown"})


@dataclass(slots=True, kw_only=True)
class _Evaluation:
    """What was last worked out for one group view, cluster, set of weights and knowledge of hosts."""

    view: GroupView
    cluster: SettledCluster
    weights: Weights | None
    hosts: object
    situation: Situation
    reason: Reason | None = None


class GroupLeader(threading.Thread):
    """Leads one consumer group whenever leadership comes its way."""

    def __init__(  # noqa: PLR0913 - it brings all parts of leading one group together
        self,
        *,
        group: str,
        settings: Settings,
        watch: ClusterWatch,
        group_type: Callable[[str], str],
        metrics: Metrics,
        events: Events,
        weigh: Weigh = unweighed,
        standing: Standing | None = None,
        hosts: Hosts = NO_HOSTS,
    ) -> None:
        """Prepare; `start` begins.

        Args:
            group: The group's name.
            settings: All settings.
            watch: Where settled clusters come from.
            group_type: The type of a group by name, for telling classic groups from those that brokers assign.
            metrics: Where to count and publish.
            events: Where decisions and plans are kept for people.
            weigh: The measured weights of the group's partitions.
            standing: Whether this agent or another is to lead the group; without it, this one.
            hosts: What others know of client hosts.
        """
        super().__init__(name=f"group-{group}", daemon=True)
        self.group = group
        self._settings = settings
        self._watch = watch
        self._group_type = group_type
        self._metrics = metrics
        self._events = events
        self._log = structlog.get_logger("leader").bind(group=group)
        policy = settings.policy
        self._rules = Rules(least_saving=policy.least_saving, burst=policy.burst, refill_seconds=policy.refill_seconds)
        self._budget: Budget = full(self._rules, time.monotonic())
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._standing: Standing = standing or Alone()
        self._hosts = hosts
        self._duty = lead(group)
        self._hand_over_until = 0.0
        self._fenced_in: int | None = None
        self._membership: Membership | None = None
        self._assigning = Assigning(group=group, settings=settings, watch=watch, weigh=weigh, hosts=hosts)
        self._seat = Seat(retry_seconds=settings.leading.roll_seconds, metrics=metrics, log=self._log)
        self._look: GroupView | None = None
        self._others: GroupView | None = None
        self._look_at = 0.0
        self._judged: GroupView | None = None
        self._refusal = ""
        self._unseen: frozenset[str] = frozenset()
        self.trouble = ""
        self.refused = False
        self._evaluation: _Evaluation | None = None
        self._told: Sent | None = None
        self._rounds = 0
        self._role = "outside"
        self._warned: tuple[str, ...] = ()
        watch.listen(self._wake.set)
        self._standing.listen(self._wake.set)

    def stop(self, *, hand_over_seconds: float = 0.0) -> None:
        """Ask the thread to leave the group and end.

        Args:
            hand_over_seconds: How long to go on until another agent has taken the membership over, if there is one.
        """
        if self._role in ("leading", "following") and self._standing.has_deputy(self._duty):
            self._hand_over_until = time.monotonic() + hand_over_seconds
        self._stopping.set()
        self._wake.set()

    def presences(self) -> frozenset[Presence]:
        """The ids by which the brokers know the agent in this group at the moment."""
        membership = self._membership
        if membership is None:
            return frozenset()
        ids = {Presence(group=self.group, member_id=one, pending=True) for one in membership.pending}
        if membership.member_id and not membership.fenced:
            ids.add(
                Presence(group=self.group, member_id=membership.member_id, instance_id=membership.group_instance_id)
            )
        return frozenset(ids)

    def is_overdue(self) -> bool:
        """Whether the group waits for a plan beyond the deadline, so that only a new process can help it."""
        since = self._assigning.since
        return (
            since is not None and time.monotonic() - since > self._settings.leading.deadline_seconds + _OVERDUE_SECONDS
        )

    def run(self) -> None:
        """Stay with the group until stopped; whatever breaks is counted, logged and tried again."""
        refused_pause = 0.0
        while not self._stopping.is_set():
            pause = _RETRY_SECONDS
            try:
                self._session()
                refused_pause = 0.0
            except StepBackError as error:
                pause = error.seconds
                self._metrics.failed(self.group, "stepped-back")
                self._log.error("steps-back", reason=str(error), seconds=pause)
                self._become("observing")
            except (kafka_errors.KafkaError, AgentError) as error:
                refused_pause = next_pause(refused_pause) if is_refusal(error) else 0.0
                pause = max(pause, refused_pause)
                self._failed("refused" if refused_pause else "kafka", error, pause)
            except Exception as error:  # noqa: BLE001 - the group must not be left because of a mistake of ours
                self._metrics.failed(self.group, "internal")
                self._log.exception("failed", kind="internal", error=str(error), retry_seconds=pause)
            if self._is_wanted():
                self._stopping.wait(pause)
            else:
                self._wake.wait(pause)  # an election wakes it
                self._wake.clear()

    def _failed(self, kind: str, error: Exception, retry_seconds: float = _RETRY_SECONDS) -> None:
        """Count a failure, and say it unless it is said already."""
        self._metrics.failed(self.group, kind)
        text = explained(error)
        if text != self.trouble:
            self._log.warning("failed", kind=kind, error=text, retry_seconds=retry_seconds)
        self.trouble, self.refused = text, kind == "refused"

    def _session(self) -> None:
        if not self._is_wanted():
            return
        client = connect(for_kafka_python(self._settings.kafka))
        membership = Membership(
            client,
            group=self.group,
            settings=self._settings.leading,
            assign=self._assigning.assign,
            wake=self._wake.set,
        )
        self._membership = membership
        self._forget_looks()
        try:
            while self._is_wanted() and not self._ends(membership):
                pause = self._turn(membership)
                self._wake.wait(pause)
                self._wake.clear()
        finally:
            self._leave(membership)
            self._membership = None
            close(client)

    def _is_wanted(self) -> bool:
        """Whether this agent is the one to be in the group; says what it is if not."""
        if self._fenced_in is not None and self._standing.term <= self._fenced_in:
            return False
        if not self._standing.is_active(self._duty):
            self._become("standby")
            return False
        self._fenced_in = None
        if self._role == "standby":
            self._become("outside")
        return True

    def _ends(self, membership: Membership) -> bool:
        """Whether it is time to leave: stopped, and not waiting for another agent to take the membership over."""
        waits = membership.is_static and time.monotonic() < self._hand_over_until
        return self._stopping.is_set() and not waits

    def _leave(self, membership: Membership) -> None:
        try:
            membership.leave()
        except kafka_errors.KafkaError as error:
            self._failed("leave", error)
        if self._role not in ("fenced", "standby"):
            self._become("outside")

    def _become(self, role: str) -> None:
        if role != self._role:
            self._log.info("role", now=role, before=self._role)
            self._role = role
            self._metrics.board.become(self.group, role)
            if role in ("leading", "following"):
                self.trouble = ""

    def _forget_looks(self) -> None:
        """What was seen is of the past: look anew before anything is decided."""
        self._look = self._others = self._evaluation = self._judged = None
        self._look_at = 0.0

    # one turn

    def _turn(self, membership: Membership) -> float:
        """One turn; the answer is how many seconds to wait for the next unless something wakes us."""
        if time.monotonic() >= self._look_at:
            self._look_again(membership)
        if membership.state is MemberState.UNJOINED and not membership.rejoining:
            if self._look is None or not (self._is_expected() or self._may_join()):
                return _TURN_SECONDS
            if not membership.member_id:
                self._seat.enter(membership, self._look)
        membership.poll_heartbeat()
        if membership.fenced:
            self._give_way()
        elif membership.wants_join:
            return self._rejoin(membership)
        elif self._look is None or self._others is None or not self._look.stable:
            return _PARKED_SECONDS
        elif unseen := self._watch.unseen(self.group):
            self.trouble, self.refused = _blind(unseen), True
            raise StepBackError(self.trouble, _RETRY_SECONDS)
        elif membership.leading:
            self._lead(membership, self._others)
        else:
            self._evaluate(self._others)
            if self._seat.keep(membership, self._look):
                self._forget_looks()
                return 0.0
        return _TURN_SECONDS

    def _give_way(self) -> None:
        """Another agent has the membership: out, until an election after this one makes this agent active again."""
        self._fenced_in = self._standing.term
        if self._stopping.is_set():
            self._log.info("handed-over")
            return
        self._become("fenced")
        self._log.error(
            "fenced",
            cause="another agent runs with this instance id",
            cure="agents with one instance id need one election.group to agree in; else stop one of them or give them "
            "different leading.instance_id",
        )

    def _is_expected(self) -> bool:
        """Whether the group has this instance id and waits for it: an agent that died here is to take its place up."""
        return self._look is not None and any(
            member.instance_id == self._settings.leading.instance_id for member in self._look.members
        )

    def _may_join(self) -> bool:
        """Whether the rule and the brokers let the agent in; asked once per state of the group."""
        view = self._others
        if view is None or not is_settled(view):
            return False
        unseen = self._watch.unseen(self.group)
        if view is not self._judged or unseen != self._unseen:
            reason = _blind(unseen) or refusal(view, self._settings.leading)
            self._unseen, self.trouble, self.refused = unseen, _blind(unseen), bool(unseen)
            if not reason and (kind := self._group_type(self.group)) not in _CLASSIC:
                reason = f"the brokers assign it (group type {kind})"
            if reason and reason != self._refusal:
                self._log.warning("observing", reason=reason)
            self._judged, self._refusal = view, reason
        if self._refusal:
            self._become("observing")
        return not self._refusal

    def _rejoin(self, membership: Membership) -> float:
        view = self._others
        if view is not None and view.stable and view.protocol:
            membership.offer(view.protocol)
        try:
            joined = membership.join(_JOIN_SECONDS)
        except kafka_errors.FencedInstanceIdError:
            self._give_way()
            return 0.0
        if joined:
            self._joined(membership)
        else:
            self._look_at = min(self._look_at, time.monotonic() + _PARKED_SECONDS)
        return 0.0

    def _joined(self, membership: Membership) -> None:
        """After SyncGroup: say what happened."""
        self._forget_looks()
        self._seat.reconsider()
        if not membership.leader_id:
            raise StepBackError("it has no classic leader any more: its brokers assign it", _CONVERTED_SECONDS)
        self._become("leading" if membership.leading else "following")
        sent = self._assigning.sent
        if sent is not None and sent is not self._told and membership.leading:
            self._tell_plan(sent)
        else:
            self._log.info("joined", role=self._role, generation=membership.generation_id, leader=membership.leader_id)
        self._told = sent

    def _tell_plan(self, sent: Sent) -> None:
        plan = sent.plan
        self._rounds = self._rounds + 1 if plan.withheld else 0
        self._metrics.planned(self.group, plan.assignor, sent.seconds)
        if plan.failure is not None:
            self._metrics.failed(self.group, "plan")
            self._log.error("fell-back", to=plan.assignor, error=plan.failure)
        for member in sent.unreadable:
            self._metrics.failed(self.group, "unreadable-member")
            self._log.error("unreadable-member", member=member)
        self._log.info(
            "plan-sent",
            generation=sent.generation,
            assignor=plan.assignor,
            members=sent.members,
            partitions=len(plan.final),
            cross_rack_before=plan.before.cross_rack,
            cross_rack_after=plan.after.cross_rack,
            moved=plan.after.moved,
            withheld=plan.withheld,
            seconds=round(sent.seconds, 4),
        )
        self._events.planned(
            self.group,
            assignor=plan.assignor,
            shares=(share(plan.before), share(plan.after)),
            failure=plan.failure or "",
            detail=f"{sent.members} members, {len(plan.final)} partitions, {plan.after.moved} moved, "
            f"{plan.withheld} withheld for the next round",
        )

    # looking

    def _look_again(self, membership: Membership) -> None:
        """One look at the group; where that fails for the moment, the last one holds: leaving costs a rebalance."""
        self._look_at = time.monotonic() + self._settings.watch.group_seconds
        try:
            look = membership.describe()
        except kafka_errors.RetriableError as error:
            self._failed("kafka", error, self._settings.watch.group_seconds)
        else:
            self._see(look, membership)

    def _see(self, look: GroupView, membership: Membership) -> None:
        members = tuple(member for member in look.members if member.id != membership.member_id)
        others = replace(look, members=members)
        if membership.leading and not self._assigning.may_be_of(membership.generation_id, others):
            self._log.info("outdated-look", generation=membership.generation_id, members=len(others.members))
            return
        if others == self._others:
            others = self._others  # the same object keeps what was worked out for it
        self._look, self._others = look, others
        if self._role in ("leading", "following", "observing") and not self._unseen:
            self.trouble = ""
        self._assigning.see(others)
        self._publish(others, first=is_first(look, membership.member_id, membership.leader_id))

    def _publish(self, view: GroupView, *, first: bool) -> None:
        situation = self._evaluation.situation if self._evaluation is not None else None
        members = planner.members_of_view(view, self._settings.racks, self._hosts)
        known = {member.rack.rack for member in members if member.rack.rack is not None}
        brokers = {rack for rack in self._watch.cluster.brokers.values() if isinstance(rack, str)}
        warnings = rack_warnings(known, brokers) if members else ()
        if warnings != self._warned:
            for warning in warnings:
                self._log.warning("racks-never-match", detail=warning)
            self._warned = warnings
        self._metrics.board.publish(
            GroupStatus(
                group=self.group,
                state=view.state,
                protocol=view.protocol,
                role=self._role,
                first_in_order=first,
                members=len(view.members),
                members_without_rack=sum(member.rack.rack is None for member in members) if members else None,
                partitions=sum(len(member.assigned) for member in view.members) if view.stable else None,
                cross_rack=situation.present.cross_rack if situation is not None else None,
                possible_cross_rack=situation.possible.cross_rack if situation is not None else None,
                budget=self._budget.tokens,
                rack_warnings=len(warnings),
                rack_sources=Counter(member.rack.source for member in members),
            )
        )

    # leading

    def _lead(self, membership: Membership, view: GroupView) -> None:
        evaluation = self._evaluate(view)
        if evaluation is None:
            return
        self._budget, decision = decide(self._budget, evaluation.situation, time.monotonic(), self._rules)
        if decision.action is Action.REBALANCE:
            self._tell(decision)
            self._metrics.rebalanced(self.group, decision.reason.value)
            self._forget_looks()
            membership.trigger(decision.reason.value)
            self._wake.set()
        elif decision.reason is not evaluation.reason and decision.action is Action.SUPPRESS:
            self._tell(decision)
            self._metrics.suppressed(self.group, decision.reason.value)
        evaluation.reason = decision.reason

    def _tell(self, decision: Decision) -> None:
        self._events.decided(self.group, decision)
        self._log.info(
            "decision",
            action=decision.action.value,
            reason=decision.reason.value,
            cross_rack_share_before=round(decision.before, 4),
            cross_rack_share_after=round(decision.after, 4),
        )

    def _evaluate(self, view: GroupView) -> _Evaluation | None:
        """The situation of a stable group, worked out once per view, cluster, weights and knowledge of hosts."""
        cluster, weights, hosts = self._watch.cluster, self._assigning.weights(), self._hosts.version()
        last = self._evaluation
        if (
            last is not None
            and last.view is view
            and last.cluster is cluster
            and last.weights is weights
            and last.hosts == hosts
        ):
            return last
        members = planner.members_of_view(view, self._settings.racks, self._hosts)
        topics = topics_of(member.subscription for member in members)
        if not topics & cluster.topics.keys():
            return None
        mode = self._assigning.mode(view.protocol)
        problem = planner.problem_of(members, cluster, mode, weights=weights)
        plan = planner.make_plan(problem, mode)
        sent = self._assigning.sent if self._role == "leading" else None
        self._evaluation = _Evaluation(
            view=view,
            cluster=cluster,
            weights=weights,
            hosts=hosts,
            situation=Situation(
                present=plan.before,
                possible=plan.after,
                partitions_changed=planner.partitions_changed(problem, members, cluster),
                withheld=sent.plan.withheld if sent is not None else 0,
                rounds=self._rounds,
                racks_changed=sent is None
                or any(replica_racks(sent.cluster, topic) != replica_racks(cluster, topic) for topic in topics),
                traffic_changed=sent is not None and sent.weights != weights,
            ),
        )
        self._publish(view, first=self._role == "leading")
        return self._evaluation


def _blind(unseen: frozenset[str]) -> str:
    """Why the agent must not plan for a group; nothing where it may see all topics."""
    return f"may not see topics {', '.join(sorted(unseen))}; allow DESCRIBE on them" if unseen else ""
