"""The breaker: how a rebalance on trial is evaluated, and what failures in a row do to the next ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from samerack.agent.policy import MAX_ROUNDS, Action, GroupCondition, Reason
from samerack.agent.policy.breaker import MAX_OTHERS, PATIENCE_SECONDS, SETTLED_SECONDS, UNDISTURBED_SECONDS
from tests.unit.agent.leading.policies import MIDNIGHT, RULES, Run, condition

HASTY = replace(RULES, burst=100, breaker_failures=3, breaker_seconds=3600.0)
WORTH_IT = condition(50, 10)
WELL = condition(10, 10)


def triggered(case: GroupCondition = WORTH_IT, **rules: object) -> Run:
    """A run that has just triggered a rebalance."""
    run = Run(rules=replace(HASTY, **rules))  # type: ignore[arg-type]  # of any of its fields
    assert run.decide(case).action is Action.REBALANCE
    return run


def failures(run: Run) -> int:
    """Failures in a row, as counted by the breaker."""
    return run.state.breaker.failures


def on_trial(run: Run) -> bool:
    """Whether the last rebalance is still on trial."""
    return run.state.breaker.trial is not None


def test_a_rebalance_that_brings_what_was_predicted_succeeds() -> None:
    """After a minute the trial ends and the failure count is zero."""
    run = triggered()
    run.state = replace(run.state, breaker=replace(run.state.breaker, failures=2))
    run.decide(WELL, after=2)
    assert on_trial(run)
    run.decide(WELL, after=UNDISTURBED_SECONDS)
    assert not on_trial(run)
    assert failures(run) == 0


@pytest.mark.parametrize(("present", "failed"), [(30, 0), (31, 1), (50, 1), (60, 1)])
def test_one_that_brings_less_than_half_fails(present: int, failed: int) -> None:
    """Of forty points twenty are enough; the trial is evaluated once the group was stable for some seconds."""
    run = triggered()
    later = condition(present, present)  # as where the plan fell back: nothing better is known
    run.decide(later, after=2)
    run.decide(later, after=SETTLED_SECONDS - 0.1)
    assert failures(run) == 0
    run.decide(later, after=0.1)
    assert failures(run) == failed


def test_a_trigger_right_after_one_is_a_failure_of_the_first() -> None:
    """A trigger under the same conditions means that the first rebalance changed nothing."""
    run = triggered()
    assert run.decide(WORTH_IT, after=1).action is Action.REBALANCE
    assert failures(run) == 1


def test_three_failures_in_a_row_open_it_for_an_hour_and_then_for_one_trial() -> None:
    """The open breaker suppresses and gives the time; then it allows one trial, and opens again if that fails."""
    run = triggered()
    for _ in range(2):
        assert run.decide(WORTH_IT, after=1).action is Action.REBALANCE
    waits = run.decide(WORTH_IT, after=1)
    assert (waits.action, waits.reason, waits.until) == (Action.SUPPRESS, Reason.BREAKER_OPEN, MIDNIGHT + 3 + 3600)
    assert "40.0 were predicted" in run.state.breaker.cause
    assert run.decide(WORTH_IT, after=3599).reason is Reason.BREAKER_OPEN
    assert run.decide(WORTH_IT, after=1).action is Action.REBALANCE
    waits = run.decide(WORTH_IT, after=1)
    assert (waits.reason, waits.until) == (Reason.BREAKER_OPEN, None)
    assert run.decide(WORTH_IT, after=SETTLED_SECONDS).until == MIDNIGHT + 3 + 3600 + 1 + SETTLED_SECONDS + 3600


def test_a_good_trial_closes_it() -> None:
    """After a successful trial the breaker is closed."""
    run = triggered(breaker_failures=1)
    run.decide(WORTH_IT, after=1)
    assert run.decide(WORTH_IT, after=3600).action is Action.REBALANCE
    run.decide(WELL, after=1)
    run.decide(WELL, after=UNDISTURBED_SECONDS)
    assert run.state.breaker.opened is None


def test_changed_partitions_are_followed_while_it_is_open() -> None:
    """Changed partitions are followed with an open breaker, because the group needs them."""
    run = triggered(breaker_failures=1)
    assert run.decide(WORTH_IT, after=1).reason is Reason.BREAKER_OPEN
    assert run.decide(condition(50, 10, partitions_changed=True)).action is Action.REBALANCE


@pytest.mark.parametrize("opened", [False, True])
def test_changed_conditions_void_a_trial(*, opened: bool) -> None:
    """Other members or racks void the prediction; a half-open breaker then allows another trial."""
    run = triggered(breaker_failures=1)
    if opened:
        run.decide(WORTH_IT, after=1)
        assert run.decide(WORTH_IT, after=3600).action is Action.REBALANCE
    elsewhere = condition(50, 50, conditions=1)
    run.decide(elsewhere, after=1)
    run.decide(elsewhere, after=UNDISTURBED_SECONDS)
    assert not on_trial(run)
    assert failures(run) == int(opened)
    assert run.decide(condition(50, 10, conditions=1)).action is Action.REBALANCE


def test_a_second_round_is_waited_for() -> None:
    """Withheld partitions are waited for until the next cooperative round, except those of a stuck member."""
    run = triggered()
    for _ in range(3):
        assert run.decide(condition(50, 10, withheld=1, rounds=1), after=SETTLED_SECONDS).reason is Reason.SECOND_ROUND
    assert failures(run) == 0
    run.decide(condition(50, 50, withheld=1, rounds=MAX_ROUNDS + 1), after=1)
    assert failures(run) == 1


def test_a_storm_right_after_it_is_a_failure() -> None:
    """A bounded number of other rebalances is no failure; one more is. The agent's second rounds do not count."""
    run = triggered(condition(50, 10, generation=7))
    assert run.decide(condition(10, 10, withheld=1, rounds=1, generation=8)).reason is Reason.SECOND_ROUND
    run.decide(condition(10, 10, generation=9 + MAX_OTHERS), after=UNDISTURBED_SECONDS - 1)
    assert failures(run) == 0
    run.decide(condition(10, 10, generation=10 + MAX_OTHERS))
    assert failures(run) == 1
    assert f"{MAX_OTHERS + 1} times" in run.state.breaker.cause


def test_rebalances_later_are_no_storm() -> None:
    """Rebalances after a calm minute have another cause, such as a deploy."""
    run = triggered(condition(50, 10, generation=7, crossing=(0.5, 0.0), rates=(500.0, 100.0)))
    run.decide(condition(10, 10, generation=8), after=UNDISTURBED_SECONDS)
    run.decide(condition(10, 10, generation=30), after=1)
    assert failures(run) == 0


def test_who_did_not_lead_for_minutes_has_no_verdict() -> None:
    """If the agent did not lead for minutes, the trial ends without result."""
    run = triggered(condition(50, 10, generation=7))
    run.decide(condition(60, 60, generation=90), after=PATIENCE_SECONDS)
    assert not on_trial(run)
    assert failures(run) == 0


MEASURED = condition(50, 10, rates=(500.0, 100.0), crossing=(0.5, MIDNIGHT - 60))


@pytest.mark.parametrize(("crosses", "failed"), [(0.3, 0), (0.31, 1), (0.5, 1)])
def test_measured_bytes_have_the_last_word(crosses: float, failed: int) -> None:
    """Clients may fetch from elsewhere: measured bytes decide once their whole window is after the rebalance."""
    run = triggered(MEASURED)
    run.decide(WELL, after=2)
    stable = MIDNIGHT + run.now
    run.decide(condition(10, 10, crossing=(crosses, stable - 1)), after=UNDISTURBED_SECONDS)
    assert on_trial(run)
    run.decide(condition(10, 10, crossing=(crosses, stable)), after=1)
    assert not on_trial(run)
    assert failures(run) == failed


def test_bytes_are_not_waited_for_for_ever() -> None:
    """If no measured bytes arrive, the result by assignment counts."""
    run = triggered(MEASURED)
    run.decide(WELL, after=2)
    run.decide(WELL, after=PATIENCE_SECONDS - 3)
    assert on_trial(run)
    run.decide(WELL, after=1)
    assert not on_trial(run)
    assert failures(run) == 0


def test_a_new_trigger_ends_a_trial_that_waits_for_bytes() -> None:
    """A trial that waits for bytes ends with a new trigger, and is no failure."""
    run = triggered(MEASURED)
    run.decide(WELL, after=2)
    assert run.decide(condition(40, 10, conditions=1), after=1).action is Action.REBALANCE
    assert failures(run) == 0


def test_a_proposal_is_on_no_trial() -> None:
    """A proposal changes nothing, so it is not on trial."""
    run = Run(rules=replace(HASTY, proposes=True))
    run.decide(WORTH_IT)
    assert not on_trial(run)


def test_what_crossed_before_a_move_says_nothing_of_it() -> None:
    """If replicas have just moved, bytes before the move do not count: near the prediction is a success."""
    just_moved = condition(50, 10, rates=(500.0, 100.0), crossing=(0.02, MIDNIGHT - 60))
    for crosses, failures in ((0.1, 0), (0.3, 0), (0.32, 1), (0.5, 1)):
        run = triggered(just_moved)
        run.decide(condition(10, 10), after=10)
        stable = run.wall + run.now
        run.decide(condition(10, 10, crossing=(crosses, stable)), after=UNDISTURBED_SECONDS)
        assert run.state.breaker.failures == failures
        assert run.state.breaker.trial is None
