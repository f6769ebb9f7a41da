"""The task assignors by name, weights of partitions for them, and their plans once all follow-up rebalances are over.

KIP-925's costs are of a partition. Where partitions weigh what they carry, a task that is moved costs as many times
more as the average partition weighs more than one: the two costs keep their ratio.

An assignor first leaves tasks where their state is and warms up their targets (KIP-441), so its first answer says
little about what the application will cost. `settle` follows it to the end. Time plays no part there: between two
rebalances every copy catches up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from statistics import mean
from typing import Final, TypeAlias

from samerack.assignors.problem import AssignmentError
from samerack.assignors.streams import ha, sticky
from samerack.assignors.streams.application import (
    LATEST_OFFSET,
    ApplicationState,
    AssignmentConfigs,
    KafkaStreamsState,
    TaskInfo,
)
from samerack.assignors.streams.assignment import KafkaStreamsAssignment, Plan, TaskType
from samerack.assignors.streams.plugin import Outcome, Request
from samerack.assignors.streams.rack_steps import configured_costs

ASSIGNORS: Final[Mapping[str, Callable[[Request], Outcome]]] = {
    "ha": ha.high_availability,
    "sticky": sticky.sticky,
    "legacy-sticky": sticky.legacy_sticky,
    "fallback-prior": sticky.fallback_prior,
}
"""Each assignor by the name that Kafka's users know, such as `ha` and `sticky`."""

Partition: TypeAlias = tuple[str, int]
"""Topic and number."""
_COSTS: Final = {"ha": ha.COSTS, "sticky": sticky.COSTS, "legacy-sticky": sticky.COSTS}
"""Costs of assignors if none are configured; weights need them as numbers."""


def partitions_of(tasks: Collection[TaskInfo]) -> frozenset[Partition]:
    """Return all partitions of these tasks: sources and changelogs."""
    return frozenset((partition.topic, partition.partition) for task in tasks for partition in task.topic_partitions)


def weighed(
    tasks: Collection[TaskInfo], configs: AssignmentConfigs, weights: Mapping[Partition, int], *, assignor: str
) -> tuple[list[TaskInfo], AssignmentConfigs]:
    """Return the tasks with these weights, and costs by which an average partition costs as before.

    Args:
        tasks: all tasks of the application.
        configs: the application's configuration.
        weights: by partition, at least 1; one that is missing weighs as the average of the others. Without any, nothing
            changes.
        assignor: the name of the assignor that plans; its costs count where none are configured.
    """
    known = [weights[partition] for partition in partitions_of(tasks) if partition in weights]
    if not known:
        return list(tasks), configs
    average = max(1, round(mean(known)))
    heavy = [
        task._replace(
            topic_partitions=tuple(
                partition._replace(weight=weights.get((partition.topic, partition.partition), average))
                for partition in task.topic_partitions
            ),
        )
        for task in tasks
    ]
    costs = configured_costs(configs, _COSTS.get(assignor, ha.COSTS))
    return heavy, replace(
        configs,
        rack_aware_traffic_cost=costs.traffic,
        rack_aware_non_overlap_cost=average * costs.non_overlap,
    )


MAX_ROUNDS: Final = 50
"""Rebalances after which a plan counts as one that does not settle; with enough warm-ups two are usual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledApplication:
    """Where the rebalances of an application end.

    Attributes:
        first: the outcome of the first rebalance.
        last: the outcome of the last one, after which no follow-up is requested for warm-ups.
        assignments: its assignment of every client.
        warm_ups: stateful actives that could not go to their target at once: each needs one warm-up replica for a time.
    """

    first: Outcome
    last: Outcome
    assignments: Plan
    warm_ups: int


def settle(assignor: Callable[[Request], Outcome], request: Request) -> SettledApplication:
    """Run an assignor until it requests no follow-up rebalance for tasks that are not on their targets.

    Warm-ups are not limited meanwhile, so that the end does not depend on how many there may be at a time.

    Raises:
        TaskAssignmentError: the assignor cannot decide.
        AssignmentError: it does not settle, or the application does not fit.
    """
    configs = replace(request.state.assignment_configs, max_warmup_replicas=max(1, len(request.state.all_tasks)))
    state = replace(request.state, assignment_configs=configs)
    first: Outcome | None = None
    for _ in range(MAX_ROUNDS):
        outcome = assignor(replace(request, state=state))
        first = first or outcome
        plan = {one.process_id: one for one in outcome.assignment.assignment}
        if not outcome.probing_rebalance:
            return SettledApplication(
                first=first, last=outcome, assignments=plan, warm_ups=_warm_ups(request.state, first, plan)
            )
        state = _later(state, plan)
    raise AssignmentError(f"tasks are still not on their targets after {MAX_ROUNDS} rebalances")


def _warm_ups(state: ApplicationState, first: Outcome, last: Plan) -> int:
    """Return how many stateful actives are elsewhere after the first rebalance than after the last one."""
    return sum(
        state.all_tasks[task].is_stateful
        for one in first.assignment.assignment
        for task in one.of_type(TaskType.ACTIVE) - last[one.process_id].of_type(TaskType.ACTIVE)
    )


def _later(state: ApplicationState, plan: Plan) -> ApplicationState:
    """Return the application once every copy has caught up; clients keep the state of tasks that left them."""
    return replace(
        state, states={process: _caught_up(client, plan[process]) for process, client in state.states.items()}
    )


def _caught_up(client: KafkaStreamsState, plan: KafkaStreamsAssignment) -> KafkaStreamsState:
    active, standby = plan.of_type(TaskType.ACTIVE), plan.of_type(TaskType.STANDBY)
    lags = None
    if client.lags is not None:
        lags = {
            task: LATEST_OFFSET if task in active else 0 if task in standby or lag == LATEST_OFFSET else lag
            for task, lag in client.lags.items()
        }
    consumer = client.consumer_client_ids[0] if client.consumer_client_ids else str(client.process_id)
    return replace(
        client,
        lags=lags,
        consumer_client_ids=(consumer,),
        previous_active_tasks=active,
        previous_standby_tasks=standby,
        previous_tasks_by_consumer={consumer: active | standby},
    )
