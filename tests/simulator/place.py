"""The cluster of a simulated world, and the agent's watch over it: brokers with racks, topics with replicas."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from agent.cluster import NO_LEADER, ClusterView, PartitionView, SettledCluster, Settling, SettlingTimes, settle
from tests.simulator.process import Process

RACKS = ("a", "b", "c")
LOOK_MS = 500
_TIMES = SettlingTimes(change=1.0, leader=600.0)


@dataclass(slots=True)
class Place:
    """Brokers and topics as they are now; `listeners` hear of every change."""

    racks: dict[int, str] = field(default_factory=lambda: dict(enumerate(RACKS, 1)))
    absent: set[int] = field(default_factory=set)
    topics: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    listeners: list[Callable[[], None]] = field(default_factory=list)
    hidden: bool = False
    """No look succeeds."""
    stale: tuple[int, int] = (0, 0)
    """How many times a broker has been behind, and for how many looks of each watch this time."""

    def changed(self) -> None:
        """Tell everybody."""
        for listener in tuple(self.listeners):
            listener()

    def show_stale(self, looks: int) -> None:
        """Of so many looks to come of each watch every second one goes to a broker that tells fewer partitions."""
        self.stale = self.stale[0] + 1, looks

    def view(self, topics: frozenset[str], *, stale: bool) -> ClusterView:
        """One look."""
        brokers = {broker: rack for broker, rack in self.racks.items() if broker not in self.absent}
        part = 2 if stale else 1
        return ClusterView(
            brokers=dict(brokers),
            topics={
                topic: tuple(
                    self._partition(replicas) for replicas in self.topics[topic][: -(-len(self.topics[topic]) // part)]
                )
                for topic in sorted(topics & self.topics.keys())
            },
            absent=topics - self.topics.keys(),
        )

    def _partition(self, replicas: tuple[int, ...]) -> PartitionView:
        present = tuple(broker for broker in replicas if broker not in self.absent)
        return PartitionView(leader=present[0] if present else NO_LEADER, replicas=replicas, in_sync=present)


class Watch:
    """Stands for `agent.watch.ClusterWatch` of one agent; looks only while something may be new, which is the same."""

    rack_aware_fetch = True

    def __init__(self, process: Process, place: Place, initial_delay_seconds: float) -> None:
        self.initial_delay_seconds = initial_delay_seconds
        self._process, self._host, self._timeline, self._place = process, process.host, process.timeline, place
        self.most_seen: dict[str, int] = {}
        self._state = Settling()
        self._listeners: list[Callable[[], None]] = []
        self._interest: frozenset[str] = frozenset()
        self._due = False
        self._stale = (-1, 0)
        self.cluster = SettledCluster()
        place.listeners.append(self._soon)
        self._soon()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this after each look that changed the settled cluster."""
        self._listeners.append(listener)

    def show_interest(self, group: str, topics: frozenset[str]) -> None:  # noqa: ARG002 - there is one group
        """Look at these topics from now on."""
        if topics != self._interest:
            self._interest = topics
            self._soon(20)

    def unknown(self, topics: AbstractSet[str], owned: AbstractSet[str] = frozenset()) -> frozenset[str]:
        """Topics that no look has shown, nor that they do not exist."""
        return frozenset(topics - self.cluster.topics.keys() - (self._state.seen.absent - owned))

    def wait_for(
        self, topics: AbstractSet[str], seconds: float, owned: AbstractSet[str] = frozenset()
    ) -> frozenset[str]:
        """A look that takes as long as it is told to."""
        if self.unknown(topics, owned):
            self._process.spend(min(self._process.look_ms, round(seconds * 1000)))
            if self._process.look_ms <= seconds * 1000:
                self._look()
        return self.unknown(topics, owned)

    def unseen(self, group: str) -> frozenset[str]:  # noqa: ARG002 - there is one group
        """The agent may see everything."""
        return frozenset()

    def end(self) -> None:
        """No looks any more."""
        self._place.listeners.remove(self._soon)

    @property
    def settled(self) -> bool:
        """Whether nothing is on its way."""
        return not self._due

    def _soon(self, milliseconds: int = LOOK_MS) -> None:
        if not self._due or milliseconds < LOOK_MS:
            self._due = True
            self._host.later(milliseconds, self._look)

    def _is_stale(self) -> bool:
        """Whether this look goes to the broker that is behind; watches in step would not take turns by one count."""
        times, looks = self._place.stale
        left = self._stale[1] if self._stale[0] == times else looks
        self._stale = times, max(0, left - 1)
        return self._stale[1] % 2 == 1

    def _look(self) -> None:
        self._due = False
        if self._place.hidden:
            self._soon()
            return
        view = self._place.view(self._interest, stale=self._is_stale())
        outcome = settle(self._state, view, self._timeline.seconds(), _TIMES)
        self._state = state = outcome.state
        if state.pending_brokers or state.pending_partitions or state.pending_deletions:
            self._soon()
        if self._stale[1]:
            self._soon()
        for topic, partitions in state.settled.topics.items():
            self.most_seen[topic] = max(self.most_seen.get(topic, 0), len(partitions))
        if state.settled is not self.cluster:
            self.cluster = state.settled
            for listener in self._listeners:
                listener()
