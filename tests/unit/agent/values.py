"""Helpers that build clusters, groups and plans for the tests of the agent, without behaviour of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from samerack.cluster.group import GroupView, MemberView
from samerack.cluster.view import ClusterView, NoRack, PartitionView, Rack, SettledCluster, SettledPartition
from samerack.protocol.values import Subscription, TopicPartitions, no_partitions

RACKS: Mapping[int, Rack] = {1: "a", 2: "b", 3: "c"}


def partition(*replicas: int, leader: int | None = None, in_sync: Sequence[int] | None = None) -> PartitionView:
    """A partition as metadata shows it; the first replica leads and all are in sync unless said otherwise."""
    return PartitionView(
        leader=replicas[0] if leader is None else leader,
        replicas=replicas,
        in_sync=replicas if in_sync is None else tuple(in_sync),
    )


def view_of(
    brokers: Mapping[int, Rack] = RACKS, absent: Sequence[str] = (), **topics: Sequence[PartitionView]
) -> ClusterView:
    """One poll of a cluster."""
    return ClusterView(
        brokers=dict(brokers),
        topics={topic: tuple(partitions) for topic, partitions in topics.items()},
        absent=frozenset(absent),
    )


def cluster(brokers: Mapping[int, Rack] = RACKS, **topics: Sequence[Sequence[int]]) -> SettledCluster:
    """A settled cluster: for each topic the replicas of each partition, the leader first."""
    return SettledCluster(
        brokers=dict(brokers),
        topics={
            topic: tuple(SettledPartition(leader=replicas[0], replicas=tuple(replicas)) for replicas in partitions)
            for topic, partitions in topics.items()
        },
    )


def member(
    name: str,
    *topics: str,
    rack: str | None = None,
    assigned: TopicPartitions | None = None,
    instance_id: str | None = None,
    client_id: str = "client",
    client_host: str = "10.0.0.1",
    readable: bool = True,
) -> MemberView:
    """A member of a group as DescribeGroups shows it in Stable."""
    return MemberView(
        id=name,
        instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        subscription=Subscription(version=3, topics=topics, rack=rack) if readable else None,
        assigned=assigned or no_partitions(),
    )


def group(*members: MemberView, protocol: str = "range", state: str = "Stable") -> GroupView:
    """A consumer group."""
    return GroupView(name="orders", state=state, protocol_type="consumer", protocol=protocol, members=members)


@dataclass(kw_only=True)
class Described:
    """A member of a DescribeGroups answer."""

    member_id: str = "m-1"
    group_instance_id: str | None = None
    client_id: str = "client"
    client_host: str = "/10.0.0.1"
    member_metadata: bytes = b""
    member_assignment: bytes = b""


UNSET = NoRack.UNSET
UNKNOWN = NoRack.UNKNOWN
