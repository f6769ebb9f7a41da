"""The optimum of a Streams application counts whole tasks, clients by thread, and what is near for each client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.assignors.evaluate import evaluate
from samerack.cluster.view import ClusterView, NoRack
from samerack.common.weights import GroupWeights
from samerack.settings.leading import LeadingSettings
from samerack.traffic.shares import as_last_seen, problem_of, solve, whole_tasks_of
from tests.unit.agent.values import Described
from tests.unit.traffic.live_streams import cluster, observed, thread


def share(
    *members: Described, view: ClusterView, aware: bool = True, weights: Mapping[str, tuple[int, ...]] | None = None
) -> float | None:
    """The least share of these members."""
    group, leading = observed(*members), LeadingSettings()
    weighed = None if weights is None else GroupWeights(weights)
    problem = problem_of(group, as_last_seen(view), rack_aware_fetch=aware, leading=leading, weights=weighed)
    owner = None if problem is None else solve(group, problem, whole_tasks_of(group, problem), leading)
    return None if problem is None or owner is None else evaluate(problem, owner).known_share


def test_a_task_of_two_topics_stays_whole() -> None:
    """Each task reads one topic in rack and one across: half crosses, though single partitions would all be near."""
    tasks = {f"0_{number}": [("t", number), ("u", number)] for number in range(4)}
    members = (
        thread(1, {one: tasks[one] for one in ("0_0", "0_1")}, rack="a"),
        thread(2, {one: tasks[one] for one in ("0_2", "0_3")}, rack="b"),
    )
    assert share(*members, view=cluster(t=[[1]] * 4, u=[[2]] * 4)) == pytest.approx(1 / 2)


def test_a_client_with_more_threads_has_more_tasks() -> None:
    """Three of four threads run in the rack of all replicas, so only the fourth thread's task crosses."""
    members = (
        thread(1, {"0_0": [("t", 0)]}, rack="a"),
        thread(1, {"0_1": [("t", 1)]}, rack="a", name="2"),
        thread(1, {"0_2": [("t", 2)]}, rack="a", name="3"),
        thread(2, {"0_3": [("t", 3)]}, rack="b"),
    )
    assert share(*members, view=cluster(t=[[1]] * 4)) == pytest.approx(1 / 4)


@pytest.mark.parametrize(("rack", "tags", "found"), [("b", {}, 0.0), (None, {"zone": "b"}, 1 / 2)])
def test_followers_are_near_for_clients_that_fetch_with_their_rack(
    rack: str | None, tags: dict[str, str], found: float
) -> None:
    """Both partitions have followers in rack b: they are near only for a client whose fetches carry its rack."""
    members = (
        thread(1, {"0_0": [("t", 0)]}, rack="a"),
        thread(2, {"0_1": [("t", 1)]}, rack=rack, tags=tags),
    )
    assert share(*members, view=cluster(t=[[1, 2]] * 2)) == pytest.approx(found)
    assert share(*members, view=cluster(t=[[1, 2]] * 2), aware=False) == pytest.approx(1 / 2)


def test_bytes_decide_which_task_crosses() -> None:
    """Of two tasks with replicas in one rack the one with fewer bytes crosses."""
    members = (
        thread(1, {"0_0": [("t", 0)]}, rack="a"),
        thread(2, {"0_1": [("t", 1)]}, rack="b"),
    )
    assert share(*members, view=cluster(t=[[1], [1]]), weights={"t": (1, 9)}) == pytest.approx(1 / 10)


def test_a_share_is_of_what_is_known() -> None:
    """What a client without rack reads is in no share, as in groups of consumers; without tasks there is none."""
    members = (
        thread(1, {"0_0": [("t", 0)]}, rack="a"),
        thread(2, {"0_1": [("t", 1)]}),
    )
    assert share(*members, view=cluster(t=[[2], [2]])) == pytest.approx(1.0)
    assert share(*members, view=cluster(other=[[1]])) is None
    assert share(thread(1, {}), view=cluster(t=[[1]])) is None


def test_a_replica_of_unknown_rack_is_neither_near_nor_across() -> None:
    """Nobody knows whether reads from it cross racks, so there is no share."""
    members = (thread(1, {"0_0": [("t", 0)]}, rack="a"),)
    view = cluster(t=[[2]])
    lost = ClusterView(brokers={1: "a", 2: NoRack.UNKNOWN}, topics=view.topics)
    assert share(*members, view=lost) is None


PLACES = st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=7)


@given(places=PLACES, racks=st.lists(st.sampled_from("abc"), min_size=1, max_size=4))
def test_the_share_is_the_least_of_all_balanced_plans(places: Sequence[int], racks: Sequence[str]) -> None:
    """The share equals that of the best plan in which clients have equally many tasks, up to one, by trying all."""
    members = [thread(index + 1, {}, rack=rack) for index, rack in enumerate(racks)]
    everything = {f"0_{number}": [("t", number)] for number in range(len(places))}
    members[0] = thread(1, everything, rack=racks[0])
    view = cluster(t=[[place] for place in places])
    found = share(*members, view=view)
    assert found == pytest.approx(_least([" abc"[place] for place in places], racks))


def _least(places: Sequence[str], racks: Sequence[str]) -> float:
    """Try every plan; the first clients have one task more, as Kafka deals them."""
    more = len(places) % len(racks)
    limits = [len(places) // len(racks) + (index < more) for index in range(len(racks))]
    best = [np.inf]

    def put(index: int, left: list[int], crossing: int) -> None:
        if crossing >= best[0]:
            return
        if index == len(places):
            best[0] = crossing
            return
        for client, room in enumerate(left):
            if room:
                left[client] -= 1
                put(index + 1, left, crossing + (racks[client] != places[index]))
                left[client] += 1

    put(0, limits, 0)
    return float(best[0] / len(places))
