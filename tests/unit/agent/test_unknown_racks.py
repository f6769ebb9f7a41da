"""A group whose members or brokers have no rack has no cross-rack share: every place says so instead of 0 %."""

from __future__ import annotations

from io import StringIO

import pytest

from samerack.agent.leading.progress import Gain, from_json
from samerack.agent.leading.takeover_gain import worth_refusal
from samerack.agent.policy import Action, Decision, GroupCondition, Reason, decide, fresh
from samerack.agent.policy.measured import byte_rates, shares_of, weighed_shares
from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.consumer.registry import Options
from samerack.assignors.evaluate import evaluate
from samerack.assignors.model import Problem
from samerack.cli import lead, plan
from samerack.cli.cost import groups_table
from samerack.cli.curve import points_of
from samerack.cli.live_plan import per_member, unknown_racks
from samerack.common.console import Console
from samerack.common.money import shipped
from samerack.planning import planner
from samerack.planning.mode import Mode
from samerack.reporting import costs
from samerack.reporting.baseline import curve_of
from samerack.traffic.model import Shares
from tests.unit.agent.leading.policies import RULES
from tests.unit.agent.measured import GB, NEAR, RANGE, ROTATED, SPREAD, A, B, C, flow, group, problem, snapshot
from tests.unit.agent.values import UNSET, cluster

BARE = {"m1": None, "m2": None, "m3": None}
MODE = Mode(cooperative=False, keep_copartitioned=False, rack_aware_fetch=True)
BARE_GROUP = group(
    "bare",
    members=BARE,
    flows=[flow("", rack, 5 * GB) for rack in (A, B, C)],
    shares=Shares(random=2 / 3),
    made=problem(ROTATED, BARE, RANGE),
)


def _without_broker_racks() -> Problem:
    return build_problem(
        topics={"clicks": [[None]] * 6},
        members=[
            MemberInput(id=name, topics=("clicks",), rack=rack, owned={"clicks": RANGE[name]})
            for name, rack in SPREAD.items()
        ],
    )


UNKNOWN = {
    "members without rack": problem(ROTATED, BARE, RANGE),
    "brokers without rack": _without_broker_racks(),
}


@pytest.mark.parametrize("unknown", UNKNOWN.values(), ids=UNKNOWN)
def test_nothing_known_is_no_share(unknown: Problem) -> None:
    """Neither the present assignment nor a plan nor a curve has a share, by partitions or by measured bytes."""
    made = planner.make_plan(unknown, MODE)
    rates = {("clicks", number): 100.0 for number in range(6)}
    for cost in (made.before, made.after):
        assert (cost.known, cost.known_share, cost.min_share, cost.known_partitions_across) == (0, None, None, None)
    assert shares_of(made, None) == shares_of(made, rates) == (None, None)
    assert weighed_shares(made.before, made.after, byte_rates(made, rates)) == (None, None)
    assert {point.share for point in curve_of(unknown, rates)} == {None}
    assert {(point["cross_rack"], point["cross_rack_share"]) for point in points_of(unknown, Options())} == {
        (None, None)
    }


def test_a_share_is_of_what_is_known() -> None:
    """Of three members one has no rack: the two partitions of each of the others are known, and all of those cross."""
    mixed = problem(ROTATED, {"m1": None, "m2": C, "m3": C}, {"m1": (2, 5), "m2": (0, 3), "m3": (1, 4)})
    cost = evaluate(mixed, mixed.owner)
    assert (cost.known, cost.known_cross_rack, cost.known_share) == (4, 4, 1.0)
    assert cost.min_share == pytest.approx(4 / 6)
    near = problem(ROTATED, SPREAD, NEAR)
    assert evaluate(near, near.owner).known_share == 0.0


def test_the_policy_decides_nothing_by_an_unknown_share() -> None:
    """It has nothing to gain, and the decision has no share that could be shown."""
    made = planner.make_plan(UNKNOWN["members without rack"], MODE)
    condition = GroupCondition(
        present=made.before,
        possible=made.after,
        partitions_changed=False,
        withheld=0,
        rounds=0,
        racks_changed=True,
    )
    _, decision = decide(fresh(RULES, 0.0), condition, 0.0, 0.0, RULES)
    assert (decision.action, decision.before, decision.after) == (Action.NOTHING, None, None)


GAIN = Gain(
    members=3,
    cross_rack_now=None,
    cross_rack_then=None,
    share_now=None,
    share_then=None,
    saved_bytes_per_second=None,
    saved_dollars_per_day=None,
    rejoin_seconds=None,
    held_seconds_at_most=3.0,
    pause_seconds_at_most=None,
)


def test_a_takeover_of_unknown_gain_says_so_and_how_to_know_it() -> None:
    """`lead --dry-run` prints unknown with the cure, and the refusal is not `0.0% would be`."""
    words = lead.gain_words(GAIN)
    assert "read across racks: unknown now, unknown under the agent" in words
    assert "racks.client_ids" in words
    assert "%" not in words
    decision = Decision(action=Action.NOTHING, reason=Reason.NOTHING_TO_GAIN, before=None, after=None)
    refusal = worth_refusal(decision, asked=True)
    assert "not known" in refusal
    assert "client.rack" in refusal
    assert from_json(b'{"group": "g", "gain": null}').gain is None


def test_cost_has_no_figure_for_bytes_without_racks() -> None:
    """What crosses, its share and its price are `-` in the table and null in JSON, also of topics."""
    report = costs.report(snapshot(BARE_GROUP), shipped("aws"), roles={})
    (cost,) = report.groups
    assert (cost.cross_rack_bytes, cost.dollars, cost.dollars_per_month, cost.share) == (None, None, None, None)
    assert {(topic.cross_rack_bytes, topic.dollars) for topic in cost.topics} == {(None, None)}
    assert {pair.dollars for pair in cost.pairs} == {None}
    assert (report.totals.cross_rack_bytes, report.totals.share, report.totals.dollars_per_month) == (None, None, None)
    console = Console(width=100, record=True, file=StringIO())
    console.print(groups_table(report, width=100))
    row = next(line for line in console.export_text().splitlines() if line.strip().startswith("bare"))
    assert row.split()[3:] == ["-", "-", "-", "67", "%", "-", "-"]


def test_a_plan_shows_unknown_and_the_cure() -> None:
    """The table has `-`, the summary `unknown`, and a warning says what to set."""
    made = planner.make_plan(UNKNOWN["members without rack"], MODE)
    (first, *_) = per_member(made, made.final)
    assert first["cross_rack"] is None
    (warning,) = unknown_racks([None, None, A], cluster())
    assert warning.startswith("2 of 3 members have no rack")
    assert "client.rack" in warning
    (warning,) = unknown_racks([A], cluster({1: "a", 2: UNSET}))
    assert warning.startswith("brokers 2 have no rack")


def test_a_mixed_group_says_of_how_many_partitions_it_knows() -> None:
    """The share of a plan names the known partitions it is of."""
    assert plan.across({"cross_rack": None, "known": 0, "cross_rack_share": None}, partitions=6) == "unknown"
    known = {"cross_rack": 2, "known": 4, "cross_rack_share": 0.5}
    assert plan.across(known, partitions=6) == "2 of 4 known partitions (50 %)"
    assert plan.across(known, partitions=4) == "2 partitions (50 %)"
