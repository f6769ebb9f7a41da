"""Findings on snapshots: each fault has its own code, and a sound set-up has no findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from samerack.agent.reporting import costs, findings
from samerack.agent.reporting.evidence import Evidence
from samerack.agent.reporting.findings import Code, Finding, Verdict
from samerack.agent.reporting.server_assignment import server_share, with_servers
from samerack.agent.reporting.verify import verdict
from samerack.agent.reporting.verify_racks import rack_names
from samerack.cluster.server_assignors import LINE, ServerAssignors
from samerack.cluster.view import NoRack
from samerack.common.errors import AgentError
from samerack.common.money import shipped
from samerack.common.settings import LeadingSettings
from samerack.traffic.model import Family, Gap, GroupKind, Shares, TrafficSnapshot
from tests.unit.agent.measured import GB, NEAR, RANGE, ROTATED, SPREAD, A, B, C, flow, group, problem, snapshot

SOUND = Shares(present_bytes=0.0, present_partitions=0.0, optimal=0.0, optimal_by="bytes", random=2 / 3)
RANDOM = replace(SOUND, present_bytes=0.66, present_partitions=0.66)
HALF = replace(SOUND, present_bytes=0.33, present_partitions=0.33)
UNIFORM = ServerAssignors(by_broker={1: ("uniform", "range"), 2: ("uniform", "range"), 3: ("uniform", "range")})
NEAR_FLOWS = (flow(A, A, GB), flow(B, B, GB), flow(C, C, GB))


def judged(
    taken: TrafficSnapshot, prices: str = "aws", own_rack: str = "", offered: ServerAssignors = UNIFORM
) -> Verdict:
    """The verdict on a snapshot, of an agent in this rack, with these assignors in the brokers."""
    table = shipped(prices)
    report = costs.report(taken, table, roles={})
    report = with_servers(report, taken, offered=lambda: offered, share_of=server_share)
    return verdict(Evidence(snapshot=taken, report=report, leading=LeadingSettings(), own_rack=own_rack))


def found(taken: TrafficSnapshot) -> list[Finding]:
    """The findings of a snapshot."""
    return list(judged(taken).findings)


def only(taken: TrafficSnapshot, code: Code) -> Finding:
    """The only finding, which has this code."""
    (finding,) = found(taken)
    assert finding.code is code
    return finding


def test_a_sound_set_up_has_no_findings() -> None:
    """With racks everywhere and near reads only, there are no findings and no costs."""
    judgement = judged(snapshot(group(flows=NEAR_FLOWS, shares=SOUND)))
    assert judgement.findings == ()
    assert not judgement.costs
    assert (judgement.groups, judgement.brokers) == (1, 3)


@pytest.mark.parametrize(
    ("own", "code"),
    [("RACK-A", Code.RACKS_DIFFER_IN_CASE), ("us-east-1a", Code.RACKS_NEVER_MEET)],
)
def test_a_pod_whose_rack_no_broker_is_in(own: str, code: Code) -> None:
    """A pod whose rack has no broker is a finding: clients beside the agent have that rack and read nothing near."""
    (finding,) = judged(snapshot(group(flows=NEAR_FLOWS, shares=SOUND)), own_rack=own).findings
    assert (finding.code, finding.where, finding.costs) == (code, "this pod", True)
    assert finding.cause == f"its rack {own!r} is none of a broker; they are in rack-a, rack-b, rack-c"
    assert "pod.zones" in finding.cure


def test_a_pod_among_brokers_is_no_finding() -> None:
    """A pod in a rack of brokers is no finding; neither is a pod without a known rack."""
    assert judged(snapshot(group(flows=NEAR_FLOWS, shares=SOUND)), own_rack=B).findings == ()


def test_an_empty_cluster_has_no_findings() -> None:
    """A cluster without groups has no findings."""
    assert found(snapshot()) == []


def test_brokers_without_rack() -> None:
    """Brokers without rack are named."""
    taken = snapshot(group(flows=NEAR_FLOWS, shares=SOUND), brokers={1: A, 2: NoRack.UNSET, 3: C})
    finding = only(taken, Code.BROKERS_WITHOUT_RACK)
    assert finding.where == "broker 2"
    assert finding.cause.startswith("1 of 3 brokers")


def test_an_absent_broker_is_not_without_rack() -> None:
    """A broker whose rack is unknown is not one without rack."""
    taken = snapshot(group(flows=NEAR_FLOWS, shares=SOUND), brokers={1: A, 2: NoRack.UNKNOWN, 3: C})
    assert found(taken) == []


def test_a_broker_that_is_away_may_be_the_one_of_a_rack() -> None:
    """While the only broker of a rack restarts, members in that rack are no finding."""
    taken = snapshot(group(flows=NEAR_FLOWS, shares=SOUND), brokers={1: A, 3: C})
    assert found(taken) == []


def test_no_rack_aware_selector() -> None:
    """Replicas in other racks that may not serve fetches are a finding."""
    taken = snapshot(group(flows=NEAR_FLOWS, shares=SOUND), replicas=((1, 2), (2, 3)), rack_aware_fetch=False)
    assert "replica.selector.class=" in only(taken, Code.NO_RACK_AWARE_SELECTOR).cure


@pytest.mark.parametrize("aware", [False, None])
def test_a_selector_that_would_not_matter_is_no_finding(aware: bool | None) -> None:  # noqa: FBT001 - a table of states
    """Without other replicas, or where the configuration could not be read, there is no finding."""
    replicas: Sequence[Sequence[int]] = ((1, 2),) if aware is None else ((1,),)
    assert found(snapshot(group(flows=NEAR_FLOWS, shares=SOUND), replicas=replicas, rack_aware_fetch=aware)) == []


def test_members_without_rack() -> None:
    """Members without rack are counted, named by client id, and priced as if assigned at random."""
    bare: Mapping[str, str | None] = {"m1": A, "m2": None, "m3": C}
    taken = snapshot(group(members=bare, flows=[*NEAR_FLOWS, flow("", A, 3 * GB)], shares=SOUND))
    finding = only(taken, Code.MEMBERS_WITHOUT_RACK)
    assert finding.cause.startswith("1 of 3 members have no rack (client-m2)")
    assert finding.dollars_per_month == pytest.approx(shipped("aws").dollars(2 * GB) / 60 * 730 * 3600)


def test_members_without_rack_do_not_matter_in_one_rack() -> None:
    """Members without rack are no finding where all brokers are in one rack."""
    bare: Mapping[str, str | None] = {"m1": None}
    assert found(snapshot(group(members=bare, shares=Shares()), brokers={1: A, 2: A})) == []


@pytest.mark.parametrize(
    ("members", "brokers", "code", "part"),
    [
        ({"RACK-A", B, C}, {A, B, C}, Code.RACKS_DIFFER_IN_CASE, "'RACK-A' and 'rack-a'"),
        ({"x", "y"}, {A, B}, Code.RACKS_NEVER_MEET, "no rack of a member is a rack of a broker: x, y"),
        ({A, "x"}, {A, B}, Code.RACKS_NEVER_MEET, "some racks of members are not a rack of a broker: x;"),
        ({"use1-az1", "use1-az2"}, {"us-east-1a", "us-east-1b"}, Code.ZONE_NAME_AGAINST_ID, "zone ids of AWS"),
        ({"us-east-1a"}, {"use1-az1", "use1-az4"}, Code.ZONE_NAME_AGAINST_ID, "zone names of AWS"),
        ({"1", "2"}, {"westeurope-1", "westeurope-2"}, Code.ZONE_NAME_AGAINST_ID, "bare numbers"),
        ({"us-east-1a"}, {"us-west-2a"}, Code.RACKS_NEVER_MEET, "us-west-2a"),
    ],
)
def test_names_that_do_not_meet(members: set[str], brokers: set[str], code: Code, part: str) -> None:
    """One reason says why the racks of members and brokers do not match."""
    (reason,) = rack_names(members, brokers)
    assert reason.code is code
    assert part in reason.cause


@pytest.mark.parametrize(
    ("members", "brokers"),
    [({A, B}, {A, B, C}), (set(), {A}), ({A}, set()), ({A}, {A})],
    ids=["some racks", "no members", "no brokers", "one rack"],
)
def test_names_that_meet(members: set[str], brokers: set[str]) -> None:
    """There is no finding if every rack of a member has a broker, or if one side has no racks."""
    assert list(rack_names(members, brokers)) == []


def test_racks_that_differ_in_case_are_a_finding_of_the_group() -> None:
    """The finding names the group and prices what it reads across racks."""
    racks = {"m1": "Rack-A", "m2": B, "m3": C}
    taken = snapshot(group(members=racks, flows=[flow("Rack-A", A, GB)], shares=SOUND))
    finding = only(taken, Code.RACKS_DIFFER_IN_CASE)
    assert (finding.where, (finding.dollars_per_month or 0) > 0) == ("group orders", True)


def test_a_measured_share_at_the_random_baseline() -> None:
    """A group whose members have racks, and whose bytes cross racks as at random, is a finding."""
    finding = only(snapshot(group(flows=[flow(A, B, GB)], shares=RANDOM)), Code.AT_RANDOM_BASELINE)
    assert "66% of its bytes cross racks, as at random (67%); 0% would do" in finding.cause
    assert "samerack run --group orders" in finding.cure


def test_less_than_random_is_avoidable_traffic() -> None:
    """Half of the random share is a finding with another code."""
    finding = only(snapshot(group(flows=[flow(A, B, GB)], shares=HALF)), Code.AVOIDABLE)
    assert finding.cause == "33% crosses racks, 0% would do"


def test_members_that_share_only_a_foreign_protocol() -> None:
    """The agent offers no such protocol, so it cannot join; to offer it could make the group's leader fail.

    The finding costs only where something could be saved.
    """
    sound = only(snapshot(group(assignor="mine", flows=NEAR_FLOWS, shares=SOUND)), Code.NO_COMMON_PROTOCOL)
    assert not sound.costs
    assert "leading.protocols" not in sound.cure
    assert sound.cure.startswith("give all members a common assignor, range for instance")
    costly = found(snapshot(group(assignor="mine", flows=[flow(A, B, GB)], shares=HALF)))
    assert [(one.code, one.costs) for one in costly] == [(Code.NO_COMMON_PROTOCOL, True)]


def test_a_group_that_brokers_assign_without_racks() -> None:
    """The loss of a KIP-848 group is priced against the best plan, and reported once."""
    taken = snapshot(group(kind="consumer", assignor="uniform", flows=[flow(A, B, GB)], shares=RANDOM))
    finding = only(taken, Code.BROKER_ASSIGNED)
    assert finding.dollars_per_month == pytest.approx(shipped("aws").dollars(0.66 * GB) / 60 * 730 * 3600)
    assert finding.cause == (
        "the brokers assign it (KIP-848, uniform) without regard to racks: 66% crosses racks, 0% would do, 0% with "
        "samerack's assignor"
    )
    assert LINE in finding.cure


def test_brokers_without_the_assignor_that_others_have() -> None:
    """A cluster in the middle of a rollout has a finding that costs nothing, though its groups read near now."""
    some = ServerAssignors(by_broker={1: ("samerack", "uniform"), 2: ("uniform",), 3: ("uniform",)})
    taken = snapshot(group(kind="consumer", assignor="samerack", flows=NEAR_FLOWS, shares=SOUND))
    (finding,) = judged(taken, offered=some).findings
    assert (finding.code, finding.where, finding.costs) == (Code.ASSIGNOR_ON_SOME_BROKERS, "brokers 2, 3", False)
    assert LINE in finding.cure
    classic = snapshot(group(flows=NEAR_FLOWS, shares=SOUND))
    assert judged(classic, offered=some).findings == ()


@pytest.mark.parametrize(
    ("kind", "assignor", "cure"),
    [
        ("classic", "range", "let the agent lead it"),
        ("streams-classic", "stream", "Kafka Streams: set rack.aware.assignment.strategy and client.rack"),
        ("streams", "sticky", "rack.aware.assignment.strategy has no effect with group.protocol=streams"),
    ],
)
def test_each_kind_of_group_is_told_what_helps_it(kind: GroupKind, assignor: str, cure: str) -> None:
    """Only a classic group gets the agent as its cure, and no cure is a setting that the protocol ignores."""
    finding = only(snapshot(group(kind=kind, assignor=assignor, flows=NEAR_FLOWS, shares=HALF)), Code.AVOIDABLE)
    assert cure in finding.cure
    assert ("let the agent lead" in finding.cure) == (kind == "classic")


def test_replicas_that_prevent_locality() -> None:
    """With all replicas in one rack and members in three, most reads cross racks in any plan."""
    made = problem(((A,),) * 6, SPREAD, RANGE)
    shares = replace(SOUND, present_bytes=4 / 6, optimal=4 / 6)
    finding = only(snapshot(group(flows=[flow(B, A, GB)], shares=shares, made=made)), Code.REPLICAS_PREVENT_LOCALITY)
    assert "at least 67% has to cross" in finding.cause
    assert "6 of 6 partitions of clicks" in finding.cause


def test_leaders_that_prevent_locality_are_the_selectors_fault() -> None:
    """If no read had to cross racks with every replica serving, the finding is the selector, not the replicas."""
    replicas = ((A, B, C),) * 6
    made = problem(replicas, SPREAD, RANGE, reads_any_replica=False)
    shares = replace(SOUND, present_bytes=4 / 6, optimal=4 / 6)
    taken = snapshot(
        group(flows=[flow(B, A, GB)], shares=shares, made=made), replicas=((1, 2, 3),), rack_aware_fetch=False
    )
    assert only(taken, Code.NO_RACK_AWARE_SELECTOR).where == "brokers"


def test_uneven_members_are_named_as_the_reason() -> None:
    """The finding names the uneven members where too few replicas are in the rack of most members."""
    racks = {"m1": A, "m2": A, "m3": B}
    made = problem(((A,), (B,), (B,), (B,), (B,), (B,)), racks, {"m1": (0, 1), "m2": (2, 3), "m3": (4, 5)})
    shares = replace(SOUND, optimal=0.5, present_bytes=0.5)
    finding = only(
        snapshot(group(members=racks, flows=[flow(A, B, GB)], shares=shares, made=made)), Code.REPLICAS_PREVENT_LOCALITY
    )
    assert "has to cross racks in any balanced plan" in finding.cause


def test_what_was_refused_is_told_and_costs_nothing() -> None:
    """A missing permission and a failure have different codes, and neither costs."""
    gaps = [
        Gap(
            what=Family.LOG_DIRS,
            refused=True,
            where="broker 1",
            reason="CLUSTER_AUTHORIZATION_FAILED",
            consequence="x",
        ),
        Gap(what=Family.PROBE, refused=False, where="", reason="timed out", consequence="y"),
    ]
    told = found(snapshot(group(flows=NEAR_FLOWS, shares=SOUND), gaps=gaps))
    assert [(one.code, one.where, one.costs) for one in told] == [
        (Code.NOT_ALLOWED, "log-dirs broker 1", False),
        (Code.FAILED, "probe", False),
    ]


def test_the_most_expensive_comes_first() -> None:
    """Findings that cost are first, sorted by cost."""
    gap = Gap(what=Family.PROBE, refused=True, where="", reason="r", consequence="c")
    cheap = group("cheap", flows=[flow(A, B, GB)], shares=HALF)
    dear = group("dear", flows=[flow(A, B, 9 * GB)], shares=HALF)
    assert [one.where for one in found(snapshot(cheap, dear, gaps=[gap]))] == ["group dear", "group cheap", "probe"]


def test_where_bytes_are_free_nothing_costs() -> None:
    """With free bytes the findings are the same, but none of them costs money."""
    judgement = judged(snapshot(group(flows=[flow(A, B, GB)], shares=RANDOM)), prices="azure")
    assert [one.code for one in judgement.findings] == [Code.AT_RANDOM_BASELINE]
    assert not judgement.costs


def test_a_verdict_survives_its_json() -> None:
    """The answer of `GET /v1/findings` is read back equal."""
    judgement = judged(snapshot(group(flows=[flow(A, B, GB)], shares=RANDOM)))
    assert findings.from_json(findings.to_json(judgement)) == judgement
    with pytest.raises(AgentError, match="the answer is no verdict"):
        findings.from_json(b"[]")


def test_groups_without_members_are_left_out() -> None:
    """A group without members has no findings."""
    empty = replace(group(shares=Shares()), members=(), problem=None)
    assert found(snapshot(empty)) == []


def test_near_is_the_reference() -> None:
    """The near plan that these tests build on has no cross-rack partition and no finding."""
    assert judged(snapshot(group(made=problem(ROTATED, SPREAD, NEAR), flows=NEAR_FLOWS, shares=SOUND))).findings == ()
