"""Stories: random sequences of events in a simulated world; Hypothesis generates them and shrinks those that fail.

A story is deterministic: the same steps give the same result.
"""

from __future__ import annotations

from typing import Final

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
    max_size=st.sampled_from((0, 0, 0, 3)),
    patterns=st.booleans(),
    plan_ms=st.sampled_from((0, 0, 0, 80, 1500)),
    look_ms=st.sampled_from((0, 0, 0, 300, 2500)),
    clients=st.sampled_from(("any", "any", "any", "any", "any", "any", "kafka-go", "kafkajs")),
    agent_first=st.booleans(),
    clean=st.booleans(),
)


def _within(*milliseconds: int) -> st.SearchStrategy[int]:
    return st.sampled_from(milliseconds)


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

    # time

    @rule(milliseconds=_within(5, 50, 150, 400, 1000, 2500, 6000))
    def some_time_passes(self, milliseconds: int) -> None:
        """Wait for a short time."""
        self.world.wait(milliseconds)

    @rule()
    def it_settles(self) -> None:
        """Wait until the world settles."""
        self.world.settle()

    @rule(hours=_within(1, 24))
    def hours_pass(self, hours: int) -> None:
        """Let hours pass without events."""
        self.world.sleep(hours * 3_600_000)

    # clients

    @rule(kind=st.sampled_from(sorted(KINDS)), rack=st.sampled_from(RACKS))
    def a_client_joins(self, kind: str, rack: str) -> None:
        """A client joins, as in a deployment or with more load."""
        self._join(kind, rack)

    @rule(number=_NUMBERS)
    def a_client_leaves(self, number: int) -> None:
        """A client leaves, as in a deployment or with less load."""
        self.world.leave(number)

    @rule(number=_NUMBERS)
    def a_client_crashes(self, number: int) -> None:
        """A client is killed."""
        self.world.crash(number)

    @rule(number=_NUMBERS, milliseconds=_within(300, 3000, 12_000))
    def a_client_stops(self, number: int, milliseconds: int) -> None:
        """A client pauses, as in a long garbage collection."""
        self.world.pause(number, milliseconds)

    @rule(milliseconds=_within(3000, 10_000, 90_000))
    def another_application_starts(self, milliseconds: int) -> None:
        """All members of the group are stopped, and started with another assignor."""
        self.world.change_application(milliseconds)

    @rule()
    def the_other_application_ends(self) -> None:
        """The other application ends, and the first one may start again."""
        self.world.end_application()

    @rule(milliseconds=_within(2000, 30_000))
    def a_topic_is_created(self, milliseconds: int) -> None:
        """A topic is created; each client finds it at its own metadata refresh."""
        self.world.create_topic(milliseconds)

    @rule(number=_NUMBERS, milliseconds=_within(500, 3000))
    def a_client_keeps_what_is_revoked(self, number: int, milliseconds: int) -> None:
        """A client's revocation callback fails."""
        self.world.keep_revoked(number, milliseconds)

    @rule()
    def the_group_is_converted(self) -> None:
        """A member of the KIP-848 protocol converts the group."""
        self.world.convert()

    @rule()
    def the_group_is_classic_again(self) -> None:
        """All members of the KIP-848 protocol have left."""
        self.world.revert()

    # agents

    @rule(of=_REFUSALS, milliseconds=_within(300, 3000), times=_within(1, 2, 1000))
    def requests_are_refused(self, of: tuple[str, Error], milliseconds: int, times: int) -> None:
        """Requests are refused with any error that brokers use for them."""
        name, error = of
        self.world.refuse(name, error, milliseconds, times)

    @rule(of=_REFUSALS)
    def a_request_is_refused_in_peace(self, of: tuple[str, Error]) -> None:
        """One request is refused while nothing else happens."""
        name, error = of
        self.world.settle()
        self.world.refuse(name, error, _PEACE_MS, 1)
        self.world.settle()

    @rule(name=st.sampled_from(sorted(ERRORS)), times=_within(1, 2), before=st.booleans())
    def answers_are_lost(self, name: str, times: int, *, before: bool) -> None:
        """The connection breaks instead of an answer."""
        self.world.lose_answers(name, times, before=before)

    @rule(number=_AGENTS)
    def an_agent_starts(self, number: int) -> None:
        """An agent starts, for the first time or again."""
        self.world.start_agent(number)

    @rule(number=_AGENTS)
    def an_agent_ends(self, number: int) -> None:
        """An agent gets SIGTERM."""
        self.world.stop_agent(number)

    @rule(number=_AGENTS, step=st.sampled_from(STEPS))
    def an_agent_ends_at(self, number: int, step: str) -> None:
        """An agent gets SIGTERM at its next such step."""
        self.world.stop_agent(number, step)

    @rule(number=_AGENTS, milliseconds=_within(8000, 12_000))
    def an_agent_ends_without_a_coordinator(self, number: int, milliseconds: int) -> None:
        """An agent gets SIGTERM while its thread waits for an answer that does not come."""
        self.world.settle()
        self.world.move_coordinator(milliseconds, outdated=False)
        self.world.wait(1000)
        self.world.stop_agent(number)

    @rule(number=_AGENTS)
    def an_agent_is_killed(self, number: int) -> None:
        """An agent's process gets SIGKILL."""
        self.world.kill_agent(number)

    @rule(number=_AGENTS, step=st.sampled_from(STEPS))
    def an_agent_is_killed_at(self, number: int, step: str) -> None:
        """An agent's process gets SIGKILL at its next such step."""
        self.world.kill_agent(number, step)

    @rule(number=_AGENTS, milliseconds=_within(300, 900, 3000, 12_000), whole=st.booleans())
    def an_agent_stops(self, number: int, milliseconds: int, *, whole: bool) -> None:
        """An agent gets SIGSTOP and later SIGCONT."""
        self.world.freeze_agent(number, milliseconds, whole=whole)

    @rule()
    def another_is_elected(self) -> None:
        """The agents elect another of them."""
        self.world.elect_other()

    # the cluster

    @rule(looks=_within(1, 5, 30))
    def metadata_is_stale(self, looks: int) -> None:
        """A broker that lags behind reports fewer partitions."""
        self.world.show_stale(looks)

    @rule(milliseconds=_within(50, 1000, 4000), outdated=st.booleans())
    def the_coordinator_moves(self, milliseconds: int, *, outdated: bool) -> None:
        """The coordinator moves, as in a restart of a broker."""
        self.world.move_coordinator(milliseconds, outdated=outdated)

    @rule(number=_AGENTS, step=st.sampled_from(STEPS), milliseconds=_within(50, 1000, 4000))
    def the_coordinator_moves_at(self, number: int, step: str, milliseconds: int) -> None:
        """The coordinator moves after an agent's next such step; it may not know the answer that the agent got."""
        self.world.move_coordinator_at(number, step, milliseconds)

    @rule(number=_NUMBERS)
    def a_new_coordinator_is_behind(self, number: int) -> None:
        """The topic grows and a client leaves; the next coordinator first describes the generation before that."""
        self.world.settle()
        self.world.add_partitions(1)
        self.world.leave(number)
        self.world.settle()
        self.world.move_coordinator(50, outdated=True)

    @rule(number=_NUMBERS, milliseconds=_within(700, 5000, 20_000))
    def a_broker_bounces(self, number: int, milliseconds: int) -> None:
        """A broker is down for a while."""
        self.world.bounce_broker(number, milliseconds)

    @rule(number=_NUMBERS, rack=st.sampled_from(RACKS))
    def a_broker_changes_its_rack(self, number: int, rack: str) -> None:
        """A broker moves to another rack."""
        self.world.move_rack(number, rack)

    @rule(times=st.integers(2, 8), milliseconds=_within(2000, 5000))
    def brokers_change_places(self, times: int, milliseconds: int) -> None:
        """Brokers swap racks again and again."""
        self.world.restless_racks(times, milliseconds)

    @rule(number=st.integers(0, 23), broker=_NUMBERS)
    def a_replica_moves(self, number: int, broker: int) -> None:
        """A partition is reassigned to another broker."""
        self.world.move_replica(number, broker)

    @rule(count=st.integers(1, 3))
    def partitions_come(self, count: int) -> None:
        """The topic gets more partitions."""
        self.world.add_partitions(count)

    @rule(milliseconds=_within(2000, 15_000))
    def looks_fail(self, milliseconds: int) -> None:
        """Metadata requests fail for a while."""
        self.world.hide_cluster(milliseconds)

    def teardown(self) -> None:
        """The world settles and stays settled for an hour."""
        try:
            self.world.sleep(3_600_000)
        finally:
            self.world.close()


def tell(number: int, *, stories: int = 1, steps: int = STEPS_OF_A_STORY, shorten: bool = True) -> None:
    """Run the stories of one seed.

    Args:
        number: The seed.
        stories: How many, in addition to the simplest one, which always comes first.
        steps: The number of steps of each.
        shorten: Whether a failing story is shrunk, which takes a while.

    Raises:
        ViolationError: A story failed; the shortest failing one is printed.
    """
    phases = (Phase.generate, Phase.shrink) if shorten else (Phase.generate,)
    told = settings(
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
    class Told(Story):
        """The stories of this seed."""

    run_state_machine_as_test(Told, settings=told)
