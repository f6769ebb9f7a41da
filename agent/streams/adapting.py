"""Adapts an application to the agent's settings and to what the agent knows, before an assignor sees it.

Racks of clients that sent none, costs and strategy of the settings, weights by measured bytes, racks as tags. Whatever
is missing leaves the application as it is, and a warning says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from samerack.agent.streams.context import PlanContext, PlanRules
from samerack.agent.streams.question import PlanQuestion
from samerack.assignors.streams.application import ApplicationState, KafkaStreamsState, ProcessId, TaskInfo
from samerack.assignors.streams.configs import AssignmentConfigs
from samerack.assignors.streams.weighing import partitions_of, weighed

_RACK_TAG: Final = "rack"


def adapted(question: PlanQuestion, context: PlanContext, *, assignor: str) -> tuple[ApplicationState, tuple[str, ...]]:
    """Return the application that is planned by the assignor of this name, and warnings."""
    warnings: list[str] = []
    configs = _configs(question.configs, context.rules)
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


def _configs(configs: AssignmentConfigs, rules: PlanRules) -> AssignmentConfigs:
    given: dict[str, Any] = {
        "rack_aware_assignment_strategy": rules.strategy,
        "rack_aware_traffic_cost": rules.traffic_cost,
        "rack_aware_non_overlap_cost": rules.non_overlap_cost,
        "num_standby_replicas": rules.standbys,
        "max_warmup_replicas": rules.warmups,
    }
    return replace(configs, **{key: value for key, value in given.items() if value is not None})


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
            f"{known} of {len(found)} clients have no client.rack: the agent knows their racks, but they read from "
            "leaders only; set client.rack there"
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
            f"no bytes of {question.application} are measured: each partition counts the same; add it to traffic.groups"
        )
    elif missing := len(partitions) - len(weights):
        warnings.append(
            f"the bytes of {missing} of {len(partitions)} partitions are not measured (no consumer commits "
            "offsets of changelogs): each of them counts as an average one"
        )
    return weighed(question.tasks, configs, weights, assignor=assignor)


def _racks_as_tags(
    clients: list[KafkaStreamsState], configs: AssignmentConfigs, warnings: list[str]
) -> tuple[list[KafkaStreamsState], AssignmentConfigs]:
    """Return the application with racks among the tags that keep copies of a task apart (KIP-708)."""
    if not all(client.rack_id for client in clients):
        warnings.append("standby: apart has no effect: a client has no rack; set client.rack there")
        return clients, configs
    tagged = [
        replace(client, client_tags={_RACK_TAG: client.rack_id or "", **client.client_tags}) for client in clients
    ]
    tags = configs.rack_aware_assignment_tags
    return tagged, replace(configs, rack_aware_assignment_tags=tuple(dict.fromkeys((_RACK_TAG, *tags))))


def without_lags(state: ApplicationState) -> ProcessId | None:
    """Return a client whose lags could not be computed, or None."""
    return next((process for process, client in state.states.items() if client.lags is None), None)
