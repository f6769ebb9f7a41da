"""The sender against librdkafka's mock broker, and against a producer with failures that no broker can cause."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from prometheus_client import CollectorRegistry

from samerack.agent.publishing.metrics import DropReason, PublishingMetrics, TopicRefusal
from samerack.agent.publishing.outbox import Kind, Outbox, OutgoingRecord
from samerack.agent.publishing.sender import Sender, producer_config
from samerack.auth.identities import TokenError
from samerack.common.errors import RefusedError, SettingsError
from tests.unit.waiting import LONGEST_SECONDS, until

TOPICS = {Kind.SAMPLE: "samples", Kind.STATE: "states"}
FATAL = KafkaError(KafkaError._FATAL, "no way back", True)  # noqa: FBT003 - librdkafka's own signature
NOT_ALLOWED = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "not allowed", True)  # noqa: FBT003 - see above


class _Fake:
    """A producer whose answers the test sets: the first ones in turn, then success; or errors of its calls."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.sent: list[tuple[bytes, Callable[[KafkaError | None, object], None]]] = []
        self.answers: list[KafkaError | None] = []
        self.refuses: KafkaError | None = None
        self.raises: KafkaError | None = None
        self.fails: KafkaError | None = None

    def list_topics(self, topic: str, timeout: float) -> Any:
        assert timeout < 5
        return SimpleNamespace(topics={topic: SimpleNamespace(error=self.refuses)})

    def produce(self, topic: str, value: bytes, *, key: bytes, on_delivery: Any) -> None:
        assert (topic in TOPICS.values(), key) == (True, b"k")
        if self.raises is not None:
            raise KafkaException(self.raises)
        self.sent.append((value, on_delivery))

    def poll(self, _seconds: float) -> None:
        if self.fails is not None:
            raise KafkaException(self.fails)
        sent, self.sent = self.sent, []
        for _, report in sent:
            report(self.answers.pop(0) if self.answers else None, None)

    def flush(self, _seconds: float) -> None:
        self.poll(0)

    def purge(self) -> None:
        pass

    def loses(self, code: int, text: str = "") -> None:
        """Report an error of the connections."""
        self.config["error_cb"](KafkaError(code, text))


def record(number: int, kind: Kind = Kind.SAMPLE) -> OutgoingRecord:
    """A record of this number."""
    return OutgoingRecord(number=number, kind=kind, topic=TOPICS[kind], key=b"k", value=b"%d" % number, group="g")


class Setting:
    """A sender with fake producers, and a clock."""

    def __init__(self, **config: str) -> None:
        self.now = 0.0
        self.unusable: KafkaError | None = None
        self.refuses: KafkaError | None = None
        self.made: list[_Fake] = []
        self.registry = CollectorRegistry()
        self.outbox = Outbox(max_bytes=10_000)
        self.sender = Sender(
            {"bootstrap.servers": "here:9092", **config},
            topics=TOPICS,
            outbox=self.outbox,
            metrics=PublishingMetrics(self.registry, TOPICS.values()),
            make=self._make,
            clock=lambda: self.now,
        )

    @property
    def producer(self) -> _Fake:
        """The latest producer."""
        return self.made[-1]

    @property
    def troubles(self) -> set[TopicRefusal]:
        """Why topics take no records."""
        return {one.why for one in self.sender.troubles}

    def _make(self, config: dict[str, Any]) -> _Fake:
        if self.unusable is not None:
            raise KafkaException(self.unusable)
        self.made.append(_Fake(config))
        self.producer.refuses = self.refuses
        return self.producer

    def add(self, *numbers: int, kind: Kind = Kind.SAMPLE) -> None:
        """Add records to the outbox."""
        for number in numbers:
            self.outbox.add(record(number, kind))

    def sends(self, *numbers: int) -> None:
        """Add records, and run a turn."""
        self.add(*numbers)
        self.run_turns(1)

    def count(self, name: str, **labels: str) -> float | None:
        """A metric's value."""
        return self.registry.get_sample_value(f"samerack_{name}", labels)

    def run_turns(self, count: int) -> None:
        """Run this many turns."""
        for _ in range(count):
            self.sender.turn()


@pytest.fixture
def setting() -> Setting:
    """A sender whose producer accepts everything."""
    return Setting()


def test_records_arrive_and_are_counted(setting: Setting) -> None:
    """Records that arrive leave the outbox, and both kinds are counted."""
    setting.add(1, 2)
    setting.add(3, kind=Kind.STATE)
    setting.run_turns(1)
    assert (len(setting.outbox), setting.count("buffered_records", kind="sample")) == (3, 2)
    setting.run_turns(1)
    assert (len(setting.outbox), setting.count("buffered_record_bytes")) == (0, 0)
    assert setting.count("published_records_total", kind="sample") == 2
    assert setting.count("published_records_total", kind="state") == 1


def test_a_refusal_is_left_alone_and_then_asked_with_one_record(setting: Setting) -> None:
    """After a refusal nothing is sent for half a minute, then one record, and the rest once that has arrived."""
    setting.sends(1, 2, 3)
    setting.producer.answers = [KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)] * 3
    setting.run_turns(1)
    (trouble,) = setting.sender.troubles
    assert (trouble.topic, trouble.why, trouble.gap.refused) == ("samples", TopicRefusal.NOT_ALLOWED, True)
    assert "--operation Write --topic samples" in trouble.cure
    assert setting.count("publishing_refused", topic="samples", reason="not-allowed") == 1
    setting.now = 29
    setting.run_turns(5)
    assert setting.producer.sent == []
    setting.now = 31
    setting.run_turns(1)
    assert [value for value, _ in setting.producer.sent] == [b"1"]
    setting.run_turns(2)
    assert setting.sender.troubles == ()
    assert setting.count("publishing_refused", topic="samples", reason="not-allowed") == 0
    assert setting.count("published_records_total", kind="sample") == 3


def test_a_missing_topic_does_not_keep_the_other_from_records(setting: Setting) -> None:
    """A missing topic does not stop the records of the other one."""
    setting.producer.refuses = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    setting.sends(1)
    assert [one.why for one in setting.sender.troubles] == [TopicRefusal.MISSING, TopicRefusal.MISSING]
    setting.producer.refuses, setting.now = None, 31
    setting.run_turns(2)
    assert [one.topic for one in setting.sender.troubles] == ["states"]
    setting.add(2, kind=Kind.STATE)
    setting.run_turns(2)
    assert (setting.sender.troubles, len(setting.outbox)) == ((), 0)


def test_a_fatal_error_makes_another_producer(setting: Setting) -> None:
    """Records in flight are sent again by the next producer; late answers of the former one are ignored."""
    setting.sends(1, 2)
    former, late = setting.producer, setting.producer.sent[1][1]
    setting.producer.answers = [FATAL]
    setting.producer.sent = setting.producer.sent[:1]
    setting.run_turns(1)
    assert setting.count("producers_replaced_total") == 1
    assert len(setting.outbox) == 2
    late(None, None)
    assert len(setting.outbox) == 2
    setting.run_turns(3)
    assert setting.producer is former
    setting.now = 6
    setting.run_turns(2)
    assert setting.producer is not former
    setting.run_turns(2)
    assert len(setting.outbox) == 0
    assert setting.count("published_records_total", kind="sample") == 2


def test_a_fatal_error_is_heard_without_any_record(setting: Setting) -> None:
    """A producer that may not be idempotent reports it at once; the next one is made after the usual pause."""
    setting.producer.fails = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "", True)  # noqa: FBT003
    setting.run_turns(20)
    assert len(setting.made) == 1
    assert {one.why for one in setting.sender.troubles} == {TopicRefusal.NOT_ALLOWED}
    setting.now = 31
    setting.run_turns(20)
    assert len(setting.made) == 2


def test_records_that_librdkafka_discards_are_no_refusal(setting: Setting) -> None:
    """After a fatal error librdkafka may report discarded records before the error: only the error is the reason."""
    setting.sends(1)
    setting.producer.answers = [KafkaError(KafkaError._PURGE_QUEUE)]
    setting.run_turns(1)
    assert (len(setting.outbox), setting.sender.troubles) == (1, ())
    setting.producer.fails = NOT_ALLOWED
    setting.run_turns(1)
    assert {trouble.why for trouble in setting.sender.troubles} == {TopicRefusal.NOT_ALLOWED}
    setting.now = 40
    setting.run_turns(3)
    assert setting.count("published_records_total", kind="sample") == 1


def test_a_record_that_is_too_large_goes(setting: Setting) -> None:
    """A record above the producer's limit is dropped, and the others are sent."""
    setting.producer.raises = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    setting.sends(1)
    setting.producer.raises = None
    setting.add(2)
    setting.run_turns(2)
    assert setting.count("dropped_records_total", kind="sample", reason=DropReason.TOO_LARGE.value) == 1
    assert setting.count("published_records_total", kind="sample") == 1


def test_a_request_that_is_too_large_is_sent_in_pieces(setting: Setting) -> None:
    """After a request above the topic's limit each record is sent alone; only what is refused alone is dropped."""
    setting.sends(1, 2, 3)
    large = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    setting.producer.answers = [large, large, large, large]
    setting.run_turns(5)
    assert setting.count("dropped_records_total", kind="sample", reason="too-large") == 1
    assert setting.count("published_records_total", kind="sample") == 2
    assert len(setting.outbox) == 0


def test_what_is_left_at_the_end_is_counted(setting: Setting) -> None:
    """Records that are left at the end are counted as dropped: a topic that refuses is not waited for."""
    setting.producer.refuses = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    setting.add(1, 2)
    setting.sender.close(1.0)
    assert setting.count("dropped_records_total", kind="sample", reason="stopped") == 2
    assert len(setting.outbox) == 0


def _no_token(_: str) -> str:
    raise TokenError("nobody gives a token; ask them")


@pytest.mark.parametrize(
    ("config", "error", "message"),
    [
        (
            {"bootstrap.server": "here:9092", "log_level": "0"},
            SettingsError,
            r'publishing\.kafka: No such configuration property: "bootstrap.server"',
        ),
        ({"oauth_cb": _no_token}, RefusedError, r"^publishing\.kafka: nobody gives a token; ask them$"),
    ],
)
def test_what_no_producer_can_be_made_of_is_named(config: dict[str, Any], error: type[Exception], message: str) -> None:
    """A wrong setting, and a first token that is not to be had: the agent does not start, and says why."""
    outbox, metrics = Outbox(max_bytes=1), PublishingMetrics(CollectorRegistry(), ())
    with pytest.raises(error, match=message):
        Sender(config, topics=TOPICS, outbox=outbox, metrics=metrics)


def test_the_producers_own_settings_win() -> None:
    """The producer's settings override those of the agent and the defaults, except idempotence."""
    config = producer_config(
        {"bootstrap.servers": "here", "security.protocol": "SASL_SSL", "sasl.username": "agent"},
        {"bootstrap.servers": "fleet", "compression.type": "lz4", "enable.idempotence": "false"},
    )
    assert config.items() >= {
        ("bootstrap.servers", "fleet"),
        ("sasl.username", "agent"),
        ("compression.type", "lz4"),
        ("enable.idempotence", "true"),
        ("message.timeout.ms", "0"),
    }


def test_another_protocol_of_the_producer_leaves_out_the_agents_login() -> None:
    """Records may go to a cluster that wants a certificate, and the agent log in to its own with a password."""
    kafka = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "agent"}
    config = producer_config(kafka, {"security.protocol": "SSL"})
    assert [key for key in config if key.startswith("sasl.")] == []


def test_librdkafka_takes_what_we_send() -> None:
    """The mock broker of librdkafka, which creates topics on demand, acknowledges every record."""
    registry, outbox = CollectorRegistry(), Outbox(max_bytes=10_000)
    sender = Sender(
        producer_config(
            {"bootstrap.servers": "127.0.0.1:1"}, {"test.mock.num.brokers": "1", "allow.auto.create.topics": "true"}
        ),
        topics={Kind.SAMPLE: "samples"},
        outbox=outbox,
        metrics=PublishingMetrics(registry, ("samples",)),
        clock=lambda: 20 * time.monotonic(),  # the pause after a topic that is not there yet is a second
    )
    for number in range(5):
        outbox.add(record(number))

    def all_sent() -> bool:
        sender.turn()
        return not len(outbox)

    assert until(all_sent)
    sender.close(LONGEST_SECONDS)
    assert registry.get_sample_value("samerack_published_records_total", {"kind": "sample"}) == 5


def test_another_login_of_the_producer_needs_no_token_of_the_agents() -> None:
    """A producer that logs in with a password has no token callback: librdkafka would wait for a token for ever."""
    msk = {
        "bootstrap.servers": "b-1.kafka.eu-west-1.amazonaws.com:9098",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
    }
    assert "oauth_cb" in producer_config(msk, {})
    own = {"bootstrap.servers": "fleet", "sasl.mechanism": "PLAIN"}
    assert "oauth_cb" not in producer_config(msk, own)


def test_a_producer_waits_for_its_token(setting: Setting) -> None:
    """After a fatal error a producer is made once there is a token for it; until then topics refuse."""
    tokens: list[str] = []

    setting.sender._config["oauth_cb"] = lambda one: tokens[0] if tokens else _no_token(one)
    setting.sends(1)
    setting.producer.answers = [FATAL]
    setting.run_turns(1)
    setting.now = 40
    setting.run_turns(1)
    assert len(setting.made) == 1
    assert {trouble.why for trouble in setting.sender.troubles} == {TopicRefusal.NOT_ACCEPTED}
    tokens.append("token")
    setting.now = 80
    setting.run_turns(3)
    assert len(setting.made) == 2
    assert setting.count("published_records_total", kind="sample") == 1


DOWN, LOST = KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT
ALERT = "ssl://here:9092/1: Receive failed: SSL routines::tlsv1 alert unknown ca: SSL alert number 48"


@pytest.mark.parametrize("first", [DOWN, LOST])
def test_a_refusal_is_named_whether_brokers_were_unreachable_before_or_after(setting: Setting, first: int) -> None:
    """Brokers that go, and come back trusting another authority, refuse: TLS 1.3 shows that by a lost connection."""
    setting.run_turns(1)
    setting.producer.loses(first, ALERT if first == LOST else "")
    assert setting.troubles == set()
    setting.producer.loses(DOWN if first == LOST else LOST, ALERT)
    assert setting.troubles == {TopicRefusal.NOT_ACCEPTED}
    assert setting.sender.troubles[0].reason == ALERT
    assert setting.count("publishing_refused", topic="samples", reason="not-accepted") == 1
    setting.producer.loses(DOWN)
    setting.refuses = KafkaError(LOST)
    setting.now = 31
    setting.run_turns(1)
    assert setting.troubles == {TopicRefusal.NOT_ACCEPTED}
    setting.producer.refuses = None
    setting.now = 62
    setting.run_turns(1)
    assert setting.troubles == set()


def test_one_broker_that_refuses_does_not_stop_publishing(setting: Setting) -> None:
    """While other brokers take records, a refusal of one of them, or a lost connection, is no trouble."""
    setting.run_turns(1)
    setting.producer.loses(LOST, ALERT)
    setting.producer.loses(LOST, "Connection refused")
    setting.sends(1)
    setting.run_turns(1)
    setting.producer.loses(DOWN)
    assert setting.troubles == set()
    assert setting.count("published_records_total", kind="sample") == 1


def test_a_refused_producer_is_replaced_after_a_pause(setting: Setting) -> None:
    """What it trusts may have changed without a file of the settings: another one reads it, and sends what waits."""
    setting.sends(1)
    setting.producer.answers, setting.producer.sent = [], []
    setting.producer.loses(DOWN)
    setting.producer.loses(KafkaError._SSL, "handshake failed")
    setting.now = 29
    setting.run_turns(1)
    assert len(setting.made) == 1
    setting.now = 31
    setting.run_turns(3)
    assert (len(setting.made), setting.troubles) == (2, set())
    assert setting.count("published_records_total", kind="sample") == 1


def test_a_replaced_certificate_makes_another_producer(tmp_path: Path) -> None:
    """Records in flight arrive first, or are sent again; a certificate without its key changes nothing yet."""
    certificate, key = tmp_path / "agent.crt", tmp_path / "agent.key"
    for one in (certificate, key):
        one.write_text("former")
    names = {"ssl.certificate.location": str(certificate), "ssl.key.location": str(key), "ssl.ca.location": "/none"}
    setting = Setting(**names)
    setting.sends(1)
    setting.now = 3
    setting.run_turns(1)
    assert len(setting.made) == 1
    certificate.write_text("replaced")
    setting.unusable = KafkaError(KafkaError._INVALID_ARG, "key values mismatch")
    setting.now = 6
    setting.sends(2)
    setting.run_turns(1)
    assert setting.count("published_records_total", kind="sample") == 2
    key.write_text("replaced")
    setting.unusable = None
    setting.add(3)
    setting.now = 9
    setting.run_turns(2)
    assert len(setting.made) == 2
    assert setting.count("producers_replaced_total") == 1
    setting.now = 12
    setting.run_turns(2)
    assert len(setting.made) == 2
    assert (setting.count("published_records_total", kind="sample"), len(setting.outbox)) == (3, 0)
