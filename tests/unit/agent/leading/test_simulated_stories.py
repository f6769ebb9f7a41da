"""The real leader in simulated worlds: no invariant is violated, and mistakes made on purpose are found.

A short run; `scripts/simulate --seeds 10000` is the long one. The model of a group's coordinator is compared with
answers of real brokers, which `tests/integration/test_coordinator_model.py` records with SAMERACK_RECORD=1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pytest
from hypothesis import settings

from samerack.agent.group_status import LEADING, OBSERVING
from samerack.agent.leading.group_reporter import GroupReporter
from samerack.agent.leading.membership import Membership
from samerack.agent.leading.session import Session
from samerack.agent.policy.requests import RequestKind
from samerack.agent.supervisor.protocol import HAND_OVER_SECONDS
from samerack.election.leadership_state import LeadershipState
from samerack.planning import planner
from tests.simulator import broker, leadership
from tests.simulator.agent import settings_of, simulated
from tests.simulator.consumers import KINDS, Consumer
from tests.simulator.deploys import restarts_until_led
from tests.simulator.desk import play
from tests.simulator.group import AGENTS, State
from tests.simulator.invariants import ViolationError
from tests.simulator.place import RACKS
from tests.simulator.plants import PLANTS
from tests.simulator.scenarios import SCENARIOS
from tests.simulator.story import play_story
from tests.simulator.world import FOREIGN, TOPIC, Setting, World

_DATA: Final = Path(__file__).parents[3] / "data" / "coordinator"
STORIES = max(8, settings().max_examples // 4)
MAX_SEEDS = 1000
_FOUND = [
    ("stays", "StaysAlone", 188),
    ("deaf-to-partitions", "Unread", 60),
    ("stays-alone", "StaysAlone", 7),
    ("plans-without-topics", "LeftOut", 7),
    ("joins-anything", "ForbiddenGroup", 3),
    ("deaf-to-the-end", "EndsLate", 1),
    ("all-alive", "StoppedForAway", 56),
    ("evicts-again", "EndedAgain", 8),
]
"""A mistake, what is violated by it, and the seed from which on it is searched."""
_FOUND_LATER = [
    ("one-phase", "OwnedTwice", 897),
    ("no-budget", "BeyondBudget", 149),
    ("pending-forever", "KeptPendingId", 20),
    ("plans-without-unreadable", "NeedlessLeave", 109),
    ("newest-metadata", "Unread", 69),
    ("follows-anybody", "LongRebalance", 41),
    ("asleep", "NotOptimal", 482),
    ("fewer-believed", "LeftOut", 366),
    ("reserves-long", "KeptPendingId", 1),
    ("refreshes-rejected", "TakenForRejected", 1747),
    ("no-pauses", "HotLoop", 1),
    ("random-place", "RandomPlace", 58),
    ("errors-end-it", "NeedlessLeave", 17),
    ("polls-end-turns", "NeedlessLeave", 1),
    ("every-poll-believed", "OutdatedPoll", 148),
    ("takes-the-last-place", "RefusedConsumer", 36),
]
"""Mistakes that only a longer story shows: a second or more for each."""


@contextmanager
def _world(**setting: Any) -> Iterator[World]:
    """A world that ends with the test."""
    with simulated():
        world = World(Setting(**setting))
        try:
            yield world
        finally:
            world.close()


def _found(plant: str, first: int) -> ViolationError:
    """The violation that the simulator finds for a mistake."""
    with simulated(), PLANTS[plant]():
        for number in range(first, first + MAX_SEEDS):
            try:
                play_story(number, shorten=False)
            except ViolationError as violation:
                return violation
    pytest.fail(f"{plant} is not found")


def test_nothing_is_violated() -> None:
    """All invariants hold whatever happens to clients, agents and the cluster, and an hour later too."""
    with simulated():
        play_story(
            0, stories=STORIES
        )  # one run, because each begins with the simplest story, and with reading the rules


@pytest.mark.parametrize(
    ("plant", "kind", "first"), [*_FOUND, *(pytest.param(*one, marks=pytest.mark.extended) for one in _FOUND_LATER)]
)
def test_a_planted_mistake_is_found(plant: str, kind: str, first: int) -> None:
    """A mistake is found within a thousand seeds; the search starts where it was found, to take a second."""
    assert type(_found(plant, first)).__name__ == kind


# members that are away


def _racks_change_while_a_member_is_away(commits: int, *, static: bool) -> None:
    with _world(seed=commits, initial_delay_ms=3000) as world:
        world.start_agent(0)
        world.wait(2000)
        for rack in RACKS:
            world.join("static" if static else "default", rack)
        world.settle()
        if static:
            world.restart(0, 1000, RACKS[0])
            world.wait(4000)
            world.restart(1, 25_000, RACKS[1])
        else:
            world.crash(2)
        world.wait(1000)
        world.restless_racks(1, 5000)
        world.sleep(3_600_000)


@pytest.mark.parametrize("static", [False, True], ids=["dead", "restarting"])
@pytest.mark.parametrize("commits", [0, 1, 2], ids=["5 s", "1 s", "never"])
def test_no_rebalance_is_chosen_while_a_member_is_away(commits: int, *, static: bool) -> None:
    """Whether members commit or not: an hour later the group reads by the new racks, and nobody was stopped for it."""
    _racks_change_while_a_member_is_away(commits, static=static)
    with PLANTS["all-alive"](), pytest.raises(ViolationError, match="is away"):
        _racks_change_while_a_member_is_away(commits, static=static)


def test_an_agent_that_has_lost_its_place_waits_for_nothing() -> None:
    """Its status went on to say that a rebalance waits for members, as long as it stayed out of the group."""
    with _world(seed=2, initial_delay_ms=3000, clients="kafkajs") as world:
        world.start_agent(0)
        world.settle()
        for rack in RACKS:
            world.join("java", rack)
        world.settle()
        world.restless_racks(1, 3000)
        assert world.agents[0].waits
        world.freeze_agent(0, 12_000, whole=True)
        world.wait(13_000)
        assert not world.agents[0].waits


def test_an_agent_that_has_left_a_group_without_consumers_waits_for_nothing() -> None:
    """Its last decision stayed in its status until the next consumers came."""
    with _world(initial_delay_ms=3000) as world:
        world.start_agent(0)
        world.settle()
        for rack in RACKS:
            world.join("java", rack)
        world.settle()
        world.crash(2)
        world.restless_racks(1, 3000)
        assert world.agents[0].waits
        world.crash(0)
        world.leave(0)
        world.settle()
        assert not world.agents[0].ids()
        assert not world.agents[0].waits


# agents that hang


def test_a_thread_that_hangs_keeps_its_group_waiting_for_ten_seconds() -> None:
    """On a log that nobody read, or a disk, the thread hung while heartbeats went on: the group stood for 66 s."""
    with _world(seed=2, initial_delay_ms=3000) as world:
        world.start_agent(0)
        world.settle()
        for rack in RACKS:
            world.join("default", rack)
        world.settle()
        leader, process = world.agents[0].leader, world.agents[0].process
        assert leader is not None
        assert process is not None
        with mock.patch.object(leader.reporter, "planned", side_effect=lambda _: process.sleep(3600)):
            world.join("default", RACKS[0])
            world.wait(7000)
            world.join("default", RACKS[1])
            group, began = world.coordinator.group, world.timeline.now
            assert group is not None
            world.wait(1000)
            assert group.state.name == "PREPARING"
            while group.state is not State.STABLE:
                world.wait(100)
        assert world.timeline.now - began < 12_000
        assert all(one.owned for one in world.consumers)
        assert AGENTS not in {one.client_id for one in group.members}


@pytest.mark.parametrize(("evicts", "seconds"), [(False, 6), (True, 15)], ids=["hold", "evict"])
def test_an_agent_that_dies_in_a_takeover_stops_its_group_for_fifteen_seconds(evicts: bool, seconds: int) -> None:  # noqa: FBT001 - a column of the table
    """With its supervisor: until the pending member ends, and then, if the agent has come to lead, its session."""
    evict, died = Membership.evict, []
    with _world(seed=2, initial_delay_ms=0, clean=True) as world:

        def die(member: Membership, *member_ids: str) -> None:
            if evicts:
                evict(member, *member_ids)
            died.append(world.timeline.now)
            world.freeze_agent(0, 60_000, whole=True)

        for rack in RACKS:
            world.join("kafka-python", rack)
        world.settle()
        world.start_agent(0)
        world.wait(4000)
        world.restless_racks(1, 3000)
        with mock.patch.object(Membership, "evict", die):
            while not died:
                world.wait(100)
        group = world.coordinator.group
        assert group is not None
        while group.state is not State.STABLE:
            world.wait(100)
        assert seconds - 1 < (world.timeline.now - died[0]) / 1000 < seconds + 0.5
        assert all(one.owned for one in world.consumers)


# memberships that are lost


@contextmanager
def _led_without_admission() -> Iterator[World]:
    """A group of kafka-python's roundrobin, which agents may not join as it runs: this one leads it from its birth."""
    with _world(seed=2, initial_delay_ms=3000, forbidden=True) as world:
        world.start_agent(0)
        world.settle()
        for rack in RACKS:
            world.join("kafka-python", rack)
        world.settle()
        assert _is_inside(world)
        yield world


def _is_inside(world: World) -> bool:
    group = world.coordinator.group
    return group is not None and any(one.client_id == AGENTS for one in group.members)


def _joins(world: World) -> int:
    return sum(line.endswith("join-sent") for line in world.invariants.tale)


@pytest.mark.parametrize("step", ["join-sent", "join-answered"])
def test_an_agent_that_lost_its_place_while_it_joined_is_admitted_first(step: str) -> None:
    """Stopped while it joined, it joined again at once, and kafka-python's leader raised KeyError."""
    with _led_without_admission() as world:
        world.freeze_agent(0, 20_000, whole=True, step=step)
        world.join("kafka-python", "a")
        joins = _joins(world)
        world.wait(60_000)
        assert _joins(world) == joins + 1
        assert not _is_inside(world)
        world.settle()


@pytest.mark.parametrize("after_ms", [0, 1700, 4200])
def test_an_agent_that_is_removed_from_a_group_describes_it_before_it_joins(after_ms: int) -> None:
    """A description from before its removal had its own instance id, so it was in the group again without admission."""
    with _led_without_admission() as world:
        world.wait(after_ms)
        joins = _joins(world)
        world.remove_agent(0)
        world.wait(60_000)
        assert _joins(world) == joins
        assert not _is_inside(world)


def test_an_agent_leaves_a_group_whose_leader_may_fail_on_it() -> None:
    """It followed for good where a consumer led that kafka-python's roundrobin may have, and that it would not join."""
    with (
        _led_without_admission() as world,
        mock.patch.object(Session, "_is_expected", return_value=True),
        mock.patch.object(world.invariants, "steps"),
    ):
        world.remove_agent(0)
        world.wait(20_000)
        assert not _is_inside(world)


# mistakes in the agent


def test_a_mistake_of_the_agent_in_a_group_costs_few_rebalances() -> None:
    """At an error in every turn of a follower it left and joined again: 24 generations in 30 seconds, without end."""
    with (
        _world(seed=2, initial_delay_ms=3000) as world,
        mock.patch.object(Session, "_follow", side_effect=KeyError("x")),
        mock.patch.object(world.invariants, "breaks") as breaks,
    ):
        for rack in RACKS:
            world.join("java", rack)
        world.settle()
        group = world.coordinator.group
        assert group is not None
        before = group.generation
        world.start_agent(0)
        world.wait(120_000)
        assert breaks.call_count == 2
        assert group.generation - before <= 4


# agents that hand a group over


def _ends(*numbers: int, elected_ms: int = leadership.VERDICT_MS) -> tuple[int, bool, float]:
    """Of two agents some are asked to stop, the one that leads first; verdicts of elections take a time.

    Return how many generations that cost within the hand-over, whether an agent leads, and after how many seconds the
    first had ended.
    """
    with _world(seed=1, initial_delay_ms=3000, agents=2) as world:
        world.start_agent(0)
        world.wait(5000)
        world.start_agent(1)
        world.settle()
        for rack in RACKS:
            world.join("java", rack)
        world.settle()
        group, began = world.coordinator.group, world.timeline.now
        assert group is not None
        before = group.generation
        with mock.patch.object(leadership, "VERDICT_MS", elected_ms):
            for number in numbers:
                world.stop_agent(number)
            while world.agents[0].up:
                world.wait(100)
            seconds = (world.timeline.now - began) / 1000
            world.settle()
        led = any(one.id == group.leader and one.client_id == AGENTS for one in group.members)
        return group.generation - before, led, seconds


@pytest.mark.parametrize("elected_ms", [leadership.VERDICT_MS, 2500])
def test_an_agent_leads_until_its_successor_has_taken_over(elected_ms: int) -> None:
    """On a busy machine that takes 2.6 s; an agent that ended after 1.5 s left the group, which rebalanced."""
    generations, led, seconds = _ends(0, elected_ms=elected_ms)
    assert (generations, led) == (0, True)
    assert seconds < HAND_OVER_SECONDS


def test_an_agent_whose_successor_is_too_late_ends() -> None:
    """The group rebalances once when the agent leaves, and once when the successor joins it."""
    generations, led, seconds = _ends(0, elected_ms=9000)
    assert HAND_OVER_SECONDS <= seconds < HAND_OVER_SECONDS + 0.5
    assert (generations > 0, led) == (True, False)


def test_an_agent_whose_successor_ends_too_waits_for_nobody() -> None:
    """A Deployment that is scaled to zero ends both at once: each has left the election when the other one looks."""
    generations, led, seconds = _ends(0, 1)
    assert (generations, led) == (1, False)
    assert seconds < 1.0


# groups that need nothing


def test_agents_of_two_elections_with_one_instance_id_do_not_fence_each_other_for_ever() -> None:
    """Each is sure of its own election and takes the membership back once; then it stays where it is."""
    with (
        mock.patch.object(LeadershipState, "is_surely_active", return_value=True),
        mock.patch.object(GroupReporter, "is_fenced", autospec=True, side_effect=GroupReporter.is_fenced) as fenced,
        _world(agents=2, strangers=True) as world,
    ):
        for agent in world.agents:
            agent.instance_id, agent.settings = "samerack", settings_of("samerack", "patient")
        world.start_agent(0)
        for rack in RACKS:
            world.join("java", rack)
        world.settle()
        world.start_agent(1)
        world.wait(180_000)
        first, second = (agent.leader and agent.leader.reporter for agent in world.agents)
        assert [one.args[0] for one in fenced.call_args_list] == [first, second, first]


def _changes_to_foreign_assignor(*, leaves: bool) -> list[str]:
    """Two bounces from `range` to an assignor that agents do not offer; return whom brokers refuse for the agent."""
    with _world(initial_delay_ms=3000) as world:
        world.start_agent(0)
        world.wait(3000)
        agent = world.agents[0]
        assert agent.leader is not None
        assert agent.process is not None
        ask: Any = partial(agent.leader.operators.ask, seconds=None, by="", why="")
        for protocols in (("range",), (FOREIGN, "range"), (FOREIGN,)):
            if leaves and len(protocols) > 1:
                agent.process.host.do(partial(ask, RequestKind.LEAVE))
            for number, rack in enumerate(RACKS):
                for former in world.consumers[number : number + 1]:
                    former.leave()
                    world.wait(3000)
                one = Consumer(world, f"java-{rack}", KINDS["java"], rack=rack, topics=(TOPIC,), protocols=protocols)
                world.consumers[number : number + 1] = [one]
                one.start()
                world.wait(6000)
        agent.process.host.do(partial(ask, None))
        world.wait(20_000)
        assert agent.leader.reporter.role == OBSERVING
        assert {one.name for one in world.consumers if one.failure} == set(world.invariants.guest.kept_out)
        return world.invariants.guest.kept_out


def test_a_group_that_the_agent_has_left_changes_to_an_assignor_that_the_agent_does_not_offer() -> None:
    """`samerack leave` before the first bounce: else brokers refuse members that have only the new assignor.

    Nobody can see the new one while the agent is a member: brokers show the protocol that all members have.
    """
    assert _changes_to_foreign_assignor(leaves=True) == []
    assert _changes_to_foreign_assignor(leaves=False)


def test_plans_by_counts_in_place_of_late_ones_by_load_are_no_reason_to_leave() -> None:
    """After three in a row the agent left a group that it led by racks; range's plans are such a reason."""

    def late(*given: Any, **named: Any) -> planner.Plan:
        return replace(make_plan(*given, **named), failure="LateError: no plan within 2.5 s")

    make_plan = planner.make_plan
    with _world(initial_delay_ms=3000) as world, mock.patch.object(planner, "make_plan", late):
        world.start_agent(0)
        world.settle()
        for rack in (*RACKS, *RACKS):
            world.join("java", rack)
            world.wait(6000)
        agent = world.agents[0]
        assert agent.leader is not None
        assert agent.leader.reporter.role == LEADING


def test_a_group_that_needs_nothing_is_described_every_five_seconds() -> None:
    """Once a second was a hundred requests a second for a hundred groups; when racks change it is described at once."""
    with _world(initial_delay_ms=3000) as world, mock.patch.object(broker, "describe", wraps=broker.describe) as asked:
        world.start_agent(0)
        world.settle()
        for rack in RACKS:
            world.join("java", rack)
        world.settle()
        asked.reset_mock()
        world.wait(20_000)
        assert asked.call_count in range(3, 6)
        asked.reset_mock()
        world.restless_racks(1, 4000)
        assert asked.call_count >= 2
        world.settle()  # and reads by the new racks


# groups of limited size


@pytest.mark.parametrize("apart_ms", [20, 1500, 8000])
@pytest.mark.parametrize("seen_full", [False, True])
def test_a_group_is_born_with_as_many_consumers_as_brokers_allow(apart_ms: int, seen_full: bool) -> None:  # noqa: FBT001 - a column of the table
    """With `group.max.size=3` the agent took the third place from birth, and the third consumer ended."""
    with _world(seed=1, initial_delay_ms=3000, max_size=3) as world:
        world.start_agent(0)
        world.settle()
        for _ in range(1 + seen_full):
            while world.consumers and any(one.host.alive for one in world.consumers):
                world.leave(0)
            world.settle()
            world.fill(apart_ms)
            world.settle()
        assert [one.failure for one in world.consumers if one.failure] == []
        assert all(one.owned for one in world.consumers if one.host.alive)


@pytest.mark.parametrize("apart_ms", [20, 150, 1500, 8000])
def test_an_agent_makes_room_when_its_group_grows(apart_ms: int) -> None:
    """The agent leads two consumers; as the group grows to `group.max.size` it leaves before one is refused."""
    with _world(seed=1, initial_delay_ms=3000, max_size=5) as world:
        world.start_agent(0)
        world.settle()
        world.join("java", "a")
        world.join("java", "b")
        world.settle()
        assert world.agents[0].ids(), "the agent is in the group while there is room"
        world.fill(apart_ms)
        world.settle()
        assert [one.failure for one in world.consumers if one.failure] == []
        assert not world.agents[0].ids()


def test_an_agent_leaves_a_restarting_consumer_its_place() -> None:
    """While a consumer of a full group restarted, the agent took its place, and another, running one ended."""
    with _world(seed=1, initial_delay_ms=3000, max_size=3) as world:
        world.fill(1000)
        world.settle()
        world.start_agent(0)
        world.settle()
        for number in range(3):
            world.redeploy(number, 5000)
            world.settle()
        assert [one.failure for one in world.consumers if one.failure] == []
        assert not world.agents[0].ids()


def test_a_failure_that_has_passed_is_no_reason_to_stay_out() -> None:
    """After the coordinator had moved, an agent without room said for good that the group was loading."""
    with _world(seed=1, initial_delay_ms=3000, max_size=3) as world:
        world.fill(1000)
        world.settle()
        world.start_agent(0)
        world.settle()
        leader = world.agents[0].leader
        assert leader is not None
        reason = leader.reporter.trouble
        assert reason.startswith("group.max.size")
        world.move_coordinator(3000, outdated=False)
        world.wait(2500)
        assert not leader.reporter.trouble.startswith("group.max.size")
        world.settle()
        assert leader.reporter.trouble == reason


def test_an_agent_comes_back_to_a_group_that_has_become_smaller() -> None:
    """Five minutes after the group has shrunk the agent is in it again."""
    with _world(seed=1, initial_delay_ms=3000, max_size=4) as world:
        world.start_agent(0)
        world.settle()
        world.fill(1000)
        world.settle()
        world.leave(0)
        world.leave(0)
        world.settle()
        assert not world.agents[0].ids()
        world.sleep(3_600_000)
        assert world.agents[0].ids()


# initial rebalances

SECOND_JOINS_AFTER_MS = range(600, 800, 20)  # the times include the agent's JoinGroup, its first poll and its eviction


def test_a_member_that_comes_between_a_poll_and_an_eviction_does_not_lead() -> None:
    """A poll from before the agent's wait in JoinGroup missed it: three such in a row, and the agent followed."""
    leaders = {}
    for milliseconds in SECOND_JOINS_AFTER_MS:
        with _world(seed=1, initial_delay_ms=3000) as world:
            world.start_agent(0)
            world.settle()
            world.join("java", "a")
            world.wait(milliseconds)
            world.join("kafka-python", "b")
            world.wait(7000)
            group = world.coordinator.group
            assert group is not None
            leader = next((one.client_id for one in group.members if one.id == group.leader), None)
            leaders[milliseconds] = (group.generation, leader)
    assert leaders == dict.fromkeys(SECOND_JOINS_AFTER_MS, (1, AGENTS))


@pytest.mark.parametrize("clients", ["any", "kafka-go"])
def test_clients_that_pause_after_a_failed_join_get_their_partitions_in_time(clients: str) -> None:
    """kafka-go waits for five seconds: evicted at once, its members joined in a third delay of the coordinator.

    Meanwhile the agent is alone, and the group must not be Stable: offsets would expire by their own age.
    """
    seconds = {}
    for agents in (0, 1):
        with _world(seed=1, initial_delay_ms=3000, clients=clients) as world:
            for number in range(agents):
                world.start_agent(number)
            world.settle()
            began = world.timeline.now
            for rack in "abc":
                world.join("java", rack)
            while not all(one.owned for one in world.consumers):
                world.wait(10)
                group = world.coordinator.group
                assert group is None or group.state is not State.STABLE or len(group.members) > 1
            seconds[agents] = (world.timeline.now - began) / 1000
            assert [one.leading for one in world.consumers].count(True) == 1 - agents
    assert seconds[1] - seconds[0] <= 1.0


# groups whose record is nearly too large


def _restarted(limit: int | None, kind: str, plant: str = "") -> tuple[int, int, str]:
    """Restart one of three clients of a `sticky` group that an agent leads from birth, if it may.

    Return the size of the group's record, how many clients run in the end, and who leads.
    """
    setting: dict[str, Any] = {"protocol": "sticky", "partitions": 24, "initial_delay_ms": 3000, "record_limit": limit}
    with PLANTS[plant](), _world(seed=1, **setting) as world:
        world.start_agent(0)
        world.settle()
        for rack in "abc":
            world.join(kind, rack)
        world.settle()
        world.leave(0)
        world.settle()
        world.join(kind, "a")
        world.settle()
        group = world.coordinator.group
        assert group is not None
        leader = next((one.client_id for one in group.members if one.id == group.leader), "nobody")
        return group.record_bytes(), sum(one.host.alive for one in world.consumers), leader


def test_a_group_whose_record_just_fits_is_led_and_nobody_ends() -> None:
    """User data of the agent's plan made it too large, and all Java members ended at the first restart."""
    size, running, leader = _restarted(None, "java")
    assert (running, leader) == (3, AGENTS)
    assert _restarted(size + 500, "java") == (size, 3, AGENTS)
    with pytest.raises(ViolationError) as found:
        _restarted(size + 50, "java", "user-data-for-all")
    assert type(found.value).__name__ == "TooLarge"


def test_a_group_whose_record_has_no_room_for_the_agent_leads_itself() -> None:
    """The agent leaves before it sends a plan that brokers cannot write, and nobody ends."""
    size, _, _ = _restarted(None, "java")
    own, running, leader = _restarted(size - 50, "java")
    assert own < size
    assert running == 3
    assert leader != AGENTS


# deleted topics (KAFKA-20959: Java members that own their partitions stop in any rebalance)


def _deletes_topic(plant: str = "") -> tuple[list[int], int]:
    """A led group's generations: after a topic was deleted, racks have moved too, and it was created again larger."""
    with _world(seed=1, initial_delay_ms=3000, patterns=True) as world, PLANTS[plant]():
        world.create_topic(1000)
        world.start_agent(0)
        world.settle()
        for rack in "abc":
            world.join("java", rack)
        world.settle()
        generations = []
        world.delete_topic(1, 600_000, 0)  # no client notices it for minutes
        for racks, topics in ((0, 0), (2, 0), (0, 1)):
            world.restless_racks(racks, 100)
            if topics:
                world.create_topic(600_000)
            world.wait(6000)
            assert world.coordinator.group is not None
            generations.append(world.coordinator.group.generation)
        return generations, world.agents[0].known_partitions()["t1"]


def test_kafka_20959_only_new_partitions_start_a_rebalance_while_members_own_deleted_ones() -> None:
    """A deletion starts none, nor does a saving beside it; partitions of a topic that comes back start one at once."""
    assert _deletes_topic() == ([1, 1, 2], 3)


@pytest.mark.parametrize(
    ("plant", "kind"), [("follows-deletions", "NeedlessRebalance"), ("saves-beside-deletions", "StopsForDeleted")]
)
def test_a_rebalance_beside_a_deletion_is_found(plant: str, kind: str) -> None:
    """An agent that rebalances for a deleted topic, or for a saving although members own deleted partitions."""
    with pytest.raises(ViolationError) as caught:
        _deletes_topic(plant)
    assert type(caught.value).__name__ == kind


@pytest.mark.parametrize("restarted", [False, True])
def test_members_to_which_an_error_of_join_group_is_fatal_end_once(*, restarted: bool) -> None:
    """Members of samsa were evicted at each birth; after the first they read, over a restart of the agent too."""
    with _world(seed=1, initial_delay_ms=3000, clients="samsa") as world:
        world.start_agent(0)
        world.settle()
        for rack in "abc":
            world.join("samsa", rack)
        world.wait(9000)
        if restarted:
            world.kill_agent(0)
        world.settle()
        assert not world.invariants.unread()
        while any(one.host.alive for one in world.consumers):
            world.leave(0)
        world.settle()
        for rack in "abc":
            world.join("samsa", rack)
        world.settle()
        assert not world.invariants.unread()


def test_a_leader_that_counts_the_agent_is_left_to_its_group() -> None:
    """Two members have six partitions each; a third joins: 5, 4 and 3 as long as the agent followed, now 4 each."""
    with _world(seed=1, partitions=12, clients="platformatic") as world:
        for rack in "ab":
            world.join("java", rack)
        world.settle()
        world.start_agent(0)
        world.settle()
        assert {len(one.owned) for one in world.consumers} == {6}
        world.join("java", "c")
        world.settle()
        world.settle()
        assert {len(one.owned) for one in world.consumers} == {4}


# deploys


def test_a_group_with_range_is_led_within_one_deploy() -> None:
    """The agent is next to lead, and the leader is the oldest member."""
    assert [restarts_until_led("range", 3, seed) for seed in range(2)] == [1, 1]


def test_a_group_with_a_sticky_assignor_is_led_by_chance() -> None:
    """The agent keeps the place with which it joined: some deploys make it the leader, and some do not."""
    found = [restarts_until_led("sticky", 3, seed) for seed in (2, 4)]
    assert min(one or 9 for one in found) <= 3 < max(one or 9 for one in found)


# the model of the coordinator


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_the_model_answers_as_a_broker_did(name: str) -> None:
    """Answers, parked requests and the order of members are the same, given the broker's member ids."""
    recorded: Any = json.loads((_DATA / f"{name}.json").read_text(encoding="utf-8"))
    assert json.loads(json.dumps(play(SCENARIOS[name], recorded["ids"]))) == recorded["answers"]


def test_every_record_has_its_scenario() -> None:
    """No record belongs to a scenario that does not exist any more."""
    assert {path.stem for path in _DATA.glob("*.json")} == set(SCENARIOS)
