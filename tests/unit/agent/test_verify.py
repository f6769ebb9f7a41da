"""Findings on snapshots: each fault has its own code, and a sound set-up has no findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.streams.whole_tasks import WholeTasks
from samerack.cluster.broker_configs import LINE, TASK_LINE, ServerAssignors, from_values
from samerack.cluster.view import ClusterView, NoRack, PartitionView, Rack
from samerack.common.errors import AgentError
from samerack.common.money import shipped
from samerack.reporting import costs
from samerack.reporting.baseline import counted_apart, server_share, share_with_every_replica, with_servers
from samerack.reporting.evidence import Code, Evidence, Finding, Findings, StreamsPlanning, findings_from_json
from samerack.reporting.verify import verdict
from samerack.reporting.verify_spread import rack_names, rack_warnings
from samerack.settings.leading import LeadingSettings, RackSettings
from samerack.traffic.gaps import handed_over
from samerack.traffic.snapshot import (
    BlindSpot,
    Family,
    Flow,
    Gap,
    GroupKind,
    GroupTraffic,
    Shares,
    TrafficSnapshot,
    Uncounted,
)
from tests.unit.agent.measured import (
    GB,
    NEAR,
    RACKS,
    RANGE,
    ROTATED,
    SPREAD,
    A,
    B,
    C,
    flow,
    group,
    problem,
    snapshot,
    weighed,
)

SOUND = Shares(present_bytes=0.0, present_partitions=0.0, optimal=0.0, optimal_by="bytes", random=2 / 3)
RANDOM = replace(SOUND, present_bytes=0.66, present_partitions=0.66)
HALF = replace(SOUND, present_bytes=0.33, present_partitions=0.33)
UNIFORM = ServerAssignors(by_broker={1: ("uniform", "range"), 2: ("uniform", "range"), 3: ("uniform", "range")})
BROKERS = "kafka.example:9092"
ONLY = Code.RACK_ONLY_IN_FETCH
IN_EACH = ((A, B, C),) * 6
NEAR_FLOWS = (flow(A, A, GB), flow(B, B, GB), flow(C, C, GB))


def verdict_of(  # noqa: PLR0917 - a verdict has this much evidence
    taken: TrafficSnapshot,
    prices: str = "aws",
    own_rack: str = "",
    offered: ServerAssignors = UNIFORM,
    leading: LeadingSettings | None = None,
    max_group_size: int | None = None,
    streams_plans: Mapping[str, StreamsPlanning] | None = None,
) -> Findings:
    """The verdict on a snapshot, of an agent in this rack, with these assignors in the brokers."""
    table = shipped(prices)
    report = costs.report(taken, table, roles={}, bootstrap=BROKERS)
    report = with_servers(report, taken, offered=lambda: offered, share_of=server_share)
    return verdict(
        Evidence(
            snapshot=taken,
            report=report,
            leading=leading or LeadingSettings(),
            own_rack=own_rack,
            max_group_size=max_group_size,
            streams_plans=streams_plans or {},
        )
    )


def monthly(wire_bytes: float) -> float:
    """The dollars a month of so many bytes a minute."""
    return shipped("aws").dollars(wire_bytes) / 60 * 730 * 3600


def found(taken: TrafficSnapshot) -> list[Finding]:
    """The findings of a snapshot."""
    return list(verdict_of(taken).findings)


def only(taken: TrafficSnapshot, code: Code) -> Finding:
    """The only finding, which has this code."""
    (finding,) = found(taken)
    assert finding.code is code
    return finding


@pytest.mark.parametrize(
    ("own", "code"), [("RACK-A", Code.RACKS_DIFFER_IN_CASE), ("us-east-1a", Code.RACKS_NEVER_MEET)]
)
def test_a_pod_whose_rack_no_broker_is_in(own: str, code: Code) -> None:
    """A pod whose rack has no broker is a finding: clients beside the agent have that rack and read nothing near."""
    (finding,) = verdict_of(snapshot(group(flows=NEAR_FLOWS, shares=SOUND)), own_rack=own).findings
    assert (finding.code, finding.where, finding.costs) == (code, "this pod", True)
    assert all(part in finding.cause for part in (repr(own), A, B, C))


@pytest.mark.parametrize(("max_group_size", "names"), [(4, True), (5, False), (None, False)])
def test_a_group_without_room_for_the_agent(max_group_size: int | None, names: bool) -> None:  # noqa: FBT001 - a column of the table
    """The three members, the agent and one consumer more must fit in `group.max.size`; the cure is the setting."""
    taken = snapshot(group(flows=NEAR_FLOWS, shares=HALF))
    full = [one for one in verdict_of(taken, max_group_size=max_group_size).findings if one.code is Code.GROUP_FULL]
    assert bool(full) is names
    for one in full:
        assert (one.costs, one.dollars_per_month) == (True, None)
        assert "group.max.size of the brokers is 4: 3 current or expected consumers" in one.cause
        assert one.cure.startswith("set it to 5 or more on every broker")


def test_brokers_without_rack() -> None:
    """Brokers without rack are named."""
    taken = snapshot(group(flows=NEAR_FLOWS, shares=SOUND), brokers={1: A, 2: NoRack.UNSET, 3: C})
    finding = only(taken, Code.BROKERS_WITHOUT_RACK)
    assert finding.where == "broker 2"
    assert finding.cause.startswith("1 of 3 brokers")


def test_no_rack_aware_selector() -> None:
    """Replicas in other racks that may not serve fetches are a finding."""
    taken = snapshot(group(flows=NEAR_FLOWS, shares=SOUND), replicas=((1, 2), (2, 3)), rack_aware_fetch=False)
    assert "replica.selector.class=" in only(taken, Code.NO_RACK_AWARE_SELECTOR).cure


def test_members_without_rack() -> None:
    """Members without rack are counted, named by client id, and priced as if they were in each rack alike."""
    bare: Mapping[str, str | None] = {"m1": A, "m2": None, "m3": C}
    made = problem(IN_EACH, bare, NEAR)
    taken = snapshot(group(members=bare, flows=[*NEAR_FLOWS, flow("", A, 3 * GB)], shares=SOUND, made=made))
    finding = only(taken, Code.MEMBERS_WITHOUT_RACK)
    assert finding.cause.startswith("1 of 3 members have no rack (client-m2)")
    assert finding.dollars_per_month == pytest.approx(monthly(2 * GB))
    single = only(snapshot(group(members=bare, flows=[flow("", A, 3 * GB)], shares=SOUND)), Code.MEMBERS_WITHOUT_RACK)
    assert single.dollars_per_month == 0
    assert "On its own this saves nothing now; savings are known once racks are" in single.cure
    unknown = replace(group(members=bare, flows=[flow("", A, 3 * GB)], shares=SOUND), problem=None)
    assert only(snapshot(unknown), Code.MEMBERS_WITHOUT_RACK).dollars_per_month is None


def with_client(taken: GroupTraffic, client_id: str) -> GroupTraffic:
    """The group with this client id in each member."""
    return replace(taken, members=tuple(replace(one, client_id=client_id) for one in taken.members))


@pytest.mark.parametrize("client_id", ["kafka-python-3.0.12", "aiokafka-0.14.0", "sarama", "kafkajs"])
def test_members_whose_client_sends_its_group_no_rack(client_id: str) -> None:
    """They may have `client.rack`, which their fetches alone carry: the cure are the settings that say so."""
    members = dict.fromkeys(("m1", "m2", "m3"))
    made = problem(IN_EACH, members, NEAR)
    bare = group(members=members, flows=[flow("", A, 3 * GB)], shares=Shares(random=2 / 3), made=made)
    first, *others = bare.members
    finding = only(snapshot(with_client(bare, client_id)), ONLY)
    assert finding.cause.startswith(f"3 of 3 members send a rack with fetches only, if any ({client_id})")
    patterns = '"*-rack-a": "rack-a", "*-rack-b": "rack-b", "*-rack-c": "rack-c"'
    assert f"racks.client_ids={{{patterns}}} and racks.fetch_with_rack=" in finding.cure
    assert finding.guessed
    assert finding.dollars_per_month == pytest.approx(monthly(2 * GB))
    mixed = found(snapshot(replace(bare, members=(replace(first, client_id=client_id), *others))))
    assert {one.code: one.dollars_per_month for one in mixed} == {
        Code.MEMBERS_WITHOUT_RACK: pytest.approx(monthly(2 * GB) * 2 / 3),
        ONLY: pytest.approx(monthly(2 * GB) / 3),
    }


@pytest.mark.parametrize(
    ("kind", "client_id"),
    [("classic", "kafka-python-2.0.2"), ("classic", "kafka-python-3-rack-a"), ("consumer", "sarama"), ("classic", "x")],
)
def test_members_whose_client_is_not_known_get_both_cures(kind: GroupKind, client_id: str) -> None:
    """Protocols do not show the library, and one that was given a client id may be any; its cure has that case too."""
    bare = group(kind=kind, members={"m1": None}, flows=[flow("", A, GB)], shares=Shares(random=2 / 3))
    cure = only(snapshot(with_client(bare, client_id)), Code.MEMBERS_WITHOUT_RACK).cure
    assert cure.startswith("set client.rack")
    assert "kafka-python" in cure
    assert "racks.fetch_with_rack" in cure


@pytest.mark.parametrize(
    ("members", "brokers", "code", "part"),
    [
        ({"RACK-A", B, C}, {A, B, C}, Code.RACKS_DIFFER_IN_CASE, "'RACK-A' and 'rack-a'"),
        ({"x", "y"}, {A, B}, Code.RACKS_NEVER_MEET, "no rack of a member is a rack of a broker: 'x', 'y'"),
        ({A, "x"}, {A, B}, Code.RACKS_NEVER_MEET, "some racks of members are not a rack of a broker: 'x';"),
        ({"use1-az1", "use1-az2"}, {"us-east-1a", "us-east-1b"}, Code.ZONE_NAME_AGAINST_ID, "zone ids of AWS"),
        ({"us-east-1a"}, {"use1-az1", "use1-az4"}, Code.ZONE_NAME_AGAINST_ID, "zone names of AWS"),
        ({"1", "2"}, {"westeurope-1", "westeurope-2"}, Code.ZONE_NAME_AGAINST_ID, "bare numbers"),
        ({"us-east-1a"}, {"us-west-2a"}, Code.RACKS_NEVER_MEET, "us-west-2a"),
        ({f"{A} "}, {A}, Code.RACKS_NEVER_MEET, "'rack-a '; brokers are in 'rack-a'"),  # a blank at the end
    ],
)
def test_names_that_do_not_meet(members: set[str], brokers: set[str], code: Code, part: str) -> None:
    """One reason says why the racks of members and brokers do not match; there is none where one side has no racks."""
    assert [*rack_names(members & brokers, brokers), *rack_names(set(), brokers), *rack_names(members, set())] == []
    (reason,) = rack_names(members, brokers)
    assert reason.code is code
    assert part in reason.cause


@pytest.mark.parametrize(
    ("members", "maps", "brokers", "expected"),
    [
        ((A, None), {}, {1: A, 2: B}, ()),
        ((A, "x"), {}, {1: A, 2: B}, ("some racks of members are not a rack of a broker: 'x'; brokers are in",)),
        ((A, "x"), {}, {1: A, 2: NoRack.UNKNOWN}, ()),
        (("RACK-A",), {}, {1: A}, ("'RACK-A' and 'rack-a'",)),
        ((A,), {"client_ids": {"z-*": "z", "a-*": A}}, {1: A, 2: B}, ("racks.networks name 'z', which no broker has",)),
        ((A,), {"networks": {"10.0.0.0/8": "z"}}, {1: A}, ("name 'z', which no broker has; brokers are in 'rack-a'",)),
        ((A,), {"networks": {"10.0.0.0/8": "z"}}, {1: A, 2: NoRack.UNSET}, ()),
        (("z",), {"client_ids": {"z-*": "z"}}, {1: A}, ("no rack of a member is a rack of a broker: 'z'",)),
        ((), {"client_ids": {"z-*": "z"}}, {}, ()),
    ],
)
def test_racks_that_no_broker_has_are_warned_of(
    members: tuple[str | None, ...],
    maps: dict[str, dict[str, str]],
    brokers: dict[int, Rack],
    expected: tuple[str, ...],
) -> None:
    """One rack of a member is enough, and one that is only in the settings; nothing is said of brokers not known."""
    racks = ClusterView(brokers=brokers, topics={}).racks
    warnings = rack_warnings(members, RackSettings.model_validate(maps), racks)
    assert len(warnings) == len(expected)
    assert all(part in warning for part, warning in zip(expected, warnings, strict=True))


@pytest.mark.parametrize(
    ("members", "brokers", "accounts"),
    [
        ({"us-east-1a", "us-east-1d"}, {"us-east-1a", "us-east-1b"}, True),
        ({"us-east-1a"}, {"use1-az1"}, True),
        ({"1", "2"}, {"westeurope-1", "westeurope-2"}, False),
        ({"x"}, {A, B}, False),
    ],
)
def test_zone_ids_are_the_cure_of_names_in_other_accounts(
    members: set[str], brokers: set[str], *, accounts: bool
) -> None:
    """A zone name that no broker has may be of another account of AWS; names that are equal show nothing."""
    (reason,) = rack_names(members, brokers)
    assert ("may mean different zones in different accounts" in reason.cure) == accounts
    assert list(rack_names({"us-east-1a"}, {"us-east-1a"})) == []


def test_a_measured_share_at_the_random_baseline() -> None:
    """Members have racks, and bytes cross racks as at random; half of the random share has another code."""
    assert only(snapshot(group(flows=[flow(A, B, GB)], shares=HALF)), Code.AVOIDABLE).cause.startswith("33%")
    finding = only(snapshot(group(flows=[flow(A, B, GB)], shares=RANDOM)), Code.AT_RANDOM_BASELINE)
    assert "66% of its bytes cross racks, as at random (67%); 0% would suffice" in finding.cause
    assert "samerack run --group orders" in finding.cure


def test_members_that_share_only_a_foreign_protocol() -> None:
    """The agent offers no such protocol, so it cannot join; to offer it could make the group's leader fail.

    The finding costs only where something could be saved.
    """
    sound = only(snapshot(group(assignor="mine", flows=NEAR_FLOWS, shares=SOUND)), Code.NO_COMMON_PROTOCOL)
    assert not sound.costs
    assert "leading.protocols" not in sound.cure
    assert sound.cure.startswith("give all members a common assignor, for instance range")
    costly = found(snapshot(group(assignor="mine", flows=[flow(A, B, GB)], shares=HALF)))
    assert [(one.code, one.costs) for one in costly] == [(Code.NO_COMMON_PROTOCOL, True)]
    assert costly[0].dollars_per_month == pytest.approx(monthly(0.33 * GB))


def test_a_protocol_that_the_agent_could_offer_has_that_as_its_cure() -> None:
    """An agent that was set to offer `range` only gets the name to add."""
    taken = snapshot(group(assignor="cooperative-sticky", flows=NEAR_FLOWS, shares=SOUND))
    (finding,) = verdict_of(taken, leading=LeadingSettings(protocols=("range",))).findings
    assert (finding.code, finding.costs) == (Code.NO_COMMON_PROTOCOL, False)
    assert "add 'cooperative-sticky' to leading.protocols" in finding.cure


@pytest.mark.parametrize("allowed", [False, True])
def test_a_group_that_the_agent_would_not_join_is_not_advised_to_be_led(allowed: bool) -> None:  # noqa: FBT001 - both cases
    """Aiokafka's `roundrobin` sends subscriptions of version 0: the agent refuses it, and the advice says the same."""
    crossing = group(assignor="roundrobin", flows=[flow(A, B, GB)], shares=HALF)
    old = tuple(replace(one, version=0, topics=frozenset({"clicks"})) for one in crossing.members)
    leading = LeadingSettings(allow_roundrobin_v0=allowed)
    (finding,) = verdict_of(snapshot(replace(crossing, members=old)), leading=leading).findings
    assert ("samerack run" in finding.cure) is allowed
    refused = "it now stays out: its members use roundrobin with subscription v0"
    assert (refused in finding.cure) is not allowed
    assert ("set leading.allow_roundrobin_v0" in finding.cure) is not allowed
    kafkajs = snapshot(group(assignor="RoundRobinAssigner", flows=[flow(A, B, GB)], shares=HALF))
    assert "only from its first generation: stop all consumers" in only(kafkajs, Code.AVOIDABLE).cure


def test_another_finding_does_not_hide_what_is_avoidable() -> None:
    """A group with a member without rack, or with racks that never meet, also gets what a better plan would save."""
    members = {**SPREAD, "m4": None}
    made = problem(IN_EACH, members, {"m1": (0, 1, 2), "m4": (3, 4, 5)})
    mixed = group(members=members, flows=[flow(A, B, GB), flow("", A, GB)], shares=RANDOM, made=made)
    bare, avoidable = found(snapshot(mixed))
    assert [(one.code, one.guessed) for one in (bare, avoidable)] == [
        (Code.MEMBERS_WITHOUT_RACK, True),
        (Code.AVOIDABLE, False),
    ]
    assert [bare.dollars_per_month, avoidable.dollars_per_month] == [
        pytest.approx(monthly(share * GB)) for share in (2 / 3, 0.66)
    ]
    racks = {"m1": "Rack-A", "m2": B, "m3": C}
    made = problem(((B, A), (B,), (C,)) * 2, racks, NEAR)
    folded = group(members=racks, flows=[flow(B, C, GB), flow("Rack-A", A, GB)], shares=HALF, made=made)
    codes = {one.code: one.dollars_per_month for one in found(snapshot(folded))}
    assert codes.keys() == {Code.RACKS_DIFFER_IN_CASE, Code.AVOIDABLE}
    assert codes[Code.AVOIDABLE] == pytest.approx(monthly(0.66 * GB))
    assert codes[Code.RACKS_DIFFER_IN_CASE] == pytest.approx(monthly(GB))


def test_the_total_of_verify_is_that_of_cost() -> None:
    """One figure over all groups, and its avoidable part, which is what findings with that price add up to."""
    taken = snapshot(
        group("some", flows=[flow(A, B, GB), flow(A, A, GB)], shares=HALF),
        group("most", flows=[flow(A, C, GB)], shares=RANDOM),
        group("bare", members={"m1": None}, flows=[flow("", A, GB)], shares=replace(SOUND, present_bytes=None)),
    )
    result = verdict_of(taken)
    report = costs.report(taken, shipped("aws"), roles={})
    assert result.dollars_per_month == report.totals.dollars_per_month
    assert result.avoidable_dollars_per_month == pytest.approx(
        sum(
            one.dollars_per_month or 0.0
            for one in result.findings
            if one.code in (Code.AVOIDABLE, Code.AT_RANDOM_BASELINE)
        )
    )
    bare = verdict_of(
        snapshot(group("bare", members={"m1": None}, flows=[flow("", A, GB)], shares=Shares(random=2 / 3)))
    )
    assert (bare.dollars_per_month, bare.avoidable_dollars_per_month) == (None, None)


def test_a_group_that_brokers_assign_without_racks() -> None:
    """The loss of a KIP-848 group is priced against the best plan, and reported once."""
    taken = snapshot(group(kind="consumer", assignor="uniform", flows=[flow(A, B, GB)], shares=RANDOM))
    finding = only(taken, Code.BROKER_ASSIGNED)
    assert finding.dollars_per_month == pytest.approx(monthly(0.66 * GB))
    assert all(part in finding.cause for part in ("uniform", "66%", "0% with samerack's assignor"))
    assert LINE in finding.cure


def test_static_members_that_came_back_in_other_racks() -> None:
    """Brokers change no assignment for a member's own rack (KAFKA-20909): the group is named, with what changes it."""
    ours = from_values(dict.fromkeys((1, 2, 3), LINE.partition("=")[2]))
    moved = group(
        kind="consumer",
        assignor="samerack",
        flows=[flow(A, B, GB)],
        shares=RANDOM,
        made=problem(ROTATED, SPREAD, RANGE),
    )
    static = replace(moved, members=tuple(replace(one, instance_id=one.id) for one in moved.members))
    (finding,) = verdict_of(snapshot(static), offered=ours).findings
    assert finding.code is Code.BROKER_ASSIGNED
    assert finding.dollars_per_month == pytest.approx(monthly(0.66 * GB))
    assert "(KIP-848, samerack): 66% crosses racks" in finding.cause
    assert "start another consumer in it without group.instance.id" in finding.cure
    (finding,) = verdict_of(snapshot(moved), offered=ours).findings
    assert "restart one member without group.instance.id" in finding.cure


def test_brokers_without_the_assignor_that_others_have() -> None:
    """A cluster in the middle of a rollout has a finding that costs nothing, though its groups read near now."""
    some = ServerAssignors(by_broker={1: ("samerack", "uniform"), 2: ("uniform",), 3: ("uniform",)})
    taken = snapshot(group(kind="consumer", assignor="samerack", flows=NEAR_FLOWS, shares=SOUND))
    (finding,) = verdict_of(taken, offered=some).findings
    assert (finding.code, finding.where, finding.costs) == (Code.ASSIGNOR_ON_SOME_BROKERS, "brokers 2, 3", False)
    assert LINE in finding.cure
    classic = snapshot(group(flows=NEAR_FLOWS, shares=SOUND))
    assert verdict_of(classic, offered=some).findings == ()


@pytest.mark.parametrize(
    ("kind", "assignor", "cure"),
    [
        ("classic", "range", "let the agent lead it"),
        ("streams-classic", "stream", "set rack.aware.assignment.strategy=min_traffic, unless it is set"),
        ("streams", "sticky", "rack.aware.assignment.* and task.assignor.class of the application have no effect"),
        ("streams", "sticky", f"From Kafka 4.4 on, {TASK_LINE} on every broker and controller"),
    ],
)
def test_each_kind_of_group_gets_the_cure_that_helps_it(kind: GroupKind, assignor: str, cure: str) -> None:
    """Only a classic group gets the agent as its cure, and no cure is a setting that the protocol ignores."""
    finding = only(snapshot(group(kind=kind, assignor=assignor, flows=NEAR_FLOWS, shares=HALF)), Code.AVOIDABLE)
    assert cure in finding.cure
    assert ("let the agent lead" in finding.cure) == (kind == "classic")


STREAMS: Mapping[str, tuple[StreamsPlanning | None, str, str]] = {
    "not known": (None, "set rack.aware.assignment.strategy=min_traffic, unless it is set", "client.rack"),
    "partitions": (
        StreamsPlanning(assignor="ha", strategy="min_traffic", weights="partitions"),
        "by ha and min_traffic, for which all partitions count alike, while these figures are of bytes: let the agent "
        "plan them with streams.weights=bytes",
        "rack.aware.assignment.strategy",
    ),
    "bytes": (
        StreamsPlanning(assignor="ha", strategy="min_traffic", weights="bytes"),
        "nothing to set: this agent plans its tasks by ha, min_traffic and bytes",
        "streams.weights",
    ),
    "none": (
        StreamsPlanning(assignor="sticky", strategy="none", weights="partitions"),
        "this agent plans its tasks by sticky with the strategy none",
        "streams.weights",
    ),
}


@pytest.mark.parametrize("case", sorted(STREAMS))
def test_what_is_done_for_an_application_is_not_advised(case: str) -> None:
    """Where the agent plans its tasks, its strategy is known; `client.rack` is not asked for where all send it."""
    planning, has, lacks = STREAMS[case]
    taken = snapshot(group(kind="streams-classic", assignor="stream", flows=NEAR_FLOWS, shares=HALF))
    plans = {} if planning is None else {"orders": planning}
    (finding,) = verdict_of(taken, streams_plans=plans).findings
    assert finding.code is Code.AVOIDABLE
    assert finding.cause == "33% of its bytes crosses racks, 0% would suffice"
    assert has in finding.cure
    assert lacks not in finding.cure


def test_an_application_with_as_few_partitions_across_as_can_be_is_advised_to_count_bytes() -> None:
    """Three partitions are at home where two have room: any of them is read across, the largest at present."""
    made = problem(((A,), (A,), (A,), (B,)), {"m1": A, "m2": B}, {"m1": (1, 2), "m2": (0, 3)})
    whole = WholeTasks(task=np.arange(4, dtype=np.int32), client=np.arange(2, dtype=np.int32))
    one = group(kind="streams-classic", assignor="stream", flows=NEAR_FLOWS, shares=HALF, made=made)
    assert counted_apart(replace(one, whole_tasks=whole)) == (0.25, 0.25)
    cure = only(snapshot(replace(one, whole_tasks=whole)), Code.AVOIDABLE).cure
    assert cure.startswith(
        "its tasks read 25% of their partitions across racks, and no strategy of Kafka's reads fewer"
    )
    assert "streams.weights=bytes" in cure
    assert "--seconds 30 --by-bytes" in cure


def test_replicas_that_prevent_locality() -> None:
    """With all replicas in one rack and members in three, most reads cross racks in any plan."""
    made = problem(((A,),) * 6, SPREAD, RANGE)
    shares = replace(SOUND, present_bytes=4 / 6, optimal=4 / 6)
    finding = only(snapshot(group(flows=[flow(B, A, GB)], shares=shares, made=made)), Code.REPLICAS_PREVENT_LOCALITY)
    assert "at least 67% must cross" in finding.cause
    assert "6 of 6 partitions of clicks" in finding.cause


def test_what_has_to_cross_is_by_bytes() -> None:
    """The member in the rack of all replicas reads the two largest partitions; weights would make it a third."""
    made = group(made=problem(((A,),) * 6, SPREAD, RANGE))
    made = weighed(made, rates=(3, 3, 1, 1, 1, 1), weights=(4, 4, 1, 1, 1, 1))
    assert made.problem is not None
    assert share_with_every_replica(made) == pytest.approx(4 / 10)


def test_leaders_that_prevent_locality_are_the_selectors_fault() -> None:
    """If no read had to cross racks with every replica serving, the finding is the selector, not the replicas."""
    replicas = ((A, B, C),) * 6
    made = problem(replicas, SPREAD, RANGE, reads_any_replica=False)
    shares = replace(SOUND, present_bytes=4 / 6, optimal=4 / 6)
    taken = snapshot(
        group(flows=[flow(B, A, GB)], shares=shares, made=made), replicas=((1, 2, 3),), rack_aware_fetch=False
    )
    assert only(taken, Code.NO_RACK_AWARE_SELECTOR).where == "brokers"


def test_replicas_in_one_rack_are_the_reason_where_even_members_would_not_help() -> None:
    """Five of six partitions in one rack: with one member in each rack as much would cross."""
    racks = {"m1": A, "m2": A, "m3": B}
    made = problem(((A,), (B,), (B,), (B,), (B,), (B,)), racks, {"m1": (0, 1), "m2": (2, 3), "m3": (4, 5)})
    shares = replace(SOUND, optimal=0.5, present_bytes=0.5)
    finding = only(
        snapshot(group(members=racks, flows=[flow(A, B, GB)], shares=shares, made=made)), Code.REPLICAS_PREVENT_LOCALITY
    )
    assert "at least 50% must cross racks in any balanced plan, also with members spread evenly" in finding.cause


ROTATED_BROKERS = ((1,), (2,), (3,), (1,), (2,), (3,))
EVERYWHERE = ((1, 2, 3), (2, 3, 1), (3, 1, 2)) * 2
UNEVEN: Mapping[str, str | None] = {"m1": A, "m2": A, "m3": A, "m4": A, "m5": B, "m6": C}
THIRD = replace(SOUND, present_bytes=1 / 3, present_partitions=1 / 3, optimal=1 / 3)


def uneven(racks: Mapping[str, str | None] = UNEVEN, *, any_replica: bool = True, **traits: Any) -> GroupTraffic:
    """A group of one partition a member, which reads near what it can."""
    racks_of = [[str(RACKS[broker]) for broker in one] for one in traits.pop("replicas", ROTATED_BROKERS)]
    made = problem(racks_of, racks, {name: (at,) for at, name in enumerate(racks)}, reads_any_replica=any_replica)
    return group(members=racks, flows=[flow(A, B, GB)], shares=traits.pop("shares", THIRD), made=made, **traits)


NEAR_GROUP = group(flows=NEAR_FLOWS, shares=SOUND)
NINETY_NINE: Mapping[str, str | None] = {f"m{at}": (A, B, C)[at % 3] for at in range(99)} | {"m1": A, "m2": A}


@pytest.mark.parametrize(
    "taken",
    [
        pytest.param(snapshot(NEAR_GROUP), id="a sound group"),
        pytest.param(snapshot(), id="no group"),
        pytest.param(snapshot(replace(group(shares=Shares()), members=(), problem=None)), id="no members"),
        pytest.param(snapshot(NEAR_GROUP, brokers={1: A, 2: NoRack.UNKNOWN, 3: C}), id="a broker of unknown rack"),
        pytest.param(snapshot(NEAR_GROUP, brokers={1: A, 3: C}), id="the only broker of a rack is away"),
        pytest.param(snapshot(NEAR_GROUP, replicas=((1,),), rack_aware_fetch=False), id="a selector is of no use"),
        pytest.param(snapshot(NEAR_GROUP, replicas=((1, 2),), rack_aware_fetch=None), id="an unknown selector"),
        pytest.param(snapshot(group(members={"m1": None}, shares=Shares()), brokers={1: A, 2: A}), id="one rack"),
        pytest.param(
            snapshot(group("connect", kind="other", members={"m1": None}, shares=Shares(random=2 / 3))),
            id="a group that reads no topics",
        ),
        pytest.param(
            snapshot(replace(uneven(replicas=EVERYWHERE, shares=SOUND), flows=NEAR_FLOWS), replicas=EVERYWHERE),
            id="uneven members with a replica in each rack",
        ),
        pytest.param(
            snapshot(uneven(NINETY_NINE, replicas=((1,), (2,), (3,)) * 33, shares=replace(SOUND, optimal=0.06))),
            id="a little unevenness, which makes 2 % cross",
        ),
    ],
)
def test_what_is_no_finding(taken: TrafficSnapshot) -> None:
    """Nothing costs, whether the agent's pod has no rack or one of the brokers'."""
    for own in ("", A):
        result = verdict_of(taken, own_rack=own)
        assert (result.findings, result.costs) == ((), False)
    assert result.brokers == len(taken.cluster.brokers)


def test_a_group_whose_offsets_may_be_copies() -> None:
    """It costs nothing as far as is known, and Flink's user learns which setting has its bytes counted."""
    finding = only(snapshot(replace(group(), members=(), not_counted={Uncounted.NO_READER: 40_000})), Code.NO_READER)
    assert not finding.costs
    assert "40,000 records" in finding.cause
    assert "traffic.readers_without_members" in finding.cure


def test_members_in_few_racks() -> None:
    """The finding names racks with too many and too few, what is near them, and prices what even ones would save."""
    finding = only(snapshot(uneven()), Code.UNEVEN_OVER_RACKS)
    assert all(part in finding.cause for part in ("33% across racks (2 of 6", "0% if", "rack-a 4 and 2 (2 kB/s)"))
    assert "fewer in rack-a (2, not 4), more in rack-b (2, not 1), rack-c (2, not 1)" in finding.cure
    assert "`samerack plan orders --curve -b kafka.example:9092`" in finding.cure
    assert finding.dollars_per_month == pytest.approx(monthly(GB / 3))


@pytest.mark.parametrize("aware", [False, None])
def test_where_leaders_may_serve_only_the_least_counts(aware: bool | None) -> None:  # noqa: FBT001 - a table of states
    """Without a selector, another finding, or with silent brokers, nothing is reported that it would cure."""
    leaders = uneven(replicas=EVERYWHERE, any_replica=False)
    codes = [one.code for one in found(snapshot(leaders, replicas=EVERYWHERE, rack_aware_fetch=aware))]
    assert codes == ([Code.NO_RACK_AWARE_SELECTOR] if aware is False else [])
    single = uneven(any_replica=False)
    assert only(snapshot(single, rack_aware_fetch=aware), Code.UNEVEN_OVER_RACKS).dollars_per_month


def test_leaders_in_few_racks() -> None:
    """Members that do not fetch with their rack are near leaders only; the cure is their setting, or other leaders."""
    replicas = ((1, 2, 3),) * 4 + ((2, 3, 1), (3, 1, 2))
    taken = uneven(SPREAD, replicas=replicas, any_replica=False, source="client-id")
    finding = only(snapshot(taken, replicas=replicas), Code.UNEVEN_OVER_RACKS)
    assert all(part in finding.cause for part in ("3 of 3 members", "rack-a 4, rack-b 1, rack-c 1", "33%"))
    assert "racks.fetch_with_rack" in finding.cure


def test_each_cause_has_its_part_of_what_must_cross() -> None:
    """Members and partitions in different racks: what even members would save, and what replicas prevent even then."""
    racks = {f"m{at}": (A, A, *[B] * 5, *[C] * 5)[at] for at in range(12)}
    replicas = ((1,),) * 8 + ((2,),) * 2 + ((3,),) * 2
    half = replace(SOUND, present_bytes=0.5, present_partitions=0.5, optimal=0.5)
    members, others = found(snapshot(uneven(racks, replicas=replicas, shares=half), replicas=replicas))
    if members.code is not Code.UNEVEN_OVER_RACKS:
        members, others = others, members
    assert (members.code, others.code) == (Code.UNEVEN_OVER_RACKS, Code.REPLICAS_PREVENT_LOCALITY)
    assert "50% across racks (6 of 12 partitions), 33% if members were spread evenly" in members.cause
    assert "at least 33% must cross racks in any balanced plan, also with members spread evenly" in others.cause
    assert members.dollars_per_month == pytest.approx(monthly(GB / 6))
    assert others.dollars_per_month == 0, "members in the only rack whose bytes were measured read near"


def test_uneven_members_whose_racks_are_not_known_are_another_finding() -> None:
    """A member without rack, or in a rack without brokers, is reported as that; even numbers would be a guess."""
    for taken in (
        snapshot(uneven({f"m{at}": rack for at, rack in enumerate((*UNEVEN.values(), None)) if at != 1})),
        snapshot(uneven({**UNEVEN, "m6": "x"})),
    ):
        codes = [one.code for one in found(taken)]
        assert Code.UNEVEN_OVER_RACKS not in codes
        assert codes


def test_replicas_on_a_broker_that_is_away_are_not_missing() -> None:
    """After a roll leaders were on two of three brokers, and "no partition has a replica" in the third was untrue."""
    replicas = ((1, 2, 3), (2, 1, 3), (1, 3, 2)) * 2
    made = problem([[str(RACKS[one]) for one in each if one != 3] for each in replicas], SPREAD, RANGE)
    taken = group(flows=[flow(A, B, GB), flow(A, A, GB)], shares=THIRD, made=made)
    known: Mapping[int, Rack] = {1: A, 2: B}
    for brokers in (known, {**known, 3: NoRack.UNKNOWN}):
        for aware in (True, False):
            away = snapshot(taken, replicas=replicas, brokers=brokers, rack_aware_fetch=aware)
            assert "have no replica" not in " ".join(one.cause for one in found(away))


def thirty_topics(assignor: str = "range") -> GroupTraffic:
    """A group that reads thirty topics of one partition each, a third of them in each rack."""
    topics = {f"t{at:02}": [[(A, B, C)[at % 3]]] for at in range(30)}
    readers = [
        MemberInput(id=name, topics=tuple(topics), rack=rack, reads_any_replica=True) for name, rack in SPREAD.items()
    ]
    made = build_problem(topics=topics, members=readers)
    two_thirds = replace(SOUND, present_bytes=2 / 3, present_partitions=2 / 3, optimal=2 / 3)
    return group(flows=[flow(A, A, GB), flow(A, B, 2 * GB)], shares=two_thirds, made=made, assignor=assignor)


def test_what_it_costs_that_copartitioned_topics_stay_together() -> None:
    """Thirty topics of one partition all go to one member, as with Kafka's range: priced, with the setting."""
    finding = only(snapshot(thirty_topics()), Code.COPARTITIONING)
    assert "67% must cross racks, 0% if they need not" in finding.cause
    assert "leading.keep_copartitioned=never" in finding.cure
    assert finding.dollars_per_month == pytest.approx(monthly(2 * GB))
    apart = LeadingSettings(keep_copartitioned="never")
    assert not any(
        one.code is Code.COPARTITIONING for one in verdict_of(snapshot(thirty_topics()), leading=apart).findings
    )
    assert not any(one.code is Code.COPARTITIONING for one in found(snapshot(thirty_topics("roundrobin"))))


def served(
    taken: GroupTraffic, racks: Sequence[str], *, guessed: bool = False, fetching: Mapping[str, bool] | None = None
) -> GroupTraffic:
    """The group whose n-th partition belongs to the n-th member in turn, and is served from these racks."""
    names = [member.id for member in taken.members]
    return replace(
        taken,
        members=tuple(
            replace(one, rack=replace(one.rack, fetches_with_rack=(fetching or {}).get(one.id, True)))
            for one in taken.members
        ),
        partitions=tuple(
            replace(one, member=names[at % len(names)], serving_rack=racks[at % len(racks)])
            for at, one in enumerate(taken.partitions)
        ),
        blind_spots=(BlindSpot.SERVING_GUESSED,) if guessed else (),
    )


FLAT = [flow(client, replica, GB) for client in (A, B, C) for replica in (A, B, C)]
EXACT = [replace(one, key=replace(one.key, method="exact")) for one in FLAT]
TWO_THIRDS = replace(SOUND, present_bytes=2 / 3, present_partitions=2 / 3)


def flat(flows: Sequence[Flow] = FLAT, *, kind: GroupKind = "classic", assignor: str = "range") -> GroupTraffic:
    """Members with racks and replicas in each, of which two thirds are read across racks."""
    made = problem(((A, B, C), (B, C, A), (C, A, B)) * 2, SPREAD, NEAR)
    return group(flows=flows, shares=TWO_THIRDS, made=made, kind=kind, assignor=assignor)


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_brokers_that_send_members_elsewhere_are_the_cause_and_not_the_assignment(kind: GroupKind) -> None:
    """The flat ratio is one finding, with all of its price, and nothing that an agent, or an assignor, would cure."""
    taken = snapshot(served(flat(kind=kind), (B, C, A)), replicas=EVERYWHERE)
    result = verdict_of(taken)
    (finding,) = result.findings
    assert (finding.code, finding.costs) == (Code.FOLLOWERS_DO_NOT_SERVE, True)
    assert all(part in finding.cause for part in ("67%", "60 s", "6 partitions"))
    assert "replica.selector.class" in finding.cure
    assert finding.dollars_per_month == pytest.approx(monthly(6 * GB))
    assert result.avoidable_dollars_per_month == 0


def test_clients_that_count_what_brokers_would_not_send_do_not_fetch_with_their_rack() -> None:
    """The brokers let replicas in the rack serve, and the clients' own counters show leaders: it is their setting."""
    finding = only(snapshot(served(flat(EXACT), (A, B, C)), replicas=EVERYWHERE), Code.FOLLOWERS_DO_NOT_SERVE)
    assert "its clients count so, while the brokers let replicas there serve" in finding.cause
    assert "racks.fetch_with_rack" in finding.cure
    unasked = served(flat(EXACT), (A, B, C), guessed=True)
    assert (
        ": its clients count so. No" in only(snapshot(unasked, replicas=EVERYWHERE), Code.FOLLOWERS_DO_NOT_SERVE).cause
    )


@pytest.mark.parametrize(
    ("taken", "replicas"),
    [
        (served(flat(), (A, B, C)), EVERYWHERE),
        (served(flat(), (B, C, A), guessed=True), EVERYWHERE),
        (served(flat(), (B, C, A), fetching=dict.fromkeys(SPREAD, False)), EVERYWHERE),
        (served(flat(), (B, C, A)), ((1,), (2,), (3,)) * 2),
        (served(flat(EXACT), (B, C, A)), ((1, 2), (2, 3), (3, 1)) * 2),
    ],
    ids=["no longer", "guessed", "members read leaders", "one replica", "two replicas in three racks"],
)
def test_what_does_not_show_that_followers_do_not_serve(taken: GroupTraffic, replicas: Sequence[Sequence[int]]) -> None:
    """The bytes may then be a former answer, a guess, or read where no replica is near: the assignor is the cause."""
    finding = only(snapshot(taken, replicas=replicas), Code.AT_RANDOM_BASELINE)
    silent = not all(member.rack.fetches_with_rack for member in taken.members)
    assert ("not all of its members are known to fetch with theirs" in finding.cause) == silent


def test_followers_without_a_selector_are_the_selectors_finding() -> None:
    """Where the configuration says that no follower serves, the brokers' answer is no second finding."""
    taken = snapshot(served(flat(), (B, C, A)), replicas=EVERYWHERE, rack_aware_fetch=False)
    codes = [one.code for one in found(taken)]
    assert Code.NO_RACK_AWARE_SELECTOR in codes
    assert Code.FOLLOWERS_DO_NOT_SERVE not in codes


def test_what_plans_avoid_lacks_what_followers_do_not_serve() -> None:
    """Of two topics one has replicas in each rack: each finding has the price of its own bytes."""
    other = [flow(A, B, 2 * GB, topic="audit"), flow(B, B, GB, topic="audit")]
    half = served(flat([flow(A, B, 2 * GB), flow(A, A, GB), *other]), (B, C, A))
    half = replace(half, shares=replace(TWO_THIRDS, optimal_by="bytes"))
    taken = snapshot(half, replicas=EVERYWHERE)
    single = tuple(PartitionView(leader=at, replicas=(at,), in_sync=(at,)) for at in (1, 2, 3))
    taken = replace(taken, cluster=replace(taken.cluster, topics={**taken.cluster.topics, "audit": single}))
    prices = {one.code: one.dollars_per_month for one in found(taken)}
    each = pytest.approx(monthly(2 * GB))
    assert prices == {Code.FOLLOWERS_DO_NOT_SERVE: each, Code.AT_RANDOM_BASELINE: each}


def test_what_was_refused_is_reported_and_costs_nothing() -> None:
    """A missing permission and a failure have different codes, and neither costs; a hand-over is no finding."""
    gaps = [
        Gap(what=Family.LOG_DIRS, refused=True, where="broker 1", reason="r", consequence="x"),
        Gap(what=Family.PROBE, refused=False, where="", reason="timed out", consequence="y"),
        handed_over(["orders"], at=0.0),
    ]
    reported = found(snapshot(group(flows=NEAR_FLOWS, shares=SOUND), gaps=gaps))
    assert [(one.code, one.where, one.costs) for one in reported] == [
        (Code.NOT_ALLOWED, "log-dirs broker 1", False),
        (Code.FAILED, "probe", False),
    ]


def test_the_most_expensive_comes_first() -> None:
    """Findings that cost are first, sorted by cost; with free bytes they are the same, and other JSON is refused."""
    free = verdict_of(snapshot(group(flows=[flow(A, B, GB)], shares=RANDOM)), prices="azure")
    assert ([one.code for one in free.findings], free.costs) == ([Code.AT_RANDOM_BASELINE], False)
    with pytest.raises(AgentError, match="the answer is not a list of findings"):
        findings_from_json(b"[]")
    gap = Gap(what=Family.PROBE, refused=True, where="", reason="r", consequence="c")
    small = group("small", flows=[flow(A, B, GB)], shares=HALF)
    large = group("large", flows=[flow(A, B, 9 * GB)], shares=HALF)
    assert [one.where for one in found(snapshot(small, large, gaps=[gap]))] == [
        "group large",
        "group small",
        "probe",
    ]


def test_a_cure_can_be_copied_into_a_shell() -> None:
    """A group's name with signs of a shell is quoted in the commands."""
    (finding,) = found(snapshot(group("a b;$(c)", flows=[flow(A, B, GB)], shares=HALF)))
    assert f"`samerack run --group 'a b;$(c)' -b {BROKERS}`; `samerack plan 'a b;$(c)' -b {BROKERS}`" in finding.cure
