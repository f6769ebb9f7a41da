"""Plans that leave out a member or a partition are found and not sent, and the agent leaves with the reason."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given

from samerack.agent.leading import assigning
from samerack.agent.leading.assigning import Assigning, NoConsumersError
from samerack.agent.policy.back_off_causes import BackOffError, Cause
from samerack.assignors.check import check
from samerack.assignors.consumer.registry import Options
from samerack.assignors.problem import NOBODY, AssignmentError
from samerack.cluster.group import MemberView
from samerack.cluster.group_member import Joined
from samerack.cluster.view import SettledCluster
from samerack.planning import planner
from samerack.planning.members import PlanMember
from samerack.planning.planner import (
    coverage,
    make_plan,
    members_without_partitions,
    owned_counts,
    unreadable_member_reason,
)
from samerack.planning.problem import Mode, problem_of
from samerack.protocol.consumer import decode_assignment, encode_subscription
from samerack.protocol.values import Subscription, from_flat, from_pairs, to_pairs
from samerack.settings.all_settings import Settings
from tests.unit.agent.values import cluster, group, member
from tests.unit.planning.test_planner import EAGER, owner
from tests.unit.planning.test_planner_properties import MODES, groups, settled_clusters

TOGETHER = replace(EAGER, options=Options(keep_copartitioned=True))
KAFKA_GO = bytes.fromhex("0001 00000001 0001 74 ffffffff")
"""A member of segmentio/kafka-go that subscribes to t."""


@dataclass(kw_only=True)
class Eye:
    """Replaces the watch: the cluster that is known now, and the cluster after a poll that is waited for."""

    cluster: SettledCluster = field(default_factory=SettledCluster)
    later: SettledCluster | None = None
    absent: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    rack_aware_fetch: bool = True
    record_limit: int | None = None
    waited: list[float] = field(default_factory=list)

    def show_interest(self, group: str, topics: frozenset[str]) -> None:
        """Do nothing."""

    def wait_for(self, topics: AbstractSet[str], seconds: float, owned: AbstractSet[str]) -> frozenset[str]:
        """End the poll at once, with `later` as its result."""
        self.waited.append(seconds)
        self.cluster = self.later or self.cluster
        return frozenset(topics - self.cluster.topics.keys() - (self.absent - owned))

    def denied_topics(self, group: str) -> frozenset[str]:  # noqa: ARG002 - there is one group
        """Topics that the agent may not see."""
        return self.refused


def _assigning(eye: Any, **leading: Any) -> Assigning:
    values = Settings.model_validate({"kafka": {"bootstrap.servers": "h:1"}, "leading": leading})
    return Assigning(group="orders", settings=values, watch=eye)


def _joined(protocol: str = "range", **members: bytes) -> Joined:
    everybody = {"me": encode_subscription(Subscription(version=0, topics=())), **members}
    return Joined(
        generation=3, protocol=protocol, me="me", members=tuple((name, None, data) for name, data in everybody.items())
    )


def _reader(*topics: str, owned: Mapping[str, int] | None = None) -> bytes:
    claims = from_pairs((owned or {}).items())
    return encode_subscription(Subscription(version=1, topics=topics, owned=claims))


def test_members_of_kafka_go_get_their_partitions() -> None:
    """Members of kafka-go, whose subscription ends early, get partitions."""
    sent = _assigning(Eye(cluster=cluster(t=[(1,), (2,)]))).assign(_joined(a=KAFKA_GO, b=KAFKA_GO))
    given_to = {name: to_pairs(decode_assignment(data).partitions) for name, data in sent.items()}
    assert sorted(given_to["a"] + given_to["b"]) == [("t", 0), ("t", 1)]
    assert (given_to["me"], len(given_to["a"])) == ([], 1)
    assert {decode_assignment(data).version for name, data in sent.items() if name != "me"} == {1}


def test_what_evicted_members_owned_is_theirs_under_other_ids() -> None:
    """An evicted leader comes back with a new id: nothing moves, and the share of before counts what it read."""
    ids = {name: f"app-{number}-{UUID(int=number, version=4)}" for number, name in enumerate("abcde")}
    leads = _assigning(Eye(cluster=cluster(t=[(1,), (2,), (3,)])))
    owned = {name: from_pairs([("t", number)]) for number, name in enumerate("abc")}
    before = {name: member(ids[name], "t", client_id=f"app-{n}", assigned=owned[name]) for n, name in enumerate("abc")}
    leads.see(group(*before.values()))
    leads.evicts([before["a"], before["b"]])
    back = {name: f"app-{number}-{UUID(int=number + 7, version=4)}" for number, name in enumerate("ab")}
    leads.assign(_joined("range", **dict.fromkeys([*back.values(), ids["c"]], _reader("t"))))
    assert leads.sent is not None
    assert leads.sent.plan.before.moved == leads.sent.plan.after.moved == 0
    assert leads.sent.plan.problem.owner.tolist().count(NOBODY) == 0
    assert leads.sent.returned == {back["a"]: ids["a"], back["b"]: ids["b"]}
    leads.see(group(*before.values()))
    leads.evicts([before["a"], before["b"]])
    leads.assign(_joined("range", **dict.fromkeys([ids["a"], *back.values(), ids["c"]], _reader("t"))))
    assert leads.sent.returned == {back["b"]: ids["b"]}, "the other was not evicted after all"
    leads.see(group(member("other", "t")))
    leads.assign(_joined("range", **{back["a"]: _reader("t")}))
    assert leads.sent.returned == {}


def test_no_plan_is_made_without_a_member_that_cannot_be_read() -> None:
    """The agent leaves, and the error names the member that cannot be read and the fault."""
    leads = _assigning(Eye(cluster=cluster(t=[(1,)])))
    with pytest.raises(BackOffError, match=r"member b: subscription: topics at byte 2: .*cut short") as caught:
        leads.assign(_joined(a=KAFKA_GO, b=bytes.fromhex("0001 00")))
    assert (caught.value.cause, leads.sent, leads.since) == (Cause.UNREADABLE, None, None)


class Clock:
    """The time of the assigning code, which only a test moves."""

    now = 100.0

    def monotonic(self) -> float:
        """Return the present second."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that stands still."""
    made = Clock()
    monkeypatch.setattr(assigning, "time", made)
    return made


@pytest.mark.usefixtures("clock")
def test_a_poll_is_waited_for_within_the_deadline() -> None:
    """A second of the deadline is kept for planning, or half of a shorter deadline."""
    eye, hurried = Eye(later=cluster(t=[(1,)])), Eye(later=cluster(t=[(1,)]))
    sent = _assigning(eye).assign(_joined(a=_reader("t")))
    assert to_pairs(decode_assignment(sent["a"]).partitions) == [("t", 0)]
    _assigning(hurried, deadline_seconds=1).assign(_joined(a=_reader("t")))
    assert [*eye.waited, *hurried.waited] == [4.0, 0.5]


def test_planning_has_what_is_left_of_the_deadline(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """The poll and the plan together take no longer than the deadline."""

    class Slow(Eye):
        def wait_for(self, topics: AbstractSet[str], seconds: float, owned: AbstractSet[str]) -> frozenset[str]:
            clock.now += 0.25
            return super().wait_for(topics, seconds, owned)

    modes: list[Mode] = []
    make = planner.make_plan

    def kept(problem: Any, mode: Mode, **more: Any) -> planner.Plan:
        modes.append(mode)
        return make(problem, mode, **more)

    monkeypatch.setattr(planner, "make_plan", kept)
    _assigning(Slow(later=cluster(t=[(1,)])), deadline_seconds=3).assign(_joined(a=_reader("t")))
    assert modes[0].deadline_seconds == 2.75


@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky"])
def test_no_plan_is_made_without_a_topic_that_could_not_be_described(protocol: str) -> None:
    """One unknown topic of two is enough: its readers would get none of its partitions, and nothing would show that."""
    leads = _assigning(Eye(cluster=cluster(t=[(1,)])))
    with pytest.raises(BackOffError, match=r"topics u could not be described") as caught:
        leads.assign(_joined(protocol, a=_reader("t", "u")))
    assert (caught.value.cause, leads.sent) == (Cause.TOPICS_UNKNOWN, None)


def test_a_topic_that_may_not_be_seen_is_no_reason_to_wait_for_a_poll() -> None:
    """A topic that may not be seen gives the cause NOT_ALLOWED and the advice to allow DESCRIBE."""
    leads = _assigning(Eye(cluster=cluster(t=[(1,)]), refused=frozenset({"u"})))
    with pytest.raises(BackOffError, match="allow DESCRIBE") as caught:
        leads.assign(_joined(a=_reader("t", "u")))
    assert caught.value.cause is Cause.NOT_ALLOWED


def test_a_topic_that_does_not_exist_is_planned_without() -> None:
    """A topic that does not exist is left out, as by any leader; a member that reads nothing else gets nothing."""
    leads = _assigning(Eye(cluster=cluster(t=[(1,), (2,)]), absent=frozenset({"u"})))
    sent = leads.assign(_joined(a=_reader("t", "u"), b=_reader("u")))
    assert len(decode_assignment(sent["a"]).partitions) == 2
    assert leads.sent is not None
    assert leads.sent.subscriptions == {"a": frozenset({"t", "u"}), "b": frozenset({"u"})}


def test_a_topic_that_a_member_owns_exists_whatever_one_broker_says() -> None:
    """A broker that has just started may know no topic: partitions with an owner must not be taken away for it."""
    leads = _assigning(Eye(cluster=cluster(t=[(1,)]), absent=frozenset({"u"})))
    with pytest.raises(BackOffError, match="topics u could"):
        leads.assign(_joined("cooperative-sticky", a=_reader("t", "u", owned={"u": 0})))


def test_owners_are_known_from_a_poll_in_the_middle_of_a_rebalance() -> None:
    """A worker that starts during a rebalance reads the owners from the last assignment, which brokers still show."""
    eye = Eye(cluster=cluster(t=[(1,), (1,)]), absent=frozenset({"u"}))
    leads = _assigning(eye)
    seen = (
        MemberView(
            id="a", instance_id=None, client_id="", client_host="", subscription=None, assigned=from_pairs([("u", 0)])
        ),
        MemberView(
            id="b", instance_id=None, client_id="", client_host="", subscription=None, assigned=from_pairs([("t", 1)])
        ),
    )
    leads.see(group(*seen, state="PreparingRebalance"))
    with pytest.raises(BackOffError, match="topics u could"):
        leads.assign(_joined(a=_reader("t", "u"), b=_reader("t")))
    eye.cluster = cluster(t=[(1,), (1,)], u=[])
    sent = leads.assign(_joined(a=_reader("t", "u"), b=_reader("t")))
    assert to_pairs(decode_assignment(sent["b"]).partitions) == [("t", 1)]


def test_a_claim_of_the_last_partition_of_all_costs_nothing() -> None:
    """A claim of partition 2^31-1 takes little memory, whether the topic is known or not."""
    tracemalloc.start()
    try:
        claim = _reader("t", "u", owned={"t": 2**31 - 1, "u": 2**31 - 1})
        with pytest.raises(BackOffError, match="topics u could"):
            _assigning(Eye(cluster=cluster(t=[(1,)]))).assign(_joined("cooperative-sticky", a=claim))
        known = Eye(cluster=cluster(t=[(1,)], u=[(2,)]))
        sent = _assigning(known).assign(_joined("cooperative-sticky", a=claim))
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert to_pairs(decode_assignment(sent["a"]).partitions) == [("t", 0), ("u", 0)]


def test_the_check_misses_a_topic_that_the_problem_lacks() -> None:
    """The check has its own count of what the plan must cover, apart from the code that made the problem."""
    members = [owner("m-1", topics=("t", "u"))]
    there = cluster(t=[(1,), (2,)], u=[(1,)])
    cover = coverage((one.topics for one in members), there)
    assert cover == {"t": 2, "u": 1}
    for half in (cluster(t=[(1,), (2,)]), cluster(t=[(1,)], u=[(1,)])):
        problem = problem_of(members, half, EAGER)
        with pytest.raises(AssignmentError, match=r"topic '[tu]' has \d partitions, and the plan is for [01] of them"):
            make_plan(problem, EAGER, cover=cover)
    plan = make_plan(problem_of(members, there, EAGER), EAGER, cover=cover)
    stranger = problem_of([owner("m-1")], there, EAGER)
    with pytest.raises(AssignmentError, match="topic 'u'"):
        check(stranger, np.zeros(2, np.int32), cooperative=False, cover=cover)
    assert members_without_partitions(plan, EAGER) == ()


def _plan(members: list[PlanMember], there: SettledCluster, final: list[int], mode: Mode) -> tuple[str, ...]:
    plan = make_plan(problem_of(members, there, mode), mode)
    return members_without_partitions(replace(plan, final=np.array(final, np.int32)), mode)


def test_a_member_that_gets_nothing_beside_one_that_has_two_is_starved() -> None:
    """A member with nothing is starved only if another member has two partitions, one of a topic that it reads."""
    members = [owner("a", topics=("t", "u")), owner("b", topics=("t",)), owner("c", topics=("v",))]
    there = cluster(t=[(1,), (1,)], u=[(1,)])
    assert _plan(members, there, [0, 0, 0], EAGER) == ("b",)
    assert _plan(members, there, [0, 1, 0], EAGER) == ()
    assert _plan([owner("a"), owner("b")], cluster(t=[(1,)]), [0], EAGER) == ()
    assert _plan(members, there, [0, 0, 0], replace(EAGER, options=Options(max_skew=2))) == ()


def test_a_skew_may_leave_members_out() -> None:
    """Found: the agent refused its own best plan: with a skew of 2, two members may read eight partitions of ten."""
    members = [owner(one, rack=rack) for one, rack in zip("vwxyz", "aabbb", strict=True)]
    there, mode = cluster(t=[(1,)] * 8 + [(2,)] * 2), replace(EAGER, options=Options(max_skew=2))
    plan = make_plan(problem_of(members, there, mode), mode)
    assert sorted(np.bincount(plan.final, minlength=5).tolist()) == [0, 1, 1, 4, 4]
    assert members_without_partitions(plan, mode) == ()
    assert _plan(members, there, [0] * 5 + [1] * 3 + [2] * 2, mode) == ("y", "z")


def test_range_leaves_members_out_where_topics_are_small() -> None:
    """Two topics of one partition each may go to one member; two partitions of one topic may not."""
    members = [owner("a", topics=("t", "u")), owner("b", topics=("t", "u"))]
    assert _plan(members, cluster(t=[(1,)], u=[(1,)]), [0, 0], TOGETHER) == ()
    assert _plan(members, cluster(t=[(1,)], u=[(1,)]), [0, 0], EAGER) == ("b",)
    assert _plan(members, cluster(t=[(1,), (1,)]), [0, 0], TOGETHER) == ("b",)


def test_a_plan_that_gives_a_member_nothing_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent leaves, whatever made the plan, and the error names the member."""
    leads = _assigning(Eye(cluster=cluster(t=[(1,), (1,)])))
    make = planner.make_plan

    def greedy(problem: Any, mode: Mode, **more: Any) -> planner.Plan:
        plan = make(problem, mode, **more)
        return replace(plan, final=np.zeros_like(plan.final), sent=np.zeros_like(plan.final))

    monkeypatch.setattr(planner, "make_plan", greedy)
    with pytest.raises(BackOffError, match="nothing to member b") as caught:
        leads.assign(_joined(a=_reader("t"), b=_reader("t")))
    assert (caught.value.cause, leads.sent) == (Cause.STARVED, None)


@given(members=groups(), there=settled_clusters(), mode=MODES)
def test_no_plan_of_the_assignors_starves_anybody(members: list[PlanMember], there: SettledCluster, mode: Mode) -> None:
    """For any subscriptions, the optimal plan covers what exists and starves no member."""
    cover = coverage((one.topics for one in members), there)
    plan = make_plan(problem_of(members, there, mode), mode, cover=cover)
    assert plan.failure is None
    assert members_without_partitions(plan, mode) == ()


def test_a_member_that_cannot_be_read_is_seen_in_a_stable_group() -> None:
    """The member's id and fault are named in a stable group; during a rebalance there is nothing to read."""
    bad = replace(member("m-2", "t", readable=False), unreadable="subscription: version at byte 0")
    assert unreadable_member_reason(group(member("m-1", "t"), bad)) == "member m-2: subscription: version at byte 0"
    assert unreadable_member_reason(group(member("m-1", "t"), member("m-2", readable=False))) == ""


def test_topics_with_owners_are_those_of_owned_partitions() -> None:
    """A topic with an empty list of owned partitions has no owner."""
    runs = from_flat(("t", "u"), (1, 0), np.array([0], np.int32))
    assert owned_counts([runs, from_pairs([("v", 1)])]).keys() == {"t", "v"}


def test_an_agent_that_is_alone_makes_no_plan() -> None:
    """Alone, the agent sends no SyncGroup: in a Stable group committed offsets expire by their own age (KIP-211)."""
    with pytest.raises(NoConsumersError):
        _assigning(None).assign(_joined())
