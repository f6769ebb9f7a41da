"""`StickyTaskAssignor` of KIP-924, its predecessor, and the fall-back `FallbackPriorTaskAssignor`: tasks stay.

Loads are even, and racks decide where that is cheap.

By default an answer is stable, so that a second rebalance moves nothing: the previous assignment is kept if that of
Kafka's algorithm is not better; otherwise the algorithm is repeated on its own answer as long as that improves it.
Better means, in this order:

1. balance of actives: squares of actives by thread,
2. tags: different tags of `rack.aware.assignment.tags` on the clients of each task, the more the better (KIP-708),
3. balance: squares of all tasks by thread,
4. cost: traffic cost * partitions read across racks + non-overlap cost * tasks that are not where they were,
5. partitions read across racks, where racks count.

Kafka runs its algorithm once and ignores tags (`compatible`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import lcm
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeAlias

from samerack.assignors.streams.active import Costs
from samerack.assignors.streams.application import Strategy
from samerack.assignors.streams.assignment import Assignments, Plan, TaskType
from samerack.assignors.streams.board import Board
from samerack.assignors.streams.evaluate import reads_of, weight_across
from samerack.assignors.streams.java_sets import processes_in_java_order
from samerack.assignors.streams.kafka_racks import MAX_OWN_WORK
from samerack.assignors.streams.optimize import tag_warnings
from samerack.assignors.streams.plugin import (
    AssignmentError,
    Outcome,
    Request,
    TaskAssignment,
    identity_assignment,
    validate_task_assignment,
)
from samerack.assignors.streams.rack_steps import (
    NOT_ASKED,
    STATELESS,
    Gates,
    RackSteps,
    configured_costs,
    enabled_apart,
    enabled_together,
)
from samerack.assignors.streams.sticky_deal import Deal, Manners, Numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from samerack.assignors.streams.application import ApplicationState, ProcessId, TaskId
    from samerack.assignors.streams.assignment import KafkaStreamsAssignment

# The rank of a plan: which of two is better, in the order that this module's text gives.

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
        self._across = cache(self._weight_across)

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
        had, rack = self._before[process].tasks, self._state.states[process].rack_id
        price = reads = 0
        for task, role in assignment.tasks.items():
            costs = self._costs if self._state.all_tasks[task].is_stateful else STATELESS
            across = self._across(rack, role, task)
            price += costs.traffic * across + (0 if had.get(task) is role else costs.non_overlap)
            reads += across
        return price, reads

    def _weight_across(self, rack: str | None, role: TaskType, task: TaskId) -> int:
        """Return the weight of what a task reads across racks in one role, where racks count."""
        if not isinstance(self._gates.active if role is TaskType.ACTIVE else self._gates.standby, Strategy):
            return 0
        reads = reads_of(self._state, role)
        return weight_across(reads.distinct[reads.number[task]], rack)


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


COSTS: Final = Costs(traffic=1, non_overlap=10)
"""Costs if none are configured: tasks stay rather than follow racks (Kafka 4.3, both sticky assignors)."""

DEALS: Final = 8
"""Maximum number of repeated runs; two or three are nearly always enough."""


def sticky(request: Request) -> Outcome:
    """Assign actives and standbys close to the previous assignment (KIP-924; KIP-925, 4.B.III).

    With `must_preserve_active` one client requests a follow-up rebalance at once.

    Args:
        request: the application; lags are not used.

    Raises:
        AssignmentError: a setting has an invalid value.
    """
    manners = Manners(must_preserve_active=request.must_preserve_active)
    costs = configured_costs(request.state.assignment_configs, COSTS)
    gates = enabled_apart(request.state, costs, compatible=request.compatible)
    if request.must_preserve_active:
        gates = Gates(active=NOT_ASKED, standby=NOT_ASKED)
    return _outcome(request, manners, gates, hurry=request.must_preserve_active)


def legacy_sticky(request: Request) -> Outcome:
    """Assign as Kafka's sticky assignor before KIP-924, which prefers more threads among equally loaded clients.

    Raises:
        AssignmentError: a setting has an invalid value.
    """
    gates = enabled_together(
        request.state, None if request.compatible else configured_costs(request.state.assignment_configs, COSTS)
    )
    return _outcome(request, Manners(is_former=True), gates, hurry=False)


def fallback_prior(request: Request) -> Outcome:
    """Assign while the configured assignor cannot run, for example without lags (KIP-441).

    Actives stay where they were, new actives and standbys go to the least loaded clients, racks and lags are ignored,
    and a follow-up rebalance is requested at once. With `compatible` the obstacle is the one that applies to racks in
    general, although racks are ignored here.

    Raises:
        AssignmentError: a setting has an invalid value.
    """
    manners = Manners(must_preserve_active=True, is_former=True)
    outcome = _outcome(request, manners, Gates(active=NOT_ASKED, standby=NOT_ASKED), hurry=True)
    obstacle = enabled_together(request.state).obstacle if request.compatible else outcome.obstacle
    return replace(outcome, probing_rebalance=True, costs=None, obstacle=obstacle)


def _outcome(request: Request, manners: Manners, gates: Gates, *, hurry: bool) -> Outcome:
    state = request.state
    previous = identity_assignment(state)
    if request.compatible:
        plan = _run_once(state, _deals(state, manners)(previous), gates, compatible=True)
    else:
        plan = _run_until_final(state, manners, gates, previous)
    if hurry:
        asks = next(iter(processes_in_java_order(plan) if request.compatible else plan))
        plan[asks] = plan[asks].with_followup_rebalance(request.now_ms)
    return Outcome(
        assignment=TaskAssignment(assignment=tuple(plan.values())),
        obstacle=gates.obstacle,
        warnings=tuple(tag_warnings(state)),
        costs=configured_costs(state.assignment_configs, COSTS),
    )


def _deals(state: ApplicationState, manners: Manners) -> Callable[[Plan], Deal]:
    """Return the function that deals the actives of an application from a previous assignment."""
    numbers = Numbers(state, is_former=manners.is_former, tag_keys=manners.tag_keys)
    return lambda previous: Deal(numbers, previous, manners)


def _run_once(state: ApplicationState, deal: Deal, gates: Gates, *, compatible: bool) -> Plan:
    """Complete one run: optimize the actives by racks, then deal standbys and optimize them."""
    board = Board(state.states.values())
    manners = deal.manners
    racks = RackSteps(
        state=state, gates=gates, compatible=compatible, with_changelogs=compatible and not manners.is_former
    )
    costs = configured_costs(state.assignment_configs, COSTS)
    deal.put_actives(board)
    racks.optimize_actives(board, [task for task, info in state.all_tasks.items() if info.is_stateful], costs)
    racks.optimize_actives(board, [task for task, info in state.all_tasks.items() if not info.is_stateful], STATELESS)
    if standbys := state.assignment_configs.num_standby_replicas:
        deal.deal_standbys(board, standbys)
        graph = gates.standby if isinstance(gates.standby, Strategy) and not manners.is_former else None
        racks.optimize_standbys(board, costs, tags=bool(manners.tag_keys), strategy=graph)
    return board.assignments()


def _run_until_final(state: ApplicationState, manners: Manners, gates: Gates, previous: Plan) -> Plan:
    """Return the previous plan if no new one is better; else repeats the algorithm until the plan no longer improves.

    Each step takes the best of several runs: with the exact flows; up to a size also with Kafka's network, whose choice
    among plans of equal cost may suit the standbys better; with `min_traffic` also without racks, because the rack
    steps price moves from the run's own placement and not from the previous plan (limits of subtopologies need racks).
    The last answer is stable because of the triangle inequality of moves: a plan that was not worth its moves from
    `previous` is not worth its moves from an answer on the way there.
    """
    manners = replace(manners, tag_keys=state.assignment_configs.rack_aware_assignment_tags)

    ranking = Ranking(state, previous, gates, configured_costs(state.assignment_configs, COSTS))
    deal_from = _deals(state, manners)
    ways = [(gates, False)]
    tasks, clients = len(state.all_tasks), len(state.states)
    if tasks**2 * clients * (tasks + clients) <= MAX_OWN_WORK:
        ways.append((gates, True))
    if gates.active is Strategy.MIN_TRAFFIC:
        ways.append((Gates(active=NOT_ASKED, standby=NOT_ASKED), False))

    def better_deal(before: Plan) -> tuple[Rank, Plan]:
        deal = deal_from(before)
        plans = [_run_once(state, deal, way, compatible=kafkas) for way, kafkas in ways]
        return min(((ranking.rank(plan), plan) for plan in plans), key=itemgetter(0))

    rank, plan = better_deal(previous)
    if _is_whole(state, previous) and ranking.rank(previous) <= rank:
        return previous
    for _ in range(DEALS):
        new_rank, again = better_deal(plan)
        if new_rank >= rank:
            break
        rank, plan = new_rank, again
    return plan


def _is_whole(state: ApplicationState, plan: Plan) -> bool:
    """Return whether the plan is valid and complete: each active once, and as many standbys as the clients allow."""
    answer = TaskAssignment(assignment=tuple(plan.values()))
    if validate_task_assignment(state, answer) is not AssignmentError.NONE:
        return False
    actives = sum(len(assignment.of_type(TaskType.ACTIVE)) for assignment in plan.values())
    copies = dict.fromkeys(state.all_tasks, 0)
    for assignment in plan.values():
        for task in assignment.of_type(TaskType.STANDBY):
            copies[task] += 1
    wanted = min(state.assignment_configs.num_standby_replicas, len(state.states) - 1)
    return actives == len(state.all_tasks) and all(
        copies[task] == (wanted if info.is_changelogged else 0) for task, info in state.all_tasks.items()
    )
