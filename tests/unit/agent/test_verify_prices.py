"""Prices of findings: what the cure of each alone saves now, and never more than what crosses racks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.cluster.view import NoRack, Rack
from samerack.reporting.evidence import Code, Findings
from samerack.traffic.snapshot import GroupKind, GroupTraffic, Shares, TrafficSnapshot
from tests.unit.agent.measured import GB, NEAR, SPREAD, A, B, C, flow, group, problem, snapshot
from tests.unit.agent.test_verify import EVERYWHERE, IN_EACH, ROTATED_BROKERS, monthly, served, verdict_of

RACKS_OF_MEMBERS = (A, B, C, "RACK-A", "cellar", None)
ALL_IN_ONE = ((1,),) * 6
HALF = Shares(present_bytes=0.5, present_partitions=0.5, optimal=0.0, optimal_by="bytes", random=2 / 3)
TWO_THIRDS = replace(HALF, present_bytes=2 / 3, present_partitions=2 / 3)


def prices(result: Findings, *, guessed: bool = False) -> dict[Code, float | None]:
    """The priced findings of the only group: the guesses, or the others."""
    return {one.code: one.dollars_per_month for one in result.findings if one.guessed is guessed}


def test_a_foreign_assignor_that_reads_at_random_is_one_finding() -> None:
    """Its cure is another assignor; the agent cannot lead it, so that no finding says so."""
    taken = snapshot(group(assignor="mine", flows=[flow(A, B, 2 * GB), flow(A, A, GB)], shares=TWO_THIRDS))
    assert prices(verdict_of(taken)) == {Code.NO_COMMON_PROTOCOL: pytest.approx(monthly(2 * GB))}


def test_what_members_read_in_racks_that_no_broker_has_is_a_guess() -> None:
    """One rack in wrong case is known once it is right; the other may be any, and its member is served there then."""
    racks = {"m1": "RACK-A", "m2": "cellar", "m3": C}
    flows = [flow("", A, GB), flow("", B, 2 * GB), flow(C, C, GB)]
    shares = replace(HALF, present_bytes=0.0, present_partitions=0.0)
    made = problem(((B, A), (A, B), (C,)) * 2, {**racks, "m1": None, "m2": None}, NEAR)
    taken = snapshot(group(members=racks, flows=flows, shares=shares, made=made))
    assert prices(verdict_of(taken)) == {}
    assert prices(verdict_of(taken), guessed=True) == {
        Code.RACKS_DIFFER_IN_CASE: pytest.approx(monthly(1.5 * GB)),
        Code.RACKS_NEVER_MEET: pytest.approx(monthly(GB / 2)),
    }


def test_a_rack_that_an_absent_broker_may_have_has_no_price() -> None:
    """What is read there counts as crossing racks, and what the right name would save is not known."""
    racks = {"m1": "RACK-A", "m2": "RACK-C"}
    flows = [flow("RACK-A", A, GB), flow("RACK-C", C, 2 * GB)]
    shares = replace(HALF, present_bytes=1.0, present_partitions=1.0, optimal=1.0)
    brokers: dict[int, Rack] = {1: A, 2: NoRack.UNKNOWN, 3: C}
    result = verdict_of(snapshot(group(members=racks, flows=flows, shares=shares), brokers=brokers))
    assert prices(result, guessed=True) == {Code.RACKS_DIFFER_IN_CASE: None}
    assert result.dollars_per_month == pytest.approx(monthly(3 * GB))


def test_what_plans_avoid_is_no_more_than_what_crosses() -> None:
    """Half of the partitions are read across racks, but few bytes: no finding costs more than these."""
    shares = replace(HALF, optimal_by="partitions", present_bytes=0.1)
    taken = snapshot(group(flows=[flow(A, B, GB), flow(A, A, 9 * GB)], shares=shares))
    assert prices(verdict_of(taken)) == {Code.AVOIDABLE: pytest.approx(monthly(GB))}


def test_what_is_read_where_a_rack_is_unknown_is_a_guess() -> None:
    """A guess is reported as one, and is not known where the brokers' racks are not."""
    members = {**SPREAD, "m4": None}
    made = problem(IN_EACH, members, {"m1": (0, 1, 2), "m4": (3, 4, 5)})
    bare = group(members=members, flows=[flow(A, A, GB), flow("", A, 3 * GB)], made=made)
    result = verdict_of(snapshot(bare))
    assert prices(result, guessed=True) == {Code.MEMBERS_WITHOUT_RACK: pytest.approx(monthly(2 * GB))}
    assert (result.unknown_bytes, result.dollars_per_month) == (3 * GB, None)
    assert result.guessed_dollars_per_month == pytest.approx(monthly(2 * GB))
    unknown = verdict_of(snapshot(replace(bare, shares=replace(bare.shares, random=None))))
    assert unknown.guessed_dollars_per_month is None


SHARE = st.sampled_from((0.0, 0.04, 0.2, 1 / 3, 0.5, 2 / 3, 1.0))
KINDS: tuple[GroupKind, ...] = ("classic", "consumer", "streams-classic", "streams")


@st.composite
def groups(draw: st.DrawFn) -> tuple[GroupTraffic, TrafficSnapshot]:
    """A group with all that may be wrong at once: rack names, racks, assignor, replicas, what brokers serve."""
    racks = {f"m{at}": draw(st.sampled_from(RACKS_OF_MEMBERS)) for at in range(draw(st.integers(1, 5)))}
    clients = sorted({rack if rack in (A, B, C) else "" for rack in racks.values()})
    flows = [
        flow(client, replica, draw(st.integers(0, 9)) * GB, method=draw(st.sampled_from(("exact", "estimated"))))
        for client in clients
        for replica in (A, B, C, "")
        if draw(st.booleans())
    ]
    crossing = sum(one.volume.wire_bytes for one in flows if one.key.cross_rack)
    known = sum(one.volume.wire_bytes for one in flows if one.key.cross_rack is not None)
    shares = Shares(
        present_bytes=crossing / known if known else None,
        present_partitions=draw(st.none() | SHARE),
        optimal=draw(st.none() | SHARE),
        optimal_by=draw(st.sampled_from(("bytes", "partitions"))),
        random=2 / 3,
    )
    replicas = draw(st.sampled_from((EVERYWHERE, ROTATED_BROKERS, ALL_IN_ONE)))
    names = ("", A, B, C)
    made = group(
        kind=draw(st.sampled_from(KINDS)),
        assignor=draw(st.sampled_from(("range", "mine"))),
        members=racks,
        flows=flows,
        shares=shares,
        made=problem([[names[broker] for broker in one] for one in replicas], racks, {"m0": (0, 1), "m1": (2, 3)}),
    )
    made = served(made, draw(st.permutations((A, B, C))), guessed=draw(st.booleans()))
    return made, snapshot(made, replicas=replicas, rack_aware_fetch=draw(st.sampled_from((True, False, None))))


@given(groups())
def test_the_findings_of_a_group_cost_no_more_than_it_does(drawn: tuple[GroupTraffic, TrafficSnapshot]) -> None:
    """Each at most what crosses racks and what may, and what plans avoid at most what crosses."""
    made, taken = drawn
    result = verdict_of(taken)
    crossing = monthly(sum(one.volume.wire_bytes for one in made.flows if one.key.cross_rack))
    unknown = monthly(sum(one.volume.wire_bytes for one in made.flows if one.key.cross_rack is None))
    for finding in result.findings:
        assert (finding.dollars_per_month or 0.0) <= (crossing + unknown) * (1 + 1e-9)
    assert [one.dollars_per_month or 0.0 for one in result.findings if one.costs and one.dollars_per_month] == sorted(
        (one.dollars_per_month or 0.0 for one in result.findings if one.costs and one.dollars_per_month), reverse=True
    )
    assert (result.avoidable_dollars_per_month or 0.0) <= (result.dollars_per_month or 0.0) * (1 + 1e-9)
