"""Stories: random sequences of events in a simulated world; Hypothesis generates them and shrinks those that fail.

A story is deterministic: the same steps give the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.simulator.consumers import KINDS
from tests.simulator.group import ERRORS, Error
from tests.simulator.place import RACKS
from tests.simulator.world import STEPS, Setting, World

STEPS_OF_A_STORY: Final = 24
_MAX_SEED: Final = 99
"""Hypothesis also tries larger constants of all loaded modules, so results would depend on other tests."""
_NUMBERS: Final = st.integers(0, 7)
_AGENTS: Final = st.integers(0, 1)
_STEPS: Final = st.sampled_from(STEPS)
_MAX_CLIENTS: Final = 7
_FIRST_MS: Final = 2000
_PEACE_MS: Final = 3000
_REFUSALS: Final = st.sampled_from(sorted(ERRORS)).flatmap(
    lambda name: st.tuples(st.just(name), st.sampled_from(ERRORS[name]))
)
_PROTOCOLS: Final = ("range", "cooperative-sticky", "roundrobin", "sticky")
_SETTINGS: Final = st.builds(
    Setting,
    seed=st.integers(0, _MAX_SEED),
    protocol=st.sampled_from(_PROTOCOLS),
    partitions=st.integers(1, 12),
    agents=st.integers(1, 2),
    strangers=st.booleans(),
    forbidden=st.sampled_from((False, False, False, False, False, False, False, True)),
    initial_delay_ms=st.sampled_from((3000, 0)),
    max_size=st.sampled_from((0, 0, 3, 4)),
    record_limit=st.sampled_from((None, None, None, None, 1000, 1600)),
    patterns=st.booleans(),
    plan_ms=st.sampled_from((0, 0, 0, 80, 1500)),
    metadata_ms=st.sampled_from((0, 0, 0, 300, 2500)),
    clients=st.sampled_from(("any", "any", "any", "any", "any", "any", "kafka-go", "kafkajs", "samsa")),
    agent_first=st.booleans(),
    clean=st.booleans(),
)


def _within(*milliseconds: int) -> st.SearchStrategy[int]:
    return st.sampled_from(milliseconds)


_EVENTS: Final[dict[str, tuple[Callable[..., None], dict[str, Any]]]] = {
    "some_time_passes": (World.wait, {"milliseconds": _within(5, 50, 150, 400, 1000, 2500, 6000)}),
    # clients
    "a_client_leaves": (World.leave, {"number": _NUMBERS}),
    "a_client_restarts": (World.redeploy, {"number": _NUMBERS, "milliseconds": _within(50, 2500, 12_000)}),
    "the_group_fills": (World.fill, {"milliseconds": _within(5, 150, 1000, 6000)}),
    "a_client_crashes": (World.crash, {"number": _NUMBERS}),
    "a_client_stops": (World.pause, {"number": _NUMBERS, "milliseconds": _within(300, 3000, 12_000)}),
    "a_static_client_restarts": (
        World.restart,
        {"number": _NUMBERS, "milliseconds": _within(1000, 6000, 25_000), "rack": st.sampled_from(RACKS)},
    ),
    "another_application_starts": (World.change_application, {"milliseconds": _within(3000, 10_000, 90_000)}),
    "the_other_application_ends": (World.end_application, {}),
    "a_topic_is_created": (World.create_topic, {"milliseconds": _within(2000, 30_000)}),
    "a_client_keeps_what_is_revoked": (World.keep_revoked, {"number": _NUMBERS, "milliseconds": _within(500, 3000)}),
    "the_group_is_converted": (World.convert, {}),
    "the_group_is_classic_again": (World.revert, {}),
    # agents
    "answers_are_lost": (
        World.lose_answers,
        {"name": st.sampled_from(sorted(ERRORS)), "times": _within(1, 2), "before": st.booleans()},
    ),
    "an_agent_starts": (World.start_agent, {"number": _AGENTS}),
    "an_agent_ends": (World.stop_agent, {"number": _AGENTS}),
    "an_agent_ends_at": (World.stop_agent, {"number": _AGENTS, "step": _STEPS}),
    "an_agent_is_killed": (World.kill_agent, {"number": _AGENTS}),
    "an_agent_is_killed_at": (World.kill_agent, {"number": _AGENTS, "step": _STEPS}),
    "an_agent_stops": (
        World.freeze_agent,
        {"number": _AGENTS, "milliseconds": _within(300, 900, 3000, 12_000), "whole": st.booleans()},
    ),
    "another_is_elected": (World.elect_other, {}),
    # the cluster
    "metadata_is_stale": (World.show_stale, {"polls": _within(1, 5, 30)}),
    "the_coordinator_moves": (
        World.move_coordinator,
        {"milliseconds": _within(50, 1000, 4000), "outdated": st.booleans()},
    ),
    "the_coordinator_moves_at": (
        World.move_coordinator_at,
        {"number": _AGENTS, "step": _STEPS, "milliseconds": _within(50, 1000, 4000)},
    ),
    "a_broker_bounces": (World.bounce_broker, {"number": _NUMBERS, "milliseconds": _within(700, 5000, 20_000)}),
    "a_broker_changes_its_rack": (World.move_rack, {"number": _NUMBERS, "rack": st.sampled_from(RACKS)}),
    "brokers_change_places": (World.restless_racks, {"times": st.integers(2, 8), "milliseconds": _within(2000, 5000)}),
    "a_replica_moves": (World.move_replica, {"number": st.integers(0, 23), "broker": _NUMBERS}),
    "partitions_come": (World.add_partitions, {"count": st.integers(1, 3)}),
    "looks_fail": (World.hide_cluster, {"milliseconds": _within(2000, 15_000)}),
}
"""Events of a story that are one event of the world: its method, and what Hypothesis draws for it.

Hypothesis orders rules by name: with other names a seed is another story.
"""


class Story(RuleBasedStateMachine):
    """Any event may happen at any time; in the end the world settles."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(Setting())

    @initialize(setting=_SETTINGS, clients=st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4))
    def begin(self, setting: Setting, clients: list[str]) -> None:
        """Start an agent and the group's first clients."""
        self.world = World(setting)
        self.world.start_agent(0)
        if setting.agent_first:
            self.world.wait(_FIRST_MS)
        for number, kind in enumerate(clients):
            self._join(kind, RACKS[number % len(RACKS)])

    def _join(self, kind: str, rack: str) -> None:
        world = self.world
        if world.setting.protocol == "roundrobin" and kind == "kafka-python" and not world.setting.forbidden:
            kind = "java"  # the agent does not join those, and logs why
        if sum(one.host.alive for one in world.consumers) < _MAX_CLIENTS:
            world.join(kind, rack)

    @rule()
    def it_settles(self) -> None:
        """Wait until the world settles."""
        self.world.settle()

    @rule(hours=_within(1, 24))
    def hours_pass(self, hours: int) -> None:
        """Let hours pass without events."""
        self.world.sleep(hours * 3_600_000)

    @rule(kind=st.sampled_from(sorted(KINDS)), rack=st.sampled_from(RACKS))
    def a_client_joins(self, kind: str, rack: str) -> None:
        """A client joins, as in a deployment or with more load."""
        self._join(kind, rack)

    @rule(of=_REFUSALS, milliseconds=_within(300, 3000), times=_within(1, 2, 1000))
    def requests_are_refused(self, of: tuple[str, Error], milliseconds: int, times: int) -> None:
        """Requests are refused with any error that brokers use for them."""
        self.world.refuse(*of, milliseconds, times)

    @rule(of=_REFUSALS)
    def a_request_is_refused_in_peace(self, of: tuple[str, Error]) -> None:
        """One request is refused while nothing else happens."""
        self.world.settle()
        self.world.refuse(*of, _PEACE_MS, 1)
        self.world.settle()

    @rule(number=_AGENTS, milliseconds=_within(8000, 12_000))
    def an_agent_ends_without_a_coordinator(self, number: int, milliseconds: int) -> None:
        """An agent gets SIGTERM while its thread waits for an answer that does not come."""
        self.world.settle()
        self.world.move_coordinator(milliseconds, outdated=False)
        self.world.wait(1000)
        self.world.stop_agent(number)

    @rule(number=_NUMBERS, milliseconds=_within(400, 3000), rack=st.sampled_from(RACKS))
    def racks_change_while_a_client_is_away(self, number: int, milliseconds: int, rack: str) -> None:
        """A client dies or restarts, and a moment later brokers are in other racks: its session is not over."""
        self.world.settle()
        self.world.restart(number, 25_000, rack)
        self.world.crash(number + 1)
        self.world.wait(milliseconds)
        self.world.restless_racks(3, 2500)

    @rule(number=_NUMBERS)
    def a_new_coordinator_is_behind(self, number: int) -> None:
        """The topic grows and a client leaves; the next coordinator first describes the generation before that."""
        self.world.settle()
        self.world.add_partitions(1)
        self.world.leave(number)
        self.world.settle()
        self.world.move_coordinator(50, outdated=True)

    @rule(number=_NUMBERS, milliseconds=_within(300, 5000, 60_000), partitions=st.integers(0, 8), peace=st.booleans())
    def a_topic_is_deleted(self, number: int, milliseconds: int, partitions: int, *, peace: bool) -> None:
        """A topic is deleted, in peace or not, and maybe created again with other partitions."""
        if peace:
            self.world.settle()
        self.world.delete_topic(number, milliseconds, partitions)
        if peace:
            self.world.wait(milliseconds)

    def teardown(self) -> None:
        """The world settles and stays settled for an hour."""
        try:
            self.world.sleep(3_600_000)
        finally:
            self.world.close()


def _rule(name: str, event: Callable[..., None], drawn: dict[str, Any]) -> Any:
    def happens(story: Story, **values: Any) -> None:
        event(story.world, **values)

    happens.__name__ = happens.__qualname__ = name
    made: Callable[[Any], Any] = rule(**drawn)
    return made(happens)


for _name, (_event, _drawn) in _EVENTS.items():
    setattr(Story, _name, _rule(_name, _event, _drawn))


def play_story(number: int, *, stories: int = 1, steps: int = STEPS_OF_A_STORY, shorten: bool = True) -> None:
    """Run the stories of one seed, after the simplest one; the shortest that fails is printed if it is shortened."""
    phases = (Phase.generate, Phase.shrink) if shorten else (Phase.generate,)
    options = settings(
        max_examples=stories + 1,
        stateful_step_count=steps,
        database=None,
        deadline=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,  # in continuous integration it would be on, and append text of the library
    )

    @seed(number)
    class OneStory(Story):
        """The stories of this seed."""

    run_state_machine_as_test(OneStory, settings=options)
