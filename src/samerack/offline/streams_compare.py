"""Every strategy of KIP-925 on the same applications: what each reads across racks, moves, and how standbys spread.

`samerack assign --compare` shows the tables, and `docs/strategies.md` those of an application that is made by counting.
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
from samerack.offline.streams_json import Application, StreamsQuestion

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
        QuestionError: a client is named that is not there, or an id is not valid.
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
