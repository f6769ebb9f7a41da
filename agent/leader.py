"""One group, one thread: look at it, be in it, get to the front, lead it, and decide when to rebalance it.

The thread owns the membership. It reads the settled cluster from the watch, decides through `agent.policy` and plans
through `agent.planner`. `_assign` alone runs on the network thread, between JoinGroup and SyncGroup: it touches
memory only, and what it did is logged afterwards from here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog
from kafka import errors as kafka_errors
from kafka.structs import MemberState

from agent import planner
from agent.cluster import SettledCluster
from agent.errors import AgentError
from agent.group import CONSUMER, EMPTY_STATES, GroupView, endangers, front_is_free, is_first, topics_of
from agent.kafka_config import for_kafka_python
from agent.membership import Joined, Membership, close, connect
from agent.metrics import GroupStatus, Metrics
from agent.policy import Action, Budget, Decision, Reason, Rules, Situation, decide, full
from agent.racks import rack_warnings
from agent.settings import Settings
from agent.watch import ClusterWatch
from protocol.consumer import decode_subscription, encode_assignment
from protocol.model import NO_PARTITIONS, Assignment, TopicPartitions

_TURN_SECONDS: Final = 0.2
_PARKED_SECONDS: Final = 0.15
"""While JoinGroup is parked the group is described this often: only there do hosts of new members show."""
_JOIN_SECONDS: Final = 0.15
_RETRY_SECONDS: Final = 2.0
_MOST_ROLLS: Final = 64
_EMPTY_ASSIGNMENT: Final = encode_assignment(Assignment(version=0, partitions=NO_PARTITIONS))


@dataclass(slots=True, kw_only=True)
class _Evaluation:
    """What was last worked out for one pair of group view and cluster."""

    view: GroupView
    cluster: SettledCluster
    situation: Situation
    reason: Reason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """The last plan that went to the group."""

    generation: int
    plan: planner.Plan
    mode: planner.Mode
    cluster: SettledCluster
    seconds: float
    members: int


@dataclass(slots=True, kw_only=True)
class _Knowledge:
    """What `_assign` may use: written by the leader's thread, read by the network thread, replaced as a whole."""

    view: GroupView | None = None
    remembered: dict[str, TopicPartitions] = field(default_factory=dict)


class GroupLeader(threading.Thread):
    """Leads one consumer group whenever leadership comes its way."""

    def __init__(
        self,
        *,
        group: str,
        settings: Settings,
        watch: ClusterWatch,
        group_type: Callable[[str], str],
        metrics: Metrics,
    ) -> None:
        """Prepare; `start` begins.

        Args:
            group: The group's name.
            settings: All settings.
            watch: Where settled clusters come from.
            group_type: The type of a group by name, for telling classic groups from those that brokers assign.
            metrics: Where to count and publish.
        """
        super().__init__(name=f"group-{group}", daemon=True)
        self.group = group
        self._settings = settings
        self._watch = watch
        self._group_type = group_type
        self._metrics = metrics
        self._log = structlog.get_logger("leader").bind(group=group)
        self._rules = Rules(
            least_saving=settings.policy.least_saving,
            burst=settings.policy.burst,
            refill_seconds=settings.policy.refill_seconds,
        )
        self._budget: Budget = full(self._rules, time.monotonic())
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._knowledge = _Knowledge()
        self._sent: _Sent | None = None
        self._logged_generation: int | None = None
        self._look: GroupView | None = None
        self._evaluation: _Evaluation | None = None
        self._rounds = 0
        self._look_at = 0.0
        self._roll_at = 0.0
        self._role = "outside"
        self._warned: tuple[str, ...] = ()
        self._refusal = ""
        watch.listen(self._wake.set)

    def stop(self) -> None:
        """Ask the thread to leave the group and end."""
        self._stopping.set()
        self._wake.set()

    def run(self) -> None:
        """Stay with the group until stopped; whatever breaks is counted, logged and tried again."""
        while not self._stopping.is_set():
            try:
                self._session()
            except (kafka_errors.KafkaError, AgentError) as error:
                self._failed("kafka", error)
            except Exception as error:  # noqa: BLE001 - the group must not be left because of a mistake of ours
                self._metrics.failed(self.group, "internal")
                self._log.exception("failed", kind="internal", error=str(error), retry_seconds=_RETRY_SECONDS)
            if self._role == "fenced":
                break
            self._stopping.wait(_RETRY_SECONDS)

    def _failed(self, kind: str, error: Exception) -> None:
        self._metrics.failed(self.group, kind)
        self._log.warning("failed", kind=kind, error=f"{type(error).__name__}: {error}", retry_seconds=_RETRY_SECONDS)

    def _session(self) -> None:
        client = connect(for_kafka_python(self._settings.kafka))
        membership = Membership(
            client, group=self.group, settings=self._settings.leading, assign=self._assign, wake=self._wake.set
        )
        self._look_at = 0.0
        try:
            while not self._stopping.is_set():
                pause = self._turn(membership)
                if self._role == "fenced":
                    return
                self._wake.wait(pause)
                self._wake.clear()
        finally:
            self._leave(membership)
            close(client)

    def _leave(self, membership: Membership) -> None:
        try:
            membership.leave()
        except kafka_errors.KafkaError as error:
            self._failed("leave", error)
        if self._role != "fenced":
            self._become("outside")

    # one turn

    def _turn(self, membership: Membership) -> float:
        """One turn; the answer is how many seconds to wait for the next unless something wakes us."""
        now = time.monotonic()
        if now >= self._look_at:
            self._see(membership.describe(), membership)
            self._look_at = now + self._settings.watch.group_seconds
        if membership.state is MemberState.UNJOINED and not membership.rejoining and not self._may_join():
            return _TURN_SECONDS
        membership.poll_heartbeat()
        if membership.fenced:
            self._become("fenced")
            self._log.error(
                "fenced",
                cause="another agent runs with this instance id",
                cure="stop one of them or give them different leading.instance_id",
            )
            return 0.0
        if membership.need_rejoin():
            return self._rejoin(membership)
        view = self._knowledge.view
        if view is None or not view.stable:
            return _PARKED_SECONDS
        if membership.leading:
            self._lead(membership, view)
        else:
            self._follow(membership, view)
        return _TURN_SECONDS

    def _may_join(self) -> bool:
        """Joins only classic groups of consumers that share a protocol name with the agent, and not mid-rebalance."""
        view = self._knowledge.view
        if view is None:
            return False
        refusal = ""
        if view.protocol_type not in ("", CONSUMER):
            refusal = f"its protocol type is {view.protocol_type!r}, not consumer"
        elif view.state not in EMPTY_STATES and not view.stable:
            return False
        elif view.stable and view.protocol not in self._settings.leading.protocols:
            refusal = f"its members chose protocol {view.protocol!r}; add that name to leading.protocols"
        elif endangers(view) and not self._settings.leading.roundrobin_tolerates:
            refusal = (
                "its members use roundrobin with subscription v0, and kafka-python 3's roundrobin fails on a member "
                "without topics; if none is kafka-python 3, set leading.roundrobin_tolerates"
            )
        elif (kind := self._group_type(self.group)) not in ("classic", "unknown"):
            refusal = f"the brokers assign it (group type {kind})"
        if refusal and refusal != self._refusal:
            self._log.warning("observing", reason=refusal)
        self._refusal = refusal
        if refusal:
            self._become("observing")
        return not refusal

    def _rejoin(self, membership: Membership) -> float:
        view = self._knowledge.view
        if view is not None and view.stable and view.protocol:
            membership.offer(view.protocol)
        try:
            joined = membership.join(_JOIN_SECONDS)
        except kafka_errors.FencedInstanceIdError:
            self._become("fenced")
            return 0.0
        if not joined:
            self._look_at = min(self._look_at, time.monotonic() + _PARKED_SECONDS)
            return 0.0
        self._joined(membership)
        return 0.0

    def _joined(self, membership: Membership) -> None:
        """After SyncGroup: say what happened, and look at the group anew before deciding anything."""
        self._look_at = self._roll_at = 0.0
        self._look = self._knowledge.view = None
        self._evaluation = None
        if not membership.leader_id:
            raise AgentError("the group has no classic leader any more: its brokers assign it")
        self._become("leading" if membership.leading else "following")
        sent = self._sent
        if sent is None or sent.generation != membership.generation_id or not membership.leading:
            self._log.info("joined", role=self._role, generation=membership.generation_id, leader=membership.leader_id)
            return
        if self._logged_generation == sent.generation:
            return
        self._logged_generation = sent.generation
        self._rounds = self._rounds + 1 if sent.plan.withheld else 0
        self._metrics.planned(self.group, sent.plan.assignor, sent.seconds)
        if sent.plan.failure is not None:
            self._metrics.failed(self.group, "plan")
            self._log.error("fell-back", to=sent.plan.assignor, error=sent.plan.failure)
        self._log.info(
            "plan-sent",
            generation=sent.generation,
            assignor=sent.plan.assignor,
            members=sent.members,
            partitions=len(sent.plan.final),
            cross_rack_before=sent.plan.before.cross_rack,
            cross_rack_after=sent.plan.after.cross_rack,
            moved=sent.plan.after.moved,
            withheld=sent.plan.withheld,
            seconds=round(sent.seconds, 4),
        )

    # looking

    def _see(self, view: GroupView, membership: Membership) -> None:
        self._look = view
        others = GroupView(
            name=view.name,
            state=view.state,
            protocol_type=view.protocol_type,
            protocol=view.protocol,
            members=tuple(member for member in view.members if member.id != membership.member_id),
        )
        remembered = self._knowledge.remembered
        if view.stable:
            remembered = {member.id: member.assigned for member in others.members} | {
                member.instance_id: member.assigned for member in others.members if member.instance_id
            }
            self._watch.show_interest(
                self.group, topics_of(m.subscription for m in others.members if m.subscription is not None)
            )
        first = is_first(view, membership.member_id, membership.leader_id)
        if self._knowledge.view == others:
            others = self._knowledge.view  # the same object keeps evaluations
        self._knowledge = _Knowledge(view=others, remembered=remembered)
        self._publish(others, first=first)

    def _publish(self, view: GroupView, *, first: bool) -> None:
        evaluation = self._evaluation
        situation = evaluation.situation if evaluation is not None else None
        members = planner.members_of_view(view, self._settings.racks)
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
            )
        )

    def _become(self, role: str) -> None:
        if role != self._role:
            self._log.info("role", now=role, before=self._role)
            self._role = role

    # following

    def _follow(self, membership: Membership, view: GroupView) -> None:
        """Watch what the group's own leader does, and take the front place in the broker's order where that is free."""
        self._evaluate(view)
        now = time.monotonic()
        if now < self._roll_at:
            return
        look, mine, leader = self._look, membership.member_id, membership.leader_id
        if look is None or not look.stable or is_first(look, mine, leader):
            return
        if not front_is_free(look, mine, leader):
            self._roll_at = now + self._settings.leading.roll_seconds
            self._log.info("front-taken", rolls=0, retry_seconds=self._settings.leading.roll_seconds)
            return
        for rolls in range(1, _MOST_ROLLS + 1):
            membership.roll()
            if not membership.join(2.0) or membership.leading:
                return
            self._metrics.rolled(self.group)
            look = membership.describe()
            if not look.stable:
                return
            if is_first(look, membership.member_id, membership.leader_id):
                self._log.info("first-in-order", rolls=rolls, leader=membership.leader_id)
                self._look_at = 0.0
                return
        self._roll_at = now + self._settings.leading.roll_seconds
        self._log.info("front-taken", rolls=_MOST_ROLLS, retry_seconds=self._settings.leading.roll_seconds)

    # leading

    def _lead(self, membership: Membership, view: GroupView) -> None:
        evaluation = self._evaluate(view)
        if evaluation is None:
            return
        self._budget, decision = decide(self._budget, evaluation.situation, time.monotonic(), self._rules)
        if decision.action is Action.REBALANCE:
            self._tell(decision)
            self._metrics.rebalanced(self.group, decision.reason.value)
            self._knowledge.view = None
            membership.trigger(decision.reason.value)
            self._wake.set()
        elif decision.reason is not evaluation.reason and decision.action is Action.SUPPRESS:
            self._tell(decision)
            self._metrics.suppressed(self.group, decision.reason.value)
        evaluation.reason = decision.reason

    def _tell(self, decision: Decision) -> None:
        self._log.info(
            "decision",
            action=decision.action.value,
            reason=decision.reason.value,
            cross_rack_share_before=round(decision.before, 4),
            cross_rack_share_after=round(decision.after, 4),
        )

    def _mode(self, protocol: str) -> planner.Mode:
        leading = self._settings.leading
        return planner.mode_of(
            protocol,
            cooperative_protocols=leading.cooperative_protocols,
            keep_copartitioned=leading.keep_copartitioned,
            rack_aware_fetch=self._watch.rack_aware_fetch,
        )

    def _evaluate(self, view: GroupView) -> _Evaluation | None:
        """The situation of a stable group, worked out once per view and cluster."""
        cluster = self._watch.cluster
        last = self._evaluation
        if last is not None and last.view is view and last.cluster is cluster:
            return last
        members = planner.members_of_view(view, self._settings.racks)
        if not members or not topics_of(member.subscription for member in members) & cluster.topics.keys():
            return None
        mode = self._mode(view.protocol)
        problem = planner.problem_of(members, cluster, mode)
        plan = planner.make_plan(problem, mode)
        sent = self._sent
        self._evaluation = _Evaluation(
            view=view,
            cluster=cluster,
            situation=Situation(
                present=plan.before,
                possible=plan.after,
                partitions_changed=planner.partitions_changed(problem, members, cluster),
                withheld=sent.plan.withheld if sent is not None and self._role == "leading" else 0,
                rounds=self._rounds,
                racks_changed=sent is None or sent.cluster is not cluster,
            ),
        )
        self._publish(view, first=self._role == "leading")
        return self._evaluation

    def _assign(self, joined: Joined) -> dict[str, bytes]:
        """The plan for everybody in the JoinGroup answer. On the network thread: memory only, nothing logged."""
        started = time.perf_counter()
        knowledge, cluster = self._knowledge, self._watch.cluster
        mode = self._mode(joined.protocol)
        decoded = [(member, instance, decode_subscription(metadata)) for member, instance, metadata in joined.members]
        others = [entry for entry in decoded if entry[1] != self._settings.leading.instance_id]
        self._watch.show_interest(self.group, topics_of(subscription for _, _, subscription in others))
        members = planner.members_of_join(
            others,
            group=knowledge.view,
            remembered=knowledge.remembered,
            cooperative=mode.cooperative,
            racks=self._settings.racks,
        )
        plan = planner.make_plan(planner.problem_of(members, cluster, mode), mode)
        encoded = planner.encode(plan, members)
        self._knowledge = _Knowledge(view=knowledge.view, remembered=planner.sent_partitions(plan))
        self._sent = _Sent(
            generation=joined.generation,
            plan=plan,
            mode=mode,
            cluster=cluster,
            seconds=time.perf_counter() - started,
            members=len(members),
        )
        return {member: encoded.get(member, _EMPTY_ASSIGNMENT) for member, _, _ in decoded}
