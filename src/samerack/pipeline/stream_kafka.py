"""Converts Kafka settings from librdkafka's names to those of Spark's Kafka source, and checks that topics exist."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]  # exported in fact

from samerack.auth.identities import AWS_MSK_IAM
from samerack.auth.kafka_config import for_librdkafka, secrets_of
from samerack.common.errors import AgentError, SettingsError

_SAME: Final = frozenset(
    {
        "bootstrap.servers",
        "client.dns.lookup",
        "client.id",
        "connections.max.idle.ms",
        "metadata.max.age.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "sasl.kerberos.service.name",
        "socket.connection.setup.timeout.ms",
        "ssl.key.password",
    }
)
_FILES: Final[Mapping[str, tuple[str, str]]] = {
    "ssl.ca.location": ("ssl.truststore.certificates", "ssl.truststore.type"),
    "ssl.certificate.location": ("ssl.keystore.certificate.chain", "ssl.keystore.type"),
    "ssl.key.location": ("ssl.keystore.key", "ssl.keystore.type"),
}
"""librdkafka gets files, Spark their content: the workers of a Spark cluster do not have the files."""
_LOGIN: Final[Mapping[str, str]] = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
}
_SECURED_BY: Final = ("sasl.", "ssl.", "enable.sasl.", "enable.ssl.")
_REQUEST_SECONDS: Final = 15.0
_STAMPED_BY: Final = "message.timestamp.type"
_STAMPS_WITHIN: Final = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
_GREATEST_STAMP: Final = 2**63 // 1000 - 10**13
"""Milliseconds from now, in either direction, that Spark can still read: it counts in microseconds."""


def source_options(kafka: Mapping[str, str]) -> dict[str, str]:
    """Return options of Spark's Kafka source for settings in librdkafka's names, without those only librdkafka has.

    Raises:
        SettingsError: A setting that secures the connection has no counterpart, or a file cannot be read.
    """
    given: dict[str, str] = {}
    for key, text in kafka.items():
        if key in _SAME:
            given[key] = text
        elif key == "security.protocol":
            given[key] = text.upper()
        elif key in {"sasl.mechanism", "sasl.mechanisms"}:
            if text.upper() == AWS_MSK_IAM:
                raise SettingsError(f"kafka.{key}: Spark's Kafka client has no {AWS_MSK_IAM}; use SCRAM or TLS here")
            given["sasl.mechanism"] = text.upper()
        elif key == "ssl.endpoint.identification.algorithm":
            given[key] = "" if text.lower() == "none" else text
        elif key in _FILES:
            name, kind = _FILES[key]
            given |= {name: _content(key, text), kind: "PEM"}
        elif key.startswith(_SECURED_BY) and key not in {"sasl.username", "sasl.password"}:
            raise SettingsError(f"kafka.{key}: Spark's Kafka client has no equivalent; remove it")
    if "sasl.username" in kafka:
        given["sasl.jaas.config"] = _login(given.get("sasl.mechanism", ""), kafka)
    return {f"kafka.{key}": text for key, text in given.items()}


def _content(key: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"kafka.{key}: {path} cannot be read ({error}); name a file in PEM") from None


def _login(mechanism: str, kafka: Mapping[str, str]) -> str:
    if mechanism not in _LOGIN:
        raise SettingsError(
            f"kafka.sasl.mechanism: {mechanism or 'missing'}; with sasl.username it is one of {', '.join(_LOGIN)}"
        )
    user, password = (_quoted(kafka.get(f"sasl.{key}", "")) for key in ("username", "password"))
    return f"org.apache.kafka.common.security.{_LOGIN[mechanism]} required username={user} password={password};"


def _quoted(text: str) -> str:
    # a line break within quotes would end the text, and Java's error would show the rest
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


@contextmanager
def without_secrets(kafka: Mapping[str, str]) -> Iterator[None]:
    """Remove passwords, keys and tokens of these settings from the block's errors, which may contain Java's text."""
    try:
        yield
    except AgentError as error:
        text = str(error)
        for secret in sorted(secrets_of(kafka), key=len, reverse=True):
            text = text.replace(secret, "***").replace(_quoted(secret)[1:-1], "***")
        raise AgentError(text) from None


def check_topics(kafka: Mapping[str, str], topics: Iterable[str]) -> list[str]:
    """Check that the topics exist: Spark would retry without end, and report it in a hundred lines.

    Returns:
        Topics that accept any timestamp from a publisher, if the brokers show their configuration: Spark fails on an
        absurd timestamp, and again at every restart.

    Raises:
        SettingsError: librdkafka refuses a setting.
        AgentError: No broker answers, or a topic is missing.
    """
    brokers = kafka["bootstrap.servers"]
    wanted = tuple(topics)
    try:
        client = AdminClient({**for_librdkafka(kafka)})
    except (KafkaException, ValueError, TypeError) as error:
        raise SettingsError(f"kafka: {error}") from None
    try:
        there = client.list_topics(timeout=_REQUEST_SECONDS).topics
    except KafkaException as error:
        raise AgentError(
            f"no broker answers at {brokers} ({error.args[0].str()}): correct kafka.*, or start the broker"
        ) from None
    if missing := [topic for topic in wanted if topic not in there]:
        raise AgentError(
            f"topic {missing[0]} does not exist at {brokers}, or may not be described: create it, let an agent "
            "publish, or set the right one in pipeline.traffic_topic and pipeline.states_topic"
        )
    return [topic for topic in wanted if _is_stamped_freely(client, topic)]


def _is_stamped_freely(client: AdminClient, topic: str) -> bool:
    """Return whether publishers may write any timestamp; False where brokers do not show the configuration."""
    asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        found = client.describe_configs([asked], request_timeout=_REQUEST_SECONDS)[asked].result(_REQUEST_SECONDS)
    except (KafkaException, TimeoutError):
        return False
    values = {name: entry.value for name, entry in found.items()}
    if values.get(_STAMPED_BY) != "CreateTime":
        return False
    return any(int(values.get(name) or 2**63) > _GREATEST_STAMP for name in _STAMPS_WITHIN)
