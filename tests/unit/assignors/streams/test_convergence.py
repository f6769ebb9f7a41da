"""KIP-441 and KIP-925 promise that probing rebalances end: random histories of an application, round by round."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samerack.assignors.streams.application import (
    LATEST_OFFSET,
    ApplicationState,
    AssignmentConfigs,
    KafkaStreamsState,
    ProcessId,
    TaskId,
    TaskInfo,
    TaskTopicPartition,
)
from samerack.assignors.streams.assignment import TaskType
from samerack.assignors.streams.evaluate import remote_partitions
from samerack.assignors.streams.ha import high_availability
from samerack.assignors.streams.plugin import (
    AssignmentError,
    Outcome,
    Request,
    TaskAssignment,
    validate_task_assignment,
)
from tests.unit.assignors.streams.applications import EVERYTHING, after, application, copies, process, tasks

RACKS = "abcd"


@dataclass
class Life:
    """A running application: clients join and leave, copies catch up, racks change.

    Attributes:
        dice: the random source.
        configs: settings.
        infos: the tasks.
        clients: the current clients, with the state that they have on disk.
        born: the number of clients created so far.
    """

    dice: Random
    configs: AssignmentConfigs
    infos: dict[TaskId, TaskInfo]
    clients: dict[ProcessId, KafkaStreamsState] = field(default_factory=dict)
    born: int = 0

    @property
    def stateful(self) -> list[TaskId]:
        """The stateful tasks."""
        return [task for task, info in self.infos.items() if info.is_stateful]

    def join(self) -> None:
        """A client without any state joins."""
        self.born += 1
        self.clients[process(self.born)] = KafkaStreamsState(
            process_id=process(self.born),
            num_processing_threads=self.dice.randint(1, 3),
            lags=dict.fromkeys(self.stateful, EVERYTHING),
            rack_id=self.dice.choice(RACKS),
            client_tags={"zone": self.dice.choice("xyz")},
        )

    def leave(self) -> None:
        """A client leaves, unless it is the last."""
        if len(self.clients) > 1:
            del self.clients[self.dice.choice(list(self.clients))]

    def lag(self) -> None:
        """A client falls behind, or loses its local state, for some tasks that it does not run."""
        client = self.clients[self.dice.choice(list(self.clients))]
        lags = {
            task: self.dice.choice([lag, EVERYTHING, 20_000, 5_000]) if lag != LATEST_OFFSET else lag
            for task, lag in (client.lags or {}).items()
        }
        self.clients[client.process_id] = replace(client, lags=lags)

    def change_rack(self) -> None:
        """A client returns in another rack with its local state."""
        client = self.clients[self.dice.choice(list(self.clients))]
        self.clients[client.process_id] = replace(client, rack_id=self.dice.choice(RACKS))

    def move_replicas(self) -> None:
        """The replicas of a task's partitions move."""
        task = self.dice.choice(list(self.infos))
        info = self.infos[task]
        moved = [part._replace(racks=frozenset(self.dice.sample(RACKS, 2))) for part in info.topic_partitions]
        self.infos[task] = info._replace(topic_partitions=tuple(moved))

    def state(self) -> ApplicationState:
        """The input of the assignor."""
        return ApplicationState(states=self.clients, all_tasks=self.infos, assignment_configs=self.configs)

    def live(self, answer: TaskAssignment) -> None:
        """Apply the assignment until the next rebalance; all copies have caught up by then."""
        self.clients = dict(after(self.state(), answer).states)


def begin(seed: int, **settings: Any) -> Life:
    """An application with some tasks and clients."""
    dice = Random(seed)  # noqa: S311 - cases, not secrets
    infos = {}
    for subtopology in range(dice.randint(1, 3)):
        stateful = subtopology != 2
        for partition in range(dice.randint(1, 7)):
            task = TaskId(subtopology=subtopology, partition=partition)
            parts = [
                TaskTopicPartition(
                    topic=f"{subtopology}-{logged}",
                    partition=partition,
                    is_source=not logged,
                    is_changelog=logged,
                    racks=frozenset(dice.sample(RACKS, 2)),
                )
                for logged in (False, True)[: 1 + stateful]
            ]
            infos[task] = TaskInfo(id=task, is_stateful=stateful, topic_partitions=tuple(parts))
    configs = AssignmentConfigs(
        num_standby_replicas=dice.randint(0, 2),
        max_warmup_replicas=dice.choice([1, 2, 5]),
        rack_aware_assignment_strategy=dice.choice(["none", "min_traffic", "balance_subtopology"]),
        rack_aware_assignment_tags=dice.choice([(), ("zone",)]),
    )
    life = Life(dice=dice, configs=replace(configs, **settings), infos=infos)
    for _ in range(dice.randint(1, 5)):
        life.join()
    return life


def settle(life: Life, *, compatible: bool = False) -> Outcome:
    """Rebalance until no probing rebalance is requested, and check the invariants of every answer.

    Each round lets at least one copy catch up that a later round needs, so there are at most as many rounds as copies.
    """
    max_rounds = 2 + len(life.stateful) * (1 + life.configs.num_standby_replicas)
    for _ in range(max_rounds):
        state = life.state()
        outcome = high_availability(Request(state=state, compatible=compatible))
        check(state, outcome)
        life.live(outcome.assignment)
        if not outcome.probing_rebalance:
            return outcome
    pytest.fail(f"still probing after {max_rounds} rounds")


def check(state: ApplicationState, outcome: Outcome) -> None:
    """The answer is valid, each task active once, warm-ups within the limit, a deadline set if and only if probing."""
    answer = outcome.assignment
    assert validate_task_assignment(state, answer) is AssignmentError.NONE
    assert copies(answer, TaskType.ACTIVE) == dict.fromkeys(state.all_tasks, 1)
    assert warmups(state, answer) <= state.assignment_configs.max_warmup_replicas
    asked = [assignment for assignment in answer.assignment if assignment.followup_rebalance_deadline is not None]
    assert len(asked) == outcome.probing_rebalance


def warmups(state: ApplicationState, answer: TaskAssignment) -> int:
    """The number of standbys beyond the configured ones."""
    wanted = min(state.assignment_configs.num_standby_replicas, len(state.states) - 1)
    return sum(count - wanted for count in copies(answer, TaskType.STANDBY).values())


EVENTS = ("join", "leave", "lag", "change_rack", "move_replicas")


@pytest.mark.parametrize("compatible", [False, True])
@given(seed=st.integers(0, 10**6), events=st.lists(st.sampled_from(EVENTS), max_size=8))
@settings(max_examples=min(40, settings().max_examples))
def test_kip_441_every_life_settles(seed: int, events: list[str], *, compatible: bool) -> None:
    """After each join, leave, lag, rack or replica change rebalances end without warm-ups in a plan that then stays."""
    life = begin(seed)
    settle(life, compatible=compatible)
    for event in events:
        getattr(life, event)()
        outcome = settle(life, compatible=compatible)
        assert warmups(life.state(), outcome.assignment) == 0
        assert high_availability(Request(state=life.state(), compatible=compatible)) == outcome


@given(seed=st.integers(0, 10**6), events=st.lists(st.sampled_from(EVENTS), min_size=1, max_size=8))
@settings(max_examples=min(25, settings().max_examples))
def test_kip_441_events_may_come_before_it_has_settled(seed: int, events: list[str]) -> None:
    """Events between probing rebalances break no invariant, and after the last event the plan settles."""
    life = begin(seed)
    for event in events:
        state = life.state()
        outcome = high_availability(Request(state=state))
        check(state, outcome)
        life.live(outcome.assignment)
        getattr(life, event)()
    settle(life)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=min(25, settings().max_examples))
def test_kip_925_7_racks_end_in_no_worse_a_plan(seed: int) -> None:
    """KIP-925, 7: settled with racks, actives read no more partitions across racks than settled without."""
    across = []
    for strategy in ("none", "min_traffic"):
        life = begin(seed, rack_aware_assignment_strategy=strategy)
        outcome = settle(life)
        across.append(
            sum(
                len(remote_partitions(life.state(), assignment.process_id, task, TaskType.ACTIVE))
                for assignment in outcome.assignment.assignment
                for task in assignment.of_type(TaskType.ACTIVE)
            )
        )
    assert across[1] <= across[0]


def test_kip_441_one_warm_up_at_a_time_takes_a_round_each() -> None:
    """A second client gets two of four tasks after two warm-ups, one per probing rebalance."""
    life = Life(dice=Random(0), configs=AssignmentConfigs(max_warmup_replicas=1), infos=tasks("0_0 0_1 0_2 0_3"))  # noqa: S311 - unused
    life.clients = dict(application(life.infos, {"active": "0_0 0_1 0_2 0_3"}, {}).states)
    rounds = []
    while True:
        outcome = high_availability(Request(state=life.state()))
        life.live(outcome.assignment)
        rounds.append([len(assignment.of_type(TaskType.ACTIVE)) for assignment in outcome.assignment.assignment])
        if not outcome.probing_rebalance:
            break
    assert rounds == [[4, 0], [3, 1], [2, 2]]
