"""Polls the brokers for one traffic cycle, in the required order, and keeps the state between cycles.

Committed offsets are requested before log sizes, so that consumed positions lie on the curve. Each kind of request may
fail alone and leaves a gap.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from samerack.cluster.racks import NO_HOSTS, Hosts
from samerack.cluster.view import NO_LEADER, ClusterView, NoRack
from samerack.cluster.wire import Wire
from samerack.common.patterns import selects
from samerack.settings.all_settings import Settings
from samerack.traffic import collect, describe, groups, probe
from samerack.traffic.collect import Keys, Offsets, Partition, TopicPolicy
from samerack.traffic.curve import Curve, LogExtent, bytes_between, extend
from samerack.traffic.describe import Commits, Listing
from samerack.traffic.groups import ListedGroup, ObservedGroup
from samerack.traffic.positions import CommitSpans, Polls, Positions, spans_of
from samerack.traffic.probe import Served
from samerack.traffic.production import Production
from samerack.traffic.sample import Sampler
from samerack.traffic.sizes import Sizes
from samerack.traffic.snapshot import Gap, ObservedMember
from samerack.traffic.timeline import Timelines

_NETWORK_BYTES_PER_SECOND: Final = 1_250_000_000
"""What one host can send or receive (10 Gbit/s): an offset that advances faster was not read."""
_PROBE_SECONDS: Final = 60.0
"""How long a leader's answer to which replica serves a rack holds, while the metadata stay the same."""
_POLICIES_SECONDS: Final = 300.0
_MISSED_POLLS: Final = 2
"""A group that is not listed is gone after so many polls that all brokers answered."""


@dataclass(slots=True, kw_only=True)
class CycleState:
    """State that one cycle passes to the next."""

    at: float | None = None
    cluster: ClusterView = field(default_factory=lambda: ClusterView(brokers={}, topics={}))
    groups: dict[str, ObservedGroup] = field(default_factory=dict)
    owners: dict[str, dict[Partition, ObservedMember]] = field(default_factory=dict)
    positions: dict[str, Positions] = field(default_factory=dict)
    missed: dict[str, int] = field(default_factory=dict)
    """In how many polls in a row no broker listed a group, while all answered."""
    with_epochs: set[str] = field(default_factory=set)
    """Groups in which some commit had a leader epoch."""
    without_epochs: set[str] = field(default_factory=set)
    """Groups in which some member commits without."""
    logs: dict[Partition, Offsets] = field(default_factory=dict)
    stable: dict[Partition, int] = field(default_factory=dict)
    curves: dict[Partition, Curve] = field(default_factory=dict)
    served: dict[str, dict[Partition, Served]] = field(default_factory=dict)
    """By rack of the readers."""
    policies: dict[str, TopicPolicy] = field(default_factory=dict)
    policies_at: float = float("-inf")
    policy_gaps: list[Gap] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Poll:
    """Everything that one cycle reads from the brokers; of groups that it misses, what the last one read."""

    listed: dict[str, ListedGroup]
    groups: dict[str, ObservedGroup]
    owners: dict[str, dict[Partition, ObservedMember]]
    commits: Commits
    spans: dict[str, CommitSpans] = field(default_factory=dict)


class BrokerPoller:
    """Polls the brokers and keeps the state between cycles; one thread drives it."""

    def __init__(self, settings: Settings, wire: Wire, hosts: Hosts = NO_HOSTS) -> None:
        self._settings = settings
        self._hosts = hosts
        self._patterns = settings.traffic.groups or settings.groups
        self._wire = wire
        self.state = CycleState()
        self.timelines = Timelines()
        self.production = Production()
        self._logs_at: float | None = None
        self._rack_aware = False
        self._keys = Keys()
        self.gaps: list[Gap] = []
        sampler = Sampler(wire=wire, rack=settings.traffic.rack, budget_bytes=settings.traffic.sample_bytes)
        self.sizes = Sizes(sampler, serving=lambda partition: self._guess(partition, settings.traffic.rack or None))

    def poll(self, *, now: float, rack_aware: bool) -> Poll:
        """Poll everything once.

        Raises:
            AgentError: No broker can be reached at all.
        """
        self.gaps, self._rack_aware = [], rack_aware
        poll = self._poll_groups()
        led, logs_before = self._led(poll), self._before_first_commits(poll)
        self._poll_policies(now=now)
        self._poll_logs(led, now=now, unread=Unread(self.state.positions, poll.commits.offsets))
        self._poll_stable(poll.commits.offsets)
        self._poll_serving(poll, now=now)
        poll.spans = self._spans(poll, logs_before, now=now)
        self._sample_logs(poll)
        return poll

    def _led(self, poll: Poll) -> dict[int, list[Partition]]:
        """Return the partitions that groups own or have committed, by leader."""
        wanted = {
            partition for group in poll.groups for partition in (*poll.owners[group], *self.committed(poll, group))
        }
        return collect.leaders(self.state.cluster, sorted(wanted))

    def _before_first_commits(self, poll: Poll) -> dict[Partition, Offsets]:
        """Return the logs of the last poll of those partitions that a group has committed since for the first time."""
        positions, logs = self.state.positions, self.state.logs
        return {
            partition: logs[partition]
            for name, offsets in poll.commits.offsets.items()
            for partition in offsets.keys() - positions.get(name, {}).keys()
            if partition in logs
        }

    def done(self, poll: Poll, now: float | None) -> None:
        """Store a poll for the next one, whose spans begin at `now`."""
        state = self.state
        state.at, state.groups, state.owners = now, poll.groups, poll.owners
        state.positions = {name: spans.positions for name, spans in poll.spans.items() if spans.positions is not None}

    def forget(self) -> None:
        """Forget all polls, as before the first one."""
        self.state, self.timelines = CycleState(), Timelines()
        self._logs_at, self._keys = None, Keys()

    def committed(self, poll: Poll, group: str) -> Mapping[Partition, int]:
        """Return a group's commits; the last known ones where they could not be requested this time."""
        if (offsets := poll.commits.offsets.get(group)) is not None:
            return offsets
        return {partition: one.committed for partition, one in self.state.positions.get(group, {}).items()}

    def serving(self, partition: Partition, member: ObservedMember | None) -> int | None:
        """Return the broker that serves a member, or the leader without a member; None where unknown."""
        rack = member.rack.rack if member is not None and member.rack.fetches_with_rack else None
        if rack is not None:
            served = self.state.served.get(rack, {}).get(partition)
            if served is not None:
                return served.broker
        return self._guess(partition, rack)

    def _guess(self, partition: Partition, rack: str | None) -> int | None:
        """Return the broker that serves a rack by the rule; None where there is none, or the partition is unknown."""
        view = self.state.cluster.partition(*partition)
        return None if view is None else probe.guess(self.state.cluster, view, rack, rack_aware=self._rack_aware)

    def rack_of(self, broker: int | None) -> str:
        """Return the rack of a broker, "" where unknown."""
        rack = self.state.cluster.brokers.get(broker, NoRack.UNKNOWN) if broker is not None else NoRack.UNKNOWN
        return rack if isinstance(rack, str) else ""

    def _poll_groups(self) -> Poll:
        state, racks, hosts = self.state, self._settings.racks, self._hosts
        if not state.cluster.brokers:
            state.cluster, gaps = collect.metadata(self._wire, ())
            self.gaps += gaps
        listing = describe.listed(self._wire, sorted(state.cluster.brokers), self._patterns)
        listed = listing.groups
        self.gaps += listing.gaps
        missed = self._missed(listing)
        agent = self._settings.leading.instance_id
        described = describe.described(
            self._wire,
            listed.values(),
            read={
                "classic": lambda raw: self._placed(groups.classic(raw, racks=racks, agent=agent, hosts=hosts)),
                "consumer": lambda raw: self._placed(groups.managed(raw, racks=racks, hosts=hosts)),
                "share": lambda raw: self._placed(groups.share(raw, racks=racks, hosts=hosts)),
            },
        )
        self.gaps += described.gaps
        commits = describe.committed(self._wire, listed.values(), self._keys, before=state.positions)
        self.gaps += commits.gaps
        known = listed.keys() | missed.keys()
        state.with_epochs = state.with_epochs & known | commits.with_epochs
        state.without_epochs &= known
        found = described.groups
        topics = {topic for group in found for member in group.members for topic in member.topics}
        topics |= {topic for offsets in commits.offsets.values() for topic, _ in offsets}
        topics |= {topic for name in missed for topic, _ in state.positions.get(name, ())}
        topics |= {topic for group in missed.values() for member in group.members for topic in member.topics}
        topics |= {topic for one in described.streams for topic in groups.topics_of_streams(one)}
        self._poll_topics(topics)
        streams = (groups.streams(one, racks=racks, cluster=state.cluster, hosts=hosts) for one in described.streams)
        # once more: only now the replicas are known, which show whether a broker is away
        observed = {group.group: self._placed(group) for group in (*found, *streams, *missed.values())}
        observed |= {name: groups.only_listed(one) for name, one in listed.items() if name not in observed}
        owners = {name: self._owners(group) for name, group in observed.items()}
        return Poll(listed=listed, groups=observed, owners=owners, commits=commits)

    def _missed(self, listing: Listing) -> dict[str, ObservedGroup]:
        """Return the groups that no broker lists at present: they are gone when all have answered so twice.

        A coordinator that is starting or out of reach hides its groups for seconds.
        """
        state = self.state
        all_answered = state.cluster.brokers.keys() <= listing.brokers
        counts = {name: state.missed.get(name, 0) + all_answered for name in state.groups if name not in listing.groups}
        state.missed = {name: count for name, count in counts.items() if count < _MISSED_POLLS}
        return {name: state.groups[name] for name in state.missed}

    def _spans(self, poll: Poll, logs_before: Mapping[Partition, Offsets], *, now: float) -> dict[str, CommitSpans]:
        state = self.state
        # a member that stayed has committed it itself: no tool can while the group has members
        state.without_epochs |= {
            name
            for name, bare in poll.commits.bare.items()
            for partition in bare
            if (owner := poll.owners.get(name, {}).get(partition)) is not None
            and (before := state.owners.get(name, {}).get(partition)) is not None
            and owner.id == before.id
        }
        return {name: self._spans_of(name, poll, logs_before, now=now) for name in poll.owners}

    def _spans_of(self, name: str, poll: Poll, logs_before: Mapping[Partition, Offsets], *, now: float) -> CommitSpans:
        state, owners, listed = self.state, poll.owners[name], poll.listed.get(name)
        offsets = poll.commits.offsets.get(name)
        if offsets is None:
            return CommitSpans(positions=state.positions.get(name))

        def carriers(partition: Partition) -> tuple[object, ...]:
            owner, view = owners.get(partition), state.cluster.partition(*partition)
            return owner.id if owner is not None else "", view.leader if view is not None else NO_LEADER

        return spans_of(
            Polls(
                before=state.positions.get(name),
                now=offsets,
                at=now,
                unanswered=poll.commits.failed.get(name, frozenset()),
                owned_before=state.owners.get(name, {}).keys(),
                owned=owners.keys(),
                logs_before=logs_before,
                logs=state.logs,
                bare=poll.commits.bare.get(name, frozenset()),
                commits_have_epochs=name in state.with_epochs and name not in state.without_epochs,
                without_members=listed is not None and not listed.protocol_type and not owners,
                reads_alone=selects(self._settings.traffic.readers_without_members, name),
                carriers=carriers,
                record_bytes=self._record_bytes,
                network=_NETWORK_BYTES_PER_SECOND,
            )
        )

    def _record_bytes(self, partition: Partition) -> float:
        curve = self.state.curves.get(partition)
        return curve.density if curve is not None else 0.0

    def _owners(self, group: ObservedGroup) -> dict[Partition, ObservedMember]:
        """Return the partitions' owners; while members do not show them, the last known."""
        before = self.state.owners.get(group.group, {})
        if not group.owned_known:
            return before
        if group is self.state.groups.get(group.group):
            return before
        return group.owners(self._keys)

    def _placed(self, group: ObservedGroup) -> ObservedGroup:
        """Return the group with racks that brokers have, and the object of the last poll where nothing changed.

        What was computed for that stays valid.
        """
        group = groups.placed(group, self.state.cluster.racks)
        before = self.state.groups.get(group.group)
        return before if before == group else group

    def _poll_topics(self, topics: Iterable[str]) -> None:
        cluster, gaps = collect.metadata(self._wire, frozenset(topics))
        self.gaps += gaps
        if cluster.brokers and cluster != self.state.cluster:
            self.state.cluster = cluster

    def _poll_logs(self, led: Mapping[int, list[Partition]], *, now: float, unread: Unread) -> None:
        state = self.state
        sizes, gaps = collect.log_sizes(self._wire, led, self._keys)
        self.gaps += gaps
        logs, gaps = collect.offsets(self._wire, led, self._keys)
        self.gaps += gaps
        tiered = {topic for topic, policy in state.policies.items() if policy.tiered}
        led_tiered = {broker: [one for one in some if one[0] in tiered] for broker, some in led.items()}
        local = collect.local_starts(self._wire, led_tiered, self._keys)
        curves, grown, appended, known = state.curves, list[Partition](), array("d"), 0
        for leader, partitions in led.items():
            for partition in partitions:
                log, size = logs.get(partition), sizes.pop(partition, None)
                before = curve = curves.get(partition)
                if log is not None and size is not None:
                    extent = LogExtent(
                        start=max(log.start, local.get(partition, log.start)),
                        end=log.end,
                        size_bytes=size,
                        leader=leader,
                        remote_start=log.start,
                    )
                    lowest = unread.lowest(partition)
                    curve = extend(curve, extent, needed_from=log.end if lowest is None else lowest)
                if curve is not None:
                    curves[partition] = curve  # in place: each curve makes way for the next one
                    known += 1
                    if before is not None:
                        grown.append(partition)
                        appended.append(bytes_between(curve, before.extent.end, curve.extent.end))
        if len(curves) > known:
            for gone in curves.keys() - {partition for partitions in led.values() for partition in partitions}:
                del curves[gone]
        self.production.polled(grown, appended, now - self._logs_at if self._logs_at is not None else 0.0)
        self._logs_at = now
        state.logs = logs
        self.timelines.polled(logs, now=now)
        self._keys.keep(curves)

    def _poll_stable(self, committed: Mapping[str, Mapping[Partition, int]]) -> None:
        """Ask how far reads get where a group seems to stand still: an open transaction may hold it up."""
        state = self.state
        still = {
            partition
            for group, offsets in committed.items()
            for partition, offset in offsets.items()
            if (position := state.positions.get(group, {}).get(partition)) is not None
            and offset == position.committed
            and partition in state.logs
            and offset < state.logs[partition].end
        }
        state.stable = collect.stable_offsets(self._wire, collect.leaders(state.cluster, sorted(still)), self._keys)

    def _poll_serving(self, poll: Poll, *, now: float) -> None:
        state = self.state
        readers: dict[str, set[Partition]] = {}
        for owners in poll.owners.values():
            for partition, member in owners.items():
                if member.rack.rack is not None and member.rack.fetches_with_rack:
                    readers.setdefault(member.rack.rack, set()).add(partition)
        due = probe.due(readers, state.served, state.cluster, now=now)
        found, gaps = probe.probe(self._wire, due, state.cluster, state.logs)
        self.gaps += gaps
        settled = probe.settle(
            found,
            state.served,
            state.cluster,
            now=now,
            rack_aware=self._rack_aware,
            seconds=_PROBE_SECONDS,
        )
        state.served = {
            rack: {one: served for one, served in state.served.get(rack, {}).items() if one in partitions}
            for rack, partitions in readers.items()
        }
        for (partition, rack), served in settled.items():
            state.served.setdefault(rack, {})[partition] = served

    def _poll_policies(self, *, now: float) -> None:
        state = self.state
        topics = state.cluster.topics.keys()
        new = topics - state.policies.keys()
        if now - state.policies_at >= _POLICIES_SECONDS:
            new, state.policies_at = set(topics), now
        if new:
            known, gaps = collect.policies(self._wire, new)
            state.policy_gaps = gaps + [gap for gap in state.policy_gaps if gap.where in topics - new]
            found = state.policies | dict.fromkeys(new, TopicPolicy()) | known
            state.policies = {topic: policy for topic, policy in found.items() if topic in topics}
        self.gaps += state.policy_gaps  # requested rarely, and still true in between

    def _sample_logs(self, poll: Poll) -> None:
        spans = [span for group in poll.spans.values() for span in group.spans]
        compacted = {topic for topic, policy in self.state.policies.items() if policy.compacted}
        self.gaps += self.sizes.prepare(spans, self.state.curves, compacted=compacted)
        self.gaps += self.sizes.sample_batches(spans, self.state.curves)


class Unread:
    """From where on groups may still have to be counted, by what they had committed at a poll and at the one before.

    It is looked up by topic: a table of all partitions would be another one of hundreds of thousands.
    """

    def __init__(self, before: Mapping[str, Positions], now: Mapping[str, Mapping[Partition, int]]) -> None:
        self._before, self._now = before, now
        self._readers: dict[str, set[str]] = {}
        for read in (before, now):
            for name, partitions in read.items():
                for topic in {topic for topic, _ in partitions}:
                    self._readers.setdefault(topic, set()).add(name)

    def lowest(self, partition: Partition) -> int | None:
        """Return the lowest offset of any group; None for a partition that no group has committed."""
        lowest: int | None = None
        for name in self._readers.get(partition[0], ()):
            begin, committed = self._before.get(name, {}).get(partition), self._now.get(name, {}).get(partition)
            if begin is not None:
                first = begin.held.first if begin.held is not None else begin.offset
                lowest = first if lowest is None else min(lowest, first)
            if committed is not None:
                lowest = committed if lowest is None else min(lowest, committed)
        return lowest
