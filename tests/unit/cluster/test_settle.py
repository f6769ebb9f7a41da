"""`cluster.settle`: what counts as a change of the cluster, one case at a time."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from samerack.cluster.view import (
    NO_LEADER,
    Change,
    ClusterView,
    Rack,
    Settled,
    SettledCluster,
    SettledPartition,
    Settling,
    SettlingTimes,
    replica_racks,
    settle,
)
from tests.unit.agent.values import RACKS, UNKNOWN, UNSET, cluster, partition, view_of

TIMES = SettlingTimes(change=1.0, leader=600.0)
BOUNCED = {broker: rack for broker, rack in RACKS.items() if broker != 2}


def watch(*looks: tuple[float, ClusterView]) -> list[Settled]:
    """The result of each poll, the first one on an empty state."""
    state, outcomes = Settling(), []
    for now, view in looks:
        outcomes.append(settle(state, view, now, TIMES))
        state = outcomes[-1].state
    return outcomes


def changes(outcomes: Iterable[Settled]) -> list[Change]:
    """All changes of several polls."""
    return [change for outcome in outcomes for change in outcome.changes]


def settled(outcome: Settled) -> SettledCluster:
    """The settled cluster after a poll."""
    return outcome.state.settled


def test_first_look_is_adopted_without_a_change() -> None:
    """What is seen for the first time counts at once, and is no change."""
    (outcome,) = watch((0, view_of(t=[partition(1, 2)])))
    assert settled(outcome) == cluster(t=[(1, 2)])
    assert outcome.changes == ()


def test_an_unchanged_look_returns_the_same_object() -> None:
    """An unchanged view gives the same settled object, so that its identity shows whether anything changed."""
    first, *others = watch(*((now, view_of(t=[partition(1, 2)])) for now in (0, 1, 500)))
    assert all(settled(other) is settled(first) for other in others)


def test_kafka_20778_a_bounced_broker_is_no_change() -> None:
    """KAFKA-20778: a broker absent from metadata and back with its rack changes nothing; its rack still counts."""
    up = view_of(t=[partition(1, 2), partition(2, 3)])
    down = view_of(BOUNCED, t=[partition(1, 2, in_sync=[1]), partition(2, 3, leader=3, in_sync=[3])])
    lagging = view_of(t=[partition(1, 2, in_sync=[1]), partition(2, 3, leader=3, in_sync=[3])])
    first, *others = watch((0, up), (1, down), (40, down), (41, lagging), (50, lagging), (300, up))
    assert changes(others) == []
    assert all(settled(other) is settled(first) for other in others)
    assert [outcome.ignored for outcome in (first, *others)] == [(), ("broker-absent",), (), (), (), ()]


def test_librdkafka_4742_an_unknown_rack_is_no_change() -> None:
    """librdkafka#4742: a rack, then unknown, then the same rack is no change, however long it was unknown."""
    first, *others = watch(
        (0, view_of(t=[partition(2, 1)])),
        (1, view_of({1: "a", 2: UNKNOWN, 3: "c"}, t=[partition(2, 1)])),
        (400, view_of({1: "a", 2: UNKNOWN, 3: "c"}, t=[partition(2, 1)])),
        (401, view_of(t=[partition(2, 1)])),
        (402, view_of(t=[partition(2, 1)])),
    )
    assert changes(others) == []
    assert all(settled(other) is settled(first) for other in others)


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


def test_a_broker_restarted_under_another_rack_counts_after_its_return() -> None:
    """The settling time of a new rack starts when the broker is back, not when it left."""
    down, moved = view_of(BOUNCED), view_of({**RACKS, 2: "d"})
    outcomes = watch((0, view_of()), (10, down), (20, moved), (20.5, down), (21, moved), (21.9, moved), (22, moved))
    assert [len(outcome.changes) for outcome in outcomes] == [0, 0, 0, 0, 0, 0, 1]


def test_a_flapping_rack_never_settles() -> None:
    """A rack that changes faster than the settling time is never adopted."""
    other, third = view_of({**RACKS, 2: "d"}), view_of({**RACKS, 2: "e"})
    outcomes = watch(*((0.6 * step, (view_of(), other, third)[step % 3]) for step in range(60)))
    assert changes(outcomes) == []


def test_an_added_replica_counts_once_in_sync() -> None:
    """A reassignment counts when the new replica can serve, not when it is announced."""
    before = view_of(t=[partition(1)])
    copying = view_of(t=[partition(2, 1, leader=1, in_sync=[1])])
    done = view_of(t=[partition(2)])
    outcomes = watch((0, before), (1, copying), (100, copying), (101, done), (102, done))
    assert [settled(outcome) for outcome in outcomes[:4]] == [cluster(t=[(1,)])] * 4
    assert settled(outcomes[4]) == cluster(t=[(2,)])
    assert outcomes[4].changes == (Change(kind="replicas", where="t-0", before="1 of [1]", after="2 of [2]"),)


def test_a_lagging_replica_goes_on_counting() -> None:
    """A replica that falls out of the in-sync replicas still counts, because it is expected to return."""
    first, *others = watch(
        (0, view_of(t=[partition(1, 2)])), *((now, view_of(t=[partition(1, 2, in_sync=[1])])) for now in (1, 100, 1000))
    )
    assert all(settled(other) is settled(first) for other in others)


def test_at_first_sight_all_replicas_count() -> None:
    """KIP-881: a broker that is down or catches up while the agent starts causes no move away from it and back."""
    down = view_of(BOUNCED, t=[partition(1, 2, 3, in_sync=[1])])
    catching_up = view_of(t=[partition(1, 2, 3, in_sync=[1, 3])])
    first, second, third = watch((0, down), (1, catching_up), (600, view_of(t=[partition(1, 2, 3)])))
    assert settled(first).topics["t"][0].replicas == (1, 2, 3)
    assert settled(second).topics == settled(third).topics == settled(first).topics


def test_a_leader_away_from_preferred_waits_the_longer_time() -> None:
    """A leader other than the preferred one is most often a restart: it counts after the leader's time."""
    away = view_of(t=[partition(1, 2, leader=2)])
    outcomes = watch((0, view_of(t=[partition(1, 2)])), (10, away), (609.9, away), (610, away))
    assert [len(outcome.changes) for outcome in outcomes] == [0, 0, 0, 1]
    assert outcomes[3].changes[0].kind == "leader"


def test_a_leader_back_at_preferred_waits_the_shorter_time() -> None:
    """A leader that is the preferred replica again stays there: it counts after the time of any change."""
    away, back = view_of(t=[partition(1, 2, leader=2)]), view_of(t=[partition(1, 2)])
    outcomes = watch((0, away), (10, back), (10.9, back), (11, back))
    assert [len(outcome.changes) for outcome in outcomes] == [0, 0, 0, 1]
    assert settled(outcomes[3]).topics["t"] == (SettledPartition(leader=1, replicas=(1, 2)),)


def test_a_partition_without_a_leader_keeps_the_last_one() -> None:
    """A partition without a leader keeps its last one; if it never had one, the preferred replica counts."""
    none = view_of(t=[partition(2, 1, leader=NO_LEADER)])
    first, second, third = watch((0, view_of(t=[partition(2, 1, leader=1)])), (1, none), (700, none))
    assert settled(second) is settled(first)
    assert settled(third) is settled(first)
    (fresh,) = watch((0, none))
    assert settled(fresh).topics["t"][0].leader == 2


def test_new_partitions_and_new_topics_are_adopted_at_once() -> None:
    """New partitions and topics count at once: they have no readers until a rebalance."""
    _, second = watch((0, view_of(t=[partition(1)])), (1, view_of(t=[partition(1), partition(2)], u=[partition(3)])))
    assert settled(second) == cluster(t=[(1,), (2,)], u=[(3,)])
    assert second.changes == (Change(kind="partition-count", where="t", before="1", after="2"),)


def test_growth_does_not_hurry_what_is_pending() -> None:
    """A new partition does not end the settling time of another partition's replicas."""
    outcomes = watch(
        (0, view_of(t=[partition(1)])),
        (1, view_of(t=[partition(2)])),
        (1.5, view_of(t=[partition(2), partition(3)])),
        (2, view_of(t=[partition(2), partition(3)])),
    )
    assert settled(outcomes[2]) == cluster(t=[(1,), (3,)])
    assert settled(outcomes[3]) == cluster(t=[(2,), (3,)])


def test_a_topic_that_is_gone_settles_to_an_empty_one() -> None:
    """A deleted topic counts as one without partitions after the settling time, and is reported once."""
    gone = view_of(absent=["t"])
    outcomes = watch((0, view_of(t=[partition(1)])), (10, gone), (10.9, gone), (11, gone), (50, gone))
    assert [dict(settled(outcome).topics) for outcome in outcomes[2:]] == [
        cluster(t=[(1,)]).topics,
        {"t": ()},
        {"t": ()},
    ]
    assert changes(outcomes) == [Change(kind="topic-gone", where="t", before="1", after="0")]


def test_a_topic_made_anew_is_adopted_at_once() -> None:
    """A topic that is created again after its deletion settled counts at once."""
    outcomes = watch(
        (0, view_of(t=[partition(1)])),
        (1, view_of(absent=["t"])),
        (2, view_of(absent=["t"])),
        (3, view_of(t=[partition(2)])),
    )
    assert settled(outcomes[3]) == cluster(t=[(2,)])


def test_a_topic_absent_for_a_moment_is_no_change() -> None:
    """A topic missing from one answer changes nothing."""
    first, *others = watch((0, view_of(t=[partition(1)])), (1, view_of(absent=["t"])), (1.5, view_of(t=[partition(1)])))
    assert changes(others) == []
    assert all(settled(other) is settled(first) for other in others)


def test_fewer_partitions_count_once_they_have_lasted() -> None:
    """A topic with fewer partitions settles as a deletion does; until then the missing partitions stay."""
    before, after = view_of(t=[partition(1), partition(2), partition(3)]), view_of(t=[partition(1), partition(2)])
    first, *others, last = watch((0, before), (10, after), (10.9, after), (11, after))
    assert all(settled(other) is settled(first) for other in others)
    assert settled(last) == cluster(t=[(1,), (2,)])
    assert last.changes == (Change(kind="partition-count", where="t", before="3", after="2"),)


def test_a_stale_broker_that_tells_fewer_partitions_changes_nothing() -> None:
    """Brokers that know different partition counts and answer in turn cause no change."""
    all_of_them, stale = view_of(t=[partition(1), partition(2), partition(3)]), view_of(t=[partition(1)])
    first, *others = watch(*((0.6 * step, (all_of_them, stale)[step % 2]) for step in range(40)))
    assert changes(others) == []
    assert all(settled(other) is settled(first) for other in others)


def test_the_time_of_missing_partitions_begins_anew_with_another_count() -> None:
    """Another count restarts the settling time: none of the three counts has lasted."""
    counts = [view_of(absent=["t"]), view_of(t=[partition(1)]), view_of(t=[partition(1), partition(2)])]
    first, *others = watch(
        (0, view_of(t=[partition(1), partition(2), partition(3)])),
        *((10 + 0.6 * step, counts[step % 3]) for step in range(12)),
    )
    assert all(settled(other) is settled(first) for other in others)


def test_partitions_that_stay_follow_their_replicas_while_others_are_missing() -> None:
    """Missing partitions do not delay the pending changes of the partitions that a broker still shows."""
    outcomes = watch(
        (0, view_of(t=[partition(1), partition(2)])), (10, view_of(t=[partition(3)])), (11, view_of(t=[partition(3)]))
    )
    assert settled(outcomes[1]) == cluster(t=[(1,), (2,)])
    assert settled(outcomes[2]) == cluster(t=[(3,)])


def test_a_topic_absent_from_the_start_settles_to_an_empty_one() -> None:
    """A topic that is absent from the start is no change, and counts at once when it exists."""
    outcomes = watch(
        (0, view_of(absent=["t"])),
        (0.9, view_of(absent=["t"])),
        (1, view_of(absent=["t"])),
        (2, view_of(t=[partition(1)])),
    )
    assert [dict(settled(outcome).topics) for outcome in outcomes[:3]] == [{}, {}, {"t": ()}]
    assert changes(outcomes[:3]) == []
    assert settled(outcomes[3]) == cluster(t=[(1,)])


def test_a_topic_nobody_asks_for_is_not_gone() -> None:
    """A topic that no group reads any more is not polled, and that is no change."""
    first, *others = watch((0, view_of(t=[partition(1)])), *((now, view_of()) for now in (1, 5, 100)))
    assert changes(others) == []
    assert all(settled(other) is settled(first) for other in others)


def test_replica_racks_name_the_leaders_first() -> None:
    """The leader's rack is first, and a rack that is unset or unknown is None."""
    seen = SettledCluster(
        brokers={1: "a", 2: UNSET},
        topics={"t": (SettledPartition(leader=2, replicas=(1, 2, 9)), SettledPartition(leader=1, replicas=(1,)))},
    )
    assert replica_racks(seen, "t") == ((None, "a", None), ("a",))
    assert replica_racks(seen, "absent") == ()
