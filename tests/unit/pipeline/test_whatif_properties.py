"""Properties of every group's what-if: more freedom never costs more, and names do not matter."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.assignors.consumer import optimal as optimal_assignor
from samerack.assignors.consumer.kafkas import assign_range
from samerack.assignors.consumer.registry import own_plan
from samerack.assignors.problem import AssignmentError
from samerack.common.records import LEADING, GroupState, MemberState, TopicState
from samerack.pipeline import whatif_worlds as worlds
from samerack.pipeline.problem import GroupProblem, PlanReads, StateError, crossing, group_of
from samerack.pipeline.whatif_group import COPIES, LEAD, NEAR, NEAR_LEAD, OPTIMAL, PRESENT, SKEW, Questions, outcomes
from tests.records import STATE
from tests.unit.pipeline.fleets import POWERS, shuffled, states

TINY = 1e-6


def optimal(group: GroupProblem, *, max_skew: int = 0) -> PlanReads:
    """What the best plan reads, for byte rates."""
    return crossing(group, optimal_assignor.assign(group.problem, optimal_assignor.Options(max_skew=max_skew)))


def own(group: GroupProblem, assignor: str) -> PlanReads | None:
    """What a plan by the group's own assignor would read; None where that assignor is not known."""
    plan = own_plan(group.problem, assignor, group.tells_rack)
    return None if plan is None else crossing(group, plan)


def present(group: GroupProblem) -> PlanReads:
    """What the present assignment reads."""
    return crossing(group, group.problem.owner)


def best(group: GroupProblem) -> float:
    """Bytes a second that the best balanced plan reads across racks."""
    return optimal(group).crossing


@given(states(topics=1))
def test_nobody_reads_less_than_the_optimal_plan_of_one_topic(state: GroupState) -> None:
    """All assignors spread one topic evenly, so the best even plan reads at most as much as theirs."""
    group = group_of(state)
    owns = own(group, state.assignor)
    assert owns is not None
    assert best(group) <= owns.crossing + TINY
    assert best(group) <= crossing(group, assign_range(group.problem)).crossing + TINY


@given(states())
def test_without_balance_nobody_reads_less_than_the_optimal_plan(state: GroupState) -> None:
    """With several topics range is uneven, so the free plan may be uneven too."""
    group = group_of(state)
    free = optimal(group, max_skew=len(group.rates)).crossing
    owns = own(group, state.assignor)
    assert owns is not None
    assert free <= min(owns.crossing, best(group), present(group).crossing) + TINY


@given(states())
def test_more_skew_never_reads_more(state: GroupState) -> None:
    """Each step allows all plans of the step before."""
    group = group_of(state)
    curve = [optimal(group, max_skew=skew).crossing for skew in (0, 1, 2, 3)]
    assert all(after <= before + TINY for before, after in pairwise(curve))


@given(states(), st.integers(2, 4))
def test_more_copies_never_read_more_before_their_own_cost(state: GroupState, copies: int) -> None:
    """The cost of copies is the rate of the copied data, once for each new copy."""
    group = worlds.near(group_of(state))
    everything = np.ones(len(group.rates), np.bool_)
    more, fetched = worlds.replicated(group, copies, everything)
    added = more.problem.replica_racks.sum(axis=1) - group.problem.replica_racks.sum(axis=1)
    assert best(more) <= best(group) + TINY
    assert (fetched == group.rates * added).all()
    assert (more.problem.replica_racks.sum(axis=1) >= min(copies, len(state.racks))).all()


@given(states())
def test_any_replica_never_reads_more_than_leaders_only(state: GroupState) -> None:
    """This holds for the same assignment and for the best assignment of each."""
    group = group_of(state)
    far, near = worlds.leaders_only(group), worlds.near(group)
    assert crossing(near, group.problem.owner).crossing <= present(group).crossing + TINY
    assert present(group).crossing <= crossing(far, group.problem.owner).crossing + TINY
    assert best(near) <= best(group) + TINY
    assert best(group) <= best(far) + TINY


@pytest.mark.parametrize(
    ("sends", "fetches", "knows"), [(None, True, True), (None, False, False), (False, True, False), (True, False, True)]
)
def test_the_own_assignor_knows_the_racks_that_members_send(*, sends: bool | None, fetches: bool, knows: bool) -> None:
    """Racks that members report count; if an older agent did not record this, those that members fetch with."""
    members = tuple(
        MemberState(id=f"m-{rack}", client_id="c", rack=rack, fetches_with_rack=fetches, topics=(0,), tells_rack=sends)
        for rack in (0, 1)
    )
    far = TopicState(name="clicks", replicas=((1,), (0,)), owner=(0, 1))
    owns = own(group_of(STATE.model_copy(update={"members": members, "topics": (far,)})), "range")
    assert owns is not None
    assert owns.share == (0.0 if knows else 1.0)


@given(states(gaps=True), st.integers(0, 1000))
def test_shares_are_shares_whatever_the_order(state: GroupState, seed: int) -> None:
    """Shares lie in 0 to 1 and bytes are never negative, even if racks, owners and rates are unknown.

    Groups that differ only in the order of members and topics have equal outcomes.
    """
    answers = outcomes(state, Questions())
    for outcome in answers:
        assert 0 <= outcome.reads.share <= 1
        assert outcome.reads.crossing >= 0
        assert outcome.copying >= 0
    assert outcomes(shuffled(state, seed), Questions()) == answers


@given(states(), st.dictionaries(st.sampled_from(["rack-a", "rack-b"]), st.integers(1, 5), min_size=1))
def test_members_run_where_the_shares_say(state: GroupState, shares: dict[str, int]) -> None:
    """The number of members in each rack differs from its share by less than one."""
    shares = {rack: part for rack, part in shares.items() if rack in state.racks} or {"rack-a": 1}
    group = group_of(state)
    places = worlds.placements(group, shares)
    moving = [np.count_nonzero(one.problem.member_rack != group.problem.member_rack) for one in places]
    assert moving == sorted(moving)
    for placed in places:
        names = [group.problem.racks[rack] for rack in placed.problem.member_rack]
        for rack in group.problem.racks:
            wanted = shares.get(rack, 0) / sum(shares.values()) * len(names)
            assert abs(names.count(rack) - wanted) < 1


@given(states(rate=POWERS))
def test_each_change_builds_on_its_reference(state: GroupState) -> None:
    """A change's value before it is what its reference reads across racks."""
    answers = outcomes(state, Questions())
    found = {outcome.scenario: outcome for outcome in answers if outcome.scenario != COPIES}
    for outcome in answers:
        if outcome.reference:
            of_reference = found[outcome.reference].reads.crossing
            if state.role == LEADING and outcome.reference == PRESENT:  # the agent's next plan may be better already
                assert outcome.before <= of_reference + TINY
            else:
                assert outcome.before == pytest.approx(of_reference)
    if state.assignor != "range" and LEAD in found:
        assert found[LEAD].reads == found[OPTIMAL].reads
    if SKEW in found:
        assert found[SKEW].reads.crossing <= found[OPTIMAL].reads.crossing + TINY
    assert found[PRESENT].moves == 0
    assert (NEAR_LEAD in found) == (NEAR in found and state.role != LEADING)


@given(states(), st.data())
def test_a_state_that_contradicts_itself_is_refused_in_words(state: GroupState, data: st.DataObject) -> None:
    """A wrong index, length or rate is refused before an assignor sees it."""
    topic = state.topics[0]
    wrong: dict[str, object] = data.draw(
        st.sampled_from(
            [
                {"topics": (topic.model_copy(update={"owner": (99,) * len(topic.owner)}),)},
                {"topics": (topic.model_copy(update={"replicas": topic.replicas[1:]}),)},
                {"topics": (topic.model_copy(update={"replicas": ((-2,),) * len(topic.owner)}),)},
                {"topics": (topic.model_copy(update={"bytes_per_second": (float("nan"),) * len(topic.owner)}),)},
                {"topics": (topic.model_copy(update={"bytes_per_second": (1e30,) * len(topic.owner)}),)},
                {"topics": (topic.model_copy(update={"weights": (0,) * len(topic.owner)}),)},
                {"topics": (topic.model_copy(update={"weights": (1,) * (len(topic.owner) + 1)}),)},
                {"topics": (topic, topic)},
                {"members": (*state.members, state.members[0])},
                {"members": (state.members[0].model_copy(update={"rack": 77}),)},
                {"members": (state.members[0].model_copy(update={"topics": (5,)}),)},
                {"broker_racks": 9},
            ]
        )
    )
    with pytest.raises((StateError, AssignmentError), match=r"expected|not one of|occurs|but the state has"):
        group_of(state.model_copy(update=wrong))
