"""One valid record of each kind, for all tests that read or write them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from samerack.common.records import GroupState, MemberState, PlanningState, TopicState, TrafficSample

MINUTE: Final = 60_000
START: Final = int(datetime(2025, 11, 1, 12, tzinfo=UTC).timestamp() * 1000)

SAMPLE: Final = TrafficSample(
    id="sample",
    agent="agent@host",
    cluster="east",
    group="orders",
    topic="clicks",
    client_rack="rack-a",
    replica_rack="rack-b",
    method="exact",
    window_start=START,
    window_end=START + MINUTE,
    bytes=1000,
    records=10,
    election="samerack",
)
STATE: Final = GroupState(
    id="state",
    agent="agent@host",
    cluster="east",
    group="orders",
    at=START,
    kind="classic",
    state="Stable",
    assignor="range",
    role="leading",
    rack_aware_fetch=None,
    racks=("rack-a", "rack-b"),
    broker_racks=2,
    members=(
        MemberState(
            id="m-1",
            client_id="app",
            rack=0,
            fetches_with_rack=True,
            topics=(0,),
            tells_rack=True,
            client=0,
            capacity=2.0,
            max_partitions=4,
        ),
    ),
    topics=(
        TopicState(
            name="clicks",
            replicas=((0, 1), (1, 0)),
            owner=(0, -1),
            bytes_per_second=(1.5, 2.0),
            tasks=(0, -1),
            weights=(4096, 4096),
            loads=(2, 1),
        ),
    ),
    planning=PlanningState(by_bytes=True, keep_copartitioned=True, max_skew=0, balance_tolerance=0.1),
    refusal="",
)
"""A group with one member and one topic of two partitions, one of which has no owner."""
