"""One look at everything that is observed, and what follows: the order of questions, and the state between looks.

Committed offsets are asked before log sizes, so that what was consumed lies on the curve. Each family of questions may
fail alone; its gap is published and the rest goes on. What must not enter: how each question is asked or answered.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from agent.cluster import ClusterView, NoRack
from agent.settings import Settings
from agent.traffic import collect, describe, groups, probe
from agent.traffic.attribute import Part, Spans, parts_of, spans_of, with_overhead
from agent.traffic.board import TrafficBoard
from agent.traffic.collect import Offsets, Partition
from agent.traffic.curve import Curve, LogLook, extend
from agent.traffic.exact import ExactReads, MemberKey
from agent.traffic.gaps import merged
from agent.traffic.groups import ListedGroup, ObservedGroup, ObservedMember
from agent.traffic.model import Flow, Gap, TrafficSnapshot
from agent.traffic.picture import Painter, Scene, Seen
from agent.traffic.probe import Reader, Served
from agent.traffic.sample import Sampler
from agent.traffic.sizes import Sizes
from agent.traffic.statistics import Read
from agent.traffic.tally import Tally, count
from agent.traffic.weights import WeightBook
from agent.traffic.window import Window
from agent.traffic.wire import Wire

_POLICIES_SECONDS: Final = 300.0
_LONGEST_STEP_SECONDS: Final = 120.0
"""After a longer pause (a suspended machine) envelopes and rates of the time between are not guessed."""


@dataclass(slots=True, kw_only=True)
class _State:
    """What one cycle leaves to the next."""

    at: float | None = None
    cluster: ClusterView = field(default_factory=lambda: ClusterView(brokers={}, topics={}))
    groups: dict[str, ObservedGroup] = field(default_factory=dict)
    owners: dict[str, dict[Partition, ObservedMember]] = field(default_factory=dict)
    committed: dict[str, dict[Partition, int]] = field(default_factory=dict)
    logs: dict[Partition, Offsets] = field(default_factory=dict)
    curves: dict[Partition, Curve] = field(default_factory=dict)
    served: dict[Reader, Served] = field(default_factory=dict)
    compacted: dict[str, bool] = field(default_factory=dict)
    policies_at: float = float("-inf")


@dataclass(slots=True, kw_only=True)
class _Look:
    """What one cycle sees."""

    listed: dict[str, ListedGroup]
    groups: dict[str, ObservedGroup]
    owners: dict[str, dict[Partition, ObservedMember]]
    committed: dict[str, dict[Partition, int]]
    spans: dict[str, Spans]


class Cycle:
    """Looks in turns; `turn` is one look. Driven from one thread."""

    def __init__(
        self,
        settings: Settings,
        *,
        wire: Wire,
        board: TrafficBoard,
        exact: ExactReads,
        weights: WeightBook,
    ) -> None:
        self._settings = settings
        self._patterns = settings.traffic.groups or settings.groups
        self._wire = wire
        self._board = board
        self._exact = exact
        self._weights = weights
        self._state = _State()
        self._tally = Tally()
        self._window = Window(settings.traffic.window_seconds)
        self._painter = Painter(settings, weights)
        sampler = Sampler(wire, rack=settings.traffic.rack, budget_bytes=settings.traffic.sample_bytes)
        self._sizes = Sizes(sampler, rack=settings.traffic.rack, enabled=settings.traffic.sample_bytes > 0)
        self._cycles = 0
        self._gaps: list[Gap] = []

    def turn(self, *, now: float, wall: float, rack_aware: bool | None) -> TrafficSnapshot:
        """One look; publishes and returns what is known after it.

        Args:
            now: Seconds, monotonic.
            wall: The same moment in seconds since 1970.
            rack_aware: Whether the brokers serve from the reader's rack; None where unknown.

        Raises:
            AgentError: No broker can be reached at all.
        """
        started = time.perf_counter()
        self._gaps = []
        state = self._state
        seconds = 0.0 if state.at is None else now - state.at
        if seconds > _LONGEST_STEP_SECONDS:
            seconds = 0.0
        look = self._look_at_groups()
        wanted = {
            partition
            for group in look.groups
            for partition in (*look.owners[group], *look.committed.get(group, ()))
            if partition[1] < len(state.cluster.topics.get(partition[0], ()))
        }
        self._look_at_logs(wanted)
        aware = bool(rack_aware)
        self._look_at_serving(look, now=now)
        self._look_into_logs(look, now=now, rack_aware=aware)
        self._exact.see(
            look.groups,
            {topic: len(views) for topic, views in state.cluster.topics.items()},
            self._served_members(look, rack_aware=aware),
        )
        flows = self._count(look, now=now, seconds=seconds, rack_aware=aware)
        self._window.add(wall - seconds, wall, flows)
        self._weights.forget(state.groups.keys() - look.groups.keys())
        self._painter.forget(state.groups.keys() - look.groups.keys())
        snapshot = self._paint(look, now=now, wall=wall, rack_aware=rack_aware)
        state.at, state.groups, state.owners = now, look.groups, look.owners
        state.committed = {
            group: {**state.committed.get(group, {}), **offsets} for group, offsets in look.committed.items()
        }
        snapshot = replace(snapshot, cycle_seconds=time.perf_counter() - started)
        self._board.publish(snapshot, flows)
        return snapshot

    # looking

    def _look_at_groups(self) -> _Look:
        state, racks = self._state, self._settings.racks
        if not state.cluster.brokers:
            state.cluster, gaps = collect.metadata(self._wire, ())
            self._gaps += gaps
        listed, gaps = describe.listed(self._wire, sorted(state.cluster.brokers), self._patterns)
        self._gaps += gaps
        described = describe.described(self._wire, listed.values())
        self._gaps += described.gaps
        committed, gaps = describe.committed(self._wire, listed.values())
        self._gaps += gaps
        found = [
            groups.classic(one, racks=racks, agent=self._settings.leading.instance_id) for one in described.classic
        ]
        found += [groups.managed(one, racks=racks) for one in described.consumer]
        topics = {topic for group in found for member in group.members for topic in member.topics}
        topics |= {topic for offsets in committed.values() for topic, _ in offsets}
        topics |= {topic for one in described.streams for topic in groups.topics_of_streams(one)}
        self._look_at_topics(topics)
        found += [groups.streams(one, racks=racks, cluster=state.cluster) for one in described.streams]
        observed = {group.group: _same(group, state.groups.get(group.group)) for group in found}
        observed |= {name: groups.only_listed(one) for name, one in listed.items() if name not in observed}
        owners = {name: self._owners(group) for name, group in observed.items()}
        return _Look(
            listed=listed,
            groups=observed,
            owners=owners,
            committed=committed,
            spans={
                name: spans_of(
                    state.committed.get(name, {} if name in state.groups else None),
                    committed.get(name, {}),
                    owned=owners[name],
                    logs_before=state.logs,
                )
                for name in observed
            },
        )

    def _owners(self, group: ObservedGroup) -> dict[Partition, ObservedMember]:
        """Who owns what; while members do not show it, who did before."""
        before = self._state.owners.get(group.group, {})
        if not group.owned_known:
            return before
        if group is self._state.groups.get(group.group):
            return before
        return group.owners()

    def _look_at_topics(self, topics: Iterable[str]) -> None:
        cluster, gaps = collect.metadata(self._wire, frozenset(topics))
        self._gaps += gaps
        if cluster.brokers and cluster != self._state.cluster:
            self._state.cluster = cluster

    def _look_at_logs(self, wanted: Iterable[Partition]) -> None:
        state = self._state
        led = collect.leaders(state.cluster, sorted(wanted))
        sizes, gaps = collect.log_sizes(self._wire, led)
        self._gaps += gaps
        logs, gaps = collect.offsets(self._wire, led)
        self._gaps += gaps
        curves: dict[Partition, Curve] = {}
        for leader, partitions in led.items():
            for partition in partitions:
                log, size = logs.get(partition), sizes.get(partition)
                curve = state.curves.get(partition)
                if log is not None and size is not None:
                    curve = extend(curve, LogLook(start=log.start, end=log.end, size_bytes=size, leader=leader))
                if curve is not None:
                    curves[partition] = curve
        state.curves, state.logs = curves, logs

    def _look_at_serving(self, look: _Look, *, now: float) -> None:
        state = self._state
        readers = {
            (partition, member.rack.rack)
            for owners in look.owners.values()
            for partition, member in owners.items()
            if member.rack.rack is not None and member.rack.fetches_with_rack
        }
        due = probe.due(
            sorted(readers), state.served, state.cluster, now=now, after=self._settings.traffic.probe_seconds
        )
        found, gaps = probe.probe(self._wire, due, state.cluster, state.logs, now=now)
        self._gaps += gaps
        state.served = {reader: served for reader, served in state.served.items() if reader in readers} | found

    def _look_into_logs(self, look: _Look, *, now: float, rack_aware: bool) -> None:
        state = self._state
        topics = state.cluster.topics.keys()
        new = topics - state.compacted.keys()
        if now - state.policies_at >= _POLICIES_SECONDS:
            new, state.policies_at = set(topics), now
        if new:
            known, gaps = collect.compacted(self._wire, new)
            self._gaps += gaps
            state.compacted |= dict.fromkeys(new, False) | known
        spans = [span for group in look.spans.values() for span in group.spans]
        self._gaps += self._sizes.prepare(
            spans, state.curves, compacted=state.compacted, cluster=state.cluster, rack_aware=rack_aware
        )
        self._gaps += self._sizes.look_at_batches(spans, state.curves, cluster=state.cluster, rack_aware=rack_aware)

    # counting

    def _count(self, look: _Look, *, now: float, seconds: float, rack_aware: bool) -> list[Flow]:
        known = self._exact.members(now=now)
        told: dict[str, dict[str, list[Read]]] = {}
        for (where, member), reads in self._exact.collect().items():
            told.setdefault(where, {})[member] = reads
        flows: list[Flow] = []
        for name, group in look.groups.items():
            owners = look.owners[name]
            parts = self._parts(name, look, seconds=seconds, rack_aware=rack_aware)
            self._weights.measured(name, parts, owners, seconds)
            members = {one.id: one for one in (*group.members, *owners.values())}
            counted, estimated = count(
                self._tally,
                name,
                parts,
                told.get(name, {}),
                exact_members={one: members[one] for where, one in known if where == name and one in members},
                rack_of=self._rack_of,
            )
            for member_id, wire_bytes in estimated.items():
                self._exact.estimated((name, member_id), wire_bytes)
            flows += counted
        return flows

    def _parts(self, name: str, look: _Look, *, seconds: float, rack_aware: bool) -> list[Part]:
        state = self._state

        def serving(partition: Partition, member: ObservedMember | None) -> int | None:
            return self._serving(partition, member, rack_aware=rack_aware)

        parts = parts_of(
            look.spans[name].spans,
            lambda span: self._sizes.size_of(span, state.curves),
            owners=look.owners[name],
            owners_before=state.owners.get(name, {}),
            serving=serving,
        )
        if not state.curves:  # no sizes: envelopes alone would look like a figure
            return parts
        return with_overhead(
            parts,
            owners=look.owners[name],
            serving=serving,
            batch_bytes=self._sizes.batch_bytes,
            seconds=seconds if name in state.groups else 0.0,
        )

    def _serving(self, partition: Partition, member: ObservedMember | None, *, rack_aware: bool) -> int | None:
        rack = member.rack.rack if member is not None and member.rack.fetches_with_rack else None
        if rack is not None:
            served = self._state.served.get((partition, rack))
            if served is not None:
                return served.broker
        views = self._state.cluster.topics.get(partition[0], ())
        if partition[1] >= len(views):
            return None
        return probe.guess(self._state.cluster, views[partition[1]], rack, rack_aware=rack_aware)

    def _served_members(self, look: _Look, *, rack_aware: bool) -> dict[MemberKey, dict[Partition, int]]:
        """Who serves what, for the members whose clients count by broker only."""
        served: dict[MemberKey, dict[Partition, int]] = {}
        for group in {one.group for one in self._settings.traffic.client_endpoints}:
            for partition, member in look.owners.get(group, {}).items():
                broker = self._serving(partition, member, rack_aware=rack_aware)
                if broker is not None:
                    served.setdefault((group, member.id), {})[partition] = broker
        return served

    def _rack_of(self, broker: int | None) -> str:
        rack = self._state.cluster.brokers.get(broker, NoRack.UNKNOWN) if broker is not None else NoRack.UNKNOWN
        return rack if isinstance(rack, str) else ""

    # showing

    def _paint(self, look: _Look, *, now: float, wall: float, rack_aware: bool | None) -> TrafficSnapshot:
        self._cycles += 1
        state = self._state
        known = self._exact.members(now=now)
        flows = self._window.by_group()
        scene = Scene(
            view=state.cluster,
            settled=self._painter.cluster(state.cluster),
            logs=state.logs,
            serving=lambda partition, member: self._serving(partition, member, rack_aware=bool(rack_aware)),
            rack_of=self._rack_of,
            served=state.served.keys(),
            sampled=self._sizes.sampled_partitions,
            sizes_known=bool(state.curves),
            rack_aware=bool(rack_aware),
            window_seconds=wall - self._window.begin,
        )
        pictures = [
            self._painter.paint(
                Seen(
                    group=group,
                    owners=look.owners[name],
                    committed=look.committed.get(name, {}),
                    spans=look.spans[name],
                    flows=flows.get(name, ()),
                    exact_members=frozenset(member for where, member in known if where == name),
                ),
                scene,
            )
            for name, group in sorted(look.groups.items())
        ]
        self._painter.rest()
        return TrafficSnapshot(
            groups=tuple(pictures),
            cluster=state.cluster,
            rack_aware_fetch=rack_aware,
            window_start=self._window.begin,
            window_end=wall,
            cycle=self._cycles,
            gaps=merged(self._gaps),
        )


def _same(group: ObservedGroup, before: ObservedGroup | None) -> ObservedGroup:
    """The object of the look before where nothing changed: what was worked out for it stays good."""
    return before if before is not None and before == group else group
