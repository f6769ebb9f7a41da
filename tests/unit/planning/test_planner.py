"""From views and JoinGroup answers to plans: who owns what, what is withheld, and what happens when planning fails."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from samerack.assignors.consumer import kafkas, optimal
from samerack.assignors.problem import NOBODY, AssignmentError
from samerack.cluster.racks import MemberRack
from samerack.planning import planner
from samerack.planning.members import PlanMember, members_of_join, members_of_view, placed
from samerack.planning.planner import make_plan
from samerack.planning.problem import Mode, mode_of, partitions_changed, problem_of
from samerack.protocol.consumer import decode_assignment
from samerack.protocol.sticky import decode_sticky, encode_sticky
from samerack.protocol.values import Subscription, from_flat, from_pairs, no_partitions, to_pairs
from samerack.settings.leading import LeadingSettings, RackSettings
from tests.unit.agent.values import cluster, group, member

EAGER = Mode(cooperative=False, rack_aware_fetch=True)
COOPERATIVE = Mode(cooperative=True, rack_aware_fetch=True)
RACKS = RackSettings(client_ids={"pod-c-*": "c"}, networks={"10.2.0.0/16": "b"})
NOWHERE = MemberRack(rack=None, source="none", fetches_with_rack=False)
LOCAL = cluster(t=[(1,), (2,), (3,)])


def owner(
    name: str,
    *pairs: tuple[str, int],
    rack: str | None = None,
    version: int = 3,
    topics: tuple[str, ...] = ("t",),
    repeats: bool = False,
) -> PlanMember:
    """A member that owns these partitions."""
    return PlanMember(
        id=name,
        instance_id=None,
        topics=topics,
        version=version,
        rack=MemberRack(rack=rack, source="subscription", fetches_with_rack=True) if rack else NOWHERE,
        owned=from_pairs(pairs),
        repeats_user_data=repeats,
    )


def given(plan: planner.Plan, members: Sequence[PlanMember]) -> dict[str, list[tuple[str, int]]]:
    """The partitions of each member, decoded from the encoded plan."""
    return {
        name: to_pairs(decode_assignment(content).partitions) for name, content in planner.encode(plan, members).items()
    }


def test_a_view_gives_what_was_assigned() -> None:
    """Members of a stable group own what the group's leader assigned; unreadable ones are left out."""
    seen = group(
        member("m-1", "t", rack="a", assigned=from_pairs([("t", 0)])),
        member("m-2", "t", client_id="pod-c-1"),
        member("m-3", "t", readable=False),
    )
    first, second = members_of_view(seen, RACKS)
    assert (first.rack.rack, to_pairs(first.owned)) == ("a", [("t", 0)])
    assert (second.rack.rack, second.rack.source, second.owned) == ("c", "client-id", no_partitions())


def test_a_member_in_a_rack_that_no_broker_has_is_planned_as_one_without() -> None:
    """What it reads is neither near nor across racks, as where racks are not known at all."""
    members = placed([owner("m-1", ("t", 0), rack="a"), owner("m-2", ("t", 1), rack="cellar")], LOCAL.racks)
    problem = problem_of(members, LOCAL, EAGER)
    assert problem.member_rack.tolist() == [problem.racks.index("a"), NOBODY]
    assert "cellar" not in problem.racks
    assert make_plan(problem, EAGER).before.known == 1
    assert members[1].rack.named == "cellar"


def test_eager_members_own_what_is_remembered() -> None:
    """Eager members join with nothing: they own what they had, found by member id or by instance id."""
    remembered = {"m-1": from_pairs([("t", 0)]), "pod-2": from_pairs([("t", 1)]), "m-gone": from_pairs([("t", 2)])}
    subscription = Subscription(version=1, topics=("t",), owned=from_pairs([("t", 9)]))
    joined = [("m-1", None, subscription), ("m-2-anew", "pod-2", subscription), ("m-3", None, subscription)]
    members = members_of_join(joined, group=None, remembered=remembered, cooperative=False, racks=RACKS)
    assert [to_pairs(each.owned) for each in members] == [[("t", 0)], [("t", 1)], []]
    assert [each.generation for each in members] == [-1, -1, -1]


def test_cooperative_members_own_what_they_claim() -> None:
    """Cooperative members own what they claim, with their generation; remembered partitions do not count."""
    subscription = Subscription(version=2, topics=("t",), owned=from_pairs([("t", 5)]), generation=7)
    (only,) = members_of_join(
        [("m-1", None, subscription)],
        group=None,
        remembered={"m-1": from_pairs([("t", 0)])},
        cooperative=True,
        racks=RACKS,
    )
    assert (to_pairs(only.owned), only.generation) == ([("t", 5)], 7)


def test_joining_members_get_their_host_from_the_last_poll() -> None:
    """JoinGroup has no client id or host: a described member has both, a new one the client id in its member id."""
    seen = group(member("m-1", client_host="10.2.0.1"), state="PreparingRebalance")
    subscription = Subscription(version=0, topics=("t",))
    uuid = "6d9f1c1e-3c5a-4a1e-9b6d-0123456789ab"
    joined = [("m-1", None, subscription), (f"pod-c-7-{uuid}", None, subscription)]
    known, new = members_of_join(joined, group=seen, remembered={}, cooperative=False, racks=RACKS)
    assert (known.rack.rack, known.rack.source) == ("b", "network")
    assert (new.rack.rack, new.rack.source) == ("c", "client-id")


@pytest.mark.parametrize(
    ("described", "source"),
    [({"client_host": "10.2.0.1"}, ("b", "network")), ({"client_id": "pod-c-7"}, ("c", "client-id"))],
)
def test_a_static_member_that_restarts_keeps_its_rack(described: dict[str, str], source: tuple[str, str]) -> None:
    """It joins with a new member id, and is described under the former one: its instance id says who it is."""
    seen = group(member("m-former", instance_id="pod-7", **described), state="PreparingRebalance")  # type: ignore[arg-type]
    joined = [("pod-7-6d9f1c1e", "pod-7", Subscription(version=0, topics=("t",)))]
    (again,) = members_of_join(joined, group=seen, remembered={}, cooperative=False, racks=RACKS)
    assert (again.rack.rack, again.rack.source) == source


@pytest.mark.parametrize(
    ("protocol", "keep", "mode"),
    [
        ("range", "auto", (False, True)),
        ("range", "never", (False, False)),
        ("roundrobin", "auto", (False, False)),
        ("roundrobin", "always", (False, True)),
        ("cooperative-sticky", "auto", (True, False)),
    ],
)
def test_the_protocol_says_how_to_plan(protocol: str, keep: str, mode: tuple[bool, bool]) -> None:
    """The protocol decides whether members rebalance incrementally and expect co-partitioned topics together."""
    leading = LeadingSettings.model_validate({"keep_copartitioned": keep, "max_skew": 2, "deadline_seconds": 3})
    found = mode_of(protocol, leading, rack_aware_fetch=True)
    assert (found.cooperative, found.options.keep_copartitioned) == mode
    assert (found.options.max_skew, found.deadline_seconds) == (0 if mode[1] else 2, 3.0)


def test_the_plan_follows_racks() -> None:
    """Each partition goes to the member in its rack, and the costs before and after show it."""
    members = [owner("m-1", ("t", 1), rack="a"), owner("m-2", ("t", 2), rack="b"), owner("m-3", ("t", 0), rack="c")]
    plan = make_plan(problem_of(members, LOCAL, EAGER), EAGER)
    assert given(plan, members) == {"m-1": [("t", 0)], "m-2": [("t", 1)], "m-3": [("t", 2)]}
    assert (plan.before.cross_rack, plan.after.cross_rack, plan.after.moved) == (3, 0, 3)
    assert (plan.assignor, plan.failure, plan.withheld) == ("optimal", None, 0)


@pytest.mark.parametrize(("aware", "fetches", "cross_rack"), [(True, True, 0), (True, False, 1), (False, True, 1)])
def test_followers_count_only_where_both_sides_fetch_with_racks(
    aware: bool,  # noqa: FBT001 - a column of the table
    fetches: bool,  # noqa: FBT001 - a column of the table
    cross_rack: int,
) -> None:
    """A follower in the member's rack counts if brokers select by rack and the member's fetches carry one."""
    rack = MemberRack(rack="b", source="network", fetches_with_rack=fetches)
    reader = PlanMember(id="m", instance_id=None, topics=("t",), rack=rack, owned=no_partitions())
    mode = Mode(cooperative=False, rack_aware_fetch=aware)
    plan = make_plan(problem_of([reader], cluster(t=[(1, 2)]), mode), mode)
    assert plan.after.cross_rack == cross_rack


def test_range_stands_in_when_the_optimal_assignor_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """If planning fails, the group gets range's plan, and the plan names the failure."""

    def broken(*_: object) -> None:
        raise IndexError("out of luck")

    monkeypatch.setattr(optimal, "assign", broken)
    problem = problem_of([owner("m-1"), owner("m-2")], LOCAL, EAGER)
    plan = make_plan(problem, EAGER)
    assert (plan.assignor, plan.failure) == ("range", "IndexError: out of luck")
    assert np.array_equal(plan.final, kafkas.assign_range(problem))


def test_range_stands_in_when_the_plan_fails_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that leaves a partition out is never sent."""
    monkeypatch.setattr(optimal, "assign", lambda problem, _: np.full(len(problem.topic_of), NOBODY, np.int32))
    plan = make_plan(problem_of([owner("m-1")], LOCAL, EAGER), EAGER)
    assert plan.assignor == "range"
    assert plan.failure is not None
    assert plan.failure.startswith("AssignmentError: partition t-0 is not assigned")


def test_nothing_is_sent_when_range_fails_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no plan passes the check, the error is raised."""
    for module, assign in ((optimal, "assign"), (kafkas, "assign_range")):
        monkeypatch.setattr(module, assign, lambda problem, *_: np.full(len(problem.topic_of), 7, np.int32))
    with pytest.raises(AssignmentError, match="member that does not exist"):
        make_plan(problem_of([owner("m-1")], LOCAL, EAGER), EAGER)


@pytest.mark.parametrize(("versions", "written"), [((3, 3), 3), ((3, 0), 0), ((1, 2), 1), ((9, 7), 3)])
def test_the_oldest_member_sets_the_version(versions: tuple[int, int], written: int) -> None:
    """All get their assignment in a version that each of them can read, and that this program can write."""
    members = [owner(f"m-{index}", version=version) for index, version in enumerate(versions)]
    plan = make_plan(problem_of(members, LOCAL, EAGER), EAGER)
    assert {decode_assignment(content).version for content in planner.encode(plan, members).values()} == {written}


def test_only_a_member_that_repeats_user_data_is_given_some() -> None:
    """Without it 17 to 19 of 24 partitions of sarama's members moved when the agent had gone; others need none."""
    members = [owner("m-1", ("t", 0), ("t", 2), repeats=True), owner("m-2", ("t", 1))]
    plan = make_plan(problem_of(members, LOCAL, EAGER), EAGER)
    user_data = planner.user_data_of(plan, members, generation=7)
    first, second = map(decode_assignment, planner.encode(plan, members, user_data).values())
    data = decode_sticky(first.user_data)
    assert (to_pairs(data.owned), data.generation) == ([("t", 2), ("t", 0)], 7)
    assert first.user_data != encode_sticky(first.partitions, 7), "which Java's members send of their own accord"
    assert to_pairs(first.partitions) == to_pairs(planner.sent_partitions(plan)["m-1"])
    assert second.user_data is None


@pytest.mark.parametrize(
    ("protocol", "version", "user_data", "repeats"),
    [
        pytest.param("sticky", 0, None, True, id="sarama-at-first"),
        pytest.param("sticky", 0, b"given", True, id="sarama-then"),
        pytest.param("sticky", 0, b"", False, id="kafka-python-at-first"),
        pytest.param("sticky", 0, b"own", False, id="kafka-python-then"),
        pytest.param("sticky", 1, None, True, id="sarama-1.61-at-first"),
        pytest.param("sticky", 1, b"own", False, id="java-2.8-then"),
        pytest.param("sticky", 3, b"given", False, id="java-then"),
        pytest.param("range", 0, None, False, id="no-sticky"),
    ],
)
def test_members_that_repeat_user_data_are_known_by_theirs(
    protocol: str, version: int, user_data: bytes | None, *, repeats: bool
) -> None:
    """Sarama's send version 0 or 1 and none, or what they were given; other clients make theirs by themselves."""
    subscription = Subscription(version=version, topics=("t",), user_data=user_data)
    (one,) = members_of_join(
        [("m-1", None, subscription)],
        group=None,
        remembered={},
        cooperative=False,
        racks=RACKS,
        protocol=protocol,
        given={b"given"},
    )
    assert one.repeats_user_data is repeats


def owned_by(*pairs: tuple[str, int], topics: tuple[str, ...] = ("t",)) -> bool:
    """Whether a group whose only member owns these has to be rebalanced, if t-0, t-1, t-2 and u-0 exist."""
    there = cluster(t=[(1,), (2,), (3,)], u=[(1,)])
    members = [owner("m-1", *pairs, topics=topics)]
    return partitions_changed(problem_of(members, there, EAGER), members, there)


ALL = (("t", 0), ("t", 1), ("t", 2))


@pytest.mark.parametrize(
    ("pairs", "topics", "is_change"),
    [
        (ALL, ("t",), False),
        ((*ALL, ("elsewhere", 0)), ("t",), False),
        ((), (), False),
        (ALL[:2], ("t",), True),
        (ALL, ("t", "u"), True),
        ((*ALL, ("t", 3)), ("t",), False),
        ((("t", 0), ("t", 1), ("t", 3)), ("t",), True),
        ((*ALL, ("u", 0)), ("t",), True),
    ],
    ids=[
        "all",
        "not shown",
        "nothing",
        "new partition",
        "new topic",
        "a partition is gone",
        "one is gone, one is new",
        "unsubscribed",
    ],
)
def test_what_is_a_change(pairs: tuple[tuple[str, int], ...], topics: tuple[str, ...], *, is_change: bool) -> None:
    """A partition without owner, or whose owner has unsubscribed, is a change; one that no longer exists is none."""
    assert owned_by(*pairs, topics=topics) is is_change


def test_contesting_owners_are_a_change() -> None:
    """A partition that two members claim is a change."""
    members = [owner("m-1", *ALL), owner("m-2", ("t", 0))]
    assert partitions_changed(problem_of(members, LOCAL, EAGER), members, LOCAL)


def test_runs_of_one_topic_are_joined() -> None:
    """A topic that occurs twice in what a member owns counts with all its partitions."""
    split = from_flat(("t", "t"), (1, 2), np.array([0, 1, 2], np.int32))
    members = [PlanMember(id="m", instance_id=None, topics=("t",), rack=NOWHERE, owned=split)]
    assert np.array_equal(problem_of(members, LOCAL, EAGER).owner, [0, 0, 0])
