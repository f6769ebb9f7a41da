"""What is reported of groups that brokers assign: the assignor, what samerack's would save, and what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from samerack.cluster.server_assignors import CLASS, LINE, ServerAssignors, from_values
from samerack.common.money import shipped
from samerack.reporting import costs
from samerack.reporting.report import ServerAssignment, from_json, to_json
from samerack.reporting.server_assignment import server_assignment, server_share, with_servers
from samerack.traffic.model import GroupTraffic, Shares, TrafficSnapshot
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
)

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
    ("assignor", "offered", "late", "part"),
    [
        ("samerack", EVERYWHERE, False, "nothing to do"),
        ("samerack", UNKNOWN, False, "nothing to do"),
        ("samerack", EVERYWHERE, True, "restart one member"),
        ("samerack", SOME, False, "not every broker has samerack's assignor: put samerack's broker jar"),
        ("uniform", NOWHERE, False, LINE),
        ("uniform", UNKNOWN, False, "it is not known which assignors the brokers have"),
        ("uniform", EVERYWHERE, False, "unset their group.remote.assignor"),
        ("uniform", LAST, False, "group.remote.assignor=samerack in the members"),
    ],
)
def test_the_advice_fits_what_brokers_have(assignor: str, offered: ServerAssignors, part: str, *, late: bool) -> None:
    """Each state has its own next step."""
    made = server_assignment(assignor, offered, share=0.0, saves_dollars_per_month=1.0, late=late)
    assert part in made.advice
    assert (made.saves_dollars_per_month is None) == (assignor == "samerack")
    assert bool(made.unknown) == (offered is UNKNOWN)


def test_the_json_has_it() -> None:
    """The report is read back equal, also that of an agent before this field."""
    taken = snapshot(managed())
    report = costs.report(taken, shipped("aws"), roles={})
    full = with_servers(report, taken, offered=lambda: SOME, share_of=server_share)
    assert full.groups[0].server is not None
    assert full.groups[0].server.lacking == (2,)
    assert from_json(to_json(report).replace(b',"server":null', b"")) == report
