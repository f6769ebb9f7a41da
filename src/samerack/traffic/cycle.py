"""One cycle of measuring: polls all that is observed, computes rates and bytes by member and replica, and publishes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from samerack.cluster.racks import NO_HOSTS, Hosts
from samerack.cluster.wire import Wire
from samerack.election.counting import Claim, Claims
from samerack.election.leadership_state import LeadershipState
from samerack.settings.all_settings import Settings
from samerack.traffic.allowance import MemberKey
from samerack.traffic.attribute import AttributedBytes, parts_of, with_overhead
from samerack.traffic.board import TrafficBoard
from samerack.traffic.broker_poller import BrokerPoller, Poll
from samerack.traffic.collect import Partition
from samerack.traffic.exact import ExactReads
from samerack.traffic.gaps import merged
from samerack.traffic.lag import NO_LAG
from samerack.traffic.positions import CommitSpans
from samerack.traffic.read_rates import ReadRates
from samerack.traffic.replication import ReplicationMeter
from samerack.traffic.snapshot import Gap, ObservedMember, TrafficSnapshot
from samerack.traffic.snapshot_builder import ClusterContext, GroupObservation, SnapshotBuilder
from samerack.traffic.statistics import Read
from samerack.traffic.tally import Count, Tally, count
from samerack.traffic.weights import WeightBook
from samerack.traffic.window import Window

_LONGEST_STEP_SECONDS: Final = 120.0
"""After a longer pause (a suspended machine) envelopes and rates of the time between are not estimated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    """What this agent counted of a group when the poll began from which the group's next spans start."""

    claim: Claim | None
    elsewhere: frozenset[str]


class Cycle:
    """Runs cycles; `turn` is one cycle. One thread drives it."""

    def __init__(  # noqa: PLR0913 - it brings all parts of measuring together
        self,
        settings: Settings,
        *,
        wire: Wire,
        board: TrafficBoard,
        exact: ExactReads,
        weights: WeightBook,
        hosts: Hosts = NO_HOSTS,
        leadership: LeadershipState | None = None,
    ) -> None:
        self._settings = settings
        self._poller = BrokerPoller(settings, wire, hosts)
        self._board = board
        self._exact = exact
        self._weights = weights
        self._read_rates = ReadRates()
        self._tally = Tally()
        self._window = Window(settings.traffic.window_seconds)
        self._builder = SnapshotBuilder(settings, weights, self._read_rates, self._poller.production)
        self._cycles = 0
        self._leadership = leadership or LeadershipState()
        self._replication = ReplicationMeter(
            settings.traffic, wire=wire, rack_of=self._poller.rack_of, leadership=self._leadership
        )
        self._bases: dict[str, _Base] = {}

    def turn(
        self, *, now: float, wall: float, rack_aware: bool | None, elsewhere: Iterable[Gap] = ()
    ) -> TrafficSnapshot:
        """Run one cycle; publish and return what is known after it.

        `now` (monotonic) and `wall` (since 1970) are the same moment. `rack_aware`: whether the brokers serve from the
        reader's rack, None where unknown. `elsewhere`: gaps of requests that were sent elsewhere for this cycle.

        Raises:
            AgentError: No broker can be reached at all.
        """
        started = time.perf_counter()
        state = self._poller.state
        seconds = 0.0 if state.at is None else now - state.at
        if seconds > _LONGEST_STEP_SECONDS:
            seconds = 0.0
        before = self._leadership.sure_claims()
        poll = self._poller.poll(now=now, rack_aware=bool(rack_aware))
        claims = self._leadership.sure_claims() if before is not None else None
        if claims is None:
            self._count_later(poll)
        self._replication.poll(state, now=now + time.perf_counter() - started)
        self._exact.see(
            poll.groups,
            {topic: len(views) for topic, views in state.cluster.topics.items()},
            self._served_members(poll),
            curves=state.curves,
            rewound={name: spans.rewound for name, spans in poll.spans.items() if spans.rewound},
            now=now,
        )
        groups = self._count(poll, claims, now=now, seconds=seconds)
        changed = {name for name, owners in poll.owners.items() if owners != state.owners.get(name, owners)}
        self._window.add(now - seconds, now, {name: group.flows for name, group in groups.items()}, changed=changed)
        gone = state.groups.keys() - poll.groups.keys()
        for known in (self._weights, self._read_rates, self._builder, self._window):
            known.forget(gone)
        snapshot = self._snapshot(poll, now=now, wall=wall, rack_aware=rack_aware)
        self._poller.done(poll, now if claims is not None else state.at)
        gaps = merged([*snapshot.gaps, *self._replication.gaps, *elsewhere, *self._exact.refused()])
        snapshot = replace(snapshot, gaps=gaps, cycle_seconds=time.perf_counter() - started)
        self._board.publish(
            snapshot,
            [flow for group in groups.values() for flow in group.counted],
            [flow for name in self._mine(groups, claims) for flow in groups[name].flows],
        )
        if before is not None and claims is not None:
            self._bases = {
                name: _Base(claim=before.of_group(name), elsewhere=before.elsewhere(name)) for name in poll.groups
            }
        return snapshot

    # counting

    def _count_later(self, poll: Poll) -> None:
        """Count nothing: another agent may have been elected. The next spans start where these did."""
        positions = self._poller.state.positions
        poll.spans = {name: CommitSpans(positions=positions.get(name)) for name in poll.groups}

    def _mine(self, groups: Iterable[str], claims: Claims | None) -> list[str]:
        """Return the groups that this agent counts, and counted when the last spans ended."""
        return [
            name
            for name in groups
            if claims is not None
            and (claim := claims.of_group(name)) is not None
            and name in self._bases
            and self._bases[name].claim == claim
        ]

    def _count(self, poll: Poll, claims: Claims | None, *, now: float, seconds: float) -> dict[str, Count]:
        """Return what each group read; estimates count only where this agent counted the group at both ends."""
        reported: dict[str, dict[str, list[Read]]] = {}
        for (where, member), reads in self._exact.collect().items():
            reported.setdefault(where, {})[member] = reads
        known = self._exact.members(now=now)  # after `collect`, which excludes members with impossible reports
        mine = frozenset(self._mine(poll.groups, claims))
        counts: dict[str, Count] = {}
        for name, group in poll.groups.items():
            owners = poll.owners[name]
            parts = self._parts(name, poll, seconds=seconds)
            if claims is not None:
                self._read_rates.measured(name, parts, owners, seconds)
            self._weights.measured(name, self._poller.production.rates(owners))
            members = {one.id: one for one in (*group.members, *owners.values())}
            one = count(
                self._tally,
                name,
                parts,
                reported.get(name, {}),
                exact_members={one: members[one] for where, one in known if where == name and one in members},
                rack_of=self._poller.rack_of,
                counts=self._counts(name, claims if name in mine else None),
            )
            for member_id, wire_bytes in one.estimated.items():
                self._exact.estimated((name, member_id), wire_bytes)
            counts[name] = one
        return counts

    def _counts(self, name: str, claims: Claims | None) -> Callable[[ObservedMember | None], bool]:
        """Return the test for members whose reads this agent counts: not those that report to other agents."""
        if claims is None:
            return lambda _member: False
        elsewhere = self._bases[name].elsewhere | claims.elsewhere(name)
        return lambda member: member is None or member.id not in elsewhere

    def _parts(self, name: str, poll: Poll, *, seconds: float) -> list[AttributedBytes]:
        state = self._poller.state
        parts = parts_of(
            poll.spans[name].spans,
            lambda span: self._poller.sizes.size_of(span, state.curves),
            owners=poll.owners[name],
            owners_before=state.owners.get(name, {}),
            serving=self._poller.serving,
        )
        if not state.curves:  # no sizes: envelopes alone would look like a measurement
            return parts
        return with_overhead(
            parts,
            owners=poll.owners[name],
            serving=self._poller.serving,
            batch_bytes=self._poller.sizes.batch_bytes,
            seconds=seconds if name in state.groups else 0.0,
        )

    def _served_members(self, poll: Poll) -> dict[MemberKey, dict[Partition, int]]:
        """Return the serving brokers of the members whose clients count by broker only."""
        served: dict[MemberKey, dict[Partition, int]] = {}
        for group in {one.group for one in self._settings.traffic.client_endpoints}:
            for partition, member in poll.owners.get(group, {}).items():
                broker = self._poller.serving(partition, member)
                if broker is not None:
                    served.setdefault((group, member.id), {})[partition] = broker
        return served

    # snapshot

    def _snapshot(self, poll: Poll, *, now: float, wall: float, rack_aware: bool | None) -> TrafficSnapshot:
        self._cycles += 1
        state = self._poller.state
        known = self._exact.members(now=now)
        flows, window_seconds = self._window.by_group(), self._window.seconds
        context = ClusterContext(
            view=state.cluster,
            logs=state.logs,
            stable=state.stable,
            timelines=self._poller.timelines.known,
            polled_at=now,
            serving=self._poller.serving,
            rack_of=self._poller.rack_of,
            served=state.served,
            sampled=self._poller.sizes.sampled_partitions,
            sizes_known=bool(state.curves),
            rack_aware=bool(rack_aware),
            window_seconds=window_seconds,
        )
        pictures = [
            self._builder.build(
                GroupObservation(
                    group=group,
                    owners=poll.owners[name],
                    committed=self._poller.committed(poll, name),
                    spans=poll.spans[name],
                    flows=flows.get(name, ()),
                    is_whole=self._window.is_whole(name),
                    exact_members=frozenset(member for where, member in known if where == name),
                ),
                context,
            )
            for name, group in sorted(poll.groups.items())
        ]
        self._builder.rest()
        self._window.caught_up(
            {one.group: {topic for topic, lag in one.lag.items() if lag == NO_LAG} for one in pictures}
        )
        return TrafficSnapshot(
            groups=tuple(pictures),
            cluster=state.cluster,
            rack_aware_fetch=rack_aware,
            window_start=wall - window_seconds,
            window_end=wall,
            cycle=self._cycles,
            gaps=tuple(self._poller.gaps),
            replication=self._replication.found,
        )
