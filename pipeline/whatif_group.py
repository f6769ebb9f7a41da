"""One group under every plan and in every other world that is asked for: what it would read across racks.

Pure: a state in, outcomes out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from assignors.consumer import optimal
from assignors.consumer import range as range_assignor
from assignors.consumer.own import own_plan
from assignors.evaluate import cross_rack_mask
from assignors.model import NOBODY, Int32Array
from common.errors import SettingsError
from common.records import LEADING, GroupState
from pipeline import whatif_worlds as worlds
from pipeline.problem import LEADABLE, Crossing, Group, crossing, group_of, led_plan

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """What is asked of every group.

    Attributes:
        max_skew: partitions beyond a fair share that a member may have for locality.
        copies: racks that are to have a copy of every partition.
        shares: parts of the members by rack; none means alike in every rack.
        most_topics: topics of a group that are looked at one by one for more copies, the most expensive first.
    """

    max_skew: int = 2
    copies: int = 2
    shares: Mapping[str, float] = field(default_factory=dict)
    most_topics: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a group reads in one scenario.

    Attributes:
        scenario: which one.
        reference: the scenario without this one change; "" for what is no change but only for comparison.
        reads: wire bytes per second.
        before: what the reference would read across racks; here members of whom no rack is known count with 1 - 1/R.
        copying: bytes per second that new copies would fetch across racks.
        moves: partitions with another owner than now.
        topic: the only topic that is changed, or "".
    """

    scenario: str
    reference: str
    reads: Crossing
    before: float
    copying: float = 0.0
    moves: int = 0
    topic: str = ""


def outcomes(state: GroupState, questions: Questions) -> tuple[Outcome, ...]:
    """Every scenario of one group, the present one first; changes that cannot save anything are left out.

    Raises:
        StateError: the state contradicts itself.
        AssignmentError: no assignor can deal with it.
    """
    group = group_of(state)
    now = crossing(group, group.problem.owner)
    found = [Outcome(scenario=PRESENT, reference="", reads=now, before=now.crossing)]
    if group.problem.members:
        asking = _Asking(group, state, questions, now, found)
        asking.compare()
        asking.lead()
        asking.spread()
        asking.come_near()
        asking.copy()
    return tuple(found)


class _Asking:
    """The scenarios of one group, one after the other; some build on what an earlier one came to."""

    def __init__(
        self, group: Group, state: GroupState, questions: Questions, now: Crossing, found: list[Outcome]
    ) -> None:
        self._group = group
        self._assignor = state.assignor
        self._questions = questions
        self._leadable = state.kind in LEADABLE
        self._led = state.role == LEADING
        self._now = now
        self._found = found
        self._best = optimal.assign(group.problem)
        # world, plan and outcome that the next change builds on
        self._base = (group, group.problem.owner, found[0])

    def compare(self) -> None:
        """Plans that nobody should bring about, but that tell what the present one is worth."""
        group = self._group
        own = own_plan(group.problem, self._assignor, group.tells_rack)
        plans = {OWN: own, RANGE: range_assignor.assign(group.problem), OPTIMAL: self._best}
        for scenario, plan in plans.items():
            if plan is not None:
                self._add(scenario, "", group, plan, self._now.crossing)
        if group.problem.reads_any_replica.any():
            self._add(LEADERS, "", worlds.leaders_only(group), group.problem.owner, self._now.crossing)

    def lead(self) -> None:
        """An agent that leads the group, and one that may deal unevenly."""
        if not self._leadable:
            return
        group = self._group
        if not self._led:
            plan = self._best if self._assignor != "range" else led_plan(group.problem, self._assignor)
            self._base = (group, plan, self._add(LEAD, PRESENT, group, plan, self._now.crossing))
        led = self._base[2]
        if led.reads.crossing and self._questions.max_skew:
            plan = optimal.assign(group.problem, optimal.Options(max_skew=self._questions.max_skew))
            self._add(SKEW, led.scenario, group, plan, led.reads.crossing)

    def spread(self) -> None:
        """Members in other racks."""
        base = self._base[2]
        if not base.reads.crossing:
            return
        try:
            world = worlds.moved(self._group, self._questions.shares)
        except SettingsError:  # racks of another cluster: the question is not for this group
            return
        if (world.problem.member_rack != self._group.problem.member_rack).any():
            self._add(MOVE, base.scenario, world, self._plan(world), base.reads.crossing)

    def come_near(self) -> None:
        """Everybody tells racks and fetches with them, first with the assignment as it is, then with the best."""
        world = worlds.near(self._group)
        before = self._expected(self._now)
        if not before or self._group.problem.reads_any_replica.all():
            return
        owner = self._group.problem.owner
        as_it_is = self._add(NEAR, PRESENT, world, owner, before)
        self._base = (world, owner, as_it_is)
        if self._leadable:
            plan = self._plan(world)
            self._base = (world, plan, self._add(NEAR_LEAD, NEAR, world, plan, as_it_is.reads.crossing))

    def copy(self) -> None:
        """One topic after the other with copies in more racks, where everybody reads near."""
        world, plan, base = self._base
        if not base.reads.crossing or self._questions.copies < 2:
            return
        problem = world.problem
        dear = np.where(cross_rack_mask(problem, plan), world.rates, 0.0)
        of_topic = np.bincount(problem.topic_of, weights=dear, minlength=len(problem.topics))
        for topic in np.argsort(-of_topic, kind="stable")[: self._questions.most_topics].tolist():
            if not of_topic[topic]:
                return
            more, fetched = worlds.replicated(world, self._questions.copies, problem.topic_of == topic)
            if fetched.any():
                self._add(
                    COPIES,
                    base.scenario,
                    more,
                    self._plan(more),
                    base.reads.crossing,
                    copying=float(fetched.sum()),
                    topic=problem.topics[topic],
                )

    def _plan(self, world: Group) -> Int32Array:
        """The agent's plan where it leads or could, else the assignment as it is."""
        return led_plan(world.problem, self._assignor) if self._leadable else world.problem.owner

    def _expected(self, reads: Crossing) -> float:
        """What crosses racks, with 1 - 1/R of what is not known: what placement without regard to racks comes to."""
        racks = len(self._group.broker_racks)
        return reads.crossing + (reads.unknown * (1 - 1 / racks) if racks else 0.0)

    def _add(  # noqa: PLR0913 - an outcome has as many parts as it has
        self,
        scenario: str,
        reference: str,
        world: Group,
        plan: Int32Array,
        before: float,
        *,
        copying: float = 0.0,
        topic: str = "",
    ) -> Outcome:
        present = self._group.problem.owner
        outcome = Outcome(
            scenario=scenario,
            reference=reference,
            reads=crossing(world, plan),
            before=before,
            copying=copying,
            moves=int(np.count_nonzero((plan != present) & (present != NOBODY) & (plan != NOBODY))),
            topic=topic,
        )
        self._found.append(outcome)
        return outcome
