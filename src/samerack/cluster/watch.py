"""Polls the brokers and the topics that groups read, on one thread.

Publishes a SettledCluster that other threads read without locks; `cluster.view` decides what counts as a change.
A failed poll changes nothing and is counted: the last settled cluster stays in force.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, Protocol

import structlog

from samerack.cluster.broker_configs import ServerAssignors, from_values, read_broker_configs, read_record_limit
from samerack.cluster.metadata import read_metadata
from samerack.cluster.versions import BrokerVersions
from samerack.cluster.view import ClusterView, SettledCluster, Settling, SettlingTimes, settle
from samerack.cluster.wire import BrokerClient
from samerack.common.attempts import RetryPauses
from samerack.common.errors import AgentError
from samerack.common.service import Service

log = structlog.get_logger("watch")

_DESCRIBE_SECONDS: Final = 300.0
"""Between two questions for configurations and versions; replacing brokers one by one takes longer."""
_DESCRIBE_AGAIN_SECONDS: Final = 30.0
_PAUSE_PER_POLL: Final = 10
"""Polls take about a tenth of the time at most: the pause is this many times as long as a poll takes."""
_LAST_POLLS: Final = 5
"""The fastest of this many polls is the duration of a poll: slower ones wait for a restarting broker without load."""


class WatchMetrics(Protocol):
    """What the watch counts."""

    def polled(self, seconds: float) -> None:
        """Record the duration of a poll of the cluster."""

    def watch_failed(self) -> None:
        """Count a failed poll of the cluster."""

    def ignored(self, reason: str) -> None:
        """Count something that a poll found but that is not a change."""


class ClusterWatch(Service):
    """Polls the cluster periodically and publishes what settled; `cluster` is replaced as a whole, never changed."""

    def __init__(
        self,
        wire: BrokerClient,
        *,
        pause: float,
        times: SettlingTimes,
        selector: str,
        metrics: WatchMetrics,
    ) -> None:
        """Prepare; `start` starts polling, with `pause` seconds between two polls.

        The connections are the watch's own: after a failed poll they are closed, and the next poll connects to any
        bootstrap server. `selector` is the setting racks.replica_selector: `auto`, `rack-aware` or `leader`.
        """
        super().__init__("watch", retries=RetryPauses(first=pause, most=pause))
        self._wire = wire
        self._pause = pause
        self._times = times
        self._metrics = metrics
        self._selector = selector
        self._interest: dict[str, frozenset[str]] = {}
        self._lock = threading.Lock()
        self._polled = threading.Condition()
        self._absent: frozenset[str] = frozenset()
        """Topics that do not exist according to the last poll."""
        self._took: deque[float] = deque(maxlen=_LAST_POLLS)
        self._state = Settling()
        self._listeners: tuple[Callable[[], None], ...] = ()
        self.cluster = SettledCluster()
        self.versions = BrokerVersions()
        self.cluster_id = ""
        """The cluster's id; empty before the first successful poll."""
        self.rack_aware_fetch = selector == "rack-aware"
        self.initial_delay_seconds: float | None = None
        """`group.initial.rebalance.delay.ms` of the brokers, in seconds; None while it is not known."""
        self.record_limit: int | None = None
        """How many bytes a group's record in the brokers' topic of offsets may have; None while it is not known."""
        self.max_group_size: int | None = None
        """`group.max.size` of the brokers; None while it is not known."""
        self.server_assignors = ServerAssignors(unknown="the brokers have not been asked yet")
        self._selector_error: AgentError | None = None
        self._refused_since: Mapping[str, float] = {}
        """Topics that the agent may not describe, and since when (seconds, monotonic)."""
        self.last_poll_at = float("-inf")
        self._describe_at = float("-inf")

    @property
    def present(self) -> AbstractSet[int]:
        """The brokers of the last poll; `cluster` also has those that are down or gone."""
        return self._state.seen.brokers.keys()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` on the watch's thread after each poll that changed the settled cluster; it must be quick."""
        with self._lock:
            self._listeners += (listener,)

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Call `listener` no more."""
        with self._lock:
            self._listeners = tuple(one for one in self._listeners if one != listener)

    def show_interest(self, group: str, topics: frozenset[str]) -> None:
        """Poll these topics for this group from now on; a new topic starts the next poll at once."""
        with self._lock:
            known = frozenset().union(*self._interest.values()) if self._interest else frozenset()
            self._interest[group] = topics
        if not topics <= known:
            self.wake()

    def unknown(self, topics: AbstractSet[str], owned: AbstractSet[str] = frozenset()) -> frozenset[str]:
        """Return the topics that cannot be planned: no poll has found them or found that they do not exist.

        If a broker says that a topic in `owned`, of which members own partitions, does not exist, the broker may have
        just started: the topic must stay absent as long as for any deletion before it counts.
        """
        return frozenset(topics - self.cluster.topics.keys() - (self._absent - owned))

    def wait_for(
        self, topics: AbstractSet[str], seconds: float, owned: AbstractSet[str] = frozenset()
    ) -> frozenset[str]:
        """Wait until these topics, passed to `show_interest` before, are known; return those that are not.

        It does not wait for a topic that is known from an earlier poll, nor for one that the agent may not describe.
        """
        with self._polled:
            self._polled.wait_for(lambda: not self.unknown(topics, owned) - self._refused_since.keys(), seconds)
        return self.unknown(topics, owned)

    def denied_topics(self, group: str) -> frozenset[str]:
        """Return the group's topics that the agent may not describe and does not know, or not for too long.

        The agent must not plan for them: partitions that it does not see would be assigned to no member.
        """
        refused = self._refused_since
        if not refused:
            return frozenset()
        latest = time.monotonic() - self._times.change
        topics = self._interest.get(group, frozenset()) & refused.keys()
        return frozenset(topic for topic in topics if refused[topic] < latest or not self.cluster.topics.get(topic))

    def selector(self) -> bool | None:
        """Return whether brokers serve from the reader's rack; None before they have answered for the first time.

        Raises:
            NotAllowedError, AgentError: It is not known, with the reason.
        """
        if self._selector == "auto":
            if self._selector_error is not None:
                raise self._selector_error
            if self._describe_at == float("-inf"):
                return None
        return self.rack_aware_fetch

    def turn(self) -> float:
        """Poll once; return the pause, which is longer if polls take long."""
        started = time.monotonic()
        try:
            self.poll_once()
        finally:
            took = time.monotonic() - started
            self._metrics.polled(took)
            self._took.append(took)
        return max(self._pause, min(self._took) * _PAUSE_PER_POLL)

    def failed(self, error: Exception) -> None:  # noqa: ARG002 - all failures count the same
        """Count a failed poll and disconnects."""
        self._metrics.watch_failed()
        self._wire.close()

    def ended(self) -> None:
        """Disconnect."""
        self._wire.close()

    def poll_once(self) -> None:
        """Poll once and applies the result.

        Raises:
            AgentError: The poll failed.
        """
        with self._lock:
            topics = frozenset().union(*self._interest.values()) if self._interest else frozenset()
        view = read_metadata(self._wire, topics)
        self.cluster_id = view.cluster_id
        now = time.monotonic()
        if now >= self._describe_at:
            self._read_configs(view)
            self.record_limit = read_record_limit(self._wire, min(view.brokers)) if view.brokers else None
            known = self.versions.ask(self._wire, view.brokers) and self._selector_error is None
            self._describe_at = now + (_DESCRIBE_SECONDS if known else _DESCRIBE_AGAIN_SECONDS)
        outcome = settle(self._state, view, now, self._times)
        before, self._state = self._state.settled, outcome.state
        self.cluster = outcome.state.settled
        self._record_refused(view.refused, now)
        self.last_poll_at = now
        with self._polled:
            self._absent = view.absent
            self._polled.notify_all()
        for change in outcome.changes:
            log.info("change", kind=change.kind, where=change.where, before=change.before, after=change.after)
        for reason in outcome.ignored:
            self._metrics.ignored(reason)
            log.info("ignored", reason=reason)
        if self.cluster is not before:
            for listener in self._listeners:
                listener()

    def _record_refused(self, refused: frozenset[str], now: float) -> None:
        """Store since when the agent may not describe topics, and log it once."""
        before = self._refused_since
        if refused - before.keys():
            log.error("topics-refused", topics=sorted(refused), cure="allow DESCRIBE on these topics")
        self._refused_since = {topic: before.get(topic, now) for topic in refused}

    def _read_configs(self, view: ClusterView) -> None:
        """Read which replicas serve reads; on failure the last known value stays valid (at first: leaders only)."""
        try:
            configs = read_broker_configs(self._wire, view.brokers)
        except AgentError as error:
            if str(error) != str(self._selector_error):
                log.warning("broker-configs-unknown", error=str(error), rack_aware=self.rack_aware_fetch)
            self._selector_error = error
            self.server_assignors = ServerAssignors(unknown=str(error))
            return
        self._selector_error = None
        self.server_assignors = from_values(configs.assignors)
        self.initial_delay_seconds, self.max_group_size = configs.initial_delay_seconds, configs.max_group_size
        if self._selector != "auto":
            return
        if configs.rack_aware != self.rack_aware_fetch or self.last_poll_at == float("-inf"):
            log.info("replica-selector", rack_aware=configs.rack_aware)
        self.rack_aware_fetch = configs.rack_aware
