"""Polls the brokers for one traffic cycle, in the required order, and keeps the state between cycles.

Committed offsets are requested before log sizes, so that consumed positions lie on the curve. Each kind of request may
fail alone and leaves a gap.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from samerack.cluster.racks import NO_HOSTS, Hosts
from samerack.cluster.view import NO_LEADER, ClusterView, NoRack
from samerack.cluster.wire import BrokerClient
from samerack.common.patterns import selects
from samerack.settings.all_settings import Settings
from samerack.traffic import collect, describe, groups, probe
from samerack.traffic.collect import Keys, Offsets, Partition, TopicPolicy
from samerack.traffic.curve import Curve, LogExtent, bytes_between, extend
from samerack.traffic.describe import Commits, Listing
from samerack.traffic.groups import ListedGroup
from samerack.traffic.lag import Timelines
from samerack.traffic.positions import CommitSpans, Polls, Positions, spans_of
from samerack.traffic.probe import Served
from samerack.traffic.sizes import Sizes
from samerack.traffic.snapshot import Flow, Gap, ObservedGroup, ObservedMember
from samerack.traffic.throughput import LONGEST_STEP_SECONDS, Production, Rates

_NETWORK_BYTES_PER_SECOND: Final = 1_250_000_000
"""What one host can send or receive (10 Gbit/s): an offset that advances faster was not read."""
_PROBE_SECONDS: Final = 60.0
"""How long a leader's answer to which replica serves a rack holds, while the metadata stay the same."""
_POLICIES_SECONDS: Final = 300.0
_RECORDS: Final = 1_000
"""Loads are whole numbers, and a partition may get few records a second: records are counted over this time."""
_MISSED_POLLS: Final = 2
"""A group that is not listed is gone after this number of polls that all brokers answered."""


@dataclass(slots=True, kw_only=True)
class GroupReading:
    """What one cycle knows of one group; of what its poll misses, what the last one knew.

    Attributes:
        group: Its description.
        owners: The owner of each partition; while members do not show them, the last known.
        committed: The commits; the last known ones where they could not be requested this time.
        commits: What this poll shows of the commits; None where they could not be requested.
        never_has_members: Whether, by its listing, what commits to it reads on its own, or copies offsets.
        missed: In how many polls in a row no broker listed it, while all answered.
        with_epochs: Whether some commit had a leader epoch, as far as was seen.
        without_epochs: Whether some member commits without.
        spans: What was read since the last poll.
        counted: The volumes of that.
        flows: The volumes in the window.
        is_whole: Whether a whole time between two commits was measured.
        exact_members: Ids of the members whose clients count their bytes; what others read is estimated.
        records: What is written to owned partitions in 1,000 seconds, if members are balanced by that.
    """

    group: ObservedGroup
    owners: Mapping[Partition, ObservedMember]
    committed: Mapping[Partition, int]
    commits: Commits | None = None
    never_has_members: bool = False
    missed: int = 0
    with_epochs: bool = False
    without_epochs: bool = False
    spans: CommitSpans = field(default_factory=CommitSpans)
    counted: tuple[Flow, ...] = ()
    flows: tuple[Flow, ...] = ()
    is_whole: bool = False
    exact_members: frozenset[str] = frozenset()
    records: Rates = field(default_factory=dict)

    @property
    def answered(self) -> bool:
        """Whether its coordinator sent its commits at this poll; else what it reads is unknown."""
        return self.commits is not None

    @property
    def positions(self) -> Positions:
        """Where the group was in each partition at this poll."""
        return self.spans.positions or {}


Poll: TypeAlias = dict[str, GroupReading]
"""What one cycle knows of each group."""


@dataclass(slots=True, kw_only=True)
class CycleState:
    """State that one cycle passes to the next."""

    at: float | None = None
    cluster: ClusterView = field(default_factory=lambda: ClusterView(brokers={}, topics={}))
    groups: Poll = field(default_factory=dict)
    logs: dict[Partition, Offsets] = field(default_factory=dict)
    stable: dict[Partition, int] = field(default_factory=dict)
    curves: dict[Partition, Curve] = field(default_factory=dict)
    served: dict[str, dict[Partition, Served]] = field(default_factory=dict)
    """By rack of the readers."""
    policies: dict[str, TopicPolicy] = field(default_factory=dict)
    policies_at: float = float("-inf")
    policy_gaps: list[Gap] = field(default_factory=list)


class BrokerPoller:
    """Polls the brokers and keeps the state between cycles; one thread drives it."""

    def __init__(self, settings: Settings, wire: BrokerClient, hosts: Hosts = NO_HOSTS) -> None:
        self._settings = settings
        self._hosts = hosts
        self._patterns = settings.traffic.groups or settings.groups
        self._wire = wire
        self.state = CycleState()
        self.timelines = Timelines()
        self.production = Production()
        self._records = Production()
        self._logs_at: float | None = None
        self._silent_since: dict[Partition, float] = {}
        """When logs were last answered whose leaders do not answer now."""
        self.rate_lost: set[Partition] = set()
        """Partitions whose leaders did not answer for long, until their rates are known again."""
        self.rack_aware = False
        self._keys = Keys()
        self.gaps: list[Gap] = []
        self.sizes = Sizes(
            wire,
            rack=settings.traffic.rack,
            budget_bytes=settings.traffic.sample_bytes,
            serving=lambda partition: self._guess(partition, settings.traffic.rack or None),
        )

    def poll(self, *, now: float, rack_aware: bool) -> Poll:
        """Poll everything once.

        Raises:
            AgentError: No broker can be reached at all.
        """
        self.gaps, self.rack_aware = [], rack_aware
        poll = self._poll_groups()
        wanted = sorted({partition for one in poll.values() for partition in (*one.owners, *one.committed)})
        logs_before = self._before_first_commits(poll)
        self._poll_policies(now=now)
        by_records = [one for name, one in poll.items() if self._settings.leading.of(name).balance == "records"]
        counted = {partition for member in by_records for partition in (*member.owners, *member.committed)}
        self._poll_logs(wanted, now=now, unread=Unread(self.state.groups, poll), counted=counted)
        for member in by_records:
            member.records = self._records.rates(member.owners)
        self._poll_stable(poll)
        self._poll_serving(poll, now=now)
        self._find_spans(poll, logs_before, now=now)
        self._sample_logs(poll)
        return poll

    def _before_first_commits(self, poll: Poll) -> dict[Partition, Offsets]:
        """Return the logs of the last poll of those partitions that a group has committed since for the first time."""
        before, logs = self.state.groups, self.state.logs
        return {
            partition: logs[partition]
            for name, one in poll.items()
            for partition in one.committed.keys() - (before[name].positions.keys() if name in before else ())
            if partition in logs
        }

    def done(self, poll: Poll, now: float | None) -> None:
        """Store a poll for the next one, whose spans begin at `now`; what that does not need is dropped."""
        self.state.at = now
        self.state.groups = {
            name: GroupReading(
                group=one.group,
                owners=one.owners,
                committed={},
                missed=one.missed,
                with_epochs=one.with_epochs,
                without_epochs=one.without_epochs,
                spans=CommitSpans(positions=one.spans.positions),
            )
            for name, one in poll.items()
        }

    def forget(self) -> None:
        """Forget all polls, as before the first one."""
        self.state, self.timelines = CycleState(), Timelines()
        self.production, self._records = Production(), Production()
        self._logs_at, self._keys = None, Keys()
        self._silent_since, self.rate_lost = {}, set()

    def serving(self, partition: Partition, member: ObservedMember | None) -> int | None:
        """Return the broker that serves a member, or the leader without a member; None where unknown."""
        rack = member.rack.rack if member is not None and member.rack.fetches_with_rack else None
        if rack is not None and self.is_probed(partition, rack):
            return self.state.served[rack][partition].broker
        return self._guess(partition, rack)

    def is_probed(self, partition: Partition, rack: str) -> bool:
        """Return whether the leader said which broker serves a rack, since leader and replicas are as they are."""
        served = self.state.served.get(rack, {}).get(partition)
        return served is not None and served.view == self.state.cluster.partition(*partition)

    def _guess(self, partition: Partition, rack: str | None) -> int | None:
        """Return the broker that serves a rack by the rule; None where none does, or the partition is unknown."""
        view = self.state.cluster.partition(*partition)
        return None if view is None else probe.guess(self.state.cluster, view, rack, rack_aware=self.rack_aware)

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
        before = {name: one.positions for name, one in state.groups.items()}
        commits, gaps = describe.committed(self._wire, listed.values(), self._keys, before=before)
        self.gaps += gaps
        found = [*described.groups, *(state.groups[name].group for name in missed)]
        topics = {topic for group in found for member in group.members for topic in member.topics}
        topics |= {topic for commit in commits.values() for topic, _ in commit.offsets}
        topics |= {topic for name in missed for topic, _ in before[name]}
        topics |= {topic for application in described.streams for topic in groups.topics_of_streams(application)}
        self._poll_topics(topics)
        streams = (
            groups.streams(application, racks=racks, cluster=state.cluster, hosts=hosts)
            for application in described.streams
        )
        # once more: only now the replicas are known, which show whether a broker is away
        observed = {group.group: self._placed(group) for group in (*found, *streams)}
        observed |= {name: groups.only_listed(one) for name, one in listed.items() if name not in observed}
        return {
            name: self._reading(group, listed.get(name), commits.get(name), missed=missed.get(name, 0))
            for name, group in observed.items()
        }

    def _missed(self, listing: Listing) -> dict[str, int]:
        """Return the groups that no broker lists at present, and in how many polls: with two they are gone.

        Only polls that all brokers have answered count. A coordinator that is starting or out of reach hides its groups
        for seconds.
        """
        all_answered = self.state.cluster.brokers.keys() <= listing.brokers
        counts = {
            name: one.missed + all_answered for name, one in self.state.groups.items() if name not in listing.groups
        }
        return {name: count for name, count in counts.items() if count < _MISSED_POLLS}

    def _reading(
        self, group: ObservedGroup, listed: ListedGroup | None, commits: Commits | None, *, missed: int
    ) -> GroupReading:
        """Return what is known of a group before the logs are polled."""
        before = self.state.groups.get(group.group)
        owners = self._owners(group, before)
        committed: Mapping[Partition, int] = {}
        if commits is not None:
            committed = commits.offsets
        elif before is not None:
            committed = {partition: one.committed for partition, one in before.positions.items()}
        return GroupReading(
            group=group,
            owners=owners,
            committed=committed,
            commits=commits,
            never_has_members=listed is not None and not listed.protocol_type and not owners,
            missed=missed,
            with_epochs=(before is not None and before.with_epochs) or (commits is not None and commits.with_epochs),
            without_epochs=before is not None and before.without_epochs,
        )

    def _find_spans(self, poll: Poll, logs_before: Mapping[Partition, Offsets], *, now: float) -> None:
        for name, one in poll.items():
            before = self.state.groups.get(name)
            if one.commits is None:
                one.spans = CommitSpans(positions=before.spans.positions if before is not None else None)
            else:
                one.spans = self._spans_of(one, one.commits, before, logs_before, now=now)

    def _spans_of(
        self,
        reading: GroupReading,
        commits: Commits,
        before: GroupReading | None,
        logs_before: Mapping[Partition, Offsets],
        *,
        now: float,
    ) -> CommitSpans:
        state, owners = self.state, reading.owners
        owners_before = before.owners if before is not None else {}
        # a member that stayed has committed it itself: no tool can while the group has members
        reading.without_epochs |= any(
            partition in owners and partition in owners_before and owners[partition].id == owners_before[partition].id
            for partition in commits.bare
        )

        def carriers(partition: Partition) -> tuple[object, ...]:
            owner, view = owners.get(partition), state.cluster.partition(*partition)
            leader = view.leader if view is not None else NO_LEADER
            # readers that are no members, and those that share partitions, may be on any number of hosts
            return (owner.id, leader) if owner is not None and owner.id else (leader,)

        return spans_of(
            Polls(
                before=before.spans.positions if before is not None else None,
                now=commits.offsets,
                at=now,
                unanswered=commits.failed,
                owned_before=owners_before.keys(),
                owned=owners.keys(),
                logs_before=logs_before,
                logs=state.logs,
                bare=commits.bare,
                commits_have_epochs=reading.with_epochs and not reading.without_epochs,
                without_members=reading.never_has_members,
                reads_alone=selects(self._settings.traffic.readers_without_members, reading.group.group),
                carriers=carriers,
                record_bytes=self._record_bytes,
                network=_NETWORK_BYTES_PER_SECOND,
            )
        )

    def _record_bytes(self, partition: Partition) -> float:
        curve = self.state.curves.get(partition)
        return curve.density if curve is not None else 0.0

    def _owners(self, group: ObservedGroup, before: GroupReading | None) -> Mapping[Partition, ObservedMember]:
        """Return the partitions' owners; while members do not show them, the last known."""
        if before is not None and (group is before.group or not group.owned_known):
            return before.owners
        return groups.owners_of(group, self._keys) if group.owned_known else {}

    def _placed(self, group: ObservedGroup) -> ObservedGroup:
        """Return the group with racks that brokers have, and the object of the last poll where nothing changed.

        What was computed for that stays valid.
        """
        group = groups.placed(group, self.state.cluster.racks)
        before = self.state.groups.get(group.group)
        return before.group if before is not None and before.group == group else group

    def _poll_topics(self, topics: Iterable[str]) -> None:
        topics, known = frozenset(topics), self.state.cluster.topics
        cluster, gaps = collect.metadata(self._wire, topics)
        self.gaps += gaps
        unanswered = topics - cluster.topics.keys() - cluster.absent - cluster.refused
        if kept := {topic: known[topic] for topic in unanswered if topic in known}:
            cluster = replace(cluster, topics={**cluster.topics, **kept})
        if cluster.brokers and cluster != self.state.cluster:
            self.state.cluster = cluster

    def _poll_logs(
        self, wanted: Sequence[Partition], *, now: float, unread: Unread, counted: Collection[Partition] = ()
    ) -> None:
        """Poll the logs that groups own or have committed; of those that are `counted`, records are counted, too.

        One without a leader is as one without an answer: its curve stays, and the next poll shows what was appended.
        But nothing is written without a leader; how much is without an answer is not known after some time.
        """
        state, last = self.state, now if self._logs_at is None else self._logs_at
        led = collect.leaders(state.cluster, wanted)
        sizes, gaps = collect.log_sizes(self._wire, led, self._keys)
        self.gaps += gaps
        logs, gaps = collect.offsets(self._wire, led, self._keys)
        self.gaps += gaps
        tiered = {topic for topic, policy in state.policies.items() if policy.tiered}
        led_tiered = {broker: [one for one in some if one[0] in tiered] for broker, some in led.items()}
        local = collect.local_starts(self._wire, led_tiered, self._keys)
        curves, grown, appended, known = state.curves, list[Partition](), array("d"), 0
        records: dict[Partition, float] = {}
        leaderless = set(wanted).difference(*led.values()) if sum(map(len, led.values())) < len(wanted) else ()
        for leader, partitions in (*led.items(), (NO_LEADER, sorted(leaderless))):
            for partition in partitions:
                log, size = logs.get(partition), sizes.pop(partition, None)
                before = curve = curves.get(partition)
                silent_since = self._silent_since.pop(partition, None)
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
                elif leader != NO_LEADER and curve is not None:
                    silent_since = self._silent_since[partition] = last if silent_since is None else silent_since
                if curve is not None:
                    curves[partition] = curve  # in place: each curve makes way for the next one
                    known += 1
                    if silent_since is not None and now - silent_since > LONGEST_STEP_SECONDS:
                        self.rate_lost.add(partition)
                    elif before is not None:
                        grown.append(partition)
                        appended.append(bytes_between(curve, before.extent.end, curve.extent.end))
                        if partition in counted:
                            records[partition] = _RECORDS * max(0, curve.extent.end - before.extent.end)
        if len(curves) > known:
            for gone in curves.keys() - set(wanted):
                del curves[gone]
                self._silent_since.pop(gone, None)
        self.production.polled(grown, appended, now - last)
        self._records.polled(records, records.values(), now - last)
        if self.rate_lost:
            self.rate_lost = (self.rate_lost & curves.keys()) - self.production.rates(self.rate_lost).keys()
        self._logs_at = now
        state.logs = logs
        self.timelines.polled(logs, now=now)
        self._keys.keep(curves)

    def _poll_stable(self, poll: Poll) -> None:
        """Ask how far reads get where a group seems to stand still: an open transaction may hold it up."""
        state = self.state
        still = {
            partition
            for name, one in poll.items()
            if one.commits is not None and name in state.groups
            for partition, offset in one.commits.offsets.items()
            if (position := state.groups[name].positions.get(partition)) is not None
            and offset == position.committed
            and partition in state.logs
            and offset < state.logs[partition].end
        }
        state.stable = collect.stable_offsets(self._wire, collect.leaders(state.cluster, sorted(still)), self._keys)

    def _poll_serving(self, poll: Poll, *, now: float) -> None:
        state = self.state
        readers: dict[str, set[Partition]] = {}
        for one in poll.values():
            for partition, member in one.owners.items():
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
            rack_aware=self.rack_aware,
            seconds=_PROBE_SECONDS,
        )
        state.served = {
            rack: {read: served for read, served in state.served.get(rack, {}).items() if read in partitions}
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
        spans = [span for one in poll.values() for span in one.spans.spans]
        compacted = {topic for topic, policy in self.state.policies.items() if policy.compacted}
        self.gaps += self.sizes.prepare(spans, self.state.curves, compacted=compacted)
        self.gaps += self.sizes.sample_batches(spans, self.state.curves)


class Unread:
    """From where on groups may still have to be counted, by what they had committed at a poll and at the one before.

    It is looked up by topic: a table of all partitions would be another one of hundreds of thousands.
    """

    def __init__(self, before: Poll, now: Poll) -> None:
        self._before, self._now = before, now
        self._readers: dict[str, set[str]] = {}
        read = [(name, one.positions) for name, one in before.items()]
        for name, partitions in (*read, *((name, one.committed) for name, one in now.items())):
            for topic in {topic for topic, _ in partitions}:
                self._readers.setdefault(topic, set()).add(name)

    def lowest(self, partition: Partition) -> int | None:
        """Return the lowest offset of any group; None for a partition that no group has committed."""
        found: list[int] = []
        for name in self._readers.get(partition[0], ()):
            if name in self._before and (begin := self._before[name].positions.get(partition)) is not None:
                found.append(begin.held.first if begin.held is not None else begin.offset)
            if name in self._now and (committed := self._now[name].committed.get(partition)) is not None:
                found.append(committed)
        return min(found, default=None)
