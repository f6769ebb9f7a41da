"""`policy.decide`: every rule in order, windows, and what is stored from one decision to the next."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.agent.policy import EXEMPT, MAX_ROUNDS, Action, Changes, Decision, GroupCondition, Reason, rules_of
from samerack.agent.policy.decide import next_opening
from samerack.agent.policy.lag_guard import GrowingLag
from samerack.settings.policy import PolicyRules, WindowSettings
from tests.unit.agent.leading.policies import MIDNIGHT, NIGHT, RULES, Decisions, condition, ruled

CASES = {
    "nothing to gain": (condition(7, 7), Action.NOTHING, Reason.NOTHING_TO_GAIN),
    "a loss is no gain": (condition(3, 7), Action.NOTHING, Reason.NOTHING_TO_GAIN),
    "less than the minimum saving": (condition(4, 0), Action.SUPPRESS, Reason.BELOW_MIN_SAVING),
    "exactly the minimum saving": (condition(35, 30), Action.SUPPRESS, Reason.BELOW_MIN_SAVING),
    "just more": (condition(36, 30), Action.REBALANCE, Reason.RACKS_CHANGED),
    "after a restart": (condition(36, 30, changes=None), Action.REBALANCE, Reason.CHEAPER_PLAN),
    "a plan of the fall-back": (condition(36, 30, changes=Changes()), Action.REBALANCE, Reason.CHEAPER_PLAN),
    "racks before traffic": (
        condition(36, 30, changes=Changes(topics=("orders",), members=("m-1",), traffic=True)),
        Action.REBALANCE,
        Reason.RACKS_CHANGED,
    ),
    "members' racks": (
        condition(36, 30, changes=Changes(members=("m-1",))),
        Action.REBALANCE,
        Reason.MEMBERS_RACKS_CHANGED,
    ),
    "traffic": (
        condition(36, 30, changes=Changes(traffic=True), rates=(360.0, 300.0), error=9.9),
        Action.REBALANCE,
        Reason.TRAFFIC_CHANGED,
    ),
    "traffic, above the minimum by chance": (
        condition(36, 30, changes=Changes(traffic=True), rates=(360.0, 300.0), error=10.0),
        Action.SUPPRESS,
        Reason.BELOW_MIN_SAVING,
    ),
    "traffic, within what is uncertain": (
        condition(36, 24, changes=Changes(traffic=True), rates=(360.0, 240.0), error=60.0),
        Action.SUPPRESS,
        Reason.BELOW_MIN_SAVING,
    ),
    "traffic that is not measured now": (
        condition(36, 30, changes=Changes(traffic=True)),
        Action.SUPPRESS,
        Reason.BELOW_MIN_SAVING,
    ),
    "a deleted topic": (condition(36, 30, owns_deleted=True), Action.SUPPRESS, Reason.TOPIC_DELETED),
    "a deleted topic and nothing to gain": (condition(7, 7, owns_deleted=True), Action.NOTHING, Reason.NOTHING_TO_GAIN),
    "new partitions beside a deleted topic": (
        condition(36, 30, partitions_changed=True, owns_deleted=True),
        Action.REBALANCE,
        Reason.PARTITIONS_CHANGED,
    ),
    "load beyond the tolerance, though more crosses racks": (
        condition(3, 7, uneven=(0.3, 0.1)),
        Action.REBALANCE,
        Reason.UNEVEN_LOAD,
    ),
    "load within the tolerance": (condition(7, 7, uneven=(0.2, 0.1)), Action.NOTHING, Reason.NOTHING_TO_GAIN),
    "load that nobody can take": (condition(7, 7, uneven=(3.0, 3.0)), Action.NOTHING, Reason.NOTHING_TO_GAIN),
    "racks before load within the tolerance": (
        condition(36, 30, uneven=(0.1, 0.1)),
        Action.REBALANCE,
        Reason.RACKS_CHANGED,
    ),
    "partitions changed": (condition(partitions_changed=True), Action.REBALANCE, Reason.PARTITIONS_CHANGED),
    "second round": (condition(withheld=1, rounds=1), Action.REBALANCE, Reason.SECOND_ROUND),
    "second round first": (
        condition(50, 0, withheld=1, rounds=MAX_ROUNDS, partitions_changed=True),
        Action.REBALANCE,
        Reason.SECOND_ROUND,
    ),
}
NEEDED = [case for case, _, reason in CASES.values() if reason in EXEMPT]
REFUSED = {
    "propose": ruled(mode="propose"),
    "outside of windows": ruled(windows=(NIGHT,)),
    "no hour left": ruled(max_per_hour=0),
}


@pytest.mark.parametrize(("case", "action", "reason"), CASES.values(), ids=CASES.keys())
def test_each_condition_has_its_decision(case: GroupCondition, action: Action, reason: Reason) -> None:
    """With a full budget only the condition decides; the decision has the shares before and after, and what changed."""
    assert Decisions().decide(case) == Decision(
        action=action,
        reason=reason,
        before=case.present.cross_rack_share,
        after=case.possible.cross_rack_share,
        changes=case.changes,
        uneven=case.uneven,
    )


def test_a_rebalance_for_load_waits_as_others_do() -> None:
    """It waits as others do, is proposed once, spends from the budget, and is not judged by what it saves in bytes."""
    uneven = condition(7, 7, uneven=(0.5, 0.0))
    assert Decisions(rules=ruled(windows=(NIGHT,))).decide(uneven).reason is Reason.OUTSIDE_WINDOW
    long = condition(7, 7, uneven=(0.5, 0.0), pause_seconds=20.0)
    assert Decisions(rules=ruled(max_pause_seconds=10.0)).decide(long).reason is Reason.PAUSE_TOO_LONG
    proposing = Decisions(rules=ruled(mode="propose"))
    assert [proposing.decide(uneven).reason for _ in range(2)] == [Reason.UNEVEN_LOAD, Reason.PROPOSED]
    run = Decisions(rules=ruled(burst=1))
    assert run.decide(uneven).action is Action.REBALANCE
    assert run.state.breaker.trial is None
    assert run.decide(uneven).reason is Reason.OUT_OF_BUDGET


@pytest.mark.parametrize(
    ("pause", "most", "action"),
    [
        (10.0, 10.0, Action.REBALANCE),
        (21.0, 10.0, Action.SUPPRESS),
        (21.0, 0.0, Action.REBALANCE),
        (None, 10.0, Action.REBALANCE),
    ],
)
def test_a_pause_is_a_cost(pause: float | None, most: float, action: Action) -> None:
    """Where members are busy for 40 s per poll, each rebalance stops the group for that long."""
    run = Decisions(rules=ruled(max_pause_seconds=most))
    decision = run.decide(condition(50, 10, pause_seconds=pause))
    assert (decision.action, decision.pause_seconds) == (action, pause)
    assert (decision.reason is Reason.PAUSE_TOO_LONG) == (action is Action.SUPPRESS)
    needed = run.decide(condition(50, 10, partitions_changed=True, pause_seconds=pause))
    assert needed.action is Action.REBALANCE


@pytest.mark.parametrize("case", NEEDED)
@pytest.mark.parametrize("rules", REFUSED.values(), ids=REFUSED.keys())
def test_what_a_group_needs_is_followed_whatever_bars_the_rest(rules: PolicyRules, case: GroupCondition) -> None:
    """Partitions and second rounds are followed in any mode, at any time, on an empty budget, and spend nothing."""
    run = Decisions(rules=rules)
    run.spend(3)
    assert run.decide(case).action is Action.REBALANCE
    assert run.state.budget.tokens == 0
    assert run.state.budget.spent == ()


def test_a_rebalance_for_racks_spends_a_token() -> None:
    """Each rebalance costs one token, and without a token a trigger is suppressed until the next one."""
    run = Decisions()
    for left, conditions in ((2.0, 0), (1.0, 1), (0.0, 2)):
        assert run.decide(condition(50, conditions=conditions)).action is Action.REBALANCE
        assert run.state.budget.tokens == left
    waits = run.decide(condition(50, conditions=3))
    assert (waits.action, waits.reason, waits.until) == (Action.SUPPRESS, Reason.OUT_OF_BUDGET, MIDNIGHT + 60)


def test_an_empty_budget_gains_one_token_in_the_refill_time() -> None:
    """Also without a trigger, so that its gauge is correct; a clock that steps back refills no time twice."""
    run = Decisions(now=100.0)
    run.spend(3)
    assert run.decide(condition(50), after=59.9).action is Action.SUPPRESS
    assert run.decide(condition(50), after=0.1).action is Action.REBALANCE
    for after, tokens in ((90, 1.5), (-60, 1.5), (60, 1.5), (1e6, 3.0)):
        run.decide(condition(), after=after)
        assert run.state.budget.tokens == pytest.approx(tokens)


def test_no_more_in_an_hour_than_the_cap() -> None:
    """After the hourly cap a trigger waits until the first rebalance of the hour is an hour old, despite tokens."""
    run = Decisions(rules=ruled(burst=9, max_per_hour=2))
    assert run.decide(condition(50)).action is Action.REBALANCE
    assert run.decide(condition(50, conditions=1), after=600).action is Action.REBALANCE
    waits = run.decide(condition(50, conditions=2), after=600)
    assert (waits.reason, waits.until) == (Reason.HOURLY_CAP, MIDNIGHT + 3600)
    assert run.decide(condition(50, conditions=2), after=2399).action is Action.SUPPRESS
    assert run.decide(condition(50, conditions=2), after=1).action is Action.REBALANCE


def test_outside_of_windows_a_trigger_waits_for_the_next_to_open() -> None:
    """The decision has the time when the next window opens; the trigger is followed until the window closes."""
    run = Decisions(rules=ruled(windows=(NIGHT,)))
    waits = run.decide(condition(50))
    assert (waits.action, waits.reason, waits.until) == (Action.SUPPRESS, Reason.OUTSIDE_WINDOW, MIDNIGHT + 7200)
    assert run.decide(condition(50), after=7199).action is Action.SUPPRESS
    assert run.decide(condition(50), after=1).action is Action.REBALANCE
    assert run.decide(condition(50, conditions=1), after=7199).action is Action.REBALANCE
    assert run.decide(condition(50, conditions=2), after=1).action is Action.SUPPRESS


def test_a_saving_must_exceed_the_least_in_bytes_too() -> None:
    """A saving of exactly the least bytes is not enough, however many partitions it is."""
    run = Decisions(rules=ruled(min_saving_bytes_per_second=400.0))
    enough, too_little = condition(50, rates=(500.1, 100.0)), condition(50, rates=(500.0, 100.0))
    assert run.decide(too_little).reason is Reason.BELOW_MIN_SAVING
    assert run.decide(enough).action is Action.REBALANCE
    assert run.decide(condition(4, rates=(1000.0, 0.0))).reason is Reason.BELOW_MIN_SAVING


def test_a_saving_by_rounded_weights_alone_is_below_the_least() -> None:
    """Weights are rounded to powers of two: 7 points by them can be less than one by what is measured, which counts."""
    decision = Decisions().decide(condition(20, 13, changes=Changes(traffic=True), rates=(195.0, 187.0), error=1))
    assert (decision.reason, decision.before, decision.after) == (Reason.BELOW_MIN_SAVING, 0.195, 0.187)


def test_bytes_that_are_not_measured_are_waited_for_and_not_for_ever() -> None:
    """Without measured bytes the share decides after a wait; the wait restarts when they are missing again."""
    run = Decisions(rules=ruled(min_saving_bytes_per_second=400.0))
    waits = run.decide(condition(50), after=5)
    assert (waits.action, waits.reason, waits.until) == (Action.SUPPRESS, Reason.NOT_MEASURED, MIDNIGHT + 605)
    assert run.decide(condition(50), after=599).reason is Reason.NOT_MEASURED
    assert run.decide(condition(50), after=1).action is Action.REBALANCE
    assert run.decide(condition(50, rates=(500.0, 400.0))).reason is Reason.BELOW_MIN_SAVING
    assert run.decide(condition(50, conditions=1)).reason is Reason.NOT_MEASURED


@pytest.mark.parametrize(
    ("least", "bytes_per_second"),
    [
        ({}, 0.0),
        ({"min_saving_bytes_per_second": 300.0}, 300.0),
        ({"min_saving_dollars_per_day": 8.64}, 100.0),
        ({"min_saving_bytes_per_second": 300.0, "min_saving_dollars_per_day": 8.64}, 300.0),
        ({"min_saving_bytes_per_second": 30.0, "min_saving_dollars_per_day": 8.64}, 100.0),
    ],
)
def test_the_greater_of_bytes_and_dollars_counts(least: dict[str, float], bytes_per_second: float) -> None:
    """Both minimums must be exceeded; dollars are converted to bytes by the price."""
    rules = rules_of(PolicyRules.model_validate(least), dollars_per_byte=1e-6)
    assert rules.min_saving_bytes_per_second == pytest.approx(bytes_per_second)


def test_a_proposal_is_made_once_and_spends_what_a_rebalance_would() -> None:
    """A proposal is made once, and again when the gain since then exceeds the minimum saving."""
    run = Decisions(rules=ruled(mode="propose"))
    assert run.decide(condition(50, 30)).action is Action.PROPOSE
    stands = run.decide(condition(50, 30), after=1000)
    assert (stands.action, stands.reason) == (Action.NOTHING, Reason.PROPOSED)
    assert run.decide(condition(55, 30)).reason is Reason.PROPOSED
    assert run.decide(condition(56, 30)).action is Action.PROPOSE
    assert run.state.budget.tokens == 2.0
    assert run.decide(condition(7, 7)).reason is Reason.NOTHING_TO_GAIN
    assert run.decide(condition(50, 30)).action is Action.PROPOSE


def test_an_open_proposal_hides_none_for_another_reason() -> None:
    """One for racks hid all for lag or load. Each is made once, though lag comes and goes; after an hour anew."""
    racks = condition(50, 30)
    uneven = replace(racks, uneven=(0.5, 0.0))
    lag = replace(uneven, growing=GrowingLag(seconds=600.0, growth=0.5, members=("m-1",)), greatest_loads=(1.5, 0.6))
    no_room = replace(lag, greatest_loads=(1.5, 1.5))
    run = Decisions(rules=ruled(mode="propose"))
    for case, reason in ((racks, Reason.RACKS_CHANGED), (lag, Reason.LAG_GROWS), (uneven, Reason.UNEVEN_LOAD)):
        first, again = (run.decide(case, after=120.0) for _ in range(2))
        assert (first.action, first.reason) == (Action.PROPOSE, reason)
        assert (again.action, again.reason) == (Action.NOTHING, Reason.PROPOSED)
    for case in (racks, lag, racks, uneven, lag, uneven) * 12:
        assert run.decide(case, after=120.0).reason is Reason.PROPOSED
    assert run.decide(no_room).reason is Reason.NO_ROOM
    assert run.decide(racks, after=3600.0).reason is Reason.PROPOSED
    assert run.decide(lag).action is Action.PROPOSE
    assert run.decide(condition(7, 7)).reason is Reason.NOTHING_TO_GAIN
    assert run.decide(lag).reason is Reason.PROPOSED
    assert run.decide(racks).action is Action.PROPOSE


def test_what_a_stuck_member_withholds_is_no_new_partition_for_ever() -> None:
    """Second rounds end; a partition that stays withheld is then followed within the budget, and suppressed."""
    last, after = (condition(withheld=1, rounds=rounds) for rounds in (MAX_ROUNDS, MAX_ROUNDS + 1))
    assert Decisions().decide(last).reason is Reason.SECOND_ROUND
    assert Decisions().decide(after).action is Action.NOTHING
    stuck = condition(withheld=1, rounds=MAX_ROUNDS + 1, partitions_changed=True)
    for rules, most in ((RULES, 3), (ruled(max_per_hour=2), 2)):
        run = Decisions(rules=rules)
        decisions = [run.decide(stuck) for _ in range(20)]
        followed = [one.reason for one in decisions if one.action is Action.REBALANCE]
        assert followed == [Reason.PARTITIONS_CHANGED] * most


@given(least=st.integers(0, 100), present=st.integers(0, 100), possible=st.integers(0, 100))
def test_acts_exactly_beyond_the_least_saving(least: int, present: int, possible: int) -> None:
    """A saving above the least in whole points acts and the least itself does not, despite float rounding."""
    run = Decisions(rules=ruled(min_saving=least / 100))
    assert (run.decide(condition(present, possible)).action is Action.REBALANCE) == (present - possible > least)


# windows

BERLIN = "Europe/Berlin"
BERLINS_NIGHT = WindowSettings(cron="30 2 * * *", minutes=60, timezone=BERLIN)


def at(text: str) -> float:
    """Seconds since 1970 of a time in UTC, or with its own offset."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def test_any_window_will_do() -> None:
    """One open window is enough; else the first opening is returned. One longer than its pauses is always open."""
    windows = [WindowSettings(cron="0 2 * * *", minutes=60), WindowSettings(cron="0 12 * * SAT,SUN", minutes=60)]
    assert next_opening(windows, at("2027-01-16T12:30:00")) is None
    assert next_opening(windows, at("2027-01-16T05:00:00")) == at("2027-01-16T12:00:00")
    assert next_opening(windows, at("2027-01-18T05:00:00")) == at("2027-01-19T02:00:00")
    longer = WindowSettings(cron="*/10 * * * *", minutes=15)
    start = at("2027-01-16T00:00:00")
    assert [next_opening([longer], start + minute * 60) for minute in range(60)] == [None] * 60


@pytest.mark.parametrize(
    ("wall", "opening"),
    [
        ("2027-01-16T02:29:59+01:00", "2027-01-16T02:30:00+01:00"),
        ("2027-01-16T03:29:59+01:00", None),
        # 2027-03-28: 02:00 becomes 03:00, so 02:30 does not come; the window opens right after it, for its hour
        ("2027-03-28T01:59:59+01:00", "2027-03-28T03:00:00+02:00"),
        ("2027-03-28T03:00:00+02:00", None),
        ("2027-03-28T03:59:59+02:00", None),
        ("2027-03-28T04:00:00+02:00", "2027-03-29T02:30:00+02:00"),
        # 2027-10-31: 03:00 becomes 02:00, so 02:30 comes twice; the window opens the first time only
        ("2027-10-31T02:29:59+02:00", "2027-10-31T02:30:00+02:00"),
        ("2027-10-31T02:30:00+02:00", None),
        ("2027-10-31T02:29:59+01:00", None),
        ("2027-10-31T02:30:00+01:00", "2027-11-01T02:30:00+01:00"),
        ("2027-10-31T02:45:00+01:00", "2027-11-01T02:30:00+01:00"),
        ("2027-10-31T03:10:00+01:00", "2027-11-01T02:30:00+01:00"),
        ("2027-10-31T03:31:00+01:00", "2027-11-01T02:30:00+01:00"),
    ],
)
def test_clocks_that_change_neither_lose_a_window_nor_open_it_twice(wall: str, opening: str | None) -> None:
    """Minutes are real minutes, whatever the local clock shows."""
    assert next_opening([BERLINS_NIGHT], at(wall)) == (None if opening is None else at(opening))


WINDOWS = st.builds(
    WindowSettings,
    cron=st.builds("{} {} * * {}".format, st.integers(0, 59), st.integers(0, 23), st.sampled_from(["*", "MON", "6,7"])),
    minutes=st.floats(0.5, 3000.0),
    timezone=st.sampled_from(["UTC", BERLIN, "America/St_Johns", "Australia/Lord_Howe"]),
)


@given(window=WINDOWS, wall=st.floats(1_798_761_600.0, 1_830_297_600.0))
def test_what_is_asked_to_open_opens_and_not_before(window: WindowSettings, wall: float) -> None:
    """At the returned time the window is open, just before it is closed, and that time is in the future."""
    opening = next_opening([window], wall)
    if opening is not None:
        assert wall < opening < wall + 8.1 * 86_400
        assert next_opening([window], opening) is None
        assert next_opening([window], opening - 0.5) == opening
