"""Polls the brokers and the topics that groups read, with confluent-kafka, on one thread.

Publishes a SettledCluster that other threads read without locks; `cluster.view` decides what counts as a change.
A failed poll changes nothing and is counted: the last settled cluster stays in force.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]  # exported in fact

from samerack.cluster.client import close, connect
from samerack.cluster.errors import CoordinatorMovesError, NotAllowedError, RefusedError
from samerack.cluster.refusals import next_pause
from samerack.cluster.view import (
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
from samerack.common.bearer import TokenError
from samerack.common.errors import AgentError, SettingsError
from samerack.common.kafka_config import for_kafka_python, for_librdkafka, get_token, nearest
from samerack.common.settings import Settings

log = structlog.get_logger("watch")

RACK_AWARE_SELECTOR: Final = "RackAwareReplicaSelector"
_SELECTOR_KEY: Final = "replica.selector.class"
_INITIAL_DELAY_KEY: Final = "group.initial.rebalance.delay.ms"
_REQUEST_SECONDS: Final = 5.0
_KNOCK_SECONDS: Final = 2.0
_SURE_SECONDS: Final = 30.0
"""Timeout of kafka-python after librdkafka reported a refusal, long enough for a busy machine: it finds the refusal too
and describes it better."""
_HEED_SECONDS: Final = 0.1
"""How long one wait for a response takes; between two waits connection errors are handled."""
_NOT_ACCEPTED: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})  # noqa: SLF001 - librdkafka's names
_SELECTOR_SECONDS: Final = 300.0
_SELECTOR_AGAIN_SECONDS: Final = 30.0
_SHARE_OF_TIME: Final = 10
"""Polls take about a tenth of the time at most: the pause is this many times as long as a poll takes."""
_LAST_LOOKS: Final = 5
"""The fastest of this many polls is the duration of a poll: slower ones wait for a restarting broker without load."""
_PATIENCE_SECONDS: Final = 3.0
_AGAIN_SECONDS: Final = 0.2
_COORDINATOR_MOVES: Final = frozenset(
    {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
)
_REFUSED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)


class WatchMetrics(Protocol):
    """What the watch counts."""

    def looked(self, seconds: float) -> None:
        """Records the duration of a poll of the cluster."""

    def watch_failed(self) -> None:
        """Counts a failed poll of the cluster."""

    def ignored(self, reason: str) -> None:
        """Counts something that a poll found but that is not a change."""


class _Refusals:
    """What librdkafka reports apart from responses: only here does it report that TLS or SASL failed."""

    def __init__(self) -> None:
        self.text = ""

    def heed(self, error: KafkaError) -> None:
        """Stores a connection error of librdkafka if it is a refusal."""
        if error.code() in _NOT_ACCEPTED:
            self.text = error.str()


class Admin(AdminClient):
    """librdkafka's client; knows whether it was refused, which its responses do not show."""

    def __init__(self, kafka: Mapping[str, str]) -> None:
        self.kafka = kafka
        self.refusals = _Refusals()  # a separate object, so that the callback does not keep an unused client alive
        settings = {**for_librdkafka(kafka), "error_cb": self.refusals.heed}
        get_token(settings)
        super().__init__(settings, logger=_Quiet())

    def answer(self, question: Future[Any]) -> Any:
        """Waits for a response, at most until a refusal is known: librdkafka would continue to retry.

        Raises:
            RefusedError: The brokers refuse the agent, or the agent refuses them.
            KafkaException, TimeoutError: As raised by the request.
        """
        deadline = time.monotonic() + _REQUEST_SECONDS
        while True:
            try:
                return question.result(_HEED_SECONDS)
            except (KafkaException, TimeoutError) as error:
                self.poll(0)
                own = isinstance(error, TimeoutError) or error.args[0].code() < 0  # not a broker's
                over = isinstance(error, KafkaException) or time.monotonic() > deadline
                if own and (self.refusals.text or over):
                    self._explain()
                if over:
                    raise

    def _explain(self) -> None:
        """Connects with kafka-python, which detects more refusals than librdkafka and describes them more precisely.

        Raises:
            RefusedError: One of the two clients is refused.
        """
        try:
            close(connect(for_kafka_python(self.kafka), _SURE_SECONDS if self.refusals.text else _KNOCK_SECONDS))
        except RefusedError:
            raise
        except AgentError:
            pass
        if self.refusals.text:
            servers = self.kafka["bootstrap.servers"]
            raise RefusedError(f"kafka {servers}: {self.refusals.text}; check the settings of TLS and SASL")


def open_admin(kafka: Mapping[str, str]) -> Admin:
    """Returns an AdminClient that logs at debug level only: errors are raised as exceptions.

    Raises:
        SettingsError: librdkafka refuses a setting.
        RefusedError: It needs a token and cannot get one.
    """
    try:
        return Admin(kafka)
    except TokenError as error:
        raise RefusedError(f"kafka {kafka.get('bootstrap.servers', '')}: {error}") from None
    except KafkaException as error:
        reason = " ".join((error.args[0].str() if error.args else str(error)).split())
        key = reason.rpartition('"')[0].rpartition('"')[2]
        raise SettingsError(f"kafka: {reason}{nearest(key) if key else ''}") from None


class _Quiet:
    """Logs librdkafka's own log lines at debug level."""

    def log(self, level: int, message: str, *args: object) -> None:
        """Logs one line."""
        log.debug("librdkafka", level=level, line=message % args if args else message)


def look(admin: Admin, topics: Collection[str]) -> ClusterView:
    """Polls all brokers and these topics once; distinguishes absent topics from those that may not be described.

    Raises:
        RefusedError: TLS or SASL failed.
        AgentError: The cluster did not answer.
    """
    try:
        cluster = admin.answer(admin.describe_cluster(request_timeout=_REQUEST_SECONDS))
        brokers: dict[int, Rack] = {node.id: node.rack or NoRack.UNSET for node in cluster.nodes}
        views: dict[str, tuple[PartitionView, ...]] = {}
        refused: set[str] = set()
        if topics:
            answers = admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=_REQUEST_SECONDS)
            for topic, answer in answers.items():
                try:
                    views[topic] = _topic(admin.answer(answer))
                except KafkaException as error:
                    if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                        refused.add(topic)
                    elif error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise
    except (KafkaException, TimeoutError) as error:
        raise AgentError(f"kafka: metadata: {_text(error)}") from error
    absent = frozenset(topics) - views.keys() - refused
    return ClusterView(brokers=brokers, topics=views, absent=absent, refused=frozenset(refused))


def _topic(described: Any) -> tuple[PartitionView, ...]:
    return tuple(
        PartitionView(
            leader=partition.leader.id if partition.leader is not None else NO_LEADER,
            replicas=tuple(node.id for node in partition.replicas),
            in_sync=tuple(node.id for node in partition.isr),
        )
        for partition in sorted(described.partitions, key=lambda partition: partition.id)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfigs:
    """What the agent reads from the brokers' configuration.

    Attributes:
        rack_aware: every broker has a rack-aware replica selector (KIP-392).
        initial_delay_seconds: the lowest `group.initial.rebalance.delay.ms` of all brokers, in seconds (KIP-134); None
            if a broker does not return it.
    """

    rack_aware: bool
    initial_delay_seconds: float | None


def read_broker_configs(admin: Admin, brokers: Iterable[int]) -> BrokerConfigs:
    """Reads the configuration of every broker.

    Raises:
        NotAllowedError: The agent may not read it.
        AgentError: No response.
    """
    questions = [
        [ConfigResource(ConfigResource.Type.BROKER, str(broker))] for broker in brokers
    ]  # librdkafka accepts one broker per call
    selectors: list[str] = []
    delays: list[str] = []
    try:
        answers = [admin.describe_configs(question, request_timeout=_REQUEST_SECONDS) for question in questions]
        for future in (future for answer in answers for future in answer.values()):
            entries = admin.answer(future)
            selectors.append(_value(entries, _SELECTOR_KEY))
            delays.append(_value(entries, _INITIAL_DELAY_KEY))
    except (KafkaException, TimeoutError) as error:
        raise _kind(error)(
            f"kafka: {_SELECTOR_KEY} of the brokers: {_text(error)}; allow DESCRIBE_CONFIGS on the cluster or set "
            "racks.replica_selector to rack-aware or leader"
        ) from error
    return BrokerConfigs(
        rack_aware=bool(selectors) and all(selector.endswith(RACK_AWARE_SELECTOR) for selector in selectors),
        initial_delay_seconds=min(map(int, delays)) / 1000 if delays and all(map(str.isdigit, delays)) else None,
    )


def _value(entries: Mapping[str, Any], key: str) -> str:
    entry = entries.get(key)
    return (entry.value or "") if entry is not None else ""


def ask_selector(settings: Settings) -> Callable[[], bool]:
    """Asks once whether brokers serve from the reader's rack, unless the settings define it; returns a function.

    The function returns whether they do, or raises NotAllowedError or another AgentError with the reason why that is
    not known.

    Raises:
        AgentError: No broker answers.
    """
    setting = settings.racks.replica_selector
    if setting != "auto":
        return lambda: setting == "rack-aware"
    admin = open_admin(settings.kafka)
    brokers = look(admin, ()).brokers
    try:
        aware = read_broker_configs(admin, brokers).rack_aware
    except AgentError as error:
        unknown = error

        def tell() -> bool:
            raise unknown

        return tell
    return lambda: aware


def find_group_type(kafka: Mapping[str, str], group: str, *, patience: float = _PATIENCE_SECONDS) -> str:
    """Returns `group_type`; retries while the group moves from one coordinator to another.

    Each request has its own client: librdkafka continues to ask a broker that no longer coordinates the group.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            return group_type(open_admin(kafka), group)
        except CoordinatorMovesError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_AGAIN_SECONDS)


def group_type(admin: Admin, group: str) -> str:
    """Returns the type of a group: "classic", "consumer" (KIP-848) or another; "unknown" if brokers do not return it.

    Raises:
        CoordinatorMovesError: The group has no coordinator at the moment, or another one.
        NotAllowedError: The agent may not describe the group.
        AgentError: No response.
    """
    try:
        described = admin.answer(admin.describe_consumer_groups([group], request_timeout=_REQUEST_SECONDS)[group])
    except (KafkaException, TimeoutError) as error:
        if isinstance(error, KafkaException) and error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            return "classic"
        raise _kind(error)(f"kafka: group {group}: {_text(error)}") from error
    return str(described.type.name).lower()


def _kind(error: KafkaException | TimeoutError) -> type[AgentError]:
    """Returns the error class by which the caller decides how to react."""
    code = error.args[0].code() if isinstance(error, KafkaException) else None
    if code in _COORDINATOR_MOVES:
        return CoordinatorMovesError
    return NotAllowedError if code in _REFUSED else AgentError


_SILENCE: Final = frozenset({KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE})  # noqa: SLF001 - librdkafka's names


def _text(error: KafkaException | TimeoutError) -> str:
    """Returns the error's text; the text of a timeout is the same whether the agent or librdkafka timed out first."""
    if isinstance(error, KafkaException) and error.args[0].code() not in _SILENCE:
        return f"{error.args[0].name()}: {error.args[0].str()}"
    return f"no answer in {_REQUEST_SECONDS:.0f} s; check bootstrap.servers and security.protocol"


class ClusterWatch(threading.Thread):
    """Polls the cluster periodically and publishes what settled; `cluster` is replaced as a whole, never changed."""

    def __init__(
        self,
        opened: Callable[[], Admin],
        *,
        pause: float,
        times: SettlingTimes,
        selector: str,
        metrics: WatchMetrics,
    ) -> None:
        """Prepare; `start` starts polling.

        Args:
            opened: Creates a client for polling, and another one after a failed poll: librdkafka waits up to five
                minutes for the broker that it considers the controller, and with KRaft that can be any broker.
            pause: Seconds between two polls.
            times: How long changes must persist.
            selector: `auto`, `rack-aware` or `leader` (setting racks.replica_selector).
            metrics: Counts polls and failures.

        Raises:
            SettingsError: The client refuses a setting.
        """
        super().__init__(name="cluster-watch", daemon=True)
        self._opened = opened
        self._admin: Admin | None = opened()
        self._stopping = threading.Event()
        self.trouble = ""
        self.refused = False
        self._pause = pause
        self._times = times
        self._metrics = metrics
        self._selector = selector
        self._interest: dict[str, frozenset[str]] = {}
        self._lock = threading.Lock()
        self._looked = threading.Condition()
        self._absent: frozenset[str] = frozenset()
        """Topics that do not exist according to the last poll."""
        self._wake = threading.Event()
        self._took: deque[float] = deque(maxlen=_LAST_LOOKS)
        self._state = Settling()
        self._listeners: list[Callable[[], None]] = []
        self.cluster = SettledCluster()
        self.rack_aware_fetch = selector == "rack-aware"
        self.initial_delay_seconds: float | None = None
        """`group.initial.rebalance.delay.ms` of the brokers, in seconds; None while it is not known."""
        self._selector_error: AgentError | None = None
        self._refused: Mapping[str, float] = {}
        self.last_look = float("-inf")
        self._selector_at = float("-inf")

    def listen(self, listener: Callable[[], None]) -> None:
        """Calls `listener` on the watch's thread after each poll that changed the settled cluster; it must be quick."""
        self._listeners.append(listener)

    def show_interest(self, group: str, topics: frozenset[str]) -> None:
        """Polls these topics for this group from now on; a new topic starts the next poll at once."""
        with self._lock:
            known = frozenset().union(*self._interest.values()) if self._interest else frozenset()
            self._interest[group] = topics
        if not topics <= known:
            self._wake.set()

    def unknown(self, topics: AbstractSet[str], owned: AbstractSet[str] = frozenset()) -> frozenset[str]:
        """Returns the topics that cannot be planned: no poll has found them or found that they do not exist.

        Args:
            topics: What a group subscribes to.
            owned: Topics of which its members own partitions. If a broker says that one of these does not exist, it
                may have just started, and the topic must stay absent as long as for any deletion before it counts.
        """
        return frozenset(topics - self.cluster.topics.keys() - (self._absent - owned))

    def wait_for(
        self, topics: AbstractSet[str], seconds: float, owned: AbstractSet[str] = frozenset()
    ) -> frozenset[str]:
        """Waits until these topics, passed to `show_interest` before, are known; returns those that are not.

        It does not wait for a topic that is known from an earlier poll, nor for one that the agent may not describe.
        """
        with self._looked:
            self._looked.wait_for(lambda: not self.unknown(topics, owned) - self._refused.keys(), seconds)
        return self.unknown(topics, owned)

    def unseen(self, group: str) -> frozenset[str]:
        """Returns the group's topics that the agent may not describe and does not know, or not for too long.

        The agent must not plan for them: partitions that it does not see would be assigned to no member.
        """
        refused = self._refused
        if not refused:
            return frozenset()
        latest = time.monotonic() - self._times.change
        topics = self._interest.get(group, frozenset()) & refused.keys()
        return frozenset(one for one in topics if refused[one] < latest or not self.cluster.topics.get(one))

    def selector(self) -> bool:
        """Returns whether brokers serve from the reader's rack.

        Raises:
            NotAllowedError, AgentError: It is not known, with the reason.
        """
        if self._selector_error is not None and self._selector == "auto":
            raise self._selector_error
        return self.rack_aware_fetch

    def stop(self) -> None:
        """Ends the thread within the time of one request."""
        self._stopping.set()
        self._wake.set()

    def run(self) -> None:
        """Polls, settles changes, publishes and pauses until stopped."""
        refused_pause = 0.0
        while not self._stopping.is_set():
            self._wake.clear()
            started = time.monotonic()
            try:
                self.look_once()
                self.trouble, self.refused, refused_pause = "", False, 0.0
            except AgentError as error:
                self._fail(error)
                self.refused = isinstance(error, RefusedError)
                refused_pause = next_pause(refused_pause) if self.refused else 0.0
            except Exception as error:  # one bad poll must not end the watch of every group
                self._metrics.watch_failed()
                log.exception("look-failed", error=str(error))
            took = time.monotonic() - started
            self._metrics.looked(took)
            self._took.append(took)
            if refused_pause:
                self._stopping.wait(refused_pause)
            else:
                self._wake.wait(max(self._pause, min(self._took) * _SHARE_OF_TIME))

    def _fail(self, error: AgentError) -> None:
        """Counts a failed poll, logs it unless logged before, and drops the client, which would continue to retry."""
        self._metrics.watch_failed()
        if str(error) != self.trouble:
            log.warning("look-failed", error=str(error))
        self.trouble = str(error)
        self._admin = None

    def look_once(self) -> None:
        """Polls once and applies the result.

        Raises:
            AgentError: The poll failed.
        """
        with self._lock:
            topics = frozenset().union(*self._interest.values()) if self._interest else frozenset()
        self._admin = admin = self._admin or self._opened()
        view = look(admin, topics)
        now = time.monotonic()
        if now >= self._selector_at:
            self._read_configs(admin, view)
            known = self._selector_error is None
            self._selector_at = now + (_SELECTOR_SECONDS if known else _SELECTOR_AGAIN_SECONDS)
        outcome = settle(self._state, view, now, self._times)
        before, self._state = self._state.settled, outcome.state
        self.cluster = outcome.state.settled
        self._see_refused(view.refused, now)
        self.last_look = now
        with self._looked:
            self._absent = view.absent
            self._looked.notify_all()
        for change in outcome.changes:
            log.info("change", kind=change.kind, where=change.where, before=change.before, after=change.after)
        for reason in outcome.ignored:
            self._metrics.ignored(reason)
            log.info("ignored", reason=reason)
        if self.cluster is not before:
            for listener in self._listeners:
                listener()

    def _see_refused(self, refused: frozenset[str], now: float) -> None:
        """Stores since when the agent may not describe topics, and logs it once."""
        before = self._refused
        if refused - before.keys():
            log.error("topics-refused", topics=sorted(refused), cure="allow DESCRIBE on these topics")
        self._refused = {topic: before.get(topic, now) for topic in refused}

    def _read_configs(self, admin: Admin, view: ClusterView) -> None:
        """Reads which replicas serve reads; on failure the last known value stays valid (at first: leaders only)."""
        try:
            configs = read_broker_configs(admin, view.brokers)
        except AgentError as error:
            if str(error) != str(self._selector_error):
                log.warning("broker-configs-unknown", error=str(error), rack_aware=self.rack_aware_fetch)
            self._selector_error = error
            return
        self._selector_error = None
        self.initial_delay_seconds = configs.initial_delay_seconds
        if self._selector != "auto":
            return
        if configs.rack_aware != self.rack_aware_fetch or self.last_look == float("-inf"):
            log.info("replica-selector", rack_aware=configs.rack_aware)
        self.rack_aware_fetch = configs.rack_aware
