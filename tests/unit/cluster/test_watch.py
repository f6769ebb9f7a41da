"""The watch without a cluster: what a poll publishes, what a failed one leaves, and when the next one comes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any, Final

import pytest
from kafka import errors as kafka_errors
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS
from kafka.protocol.metadata import ApiVersionsRequest
from structlog.testing import capture_logs

from samerack.auth.kafka_config import for_kafka_python
from samerack.cluster import broker_configs, metadata, watch
from samerack.cluster.errors import NotAllowedError
from samerack.cluster.view import ClusterView, SettlingTimes
from samerack.cluster.watch import ClusterWatch
from samerack.cluster.wire import BrokerClient, BrokerRequest
from samerack.common.errors import AgentError, RefusedError
from tests.unit.agent.values import RACKS, UNSET, cluster, partition, view_of
from tests.unit.cluster.scripted_wire import (
    ScriptedBrokerClient,
    configs_response,
    metadata_response,
    versions_response,
)
from tests.unit.cluster.scripted_wire import partition as response_partition
from tests.unit.cluster.scripted_wire import topic as response_topic
from tests.unit.waiting import LONGEST_SECONDS

Poll = Callable[[Any, Collection[str]], ClusterView]


class Counts:
    """Stores what it is asked to count."""

    def __init__(self) -> None:
        self.failed = 0
        self.reasons: list[str] = []
        self.polls = 0

    def polled(self, seconds: float) -> None:
        """Count a poll."""
        assert seconds >= 0
        self.polls += 1

    def watch_failed(self) -> None:
        """Count a failure."""
        self.failed += 1

    def ignored(self, reason: str) -> None:
        """Store a reason."""
        self.reasons.append(reason)


def watcher(counts: Counts, selector: str = "leader", settling: float = 0.0) -> ClusterWatch:
    """A watch without a client, which settles at once unless a time is given."""
    times = SettlingTimes(change=settling, leader=0.0)

    def respond(question: BrokerRequest) -> Any:
        asks_versions = isinstance(question.request, ApiVersionsRequest)
        return versions_response(BROKER_API_VERSIONS[4, 3]) if asks_versions else configs_response(question.broker, {})

    return ClusterWatch(ScriptedBrokerClient(respond), pause=0.01, times=times, selector=selector, metrics=counts)


@pytest.fixture
def polls(monkeypatch: pytest.MonkeyPatch) -> list[ClusterView | Exception]:
    """The results or errors of the next polls; the last one stays. The requested topics are not compared."""
    queue: list[ClusterView | Exception] = []

    def answer(_: object, __: Collection[str]) -> ClusterView:
        head = queue.pop(0) if len(queue) > 1 else queue[0]
        if isinstance(head, Exception):
            raise head
        return head

    monkeypatch.setattr(watch, "read_metadata", answer)
    return queue


def test_listeners_hear_of_changes_only(polls: list[ClusterView | Exception]) -> None:
    """A poll that changes nothing wakes no listener; an ignored change is counted."""
    counts, heard = Counts(), []
    eye = watcher(counts)
    eye.listen(lambda: heard.append(eye.cluster))
    first, gone = view_of(t=[partition(1)]), view_of({1: "a", 3: "c"}, t=[partition(1)])
    polls += [first, first, gone, view_of({**RACKS, 1: "z"}, t=[partition(1)])]
    for _ in range(4):
        eye.poll_once()
    assert heard == [cluster(t=[(1,)]), cluster({**RACKS, 1: "z"}, t=[(1,)])]
    assert counts.reasons == ["broker-absent"]


def test_a_failed_poll_changes_nothing(polls: list[ClusterView | Exception]) -> None:
    """The last settled cluster stays in force, and so does the time of the last successful poll."""
    eye = watcher(Counts())
    polls += [view_of(t=[partition(1)]), AgentError("no answer")]
    eye.poll_once()
    before, at = eye.cluster, eye.last_poll_at
    with pytest.raises(AgentError):
        eye.poll_once()
    assert (eye.cluster, eye.last_poll_at) == (before, at)


def test_no_failure_ends_the_thread(polls: list[ClusterView | Exception]) -> None:
    """Expected and unexpected failures are counted and logged, and the next poll follows."""
    counts = Counts()
    eye = watcher(counts)
    eye.listen(eye.stop)
    polls += [AgentError("no answer"), RuntimeError("a mistake"), view_of(t=[partition(1)])]
    with capture_logs() as logs:
        eye.run()
    assert (counts.failed, counts.polls) == (2, 3)
    assert [line["error"] for line in logs if line["event"] == "poll-failed"] == [
        "no answer",
        "RuntimeError: a mistake",
    ]
    assert eye.cluster == cluster(t=[(1,)])


def test_a_new_topic_of_interest_is_polled_at_once() -> None:
    """Only a topic that no group named before makes the next poll start at once."""
    eye = watcher(Counts())
    eye.show_interest("orders", frozenset({"t"}))
    assert eye._wake.is_set()
    eye._wake.clear()
    eye.show_interest("payments", frozenset({"t"}))
    eye.show_interest("orders", frozenset())
    assert not eye._wake.is_set()


def test_the_first_poll_at_a_topic_is_waited_for(polls: list[ClusterView | Exception]) -> None:
    """The wait ends once the topic is polled, also if the topic does not exist."""
    eye, topics = watcher(Counts()), frozenset({"t", "gone"})
    eye.show_interest("orders", topics)
    assert eye.wait_for(topics, 0.01) == topics
    polls += [view_of(t=[partition(1)], absent=["gone"])]
    polling = threading.Timer(0.05, eye.poll_once)
    polling.start()
    assert eye.wait_for(topics, LONGEST_SECONDS) == frozenset()
    assert eye.cluster.topics["t"] == cluster(t=[(1,)]).topics["t"]
    polling.join()


def test_an_absent_topic_that_somebody_reads_is_not_believed_at_once(
    polls: list[ClusterView | Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that has just started may know no topic yet; a topic without a reader counts as absent at once."""
    now = [100.0]
    monkeypatch.setattr(watch, "time", SimpleNamespace(monotonic=lambda: now[0]))
    eye = watcher(Counts(), settling=5.0)
    polls += [view_of(absent=["t"])]
    eye.poll_once()
    topics = frozenset({"t"})
    assert eye.unknown(topics) == frozenset()
    assert eye.unknown(topics, topics) == topics
    now[0] += 5.0
    eye.poll_once()
    assert eye.unknown(topics, topics) == frozenset()
    assert eye.cluster.topics == {"t": ()}


def test_a_topic_that_may_not_be_seen_is_unknown_and_not_waited_for(polls: list[ClusterView | Exception]) -> None:
    """A topic that may not be seen is reported as unknown at once: a wait would not help."""
    eye, topics = watcher(Counts()), frozenset({"t"})
    polls += [ClusterView(brokers={1: "a"}, topics={}, refused=topics)]
    eye.poll_once()
    assert eye.wait_for(topics, 60) == topics


def test_before_the_first_answer_the_selector_is_unknown() -> None:
    """Found: traffic that was measured before the first poll was measured as if brokers served from leaders only."""
    assert watcher(Counts(), selector="auto").selector() is None
    assert watcher(Counts(), selector="rack-aware").selector() is True


@pytest.mark.parametrize(
    ("answer", "aware", "assignors"),
    [(True, True, ((1,), "")), (False, False, ((1,), "")), (AgentError("not allowed"), False, ((), "not allowed"))],
)
def test_the_configuration_of_brokers_is_read_once(
    polls: list[ClusterView | Exception],
    monkeypatch: pytest.MonkeyPatch,
    answer: bool | AgentError,  # noqa: FBT001 - columns of the table
    aware: bool,  # noqa: FBT001 - columns of the table
    assignors: tuple[tuple[int, ...], str],
) -> None:
    """`auto` asks the brokers at the first poll; where it may not, only leaders are near, and the reason is known."""
    asked = []

    def configs(_: object, brokers: Collection[int]) -> broker_configs.BrokerConfigs:
        asked.append(list(brokers))
        if isinstance(answer, AgentError):
            raise answer
        return broker_configs.BrokerConfigs(rack_aware=answer, initial_delay_seconds=3.0, assignors={1: "uniform"})

    monkeypatch.setattr(watch, "read_broker_configs", configs)
    polls.append(view_of())
    eye = watcher(Counts(), "auto")
    assert eye.server_assignors.unknown == "the brokers have not been asked yet"
    for _ in range(2):
        eye.poll_once()
    assert (asked, eye.rack_aware_fetch) == ([[1, 2, 3]], aware)
    assert (eye.server_assignors.lacking, eye.server_assignors.unknown) == assignors


ONE_BROKER: Final[dict[int, str | None]] = {1: "a"}


def view(*responses: object) -> ClusterView:
    """Poll with these responses, in turn, for topics that do not matter."""
    given = iter(responses)
    return metadata.read_metadata(ScriptedBrokerClient(lambda _: next(given)), {"t", "gone", "secret"})


def test_a_poll_becomes_values() -> None:
    """Racks are known or unset, partitions are in order of number, and absent or refused topics are named."""
    seen = view(
        metadata_response(
            {1: "a", 2: None, 3: ""},
            response_topic("t", response_partition(1, -1, [2], []), response_partition(0, 1, [1, 2], [1])),
            response_topic("gone", error_code=kafka_errors.UnknownTopicOrPartitionError.errno),
            response_topic("secret", error_code=kafka_errors.TopicAuthorizationFailedError.errno),
        )
    )
    assert dict(seen.brokers) == {1: "a", 2: UNSET, 3: UNSET}
    assert seen.topics == {"t": (partition(1, 2, in_sync=[1]), partition(2, leader=-1, in_sync=[]))}
    assert (sorted(seen.absent), sorted(seen.refused), seen.cluster_id) == (["gone"], ["secret"], "cluster")


def test_a_broker_that_lists_no_brokers_is_not_believed() -> None:
    """Found: librdkafka ended the process at such a response, which a broker may send that has just started."""
    with pytest.raises(AgentError, match=r"kafka: metadata: .* a broker lists no brokers"):
        view(metadata_response({}))


def test_one_invalid_topic_name_hides_no_other_topic() -> None:
    """Found: while any member subscribed to a topic that cannot exist, every poll failed."""
    invalid = response_topic("gone", error_code=kafka_errors.InvalidTopicError.errno)
    seen = view(metadata_response(ONE_BROKER, response_topic("t", response_partition(0, 1, [1], [1])), invalid))
    assert (sorted(seen.topics), sorted(seen.absent)) == (["t"], ["gone"])


def test_a_topic_that_cannot_be_described_now_fails_the_poll() -> None:
    """Such a topic is neither known nor absent, so the whole response is not used."""
    electing = response_topic("t", error_code=kafka_errors.LeaderNotAvailableError.errno)
    with pytest.raises(AgentError, match=r"kafka: metadata: topic t: .*LeaderNotAvailableError"):
        view(metadata_response(ONE_BROKER, electing))


def test_many_topics_are_asked_for_in_parts() -> None:
    """No request is for more than 2,000 topics, and the view has the topics of all responses."""
    names = [f"t-{number}" for number in range(4_500)]
    wire = ScriptedBrokerClient(
        lambda question: metadata_response(
            ONE_BROKER,
            *(response_topic(one.name, response_partition(0, 1, [1], [1])) for one in question.request.topics),
        )
    )
    assert set(metadata.read_metadata(wire, names).topics) == set(names)
    assert [len(question.request.topics) for question in wire.asked] == [500] * 9


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (kafka_errors.KafkaConnectionError("refused"), "kafka: metadata: KafkaConnectionError: refused"),
        (kafka_errors.RequestTimedOutError(), "kafka: metadata: no answer in 5 s; check that the broker runs"),
    ],
)
def test_a_cluster_that_does_not_answer(error: Exception, text: str) -> None:
    """An error and a timeout both become one error of the agent."""
    with pytest.raises(AgentError) as raised:
        view(error)
    assert str(raised.value).startswith(text)


SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@pytest.mark.parametrize(
    ("selectors", "aware"),
    [((SELECTOR, SELECTOR), True), ((SELECTOR, None), False), ((None,), False), (("of.Ours",), False), ((), False)],
)
def test_every_broker_must_select_by_rack(selectors: tuple[str | None, ...], aware: bool) -> None:  # noqa: FBT001 - a column of the table
    """All replicas count only if every broker has the selector: one without it serves from leaders only."""
    wire = ScriptedBrokerClient(
        lambda question: configs_response(question.broker, {"replica.selector.class": selectors[question.broker]})
    )
    assert broker_configs.read_broker_configs(wire, range(len(selectors))).rack_aware is aware


def test_the_shortest_initial_delay_counts() -> None:
    """The agent must be in a group before the first of its coordinators ends the first rebalance."""
    wire = ScriptedBrokerClient(
        lambda question: configs_response(
            question.broker, {"group.initial.rebalance.delay.ms": str(1000 * question.broker)}
        )
    )
    assert broker_configs.read_broker_configs(wire, (3, 2)).initial_delay_seconds == 2.0


@pytest.mark.parametrize(
    ("values", "known"),
    [(("5", "3"), 3), (("2147483647", "2147483647"), broker_configs.NO_LIMIT), ((None, "4"), 4), ((None, None), None)],
)
def test_the_smallest_limit_of_groups_counts(values: tuple[str | None, ...], known: int | None) -> None:
    """Any broker may coordinate a group; brokers before Kafka 2.2 have no limit, so nothing is known of them."""
    wire = ScriptedBrokerClient(
        lambda question: configs_response(question.broker, {"group.max.size": values[question.broker]})
    )
    assert broker_configs.read_broker_configs(wire, (0, 1)).max_group_size == known


@pytest.mark.parametrize(
    ("answer", "kind", "cure"),
    [
        (
            configs_response(1, {}, kafka_errors.ClusterAuthorizationFailedError.errno),
            NotAllowedError,
            "allow DESCRIBE_CONFIGS on the cluster or set racks",
        ),
        (kafka_errors.RequestTimedOutError(), AgentError, "no answer in 5 s; check that the broker runs"),
    ],
)
def test_the_configuration_may_be_refused(answer: object, kind: type[AgentError], cure: str) -> None:
    """The error names a missing permission and the setting that makes it unnecessary; without an answer, the broker."""
    with pytest.raises(AgentError, match=cure) as found:
        broker_configs.read_broker_configs(ScriptedBrokerClient(lambda _: answer), [1])
    assert type(found.value) is kind


def test_a_client_that_gets_no_token_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent gives the reason before it connects."""
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("it looks for the broker"))
    kafka = {
        "bootstrap.servers": "b-1.kafka.eu-test-1.amazonaws.com:9098",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
    }
    with pytest.raises(RefusedError, match=r"^kafka b-1\.kafka\.eu-test-1\.amazonaws\.com:9098: no AWS credentials: "):
        metadata.read_metadata(BrokerClient(for_kafka_python(kafka)), ())


@pytest.mark.parametrize(
    ("values", "error_code", "limit"),
    [
        ({"max.message.bytes": "1048588", "offsets.topic.compression.codec": "0"}, 0, 1048588),
        ({"max.message.bytes": "1048588", "offsets.topic.compression.codec": "1"}, 0, None),
        ({"offsets.topic.compression.codec": "0"}, 0, None),
        ({}, kafka_errors.TopicAuthorizationFailedError.errno, None),
    ],
)
def test_the_limit_of_group_records(values: dict[str, str | None], error_code: int, limit: int | None) -> None:
    """It is not known where brokers do not return it, or where records are compressed before they are measured."""
    wire = ScriptedBrokerClient(lambda question: configs_response(question.broker, values, error_code))
    assert broker_configs.read_record_limit(wire, 1) == limit
    assert [one.resource_name for one in wire.asked[0].request.resources] == ["__consumer_offsets", "1"]
    assert (
        broker_configs.read_record_limit(ScriptedBrokerClient(lambda _: kafka_errors.RequestTimedOutError()), 1) is None
    )
