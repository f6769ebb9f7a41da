"""Computes what one group would read across racks in every scenario: with other plans, replicas or racks of members.

Pure functions: a state in, outcomes out. A scenario's world is the group with one fact changed: which replicas may
serve, how many copies topics have, or where members run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from samerack.assignors.consumer.kafkas import assign_range
from samerack.assignors.consumer.registry import own_plan
from samerack.assignors.evaluate import cross_rack_mask
from samerack.assignors.problem import NOBODY, Int32Array
from samerack.common.errors import SettingsError
from samerack.common.records import LEADING, GroupState
from samerack.pipeline.problem import (
    STREAMS_CLASSIC,
    STREAMS_KINDS,
    GroupProblem,
    PlanReads,
    best_plan,
    can_be_led,
    crossing,
    group_of,
    led_options,
    led_plan,
)
from samerack.pipeline.whatif_worlds import leaders_only, near, placements, replicated, with_even_leaders, with_rack

PRESENT: Final = "present"
OWN: Final = "own"
RANGE: Final = "range"
OPTIMAL: Final = "optimal"
LEADERS: Final = "leaders"
LEAD: Final = "lead"
SKEW: Final = "skew"
NEAR: Final = "near"
NEAR_LEAD: Final = "near-lead"
COPIES: Final = "copies"
MOVE: Final = "move"
STRATEGY: Final = "strategy"
ELECT: Final = "elect"
RACK: Final = "rack"


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Parameters of the scenarios, the same for every group.

    Attributes:
        max_skew: partitions beyond a fair share that a member may have for locality.
        copies: number of racks that get a copy of every partition.
        shares: share of the members by rack; none means equal in every rack.
        new_rack: a rack that is added; "" for none.
        max_topics: number of topics of a group that are tried one by one for more copies, the most expensive first.
    """

    max_skew: int = 2
    copies: int = 2
    shares: Mapping[str, float] = field(default_factory=dict)
    new_rack: str = ""
    max_topics: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioOutcome:
    """What a group reads in one scenario.

    Attributes:
        reference: the scenario without this change; "" for a scenario that is only a comparison.
        reads: wire bytes per second.
        before: what the reference would read across racks; for `near`, reads of unknown rack count with 1 - 1/R.
        copying: bytes per second that new copies would fetch across racks.
        moves: partitions with another owner than now.
        topic: the only topic that is changed, or "".
        placed: members by rack, where they are in other racks than now, or "".
    """

    scenario: str
    reference: str
    reads: PlanReads
    before: float
    copying: float = 0.0
    moves: int = 0
    topic: str = ""
    placed: str = ""


def outcomes(state: GroupState, questions: Questions) -> tuple[ScenarioOutcome, ...]:
    """Return every scenario of one group, the present one first; changes that cannot save anything are left out.

    Raises:
        StateError: the state contradicts itself.
        AssignmentError: an assignor cannot handle the group.
    """
    group = group_of(state)
    now = crossing(group, group.problem.owner)
    found = [ScenarioOutcome(scenario=PRESENT, reference="", reads=now, before=now.crossing)]
    if group.problem.members:
        scenarios = _Scenarios(group, state, questions, found)
        scenarios.compare()
        scenarios.lead()
        scenarios.elect()
        scenarios.spread()
        scenarios.add_rack()
        scenarios.add_rack_aware_fetch()
        scenarios.copy()
    return tuple(found)


class _Scenarios:
    """Computes the scenarios of one group in order; some use the result of an earlier one."""

    def __init__(
        self, group: GroupProblem, state: GroupState, questions: Questions, found: list[ScenarioOutcome]
    ) -> None:
        self._group = group
        self._state = state
        self._questions = questions
        self._found = found
        self._present = found[0]
        self._leadable = can_be_led(state)
        self._best = best_plan(group.problem, state.kind, group.whole)
        # world, plan and outcome on which the next change is based
        self._base = (group, group.problem.owner, self._present)

    def compare(self) -> None:
        """Add plans that are only compared with the present one."""
        group = self._group
        plans = {OPTIMAL: self._best}
        if self._state.kind not in STREAMS_KINDS:  # these plans do not keep tasks whole
            own = own_plan(group.problem, self._state.assignor, group.tells_rack)
            plans = {OWN: own, RANGE: assign_range(group.problem), **plans}
        for scenario, plan in plans.items():
            if plan is not None:
                self._add(scenario, group, plan)
        if group.problem.reads_any_replica.any():
            self._add(LEADERS, leaders_only(group), group.problem.owner)

    def lead(self) -> None:
        """Add an agent that leads the group, and one that may assign unequal numbers of partitions."""
        group = self._group
        if self._plan_by_strategy(group) is not None:
            self._by_strategy(group, self._present)
        if not self._leadable:
            return
        plan = self._plan(group)
        if self._state.role != LEADING:
            self._base = (group, plan, self._add(LEAD, group, plan, reference=self._present))
        elif (reads := crossing(group, plan)).crossing < self._present.reads.crossing:
            # what the agent is about to do is no gain of another change
            self._base = (group, plan, replace(self._present, reads=reads))
        led = self._base[2]
        options, skew = led_options(self._state), self._questions.max_skew
        if led.reads.crossing and skew > options.max_skew and not options.keep_copartitioned:
            self._add(SKEW, group, led_plan(group, replace(options, max_skew=skew)), reference=led)

    def spread(self) -> None:
        """Add members in other racks."""
        base = self._base[2]
        if not base.reads.crossing:
            return
        try:
            worlds = placements(self._group, self._questions.shares)
        except SettingsError:  # racks of another cluster: the scenario does not apply to this group
            return
        world, plan = self._nearest(worlds)
        if (world.problem.member_rack != self._group.problem.member_rack).any():
            self._add(MOVE, world, plan, reference=base, placed=_placed(world))

    def elect(self) -> None:
        """Add leaders that are as even over racks as replicas allow, where it matters which replicas lead.

        Also where all is near now: leaders are the same for all readers of a topic, and one may pay for another.
        """
        if self._group.problem.reads_any_replica.all():
            return
        world = with_even_leaders(self._group)
        if (world.problem.leader_rack != self._group.problem.leader_rack).any():
            self._add(ELECT, world, self._plan(world), reference=self._base[2])

    def add_rack(self) -> None:
        """Add brokers and members in one more rack, and replicas spread over all."""
        rack, racks = self._questions.new_rack, self._group.problem.racks
        if not rack or rack in racks or not len(self._group.broker_racks):
            return
        wider, copying = with_rack(self._group, rack)
        world, plan = self._nearest(placements(wider, {}))
        self._add(RACK, world, plan, reference=self._base[2], copying=float(copying.sum()), placed=_placed(world))

    def _nearest(self, worlds: Sequence[GroupProblem]) -> tuple[GroupProblem, Int32Array]:
        """Return the world whose plan reads least across racks, the first of several, and that plan."""
        return min(((world, self._plan(world)) for world in worlds), key=lambda one: round(crossing(*one).crossing, 3))

    def add_rack_aware_fetch(self) -> None:
        """Add all members sending and fetching with their racks, first as the group is planned now, then led."""
        world = near(self._group)
        led = self._state.role == LEADING
        before = self._expected((self._base[2] if led else self._present).reads)
        if not before or self._group.problem.reads_any_replica.all():
            return
        plan = self._plan(world) if led else self._own(world)
        as_it_is = self._add(NEAR, world, plan, reference=self._present, before=before)
        self._base = (world, plan, as_it_is)
        if led:
            return
        if self._leadable:
            plan = self._plan(world)
            self._base = (world, plan, self._add(NEAR_LEAD, world, plan, reference=as_it_is))
        elif self._plan_by_strategy(world) is not None and not self._group.tells_rack.all():
            self._by_strategy(world, as_it_is)

    def copy(self) -> None:
        """Add copies in more racks, one topic at a time, where all members fetch near."""
        world, plan, base = self._base
        problem = world.problem
        if not base.reads.crossing or self._questions.copies < 2 or not problem.reads_any_replica.all():
            return
        cross_rack_rates = np.where(cross_rack_mask(problem, plan), world.rates, 0.0)
        of_topic = np.bincount(problem.topic_of, weights=cross_rack_rates, minlength=len(problem.topics))
        for topic in np.argsort(-of_topic, kind="stable")[: self._questions.max_topics].tolist():
            if not of_topic[topic]:
                return
            more, fetched = replicated(world, self._questions.copies, problem.topic_of == topic)
            if fetched.any():
                self._add(
                    COPIES,
                    more,
                    self._plan(more),
                    reference=base,
                    copying=float(fetched.sum()),
                    topic=problem.topics[topic],
                )

    def _plan(self, world: GroupProblem) -> Int32Array:
        """Return the agent's plan where an agent leads or could lead, else a strategy's or the group's own."""
        if self._leadable:
            return led_plan(world)
        plan = self._plan_by_strategy(world)
        return self._own(world) if plan is None else plan

    def _own(self, world: GroupProblem) -> Int32Array:
        """Return the plan of the group's own assignor; the present one where racks do not matter to it.

        Kafka's assignors take any replica in a member's rack as near. Those of brokers do not regard racks.
        """

        def plan(group: GroupProblem) -> Int32Array | None:
            known = replace(group.problem, reads_any_replica=np.ones_like(group.tells_rack))
            return own_plan(known, self._state.assignor, group.tells_rack)

        now, then = (plan(self._group), plan(world)) if self._state.kind == "classic" else (None, None)
        return world.problem.owner if now is None or then is None or np.array_equal(now, then) else then

    def _plan_by_strategy(self, world: GroupProblem) -> Int32Array | None:
        """Return the plan of `min_traffic`, for classic Kafka Streams applications whose clients all send racks."""
        if self._state.kind != STREAMS_CLASSIC or not world.tells_rack.all():
            return None
        return best_plan(world.problem, self._state.kind, world.whole)

    def _by_strategy(self, world: GroupProblem, reference: ScenarioOutcome) -> None:
        """Add Kafka Streams with `min_traffic`, which needs the rack of every client."""
        plan = self._plan(world)
        self._base = (world, plan, self._add(STRATEGY, world, plan, reference=reference))

    def _expected(self, reads: PlanReads) -> float:
        """Return cross-rack reads plus 1 - 1/R of the unknown ones, as for a placement that ignores racks."""
        racks = len(self._group.broker_racks)
        return reads.crossing + (reads.unknown * (1 - 1 / racks) if racks else 0.0)

    def _add(  # noqa: PLR0913 - one parameter for each part of an outcome
        self,
        scenario: str,
        world: GroupProblem,
        plan: Int32Array,
        *,
        reference: ScenarioOutcome | None = None,
        before: float | None = None,
        copying: float = 0.0,
        topic: str = "",
        placed: str = "",
    ) -> ScenarioOutcome:
        """Add a scenario; without a reference it is only compared with the present one."""
        present = self._group.problem.owner
        outcome = ScenarioOutcome(
            scenario=scenario,
            reference="" if reference is None else reference.scenario,
            reads=crossing(world, plan),
            before=(reference or self._present).reads.crossing if before is None else before,
            copying=copying,
            moves=int(np.count_nonzero((plan != present) & (present != NOBODY) & (plan != NOBODY))),
            topic=topic,
            placed=placed,
        )
        self._found.append(outcome)
        return outcome


def _placed(world: GroupProblem) -> str:
    """Return the members by rack, in words."""
    racks = world.problem.member_rack
    counts = np.bincount(racks[racks != NOBODY], minlength=len(world.problem.racks))
    return ", ".join(f"{rack} {count}" for rack, count in zip(world.problem.racks, counts, strict=True) if count)
