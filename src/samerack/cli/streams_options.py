"""What a live Kafka Streams application reads across racks now, and what it would with each assignor and strategy.

Pure functions: an application in, options with their bills out. What is not known is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from samerack.assignors.problem import AssignmentError
from samerack.assignors.streams.application import ProcessId, Strategy
from samerack.assignors.streams.assignment import KafkaStreamsAssignment, TaskType
from samerack.assignors.streams.evaluate import missing_standbys, relevant_partitions, spread
from samerack.assignors.streams.plugin import Request
from samerack.assignors.streams.registry import ASSIGNORS, Partition, settle, weighed
from samerack.common.weights import Rows
from samerack.traffic.rates import weights_of_rates
from samerack.traffic.streams_application import Brokers, LiveApplication
from samerack.traffic.streams_instances import Unknown

Plan: TypeAlias = Mapping[ProcessId, KafkaStreamsAssignment]

NAMES: Final = ("ha", "sticky")
"""The assignors that Kafka Streams ships: `ha` is its default, `sticky` that of an acceptable recovery lag of 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Measured figures of partitions.

    Attributes:
        bytes_per_second: wire bytes read of sources, and written to changelogs; None if nothing was measured.
        log_bytes: sizes of the changelogs; None if they are not known.
    """

    bytes_per_second: Mapping[Partition, float] | None = None
    log_bytes: Mapping[Partition, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundApplication:
    """An application as it was found.

    Attributes:
        kind: streams-classic, or streams (KIP-1071).
        standbys: standbys of most tasks that have any.
        unknown: what is not known beside what `live` lacks.
    """

    kind: str
    live: LiveApplication
    brokers: Brokers
    rates: Rates
    standbys: int
    unknown: tuple[Unknown, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionReads:
    """Topic partitions that are read, by where from; `unknown` are those whose rack or reader's rack is not known.

    `across_bytes_per_second` is None if some are unknown, or the rate of a partition that crosses racks.
    """

    near: int
    across: int
    unknown: int
    across_bytes_per_second: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionCost:
    """What a plan costs.

    Attributes:
        sources: what active tasks read.
        changelogs: what standby tasks read; None if the changelogs are not known.
        moved_active: active tasks on another client than now.
        moved_standby: standby tasks on clients that do not have them as standby now.
        restored_bytes: changelogs that clients without state of a task must read once; None if not known.
        standbys: number of standby tasks.
        beside_active_rack: standbys in the rack of their active; None if a rack is not known.
        single_rack: tasks with standbys that are in one rack only; None if a rack is not known.
        missing_standbys: configured standbys that no client can have.
    """

    sources: OptionReads
    changelogs: OptionReads | None
    moved_active: int
    moved_standby: int
    restored_bytes: int | None
    standbys: int
    beside_active_rack: int | None
    single_rack: int | None
    missing_standbys: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One assignor with one strategy, where its rebalances end.

    Attributes:
        assignor: `ha` or `sticky`.
        strategy: `rack.aware.assignment.strategy`.
        standbys: `num.standby.replicas`.
        warm_ups: tasks that wait for their state before they move; None if lags are not known.
        followups: follow-up rebalances that this takes at least, with `max.warmup.replicas` at a time.
        obstacle: why racks do not count, or None.
        error: why there is no plan, or None.
    """

    assignor: str
    strategy: str
    standbys: int
    bill: OptionCost | None = None
    plan: Plan | None = None
    warm_ups: int | None = None
    followups: int | None = None
    obstacle: str | None = None
    error: str | None = None


def bill_of(found: FoundApplication, plan: Plan, *, with_racks: bool) -> OptionCost:
    """Return what a plan costs.

    `with_racks` is whether every client sends its rack when it fetches; else those do that do so now.
    """
    live, state = found.live, found.live.state
    racked = all(client.rack_id for client in state.states.values())
    apart = spread(state, plan)
    sources, changelogs = reads_of_plan(found, plan, with_racks=with_racks)
    return OptionCost(
        sources=sources,
        changelogs=changelogs,
        moved_active=_gained(plan, live.present, TaskType.ACTIVE),
        moved_standby=_gained(plan, live.present, TaskType.STANDBY),
        restored_bytes=_restored(live, plan, found.rates),
        standbys=apart.standbys,
        beside_active_rack=apart.beside_active_rack if racked else None,
        single_rack=apart.single_rack if racked else None,
        missing_standbys=sum(missing_standbys(state, plan).values()),
    )


def reads_of_plan(found: FoundApplication, plan: Plan, *, with_racks: bool) -> tuple[OptionReads, OptionReads | None]:
    """Return what active tasks read, and what standby tasks read: of these None if the changelogs are not known.

    Arguments are those of `bill_of`; a plan of some of the clients has the reads of these.
    """
    live = found.live
    clients = {
        instance.process: (
            live.state.states[instance.process].rack_id,
            bool(found.brokers.rack_aware_fetch)
            and (with_racks or all(member.rack.fetches_with_rack for member in instance.members)),
        )
        for instance in live.instances
    }

    def reads(kind: TaskType) -> OptionReads:
        read = (
            (*clients[process], (part.topic, part.partition))
            for process, assignment in plan.items()
            for task in assignment.of_type(kind)
            for part in relevant_partitions(live.state.all_tasks[task], kind)
        )
        return _reads(read, found.brokers, found.rates)

    return reads(TaskType.ACTIVE), reads(TaskType.STANDBY) if live.changelogs_known else None


def _reads(read: Iterable[tuple[str | None, bool, Partition]], brokers: Brokers, rates: Rates) -> OptionReads:
    near = across = unknown = 0
    crossing: list[float | None] = []
    for rack, any_replica, partition in read:
        racks = brokers.racks_of(*partition, any_replica=any_replica)
        if rack is None or racks is None:
            unknown += 1
        elif rack in racks:
            near += 1
        else:
            across += 1
            crossing.append(None if rates.bytes_per_second is None else rates.bytes_per_second.get(partition))
    known = [rate for rate in crossing if rate is not None]
    measured = rates.bytes_per_second is not None and len(known) == len(crossing) and not unknown
    return OptionReads(
        near=near, across=across, unknown=unknown, across_bytes_per_second=sum(known, 0.0) if measured else None
    )


def _gained(plan: Plan, before: Plan, kind: TaskType) -> int:
    return sum(len(one.of_type(kind) - before[process].of_type(kind)) for process, one in plan.items())


def _restored(live: LiveApplication, plan: Plan, rates: Rates) -> int | None:
    """Return the bytes of the changelogs of tasks on clients that neither have them now nor have state of them."""
    wanted: list[Partition] = []
    state = {
        instance.process: {*instance.active, *instance.standby, *instance.offset_sums} for instance in live.instances
    }
    for process, assignment in plan.items():
        for task in assignment.tasks.keys() - state[process]:
            info = live.state.all_tasks[task]
            if info.is_stateful and not live.changelogs_known:
                return None
            wanted += [(part.topic, part.partition) for part in info.topic_partitions if part.is_changelog]
    sizes = rates.log_bytes if rates.log_bytes is not None else {}
    if any(partition not in sizes for partition in wanted):
        return None
    return sum(sizes[partition] for partition in wanted)


def weights_by_bytes(rates: Rates) -> dict[Partition, int]:
    """Return the weights of partitions whose bytes are measured, as a running agent weighs them."""
    measured = rates.bytes_per_second or {}
    rows: Rows = weights_of_rates(measured) or {}
    return {(topic, number): rows[topic][number] for topic, number in measured if topic in rows}


def options_of(
    found: FoundApplication, *, standbys: Sequence[int], by_bytes: bool = False, compatible: bool, now_ms: int
) -> list[Option]:
    """Return every assignor with every strategy and number of standbys.

    Args:
        found: the application, whose configuration has costs, tags and limits.
        standbys: numbers of standbys to try.
        by_bytes: partitions count by their measured bytes in place of one each.
        compatible: Kafka's own behaviour where samerack's assignors deviate from it.
        now_ms: the current time in ms since 1970.
    """
    live = found.live
    weights = weights_by_bytes(found.rates) if by_bytes else {}

    def tried(name: str, strategy: Strategy, count: int) -> Option:
        option = Option(assignor=name, strategy=strategy.value, standbys=count)
        configs = replace(
            live.state.assignment_configs, num_standby_replicas=count, rack_aware_assignment_strategy=strategy.value
        )
        state = replace(live.state, assignment_configs=configs)
        tasks, costs = weighed(live.state.all_tasks.values(), configs, weights, assignor=name)
        heavy = replace(state, all_tasks={task.id: task for task in tasks}, assignment_configs=costs)
        try:
            settled = settle(ASSIGNORS[name], Request(state=heavy, now_ms=now_ms, compatible=compatible))
        except AssignmentError as error:
            return replace(option, error=str(error))
        obstacle = settled.last.obstacle
        with_racks = strategy is not Strategy.NONE  # the strategies need client.rack in every instance
        warm_ups = settled.warm_ups if live.end_offsets_known else None
        return replace(
            option,
            bill=bill_of(replace(found, live=replace(live, state=state)), settled.assignments, with_racks=with_racks),
            plan=settled.assignments,
            warm_ups=warm_ups,
            followups=None if warm_ups is None else -(-warm_ups // configs.max_warmup_replicas),
            obstacle=None if obstacle is None or strategy is Strategy.NONE else obstacle.message,
        )

    return [tried(name, strategy, count) for count in standbys for name in NAMES for strategy in Strategy]
