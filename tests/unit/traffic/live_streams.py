"""A Kafka Streams application as brokers describe it, in the bytes of its clients; no behaviour of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.streams_group_describe.v0 import response as streams
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i16, i32, i64

from samerack.cluster.view import ClusterView
from samerack.protocol.consumer import encode_assignment, encode_subscription
from samerack.protocol.streams_values import NEVER, StreamsTask
from samerack.protocol.values import Assignment, Subscription, from_pairs
from samerack.settings.leading import RackSettings
from samerack.traffic import groups, streams_instances
from samerack.traffic.snapshot import ObservedGroup
from samerack.traffic.streams_instances import Instances
from tests.unit.agent.values import RACKS as BROKERS
from tests.unit.agent.values import Described, partition
from tests.unit.protocol.streams_writers import (
    AssignmentInfo,
    SubscriptionInfo,
    encode_assignment_info,
    encode_subscription_info,
)

RACKS = RackSettings()


def task(text: str) -> StreamsTask:
    """A task of a message, from its text form."""
    subtopology, number = text.split("_")
    return StreamsTask(subtopology=int(subtopology), partition=int(number))


def thread(
    process: int,
    active: Mapping[str, Sequence[tuple[str, int]]],
    *,
    standby: Mapping[str, Sequence[tuple[str, int]]] | None = None,
    sums: Mapping[str, int] | None = None,
    rack: str | None = None,
    tags: Mapping[str, str] | None = None,
    followup: int = NEVER,
    name: str = "1",
) -> Described:
    """A member: a thread with its tasks and what they read."""
    pairs = sorted((partition, one) for one, partitions in active.items() for partition in partitions)
    return Described(
        member_id=f"m-{process}-{name}",
        client_id=f"c-{process}-{name}",
        member_metadata=encode_subscription(
            Subscription(
                version=3,
                topics=tuple(sorted({topic for (topic, _), _ in pairs})) or ("in",),
                rack=rack,
                user_data=encode_subscription_info(
                    SubscriptionInfo(
                        process_id=UUID(int=process),
                        task_offset_sums=tuple((task(one), offsets) for one, offsets in (sums or {}).items()),
                        client_tags=tuple((tags or {}).items()),
                    )
                ),
            )
        ),
        member_assignment=encode_assignment(
            Assignment(
                partitions=from_pairs(partition for partition, _ in pairs),
                user_data=encode_assignment_info(
                    AssignmentInfo(
                        active=tuple(task(one) for _, one in pairs),
                        standby=tuple((task(one), tuple(read)) for one, read in (standby or {}).items()),
                        next_rebalance_ms=followup,
                    )
                ),
            )
        ),
    )


def described(*members: Described, state: str = "Stable", protocol: str = "stream") -> Any:
    """The answer of DescribeGroups."""
    return SimpleNamespace(
        error_code=0,
        group_id="app",
        group_state=state,
        protocol_type="consumer",
        protocol_data=protocol,
        members=list(members),
    )


def observed(*members: Described) -> ObservedGroup:
    """The group as it is observed."""
    return groups.classic(described(*members), racks=RACKS, agent="")


def instances(*members: Described) -> Instances:
    """Its clients."""
    return streams_instances.of_classic(described(*members), observed(*members))


COUNTING = (
    thread(1, {"0_0": [("in", 0)], "1_1": [("app-counts-repartition", 1)]}, rack="a", sums={"1_1": -2}),
    thread(
        2,
        {"0_1": [("in", 1)], "1_0": [("app-counts-repartition", 0)]},
        standby={"1_1": [("app-counts-repartition", 1)]},
        sums={"1_0": -2, "1_1": 40},
        rack="b",
    ),
)
"""Two clients with two subtopologies of two tasks; the second one has state, and one standby."""


def cluster(**topics: Sequence[Sequence[int]]) -> ClusterView:
    """Brokers 1 to 3 in racks a to c, and replicas by topic."""
    return ClusterView(
        brokers=BROKERS, topics={topic: tuple(partition(*each) for each in rows) for topic, rows in topics.items()}
    )


def counting_cluster() -> ClusterView:
    """The topics of `COUNTING`: what each client reads is in the other one's rack."""
    return cluster(
        **{"in": [[2], [1]], "app-counts-repartition": [[1], [2]], "app-counts-changelog": [[1, 2], [3]]},
    )


def kip_1071(
    *members: streams.Member,
    topology: Mapping[str, tuple[Sequence[str], Sequence[str], Sequence[str]]],
    partitions: int = 2,
) -> streams.DescribedGroup:
    """An application that brokers assign; of each subtopology sources, repartition topics and changelogs."""

    def infos(names: Sequence[str]) -> tuple[streams.TopicInfo, ...]:
        info = partial(streams.TopicInfo, partitions=i32(partitions), replication_factor=i16(1), topic_configs=())
        return tuple(info(name=TopicName(name)) for name in names)

    return streams.DescribedGroup(
        error_code=ErrorCode.none,
        group_id=GroupId("app"),
        group_state="Stable",
        group_epoch=i32(1),
        assignment_epoch=i32(1),
        topology=streams.Topology(
            epoch=i32(0),
            subtopologies=tuple(
                streams.Subtopology(
                    subtopology_id=number,
                    source_topics=tuple(map(TopicName, sources)),
                    state_changelog_topics=infos(logs),
                    repartition_source_topics=infos(inner),
                )
                for number, (sources, inner, logs) in topology.items()
            ),
        ),
        members=members,
    )


def instance(
    number: int, rack: str | None, active: Mapping[str, Sequence[int]], warmup: Sequence[int] = (), client_id: str = "c"
) -> streams.Member:
    """A thread of an instance with these tasks; it has offsets of the warm-ups."""

    def ids(tasks: Mapping[str, Sequence[int]]) -> tuple[streams.TaskIds, ...]:
        return tuple(streams.TaskIds(subtopology_id=part, partitions=tuple(map(i32, at))) for part, at in tasks.items())

    assigned = streams.Assignment(
        active_tasks=ids(active), standby_tasks=(), warmup_tasks=ids({"1": warmup}) if warmup else ()
    )
    return streams.Member(
        member_id=f"m{number}",
        member_epoch=i32(1),
        rack_id=rack,
        client_id=client_id,
        client_host="/10.0.0.9",
        topology_epoch=i32(0),
        process_id=str(UUID(int=number)),
        client_tags=(),
        task_offsets=tuple(streams.TaskOffset(subtopology_id="1", partition=i32(at), offset=i64(60)) for at in warmup),
        task_end_offsets=(),
        assignment=assigned,
        target_assignment=assigned,
        is_classic=False,
    )
