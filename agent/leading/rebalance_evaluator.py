"""Compares a stable group with the plan that it could have, and decides whether that is worth a rebalance now.

The group's condition is computed once per poll, cluster, weights and knowledge of hosts; the policy's state is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from samerack.agent.leading.assigning import Assigning, Sent
from samerack.agent.policy import (
    SECONDS_PER_DAY,
    Action,
    Breaker,
    Changes,
    Decision,
    GroupCondition,
    PolicyState,
    Reason,
    decide,
    fresh,
    remembering,
    rules_of,
    taking_over,
)
from samerack.agent.policy.measured import UNMEASURED, Measured, byte_rates
from samerack.agent.policy.requests import OperatorRequest
from samerack.assignors.problem import NOBODY, Problem
from samerack.cluster.group import GroupView, member_key, topics_of
from samerack.cluster.racks import Hosts
from samerack.cluster.view import SettledCluster, changed_topics
from samerack.cluster.watch import ClusterWatch
from samerack.common.weights import GroupWeights
from samerack.planning import planner
from samerack.planning.members import members_of_view, placed
from samerack.planning.planner import owned_counts
from samerack.planning.problem import partitions_changed, problem_of
from samerack.protocol.values import to_pairs
from samerack.settings.all_settings import Settings
from samerack.settings.measuring import price_table

# Whether a member of a group may be away: dead while its session lasts, or static and about to return.
#
# Every rebalance waits for such a member until its session or the rebalance timeout ends, and meanwhile an eager group
# reads nothing. Brokers do not show heartbeats. Two things show life: commits of partitions that a member owns, and
# that the coordinator still has it after a whole session without any, as it removes the dead.

_FRESH_SECONDS: Final = 8.0
"""A commit shows life for this time: by default clients commit every five seconds, and the agent asks every second."""
_GAPS: Final = 1.5
"""A member that commits more rarely is alive for this multiple of the longest time between two of its commits."""
_BREAK_SECONDS: Final = 10.0
"""After this time without a decision a rebalance that waits is another one, about which nothing is known yet."""
_ASK_SECONDS: Final = 1.0
_ASK_PART: Final = 0.1
"""Asking for commits takes no more than this part of the time: a group may have a hundred thousand partitions."""


@dataclass(slots=True, kw_only=True)
class _Life:
    """What is known of one member: since when it has this id, when it last showed life, the longest time between."""

    member_id: str
    since: float
    sign: float = float("-inf")
    gap: float = 0.0


class MemberLives:
    """The signs of life of one group's members while a rebalance is wanted; times are in seconds, monotonic."""

    def __init__(self, session_seconds: float) -> None:
        """Start without members; brokers do not show their session timeout, which is `session_seconds` at most."""
        self._session = session_seconds
        self._view: GroupView | None = None
        self._members: dict[str, _Life] = {}
        self._returned = float("-inf")
        self._coordinator: object = None
        self._coordinator_since = float("-inf")
        self._wanted = self._renewed = float("-inf")
        self._offsets: Mapping[tuple[str, int], int] | None = None
        self._asked_at = self._ask_at = float("-inf")

    def sees(self, others: GroupView, coordinator: object, now: float) -> None:
        """Record a description of the group without the agent; `coordinator` is another object after each move of it.

        A new coordinator starts every session anew. While static members return under new ids one by one, the next one
        may be about to stop.
        """
        if coordinator is not self._coordinator:
            self._coordinator, self._coordinator_since = coordinator, now
        if others is self._view:
            return
        before, self._members, self._view = self._members, {}, others
        for member in others.members:
            life = before.get(member.key)
            if life is None or life.member_id != member.id:
                self._returned = now if life is not None else self._returned
                life = _Life(member_id=member.id, since=now)
            self._members[member.key] = life

    def decided(self, now: float, *, waits: bool) -> None:
        """Record a decision: whether a rebalance `waits` for nothing but signs of life."""
        if waits and now - self._renewed > _BREAK_SECONDS:
            self._wanted, self._offsets = now, None
            for life in self._members.values():
                life.sign, life.gap = float("-inf"), 0.0
        self._renewed = now if waits else float("-inf")

    def awaits_commits(self, now: float) -> bool:
        """Return whether to ask for the group's commits now; never while no rebalance is wanted."""
        return now - self._renewed < _ASK_SECONDS and now >= self._ask_at

    def asked(self, at: float, now: float, offsets: Mapping[tuple[str, int], int] | None) -> None:
        """Record committed offsets that were asked for at a time; None if that failed."""
        self._ask_at = at + max(_ASK_SECONDS, (now - at) / _ASK_PART)
        if offsets is None:
            return
        before, before_at = self._offsets, self._asked_at
        self._offsets, self._asked_at = offsets, at
        if before is None or self._view is None:
            return
        moved = {partition for partition, offset in offsets.items() if offset > before.get(partition, -1)}
        for member in self._view.members if moved else ():
            if any(pair in moved for pair in to_pairs(member.assigned)):
                life = self._members[member.key]
                life.gap = max(life.gap, before_at - max(life.sign, self._wanted))
                life.sign = before_at

    def away_until(self, now: float) -> float:
        """Return until when a rebalance may have to wait for a member; a time that is over if all show life."""
        waits = now - self._renewed <= _BREAK_SECONDS
        wanted = self._wanted if waits else now
        silent = [
            max(life.sign, life.since, self._coordinator_since, wanted) + (self._grace(life) if waits else 0.0)
            for life in self._members.values()
            if not waits or now - life.sign > _fresh_seconds(life)
        ]
        return max(self._returned, *silent, float("-inf")) + self._session

    def _grace(self, life: _Life) -> float:
        """Return how long after its last sign a silent member may have died: until its next commit was to come.

        Where others commit and it never did, it may have died while the rebalance waited, at any time of a session.
        """
        if life.sign > float("-inf"):
            return _fresh_seconds(life)
        return self._session if any(member.sign > float("-inf") for member in self._members.values()) else 0.0


def _fresh_seconds(life: _Life) -> float:
    return max(_FRESH_SECONDS, _GAPS * life.gap)


_RATES_SECONDS: Final = 5.0
"""Rates of all partitions are summed again after this time: that takes a loop over all partitions."""
_HOUR_SECONDS: Final = 3600.0
_REMEMBERED_SECONDS: Final = 6 * _HOUR_SECONDS
"""Older pauses do not count: one that was long for once must not prevent rebalances for good."""


@dataclass(slots=True, kw_only=True)
class Evaluation:
    """The result for one group view, cluster, set of weights and knowledge of hosts."""

    view: GroupView
    cluster: SettledCluster
    weights: GroupWeights | None
    hosts: object
    plan: planner.Plan
    condition: GroupCondition
    rates_at: float = float("-inf")
    """When the rates of the condition were summed, and its pauses read."""


@dataclass(kw_only=True, eq=False)
class RebalanceEvaluator:
    """Evaluates rebalances of one group.

    Attributes:
        clock: Seconds, monotonic.
        wall: Seconds since 1970.
        recent: Returns when an earlier process triggered rebalances for racks or traffic since a given time; both in
            seconds since 1970.
        pauses: Returns how long the group paused in its last rebalances since a given time, in seconds.
        pause: The operator's request to start no rebalance for racks or traffic; None without one.
    """

    settings: Settings
    watch: ClusterWatch
    assigning: Assigning
    hosts: Hosts
    clock: Callable[[], float]
    group: str = ""
    wall: Callable[[], float] = time.time
    measured: Measured = UNMEASURED
    recent: Callable[[float], Iterable[float]] = lambda _since: ()
    pauses: Callable[[float], Sequence[float]] = lambda _since: ()
    pause: Callable[[], OperatorRequest | None] = lambda: None

    def __post_init__(self) -> None:
        self._policy = self.settings.policy.of(self.group)
        self._prices = price_table(self.settings.money)
        self._rules = rules_of(self._policy, dollars_per_byte=self._prices.dollars_per_byte)
        self._state = fresh(self._rules, self.clock())
        self._began, self._began_wall = self.clock(), self.wall()
        self.lives = MemberLives(self._policy.member_session_seconds)
        self._evaluation: Evaluation | None = None
        self.decision: Decision | None = None
        """The last decision about the group as it is; None while the agent does not lead it, or it rebalances."""
        self._last_reported: tuple[Reason, int] | None = None
        self._rounds = 0
        self._conditions = 0
        self._under: tuple[object, ...] = ()

    @property
    def condition(self) -> GroupCondition | None:
        """The last computed condition; None after `forget`."""
        return self._evaluation.condition if self._evaluation is not None else None

    @property
    def mode(self) -> str:
        """The policy's mode for the group: act or propose."""
        return self._policy.mode

    @property
    def tokens(self) -> float:
        """What is left in the token bucket."""
        return self._state.budget.tokens

    @property
    def breaker(self) -> Breaker:
        """The circuit breaker, with the results of the last rebalances."""
        return self._state.breaker

    @property
    def saved_bytes_per_second(self) -> float | None:
        """Bytes that a rebalance now would keep in their rack; None while not measured."""
        condition = self.condition
        if condition is None or condition.rates is None or not (condition.present.known and condition.possible.known):
            return None
        return max(0.0, condition.rates.saving)

    @property
    def saved_dollars_per_day(self) -> float | None:
        """The same in dollars."""
        saved = self.saved_bytes_per_second
        return self._prices.dollars(saved * SECONDS_PER_DAY) if saved is not None else None

    def forget(self) -> None:
        """Drop the last evaluation and decision."""
        self._evaluation = None
        self.decision = None

    def planned(self, sent: Sent) -> None:
        """Record a plan that was sent to the group."""
        self._rounds = self._rounds + 1 if sent.plan.withheld else 0

    def decide(self, evaluation: Evaluation) -> tuple[Decision, bool]:
        """Return what to do about the group that the agent leads, and whether that is to be reported."""
        self._state, self.decision = self._decide(evaluation)
        decision = self.decision
        if decision.action in (Action.REBALANCE, Action.PROPOSE):
            self._last_reported = None
            return decision, True
        if decision.action is Action.NOTHING:
            return decision, False
        news = (decision.reason, evaluation.condition.conditions)
        last_reported, self._last_reported = self._last_reported, news
        return decision, news != last_reported

    def dry_run(self, evaluation: Evaluation) -> Decision:
        """Return what `decide` would return had it proposed nothing yet, without spending from the budget."""
        return self._decide(evaluation, dry_run=True)[1]

    def takes_over(self) -> None:
        """Take a token from the budget for a takeover that begins, which waits for no sign of life any more."""
        now = self.clock()
        self._state = taking_over(self._state, now, self._rules)
        self.lives.decided(now, waits=False)

    def _decide(self, evaluation: Evaluation, *, dry_run: bool = False) -> tuple[PolicyState, Decision]:
        now = self.clock()
        self._measure(evaluation, now)
        state = replace(self._state, proposed=None, relief_proposed={}) if dry_run else self._state
        state, decision = decide(state, evaluation.condition, now, self.wall(), self._rules)
        waits = decision.reason is Reason.MEMBER_MAY_BE_AWAY
        if waits or not dry_run:
            self.lives.decided(now, waits=waits)
        return state, decision

    def evaluate(self, view: GroupView, *, leading: bool, generation: int = 0) -> tuple[Evaluation | None, bool]:
        """Return the evaluation of a stable group, or None while not all its topics are known, and whether it is new.

        The view is without the agent, which may be `leading` the group.
        """
        cluster, weights, hosts = self.watch.cluster, self.assigning.weights(), self.hosts.version()
        last = self._evaluation
        if (
            last is not None
            and last.view is view
            and last.cluster is cluster
            and last.weights is weights
            and last.hosts == hosts
        ):
            return last, False
        members = placed(members_of_view(view, self.settings.racks, self.hosts), cluster.racks)
        topics = topics_of(member.topics for member in members)
        counts = owned_counts(member.owned for member in members)
        if not topics or self.watch.unknown(topics, counts.keys()):
            return None, False
        mode = self.assigning.mode(view.protocol, weights)
        problem = problem_of(members, cluster, mode, weights=weights, tables=self.assigning.tables)
        plan = planner.make_plan(problem, mode)
        sent = self.assigning.sent_in(generation) if leading else None
        learned = weights is not None and bool(weights.capacities)
        self._see_conditions(_racks(problem), cluster, hosts)
        self._recall()
        self._evaluation = Evaluation(
            view=view,
            cluster=cluster,
            weights=weights,
            hosts=hosts,
            plan=plan,
            condition=GroupCondition(
                present=plan.before,
                possible=plan.after,
                partitions_changed=partitions_changed(problem, members, cluster),
                owns_deleted=any(len(cluster.topics.get(one, range(count))) < count for one, count in counts.items()),
                withheld=sent.plan.withheld if sent is not None else 0,
                rounds=self._rounds,
                changes=_changes(sent, problem, cluster, topics, weights) if sent is not None else None,
                generation=generation,
                conditions=self._conditions,
                uneven=None if learned else plan.uneven,
                greatest_loads=plan.greatest_loads if learned else None,
                tolerance=mode.options.balance_tolerance,
            ),
        )
        self._measure(self._evaluation, self.clock())
        return self._evaluation, True

    def _measure(self, evaluation: Evaluation, now: float) -> None:
        """Update the condition with what is measured and requested now."""
        condition = evaluation.condition
        rates, pause_seconds = condition.rates, condition.pause_seconds
        if now - evaluation.rates_at >= _RATES_SECONDS:
            known = self.measured.rates(self.group)
            rates = byte_rates(evaluation.plan, known) if known is not None else None
            pauses = self.pauses(self.wall() - _REMEMBERED_SECONDS)
            pause_seconds = median(pauses) if pauses else None
            evaluation.rates_at = now
        crossing, pause = self.measured.crossing(self.group), self.pause()
        evaluation.condition = replace(
            condition,
            rates=rates,
            crossing=crossing,
            growing=self.measured.growing(self.group),
            pause=pause,
            pause_seconds=pause_seconds,
            away_until=self.lives.away_until(now),
        )

    def _see_conditions(self, *conditions: object) -> None:
        """Count changes of the conditions for planning: members, cluster and what is known about hosts."""
        if conditions != self._under:
            self._under, self._conditions = conditions, self._conditions + 1

    def _recall(self) -> None:
        """Add rebalances that this agent triggered before a restart to those of the last hour."""
        since = self.wall() - _HOUR_SECONDS
        former = [_ago(at, self._began_wall) for at in self.recent(since)]
        self._state = remembering(self._state, (self._began - ago for ago in former))


def _ago(at: float, now: float) -> float:
    """Return the seconds since a time; one in the future, as the clock was set back, counts as just now.

    Differences of microseconds keep several such times distinct.
    """
    return now - at if at <= now else (at - now) * 1e-6


def _changes(
    sent: Sent, problem: Problem, cluster: SettledCluster, topics: frozenset[str], weights: GroupWeights | None
) -> Changes:
    """Return what has changed since a plan was sent: the racks that count now, against those of then."""
    before = _racks(sent.plan.problem)
    return Changes(
        topics=changed_topics(sent.cluster, cluster, topics),
        members=tuple(member for member, rack in _racks(problem).items() if before.get(member, rack) != rack),
        traffic=sent.weights != weights,
    )


def _racks(problem: Problem) -> dict[str, str | None]:
    racks = problem.member_rack.tolist()
    return {
        member_key(member, instance): None if rack == NOBODY else problem.racks[rack]
        for member, instance, rack in zip(problem.members, problem.instance_ids, racks, strict=True)
    }
