"""What uneven members cost any balanced plan: the figures of the engine, held against brute force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.assignors.build import MemberInput, build_problem, with_racks
from samerack.assignors.problem import NOBODY, BoolArray, Problem
from samerack.cluster.view import ClusterView, NoRack, PartitionView, Rack
from samerack.planning.rack_spread import evenly_spread, rack_spread
from tests.unit.assignors import groups

BROKERS: Mapping[int, Rack] = {1: "a", 2: "b", 3: "c"}


def cluster(replicas: Sequence[Sequence[int]], brokers: Mapping[int, Rack] = BROKERS) -> ClusterView:
    """A cluster with the topic `t`: the brokers of each partition, the leader first."""
    views = tuple(PartitionView(leader=one[0], replicas=tuple(one), in_sync=tuple(one)) for one in replicas)
    return ClusterView(brokers=dict(brokers), topics={"t": views})


def problem(view: ClusterView, racks: Sequence[str | None], *, any_replica: bool = True) -> Problem:
    """A group of members in these racks that reads `t`."""
    names = {broker: rack if isinstance(rack, str) else None for broker, rack in view.brokers.items()}
    return build_problem(
        topics={"t": [[names.get(broker) for broker in one.replicas] for one in view.topics["t"]]},
        members=[
            MemberInput(id=f"m{at}", topics=("t",), rack=rack, reads_any_replica=any_replica)
            for at, rack in enumerate(racks)
        ],
    )


THIRDS = ((1,), (2,), (3,), (1,), (2,), (3,))


def test_members_in_one_rack_too_many() -> None:
    """Four of six members in one rack have places for four of six partitions, of which two are there."""
    view = cluster(THIRDS)
    spread = rack_spread(problem(view, "aaaabc"), view, {("t", at): 10.0 * at for at in range(6)})
    assert spread is not None
    assert (spread.partitions, spread.across, spread.across_if_even) == (6, 2, 0)
    assert spread.share == pytest.approx(1 / 3)
    assert spread.share_if_even == 0
    assert [(one.rack, one.members, one.even_members) for one in spread.racks] == [
        ("a", 4, 2),
        ("b", 1, 2),
        ("c", 1, 2),
    ]
    assert [(one.near_partitions, one.leaders, one.near_bytes_per_second) for one in spread.racks] == [
        (2, 2, 30.0),
        (2, 2, 50.0),
        (2, 2, 70.0),
    ]
    assert (spread.too_many, spread.too_few) == (("a",), ("b", "c"))


def test_shares_are_of_bytes_and_not_of_the_weights_of_planning() -> None:
    """One of the two largest partitions is read across racks, and one of the others."""
    view, rates = cluster(THIRDS), [1.0, 3.0, 1.0, 1.0, 3.0, 1.0]
    weighted = replace(problem(view, "aaaabc"), weights=np.array([1, 2, 1, 1, 2, 1]))
    spread = rack_spread(weighted, view, {("t", at): rate for at, rate in enumerate(rates)})
    assert spread is not None
    assert spread.across == 2
    assert spread.share == pytest.approx(4 / 10)
    assert spread.share_if_even == 0


def test_members_anywhere_where_every_rack_has_every_partition() -> None:
    """Uneven members cost nothing there, and leaders count only for members that read them."""
    view = cluster(((1, 2, 3), (2, 3, 1), (3, 1, 2)) * 2)
    spread = rack_spread(problem(view, "aaaabc"), view)
    assert spread is not None
    assert (spread.share, spread.share_if_even) == (0, 0)
    assert [one.near_partitions for one in spread.racks] == [6, 6, 6]
    leaders = rack_spread(problem(view, "aaaabc", any_replica=False), view)
    assert leaders is not None
    assert (leaders.across, leaders.across_if_even) == (2, 0)
    assert [one.near_partitions for one in leaders.racks] == [2, 2, 2]


def test_a_rack_that_the_group_does_not_know_takes_members() -> None:
    """A rack of brokers without members and replicas of the group is a place for members, and a row."""
    view = cluster(((1,), (1,), (2,), (2,)), {**BROKERS, 4: "d"})
    spread = rack_spread(problem(view, "aabb"), view)
    assert spread is not None
    assert [(one.rack, one.members, one.even_members) for one in spread.racks] == [
        ("a", 2, 1),
        ("b", 2, 1),
        ("c", 0, 1),
        ("d", 0, 1),
    ]
    assert (spread.across, spread.across_if_even) == (0, 2)


def test_partitions_without_a_leader_are_not_known() -> None:
    """They are in no figure; without any leader nothing is known."""
    view = cluster(THIRDS)
    made = problem(view, "abc")
    some = made.leader_rack.copy()
    some[0] = NOBODY
    nothing = np.zeros_like(made.replica_racks)
    spread = rack_spread(replace(made, leader_rack=some, replica_racks=nothing), view)
    assert spread is not None
    assert spread.partitions == 5
    none = replace(made, leader_rack=np.full_like(some, NOBODY), replica_racks=nothing)
    assert rack_spread(none, view) is None


@pytest.mark.parametrize(
    ("racks", "brokers"),
    [
        (("a", None, "c"), BROKERS),
        ("abc", {**BROKERS, 2: NoRack.UNSET}),
        ("abc", {**BROKERS, 2: NoRack.UNKNOWN}),
        ("abc", {1: "a", 3: "c"}),
    ],
    ids=["a member", "a broker without rack", "a broker whose rack is not known", "an absent broker"],
)
def test_what_is_not_known_is_unknown(racks: Sequence[str | None], brokers: Mapping[int, Rack]) -> None:
    """Where the rack of a member, or of a broker with a replica, is not known, the spread is None and not even."""
    view = cluster(THIRDS, brokers)
    assert rack_spread(problem(view, racks), view) is None


def test_a_group_that_reads_nothing_has_no_spread() -> None:
    """A topic without partitions is nothing to read."""
    view = ClusterView(brokers=dict(BROKERS), topics={"t": ()})
    assert rack_spread(problem(view, "abc"), view) is None


def located(made: Problem) -> bool:
    """Whether all members have a rack."""
    return bool((made.member_rack != NOBODY).all())


@given(groups.problems(max_partitions=12, max_members=8).filter(located), st.sampled_from(["abc", "ab", "abcd", "d"]))
def test_an_even_spread_is_even(made: Problem, racks: str) -> None:
    """Members of each kind differ by one at most between racks, so do all; spreading again moves nobody.

    No even spread of one kind leaves more members where they are.
    """
    even = evenly_spread(made, racks)
    places = [even.racks.index(rack) for rack in racks]
    kind = made.subscription_of * 2 + made.reads_any_replica
    every: BoolArray = np.ones(len(made.members), np.bool_)
    for mine in (every, *(kind == one for one in np.unique(kind))):
        counts = np.bincount(even.member_rack[mine], minlength=len(even.racks))[places]
        assert counts.sum() == np.count_nonzero(mine)
        assert counts.max() - counts.min() <= 1
    assert evenly_spread(even, racks).member_rack.tolist() == even.member_rack.tolist()
    if len(set(kind.tolist())) == 1:
        before = with_racks(made, racks).member_rack
        now = np.sort([np.count_nonzero(before == place) for place in places])[::-1]
        each, extra = divmod(len(made.members), len(racks))
        seats = np.array([each + (at < extra) for at in range(len(racks))])
        assert np.count_nonzero(even.member_rack == before) == np.minimum(now, seats).sum()


@given(groups.problems(max_partitions=6, max_members=4).filter(located))
def test_no_balanced_plan_reads_less(made: Problem) -> None:
    """The share is the least of all plans with the least unequal loads, before and after members are spread."""
    replicas = [np.flatnonzero(row).tolist() for row in made.replica_racks]
    if not all(replicas) or (made.leader_rack == NOBODY).any():
        return
    topics: dict[str, list[PartitionView]] = {topic: [] for topic in made.topics}
    for topic in made.topic_of.tolist():
        topics[made.topics[topic]].append(PartitionView(leader=1, replicas=(1,), in_sync=(1,)))
    view = ClusterView(brokers=dict(BROKERS), topics={topic: tuple(views) for topic, views in topics.items()})
    spread = rack_spread(made, view)
    if spread is None:
        return
    for one, share in ((made, spread.share), (evenly_spread(made, "abc"), spread.share_if_even)):
        plans = groups.all_plans(one)
        squares = (groups.loads(one, plans) ** 2).sum(axis=1)
        _, minimum = groups.minimum(squares, groups.cross_rack_weights(one, plans))
        read = groups.subscribes(one).any(axis=1)
        weights = np.ones(len(made.topic_of), np.int64) if one.weights is None else one.weights
        assert share == pytest.approx(minimum / weights[read].sum())
