"""Makes the plan of one question, by the application's configuration, the agent's settings and an assignor; checks it.

No plan leaves here that Kafka Streams would reject (KIP-924, `AssignmentError`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from samerack.agent.streams.context import PlanContext, PlanRules
from samerack.agent.streams.own_assignors import OwnAssignorError, OwnAssignors, subscription_of
from samerack.agent.streams.question import PlanQuestion
from samerack.assignors.streams.application import (
    ApplicationState,
    AssignmentConfigs,
    KafkaStreamsState,
    ProcessId,
    TaskInfo,
)
from samerack.assignors.streams.assignment import KafkaStreamsAssignment, TaskType
from samerack.assignors.streams.plugin import (
    AssignmentError,
    GroupAssignment,
    Outcome,
    Request,
    TaskAssignment,
    identity_assignment,
    validate_task_assignment,
)
from samerack.assignors.streams.registry import ASSIGNORS, partitions_of, weighed

# Adapts an application to the agent's settings and to what the agent knows, before an assignor sees it.
#
# Racks of clients that sent none, costs and strategy of the settings, weights by measured bytes, racks as tags.
# Whatever is missing leaves the application as it is, and a warning says so.

_RACK_TAG: Final = "rack"


def adapted(question: PlanQuestion, context: PlanContext, *, assignor: str) -> tuple[ApplicationState, tuple[str, ...]]:
    """Return the application that is planned by the assignor of this name, and warnings."""
    warnings: list[str] = []
    configs, strategy = question.configs, context.rules.strategy
    if strategy is not None:
        configs = replace(configs, rack_aware_assignment_strategy=strategy)
    clients = _with_racks(question.clients, context.racks or {}, warnings)
    tasks: Iterable[TaskInfo] = question.tasks
    if context.rules.weights == "bytes":
        tasks, configs = _weighed(question, configs, context, assignor, warnings)
    if context.rules.standby == "apart":
        clients, configs = _racks_as_tags(clients, configs, warnings)
    state = ApplicationState(
        states={client.process_id: client for client in clients},
        all_tasks={task.id: task for task in tasks},
        assignment_configs=configs,
    )
    return state, tuple(warnings)


def _with_racks(
    clients: Iterable[KafkaStreamsState], racks: Mapping[str, str], warnings: list[str]
) -> list[KafkaStreamsState]:
    found = []
    known = 0
    for client in clients:
        rack = racks.get(str(client.process_id)) if not client.rack_id else None
        known += rack is not None
        found.append(client if rack is None else replace(client, rack_id=rack))
    if known:
        warnings.append(
            f"{known} of {len(found)} clients have no client.rack: the agent knows their racks, but they read only "
            "from leaders; set their client.rack"
        )
    return found


def _weighed(
    question: PlanQuestion, configs: AssignmentConfigs, context: PlanContext, assignor: str, warnings: list[str]
) -> tuple[list[TaskInfo], AssignmentConfigs]:
    """Return tasks whose partitions weigh what they carry; one whose bytes are not known weighs as the average."""
    measured = context.weights or {}
    partitions = partitions_of(question.tasks)
    weights = {
        (topic, number): measured[topic][number]
        for topic, number in partitions
        if number < len(measured.get(topic, ()))
    }
    if not weights:
        warnings.append(
            f"no bytes of {question.application} are measured yet, so all partitions count equally; this agent "
            "measures them if its traffic.groups have the application"
        )
    elif missing := len(partitions) - len(weights):
        warnings.append(
            f"the bytes of {missing} of {len(partitions)} partitions are not measured (no consumer commits offsets of "
            "changelogs): each counts as an average partition"
        )
    return weighed(question.tasks, configs, weights, assignor=assignor)


def _racks_as_tags(
    clients: list[KafkaStreamsState], configs: AssignmentConfigs, warnings: list[str]
) -> tuple[list[KafkaStreamsState], AssignmentConfigs]:
    """Return the application with racks among the tags that keep copies of a task apart (KIP-708)."""
    if not all(client.rack_id for client in clients):
        warnings.append("standby: apart has no effect: a client has no rack; set its client.rack")
        return clients, configs
    tagged = [
        replace(client, client_tags={_RACK_TAG: client.rack_id or "", **client.client_tags}) for client in clients
    ]
    tags = configs.rack_aware_assignment_tags
    return tagged, replace(configs, rack_aware_assignment_tags=tuple(dict.fromkeys((_RACK_TAG, *tags))))


DEFAULT: Final = "ha"
"""Kafka's own assignor where the application names none (`HighAvailabilityTaskAssignor`)."""
WITHOUT_LAGS: Final = "fallback-prior"
"""Kafka's own where lags could not be computed (`FallbackPriorTaskAssignor`)."""

MIN_FOLLOWUP_MS: Final = 15_000
"""An earlier follow-up rebalance waits for this time: plans that ask for one at once rebalance an application for ever.

Kafka's own probing interval is a minute or more. The jar waits for 10 s, counted from when the plan is there.
"""


class PlanError(Exception):
    """There is no plan that may be sent; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadePlan:
    """A plan: the assignment of every client, the one before, and the application as it was planned."""

    question: PlanQuestion
    assignor: str
    plan: Mapping[ProcessId, KafkaStreamsAssignment]
    before: Mapping[ProcessId, KafkaStreamsAssignment]
    state: ApplicationState
    outcome: Outcome
    warnings: tuple[str, ...] = ()


def make(question: PlanQuestion, context: PlanContext, own: OwnAssignors, *, now_ms: int) -> MadePlan:
    """Plan an application as it is at `now_ms`, in ms since 1970, by its settings and what the agent knows of it.

    Raises:
        PlanError: The plan is invalid, or there is no such assignor.
        OwnAssignorError: The user's assignor failed.
        AssignmentError: The application does not fit.
    """
    name = context.rules.assignor or question.assignor or DEFAULT
    state, warnings = adapted(question, context, assignor=name)
    if name == DEFAULT and any(client.lags is None for client in state.states.values()):
        name = WITHOUT_LAGS
        warnings += ("the application could not compute lags: tasks stay until the next probing rebalance",)
    own_assignor = own.of(question.application, name, context.rules.options) if ":" in name else None
    outcome = (
        _outcome(name, state, context.rules, now_ms=now_ms)
        if own_assignor is None
        else own_assignor.assign(state, now_ms=now_ms)
    )
    problem = validate_task_assignment(state, outcome.assignment)
    if problem is not AssignmentError.NONE:
        reasons = [f"the plan of {name} is not valid: {problem.value}"]
        if own_assignor is not None:
            try:
                own_assignor.notify(GroupAssignment(), subscription_of(question), problem)
            except OwnAssignorError as error:
                reasons.append(str(error))
        raise PlanError("; ".join(reasons))
    # as Kafka: what makes lags unknown, such as a partition without a leader, may last, and each attempt takes a minute
    wait_ms = state.assignment_configs.probing_rebalance_interval_ms if name == WITHOUT_LAGS else MIN_FOLLOWUP_MS
    plan = {one.process_id: _held(one, now_ms + wait_ms) for one in outcome.assignment.assignment}
    is_early = any(one.followup_rebalance_deadline == now_ms + MIN_FOLLOWUP_MS for one in plan.values())
    if is_early and not outcome.probing_rebalance:
        warnings += (f"{name} asks for a follow-up rebalance too early: it comes after {MIN_FOLLOWUP_MS // 1000} s",)
    if len(plan) < len(outcome.assignment.assignment):
        raise PlanError(f"the plan of {name} lists a client twice; give each client one assignment")
    if missing := len(state.all_tasks) - _actives(outcome.assignment):
        raise PlanError(f"the plan of {name} leaves {missing} tasks without an active client; assign every task")
    return MadePlan(
        question=question,
        assignor=name,
        plan=plan,
        before=identity_assignment(state),
        state=state,
        outcome=outcome,
        warnings=(*warnings, *_reason(outcome), *outcome.warnings),
    )


def _outcome(name: str, state: ApplicationState, rules: PlanRules, *, now_ms: int) -> Outcome:
    run = ASSIGNORS.get(name)
    if run is None:
        raise PlanError(f"assignor {name!r} is unknown; set streams.applications, or one of {', '.join(ASSIGNORS)}")
    return run(
        Request(
            state=state, now_ms=now_ms, must_preserve_active=rules.must_preserve_active, compatible=rules.compatible
        )
    )


def _held(one: KafkaStreamsAssignment, earliest_ms: int) -> KafkaStreamsAssignment:
    """Return the assignment with a follow-up rebalance that is not too early."""
    deadline = one.followup_rebalance_deadline
    return one if deadline is None or deadline >= earliest_ms else one.with_followup_rebalance(earliest_ms)


def _actives(answer: TaskAssignment) -> int:
    return sum(len(one.of_type(TaskType.ACTIVE)) for one in answer.assignment)


def _reason(outcome: Outcome) -> tuple[str, ...]:
    """Return why racks did not count, if they did not."""
    return () if outcome.obstacle is None else (f"racks do not count: {outcome.obstacle.message}",)
