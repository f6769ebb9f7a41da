"""The task assignors by name, and the application that one is asked about if partitions weigh what they carry.

KIP-925's costs are of a partition, so a task that is moved costs as many times more as the average partition weighs
more than one: the two costs keep their ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from statistics import mean
from typing import Final, TypeAlias

from samerack.assignors.streams import ha, sticky
from samerack.assignors.streams.application import AssignmentConfigs, TaskInfo
from samerack.assignors.streams.plugin import Outcome, Request

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
    default = _COSTS.get(assignor, ha.COSTS)
    traffic, overlap = configs.rack_aware_traffic_cost, configs.rack_aware_non_overlap_cost
    return heavy, replace(
        configs,
        rack_aware_traffic_cost=default.traffic if traffic is None else traffic,
        rack_aware_non_overlap_cost=average * (default.non_overlap if overlap is None else overlap),
    )
