"""Computes a group's cross-rack shares: measured, by partitions, and the optimum. Builds its assignment problem.

The problem of an observed group is the same value that the leader solves for groups it leads, so that any assignor can
solve it for comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from samerack.assignors.problem import AssignmentError, Int32Array, Problem
from samerack.assignors.streams.whole_tasks import WholeTasks, min_traffic_plan, whole_tasks
from samerack.cluster.view import ClusterView, NoRack, SettledCluster, SettledPartition
from samerack.common.weights import GroupWeights
from samerack.planning.deadline import assign_aside
from samerack.planning.problem import Mode, mode_of
from samerack.planning.problem import problem_of as planning_problem
from samerack.settings.leading import LeadingSettings
from samerack.traffic.snapshot import STREAMS_KINDS, UNPLANNED_KINDS, Flow, ObservedGroup, PartitionTraffic
from samerack.traffic.streams_members import process_of


def as_last_seen(cluster: ClusterView) -> SettledCluster:
    """Return the cluster as planning takes it, without waiting for changes to settle."""
    settled = {
        view: SettledPartition(leader=view.leader, replicas=view.replicas)
        for views in cluster.topics.values()
        for view in set(views)
    }
    return SettledCluster(
        brokers=cluster.brokers,
        topics={topic: tuple(settled[view] for view in views) for topic, views in cluster.topics.items()},
    )


def problem_of(
    group: ObservedGroup,
    cluster: SettledCluster,
    *,
    rack_aware_fetch: bool,
    leading: LeadingSettings,
    weights: GroupWeights | None,
) -> Problem | None:
    """Return the group as an assignment problem; None without members or while they do not show what they own."""
    if not group.members or not group.owned_known or group.kind in UNPLANNED_KINDS:
        return None
    mode = mode_of_group(group, leading, rack_aware_fetch=rack_aware_fetch)
    try:
        return planning_problem(group.members, cluster, mode, weights=weights)
    except AssignmentError:
        return None


def mode_of_group(group: ObservedGroup, leading: LeadingSettings, *, rack_aware_fetch: bool) -> Mode:
    """Return how to plan a group, led or not."""
    classic = group.kind == "classic"
    return mode_of(group.assignor, leading.of(group.group), rack_aware_fetch=rack_aware_fetch, classic=classic)


def whole_tasks_of(group: ObservedGroup, problem: Problem) -> WholeTasks | None:
    """Return the tasks of a Kafka Streams group; None for other groups, and where clients or tasks are not known."""
    if group.kind not in STREAMS_KINDS:
        return None
    process = {member.id: process_of(member.streams) for member in group.members}
    numbers = {one: number for number, one in enumerate(sorted({one for one in process.values() if one is not None}))}
    clients = {member: numbers[one] for member, one in process.items() if one is not None}
    return whole_tasks(problem, [partitions for _, partitions in group.tasks], clients)


def solve(
    group: ObservedGroup, problem: Problem, whole: WholeTasks | None, leading: LeadingSettings
) -> Int32Array | None:
    """Return the owners of the best plan, of Kafka Streams with whole tasks; None where no plan can be made."""
    try:
        if group.kind in STREAMS_KINDS:
            return None if whole is None else min_traffic_plan(problem, whole)
        return assign_aside("optimal", problem, mode_of_group(group, leading, rack_aware_fetch=True).options)
    except AssignmentError:
        return None


def measured(flows: Iterable[Flow]) -> float | None:
    """Return the share of bytes that crossed racks, out of those with both racks known."""
    crossed = whole = 0
    for flow in flows:
        crosses = flow.key.cross_rack
        if crosses is not None:
            whole += flow.volume.wire_bytes
            crossed += flow.volume.wire_bytes if crosses else 0
    return crossed / whole if whole else None


def by_long_run(partitions: Iterable[PartitionTraffic], racks: Mapping[str, str | None]) -> float | None:
    """Return the share that crosses racks of what owners read in the long run, out of those with both racks known."""
    return _across(((partition, partition.long_run_per_second) for partition in partitions), racks)


def by_partitions(partitions: Iterable[PartitionTraffic], racks: Mapping[str, str | None]) -> float | None:
    """Return the share of owned partitions served from another rack, out of those with both racks known."""
    return _across(((partition, 1.0) for partition in partitions), racks)


def _across(sizes: Iterable[tuple[PartitionTraffic, float | None]], racks: Mapping[str, str | None]) -> float | None:
    crossed = whole = 0.0
    for one, size in sizes:
        rack = racks.get(one.member) if one.member is not None else None
        if rack is not None and one.serving_rack is not None and size is not None:
            whole += size
            crossed += size if rack != one.serving_rack else 0.0
    return crossed / whole if whole else None


def random_share(cluster: ClusterView) -> float | None:
    """Return 1 - 1/R with R racks of brokers; None without brokers, and while the rack of one is unset."""
    racks = set(cluster.brokers.values())
    return None if not racks or NoRack.UNSET in racks else 1 - 1 / len(racks)
