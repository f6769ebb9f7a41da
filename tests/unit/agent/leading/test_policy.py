"""`policy.decide`: every branch, and a budget that no sequence of situations can overdraw."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.leading.policy import (
    EXEMPT,
    MOST_ROUNDS,
    Action,
    Budget,
    Decision,
    Reason,
    Rules,
    Situation,
    decide,
    full,
    share,
)
from assignors.model import Cost

RULES = Rules(least_saving=0.05, burst=3, refill_seconds=60.0)
FULL = full(RULES, 0.0)
EMPTY = Budget(tokens=0.0, at=0.0)


def cost(cross_rack: int, assigned: int = 100) -> Cost:
    """A plan that reads so many of its partitions across racks."""
    return Cost(
        imbalance=0,
        sum_of_squares=0,
        cross_rack=cross_rack,
        cross_rack_weight=cross_rack,
        moved=0,
        unassigned=0,
        assigned_weight=assigned,
    )


def situation(
    present: int = 0,
    possible: int = 0,
    *,
    partitions_changed: bool = False,
    withheld: int = 0,
    rounds: int = 0,
    racks_changed: bool = True,
) -> Situation:
    """A led group of 100 partitions."""
    return Situation(
        present=cost(present),
        possible=cost(possible),
        partitions_changed=partitions_changed,
        withheld=withheld,
        rounds=rounds,
        racks_changed=racks_changed,
    )


CASES = {
    "nothing to gain": (situation(7, 7), Action.NOTHING, Reason.NOTHING_TO_GAIN),
    "a loss is no gain": (situation(3, 7), Action.NOTHING, Reason.NOTHING_TO_GAIN),
    "less than the least saving": (situation(4, 0), Action.SUPPRESS, Reason.BELOW_LEAST_SAVING),
    "exactly the least saving": (situation(35, 30), Action.SUPPRESS, Reason.BELOW_LEAST_SAVING),
    "just more": (situation(36, 30), Action.REBALANCE, Reason.RACKS_CHANGED),
    "members' racks": (situation(36, 30, racks_changed=False), Action.REBALANCE, Reason.MEMBERS_RACKS_CHANGED),
    "partitions changed": (situation(partitions_changed=True), Action.REBALANCE, Reason.PARTITIONS_CHANGED),
    "second round": (situation(withheld=1, rounds=1), Action.REBALANCE, Reason.SECOND_ROUND),
    "second round first": (
        situation(50, 0, withheld=1, rounds=MOST_ROUNDS, partitions_changed=True),
        Action.REBALANCE,
        Reason.SECOND_ROUND,
    ),
}


@pytest.mark.parametrize(("case", "action", "reason"), CASES.values(), ids=CASES.keys())
def test_each_situation_has_its_decision(case: Situation, action: Action, reason: Reason) -> None:
    """With a full budget the situation alone decides, and the decision names the shares before and after."""
    _, decision = decide(FULL, case, 0.0, RULES)
    assert decision == Decision(action=action, reason=reason, before=share(case.present), after=share(case.possible))


@pytest.mark.parametrize("case", [case for case, _, reason in CASES.values() if reason in EXEMPT])
def test_exempt_reasons_spend_nothing(case: Situation) -> None:
    """Partitions and second rounds are followed on an empty budget too, and leave it as it was."""
    for budget in (FULL, EMPTY):
        left, decision = decide(budget, case, 0.0, RULES)
        assert decision.action is Action.REBALANCE
        assert left == budget


def test_a_rebalance_for_racks_spends_a_token() -> None:
    """Each one costs one token, and without one the trigger is suppressed."""
    budget = FULL
    for left in (2.0, 1.0, 0.0):
        budget, decision = decide(budget, situation(50), 0.0, RULES)
        assert (decision.action, budget.tokens) == (Action.REBALANCE, left)
    budget, decision = decide(budget, situation(50), 0.0, RULES)
    assert (decision.action, decision.reason) == (Action.SUPPRESS, Reason.OUT_OF_BUDGET)


@pytest.mark.parametrize(("now", "action"), [(59.9, Action.SUPPRESS), (60.0, Action.REBALANCE)])
def test_an_empty_budget_gains_one_token_in_the_refill_time(now: float, action: Action) -> None:
    """After a storm one trigger is followed per refill time."""
    assert decide(EMPTY, situation(50), now, RULES)[1].action is action


def test_the_budget_is_shown_refilled_without_a_trigger() -> None:
    """Looking at a group that is well as it is refills the budget, so that its gauge tells the truth."""
    assert decide(EMPTY, situation(), 90.0, RULES)[0].tokens == 1.5
    assert decide(EMPTY, situation(), 1e6, RULES)[0].tokens == 3.0


def test_a_clock_that_steps_back_gives_nothing() -> None:
    """Time that was refilled once is not refilled again."""
    budget, _ = decide(Budget(tokens=0.0, at=100.0), situation(), 40.0, RULES)
    assert decide(budget, situation(), 100.0, RULES)[0].tokens == 0.0


def test_second_rounds_end() -> None:
    """A member that never gives up a partition causes a bounded number of second rounds."""
    last, after = (situation(withheld=1, rounds=rounds) for rounds in (MOST_ROUNDS, MOST_ROUNDS + 1))
    assert decide(FULL, last, 0.0, RULES)[1].reason is Reason.SECOND_ROUND
    assert decide(FULL, after, 0.0, RULES)[1].action is Action.NOTHING


def test_what_a_stuck_member_withholds_is_no_new_partition_for_ever() -> None:
    """A withheld partition has no owner; once the rounds are over it is followed within the budget, then suppressed."""
    stuck = situation(withheld=1, rounds=MOST_ROUNDS + 1, partitions_changed=True)
    budget, reasons = FULL, []
    for _ in range(20):
        budget, decision = decide(budget, stuck, 0.0, RULES)
        reasons.append(decision.action is Action.REBALANCE and decision.reason)
    assert reasons == [Reason.PARTITIONS_CHANGED] * 3 + [False] * 17


def test_share_of_nothing_is_nothing() -> None:
    """A group without partitions reads nothing across racks."""
    assert share(cost(0, 0)) == 0.0


@given(least=st.integers(0, 100), present=st.integers(0, 100), possible=st.integers(0, 100))
def test_acts_exactly_beyond_the_least_saving(least: int, present: int, possible: int) -> None:
    """In whole points: a saving above the least acts, the least itself does not, whatever floats make of it."""
    rules = Rules(least_saving=least / 100, burst=1, refill_seconds=60.0)
    _, decision = decide(full(rules, 0.0), situation(present, possible), 0.0, rules)
    assert (decision.action is Action.REBALANCE) == (present - possible > least)


STEPS = st.lists(
    st.tuples(
        st.floats(0.0, 100.0),
        st.builds(
            situation,
            st.integers(0, 100),
            st.integers(0, 100),
            partitions_changed=st.booleans(),
            withheld=st.integers(0, 2),
            rounds=st.integers(0, MOST_ROUNDS + 2),
            racks_changed=st.booleans(),
        ),
    ),
    max_size=40,
)


@settings(max_examples=100)
@given(steps=STEPS, burst=st.integers(1, 4), refill=st.floats(1.0, 300.0))
def test_no_history_overdraws_the_budget(steps: list[tuple[float, Situation]], burst: int, refill: float) -> None:
    """Over any history at most the burst and one per refill time are spent, and the bucket stays in its bounds."""
    rules = Rules(least_saving=0.05, burst=burst, refill_seconds=refill)
    budget, now, spent = full(rules, 0.0), 0.0, 0
    for pause, case in steps:
        now += pause
        budget, decision = decide(budget, case, now, rules)
        assert 0.0 <= budget.tokens <= burst
        stuck = case.withheld and case.rounds > MOST_ROUNDS
        if decision.action is Action.REBALANCE and (stuck or decision.reason not in EXEMPT):
            spent += 1
        assert spent <= burst + now / refill + 1e-6
