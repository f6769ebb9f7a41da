"""Converts descriptions of every kind of group to one shape: members with racks, topics and owned partitions.

Classic groups, also those of Kafka Streams, carry the consumer protocol's bytes; brokers describe KIP-848 and KIP-1071
groups in fields of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from samerack.cluster.group import CONSUMER, MemberView, host_of, view_member
from samerack.cluster.racks import NO_HOSTS, Hosts, MemberRack, member_rack
from samerack.cluster.view import BrokerRacks, ClusterView
from samerack.planning import members as plan_members
from samerack.protocol.errors import ProtocolError
from samerack.protocol.values import MAX_VERSION, TopicPartitions, from_pairs, no_partitions, to_pairs
from samerack.settings.leading import RackSettings
from samerack.traffic import streams_members
from samerack.traffic.collect import KeyOf, Partition, plain_key
from samerack.traffic.snapshot import GroupKind, ObservedGroup, ObservedMember
from samerack.traffic.streams_members import Sources, StreamsClient

_IN_SEVERAL_RACKS: Final = MemberRack(rack=None, source="none", fetches_with_rack=False)
STREAMS_ASSIGNOR: Final = "stream"
"""The protocol name that Kafka Streams gives its assignor on the classic protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """One group of ListGroups: its coordinator, and its fields ("" where the broker is too old to send them)."""

    group: str
    coordinator: int
    protocol_type: str
    state: str
    type: str


def owners_of(group: ObservedGroup, key: KeyOf = plain_key) -> dict[Partition, ObservedMember]:
    """Return each partition's owner; of a share group, whose members read it together, one for all of them."""
    if group.kind == "share":
        return _together(group.members, key)
    return {key(topic, number): member for member in group.members for topic, number in to_pairs(member.owned)}


def placed(group: ObservedGroup, racks: BrokerRacks) -> ObservedGroup:
    """Return the group with its members' racks among those of the brokers; itself if that changes nothing."""
    members = plan_members.placed(group.members, racks)
    same = all(one is other for one, other in zip(group.members, members, strict=True))
    return group if same else replace(group, members=members)


def classic(described: Any, *, racks: RackSettings, agent: str, hosts: Hosts = NO_HOSTS) -> ObservedGroup:
    """Convert a group of DescribeGroups; the agent's own membership (instance id `agent`) is left out."""
    consumer = described.protocol_type == CONSUMER
    streams = described.protocol_data == STREAMS_ASSIGNOR
    members = []
    notes = []
    for raw in described.members:
        view = view_member(raw, consumer=consumer)
        if view.instance_id == agent or (view.subscription is not None and not view.subscription.topics):
            continue
        client, unreadable = _client(view) if streams else (None, view.unreadable)
        if unreadable:
            notes.append(f"member {view.id}: {unreadable}")
        members.append(
            ObservedMember(
                id=view.id,
                instance_id=view.instance_id,
                client_id=view.client_id,
                client_host=view.client_host,
                rack=member_rack(
                    racks,
                    rack_id=view.subscription.rack if view.subscription is not None else None,
                    client_id=view.client_id,
                    client_host=view.client_host,
                    tags=client.tags if client is not None else (),
                    hosts=hosts,
                ),
                topics=frozenset(view.subscription.topics if view.subscription is not None else ()),
                version=view.subscription.version if view.subscription is not None else MAX_VERSION,
                owned=view.assigned,
                sessions=_is_java(view.client_id, streams=streams),
                streams=client,
            )
        )
    tasks: Sources = ()
    if streams:
        try:
            tasks = streams_members.of_members(
                streams_members.of_member(bytes(raw.member_assignment)) for raw in described.members
            )
        except ProtocolError as error:
            notes.append(f"its tasks cannot be read: {error}")
    kind: GroupKind = "other" if described.protocol_type not in ("", CONSUMER) else "classic"
    return ObservedGroup(
        group=described.group_id,
        kind="streams-classic" if streams else kind,
        state=described.group_state,
        assignor=described.protocol_data,
        members=tuple(members),
        owned_known=described.group_state == "Stable" or not members,
        note="; ".join(notes)
        or (f"protocol type {described.protocol_type}: it reads no topics by assignment" if kind == "other" else ""),
        tasks=tasks,
    )


def _client(view: MemberView) -> tuple[StreamsClient | None, str | None]:
    """Return what a Streams member reports about its client, and why what cannot be read cannot."""
    if view.subscription is None:
        return None, view.unreadable
    try:
        return streams_members.from_subscription(view.subscription.user_data), view.unreadable
    except ProtocolError as error:
        return None, "; ".join(filter(None, (view.unreadable, f"streams info: {error}")))


def managed(described: Any, *, racks: RackSettings, hosts: Hosts = NO_HOSTS) -> ObservedGroup:
    """Convert a KIP-848 group of ConsumerGroupDescribe."""
    members = []
    matching: dict[str, set[str]] = {}  # by expression: brokers do not give its topics, but members share them
    for raw in described.members:
        matching.setdefault(raw.subscribed_topic_regex or "", set()).update(
            str(run.topic_name) for run in raw.assignment.topic_partitions
        )
    for raw in described.members:
        topics = matching[raw.subscribed_topic_regex] if raw.subscribed_topic_regex else ()
        members.append(_assigned(raw, racks=racks, hosts=hosts, topics=topics))
    return _by_brokers(described, "consumer", members)


def share(described: Any, *, racks: RackSettings, hosts: Hosts = NO_HOSTS) -> ObservedGroup:
    """Convert a share group (KIP-932) of ShareGroupDescribe: leaders serve its members, whatever their rack."""
    members = (_assigned(raw, racks=racks, hosts=hosts) for raw in described.members)
    return _by_brokers(
        described, "share", [replace(member, rack=replace(member.rack, fetches_with_rack=False)) for member in members]
    )


def _assigned(raw: Any, *, racks: RackSettings, hosts: Hosts, topics: Iterable[str] = ()) -> ObservedMember:
    """Convert a member to which brokers assign partitions; `topics` are those beside the ones that it names or owns."""
    owned = from_pairs(
        (str(run.topic_name), int(number)) for run in raw.assignment.topic_partitions for number in run.partitions
    )
    every = frozenset(map(str, raw.subscribed_topic_names)).union(owned.topics, topics)
    return _described(raw, racks=racks, hosts=hosts, topics=every, owned=owned)


def _by_brokers(described: Any, kind: GroupKind, members: Iterable[ObservedMember]) -> ObservedGroup:
    """Return a group whose members brokers assign."""
    return ObservedGroup(
        group=str(described.group_id),
        kind=kind,
        state=described.group_state,
        assignor=described.assignor_name,
        members=tuple(members),
    )


def _together(members: Iterable[ObservedMember], key: KeyOf) -> dict[Partition, ObservedMember]:
    """Return all readers of each partition as one: its rack is theirs if they are all in one, else not known."""
    readers: dict[Partition, list[ObservedMember]] = {}
    for member in members:
        for topic, number in to_pairs(member.owned):
            readers.setdefault(key(topic, number), []).append(member)
    made: dict[MemberRack, ObservedMember] = {}
    result = {}
    for partition, together in readers.items():
        racks = {one.rack.rack for one in together}
        rack = together[0].rack if len(racks) == 1 else _IN_SEVERAL_RACKS
        if rack not in made:
            made[rack] = replace(together[0], id="", client_id="", client_host="", rack=rack, owned=no_partitions())
        result[partition] = made[rack]
    return result


def streams(described: Any, *, racks: RackSettings, cluster: ClusterView, hosts: Hosts = NO_HOSTS) -> ObservedGroup:
    """Convert a KIP-1071 group of StreamsGroupDescribe: its active tasks, as partitions of their source topics."""
    sources = streams_members.topics_by_subtopology(described)
    topics = topics_of_streams(described)
    return ObservedGroup(
        group=str(described.group_id),
        kind="streams",
        state=described.group_state,
        assignor="streams",
        members=tuple(
            _described(
                raw,
                racks=racks,
                hosts=hosts,
                topics=topics,
                owned=_tasks(raw.assignment.active_tasks, sources, cluster),
                client=streams_members.from_description(raw),
            )
            for raw in described.members
        ),
        note="" if sources or not described.members else "its topology is not initialised",
        tasks=streams_members.of_topology(described, cluster),
    )


def topics_of_streams(described: Any) -> frozenset[str]:
    """Return every topic that the application reads; its tasks cannot be read before these are polled."""
    return frozenset(topic for read in streams_members.topics_by_subtopology(described).values() for topic in read)


def _tasks(tasks: Iterable[Any], sources: Mapping[str, tuple[str, ...]], cluster: ClusterView) -> TopicPartitions:
    """Return the tasks' partitions: each task's of every source topic of its subtopology that has that number."""
    pairs = sorted(
        (topic, int(number))
        for task in tasks
        for topic in sources.get(str(task.subtopology_id), ())
        for number in task.partitions
        if cluster.partition(topic, int(number)) is not None
    )
    return from_pairs(pairs) if pairs else no_partitions()


def _described(  # noqa: PLR0913 - what the brokers say, and what follows from it, all named
    raw: Any,
    *,
    racks: RackSettings,
    hosts: Hosts,
    topics: frozenset[str],
    owned: TopicPartitions,
    client: StreamsClient | None = None,
) -> ObservedMember:
    """Convert a member of a group that brokers assign; `client` is what Kafka Streams adds."""
    host = host_of(raw.client_host)
    rack = member_rack(
        racks,
        rack_id=raw.rack_id,
        client_id=raw.client_id,
        client_host=host,
        tags=client.tags if client is not None else (),
        hosts=hosts,
    )
    return ObservedMember(
        id=raw.member_id,
        instance_id=getattr(raw, "instance_id", None),  # share groups have no static members
        client_id=raw.client_id,
        client_host=host,
        rack=rack,
        topics=topics,
        owned=owned,
        sessions=_is_java(raw.client_id, streams=client is not None),
        streams=client,
    )


def _is_java(client_id: str, *, streams: bool) -> bool:
    """Return whether a client is Java's: its default `client.id` is `consumer-GROUP-NUMBER`; Streams is Java."""
    return streams or client_id.startswith("consumer-")


def only_listed(listed: ListedGroup) -> ObservedGroup:
    """Convert a group that could not be described: no more than its listing is known."""
    return ObservedGroup(
        group=listed.group,
        kind=_KINDS.get(listed.type, "other"),
        state=listed.state or "Unknown",
        owned_known=False,
        note=f"group type {listed.type or 'unknown'}: it could not be described",
    )


_KINDS: Final[Mapping[str, GroupKind]] = {
    "classic": "classic",
    "consumer": "consumer",
    "streams": "streams",
    "share": "share",
}
