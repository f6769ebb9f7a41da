"""Measured groups as snapshots, and members that commit or do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from samerack.cluster.view import ClusterView
from samerack.events import EventLog
from samerack.events.rebalance_tracker import GroupCommits, RebalanceTracker
from samerack.traffic.board import Published
from samerack.traffic.snapshot import GroupTraffic, PartitionTraffic, TrafficSnapshot
from tests.unit.agent.measured import A, B, C, group, snapshot


def partition(number: int, committed: int | None, *, lag: int = 5, member: str = "m1") -> PartitionTraffic:
    """A partition of t; `lag` records of it can be read."""
    return PartitionTraffic(
        partition=("t", number),
        member=member,
        serving_rack=None,
        bytes_per_second=None,
        lag_records=lag + 3,
        readable_records=lag,
        committed=committed,
    )


def silent(polls: Sequence[tuple[float, int | None, int]], at: float) -> bool:
    """Whether the owner of one partition is silent, after polls of its (time, committed offset, lag)."""
    commits = GroupCommits()
    for when, offset, lag in polls:
        commits.record([partition(0, offset, lag=lag)], {"m1": "key"}, when)
    return commits.signs(at).silent == {"key"}


@pytest.mark.parametrize(
    ("polls", "at", "is_silent"),
    [
        ([(0, 1, 5), (1, 2, 5), (2, 3, 5)], 8, True),
        ([(0, 1, 5), (1, 2, 5), (2, 3, 5)], 5, False),
        ([(0, 1, 0), (1, 2, 0), (2, 3, 0)], 8, False),
        ([(0, 1, 5), (5, 2, 5), (10, 3, 5)], 16, False),
        ([(0, 1, 5), (5, 2, 5), (10, 3, 5)], 21, True),
        ([(0, 3, 0), (9, 3, 5), (10, 3, 5)], 12, False),
        ([(0, None, 5)], 50, False),
        ([(0, 1, 5), (1, 4, 2), (2, 4, 2)], 50, False),
    ],
    ids=[
        *("long still", "not long", "nothing to read", "its rhythm", "beyond its rhythm", "new records", "no commits"),
        "a marker, and the offset of the last record itself",
    ],
)
def test_who_does_not_commit(polls: list[tuple[float, int | None, int]], at: float, is_silent: bool) -> None:  # noqa: FBT001 - a column of the table
    """A member is silent if it does not commit for an unusually long time although it has lag."""
    assert silent(polls, at) is is_silent


def test_one_partition_that_goes_on_is_a_sign_of_life() -> None:
    """One stuck partition does not make a member dead, and another owner starts anew."""
    commits = GroupCommits()
    for when in range(10):
        commits.record([partition(0, 1), partition(1, when)], {}, when)
    assert commits.signs(9).silent == frozenset()
    commits.record([partition(0, 1, member="m2"), partition(1, 9, member="m2")], {}, 9)
    assert commits.signs(12).silent == frozenset()


def test_a_partition_that_is_read_to_its_end_is_a_sign_of_life() -> None:
    """Aborted transactions keep one partition's offset below the end, and the same member has read all of another."""
    commits = GroupCommits()
    for when in range(10):
        commits.record([partition(0, 1), partition(1, when, lag=0)], {}, when)
    assert commits.signs(11).silent == frozenset()
    assert commits.signs(12.1).silent == {"m1"}


def test_a_rebalance_is_no_rhythm() -> None:
    """The pause in commits of a rebalance does not count: a member that dies soon afterwards is found silent."""
    commits = GroupCommits()
    for when, committed in ((0, 1), (1, 2), (5, 3), (6, 4)):
        if when == 5:
            commits.interrupt()
        commits.record([partition(0, committed)], {"m1": "key"}, when)
    assert commits.signs(10.5).silent == {"key"}


def test_who_has_committed_within_the_shortest_session_is_alive() -> None:
    """The time starts at the last poll without the commit; a first poll and an idle member prove nothing."""
    commits = GroupCommits()
    for when, one, other in ((0, 1, 7), (5, 2, 7), (10, 2, 7)):
        commits.record([partition(0, one), partition(1, other, lag=0, member="m2")], {}, when)
        assert commits.signs(when + 4.9).alive == ({"m1"} if when == 5 else frozenset())


class Measured:
    """A tracker that measures one group."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events = EventLog()
        self.tracker = RebalanceTracker(self.events, clock=lambda: self.now)

    def take(self, measured: GroupTraffic) -> None:
        """Pass a measurement five seconds later."""
        self.now += 5
        taken: TrafficSnapshot = replace(snapshot(measured), cluster=ClusterView(brokers={}, topics={}))
        self.tracker.take(Published(snapshot=taken, totals={}))

    def causes(self) -> list[str]:
        """All causes, the oldest first."""
        return [event.cause for event in reversed(self.events.latest())]


def owned(measured: GroupTraffic, owners: str) -> GroupTraffic:
    """The group with these owners of its partitions, a digit each."""
    partitions = tuple(partition(number, 9, lag=0, member=f"m{digit}") for number, digit in enumerate(owners))
    return replace(measured, partitions=partitions)


def test_measured_groups_are_compared() -> None:
    """A difference between two polls is a rebalance; a poll during it gives its duration."""
    measured = Measured()
    three = owned(group(), "112233")
    measured.take(three)
    measured.take(replace(three))
    assert measured.causes() == []
    two = owned(group(members={"m1": A, "m2": B}), "111222")
    measured.take(two)
    assert measured.causes() == ["member-gone"]
    measured.take(replace(two, state="PreparingRebalance", problem=None))
    measured.take(owned(group(members={"m1": A, "m2": B}), "222111"))
    assert measured.causes() == ["member-gone", "leader"]
    recorded = measured.events.latest()[0]
    assert (recorded.seconds, recorded.moved, recorded.generation) == (5.0, 6, None)


def test_groups_that_are_gone_are_forgotten() -> None:
    """Groups that are gone are forgotten, except those that the agent is to lead."""
    measured = Measured()
    measured.tracker.of("orders")
    for name in ("orders", "payments", "reports"):
        measured.take(owned(group(name), "112233"))
    assert measured.tracker._groups.keys() == {"orders", "payments", "reports"}
    measured.now += 600
    measured.take(owned(group("reports"), "112233"))
    assert measured.tracker._groups.keys() == {"orders", "reports"}


def test_while_the_agent_is_inside_it_knows_better() -> None:
    """Polls from outside report nothing while the agent is a member, and do so once it has left."""
    measured = Measured()
    measured.take(owned(group(), "112233"))
    rebalances = measured.tracker.of("orders")
    rebalances.enters()
    measured.take(owned(group(members={"m1": A, "m2": B}), "111222"))
    assert measured.causes() == []
    rebalances.leaves(measured.now)
    rebalances.begins(measured.now, agent_reason="left")
    measured.take(owned(group(members={"m1": A, "m2": B, "m4": C}), "111222"))
    assert measured.causes() == ["agent"]
