"""Makes KIP-924's `ApplicationState` of a live Kafka Streams application, and says what of it is not known.

A client's rack is where any source finds it, though Kafka's own assignors see only that of its subscription. A replica
is near where the brokers serve from it: with a rack-aware selector in the rack of any replica, else of the leader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from samerack.assignors.streams.application import (
    LATEST_OFFSET,
    ApplicationState,
    AssignmentConfigs,
    KafkaStreamsState,
    ProcessId,
    TaskId,
    TaskInfo,
    TaskTopicPartition,
)
from samerack.assignors.streams.assignment import KafkaStreamsAssignment, assignment_of
from samerack.cluster.racks import placed
from samerack.cluster.view import BrokerRacks, ClusterView
from samerack.traffic.streams_instances import (
    Changelog,
    Instance,
    Instances,
    KnownBy,
    Unknown,
    is_internal,
    topics_read,
)

NO_STATE: Final = 2**62
"""Lag of a client without state where the end offsets are not known: above any `acceptable.recovery.lag`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveApplication:
    """A live application: its clients, the same as an assignor sees them, and what they have at present.

    `changelogs_known`: whether every changelog has its subtopology; else plans treat all places alike for those that
    have none. `end_offsets_known`: whether the end of every changelog is known, so that lags are.
    """

    instances: tuple[Instance, ...]
    state: ApplicationState
    present: Mapping[ProcessId, KafkaStreamsAssignment]
    changelogs: tuple[Changelog, ...]
    changelogs_known: bool
    end_offsets_known: bool
    unknown: tuple[Unknown, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Brokers:
    """What the brokers say about an application's topics, with the known ends of its changelogs' partitions.

    `rack_aware_fetch`: whether they serve from the reader's rack; None if that is not known: then leaders count.
    """

    cluster: ClusterView
    rack_aware_fetch: bool | None
    end_offsets: Mapping[tuple[str, int], int]

    def racks_of(self, topic: str, number: int, *, any_replica: bool) -> frozenset[str] | None:
        """Return the racks from which a partition is served; None if a rack among them is not known."""
        view = self.cluster.partition(topic, number)
        if view is None:
            return None
        brokers = {view.leader, *view.replicas} if any_replica else {view.leader}
        racks = [self.cluster.brokers.get(broker) for broker in brokers]
        known = frozenset(rack for rack in racks if isinstance(rack, str))
        return known if known and all(isinstance(rack, str) for rack in racks) else None


def application_of(
    found: Instances, changelogs: Sequence[Changelog], brokers: Brokers, configs: AssignmentConfigs
) -> LiveApplication:
    """Return an application as its assignors would see it; `configs` are the plan's settings: no metadata has them."""
    logs: dict[int, list[Changelog]] = {}
    unplaced = [changelog for changelog in changelogs if changelog.subtopology is None]
    for changelog in changelogs:
        if changelog.subtopology is not None:
            logs.setdefault(changelog.subtopology, []).append(changelog)
    stateful = found.stateful | logs.keys()
    infos = {
        task: _info(task, partitions, logs, brokers, stateful=task.subtopology in stateful)
        for task, partitions in found.sources
    }
    ends, ends_known = _ends(infos, brokers.end_offsets)
    unknown = [
        *found.unknown,
        *_of_changelogs(unplaced),
        *_of_tables(found, logs, stateful),
        *_of_lags(found.clients, infos),
    ]
    if not ends_known:
        unknown.append(
            Unknown(
                what="lags of clients without a task",
                cause="the end offsets of some changelogs are not known: clients without state count as far behind",
            )
        )
    racks = brokers.cluster.racks
    states = {client.process: _client(client, infos, ends, racks) for client in found.clients}
    return LiveApplication(
        instances=found.clients,
        state=ApplicationState(states=states, all_tasks=infos, assignment_configs=configs),
        present={
            client.process: assignment_of(
                client.process,
                active=client.active & infos.keys(),
                standby=(client.standby - client.active) & infos.keys(),
            )
            for client in found.clients
        },
        changelogs=tuple(changelogs),
        changelogs_known=not any(one.candidates for one in unplaced)
        and all(task.subtopology in logs for task in infos if task.subtopology in stateful),
        end_offsets_known=ends_known,
        unknown=(*unknown, *_of_racks(found.clients, infos, racks)),
    )


def standbys_now(found: Instances) -> int:
    """Return how many standbys most tasks have that have any: `num.standby.replicas`, unless many warm up."""
    counts = Counter(task for client in found.clients for task in client.standby - client.active)
    return max(Counter(counts.values()).items(), key=lambda item: (item[1], -item[0]), default=(0, 0))[0]


def _info(
    task: TaskId,
    sources: tuple[tuple[str, int], ...],
    logs: Mapping[int, list[Changelog]],
    brokers: Brokers,
    *,
    stateful: bool,
) -> TaskInfo:
    """Return a task; a changelog whose partition is not known is near everywhere, so that it decides nothing."""
    own = {
        (one.topic, task.partition)
        for one in logs.get(task.subtopology, ())
        if one.known_by is not KnownBy.SOURCE or (one.topic, task.partition) in sources
    }
    any_replica = bool(brokers.rack_aware_fetch)
    parts = [
        TaskTopicPartition(
            topic=topic,
            partition=number,
            is_source=(topic, number) in sources,
            is_changelog=(topic, number) in own,
            racks=brokers.racks_of(topic, number, any_replica=any_replica),
        )
        for topic, number in sorted({*sources, *own})
    ]
    if stateful and not own:
        everywhere = frozenset(rack for rack in brokers.cluster.brokers.values() if isinstance(rack, str))
        name = f"(changelog of subtopology {task.subtopology})"
        parts.append(
            TaskTopicPartition(
                topic=name, partition=task.partition, is_source=False, is_changelog=True, racks=everywhere
            )
        )
    return TaskInfo(id=task, is_stateful=stateful, topic_partitions=tuple(parts))


def _ends(
    infos: Mapping[TaskId, TaskInfo], end_offsets: Mapping[tuple[str, int], int]
) -> tuple[dict[TaskId, int], bool]:
    """Return the summed end offsets of the changelogs of each stateful task, and whether all are known."""
    sums: dict[TaskId, int] = {}
    known = True
    for task, info in infos.items():
        if info.is_stateful:
            logs = [(part.topic, part.partition) for part in info.topic_partitions if part.is_changelog]
            ends = [end_offsets.get(partition) for partition in logs]
            sums[task] = sum(end for end in ends if end is not None) if None not in ends else NO_STATE
            known = known and None not in ends
    return sums, known


def _client(
    one: Instance, infos: Mapping[TaskId, TaskInfo], ends: Mapping[TaskId, int], brokers: BrokerRacks
) -> KafkaStreamsState:
    # also one that no broker has: an application's own assignor plans with it
    racks = list(dict.fromkeys(placed(member.rack, brokers).named for member in one.members))
    tags = {key: value for member in one.members if member.streams for key, value in member.streams.tags}
    active, standby = one.active & infos.keys(), (one.standby - one.active) & infos.keys()
    consumers = tuple(sorted({member.client_id for member in one.members}))
    return KafkaStreamsState(
        process_id=one.process,
        num_processing_threads=len(one.members),
        consumer_client_ids=consumers,
        previous_active_tasks=active,
        previous_standby_tasks=standby,
        previous_tasks_by_consumer={consumers[0]: active | standby},
        lags={task: _lag(task, one, end) for task, end in ends.items()},
        client_tags=tags,
        rack_id=racks[0] if len(racks) == 1 else None,
        contradicting_racks=tuple(rack or "" for rack in racks) if len(racks) > 1 else (),
    )


def _lag(task: TaskId, one: Instance, end: int) -> int:
    """Return a lag as Kafka computes it; a standby of a stable group counts as caught up."""
    if task in one.active:
        return LATEST_OFFSET
    if task in one.standby:
        return 0
    offsets = one.offset_sums.get(task, 0)
    if offsets < 0:
        return end
    return end - offsets if end >= offsets else end


def _of_changelogs(unplaced: Iterable[Changelog]) -> list[Unknown]:
    return [
        Unknown(
            what=f"changelog {one.topic}",
            cause=(
                f"subtopologies {', '.join(map(str, one.candidates))} have {one.partitions} tasks each, and the "
                f"group's metadata does not say which one it belongs to; give --changelog {one.topic}=SUBTOPOLOGY"
            )
            if one.candidates
            else f"no subtopology has {one.partitions} tasks: it may be left from an older topology; give "
            f"--changelog {one.topic}=SUBTOPOLOGY if it is not",
        )
        for one in unplaced
    ]


def _of_tables(found: Instances, logs: Mapping[int, list[Changelog]], stateful: Iterable[int]) -> list[Unknown]:
    """Return the subtopologies with state of which sources may serve as changelogs: no protocol says which do."""
    read = topics_read(found.sources)
    result = []
    for part in sorted(stateful):
        named = {one.topic for one in logs.get(part, ())}
        tables = sorted(topic for topic in read.get(part, ()) if topic not in named and not is_internal(topic))
        if tables:
            each = " ".join(f"--changelog {topic}={part}" for topic in tables)
            result.append(
                Unknown(
                    what=f"further changelogs of subtopology {part}" if named else f"changelogs of subtopology {part}",
                    cause=f"a table reuses its source topic with topology.optimization=all, and the group does not say "
                    f"so: standbys then read more than is counted here; if one of these is such a table, give {each}",
                )
            )
    return result


def _of_lags(clients: Iterable[Instance], infos: Mapping[TaskId, TaskInfo]) -> list[Unknown]:
    standbys = sum(len((client.standby - client.active) & infos.keys()) for client in clients)
    if not standbys:
        return []
    return [
        Unknown(
            what=f"lags of {standbys} standbys",
            cause="members report them only when they join; those that keep a standby now count as caught up",
        )
    ]


def _of_racks(clients: Sequence[Instance], infos: Mapping[TaskId, TaskInfo], brokers: BrokerRacks) -> list[Unknown]:
    found = [
        Unknown(
            what=f"rack of client {client.process}",
            cause="no source knows it; set client.rack there, or racks.client_ids or racks.networks here",
        )
        for client in clients
        if all(member.rack.named is None for member in client.members)
    ]
    found += [
        Unknown(
            what=f"rack of client {client.process}",
            cause=f"no broker has the rack {foreign!r}: it reads across racks whatever the plan, or the name is "
            f"misspelt; brokers are in {', '.join(map(repr, sorted(brokers.names)))}",
        )
        for client in clients
        for foreign in sorted(filter(None, {placed(member.rack, brokers).foreign for member in client.members}))
    ]
    parts = {
        (part.topic, part.partition) for info in infos.values() for part in info.topic_partitions if not part.racks
    }
    if parts:
        topic, number = min(parts)
        found.append(
            Unknown(
                what=f"racks of {len(parts)} partitions, {topic}-{number} among them",
                cause="a broker with a replica is away or has no broker.rack, or the topic cannot be described",
            )
        )
    return found
