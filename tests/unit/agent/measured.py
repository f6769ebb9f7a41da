"""Helpers that build measured traffic for the tests of money, findings and the page, without behaviour of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from math import sin

import numpy as np

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.problem import Problem
from samerack.cluster.racks import MemberRack, Source
from samerack.cluster.view import ClusterView, PartitionView, Rack
from samerack.common.money import PriceTable, shipped
from samerack.events import EventLog
from samerack.events.history import Figures, HistoryRow, TrafficHistory
from samerack.planning.members import placed
from samerack.protocol.values import no_partitions
from samerack.reporting.report_service import ReportService
from samerack.settings.leading import LeadingSettings
from samerack.traffic.board import TrafficBoard
from samerack.traffic.log_growth import NOT_MEASURED, Copied, Replication
from samerack.traffic.snapshot import (
    BlindSpot,
    Flow,
    FlowKey,
    Gap,
    GroupKind,
    GroupTraffic,
    LowerBound,
    Method,
    ObservedMember,
    PartitionTraffic,
    Shares,
    TrafficSnapshot,
    Volume,
)

A, B, C = "rack-a", "rack-b", "rack-c"
RACKS: Mapping[int, Rack] = {1: A, 2: B, 3: C}
GB = 1_000_000_000
WINDOW_SECONDS = 60.0


def flow(
    client_rack: str,
    replica_rack: str,
    wire_bytes: int,
    *,
    group: str = "orders",
    topic: str = "clicks",
    method: Method = "estimated",
) -> Flow:
    """Bytes that clients in one rack read from replicas in one rack."""
    key = FlowKey(group=group, topic=topic, client_rack=client_rack, replica_rack=replica_rack, method=method)
    return Flow(key=key, volume=Volume(wire_bytes=wire_bytes, records=wire_bytes // 1000))


def member(name: str, rack: str | None, *, source: Source = "subscription") -> ObservedMember:
    """A member; one without rack has none from any source."""
    return ObservedMember(
        id=name,
        instance_id=None,
        client_id=f"client-{name}",
        client_host="10.0.0.1",
        rack=MemberRack(
            rack=rack, source=source if rack is not None else "none", fetches_with_rack=source == "subscription"
        ),
        topics=frozenset(),
        owned=no_partitions(),
        sessions=False,
    )


def problem(
    racks_of_replicas: Sequence[Sequence[str]],
    members: Mapping[str, str | None],
    owned: Mapping[str, Sequence[int]],
    *,
    reads_any_replica: bool = True,
) -> Problem:
    """A group that reads one topic, `clicks`."""
    return build_problem(
        topics={"clicks": racks_of_replicas},
        members=[
            MemberInput(
                id=name,
                topics=("clicks",),
                rack=rack,
                reads_any_replica=reads_any_replica,
                owned={"clicks": owned.get(name, ())},
            )
            for name, rack in members.items()
        ],
    )


ROTATED = ((A,), (B,), (C,), (A,), (B,), (C,))
"""Six partitions with one replica each, placed so that range without racks reads most of them across racks."""
SPREAD = {"m1": A, "m2": B, "m3": C}
NEAR = {"m1": (0, 3), "m2": (1, 4), "m3": (2, 5)}
RANGE = {"m1": (0, 1), "m2": (2, 3), "m3": (4, 5)}


def group(
    name: str = "orders",
    *,
    flows: Sequence[Flow] = (),
    members: Mapping[str, str | None] | None = None,
    source: Source = "subscription",
    kind: GroupKind = "classic",
    assignor: str = "range",
    shares: Shares | None = None,
    made: Problem | None = None,
) -> GroupTraffic:
    """A group of three members in three racks that each read what is near, unless parameters say otherwise."""
    members = SPREAD if members is None else members
    read = sum(one.volume.wire_bytes for one in flows)
    return GroupTraffic(
        group=name,
        kind=kind,
        state="Stable",
        assignor=assignor,
        members=tuple(member(one, rack, source=source) for one, rack in members.items()),
        partitions=tuple(
            PartitionTraffic(
                partition=("clicks", number),
                member="m1",
                serving_rack=A,
                bytes_per_second=1000.0,
                lag_records=20,
                lag_seconds=12.5,
            )
            for number in range(6)
        ),
        lag={"clicks": LowerBound(value=120)},
        lag_seconds={"clicks": LowerBound(value=12.5)},
        flows=tuple(replace(one, key=replace(one.key, group=name)) for one in flows),
        shares=shares or Shares(present_bytes=0.0, present_partitions=0.0, optimal=0.0, random=2 / 3),
        bytes_per_second=read / WINDOW_SECONDS,
        blind_spots=(BlindSpot.NO_COMMITS,),
        problem=made if made is not None else problem(ROTATED, members, NEAR),
    )


def weighed(made: GroupTraffic, rates: Sequence[float], weights: Sequence[int]) -> GroupTraffic:
    """The group with so many bytes per second of its partitions, and the weights that its plans are made with."""
    assert made.problem is not None
    return replace(
        made,
        problem=replace(made.problem, weights=np.array(weights, np.int64)),
        partitions=tuple(
            replace(one, written_per_second=rate) for one, rate in zip(made.partitions, rates, strict=True)
        ),
    )


def snapshot(
    *groups: GroupTraffic,
    brokers: Mapping[int, Rack] = RACKS,
    replicas: Sequence[Sequence[int]] = ((1,), (2,), (3,), (1,), (2,), (3,)),
    rack_aware_fetch: bool | None = True,
    gaps: Sequence[Gap] = (),
    replication: Replication = NOT_MEASURED,
) -> TrafficSnapshot:
    """A minute of these groups on three brokers in three racks."""
    partitions = tuple(PartitionView(leader=one[0], replicas=tuple(one), in_sync=tuple(one)) for one in replicas)
    cluster = ClusterView(brokers=dict(brokers), topics={"clicks": partitions})
    return TrafficSnapshot(
        groups=tuple(replace(one, members=placed(one.members, cluster.racks)) for one in groups),
        cluster=cluster,
        rack_aware_fetch=rack_aware_fetch,
        window_start=1_800_000_000.0,
        window_end=1_800_000_000.0 + WINDOW_SECONDS,
        cycle=7,
        cycle_seconds=0.02,
        gaps=tuple(gaps),
        replication=replication,
    )


REPLICATED = Replication(
    seconds=60.0,
    copied=Copied(
        carried={(A, B): 3 * GB, (A, C): 3 * GB, (B, A): 2 * GB, (C, C): 5 * GB, (C, ""): GB},
        produced={A: 3 * GB, B: 2 * GB, "": GB},
    ),
    totals=Copied(
        carried={(A, B): 30 * GB, (A, C): 30 * GB, (B, A): 20 * GB, (C, C): 50 * GB, (C, ""): GB},
        produced={A: 30 * GB, B: 20 * GB, "": GB},
    ),
    partitions=120,
    unknown_partitions=7,
)
"""A minute of a cluster of which one broker has no rack, and some partitions no offsets."""


def publish(board: TrafficBoard, taken: TrafficSnapshot) -> None:
    """Publish a snapshot and count all that flowed in it."""
    board.publish(taken, [one for each in taken.groups for one in each.flows])


def reports(
    taken: TrafficSnapshot | None = None,
    *,
    roles: Mapping[str, str] | None = None,
    events: EventLog | None = None,
    history: TrafficHistory | None = None,
    prices: PriceTable | None = None,
    more_gaps: tuple[Gap, ...] = (),
) -> ReportService:
    """A report service that shows this snapshot."""
    board = TrafficBoard()
    if taken is not None:
        publish(board, taken)
    return ReportService(
        board=board,
        roles=lambda: roles or {},
        events=events or EventLog(),
        traffic_history=history or TrafficHistory(),
        prices=prices or shipped("aws"),
        leading=LeadingSettings(),
        bootstrap="kafka.example:9092",
        more_gaps=lambda: more_gaps,
    )


def busy_events() -> EventLog:
    """An event log with two decisions and a plan."""
    events = EventLog(rate=lambda _: 2_000_000.0, dollars=shipped("aws").dollars, clock=count(1_800_000_000.0).__next__)
    for action, reason, after in (("rebalance", "racks-changed", 0.0), ("suppress", "below-min-saving", 0.44)):
        events.add("decision", "orders", action=action, reason=reason, share_before=0.47, share_after=after)
    events.add("plan", "orders", action="optimal", share_before=0.47, share_after=0.0, detail="3 members, 6 partitions")
    return events


def busy_history() -> TrafficHistory:
    """Twenty hours of two groups of `busy`, with an hour in which nothing was measured; one has no known racks."""
    history = TrafficHistory(clock=lambda: 1_800_000_060.0)
    history.remember(
        HistoryRow(
            at=1_800_000_000.0 - ago * 300,
            groups={
                "orders": Figures(
                    bytes_per_second=2_000_000.0 + 600_000 * sin(ago / 40), share=0.47 if ago > 100 else 0.0165
                ),
                "reports <b>&amp;</b>": Figures(bytes_per_second=250_000.0, share=None),
            },
        )
        for ago in range(240, -1, -1)
        if not 60 < ago <= 72
    )
    return history


def busy() -> TrafficSnapshot:
    """A cluster with a led group, an observed one of KIP-848 that reads at random, and one without racks."""
    led = group(
        "orders",
        flows=[flow(A, A, 40 * GB), flow(B, B, 38 * GB), flow(C, C, 41 * GB), flow(C, A, 2 * GB, topic="audit")],
        shares=Shares(present_bytes=0.0165, present_partitions=0.0, optimal=0.0, optimal_by="bytes", random=2 / 3),
        source="client-id",
    )
    pairs = [(client, replica) for client in (A, B, C) for replica in (A, B, C)]
    lost = group(
        "billing-kip848",
        kind="consumer",
        assignor="uniform",
        flows=[flow(client, replica, (3 + 2 * (client < replica)) * GB) for client, replica in pairs],
        shares=Shares(present_bytes=0.69, present_partitions=0.66, optimal=0.0, optimal_by="bytes", random=2 / 3),
        made=problem(((A,), (A,), (A,), (A,), (B,), (C,)), SPREAD, RANGE),
    )
    bare = group(
        "reports <b>&amp;</b>",
        members={"m1": None, "m2": None, "m3": None},
        flows=[flow("", rack, 5 * GB) for rack in (A, B, C)],
        shares=Shares(random=2 / 3),
        made=problem(ROTATED, {"m1": None, "m2": None, "m3": None}, RANGE),
    )
    return snapshot(led, lost, bare, replication=REPLICATED)
