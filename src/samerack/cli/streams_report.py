"""Makes JSON values of a live Kafka Streams application, its options and what is not known of it."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, Final

from samerack.assignors.streams.application import ProcessId, Strategy, TaskId
from samerack.assignors.streams.assignment import KafkaStreamsAssignment, TaskType, assignment_of
from samerack.cli.streams_options import FoundApplication, Option, OptionCost, Plan, bill_of, reads_of_plan
from samerack.common import words
from samerack.common.money import SECONDS_PER_MONTH, PriceTable
from samerack.offline.streams_compare import COSTS, ComparedApplication, compare_standbys
from samerack.reporting.verify_assignments import STREAMS_BROKER_ASSIGNED
from samerack.traffic.streams_application import LiveApplication
from samerack.traffic.streams_instances import Unknown

_CONFIGURATION: Final = Unknown(
    what="the application's configuration",
    cause="a group's metadata does not have it: strategy, costs, standbys, warm-ups and tags are those of the options "
    "of this command, and standbys are counted",
)
_PLACEMENTS: Final = ("default", "swaps (4.C.I)", "min_traffic", "min_traffic, racks apart")
"""Rules of `samerack assign --compare` that Kafka or samerack offers for standbys."""


def report_of(
    group: str, found: FoundApplication, options: list[Option], prices: PriceTable, *, by_bytes: bool = False
) -> dict[str, Any]:
    """Return everything that `samerack streams plan --group` shows."""
    live = found.live
    by_bytes = by_bytes and found.rates.bytes_per_second is not None
    present = bill_of(found, live.present, with_racks=False)
    placements, why = _placements(found, options)
    unknown = [*live.unknown, *found.unknown, *_of_bytes(found), _CONFIGURATION]
    return {
        "application": group,
        "protocol": "streams" if found.kind == "streams" else "classic",
        "assigned_by": "brokers" if found.kind == "streams" else "members",
        "replicas_that_serve": "any replica in the client's rack"
        if found.brokers.rack_aware_fetch
        else "leader replicas",
        "clients": _clients(found),
        "subtopologies": _subtopologies(live),
        "changelogs": [
            {
                "topic": changelog.topic,
                "partitions": changelog.partitions,
                "subtopology": changelog.subtopology,
                "known_by": None if changelog.known_by is None else changelog.known_by.value,
            }
            for changelog in live.changelogs
        ],
        "standbys_now": found.standbys,
        "present": _bill(present, prices),
        "weights": "bytes" if by_bytes else "partitions",
        "options": [_option(option, prices) for option in options],
        "standby_placements": placements,
        "unknown": [asdict(one) for one in (*unknown, *why)],
        "advice": _advice(found, present, options, by_bytes=by_bytes),
        "prices": prices.title,
    }


def _clients(found: FoundApplication) -> list[dict[str, Any]]:
    live, result = found.live, []
    for instance in live.instances:
        plan: Plan = {instance.process: live.present[instance.process]}
        sources, changelogs = reads_of_plan(found, plan, with_racks=False)
        first = instance.members[0]
        result.append(
            {
                "process": str(instance.process),
                "members": sorted(member.client_id for member in instance.members),
                "host": first.client_host,
                "threads": len(instance.members),
                "rack": live.state.states[instance.process].rack_id,
                "rack_from": first.rack.source,
                "fetches_with_rack": all(member.rack.fetches_with_rack for member in instance.members),
                "tags": dict(live.state.states[instance.process].client_tags),
                "active": _names(live.present[instance.process].of_type(TaskType.ACTIVE)),
                "standby": _names(live.present[instance.process].of_type(TaskType.STANDBY)),
                "sources": asdict(sources),
                "changelogs": None if changelogs is None else asdict(changelogs),
                "followup_ms": instance.followup_ms,
            }
        )
    return result


def _names(tasks: frozenset[TaskId]) -> list[str]:
    return [str(task) for task in sorted(tasks)]


def _subtopologies(live: LiveApplication) -> list[dict[str, Any]]:
    tasks: dict[int, list[TaskId]] = {}
    for task in live.state.all_tasks:
        tasks.setdefault(task.subtopology, []).append(task)
    return [
        {
            "subtopology": number,
            "tasks": len(each),
            "stateful": True if live.state.all_tasks[each[0]].is_stateful else False if live.changelogs_known else None,
            "sources": sorted(
                {part.topic for task in each for part in live.state.all_tasks[task].topic_partitions if part.is_source}
            ),
        }
        for number, each in sorted(tasks.items())
    ]


def _bill(bill: OptionCost, prices: PriceTable) -> dict[str, Any]:
    crossing = _bytes(bill)
    return asdict(bill) | {
        "dollars_per_month": None if crossing is None else prices.dollars(crossing) * SECONDS_PER_MONTH
    }


def _option(option: Option, prices: PriceTable) -> dict[str, Any]:
    plan = option.plan
    return {
        "assignor": option.assignor,
        "strategy": option.strategy,
        "num_standby_replicas": option.standbys,
        "bill": None if option.bill is None else _bill(option.bill, prices),
        "warm_ups": option.warm_ups,
        "followup_rebalances": option.followups,
        "obstacle": option.obstacle,
        "error": option.error,
        "clients": None
        if plan is None
        else {
            str(process): {kind.value.lower(): _names(one.of_type(kind)) for kind in TaskType}
            for process, one in plan.items()
        },
    }


def _placements(found: FoundApplication, options: list[Option]) -> tuple[list[dict[str, Any]] | None, list[Unknown]]:
    """Return what each rule makes of the largest number of standbys that is tried, or why that is not known."""
    live, max_standbys = found.live, max((option.standbys for option in options), default=0)
    if not max_standbys:
        return [], []
    if (obstacle := _obstacle(live)) is not None:
        return None, [Unknown(what="placements of standbys", cause=obstacle)]
    configs = replace(
        live.state.assignment_configs,
        num_standby_replicas=max_standbys,
        rack_aware_assignment_strategy=Strategy.MIN_TRAFFIC.value,
        rack_aware_traffic_cost=COSTS.traffic,
        rack_aware_non_overlap_cost=COSTS.non_overlap,
    )
    state = replace(live.state, assignment_configs=configs)
    rows = compare_standbys([ComparedApplication(name="", state=state, plan=_actives(live))])
    return [row | {"num_standby_replicas": max_standbys} for row in rows if row["strategy"] in _PLACEMENTS], []


def _actives(live: LiveApplication) -> dict[ProcessId, KafkaStreamsAssignment]:
    return {
        process: assignment_of(process, active=one.of_type(TaskType.ACTIVE)) for process, one in live.present.items()
    }


def _obstacle(live: LiveApplication) -> str | None:
    if not live.changelogs_known:
        return "the changelogs are not known"
    racked = all(client.rack_id for client in live.state.states.values())
    if not racked or not all(part.racks for info in live.state.all_tasks.values() for part in info.topic_partitions):
        return "the rack of a client or of a partition is not known"
    active = {task for one in live.present.values() for task in one.of_type(TaskType.ACTIVE)}
    return None if active == live.state.all_tasks.keys() else "some tasks are active nowhere"


def _best(found: FoundApplication, present: OptionCost, options: list[Option], *, by_bytes: bool) -> str:
    """Return the strategy that reads least across racks, with as many standbys as now, or why no strategy does.

    One that puts more standbys beside their actives does not count where clients have tags, which may keep them apart.
    """
    alike = [
        (option, option.bill) for option in options if option.bill is not None and option.standbys == found.standbys
    ]
    if not alike:
        return (
            "give --standbys with the application's own number; other numbers cannot be compared with the current state"
        )
    now = _partitions(present)
    known = [(one, bill, count) for one, bill in alike if (count := _partitions(bill)) is not None]
    if now is None or not known:
        return "not known whether a strategy reads less across racks than now: some reads are not known"
    counts_bytes = all(_bytes(bill) is not None for bill in (present, *(bill for _, bill, _ in known)))

    def crossing(bill: OptionCost, count: int) -> float:
        return (_bytes(bill) or 0.0) if counts_bytes else count

    def best_of(rows: list[tuple[Option, OptionCost, int]]) -> tuple[Option, OptionCost, int] | None:
        saving = [row for row in rows if crossing(*row[1:]) < crossing(present, now)]
        return min(saving, key=lambda row: (crossing(*row[1:]), row[1].moved_active), default=None)

    tags = _tags(found)
    apart = [row for row in known if not tags or (row[1].beside_active_rack or 0) <= (present.beside_active_rack or 0)]
    if (chosen := best_of(apart)) is not None:
        best, bill, count = chosen
        silent = not all(
            member.rack.fetches_with_rack for instance in found.live.instances for member in instance.members
        )
        then, before = (f" and {words.rate(_bytes(one))}" if counts_bytes else "" for one in (bill, present))
        return (
            f"set rack.aware.assignment.strategy={best.strategy}"
            f"{' and client.rack in every instance' if silent else ''}, unless it is set, with the {best.assignor} "
            f"assignor: {count} partitions{then} are then read across racks in place of {now}{before}"
        )
    reasons = [f"nothing: no strategy reads fewer {'bytes' if counts_bytes else 'partitions'} across racks than now"]
    if not counts_bytes:
        reasons.append("bytes, which `samerack verify` counts, are measured with --seconds 30")
    elif not by_bytes:
        reasons.append("strategies count partitions alike; --by-bytes shows plans that count bytes")
    if best_of(known) is not None or (tags and present.changelogs is not None and present.changelogs.across):
        reasons.append(
            f"the tags {', '.join(tags)} of clients keep standbys in other racks than their actives, where they read "
            "changelogs across racks"
        )
    return "; ".join(reasons)


def _tags(found: FoundApplication) -> list[str]:
    """Return the keys that may keep copies of a task apart: those that are given, else those that clients have."""
    state = found.live.state
    given = state.assignment_configs.rack_aware_assignment_tags
    return sorted(given or {key for client in state.states.values() for key in client.client_tags})


def _bytes(bill: OptionCost) -> float | None:
    """Return the bytes per second that cross racks, or None if those of sources or changelogs are not known."""
    sources = bill.sources.across_bytes_per_second
    changelogs = (
        0.0 if not bill.standbys else None if bill.changelogs is None else bill.changelogs.across_bytes_per_second
    )
    return None if sources is None or changelogs is None else sources + changelogs


def _partitions(bill: OptionCost) -> int | None:
    """Return the partitions that are read across racks, or None if this is not known of some."""
    read = [bill.sources, bill.changelogs] if bill.standbys else [bill.sources]
    known = [one for one in read if one is not None and not one.unknown]
    return sum(one.across for one in known) if len(known) == len(read) else None


def _of_bytes(found: FoundApplication) -> list[Unknown]:
    if found.rates.bytes_per_second is not None:
        return []
    return [Unknown(what="bytes", cause="nothing was measured; give --seconds 30 or more")]


def _advice(found: FoundApplication, present: OptionCost, options: list[Option], *, by_bytes: bool) -> list[str]:
    by_brokers = found.kind == "streams"
    lines = [STREAMS_BROKER_ASSIGNED if by_brokers else _best(found, present, options, by_bytes=by_bytes)]
    if by_bytes and not by_brokers:
        lines.append(
            "the options weigh partitions by bytes, which Kafka's own assignors cannot: take tasks from an agent "
            "with streams.weights=bytes (task.assignor.class=io.samerack.streams.AgentTaskAssignor)"
        )
    clients = found.live.instances
    silent = [client for client in clients if not all(member.rack.fetches_with_rack for member in client.members)]
    if silent:
        without = "" if by_brokers else "Kafka's own strategies then do nothing for the whole application, and "
        lines.append(
            f"{len(silent)} of {len(clients)} clients do not send a rack, {silent[0].process} among them: "
            f"{without}these clients read from leaders; set client.rack"
        )
    if not found.brokers.rack_aware_fetch:
        cure = "the brokers serve reads from leaders only: set replica.selector.class to RackAwareReplicaSelector"
        until = "Until then Kafka's own strategies count followers as near, which they are not; the options here do not"
        lines.append(cure if by_brokers else f"{cure}. {until}")
    return lines
