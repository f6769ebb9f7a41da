"""No history of situations makes the policy cause storms, or act where it is not allowed, whatever the rules."""

from __future__ import annotations

from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from samerack.agent.policy import EXEMPT, MAX_ROUNDS, Action, Decision, GroupCondition, Rules
from samerack.agent.policy.breaker import is_open
from samerack.agent.policy.budget import HOUR_SECONDS
from samerack.agent.policy.windows import next_opening
from samerack.common.settings import WindowSettings
from tests.unit.agent.leading.policies import MIDNIGHT, Run, condition

"""A condition turned round in `policy.decide` was found with a hundred examples and not with forty."""
Steps: TypeAlias = list[tuple[float, GroupCondition]]

RULES = st.builds(
    Rules,
    proposes=st.booleans(),
    min_saving=st.sampled_from([0.0, 0.05]),
    min_bytes_per_second=st.sampled_from([0.0, 200.0]),
    unmeasured_seconds=st.sampled_from([0.0, 600.0]),
    burst=st.integers(1, 4),
    refill_seconds=st.floats(1.0, 300.0),
    max_per_hour=st.integers(1, 6),
    windows=st.sampled_from([(), (WindowSettings(cron="*/20 * * * *", minutes=7.5),)]),
    breaker_failures=st.integers(1, 3),
    breaker_seconds=st.floats(1.0, 5000.0),
)
SITUATIONS = st.builds(
    condition,
    st.integers(0, 100),
    st.sampled_from([0, 10, 50]),
    partitions_changed=st.sampled_from([False, False, False, True]),
    withheld=st.sampled_from([0, 0, 0, 2]),
    rounds=st.integers(0, MAX_ROUNDS + 2),
    racks_changed=st.none() | st.booleans(),
    rates=st.none() | st.tuples(st.floats(0.0, 1000.0), st.floats(0.0, 1000.0)),
    crossing=st.none() | st.tuples(st.floats(0.0, 1.0), st.floats(MIDNIGHT, MIDNIGHT + 10_000.0)),
    generation=st.integers(0, 20),
    conditions=st.integers(0, 1),
)
STEPS = st.lists(st.tuples(st.sampled_from([0.2, 1.0, 60.0, 700.0]) | st.floats(0.0, 4000.0), SITUATIONS), max_size=40)


def spends(case: GroupCondition, decision: Decision) -> bool:
    """Whether it is a rebalance that needs the budget."""
    return decision.action is Action.REBALANCE and (case.stuck or decision.reason not in EXEMPT)


@given(steps=STEPS, rules=RULES)
def test_no_history_overdraws_the_budget(steps: Steps, rules: Rules) -> None:
    """The cap bounds what is spent in any hour, the burst and the refill bound it over any time."""
    run, spent = Run(rules=rules), list[float]()
    for pause, case in steps:
        decision = run.decide(case, after=pause)
        assert 0.0 <= run.state.budget.tokens <= rules.burst
        if spends(case, decision) or decision.action is Action.PROPOSE:
            spent.append(run.now)
        assert len(spent) <= rules.burst + run.now / rules.refill_seconds + 1e-6
        assert sum(time > run.now - HOUR_SECONDS for time in spent) <= rules.max_per_hour


@given(steps=STEPS, rules=RULES)
def test_racks_and_traffic_are_followed_only_where_everything_allows_it(steps: Steps, rules: Rules) -> None:
    """Never in propose mode, outside of windows, or with an open breaker; never for less than the least saving."""
    run = Run(rules=rules)
    for pause, case in steps:
        barred = is_open(run.state.breaker, run.now + pause, rules) and run.state.breaker.trial is None
        decision = run.decide(case, after=pause)
        if decision.action is not Action.REBALANCE or decision.reason in EXEMPT:
            continue
        assert not rules.proposes
        assert not barred
        assert not rules.windows or next_opening(rules.windows, MIDNIGHT + run.now) is None
        assert decision.before is not None
        assert decision.after is not None
        assert decision.before - decision.after > rules.min_saving
        assert case.rates is None or case.rates.saving > rules.min_bytes_per_second or not rules.min_bytes_per_second


@given(steps=STEPS, rules=RULES)
def test_what_a_group_needs_is_followed_in_every_state(steps: Steps, rules: Rules) -> None:
    """Second rounds and changed partitions are always followed, and a wait ends in the future."""
    run = Run(rules=rules)
    for pause, case in steps:
        decision = run.decide(case, after=pause)
        if not case.stuck and (case.withheld or case.partitions_changed):
            assert (decision.action, decision.reason in EXEMPT) == (Action.REBALANCE, True)
        if decision.until is not None:
            assert decision.action is Action.SUPPRESS
            assert decision.until > MIDNIGHT + run.now - 1e-3


@given(steps=STEPS, rules=RULES)
def test_the_breaker_opens_and_closes_as_ruled(steps: Steps, rules: Rules) -> None:
    """A closed breaker has too few failures to open; an open one allows nothing for its time, then one at a time."""
    run = Run(rules=rules)
    for pause, case in steps:
        before = run.state.breaker
        decision = run.decide(case, after=pause)
        breaker = run.state.breaker
        assert (breaker.opened is not None) == (breaker.failures >= rules.breaker_failures)
        if before.opened is None or breaker.opened is None:
            continue
        if decision.action is Action.REBALANCE and decision.reason not in EXEMPT:
            assert before.opened == breaker.opened
            assert run.now - breaker.opened >= rules.breaker_seconds
            assert breaker.trial is not None
        if breaker.opened != before.opened:
            assert before.trial is not None
            assert breaker.trial is None
