"""The rank of a plan of `assignors.streams.sticky`: which of two plans is better (see the order there)."""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING, TypeAlias

from samerack.assignors.streams.assignment import Assignments, TaskType
from samerack.assignors.streams.configs import Strategy
from samerack.assignors.streams.evaluate import remote_partitions
from samerack.assignors.streams.rack_steps import STATELESS

if TYPE_CHECKING:
    from samerack.assignors.streams.active import Costs
    from samerack.assignors.streams.application import ApplicationState, ProcessId, TaskId
    from samerack.assignors.streams.assignment import KafkaStreamsAssignment
    from samerack.assignors.streams.rack_steps import Gates

Rank: TypeAlias = tuple[int, int, int, int, int]


class Ranking:
    """Ranks plans of one application; what a task costs in a rack is computed once."""

    def __init__(self, state: ApplicationState, before: Assignments, gates: Gates, costs: Costs) -> None:
        """Rank by moves from the plan `before`, the racks that the gates enable, and these costs of stateful tasks."""
        self._state = state
        self._before = before
        self._gates = gates
        self._costs = costs
        self._common = lcm(*(client.num_processing_threads for client in state.states.values()))
        self._prices: dict[tuple[str | None, TaskType], _Prices] = {}

    def rank(self, plan: Assignments) -> Rank:
        """Return the rank of a plan; smaller is better."""
        actives = everything = price = reads = 0
        for process, assignment in plan.items():
            weight = self._common // self._state.states[process].num_processing_threads
            actives += weight * sum(role is TaskType.ACTIVE for role in assignment.tasks.values()) ** 2
            everything += weight * len(assignment.tasks) ** 2
            cost, across = self._price(process, assignment)
            price, reads = price + cost, reads + across
        return actives, -_tags_of_copies(self._state, plan), everything, price, reads

    def _price(self, process: ProcessId, assignment: KafkaStreamsAssignment) -> tuple[int, int]:
        """Return what the tasks of a client cost, and the weight of what they read across racks."""
        had = self._before[process].tasks
        prices = {role: self._prices_at(process, role) for role in TaskType}
        price = reads = 0
        for task, role in assignment.tasks.items():
            stays, moves, across = prices[role][task]
            price += stays if had.get(task) is role else moves
            reads += across
        return price, reads

    def _prices_at(self, process: ProcessId, role: TaskType) -> _Prices:
        key = self._state.states[process].rack_id, role
        if key not in self._prices:
            gate = self._gates.active if role is TaskType.ACTIVE else self._gates.standby
            self._prices[key] = _Prices(self._state, process, role, self._costs, with_racks=isinstance(gate, Strategy))
        return self._prices[key]


class _Prices(dict["TaskId", tuple[int, int, int]]):
    """The price of each task in one role on the clients of one rack: if it was there in this role, and if it moves.

    The third figure is the weight of what it reads across racks.
    """

    def __init__(
        self, state: ApplicationState, process: ProcessId, role: TaskType, costs: Costs, *, with_racks: bool
    ) -> None:
        super().__init__()
        self._state = state
        self._process = process
        self._role = role
        self._costs = costs
        self._with_racks = with_racks

    def __missing__(self, task: TaskId) -> tuple[int, int, int]:
        costs = self._costs if self._state.all_tasks[task].is_stateful else STATELESS
        remote = remote_partitions(self._state, self._process, task, self._role) if self._with_racks else ()
        across = sum(partition.weight for partition in remote)
        stays = costs.traffic * across
        self[task] = stays, stays + costs.non_overlap, across
        return self[task]


def _tags_of_copies(state: ApplicationState, plan: Assignments) -> int:
    """Return the number of different tags on the clients of a task, summed over tasks with a changelog."""
    keys = state.assignment_configs.rack_aware_assignment_tags
    if not keys:
        return 0
    tags = {
        process: [tag for tag in client.client_tags.items() if tag[0] in keys]
        for process, client in state.states.items()
    }
    changelogged = {task for task, info in state.all_tasks.items() if info.is_changelogged}
    found: dict[TaskId, set[tuple[str, str]]] = {}
    for process, assignment in plan.items():
        for task in assignment.tasks.keys() & changelogged:
            found.setdefault(task, set()).update(tags[process])
    return sum(map(len, found.values()))
