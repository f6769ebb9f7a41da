"""One cycle of measuring: polls all that is observed, computes rates and bytes by member and replica, and publishes."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from samerack.cluster.racks import NO_HOSTS, Hosts
from samerack.cluster.wire import BrokerClient
from samerack.election.leadership_state import NOTHING, LeadershipState, Tenure, Tenures
from samerack.settings.all_settings import Settings
from samerack.traffic.attribute import AttributedBytes, parts_of, with_overhead
from samerack.traffic.board import TrafficBoard
from samerack.traffic.broker_poller import BrokerPoller, GroupReading, Poll
from samerack.traffic.collect import Partition
from samerack.traffic.exact import ExactReads, MemberKey
from samerack.traffic.flows import Tally, Window, count
from samerack.traffic.gaps import failed, handed_over
from samerack.traffic.lag import NO_LAG
from samerack.traffic.positions import CommitSpans
from samerack.traffic.replication import ReplicationMeter
from samerack.traffic.snapshot import Family, Gap, TrafficSnapshot
from samerack.traffic.snapshot_builder import SnapshotBuilder
from samerack.traffic.throughput import LONGEST_STEP_SECONDS, ReadRates
from samerack.traffic.weights import WeightBook

_LATE: Final = failed(
    Family.LOG_DIRS,
    "",
    f"over {LONGEST_STEP_SECONDS:.0f} seconds between two polls: no rate is measured over such a time",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begin:
    """The first poll in which this agent measured a group: nothing is counted that was read before.

    Attributes:
        tenure: in which it measures since then.
        at: monotonic time of the poll.
        wall: the same in seconds since 1970.
        is_handed_over: whether another agent may have measured the group before.
    """

    tenure: Tenure
    at: float
    wall: float
    is_handed_over: bool


class Cycle:
    """Runs cycles; `turn` is one cycle. One thread drives it."""

    def __init__(  # noqa: PLR0913 - it brings all parts of measuring together
        self,
        settings: Settings,
        *,
        wire: BrokerClient,
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
        self._window_seconds = settings.traffic.window_seconds
        self._window = Window(self._window_seconds)
        self._builder = SnapshotBuilder(settings, weights, self._read_rates)
        self._cycles = 0
        self._leadership = leadership or LeadershipState()
        self._replication = ReplicationMeter(
            settings.traffic, wire=wire, rack_of=self._poller.rack_of, leadership=self._leadership
        )
        self._begun: dict[str, _Begin] = {}

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
        is_late = seconds > LONGEST_STEP_SECONDS
        if is_late:
            seconds = 0.0
        before = self._leadership.sure_tenures() or NOTHING
        poll = self._poller.poll(now=now, rack_aware=bool(rack_aware))
        after = self._leadership.sure_tenures()
        is_sure = after is not None
        if after is None:  # another agent may measure by now; else the next poll shows all since the last sure one
            seconds = 0.0
            for one in poll.values():
                one.spans = CommitSpans()
        else:
            self._begin(poll, before, after, now=now, wall=wall)
        self._replication.poll(state, now=now + time.perf_counter() - started)
        self._exact.see(
            {name: one.group for name, one in poll.items()},
            {topic: len(views) for topic, views in state.cluster.topics.items()},
            self._served_members(poll),
            since={name: begun.at for name, begun in self._begun.items()},
        )
        self._count(poll, now=now, seconds=seconds, is_sure=is_sure)
        if is_sure:
            changed = {
                name for name in poll.keys() & state.groups.keys() if poll[name].owners != state.groups[name].owners
            }
            self._window.add(now - seconds, now, {name: one.counted for name, one in poll.items()}, changed=changed)
        gone = state.groups.keys() - poll.keys()
        self._forget(gone)
        snapshot = self._snapshot(poll, now=now, wall=wall, rack_aware=rack_aware)
        if is_sure:
            self._poller.done(poll, now)
        gaps = (*snapshot.gaps, *self._replication.gaps, *elsewhere, *self._exact.gaps, *self._hand_overs(now=now))
        gaps += (_LATE,) if is_late and is_sure else ()
        snapshot = replace(snapshot, gaps=tuple(dict.fromkeys(gaps)), cycle_seconds=time.perf_counter() - started)
        counted = [flow for name, one in poll.items() if self._counts(name, now=now) for flow in one.counted]
        self._board.publish(snapshot, counted)
        return snapshot

    def rest(self) -> None:
        """Forget what was polled: this agent measures nothing, until it begins again."""
        self._forget(self._poller.state.groups)
        self._poller.forget()
        self._window = Window(self._window_seconds)
        self._begun = {}
        self._exact.see({}, {}, {}, since={})

    def _forget(self, groups: Collection[str]) -> None:
        for known in (self._weights, self._read_rates, self._builder, self._window, self._tally):
            known.forget(groups)

    # counting

    def _begin(self, poll: Poll, before: Tenures, after: Tenures, *, now: float, wall: float) -> None:
        """Begin with the groups that this agent has been elected for since the last poll, and end with the others.

        `before` and `after` are the tenures at the start and at the end of the poll. Another agent may have measured
        until an election during the poll, so that a tenure from before the poll is needed to begin.
        """
        begun: dict[str, _Begin] = {}
        for name in poll:
            tenure, last = after.of_group(name), self._begun.get(name)
            if tenure is not None and last is not None and last.tenure == tenure:
                begun[name] = last
            elif tenure is not None and before.of_group(name) == tenure:
                is_handed_over = tenure.succeeds and bool(poll[name].committed)
                begun[name] = _Begin(tenure=tenure, at=now, wall=wall, is_handed_over=is_handed_over)
        self._begun = begun

    def _counts(self, group: str, *, now: float) -> bool:
        """Return whether what was read until now counts: whether this agent has begun before."""
        return group in self._begun and self._begun[group].at < now

    def _hand_overs(self, *, now: float) -> list[Gap]:
        """Return the gaps between another agent's measurements and this one's, while they are in the window."""
        groups: dict[float, list[str]] = {}
        for name, begun in self._begun.items():
            if begun.is_handed_over and now - begun.at < self._window_seconds:
                groups.setdefault(begun.wall, []).append(name)
        return [handed_over(names, at=wall) for wall, names in sorted(groups.items())]

    def _count(self, poll: Poll, *, now: float, seconds: float, is_sure: bool) -> None:
        """Find what each group read since the last poll; clients' reports wait until it is sure who measures."""
        rewound = {name: one.spans.rewound for name, one in poll.items() if one.spans.rewound}
        reported = self._exact.collect(self._poller.state.curves, now=now, rewound=rewound) if is_sure else {}
        known = self._exact.members(now=now)
        for name, reading in poll.items():
            parts = self._parts(name, reading, seconds=seconds if reading.answered else 0.0)
            if is_sure:
                self._read_rates.measured(name, parts, reading.owners, seconds)
            balance = self._settings.leading.of(name).balance
            rates = self._poller.production.rates(reading.records if balance == "records" else reading.owners)
            if self._poller.rate_lost.isdisjoint(reading.owners):  # else weights stay as they are
                self._weights.measured(name, rates, {"bytes": rates, "records": reading.records}.get(balance))
            members = {one.id: one for one in (*reading.group.members, *reading.owners.values())}
            found = count(
                self._tally,
                name,
                parts,
                reported.get(name, {}),
                exact_members={one: members[one] for where, one in known if where == name and one in members},
                rack_of=self._poller.rack_of,
            )
            if self._counts(name, now=now):
                for member_id, volume in found.estimated.items():
                    self._exact.estimated((name, member_id), volume)
            reading.counted = found.flows

    def _parts(self, name: str, reading: GroupReading, *, seconds: float) -> list[AttributedBytes]:
        state = self._poller.state
        before = state.groups.get(name)
        parts = parts_of(
            reading.spans.spans,
            lambda span: self._poller.sizes.size_of(span, state.curves),
            owners=reading.owners,
            owners_before=before.owners if before is not None else {},
            serving=self._poller.serving,
        )
        if not state.curves:  # no sizes: envelopes alone would look like a measurement
            return parts
        return with_overhead(
            parts,
            owners=reading.owners,
            serving=self._poller.serving,
            batch_bytes=self._poller.sizes.batch_bytes,
            seconds=seconds if before is not None else 0.0,
        )

    def _served_members(self, poll: Poll) -> dict[MemberKey, dict[Partition, int]]:
        """Return the serving brokers of the members whose clients count by broker only."""
        served: dict[MemberKey, dict[Partition, int]] = {}
        for group in {client_endpoint.group for client_endpoint in self._settings.traffic.client_endpoints}:
            for partition, member in (poll[group].owners if group in poll else {}).items():
                broker = self._poller.serving(partition, member)
                if broker is not None:
                    served.setdefault((group, member.id), {})[partition] = broker
        return served

    # snapshot

    def _snapshot(self, poll: Poll, *, now: float, wall: float, rack_aware: bool | None) -> TrafficSnapshot:
        self._cycles += 1
        known = self._exact.members(now=now)
        flows, window_seconds = self._window.by_group(), self._window.seconds
        for name, reading in poll.items():
            reading.flows, reading.is_whole = flows.get(name, ()), self._window.is_whole(name)
            reading.exact_members = frozenset(member for where, member in known if where == name)
        pictures = [
            self._builder.build(
                reading, self._poller, now=now, window_seconds=window_seconds, counts=self._counts(name, now=now)
            )
            for name, reading in sorted(poll.items())
        ]
        self._builder.rest()
        self._window.caught_up(
            {picture.group: {topic for topic, lag in picture.lag.items() if lag == NO_LAG} for picture in pictures}
        )
        return TrafficSnapshot(
            groups=tuple(pictures),
            cluster=self._poller.state.cluster,
            rack_aware_fetch=rack_aware,
            window_start=wall - window_seconds,
            window_end=wall,
            cycle=self._cycles,
            gaps=tuple(self._poller.gaps),
            replication=self._replication.found,
        )
