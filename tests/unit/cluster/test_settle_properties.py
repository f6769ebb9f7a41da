"""`cluster.settle` on any history: bounces never count, lasting changes do, and equal values stay the same object."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from samerack.cluster.view import ClusterView, PartitionView, Rack, Settling, SettlingTimes, settle
from tests.unit.agent.values import UNKNOWN, UNSET

TIMES = SettlingTimes(change=1.0, leader=10.0)
BROKERS = range(1, 6)
SOME_RACKS: list[Rack] = ["a", "b", "c", UNSET]
PAUSES = st.floats(0.01, 5.0)


@st.composite
def clusters(draw: st.DrawFn) -> ClusterView:
    """A healthy cluster: all brokers, with or without a rack, all replicas in sync, preferred leaders."""
    brokers: dict[int, Rack] = {broker: draw(st.sampled_from(SOME_RACKS), label="rack") for broker in BROKERS}
    replicas = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True).map(tuple)
    topics = {
        topic: tuple(
            PartitionView(leader=chosen[0], replicas=chosen, in_sync=chosen)
            for chosen in draw(st.lists(replicas, min_size=1, max_size=4))
        )
        for topic in ("t", "u")
    }
    return ClusterView(brokers=brokers, topics=topics)


def without(view: ClusterView, down: frozenset[int], *, listed: bool) -> ClusterView:
    """The same cluster while some brokers are down: absent or of unknown rack, out of sync, and leading nothing."""
    brokers: dict[int, Rack] = {broker: rack for broker, rack in view.brokers.items() if broker not in down}
    if listed:
        brokers |= dict.fromkeys(down, UNKNOWN)

    def degraded(seen: PartitionView) -> PartitionView:
        alive = tuple(replica for replica in seen.replicas if replica not in down)
        return PartitionView(leader=alive[0] if alive else -1, replicas=seen.replicas, in_sync=alive)

    return ClusterView(
        brokers=brokers,
        topics={topic: tuple(map(degraded, partitions)) for topic, partitions in view.topics.items()},
    )


@given(
    view=clusters(),
    history=st.lists(
        st.tuples(st.frozensets(st.sampled_from(BROKERS)), st.booleans(), st.floats(0.01, 0.9)), max_size=10
    ),
)
def test_bounced_brokers_change_nothing(view: ClusterView, history: list[tuple[frozenset[int], bool, float]]) -> None:
    """Brokers that leave and return change nothing if leaders return within their time."""
    now = 0.0
    state = settle(Settling(), view, now, TIMES).state
    settled = state.settled
    for down, listed, pause in history:
        for seen in (without(view, down, listed=listed), view):
            now += pause
            outcome = settle(state, seen, now, TIMES)
            state = outcome.state
            assert outcome.changes == ()
            assert state.settled is settled


@given(before=clusters(), after=clusters(), pauses=st.lists(st.floats(0.01, 0.3), max_size=12))
def test_what_lasts_settles_and_not_before(before: ClusterView, after: ClusterView, pauses: list[float]) -> None:
    """Known replicas and racks wait for the settling time, then all changes count."""
    state = settle(Settling(), before, 0.0, TIMES).state
    old = state.settled
    began = now = 1.0
    for pause in [0.0, *pauses]:
        now += pause
        state = settle(state, after, now, TIMES).state
        if now - began < TIMES.change:
            assert state.settled.brokers == old.brokers
            for topic, partitions in after.topics.items():
                kept = min(len(partitions), len(old.topics[topic]))
                assert state.settled.topics[topic][:kept] == old.topics[topic][:kept]
    state = settle(state, after, began + TIMES.leader, TIMES).state
    fresh = settle(Settling(), after, 0.0, TIMES).state.settled
    assert state.settled.brokers == fresh.brokers
    for topic, wanted in fresh.topics.items():
        found = state.settled.topics[topic]
        assert [(each.leader, set(each.replicas)) for each in found] == [
            (each.leader, set(each.replicas)) for each in wanted
        ]
    assert settle(state, after, began + 100, TIMES).state.settled is state.settled


@given(views=st.lists(clusters(), min_size=2, max_size=8), pauses=st.lists(PAUSES, min_size=8, max_size=8))
def test_the_settled_object_changes_only_with_its_value(views: list[ClusterView], pauses: list[float]) -> None:
    """Another object means another value, and a reported change means that the value has changed."""
    state, now = settle(Settling(), views[0], 0.0, TIMES).state, 0.0
    for view, pause in zip(views[1:], pauses, strict=False):
        now += pause
        outcome = settle(state, view, now, TIMES)
        assert (outcome.state.settled is state.settled) == (outcome.state.settled == state.settled)
        if outcome.changes:
            assert outcome.state.settled != state.settled
        state = outcome.state
