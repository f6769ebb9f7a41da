"""The watch without a cluster: what a poll publishes, what a failed one leaves, and when the next one comes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from structlog.testing import capture_logs

from samerack.cluster import admin as admin_module
from samerack.cluster import broker_configs, group_type, metadata, watch
from samerack.cluster.errors import RefusedError
from samerack.cluster.view import ClusterView, SettlingTimes
from samerack.cluster.watch import ClusterWatch
from samerack.common.errors import AgentError
from tests.unit.agent.values import RACKS, UNSET, cluster, partition, view_of

Look = Callable[[Any, Collection[str]], ClusterView]


class Counts:
    """Stores what it is asked to count."""

    def __init__(self) -> None:
        self.failed = 0
        self.reasons: list[str] = []
        self.looks = 0

    def looked(self, seconds: float) -> None:
        """Count a poll."""
        assert seconds >= 0
        self.looks += 1

    def watch_failed(self) -> None:
        """Count a failure."""
        self.failed += 1

    def ignored(self, reason: str) -> None:
        """Store a reason."""
        self.reasons.append(reason)


class Answer:
    """A future that is done."""

    def __init__(self, value: object) -> None:
        self._value = value

    def result(self, _: float) -> Any:
        """The value, or the error."""
        if isinstance(self._value, Exception):
            raise self._value
        return self._value


def asked(**questions: object) -> Any:
    """A client that answers these requests."""
    return SimpleNamespace(answer=lambda question: question.result(5.0), **questions)


def refused(code: int) -> KafkaException:
    """An error of librdkafka."""
    return KafkaException(KafkaError(code))


def watcher(counts: Counts, selector: str = "leader", settling: float = 0.0) -> ClusterWatch:
    """A watch without a client, which settles at once unless a time is given."""
    times = SettlingTimes(change=settling, leader=0.0)
    opened = partial(asked, describe_configs=lambda _question, **_options: {})
    return ClusterWatch(opened, pause=0.01, times=times, selector=selector, metrics=counts)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[ClusterView | Exception]:
    """The results or errors of the next polls; the last one stays. The requested topics are not compared."""
    queue: list[ClusterView | Exception] = []

    def answer(_: object, __: Collection[str]) -> ClusterView:
        head = queue.pop(0) if len(queue) > 1 else queue[0]
        if isinstance(head, Exception):
            raise head
        return head

    monkeypatch.setattr(watch, "look", answer)
    return queue


def test_listeners_hear_of_changes_only(looks: list[ClusterView | Exception]) -> None:
    """A poll that changes nothing wakes no listener; an ignored change is counted."""
    counts, heard = Counts(), []
    eye = watcher(counts)
    eye.listen(lambda: heard.append(eye.cluster))
    first, gone = view_of(t=[partition(1)]), view_of({1: "a", 3: "c"}, t=[partition(1)])
    looks += [first, first, gone, view_of({**RACKS, 1: "z"}, t=[partition(1)])]
    for _ in range(4):
        eye.look_once()
    assert heard == [cluster(t=[(1,)]), cluster({**RACKS, 1: "z"}, t=[(1,)])]
    assert counts.reasons == ["broker-absent"]


def test_a_failed_look_changes_nothing(looks: list[ClusterView | Exception]) -> None:
    """The last settled cluster stays in force, and so does the time of the last successful poll."""
    eye = watcher(Counts())
    looks += [view_of(t=[partition(1)]), AgentError("no answer")]
    eye.look_once()
    before, at = eye.cluster, eye.last_look
    with pytest.raises(AgentError):
        eye.look_once()
    assert (eye.cluster, eye.last_look) == (before, at)


def test_no_failure_ends_the_thread(looks: list[ClusterView | Exception]) -> None:
    """Expected and unexpected failures are counted and logged, and the next poll follows."""
    counts = Counts()
    eye = watcher(counts)
    eye.listen(eye.stop)
    looks += [AgentError("no answer"), RuntimeError("a mistake"), view_of(t=[partition(1)])]
    with capture_logs() as logs:
        eye.run()
    assert (counts.failed, counts.looks) == (2, 3)
    assert [line["error"] for line in logs if line["event"] == "poll-failed"] == ["no answer", "a mistake"]
    assert eye.cluster == cluster(t=[(1,)])


def test_a_new_topic_of_interest_is_looked_at_at_once() -> None:
    """Only a topic that no group named before makes the next poll start at once."""
    eye = watcher(Counts())
    eye.show_interest("orders", frozenset({"t"}))
    assert eye._wake.is_set()
    eye._wake.clear()
    eye.show_interest("payments", frozenset({"t"}))
    eye.show_interest("orders", frozenset())
    assert not eye._wake.is_set()


def test_the_first_look_at_a_topic_is_waited_for(looks: list[ClusterView | Exception]) -> None:
    """The wait ends once the topic is polled, also if the topic does not exist."""
    eye, topics = watcher(Counts()), frozenset({"t", "gone"})
    eye.show_interest("orders", topics)
    assert eye.wait_for(topics, 0.01) == topics
    looks += [view_of(t=[partition(1)], absent=["gone"])]
    looking = threading.Timer(0.05, eye.look_once)
    looking.start()
    assert eye.wait_for(topics, 10) == frozenset()
    assert eye.cluster.topics["t"] == cluster(t=[(1,)]).topics["t"]
    looking.join()


def test_an_absent_topic_that_somebody_reads_is_not_believed_at_once(looks: list[ClusterView | Exception]) -> None:
    """A broker that has just started may know no topic yet; a topic without a reader counts as absent at once."""
    eye = watcher(Counts(), settling=0.05)
    looks += [view_of(absent=["t"])]
    eye.look_once()
    topics = frozenset({"t"})
    assert eye.unknown(topics) == frozenset()
    assert eye.unknown(topics, topics) == topics
    time.sleep(0.05)
    eye.look_once()
    assert eye.unknown(topics, topics) == frozenset()
    assert eye.cluster.topics == {"t": ()}


def test_a_topic_that_may_not_be_seen_is_unknown_and_not_waited_for(looks: list[ClusterView | Exception]) -> None:
    """A topic that may not be seen is reported as unknown at once: a wait would not help."""
    eye, topics = watcher(Counts()), frozenset({"t"})
    looks += [ClusterView(brokers={1: "a"}, topics={}, refused=topics)]
    eye.look_once()
    assert eye.wait_for(topics, 60) == topics


def test_before_the_first_answer_the_selector_is_unknown() -> None:
    """Found: traffic that was measured before the first poll was judged as if brokers served from leaders only."""
    assert watcher(Counts(), selector="auto").selector() is None
    assert watcher(Counts(), selector="rack-aware").selector() is True


@pytest.mark.parametrize(("answer", "aware"), [(True, True), (False, False), (AgentError("not allowed"), False)])
def test_the_selector_is_read_once(
    looks: list[ClusterView | Exception],
    monkeypatch: pytest.MonkeyPatch,
    answer: bool | AgentError,  # noqa: FBT001 - columns of the table
    aware: bool,  # noqa: FBT001 - columns of the table
) -> None:
    """`auto` asks the brokers at the first poll; where it may not, only leaders count as near."""
    asked = []

    def configs(_: object, brokers: Collection[int]) -> broker_configs.BrokerConfigs:
        asked.append(list(brokers))
        if isinstance(answer, AgentError):
            raise answer
        return broker_configs.BrokerConfigs(rack_aware=answer, initial_delay_seconds=3.0)

    monkeypatch.setattr(watch, "read_broker_configs", configs)
    looks.append(view_of())
    eye = watcher(Counts(), "auto")
    for _ in range(2):
        eye.look_once()
    assert (asked, eye.rack_aware_fetch) == ([[1, 2, 3]], aware)


def described(*partitions: Any) -> Answer:
    """A topic's description."""
    return Answer(SimpleNamespace(partitions=partitions))


def node(number: int, rack: str | None = None) -> SimpleNamespace:
    """A broker."""
    return SimpleNamespace(id=number, rack=rack)


def test_a_look_becomes_values() -> None:
    """Racks are known or unset, partitions are in order of number, and absent or refused topics are named."""
    second = SimpleNamespace(id=1, leader=None, replicas=[node(2)], isr=[])
    first = SimpleNamespace(id=0, leader=node(1), replicas=[node(1), node(2)], isr=[node(1)])
    topics = {
        "t": described(second, first),
        "gone": Answer(refused(KafkaError.UNKNOWN_TOPIC_OR_PART)),
        "secret": Answer(refused(KafkaError.TOPIC_AUTHORIZATION_FAILED)),
    }
    admin = asked(
        describe_cluster=lambda **_: Answer(SimpleNamespace(nodes=[node(1, "a"), node(2), node(3, "")])),
        describe_topics=lambda _, **__: topics,
    )
    seen = metadata.look(admin, {"t", "gone", "secret"})
    assert dict(seen.brokers) == {1: "a", 2: UNSET, 3: UNSET}
    assert seen.topics == {"t": (partition(1, 2, in_sync=[1]), partition(2, leader=-1, in_sync=[]))}
    assert seen.absent == {"gone"}
    assert seen.refused == {"secret"}


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (refused(KafkaError._TRANSPORT), "kafka: metadata: _TRANSPORT: "),
        (TimeoutError(), "kafka: metadata: no answer in 5 s; check bootstrap.servers"),
    ],
)
def test_a_cluster_that_does_not_answer(error: Exception, text: str) -> None:
    """An error and a timeout both become one error of the agent."""
    admin = asked(describe_cluster=lambda **_: Answer(error))
    with pytest.raises(AgentError) as raised:
        metadata.look(admin, ())
    assert str(raised.value).startswith(text)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (SimpleNamespace(type=SimpleNamespace(name="CLASSIC")), "classic"),
        (SimpleNamespace(type=SimpleNamespace(name="CONSUMER")), "consumer"),
        (SimpleNamespace(type=SimpleNamespace(name="UNKNOWN")), "unknown"),
        (refused(KafkaError.GROUP_ID_NOT_FOUND), "classic"),
    ],
)
def test_the_type_of_a_group(answer: object, kind: str) -> None:
    """A group that does not exist yet is a classic one, because the agent will create it by joining."""
    admin = asked(describe_consumer_groups=lambda names, **_: {names[0]: Answer(answer)})
    assert group_type.group_type(admin, "orders") == kind


@pytest.mark.parametrize("error", [refused(KafkaError.GROUP_AUTHORIZATION_FAILED), TimeoutError()])
def test_a_group_whose_type_nobody_tells(error: Exception) -> None:
    """The error names the group."""
    admin = asked(describe_consumer_groups=lambda names, **_: {names[0]: Answer(error)})
    with pytest.raises(AgentError, match="kafka: group orders: "):
        group_type.group_type(admin, "orders")


SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@pytest.mark.parametrize(
    ("selectors", "aware"),
    [((SELECTOR, SELECTOR), True), ((SELECTOR, None), False), ((None,), False), (("of.Ours",), False), ((), False)],
)
def test_every_broker_must_select_by_rack(selectors: tuple[str | None, ...], aware: bool) -> None:  # noqa: FBT001 - a column of the table
    """All replicas count only if every broker has the selector: one without it serves from leaders only."""
    values = list(selectors)

    def describe(question: list[Any], **_: object) -> dict[Any, Answer]:
        return {question[0]: Answer({"replica.selector.class": SimpleNamespace(value=values.pop(0))})}

    admin = asked(describe_configs=describe)
    assert broker_configs.read_broker_configs(admin, range(len(selectors))).rack_aware is aware


def test_a_client_that_gets_no_token_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Librdkafka takes ten seconds to report a missing token; the agent gives the reason at once."""
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    begun = time.monotonic()
    with pytest.raises(RefusedError, match=r"^kafka b-1\.kafka\.eu-test-1\.amazonaws\.com:9098: no AWS credentials: "):
        admin_module.open_admin(
            {
                "bootstrap.servers": "b-1.kafka.eu-test-1.amazonaws.com:9098",
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "AWS_MSK_IAM",
            }
        )
    assert time.monotonic() - begun < 5
