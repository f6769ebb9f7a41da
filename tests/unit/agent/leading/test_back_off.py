"""What makes the agent leave a group, for how long, and when the pause starts from its first value again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.agent.policy.back_off import (
    REFRESH_SECONDS,
    RESET_SECONDS,
    BackOff,
    BackOffState,
    PlanHealth,
    PlanRecord,
    backed_off,
    lost,
    planned,
)
from samerack.agent.policy.back_off_causes import (
    LOST_SECONDS,
    MAX_FAILED,
    MAX_REJECTED,
    RULES,
    SOON_SECONDS,
    BackOffError,
    Cause,
)

A_B = {"a": frozenset({"t"}), "b": frozenset({"t"})}
TIMED = [cause for cause in Cause if RULES[cause].first_seconds]


@pytest.mark.parametrize("cause", TIMED)
def test_a_pause_doubles_up_to_its_limit(cause: Cause) -> None:
    """A cause that repeats right after the agent's return doubles the pause, up to the limit."""
    rule, state, now = RULES[cause], BackOffState(), 0.0
    expected = rule.first_seconds
    for _ in range(12):
        state = backed_off(state, cause, now)
        assert state.seconds(cause) == expected
        assert state.is_out(now + expected - 0.01)
        now += expected
        assert not state.is_out(now)
        expected = min(rule.max_seconds, 2 * expected)
    assert expected == rule.max_seconds
    both = backed_off(backed_off(BackOffState(), Cause.PLANS_FAILED, 0), Cause.CONVERTED, 1)
    assert (both.seconds(Cause.PLANS_FAILED), both.seconds(Cause.CONVERTED)) == (60, 5), "each has its own"
    assert (both.is_out(59), both.is_out(60)) == (True, False), "the longer one counts"


def test_after_a_quiet_time_the_pause_begins_anew() -> None:
    """After ten minutes in the group, or the last pause if that is longer, the pause is the first one again."""
    state = backed_off(BackOffState(), Cause.PLANS_FAILED, 0)
    soon = backed_off(state, Cause.PLANS_FAILED, 60 + RESET_SECONDS - 1)
    assert soon.seconds(Cause.PLANS_FAILED) == 120
    later = backed_off(state, Cause.PLANS_FAILED, 60 + RESET_SECONDS)
    assert later.seconds(Cause.PLANS_FAILED) == 60
    longest = state
    for now in (60, 180, 420, 900, 1860, 3780):
        longest = backed_off(longest, Cause.PLANS_FAILED, now)
    assert longest.seconds(Cause.PLANS_FAILED) == 3600
    over = 3780 + 3600
    assert backed_off(longest, Cause.PLANS_FAILED, over + RESET_SECONDS).seconds(Cause.PLANS_FAILED) == 3600
    assert backed_off(longest, Cause.PLANS_FAILED, over + 3600).seconds(Cause.PLANS_FAILED) == 60


def test_three_failed_plans_in_a_row_are_enough() -> None:
    """An optimal plan resets the count of failed plans."""
    health = PlanHealth()
    for number, failed in enumerate((True, True, False, True, True)):
        health = planned(health, PlanRecord(at=60.0 * number, subscriptions=A_B, failed=failed))
        assert health.cause is None
    assert planned(health, PlanRecord(at=300, subscriptions=A_B, failed=True)).cause is Cause.PLANS_FAILED
    back_off = BackOff(lambda: 0.0)
    for _ in range(2):  # after a pause the count starts at zero
        for _ in range(MAX_FAILED - 1):
            back_off.planned(PlanRecord(at=0, subscriptions=A_B, failed=True))
        with pytest.raises(BackOffError):
            back_off.planned(PlanRecord(at=0, subscriptions=A_B, failed=True))
        back_off.start(Cause.PLANS_FAILED, "")


def _after(*rounds: PlanRecord) -> PlanHealth:
    health = PlanHealth()
    for one in rounds:
        health = planned(health, one)
    return health


def test_a_group_that_rebalances_after_each_plan_rejects_them() -> None:
    """The first plan does not count; three more, each soon after the one before, do."""
    first = PlanRecord(at=0, subscriptions=A_B)
    rounds = [replace(first, at=3.0 * number) for number in range(MAX_REJECTED + 1)]
    assert _after(*rounds[:-1]).cause is None
    assert _after(*rounds).cause is Cause.PLANS_REJECTED


@pytest.mark.parametrize(
    "harmless",
    [
        PlanRecord(at=9, subscriptions=A_B | {"c": frozenset({"t"})}),
        PlanRecord(at=9, subscriptions=A_B | {"b": frozenset({"t", "u"})}),
        PlanRecord(at=9, subscriptions=A_B, asked=True),
        PlanRecord(at=6 + SOON_SECONDS, subscriptions=A_B),
    ],
    ids=["another member", "another subscription", "asked for", "later"],
)
def test_other_rebalances_are_not_held_against_the_plan(harmless: PlanRecord) -> None:
    """Rebalances of new members, of changed subscriptions, of the agent itself, or much later do not count."""
    assert _after(*(PlanRecord(at=at, subscriptions=A_B) for at in (0, 3, 6)), harmless).cause is None


def test_the_second_round_is_part_of_a_cooperative_plan() -> None:
    """A round that withheld partitions needs another one, which does not count as a rejection."""
    rounds = [PlanRecord(at=number, subscriptions=A_B, withheld=number % 2 == 0) for number in range(8)]
    assert _after(*rounds).rejected < MAX_REJECTED
    assert _after(*(PlanRecord(at=number, subscriptions=A_B, withheld=True) for number in range(8))).cause is None


def test_a_membership_lost_again_and_again_was_taken() -> None:
    """Three losses in ten minutes are an eviction; older ones do not count."""
    health = lost(lost(PlanHealth(), 0), 1)
    assert health.cause is None
    assert lost(health, LOST_SECONDS - 1).cause is Cause.EVICTED
    assert lost(health, LOST_SECONDS).cause is None


def test_a_group_is_remembered() -> None:
    """The loss above the limit raises; during the pause the agent stays out, with the reason."""
    now = [100.0]
    back_off = BackOff(lambda: now[0])
    assert not back_off.is_out
    back_off.lost()
    back_off.lost()
    with pytest.raises(BackOffError) as caught:
        back_off.lost()
    assert caught.value.cause is Cause.EVICTED
    assert str(caught.value) == RULES[Cause.EVICTED].symptom
    assert back_off.start(caught.value.cause, str(caught.value)) == 60
    assert (back_off.is_out, back_off.reason, back_off.last) == (
        True,
        RULES[Cause.EVICTED].symptom,
        Cause.EVICTED,
    )
    now[0] += 60
    assert not back_off.is_out
    with pytest.raises(BackOffError):
        back_off.lost()  # the next eviction is above the limit at once
    back_off.start(Cause.FOREIGN_AGENT, "another agent leads")
    assert back_off.last is Cause.FOREIGN_AGENT


# topics that appear, and partitions that are added

REFRESHES = st.lists(st.floats(0, 300), min_size=40, max_size=40)
"""When each of forty members next refreshes its topics."""


@given(refreshes=REFRESHES)
def test_forty_members_that_find_new_partitions_keep_the_agent_leading(refreshes: list[float]) -> None:
    """Members of librdkafka rejoin for new partitions too, with the same subscription, and are no rejection."""
    subscriptions = {f"m-{number}": frozenset({"t"}) for number in range(40)}
    health = planned(PlanHealth(), PlanRecord(at=0, subscriptions=subscriptions))
    health = planned(health, PlanRecord(at=100, subscriptions=subscriptions, asked=True, changed=True))
    for at in sorted(refreshes):
        health = planned(health, PlanRecord(at=100 + at, subscriptions=subscriptions))
        assert health.cause is None


@pytest.mark.parametrize("change", ["partitions", "subscriptions"])
def test_a_change_excuses_each_member_once(change: str) -> None:
    """A group that rebalances after each plan rejects the plans, whatever has changed before."""
    health = planned(PlanHealth(), PlanRecord(at=0, subscriptions=A_B))
    new = A_B if change == "partitions" else {**A_B, "b": frozenset({"t", "u"})}
    health = planned(health, PlanRecord(at=3, subscriptions=new, asked=True, changed=change == "partitions"))
    rounds = 0
    while health.cause is None:
        rounds += 1
        health = planned(health, PlanRecord(at=3 + rounds, subscriptions=new))
    assert rounds == MAX_REJECTED + (len(A_B) if change == "partitions" else 0)
    assert health.cause is Cause.PLANS_REJECTED


def test_an_excuse_does_not_last() -> None:
    """A change does not count any more after twice the usual refresh time of members."""
    health = planned(PlanHealth(), PlanRecord(at=0, subscriptions=A_B, changed=True))
    for number in range(MAX_REJECTED + 1):
        health = planned(health, PlanRecord(at=REFRESH_SECONDS + number, subscriptions=A_B))
    assert health.cause is Cause.PLANS_REJECTED
