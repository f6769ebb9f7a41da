"""The cluster of a simulated world, with racks and replicas, and the agent's watch of it."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from samerack.cluster.view import NO_LEADER, ClusterView, PartitionView, SettledCluster, Settling, SettlingTimes, settle
from tests.simulator.process import Process

RACKS = ("a", "b", "c")
POLL_MS = 500
_TIMES = SettlingTimes(change=1.0, leader=600.0)


@dataclass(slots=True)
class Place:
    """The current brokers and topics; `listeners` are called at each change."""

    racks: dict[int, str] = field(default_factory=lambda: dict(enumerate(RACKS, 1)))
    absent: set[int] = field(default_factory=set)
    topics: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    listeners: list[Callable[[], None]] = field(default_factory=list)
    hidden: bool = False  # whether all metadata requests fail
    stale: tuple[int, int] = (0, 0)
    """How many times a broker has lagged, and for how many polls of each watch this time."""

    def changed(self) -> None:
        """Call all listeners."""
        for listener in tuple(self.listeners):
            listener()

    def show_stale(self, polls: int) -> None:
        """Of the next `polls` polls of each watch, every second one goes to a broker that reports fewer partitions."""
        self.stale = self.stale[0] + 1, polls

    def view(self, topics: frozenset[str], *, stale: bool) -> ClusterView:
        """The answer to one metadata request."""
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
    """Replaces `cluster.watch.ClusterWatch` of one agent; it polls only after changes, with the same result."""

    rack_aware_fetch = True

    def __init__(
        self,
        process: Process,
        place: Place,
        initial_delay_seconds: float,
        record_limit: int | None,
        max_group_size: int = 2**31 - 1,
    ) -> None:
        self.initial_delay_seconds, self.record_limit = initial_delay_seconds, record_limit
        self.max_group_size = max_group_size
        self._process, self._host, self._timeline, self._place = process, process.host, process.timeline, place
        self.max_seen: dict[str, int] = {}
        self._state = Settling()
        self._listeners: list[Callable[[], None]] = []
        self._interest: frozenset[str] = frozenset()
        self._due = False
        self._stale = (-1, 0)
        self.cluster = SettledCluster()
        place.listeners.append(self._soon)
        self._soon()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this listener after each poll that changed the settled cluster."""
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Call this listener no more."""
        self._listeners = [one for one in self._listeners if one != listener]

    def show_interest(self, group: str, topics: frozenset[str]) -> None:  # noqa: ARG002 - there is one group
        """Poll these topics from now on."""
        if topics != self._interest:
            self._interest = topics
            self._soon(20)

    def unknown(self, topics: AbstractSet[str], owned: AbstractSet[str] = frozenset()) -> frozenset[str]:
        """Topics of which no poll has shown whether they exist."""
        return frozenset(topics - self.cluster.topics.keys() - (self._state.seen.absent - owned))

    def wait_for(
        self, topics: AbstractSet[str], seconds: float, owned: AbstractSet[str] = frozenset()
    ) -> frozenset[str]:
        """Poll with the configured delay, if topics are unknown; return those that are still unknown."""
        if self.unknown(topics, owned):
            self._process.spend(min(self._process.metadata_ms, round(seconds * 1000)))
            if self._process.metadata_ms <= seconds * 1000:
                self._poll()
        return self.unknown(topics, owned)

    def denied_topics(self, group: str) -> frozenset[str]:  # noqa: ARG002 - there is one group
        """No topics: the agent may describe everything."""
        return frozenset()

    def end(self) -> None:
        """Stop polling."""
        self._place.listeners.remove(self._soon)

    @property
    def settled(self) -> bool:
        """Whether no poll is scheduled."""
        return not self._due

    def _soon(self, milliseconds: int = POLL_MS) -> None:
        if not self._due or milliseconds < POLL_MS:
            self._due = True
            self._host.later(milliseconds, self._poll)

    def _is_stale(self) -> bool:
        """Whether this poll goes to the lagging broker; each watch counts its own polls, so that each alternates."""
        times, polls = self._place.stale
        left = self._stale[1] if self._stale[0] == times else polls
        self._stale = times, max(0, left - 1)
        return self._stale[1] % 2 == 1

    def _poll(self) -> None:
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
            seen = max(self.max_seen.get(topic, 0), len(partitions)) if partitions else 0
            self.max_seen[topic] = min(seen, len(self._place.topics.get(topic, ())))  # of the topic as created last
        if state.settled is not self.cluster:
            self.cluster = state.settled
            for listener in self._listeners:
                listener()
