"""`cluster.settle`: what counts as a change of the cluster, one case at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from samerack.cluster.view import (
    NO_LEADER,
    Change,
    ClusterView,
    Rack,
    SettledCluster,
    SettledPartition,
    SettledView,
    Settling,
    SettlingTimes,
    replica_racks,
    settle,
)
from tests.unit.agent.values import RACKS, UNKNOWN, UNSET, cluster, partition, view_of

TIMES = SettlingTimes(change=1.0, leader=600.0)
BOUNCED = {broker: rack for broker, rack in RACKS.items() if broker != 2}


def watch(*observed: tuple[float, ClusterView]) -> list[SettledView]:
    """The result of each poll, the first one on an empty state."""
    state, outcomes = Settling(), []
    for now, view in observed:
        outcomes.append(settle(state, view, now, TIMES))
        state = outcomes[-1].state
    return outcomes


def changes(outcomes: Iterable[SettledView]) -> list[Change]:
    """All changes of several polls."""
    return [change for outcome in outcomes for change in outcome.changes]


def settled(outcome: SettledView) -> SettledCluster:
    """The settled cluster after a poll."""
    return outcome.state.settled


UP = view_of(t=[partition(1, 2), partition(2, 3)])
DOWN = view_of(BOUNCED, t=[partition(1, 2, in_sync=[1]), partition(2, 3, leader=3, in_sync=[3])])
LAGGING = view_of(t=[partition(1, 2, in_sync=[1]), partition(2, 3, leader=3, in_sync=[3])])
UNKNOWN_RACK = view_of({1: "a", 2: UNKNOWN, 3: "c"}, t=[partition(1, 2), partition(2, 3)])
ONE, TWO, THREE = (view_of(t=[partition(n) for n in range(1, count + 1)]) for count in (1, 2, 3))
GONE, UNASKED = view_of(absent=["t"]), view_of()
LEADERLESS = view_of(t=[partition(1, 2, leader=NO_LEADER), partition(2, 3)])


def turns(*views: ClusterView, steps: int = 40, since: float = 0.0) -> list[tuple[float, ClusterView]]:
    """Poll, faster than the settling time, that show these views in turn."""
    return [(since + 0.6 * step, views[step % len(views)]) for step in range(steps)]


@pytest.mark.parametrize(
    "observed",
    [
        [(0, UP), (1, UP), (500, UP)],
        [(0, UP), (1, DOWN), (40, DOWN), (41, LAGGING), (50, LAGGING), (300, UP)],
        [(0, UP), (1, UNKNOWN_RACK), (400, UNKNOWN_RACK), (401, UP), (402, UP)],
        [(0, view_of(t=[partition(1, 2)])), *((n, view_of(t=[partition(1, 2, in_sync=[1])])) for n in (1, 100, 1000))],
        [(0, UP), (1, LEADERLESS), (700, LEADERLESS)],
        [(0, ONE), (1, GONE), (1.5, ONE)],
        [(0, ONE), (1, UNASKED), (5, UNASKED), (100, UNASKED)],
        turns(THREE, ONE),
        [(0, THREE), *turns(GONE, ONE, TWO, steps=12, since=10)],
        turns(UNASKED, view_of({**RACKS, 2: "d"}), view_of({**RACKS, 2: "e"})),
    ],
    ids=[
        "the same view is the same object",
        "KAFKA-20778: a bounced broker",
        "librdkafka#4742: a rack that is unknown for a while",
        "a lagging replica is expected to return",
        "a partition without a leader keeps its last one",
        "a topic absent for a moment",
        "a topic that nobody asks for",
        "brokers that know different counts answer in turn",
        "no count of missing partitions has lasted",
        "a rack that changes faster than the settling time",
    ],
)
def test_what_does_not_last_is_no_change(observed: Sequence[tuple[float, ClusterView]]) -> None:
    """Nothing is reported, and the settled object stays, so that its identity shows whether anything changed."""
    first, *others = watch(*observed)
    assert changes([first, *others]) == []
    assert all(settled(other) is settled(first) for other in others)


def test_an_absent_broker_is_reported_once() -> None:
    """The reason why a change is ignored is there when it begins."""
    outcomes = watch((0, UP), (1, DOWN), (40, DOWN), (41, LAGGING), (300, UP))
    assert [outcome.ignored for outcome in outcomes] == [(), ("broker-absent",), (), (), ()]


def test_first_poll_is_adopted_without_a_change() -> None:
    """What is seen for the first time counts at once; without a leader the preferred replica counts."""
    (outcome,) = watch((0, LEADERLESS))
    assert settled(outcome) == cluster(t=[(1, 2), (2, 3)])
    assert outcome.changes == ()


def test_a_rack_seen_late_counts_at_once() -> None:
    """A broker that was absent at the first poll gets its rack from the first poll that shows it."""
    _, second = watch((0, view_of(BOUNCED, t=[partition(2, 1)])), (1, view_of(t=[partition(2, 1)])))
    assert replica_racks(settled(second), "t") == (("b", "a"),)
    assert second.changes == ()


@pytest.mark.parametrize("rack", ["d", UNSET])
def test_a_rack_change_counts_after_exactly_the_settling_time(rack: Rack) -> None:
    """Another rack of a broker, or no rack any more, counts once it has lasted, and not before."""
    moved = view_of({**RACKS, 2: rack})
    outcomes = watch((0, view_of()), (10, moved), (10.99, moved), (11, moved), (12, moved))
    name = rack if isinstance(rack, str) else "unset"
    assert [outcome.changes for outcome in outcomes[:3]] == [(), (), ()]
    assert outcomes[3].changes == (Change(kind="broker-rack", where="broker 2", before="b", after=name),)
    assert settled(outcomes[3]).brokers[2] == rack
    assert settled(outcomes[4]) is settled(outcomes[3])


def test_an_added_replica_counts_once_in_sync() -> None:
    """A reassignment counts when the new replica can serve, not when it is announced."""
    before = view_of(t=[partition(1)])
    copying = view_of(t=[partition(2, 1, leader=1, in_sync=[1])])
    done = view_of(t=[partition(2)])
    outcomes = watch((0, before), (1, copying), (100, copying), (101, done), (102, done))
    assert [settled(outcome) for outcome in outcomes[:4]] == [cluster(t=[(1,)])] * 4
    assert settled(outcomes[4]) == cluster(t=[(2,)])
    assert outcomes[4].changes == (Change(kind="replicas", where="t-0", before="1 of [1]", after="2 of [2]"),)


def test_at_first_sight_all_replicas_count() -> None:
    """KIP-881: a broker that is down or catches up while the agent starts causes no move away from it and back."""
    down = view_of(BOUNCED, t=[partition(1, 2, 3, in_sync=[1])])
    catching_up = view_of(t=[partition(1, 2, 3, in_sync=[1, 3])])
    first, second, third = watch((0, down), (1, catching_up), (600, view_of(t=[partition(1, 2, 3)])))
    assert settled(first).topics["t"][0].replicas == (1, 2, 3)
    assert settled(second).topics == settled(third).topics == settled(first).topics


AWAY, BACK = view_of(t=[partition(1, 2, leader=2)]), view_of(t=[partition(1, 2)])
MOVED = view_of({**RACKS, 2: "d"})
TWICE_MOVED = [(21, MOVED), (22, MOVED)]


@pytest.mark.parametrize(
    ("observed", "counts"),
    [
        ([(0, UNASKED), (10, view_of(BOUNCED)), (20, MOVED), (20.5, view_of(BOUNCED)), *TWICE_MOVED], 5),
        ([(0, BACK), (10, AWAY), (609.9, AWAY), (610, AWAY)], 3),
        ([(0, AWAY), (10, BACK), (10.9, BACK), (11, BACK)], 3),
    ],
    ids=[
        "another rack: the time starts when the broker is back",
        "a leader away from the preferred one is most often a restart: the leader's time",
        "a leader that is preferred again stays there: the time of any change",
    ],
)
def test_a_change_counts_once_its_time_is_over(observed: Sequence[tuple[float, ClusterView]], counts: int) -> None:
    """It is reported once, by the poll of this number."""
    outcomes = watch(*observed)
    assert [len(outcome.changes) for outcome in outcomes] == [int(at == counts) for at in range(len(observed))]


OTHER, OTHER_AND_THREE = view_of(t=[partition(2)]), view_of(t=[partition(2), partition(3)])


@pytest.mark.parametrize(
    ("observed", "topics", "reported"),
    [
        (
            [(0, ONE), (1, view_of(t=[partition(1), partition(2)], u=[partition(3)]))],
            [cluster(t=[(1,)]), cluster(t=[(1,), (2,)], u=[(3,)])],
            [("partition-count", "1", "2")],
        ),
        (
            [(0, ONE), (1, OTHER), (1.5, OTHER_AND_THREE), (2, OTHER_AND_THREE)],
            [cluster(t=[(1,)]), cluster(t=[(1,)]), cluster(t=[(1,), (3,)]), cluster(t=[(2,), (3,)])],
            [("partition-count", "1", "2"), ("replicas", "1 of [1]", "2 of [2]")],
        ),
        (
            [(0, ONE), (10, GONE), (10.9, GONE), (11, GONE), (50, GONE)],
            [cluster(t=[(1,)]), cluster(t=[(1,)]), cluster(t=[(1,)]), cluster(t=[]), cluster(t=[])],
            [("topic-gone", "1", "0")],
        ),
        (
            [(0, ONE), (1, GONE), (2, GONE), (3, OTHER)],
            [cluster(t=[(1,)]), cluster(t=[(1,)]), cluster(t=[]), cluster(t=[(2,)])],
            [("topic-gone", "1", "0"), ("partition-count", "0", "1")],
        ),
        (
            [(0, THREE), (10, TWO), (10.9, TWO), (11, TWO)],
            [cluster(t=[(1,), (2,), (3,)])] * 3 + [cluster(t=[(1,), (2,)])],
            [("partition-count", "3", "2")],
        ),
        (
            [(0, TWO), (10, view_of(t=[partition(3)])), (11, view_of(t=[partition(3)]))],
            [cluster(t=[(1,), (2,)]), cluster(t=[(1,), (2,)]), cluster(t=[(3,)])],
            [("replicas", "1 of [1]", "3 of [3]"), ("partition-count", "2", "1")],
        ),
        (
            [(0, GONE), (0.9, GONE), (1, GONE), (2, ONE)],
            [cluster(), cluster(), cluster(t=[]), cluster(t=[(1,)])],
            [("partition-count", "0", "1")],
        ),
    ],
    ids=[
        "new partitions and topics have no readers yet: at once",
        "growth does not hurry what is pending",
        "a topic that is gone settles to an empty one",
        "a topic made anew: at once",
        "fewer partitions: once they have lasted",
        "partitions that stay follow their replicas while others are missing",
        "a topic absent from the start is not a change",
    ],
)
def test_topics_settle(
    observed: Sequence[tuple[float, ClusterView]],
    topics: Sequence[SettledCluster],
    reported: Sequence[tuple[str, str, str]],
) -> None:
    """After each poll the settled topics are these, and each change is reported once."""
    outcomes = watch(*observed)
    assert [settled(outcome) for outcome in outcomes] == topics
    assert [(change.kind, change.before, change.after) for change in changes(outcomes)] == reported


def test_replica_racks_name_the_leaders_first() -> None:
    """The leader's rack is first, and a rack that is unset or unknown is None."""
    seen = SettledCluster(
        brokers={1: "a", 2: UNSET},
        topics={"t": (SettledPartition(leader=2, replicas=(1, 2, 9)), SettledPartition(leader=1, replicas=(1,)))},
    )
    assert replica_racks(seen, "t") == ((None, "a", None), ("a",))
    assert replica_racks(seen, "absent") == ()
