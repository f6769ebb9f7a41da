"""Every strategy of KIP-925 on the same applications: what each reads across racks, moves, and how standbys spread.

`samerack streams compare --page` prints `docs/strategies.md`, and a test holds the file to it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from samerack.assignors.streams.active import Costs
from samerack.assignors.streams.assignment import TaskType
from samerack.assignors.streams.configs import Strategy
from samerack.assignors.streams.default_standby import default_standby_task_assignment
from samerack.assignors.streams.evaluate import bill, spread
from samerack.assignors.streams.optimize import optimize_rack_aware_active_tasks, optimize_rack_aware_standby_tasks
from samerack.assignors.streams.rules import RackAwareOptimizationParams
from samerack.assignors.streams.version4 import (
    PER_PARTITION,
    REJECTED,
    VERSION_4_OPTION_II,
    place_standbys,
    prefer_reliability,
    swap_greedily,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from samerack.assignors.streams.assignment import KafkaStreamsAssignment
    from samerack.assignors.streams.model import ApplicationState, ProcessId
    from samerack.offline.streams_instances import Instance

    Plan = dict[ProcessId, KafkaStreamsAssignment]

COSTS: Final = Costs(traffic=10, non_overlap=1)
"""KIP-925, 4.B.III: the prices by which all strategies are judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveRow:
    """What a strategy makes of the actives of an application.

    Attributes:
        cross_rack: source partitions read across racks.
        cost: of both, at `COSTS`.
        crowding: most tasks of one subtopology on a thread, less the fewest.
    """

    instance: str
    strategy: str
    cross_rack: int
    moved: int
    cost: int
    crowding: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyRow:
    """What a strategy makes of the standbys of an application.

    Attributes:
        cross_rack: changelog partitions read across racks.
        cost: of both, at `COSTS`.
        beside_active_rack: standbys in the rack of their active.
        single_rack: tasks that are in one rack only.
    """

    instance: str
    strategy: str
    cross_rack: int
    moved: int
    cost: int
    beside_active_rack: int
    single_rack: int


def _active(strategy: Strategy, costs: Costs) -> Callable[[ApplicationState, Plan], Plan]:
    def run(state: ApplicationState, plan: Plan) -> Plan:
        configs = replace(
            state.assignment_configs,
            rack_aware_assignment_strategy=strategy.value,
            rack_aware_traffic_cost=costs.traffic,
            rack_aware_non_overlap_cost=costs.non_overlap,
        )
        params = RackAwareOptimizationParams(application_state=replace(state, assignment_configs=configs))
        return optimize_rack_aware_active_tasks(params, plan).assignments

    return run


def _exact(*, apart: bool) -> Callable[[ApplicationState, Plan], Plan]:
    def run(state: ApplicationState, plan: Plan) -> Plan:
        params = RackAwareOptimizationParams(application_state=state)
        return optimize_rack_aware_standby_tasks(params, plan, keep_racks_apart=apart).assignments

    return run


ACTIVES: Final[dict[str, Callable[[ApplicationState, Plan], Plan]]] = {
    "none": _active(Strategy.NONE, COSTS),
    "min_traffic": _active(Strategy.MIN_TRAFFIC, COSTS),
    "balance_subtopology": _active(Strategy.BALANCE_SUBTOPOLOGY, COSTS),
    "min_traffic, 1 to 10": _active(Strategy.MIN_TRAFFIC, Costs(traffic=1, non_overlap=10)),
    "version 4": _active(Strategy.MIN_TRAFFIC, PER_PARTITION),
    "version 4, balanced": _active(Strategy.BALANCE_SUBTOPOLOGY, PER_PARTITION),
}

STANDBYS: Final[dict[str, Callable[[ApplicationState, Plan], Plan]]] = {
    "default": lambda _, plan: plan,
    "swaps (4.C.I)": lambda state, plan: place_standbys(state, plan, lambda found: swap_greedily(found, COSTS)),
    "min_traffic": _exact(apart=False),
    "min_traffic, racks apart": _exact(apart=True),
    "version 4, option I": lambda state, plan: place_standbys(
        state, plan, lambda found: swap_greedily(found, PER_PARTITION)
    ),
    "version 4, option II": lambda state, plan: place_standbys(
        state, plan, lambda found: prefer_reliability(found, VERSION_4_OPTION_II)
    ),
    "reliability first (8.A)": lambda state, plan: place_standbys(
        state, plan, lambda found: prefer_reliability(found, REJECTED)
    ),
}


def compare_actives(instances: Iterable[Instance]) -> list[ActiveRow]:
    """Return a row for every application and strategy."""
    return [_active_row(instance, name, run) for instance in instances for name, run in ACTIVES.items()]


def _active_row(instance: Instance, name: str, run: Callable[[ApplicationState, Plan], Plan]) -> ActiveRow:
    state, before = instance.state, instance.plan
    after = run(state, before)
    found = bill(state, before, after, TaskType.ACTIVE, COSTS)
    return ActiveRow(
        instance=instance.name,
        strategy=name,
        cross_rack=found.cross_rack,
        moved=found.moved,
        cost=found.cost,
        crowding=_crowding(state, after),
    )


def _crowding(state: ApplicationState, plan: Plan) -> float:
    subtopologies = {task.subtopology for task in state.all_tasks}
    worst = 0.0
    counts = {
        process: Counter(task.subtopology for task in assignment.of_type(TaskType.ACTIVE))
        for process, assignment in plan.items()
    }
    for subtopology in subtopologies:
        loads = [count[subtopology] / state.states[process].num_processing_threads for process, count in counts.items()]
        worst = max(worst, max(loads) - min(loads))
    return round(worst, 2)


def compare_standbys(instances: Iterable[Instance]) -> list[StandbyRow]:
    """Return a row for every application and strategy: actives optimised, standbys dealt by load or tags before."""
    rows = []
    for instance in instances:
        actives = ACTIVES["min_traffic"](instance.state, instance.plan)
        before = default_standby_task_assignment(instance.state, actives).assignments
        rows += [_standby_row(instance, before, name, run) for name, run in STANDBYS.items()]
    return rows


def _standby_row(
    instance: Instance, before: Plan, name: str, run: Callable[[ApplicationState, Plan], Plan]
) -> StandbyRow:
    state = instance.state
    after = run(state, before)
    found, spread_out = bill(state, before, after, TaskType.STANDBY, COSTS), spread(state, after)
    return StandbyRow(
        instance=instance.name,
        strategy=name,
        cross_rack=found.cross_rack,
        moved=found.moved,
        cost=found.cost,
        beside_active_rack=spread_out.beside_active_rack,
        single_rack=spread_out.single_rack,
    )


ACTIVE_HEADINGS: Final = ("application", "strategy", "across racks", "moved", "cost", "crowding")
STANDBY_HEADINGS: Final = (
    "application", "strategy", "across racks", "moved", "cost", "in their active's rack", "tasks in one rack only"
)  # fmt: skip


def as_markdown(headings: Iterable[str], rows: Iterable[ActiveRow | StandbyRow]) -> str:
    """Return a table; the application is named in its first row only."""
    lines = ["| " + " | ".join(headings) + " |", "|---|---|" + "---:|" * (len(list(headings)) - 2)]
    last = None
    for row in rows:
        values: dict[str, Any] = asdict(row)
        name = values.pop("instance")
        cells = [
            "" if name == last else name,
            *(f"{value:g}" if isinstance(value, float) else str(value) for value in values.values()),
        ]
        lines.append("| " + " | ".join(cells) + " |")
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


def page(instances: list[Instance]) -> str:
    """Return the page in Markdown."""
    shown = [instance for instance in instances if instance.name == _SHOWN]
    actives = as_markdown(ACTIVE_HEADINGS, (row for row in compare_actives(shown) if _is_shown(row.strategy)))
    standbys = as_markdown(STANDBY_HEADINGS, (row for row in compare_standbys(shown) if _is_shown(row.strategy)))
    return f"{_HEAD}{actives}{_STANDBYS}{standbys}\n"


def _is_shown(strategy: str) -> bool:
    """Whether KIP-925 as it was accepted has the strategy, or samerack."""
    return not strategy.startswith(("version 4", "reliability first"))
