"""The cluster of a simulated world, and the agent's watch over it: brokers with racks, topics with replicas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from agent.cluster import NO_LEADER, ClusterView, PartitionView, SettledCluster, Settling, SettlingTimes, settle
from tests.simulator.network import Host
from tests.simulator.timeline import Timeline

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

    def changed(self) -> None:
        """Tell everybody."""
        for listener in tuple(self.listeners):
            listener()

    def view(self, topics: frozenset[str]) -> ClusterView:
        """One look."""
        brokers = {broker: rack for broker, rack in self.racks.items() if broker not in self.absent}
        return ClusterView(
            brokers=dict(brokers),
            topics={
                topic: tuple(self._partition(replicas) for replicas in self.topics[topic])
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

    def __init__(self, host: Host, timeline: Timeline, place: Place) -> None:
        self._host, self._timeline, self._place = host, timeline, place
        self._state = Settling()
        self._listeners: list[Callable[[], None]] = []
        self._interest: frozenset[str] = frozenset()
        self._due = False
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

    def wait_for(self, topics: frozenset[str], seconds: float) -> bool:  # noqa: ARG002 - time stands still meanwhile
        """The look is quick."""
        if not topics <= self.cluster.topics.keys():
            self._look()
        return topics <= self.cluster.topics.keys()

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

    def _look(self) -> None:
        self._due = False
        if self._place.hidden:
            self._soon()
            return
        outcome = settle(self._state, self._place.view(self._interest), self._timeline.seconds(), _TIMES)
        self._state = state = outcome.state
        if state.pending_brokers or state.pending_partitions or state.pending_deletions:
            self._soon()
        if state.settled is not self.cluster:
            self.cluster = state.settled
            for listener in self._listeners:
                listener()
