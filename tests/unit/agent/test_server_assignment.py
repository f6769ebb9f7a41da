"""What is reported where brokers assign, and where racks are not known: no share then, and no 0 %."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest

from samerack.agent.leading.progress import from_json as progress_of
from samerack.agent.leading.takeover import worth_refusal
from samerack.agent.policy import Action, Changes, Decision, GroupCondition, Reason, decide, fresh
from samerack.agent.policy.measured import byte_rates, shares_of
from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.consumer.registry import Options
from samerack.assignors.evaluate import evaluate
from samerack.assignors.problem import Problem
from samerack.cli import plan, requests
from samerack.cli.cost import groups_table
from samerack.cli.live_plan import PlanFigures, per_member, unknown_racks
from samerack.cluster.broker_configs import CLASS, LINE, ServerAssignors, from_values
from samerack.common.console import Console
from samerack.common.money import shipped
from samerack.planning import planner
from samerack.planning.curve import points_of
from samerack.planning.problem import Mode
from samerack.reporting import costs
from samerack.reporting.baseline import curve_of, server_assignment, server_share, with_servers
from samerack.reporting.report import ServerAssignment, from_json, to_json
from samerack.traffic.snapshot import GroupTraffic, Shares, TrafficSnapshot
from samerack.traffic.throughput import Rate
from tests.unit.agent.leading.policies import RULES
from tests.unit.agent.leading.policies import cost as cost_of
from tests.unit.agent.measured import (
    GB,
    NEAR,
    RANGE,
    ROTATED,
    SPREAD,
    A,
    B,
    C,
    flow,
    group,
    member,
    problem,
    snapshot,
    weighed,
)
from tests.unit.agent.test_web_requests import GAIN
from tests.unit.agent.values import UNSET, cluster

EVERYWHERE = from_values({1: f"{CLASS},uniform", 2: f"{CLASS},uniform"})
LAST = from_values({1: f"uniform,{CLASS}", 2: f"uniform,{CLASS}"})
SOME = from_values({1: f"{CLASS},uniform", 2: "uniform"})
NOWHERE = from_values({1: "uniform", 2: "uniform"})
UNKNOWN = ServerAssignors(unknown="not allowed")
FAR = Shares(present_bytes=2 / 3, present_partitions=2 / 3, optimal=0.0, optimal_by="bytes", random=2 / 3)


def managed(**changes: object) -> GroupTraffic:
    """A group of the new protocol whose partitions are read across racks but for a third."""
    crossing = [flow(A, B, GB), flow(B, C, GB), flow(C, C, GB)]
    made = group(kind="consumer", assignor="uniform", flows=crossing, shares=FAR, made=problem(ROTATED, SPREAD, RANGE))
    return replace(made, **changes)  # type: ignore[arg-type]  # fields by name


def server_of(taken: TrafficSnapshot, offered: ServerAssignors = NOWHERE) -> ServerAssignment | None:
    """What the report of a snapshot says of its only group."""
    report = costs.report(taken, shipped("aws"), roles={})
    (cost,) = with_servers(report, taken, offered=lambda: offered, share_of=server_share).groups
    return cost.server


def test_what_the_assignor_would_save_is_priced() -> None:
    """Two of three gigabytes cross; with samerack's assignor none would."""
    server = server_of(snapshot(managed()))
    assert server is not None
    assert (server.assignor, server.installed, server.share) == ("uniform", False, 0.0)
    assert server.saves_dollars_per_month == pytest.approx(shipped("aws").dollars(2 * GB) / 60 * 730 * 3600)


def test_a_group_that_members_assign_has_no_server() -> None:
    """Brokers are not even asked for their assignors where no group is theirs."""
    taken = snapshot(group())
    report = costs.report(taken, shipped("aws"), roles={})

    def ask() -> ServerAssignors:
        raise AssertionError

    assert with_servers(report, taken, offered=ask, share_of=server_share) == report


def test_racks_that_only_the_agent_knows_do_not_help_the_brokers() -> None:
    """Brokers know the racks that members send: a plan without them cannot be near, and the share shows it."""
    silent = tuple(member(name, rack, source="client-id") for name, rack in SPREAD.items())
    assert server_share(managed()) == 0.0
    assert server_share(managed(members=silent, problem=problem(ROTATED, SPREAD, NEAR))) == 0.0  # nothing moves
    share = server_share(managed(members=silent))
    assert share is not None
    assert share > 0


def test_replicas_that_may_not_serve_are_counted() -> None:
    """The assignor takes any replica for near; where brokers serve from leaders only, the bytes cross all the same."""
    replicas = ((A, B), (A, B), (A, B), (A, B), (A, B), (A, B))
    racks = {"m1": A, "m2": B}
    owned = {"m1": (0, 1, 2), "m2": (3, 4, 5)}
    leaders = problem(replicas, racks, owned, reads_any_replica=False)
    assert server_share(managed(problem=leaders)) == 0.5
    weights, rates = (1, 1, 1, 2, 2, 1), (1.0, 1.0, 1.0, 3.0, 3.0, 1.0)
    assert server_share(weighed(managed(problem=leaders), rates, weights)) == pytest.approx(7 / 10)
    assert server_share(managed(problem=None)) is None


def test_before_a_measurement_nothing_is_zero() -> None:
    """Without a window there is no price, and without a problem no share."""
    server = server_of(replace(snapshot(managed(flows=())), window_start=0.0, window_end=0.0))
    assert server is not None
    assert server.saves_dollars_per_month is None
    server = server_of(snapshot(managed(problem=None, assignor="")))
    assert server is not None
    assert (server.assignor, server.share, server.saves_dollars_per_month) == ("", None, None)


@pytest.mark.parametrize(
    ("assignor", "offered", "change", "part"),
    [
        ("samerack", EVERYWHERE, "", "nothing to do"),
        ("samerack", UNKNOWN, "", "nothing to do"),
        ("samerack", EVERYWHERE, "restart one member", "restart one member"),
        ("samerack", SOME, "", "not every broker has samerack's assignor: put samerack's broker jar"),
        ("uniform", NOWHERE, "", LINE),
        ("uniform", UNKNOWN, "", "the brokers' assignors are unknown"),
        ("uniform", EVERYWHERE, "", "members ask for uniform: unset their group.remote.assignor"),
        ("uniform", EVERYWHERE, "", "set samerack.assignor.name to it"),
        ("uniform", LAST, "", "group.remote.assignor=samerack in the members"),
    ],
)
def test_the_advice_fits_what_brokers_have(assignor: str, offered: ServerAssignors, change: str, part: str) -> None:
    """Each state has its own next step."""
    made = server_assignment(assignor, offered, share=0.0, saves_dollars_per_month=1.0, change=change)
    assert part in made.advice
    assert (made.saves_dollars_per_month is None) == (assignor == "samerack")
    assert bool(made.unknown) == (offered is UNKNOWN)


def test_an_assignor_that_took_the_name_of_a_built_in_is_samerack() -> None:
    """Where no broker offers `uniform` itself, a group with that name needs no change and saves nothing by one."""
    near = replace(FAR, present_bytes=0.0, present_partitions=0.0)
    server = server_of(snapshot(managed(shares=near)), from_values({1: f"{CLASS},range"}))
    assert server is not None
    assert (server.assignor, server.saves_dollars_per_month) == ("samerack", None)
    assert server.advice.startswith("nothing to do")


def test_a_group_of_static_members_needs_a_dynamic_one() -> None:
    """After restarts of each member, and of all, 6 of 9 partitions stayed across racks."""
    static = server_of(snapshot(_static("three")), EVERYWHERE)
    assert static is not None
    assert "start another consumer in it without group.instance.id" in static.advice
    mixed = server_of(snapshot(_static(None)), EVERYWHERE)
    assert mixed is not None
    assert "restart one member" in mixed.advice


def _static(last: str | None) -> GroupTraffic:
    """A group far from what samerack's assignor would assign; all its members are static but, maybe, the last."""
    made = managed(assignor="samerack")
    *others, third = made.members
    return replace(
        made, members=(*(replace(one, instance_id=one.id) for one in others), replace(third, instance_id=last))
    )


def test_the_json_has_it() -> None:
    """The report is read back equal, also that of an agent before this field."""
    taken = snapshot(managed())
    report = costs.report(taken, shipped("aws"), roles={})
    full = with_servers(report, taken, offered=lambda: SOME, share_of=server_share)
    assert full.groups[0].server is not None
    assert full.groups[0].server.lacking == (2,)
    assert from_json(to_json(report).replace(b',"server":null', b"")) == report


# racks that are not known

BARE = {"m1": None, "m2": None, "m3": None}
MODE = Mode(cooperative=False, rack_aware_fetch=True)
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


UNKNOWN_RACKS = {"members without rack": problem(ROTATED, BARE, RANGE), "brokers without rack": _without_broker_racks()}


@pytest.mark.parametrize("unknown", UNKNOWN_RACKS.values(), ids=UNKNOWN_RACKS)
def test_nothing_known_is_no_share(unknown: Problem) -> None:
    """Neither the present assignment nor a plan nor a curve has a share, by partitions or by measured bytes."""
    made = planner.make_plan(unknown, MODE)
    rates = {("clicks", number): 100.0 for number in range(6)}
    for cost in (made.before, made.after):
        assert (cost.known, cost.known_share, cost.min_share, cost.known_partitions_across) == (0, None, None, None)
    assert shares_of(made, None) == shares_of(made, rates) == (None, None)
    exact = {one: Rate(value=rate, error=0.0, seconds=480.0) for one, rate in rates.items()}
    condition = GroupCondition(
        present=made.before, possible=made.after, partitions_changed=False, withheld=0, rounds=0, changes=Changes(),
        rates=byte_rates(made, exact),
    )  # fmt: skip
    assert condition.shares == (None, None)
    assert {point.cross_rack_share for point in curve_of(unknown, rates)} == {None}
    assert {(point.cross_rack, point.cross_rack_share) for point in points_of(unknown, Options())} == {(None, None)}


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
    made = planner.make_plan(UNKNOWN_RACKS["members without rack"], MODE)
    condition = GroupCondition(
        present=made.before,
        possible=made.after,
        partitions_changed=False,
        withheld=0,
        rounds=0,
        changes=Changes(topics=("t",)),
    )
    _, decision = decide(fresh(RULES, 0.0), condition, 0.0, 0.0, RULES)
    assert (decision.action, decision.before, decision.after) == (Action.NOTHING, None, None)


def test_a_takeover_of_unknown_gain_says_so_and_how_to_know_it() -> None:
    """`lead --dry-run` prints unknown with the cure, and the refusal is not `0.0% would be`."""
    unknown = replace(GAIN, cross_rack_now=None, cross_rack_then=None, share_now=None, share_then=None)
    words = requests.gain_words(replace(unknown, saved_bytes_per_second=None, saved_dollars_per_day=None))
    assert "read across racks: unknown now, unknown under the agent" in words
    assert "racks.client_ids" in words
    assert "%" not in words
    decision = Decision(action=Action.NOTHING, reason=Reason.NOTHING_TO_GAIN, before=None, after=None)
    refusal = worth_refusal("orders", decision, asked=True)
    assert "unknown" in refusal
    assert "client.rack" in refusal
    assert progress_of(b'{"group": "g", "gain": null}').gain is None


def test_cost_has_no_figure_for_bytes_without_racks() -> None:
    """What crosses and its share are `-` in the table, its price a guess, and all null in JSON, also of topics."""
    report = costs.report(snapshot(BARE_GROUP), shipped("aws"), roles={})
    (cost,) = report.groups
    assert (cost.cross_rack_bytes, cost.dollars, cost.dollars_per_month, cost.share) == (None, None, None, None)
    assert {(topic.cross_rack_bytes, topic.dollars) for topic in cost.topics} == {(None, None)}
    assert {pair.dollars for pair in cost.pairs} == {None}
    assert (report.totals.cross_rack_bytes, report.totals.share, report.totals.dollars_per_month) == (None, None, None)
    console = Console(width=100, record=True, file=StringIO())
    console.print(groups_table(report, width=100))
    row = next(line for line in console.export_text().splitlines() if line.strip().startswith("bare"))
    assert row.split()[3:] == ["-", "-", "67", "%", "up", "to", "about"]


def test_a_plan_shows_unknown_and_the_cure() -> None:
    """The table has `-`, the summary `unknown`, and a warning says what to set."""
    made = planner.make_plan(UNKNOWN_RACKS["members without rack"], MODE)
    (first, *_) = per_member(made, made.final)
    assert first.cross_rack is None
    (warning,) = unknown_racks([None, None, A], cluster())
    assert warning.startswith("2 of 3 members have no rack")
    assert "client.rack" in warning
    (warning,) = unknown_racks([A], cluster({1: "a", 2: UNSET}))
    assert warning.startswith("brokers 2 have no rack")


def test_a_mixed_group_says_of_how_many_partitions_it_knows() -> None:
    """The share of a plan names the known partitions it is of."""
    unknown, known = (
        PlanFigures(cost=made, cross_rack_share=made.known_share) for made in (cost_of(0, 0), cost_of(2, 4))
    )
    assert plan.across(unknown, partitions=6) == "unknown"
    assert plan.across(known, partitions=6) == "2 of 4 known partitions (50 %)"
    assert plan.across(known, partitions=4) == "2 partitions (50 %)"
