"""What a real agent publishes on real brokers, read by a consumer and compared with /metrics and the brokers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from itertools import pairwise

import pytest

from lab.sandbox.admin import Admin, wait_until
from lab.sandbox.contract import KafkaCluster
from samerack.common.records import TrafficSample
from tests.integration.fleet import ENOUGH_BYTES, Fleet, at_rest, counted, dropped, hold_form, reading, run_of
from tests.integration.scenario import INTERLEAVED, A, B, Scenario, now_ms


@pytest.fixture
def fleet(cluster: KafkaCluster, admin: Admin) -> Iterator[Fleet]:
    """Two topics with replicas on brokers 1 and 3; they are deleted afterwards."""
    name = uuid.uuid4().hex[:12]
    made = Fleet(bootstrap=cluster.bootstrap, traffic=f"samples-{name}", groups=f"states-{name}")
    for topic in (made.traffic, made.groups):
        admin.create_topic(topic, [[1, 3], [3, 1]])
    yield made
    for topic in (made.traffic, made.groups):
        admin.delete_topic(topic)


@pytest.mark.promise("What agents publish adds up to what they measured, to the byte, and states are the brokers'.")
def test_samples_add_up_and_states_are_the_brokers(scenario: Scenario, fleet: Fleet, admin: Admin) -> None:
    """The sum of all samples equals /metrics to the byte; a group's state equals the broker's description."""
    scenario.lay_out(INTERLEAVED)
    agent = scenario.waiting_agent(**fleet.settings(5))
    reading(scenario)
    agent.wait(lambda: counted(agent) > ENOUGH_BYTES, "bytes are counted", timeout=90)
    described = {
        member.member_id: {(p.topic, p.partition) for p in member.assignment.topic_partitions}
        for member in scenario.describe().members
        if member.client_id != "samerack"
    }
    since = now_ms()
    wait_until(lambda: any(one.at > since for one in fleet.states()), "a state was published", pause=1)
    state = fleet.states()[-1]
    assert {
        member.id: {
            (topic.name, number) for topic in state.topics for number, owner in enumerate(topic.owner) if owner == index
        }
        for index, member in enumerate(state.members)
    } == described
    assert sorted(state.racks[member.rack] for member in state.members) == [A, B]
    assert [[state.topics[index].name for index in member.topics] for member in state.members] == [[scenario.topic]] * 2
    racks, placed = admin.racks(), admin.replicas([scenario.topic])
    assert [[state.racks[rack] for rack in replicas] for replicas in state.topics[0].replicas] == [
        [racks[broker] for broker in placed[scenario.topic, number].replicas] for number in range(len(placed))
    ]
    assert all(rate > 0 for rate in state.topics[0].bytes_per_second)
    assert (state.kind, state.state, state.role, state.rack_aware_fetch) == ("classic", "Stable", "leading", True)

    ended = at_rest(scenario, agent)
    wait_until(lambda: fleet.sums() == ended, f"the samples add up to {ended}", timeout=60, pause=1)
    samples = fleet.samples()
    hold_form(samples, every=5)
    assert {one.agent for one in (*samples, state)} == {samples[0].agent}
    assert {one.cluster for one in samples} == {state.cluster}
    assert {one.election for one in samples} == {f"samerack-{scenario.group}"}
    assert [member.tells_rack for member in state.members] == [True, True]
    assert {key for key, _ in fleet.read(fleet.traffic)} == {f"{state.cluster}/{scenario.group}".encode()}
    assert agent.metric("samerack_published_records_total", kind="sample") == len(samples)
    at_once = [one.at for one in fleet.states()]
    assert all(after - before >= 1000 for before, after in pairwise(at_once))


@pytest.mark.moves_brokers
def test_a_broker_goes_and_comes_back(scenario: Scenario, fleet: Fleet, cluster: KafkaCluster, admin: Admin) -> None:
    """Samples are buffered while no broker accepts them; afterwards each of them is published once."""
    here = f"samples-{uuid.uuid4().hex[:12]}"
    admin.create_topic(here, [[2]])
    mine = Fleet(bootstrap=fleet.bootstrap, traffic=here, groups=fleet.groups)
    scenario.lay_out([[1], [3], [1], [3]])
    agent = scenario.waiting_agent(**mine.settings(1))
    reading(scenario)
    agent.wait(lambda: bool(mine.samples()), "samples are published", timeout=90)
    cluster.stop_broker(2, kill=True)
    agent.wait(lambda: (agent.metric("samerack_buffered_records", kind="sample") or 0) > 10, "samples wait", timeout=60)
    assert agent.role() == "leading"
    cluster.start_broker(2)
    ended = at_rest(scenario, agent)
    wait_until(lambda: mine.sums() == ended, f"the samples add up to {ended}", timeout=60, pause=1)
    hold_form(mine.samples(), every=1)
    assert agent.metric("samerack_buffered_records", kind="sample") == 0
    assert not any(dropped(agent).values())
    admin.delete_topic(here)


def test_a_killed_agent_loses_no_more_than_its_last_window(scenario: Scenario, fleet: Fleet) -> None:
    """After SIGKILL, all but the last window has been published, and the next agent repeats none of it."""
    every = 2
    scenario.lay_out(INTERLEAVED)
    agent = scenario.waiting_agent(**fleet.settings(every), election__identity="same")
    reading(scenario)
    agent.wait(lambda: counted(agent) > ENOUGH_BYTES, "bytes are counted", timeout=90)
    agent.kill()
    killed = now_ms()
    former = fleet.samples()
    # a check every second may be late, and the record takes a moment to arrive
    assert killed - max(one.window_end for one in former) < (every + 2) * 1000
    again = scenario.agent(**fleet.settings(every), election__identity="same")
    again.wait(lambda: counted(again) > ENOUGH_BYTES, "bytes are counted", timeout=90)
    ended = at_rest(scenario, again)
    runs = {run_of(one) for one in former}

    def later() -> list[TrafficSample]:
        return [one for one in fleet.samples() if run_of(one) not in runs]

    wait_until(
        lambda: sum(one.bytes for one in later()) == sum(wire_bytes for wire_bytes, _ in ended.values()),
        "the second agent's samples are its totals",
        timeout=60,
        pause=1,
    )
    hold_form(fleet.samples(), every=every)
    assert min(one.window_start for one in later()) >= max(one.window_end for one in former)
