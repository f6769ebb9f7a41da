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


def stuck(rounds: int) -> GroupCondition:
    """A group in which a member keeps a partition after so many rounds."""
    return condition(50, 50 if rounds > MAX_ROUNDS else 10, withheld=1, rounds=rounds)


def brings(present: int) -> GroupCondition:
    """A group of which nothing better is known, as where the plan fell back."""
    return condition(present, present)


def crosses(share: float, since: float) -> GroupCondition:
    """A group with the plan in force, of which this share was measured since then."""
    return condition(10, 10, crossing=(share, MIDNIGHT + since))


LED = condition(50, 10, generation=7)
COUNTED = condition(50, 10, generation=7, crossing=(0.5, 0.0), rates=(500.0, 100.0))
MEASURED = condition(50, 10, rates=(500.0, 100.0), crossing=(0.5, MIDNIGHT - 60))
JUST_MOVED = condition(50, 10, rates=(500.0, 100.0), crossing=(0.02, MIDNIGHT - 60))
"""Replicas have just moved: what crossed before the move says nothing of it."""
SECOND = (0.0, condition(10, 10, withheld=1, rounds=1, generation=8))
CALM = UNDISTURBED_SECONDS


@pytest.mark.parametrize(
    ("case", "steps", "failed", "waits"),
    [
        pytest.param(WORTH_IT, [(2, WELL)], 0, True, id="as predicted, so far"),
        pytest.param(WORTH_IT, [(2, WELL), (CALM, WELL)], 0, False, id="as predicted, for a minute"),
        pytest.param(WORTH_IT, [(2, brings(31)), (SETTLED_SECONDS - 0.1, brings(31))], 0, True, id="not settled"),
        pytest.param(WORTH_IT, [(2, brings(30)), (SETTLED_SECONDS, brings(30))], 0, True, id="half of it"),
        pytest.param(WORTH_IT, [(2, brings(31)), (SETTLED_SECONDS, brings(31))], 1, False, id="less than half"),
        pytest.param(WORTH_IT, [(2, brings(60)), (SETTLED_SECONDS, brings(60))], 1, False, id="worse"),
        pytest.param(WORTH_IT, [(1, WORTH_IT)], 1, True, id="a trigger under the same conditions"),
        pytest.param(WORTH_IT, [(SETTLED_SECONDS, stuck(1))] * 3, 0, True, id="a second round is waited for"),
        pytest.param(
            WORTH_IT,
            [*[(SETTLED_SECONDS, stuck(1))] * 3, (1, stuck(MAX_ROUNDS + 1))],
            1,
            False,
            id="a stuck member's is not",
        ),
        pytest.param(
            LED, [SECOND, (CALM - 1, condition(10, 10, generation=9 + MAX_OTHERS))], 0, True, id="other rebalances"
        ),
        pytest.param(
            LED, [SECOND, (CALM - 1, condition(10, 10, generation=10 + MAX_OTHERS))], 1, False, id="a storm of them"
        ),
        pytest.param(
            COUNTED,
            [(CALM, condition(10, 10, generation=8)), (1, condition(10, 10, generation=30))],
            0,
            True,
            id="a deploy after a calm minute",
        ),
        pytest.param(
            LED, [(PATIENCE_SECONDS, condition(60, 60, generation=90))], 0, False, id="it did not lead for minutes"
        ),
        pytest.param(MEASURED, [(2, WELL), (CALM, crosses(0.5, 1))], 0, True, id="a window that began before"),
        pytest.param(MEASURED, [(2, WELL), (CALM, crosses(0.3, 2))], 0, False, id="half by measured bytes"),
        pytest.param(MEASURED, [(2, WELL), (CALM, crosses(0.31, 2))], 1, False, id="less than half by bytes"),
        pytest.param(MEASURED, [(2, WELL), (PATIENCE_SECONDS - 3, WELL)], 0, True, id="bytes are waited for"),
        pytest.param(MEASURED, [(2, WELL), (PATIENCE_SECONDS - 3, WELL), (1, WELL)], 0, False, id="bytes do not come"),
        pytest.param(
            MEASURED, [(2, WELL), (1, condition(40, 10, conditions=1))], 0, True, id="a new trigger ends the wait"
        ),
        pytest.param(JUST_MOVED, [(10, WELL), (CALM, crosses(0.3, 10))], 0, False, id="near the prediction"),
        pytest.param(JUST_MOVED, [(10, WELL), (CALM, crosses(0.32, 10))], 1, False, id="far from the prediction"),
    ],
)
def test_how_a_rebalance_on_trial_is_evaluated(
    case: GroupCondition, steps: list[tuple[float, GroupCondition]], failed: int, *, waits: bool
) -> None:
    """It succeeds if it brings half of what was predicted, by assignment or, where they are measured, by bytes."""
    run = triggered(case)
    for after, seen in steps:
        run.decide(seen, after=after)
    assert (failures(run), on_trial(run)) == (failed, waits)


def test_a_success_ends_failures_in_a_row() -> None:
    """The count is of failures without a success between them."""
    run = triggered()
    run.state = replace(run.state, breaker=replace(run.state.breaker, failures=2))
    run.decide(WELL, after=2)
    run.decide(WELL, after=CALM)
    assert failures(run) == 0


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


def test_a_proposal_is_on_no_trial() -> None:
    """A proposal changes nothing, so it is not on trial."""
    run = Run(rules=replace(HASTY, proposes=True))
    run.decide(WORTH_IT)
    assert not on_trial(run)
