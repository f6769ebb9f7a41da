"""The brokers' metadata as immutable values, and the rules for when a change of it counts.

A rack is known, unset, or unknown (its broker is absent from metadata). `settle` compares replica by replica: unknown
is never a change, and a change must persist before it counts, so a restarted broker changes nothing (KAFKA-20778).
Time is an argument; this module must use no client and no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar


class NoRack(Enum):
    """Why a broker's rack has no name."""

    UNSET = "unset"
    UNKNOWN = "unknown"


Rack: TypeAlias = str | NoRack
NO_LEADER: Final = -1
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition as metadata shows it: broker ids; `leader` is NO_LEADER while there is none."""

    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRacks:
    """The racks that brokers have.

    `complete` is whether that of every broker is known, of those with a replica too: an absent one may have any rack.
    """

    names: frozenset[str] = frozenset()
    complete: bool = False


@dataclass(frozen=True, kw_only=True)  # without slots, for what is computed once
class ClusterView:
    """The result of one poll of the cluster: the racks of the brokers in metadata, and the topics of interest.

    `topics` are those that exist, `absent` those that were asked for and do not, `refused` those that the agent is not
    allowed to see, whether they exist or not. A topic in none of them was not asked for. `cluster_id` is empty if
    brokers do not return it.
    """

    brokers: Mapping[int, Rack]
    topics: Mapping[str, tuple[PartitionView, ...]]
    absent: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    cluster_id: str = ""

    def partition(self, topic: str, number: int) -> PartitionView | None:
        """Return one partition; None where metadata does not have it."""
        views = self.topics.get(topic, ())
        return views[number] if 0 <= number < len(views) else None

    @cached_property
    def racks(self) -> BrokerRacks:
        """The racks of the brokers."""
        return _racks_of(self.brokers, self.topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledPartition:
    """The replicas that count as readable, and the leader, whose rack counts if only leaders serve reads."""

    leader: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)  # without slots, as `ClusterView`
class SettledCluster:
    """The input of planning: the last racks and replicas that persisted; the same object while nothing changes.

    A deleted topic, or one absent since the first poll, is kept without partitions; a topic that was never polled is
    not contained.
    """

    brokers: Mapping[int, Rack] = field(default_factory=lambda: MappingProxyType({}))
    topics: Mapping[str, tuple[SettledPartition, ...]] = field(default_factory=lambda: MappingProxyType({}))

    @cached_property
    def racks(self) -> BrokerRacks:
        """The racks of the brokers."""
        return _racks_of(self.brokers, self.topics)


def _racks_of(
    brokers: Mapping[int, Rack], topics: Mapping[str, tuple[PartitionView | SettledPartition, ...]]
) -> BrokerRacks:
    placed = {broker for partitions in topics.values() for partition in partitions for broker in partition.replicas}
    named = {broker: rack for broker, rack in brokers.items() if isinstance(rack, str)}
    return BrokerRacks(
        names=frozenset(named.values()), complete=bool(brokers) and placed | brokers.keys() <= named.keys()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One settled change, for the log: its kind, where it is, and the values before and after."""

    kind: str
    where: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlingTimes:
    """How long a change must persist, in seconds.

    `leader` is for a leader that moved away from the preferred replica without a change of replicas: usually a
    restart, and leadership returns within `leader.imbalance.check.interval.seconds` (300 by default).
    """

    change: float
    leader: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """The state of `settle`: what counts now, what was seen last, and since when pending changes are seen."""

    settled: SettledCluster = field(default_factory=SettledCluster)
    seen: ClusterView = field(default_factory=lambda: ClusterView(brokers={}, topics={}))
    pending_brokers: Mapping[int, tuple[Rack, float]] = field(default_factory=dict)
    pending_partitions: Mapping[tuple[str, int], tuple[SettledPartition, float]] = field(default_factory=dict)
    pending_deletions: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    """Topics that have fewer partitions than before, or are deleted: how many they have now, and since when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledView:
    """The result of one step: the new state, what changed in it, and what was seen but does not count (by reason)."""

    state: Settling
    changes: tuple[Change, ...]
    ignored: tuple[str, ...]


def settle(state: Settling, view: ClusterView, now: float, times: SettlingTimes) -> SettledView:
    """Add one poll: adopts what persisted, and store since when the rest is pending.

    New topics, new partitions and brokers seen for the first time are adopted at once; everything else waits. A topic
    with fewer partitions than before keeps its partitions until the missing ones have been missing for long enough: a
    broker that has just started may return old metadata, and another broker may answer the next poll.
    Complexity: linear in brokers and topics; partitions are compared only in topics that differ from the last poll or
    have a pending change.
    """
    brokers, pending_brokers, broker_changes = _settle_brokers(state, view, now, times)
    topics, pending_partitions, deletions, topic_changes = _settle_topics(state, view, now, times)
    changed = brokers != state.settled.brokers or topics is not state.settled.topics
    settled = (
        SettledCluster(brokers=MappingProxyType(brokers), topics=MappingProxyType(dict(topics)))
        if changed
        else state.settled
    )
    gone = state.seen.brokers.keys() - view.brokers.keys()
    new_state = replace(
        state,
        settled=settled,
        seen=view,
        pending_brokers=pending_brokers,
        pending_partitions=pending_partitions,
        pending_deletions=deletions,
    )
    return SettledView(
        state=new_state, changes=(*broker_changes, *topic_changes), ignored=("broker-absent",) * len(gone)
    )


def _settle_brokers(
    state: Settling, view: ClusterView, now: float, times: SettlingTimes
) -> tuple[dict[int, Rack], dict[int, tuple[Rack, float]], list[Change]]:
    brokers = dict(state.settled.brokers)
    pending: dict[int, tuple[Rack, float]] = {}
    changes: list[Change] = []
    for broker, rack in view.brokers.items():
        known = brokers.get(broker, NoRack.UNKNOWN)
        if rack is NoRack.UNKNOWN or rack == known:
            continue
        if known is NoRack.UNKNOWN:
            brokers[broker] = rack
            continue
        since = _pending_since(state.pending_brokers, broker, rack, now)
        if now - since < times.change:
            pending[broker] = (rack, since)
            continue
        brokers[broker] = rack
        changes.append(Change(kind="broker-rack", where=f"broker {broker}", before=_name(known), after=_name(rack)))
    return brokers, pending, changes


def _settle_topics(
    state: Settling, view: ClusterView, now: float, times: SettlingTimes
) -> tuple[
    Mapping[str, tuple[SettledPartition, ...]],
    dict[tuple[str, int], tuple[SettledPartition, float]],
    dict[str, tuple[int, float]],
    list[Change],
]:
    old = state.settled.topics
    updates: dict[str, tuple[SettledPartition, ...]] = {}
    pending: dict[tuple[str, int], tuple[SettledPartition, float]] = {}
    changes: list[Change] = []
    waiting = {topic for topic, _ in state.pending_partitions} | state.pending_deletions.keys()
    missing, gone = _settle_deletions(state, view, now, times)
    for topic, partitions in view.topics.items():
        known = old.get(topic)
        if known is not None and topic not in waiting and state.seen.topics.get(topic) == partitions:
            continue
        after = []
        for number, seen in enumerate(partitions):
            before = known[number] if known is not None and number < len(known) else None
            candidate = _candidate(seen, before)
            if before is None or candidate == before:
                after.append(candidate)
                continue
            since = _pending_since(state.pending_partitions, (topic, number), candidate, now)
            away = candidate.replicas == before.replicas and candidate.leader != seen.replicas[0]
            wait = times.leader if away else times.change
            if now - since < wait:
                pending[topic, number] = (candidate, since)
                after.append(before)
            else:
                after.append(candidate)
                changes.append(_partition_change(topic, number, before, candidate))
        if known is not None and topic not in gone:
            after.extend(known[len(after) :])
        if known is not None and len(known) != len(after):
            changes.append(Change(kind="partition-count", where=topic, before=str(len(known)), after=str(len(after))))
        if known != tuple(after):
            updates[topic] = tuple(after)
    for topic in gone - view.topics.keys():
        updates[topic] = ()
        if topic in old:
            changes.append(Change(kind="topic-gone", where=topic, before=str(len(old[topic])), after="0"))
    return {**old, **updates} if updates else old, pending, missing, changes


def _settle_deletions(
    state: Settling, view: ClusterView, now: float, times: SettlingTimes
) -> tuple[dict[str, tuple[int, float]], frozenset[str]]:
    """Return topics with fewer partitions than before and since when, and those for which that has persisted."""
    old = state.settled.topics
    missing = {topic: 0 for topic in sorted(view.absent) if topic not in old or old[topic]}
    missing |= {topic: len(seen) for topic, seen in view.topics.items() if len(seen) < len(old.get(topic, ()))}
    pending: dict[str, tuple[int, float]] = {}
    gone = set()
    for topic, count in missing.items():
        since = _pending_since(state.pending_deletions, topic, count, now)
        if now - since >= times.change:
            gone.add(topic)
        else:
            pending[topic] = (count, since)
    return pending, frozenset(gone)


def _pending_since(pending: Mapping[_Key, tuple[_Value, float]], key: _Key, value: _Value, now: float) -> float:
    """Return since when a change to this value is pending: now, unless the last poll showed the same value."""
    last, since = pending.get(key, (value, now))
    return since if last == value else now


def _candidate(seen: PartitionView, before: SettledPartition | None) -> SettledPartition:
    """Return what the partition would settle to; an added replica counts from when it was first in sync.

    In the first poll all replicas count, as for Kafka's own assignors (KIP-881): one that is out of sync then is
    usually on a broker that was restarted, and partitions would move away from it and back.
    """
    counted = before.replicas if before is not None else seen.replicas
    replicas = tuple(replica for replica in seen.replicas if replica in seen.in_sync or replica in counted)
    if seen.leader != NO_LEADER:
        leader = seen.leader
    elif before is not None and before.leader in seen.replicas:
        leader = before.leader
    else:
        leader = seen.replicas[0] if seen.replicas else NO_LEADER
    if before is not None and set(replicas) == set(before.replicas):
        replicas = before.replicas
    return SettledPartition(leader=leader, replicas=replicas)


def _partition_change(topic: str, number: int, before: SettledPartition, after: SettledPartition) -> Change:
    kind = "leader" if before.replicas == after.replicas else "replicas"
    return Change(
        kind=kind,
        where=f"{topic}-{number}",
        before=f"{before.leader} of {list(before.replicas)}",
        after=f"{after.leader} of {list(after.replicas)}",
    )


def _name(rack: Rack) -> str:
    return rack if isinstance(rack, str) else rack.value


def replica_racks(cluster: SettledCluster, topic: str) -> tuple[tuple[str | None, ...], ...]:
    """Return the racks of each partition's replicas, the leader's first; None if a rack is unset or unknown."""
    return tuple(
        tuple(
            rack if isinstance(rack := cluster.brokers.get(broker, NoRack.UNKNOWN), str) else None
            for broker in (
                partition.leader,
                *(replica for replica in partition.replicas if replica != partition.leader),
            )
        )
        for partition in cluster.topics.get(topic, ())
    )


def changed_topics(before: SettledCluster, after: SettledCluster, topics: Iterable[str]) -> tuple[str, ...]:
    """Return those of the topics whose partitions, replicas or racks have changed, sorted."""
    if before is after:
        return ()
    return tuple(sorted(topic for topic in topics if replica_racks(before, topic) != replica_racks(after, topic)))
