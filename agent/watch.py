"""The eye on the cluster: looks at brokers and at the topics that groups read, with confluent-kafka, on one thread.

Publishes a SettledCluster that everybody reads without locks; what counts as a change is decided in `agent.cluster`.
A failed look changes nothing and is counted: the last settled cluster stays in force.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Protocol

import structlog
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]  # exported in fact

from agent.cluster import (
    NO_LEADER,
    ClusterView,
    NoRack,
    PartitionView,
    Rack,
    SettledCluster,
    Settling,
    SettlingTimes,
    settle,
)
from agent.errors import CoordinatorMovesError
from common.errors import AgentError, SettingsError
from common.kafka_config import for_librdkafka, nearest

log = structlog.get_logger("watch")

RACK_AWARE_SELECTOR: Final = "RackAwareReplicaSelector"
_SELECTOR_KEY: Final = "replica.selector.class"
_REQUEST_SECONDS: Final = 5.0
_SELECTOR_SECONDS: Final = 300.0
_SHARE_OF_TIME: Final = 10
"""A look may take a tenth of the time at most: the pause is that many times as long as looks take."""
_LAST_LOOKS: Final = 5
"""The quickest of so many looks tells what a look takes: others wait for a broker that restarts, and load nobody."""
_PATIENCE_SECONDS: Final = 3.0
_AGAIN_SECONDS: Final = 0.2
_COORDINATOR_MOVES: Final = frozenset(
    {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
)
_ABSENT: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED})


class WatchMetrics(Protocol):
    """What the watch counts."""

    def looked(self, seconds: float) -> None:
        """A look at the cluster took so long."""

    def watch_failed(self) -> None:
        """A look at the cluster failed."""

    def ignored(self, reason: str) -> None:
        """Something was seen that does not count as a change."""


def open_admin(kafka: Mapping[str, str]) -> AdminClient:
    """An AdminClient, quiet on its own: what matters comes back as exceptions.

    Raises:
        SettingsError: librdkafka refuses a setting.
    """
    try:
        return AdminClient({**for_librdkafka(kafka)}, logger=_Quiet())
    except KafkaException as error:
        reason = " ".join((error.args[0].str() if error.args else str(error)).split())
        key = reason.rpartition('"')[0].rpartition('"')[2]
        raise SettingsError(f"kafka: {reason}{nearest(key) if key else ''}") from None


class _Quiet:
    """librdkafka's own log lines, at debug level."""

    def log(self, level: int, message: str, *args: object) -> None:
        """Pass one line on."""
        log.debug("librdkafka", level=level, line=message % args if args else message)


def look(admin: AdminClient, topics: Collection[str]) -> ClusterView:
    """One look at all brokers and at these topics; a topic that does not exist is left out.

    Raises:
        AgentError: The cluster did not answer.
    """
    try:
        cluster = admin.describe_cluster(request_timeout=_REQUEST_SECONDS).result(_REQUEST_SECONDS)
        brokers: dict[int, Rack] = {node.id: node.rack or NoRack.UNSET for node in cluster.nodes}
        views: dict[str, tuple[PartitionView, ...]] = {}
        if topics:
            answers = admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=_REQUEST_SECONDS)
            for topic, answer in answers.items():
                view = _topic(answer)
                if view is not None:
                    views[topic] = view
    except (KafkaException, TimeoutError) as error:
        raise AgentError(f"kafka: metadata: {_text(error)}") from error
    return ClusterView(brokers=brokers, topics=views, absent=frozenset(topics) - views.keys())


def _topic(answer: Any) -> tuple[PartitionView, ...] | None:
    try:
        described = answer.result(_REQUEST_SECONDS)
    except KafkaException as error:
        if error.args[0].code() in _ABSENT:
            return None
        raise
    return tuple(
        PartitionView(
            leader=partition.leader.id if partition.leader is not None else NO_LEADER,
            replicas=tuple(node.id for node in partition.replicas),
            in_sync=tuple(node.id for node in partition.isr),
        )
        for partition in sorted(described.partitions, key=lambda partition: partition.id)
    )


def fetches_are_rack_aware(admin: AdminClient, brokers: Iterable[int]) -> bool:
    """Whether every broker has a rack-aware replica selector (KIP-392), from the brokers' configuration.

    Raises:
        AgentError: Not allowed, or no answer.
    """
    questions = [
        [ConfigResource(ConfigResource.Type.BROKER, str(broker))] for broker in brokers
    ]  # librdkafka takes one broker a call
    selectors = []
    try:
        answers = [admin.describe_configs(question, request_timeout=_REQUEST_SECONDS) for question in questions]
        for future in (future for answer in answers for future in answer.values()):
            entry = future.result(_REQUEST_SECONDS).get(_SELECTOR_KEY)
            selectors.append(entry.value if entry is not None else None)
    except (KafkaException, TimeoutError) as error:
        raise AgentError(
            f"kafka: {_SELECTOR_KEY} of the brokers: {_text(error)}; allow DESCRIBE_CONFIGS or set "
            "racks.replica_selector to rack-aware or leader"
        ) from error
    return bool(selectors) and all((selector or "").endswith(RACK_AWARE_SELECTOR) for selector in selectors)


def find_group_type(kafka: Mapping[str, str], group: str, *, patience: float = _PATIENCE_SECONDS) -> str:
    """As `group_type`, while the group may be on its way from one coordinator to another.

    Each question has a client of its own: librdkafka goes on asking a broker that coordinates the group no more.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            return group_type(open_admin(kafka), group)
        except CoordinatorMovesError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_AGAIN_SECONDS)


def group_type(admin: AdminClient, group: str) -> str:
    """The type of a group: "classic", "consumer" (KIP-848) or another, "unknown" where brokers do not say.

    Raises:
        CoordinatorMovesError: The group has no coordinator at the moment, or another one.
        AgentError: Not allowed, or no answer.
    """
    try:
        future = admin.describe_consumer_groups([group], request_timeout=_REQUEST_SECONDS)[group]
        described = future.result(_REQUEST_SECONDS)
    except (KafkaException, TimeoutError) as error:
        if isinstance(error, KafkaException) and error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            return "classic"
        moves = isinstance(error, KafkaException) and error.args[0].code() in _COORDINATOR_MOVES
        raise (CoordinatorMovesError if moves else AgentError)(f"kafka: group {group}: {_text(error)}") from error
    return str(described.type.name).lower()


_SILENCE: Final = frozenset({KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE})  # noqa: SLF001 - librdkafka's names


def _text(error: KafkaException | TimeoutError) -> str:
    """What went wrong; whoever's clock ran out first, ours or librdkafka's, silence names the same cure."""
    if isinstance(error, KafkaException) and error.args[0].code() not in _SILENCE:
        return f"{error.args[0].name()}: {error.args[0].str()}"
    return f"no answer in {_REQUEST_SECONDS:.0f} s; check bootstrap.servers and security.protocol"


class ClusterWatch(threading.Thread):
    """Looks in turns and publishes what settled; `cluster` is replaced as a whole, never changed."""

    def __init__(  # noqa: PLR0913 - each is a part of its own
        self,
        admin: AdminClient,
        *,
        pause: float,
        times: SettlingTimes,
        selector: str,
        metrics: WatchMetrics,
        reopen: Callable[[], AdminClient] | None = None,
    ) -> None:
        """Prepare; `start` begins to look.

        Args:
            admin: The client to look with.
            pause: Seconds between two looks.
            times: How long changes must persist.
            selector: `auto`, `rack-aware` or `leader` (setting racks.replica_selector).
            metrics: What to tell of the looks.
            reopen: Makes another client when a look has failed: librdkafka waits for the broker that it takes for the
                controller, for five minutes if need be, and with KRaft that is any broker.
        """
        super().__init__(name="cluster-watch", daemon=True)
        self._admin = admin
        self._reopen = reopen
        self._pause = pause
        self._times = times
        self._metrics = metrics
        self._selector = selector
        self._interest: dict[str, frozenset[str]] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._took: deque[float] = deque(maxlen=_LAST_LOOKS)
        self._state = Settling()
        self._listeners: list[Callable[[], None]] = []
        self.cluster = SettledCluster()
        self.rack_aware_fetch = selector == "rack-aware"
        self.last_look = float("-inf")
        self._selector_at = float("-inf")

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` (quick, from the watch's thread) after each look that changed the settled cluster."""
        self._listeners.append(listener)

    def show_interest(self, group: str, topics: frozenset[str]) -> None:
        """Look at these topics for this group from now on; a topic that is new makes the next look come at once."""
        with self._lock:
            known = frozenset().union(*self._interest.values()) if self._interest else frozenset()
            self._interest[group] = topics
        if not topics <= known:
            self._wake.set()

    def stop(self) -> None:
        """End the thread within one request's time."""
        self._stopping = True
        self._wake.set()

    def run(self) -> None:
        """Look, settle, publish, pause."""
        while not self._stopping:
            self._wake.clear()
            started = time.monotonic()
            try:
                self.look_once()
            except AgentError as error:
                self._metrics.watch_failed()
                log.warning("look-failed", error=str(error))
                if self._reopen is not None:
                    self._admin = self._reopen()
            except Exception as error:  # one bad look must not end the watch of every group
                self._metrics.watch_failed()
                log.exception("look-failed", error=str(error))
            took = time.monotonic() - started
            self._metrics.looked(took)
            self._took.append(took)
            self._wake.wait(max(self._pause, min(self._took) * _SHARE_OF_TIME))

    def look_once(self) -> None:
        """One look and what follows from it.

        Raises:
            AgentError: The look failed.
        """
        with self._lock:
            topics = frozenset().union(*self._interest.values()) if self._interest else frozenset()
        view = look(self._admin, topics)
        now = time.monotonic()
        if self._selector == "auto" and now >= self._selector_at:
            self._read_selector(view)
            self._selector_at = now + _SELECTOR_SECONDS
        outcome = settle(self._state, view, now, self._times)
        before, self._state = self._state.settled, outcome.state
        self.cluster = outcome.state.settled
        self.last_look = now
        for change in outcome.changes:
            log.info("change", kind=change.kind, where=change.where, before=change.before, after=change.after)
        for reason in outcome.ignored:
            self._metrics.ignored(reason)
            log.info("ignored", reason=reason)
        if self.cluster is not before:
            for listener in self._listeners:
                listener()

    def _read_selector(self, view: ClusterView) -> None:
        """Learn which replicas serve; where that fails, what was known stays true (at first: only leaders)."""
        try:
            aware = fetches_are_rack_aware(self._admin, view.brokers)
        except AgentError as error:
            log.warning("replica-selector-unknown", error=str(error), rack_aware=self.rack_aware_fetch)
            return
        if aware != self.rack_aware_fetch or self.last_look == float("-inf"):
            log.info("replica-selector", rack_aware=aware)
        self.rack_aware_fetch = aware
