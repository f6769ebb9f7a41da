"""Every strategy of KIP-925 on the same applications: what each reads across racks, moves, and how standbys spread.

`samerack streams compare --page` prints `docs/strategies.md`, and a test holds the file to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias

from samerack.assignors.streams.active import Costs
from samerack.assignors.streams.application import ApplicationState, ProcessId, Strategy
from samerack.assignors.streams.assignment import KafkaStreamsAssignment, TaskType
from samerack.assignors.streams.default_standby import default_standby_task_assignment
from samerack.assignors.streams.evaluate import bill, spread
from samerack.assignors.streams.optimize import (
    RackAwareOptimizationParams,
    optimize_rack_aware_active_tasks,
    optimize_rack_aware_standby_tasks,
)
from samerack.assignors.streams.version4 import (
    PER_PARTITION,
    REJECTED,
    VERSION_4_OPTION_II,
    place_standbys,
    prefer_reliability,
    swap_greedily,
)
from samerack.offline.streams_json import Application, Client, Partition, StreamsQuestion, Task

Plan: TypeAlias = dict[ProcessId, KafkaStreamsAssignment]
Row: TypeAlias = dict[str, Any]
"""What a strategy makes of an application, as JSON values.

`cross_rack` counts partitions that are read across racks, of sources or of changelogs; `cost` is that of both prices.
"""

COSTS: Final = Costs(traffic=10, non_overlap=1)
"""KIP-925, 4.B.III: the prices by which all strategies are judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedApplication:
    """An application and where its actives are.

    Attributes:
        name: what is special about it.
        plan: its actives.
    """

    name: str
    state: ApplicationState
    plan: Plan


def instance_of(name: str, question: StreamsQuestion) -> ComparedApplication:
    """Return the application of a question.

    Raises:
        QuestionError: a client is named that is not there, or an id is none.
        AssignmentError: a value does not fit.
    """
    application = Application(question)
    return ComparedApplication(name=name, state=application.state, plan=application.assignments())


# -- the strategies


def _move_actives(strategy: Strategy, costs: Costs, state: ApplicationState, plan: Plan) -> Plan:
    configs = replace(
        state.assignment_configs,
        rack_aware_assignment_strategy=strategy.value,
        rack_aware_traffic_cost=costs.traffic,
        rack_aware_non_overlap_cost=costs.non_overlap,
    )
    params = RackAwareOptimizationParams(application_state=replace(state, assignment_configs=configs))
    return optimize_rack_aware_active_tasks(params, plan).assignments


def _move_standbys(state: ApplicationState, plan: Plan, *, keep_racks_apart: bool) -> Plan:
    params = RackAwareOptimizationParams(application_state=state)
    return optimize_rack_aware_standby_tasks(params, plan, keep_racks_apart=keep_racks_apart).assignments


ACTIVES: Final[dict[str, Callable[[ApplicationState, Plan], Plan]]] = {
    "none": partial(_move_actives, Strategy.NONE, COSTS),
    "min_traffic": partial(_move_actives, Strategy.MIN_TRAFFIC, COSTS),
    "balance_subtopology": partial(_move_actives, Strategy.BALANCE_SUBTOPOLOGY, COSTS),
    "min_traffic, 1 to 10": partial(_move_actives, Strategy.MIN_TRAFFIC, Costs(traffic=1, non_overlap=10)),
    "version 4": partial(_move_actives, Strategy.MIN_TRAFFIC, PER_PARTITION),
    "version 4, balanced": partial(_move_actives, Strategy.BALANCE_SUBTOPOLOGY, PER_PARTITION),
}

STANDBYS: Final[dict[str, Callable[[ApplicationState, Plan], Plan]]] = {
    "default": lambda _, plan: plan,
    "swaps (4.C.I)": partial(place_standbys, place=partial(swap_greedily, costs=COSTS)),
    "min_traffic": partial(_move_standbys, keep_racks_apart=False),
    "min_traffic, racks apart": partial(_move_standbys, keep_racks_apart=True),
    "version 4, option I": partial(place_standbys, place=partial(swap_greedily, costs=PER_PARTITION)),
    "version 4, option II": partial(place_standbys, place=partial(prefer_reliability, reliability=VERSION_4_OPTION_II)),
    "reliability first (8.A)": partial(place_standbys, place=partial(prefer_reliability, reliability=REJECTED)),
}


# -- a row for every application and strategy


def compare_actives(instances: Iterable[ComparedApplication]) -> list[Row]:
    """Return what each strategy makes of actives.

    `crowding` is the most tasks of one subtopology on a thread, less the fewest.
    """
    rows = []
    for instance in instances:
        for strategy, run in ACTIVES.items():
            after = run(instance.state, instance.plan)
            row = _row(instance, strategy, TaskType.ACTIVE, instance.plan, after)
            rows.append(row | {"crowding": _crowding(instance.state, after)})
    return rows


def compare_standbys(instances: Iterable[ComparedApplication]) -> list[Row]:
    """Return what each strategy makes of standbys: actives optimised, standbys dealt by load or tags before.

    `beside_active_rack` counts standbys in the rack of their active, `single_rack` tasks that are in one rack only.
    """
    rows = []
    for instance in instances:
        actives = ACTIVES["min_traffic"](instance.state, instance.plan)
        before = default_standby_task_assignment(instance.state, actives).assignments
        for strategy, run in STANDBYS.items():
            after = run(instance.state, before)
            row, apart = _row(instance, strategy, TaskType.STANDBY, before, after), spread(instance.state, after)
            rows.append(row | {"beside_active_rack": apart.beside_active_rack, "single_rack": apart.single_rack})
    return rows


def _row(instance: ComparedApplication, strategy: str, kind: TaskType, before: Plan, after: Plan) -> Row:
    found = bill(instance.state, before, after, kind, COSTS)
    return {
        "instance": instance.name,
        "strategy": strategy,
        "cross_rack": found.cross_rack,
        "moved": found.moved,
        "cost": found.cost,
    }


def _crowding(state: ApplicationState, plan: Plan) -> float:
    counts = {
        process: Counter(task.subtopology for task in assignment.of_type(TaskType.ACTIVE))
        for process, assignment in plan.items()
    }
    worst = 0.0
    for subtopology in {task.subtopology for task in state.all_tasks}:
        loads = [count[subtopology] / state.states[process].num_processing_threads for process, count in counts.items()]
        worst = max(worst, max(loads) - min(loads))
    return round(worst, 2)


ACTIVE_HEADINGS: Final = ("application", "strategy", "across racks", "moved", "cost", "crowding")
STANDBY_HEADINGS: Final = (
    "application", "strategy", "across racks", "moved", "cost", "in their active's rack", "tasks in one rack only"
)  # fmt: skip


def as_markdown(headings: Sequence[str], rows: Iterable[Row]) -> str:
    """Return a table; the application is named in its first row only."""
    lines = ["| " + " | ".join(headings) + " |", "|---|---|" + "---:|" * (len(headings) - 2)]
    last = None
    for row in rows:
        name, *values = row.values()
        cells = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
        lines.append(f"| {'' if name == last else name} | {' | '.join(cells)} |")
        last = name
    return "\n".join(lines)


_SHOWN: Final = "skewed replicas"
"""The application of the page; the command shows all."""

_HEAD: Final = """\
# Which strategy for Streams tasks?

<!-- made by `samerack streams compare --page`; change src/samerack/offline/streams_compare.py instead -->

| You want | Set |
|---|---|
| the least traffic across zones | `rack.aware.assignment.strategy=min_traffic` |
| no client that has most of a subtopology | `balance_subtopology`; it can cost some traffic |
| few moves | a higher `rack.aware.assignment.non_overlap_cost` |
| standbys in other zones than their actives | `rack.aware.assignment.tags`, which hold whatever traffic costs |

Without tags, saving traffic puts standbys beside their active, where the data is: a lost zone then loses both.

One of the seven applications of `samerack streams compare`; `samerack streams compare FILE` shows your own. *Cost* is
10 for each partition read across racks and 1 for each task that moves (KIP-925, 4.B.III). *Crowding* is how many tasks
of one subtopology the fullest thread has more than the emptiest. `min_traffic, 1 to 10` has StickyTaskAssignor's costs.

## Actives

"""

_STANDBYS: Final = """

## Standbys

`min_traffic` is the exact optimum of what KIP-925 (4.C.I) does by swapping pairs; `racks apart` is the same where no
task may be in fewer racks than before.

"""


def page(instances: list[ComparedApplication]) -> str:
    """Return the page in Markdown."""
    shown = [instance for instance in instances if instance.name == _SHOWN]
    actives = as_markdown(ACTIVE_HEADINGS, (row for row in compare_actives(shown) if _is_shown(row["strategy"])))
    standbys = as_markdown(STANDBY_HEADINGS, (row for row in compare_standbys(shown) if _is_shown(row["strategy"])))
    return f"{_HEAD}{actives}{_STANDBYS}{standbys}\n"


def _is_shown(strategy: str) -> bool:
    """Whether KIP-925 as it was accepted has the strategy, or samerack."""
    return not strategy.startswith(("version 4", "reliability first"))


# -- applications to compare them on

SUBTOPOLOGIES: Final = 3
"""The last one has no state."""
STRIDES: Final = {"source": 1, "other": 7, "changelog": 11}
"""How replicas of source, second source and changelog run around the racks: unlike each other, as in real clusters."""


def instances() -> list[ComparedApplication]:
    """Return applications that are made by counting, so that everybody gets the same ones."""
    return [
        _counted("even", "abc" * 2, "abc", replication=2, partitions=24),
        _counted("one replica", "abc" * 3, "abc", partitions=36),
        _counted("skewed clients", "aaaabc", "abc", partitions=30),
        _counted("skewed replicas", "abcd" * 2, "aaabcd", partitions=40),
        _counted("unequal threads", "abcabc", "abc", partitions=42, threads=(1, 2, 4)),
        _counted("two standbys", "abcde" * 2, "abcde", replication=2, partitions=50, standbys=2),
        _counted("large", "abcde" * 8, "abbcdee", replication=2, partitions=300),
    ]


def _counted(
    name: str,
    client_racks: str,
    replica_racks: str,
    *,
    partitions: int,
    replication: int = 1,
    standbys: int = 1,
    threads: Sequence[int] = (1,),
) -> ComparedApplication:
    """Return an application whose actives are dealt in turn to the threads."""

    def racks(topic: str, subtopology: int, partition: int) -> list[str]:
        first = partition * STRIDES[topic] + partition // len(replica_racks) + subtopology
        return sorted({replica_racks[(first + step) % len(replica_racks)] for step in range(replication)})

    def task(subtopology: int, partition: int) -> Task:
        """Return a task with one source, two in the second subtopology, and a changelog unless it is of the last."""
        stateful = subtopology < SUBTOPOLOGIES - 1
        topics = ["source", *(["other"] if subtopology == 1 else []), *(["changelog"] if stateful else [])]
        parts = [
            Partition(
                topic=f"{topic}-{subtopology}",
                partition=partition,
                source=topic != "changelog",
                changelog=topic == "changelog",
                racks=racks(topic, subtopology, partition),
            )
            for topic in topics
        ]
        return Task(subtopology=subtopology, partition=partition, stateful=stateful, partitions=parts)

    clients = [
        Client(id=str(number), rack=rack, threads=threads[number % len(threads)])
        for number, rack in enumerate(client_racks)
    ]
    tasks = [task(subtopology, partition) for subtopology in range(SUBTOPOLOGIES) for partition in range(partitions)]
    turns = [client.id for client in clients for _ in range(client.threads)]
    assignment: dict[str, list[str]] = {client.id: [] for client in clients}
    for number, one in enumerate(tasks):
        assignment[turns[number % len(turns)]].append(f"{one.subtopology}_{one.partition}")
    question = StreamsQuestion(
        clients=clients,
        tasks=tasks,
        assignment=assignment,
        num_standby_replicas=standbys,
        strategy=Strategy.MIN_TRAFFIC.value,
        traffic_cost=COSTS.traffic,
        non_overlap_cost=COSTS.non_overlap,
    )
    return instance_of(name, question)
