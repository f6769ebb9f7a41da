"""One set of Kafka settings, in librdkafka's names, for both clients.

confluent-kafka takes them as they are; kafka-python (which leads) takes what this table translates. A setting that
changes how a connection is secured and has no counterpart is refused rather than dropped.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Final

from agent.errors import SettingsError

_BOOLEANS: Final = {"true": True, "false": False}


def _boolean(text: str) -> bool:
    return _BOOLEANS[text.lower()]


def _checks_hostname(text: str) -> bool:
    return text.lower() == "https"


def _upper(text: str) -> str:
    return text.upper()


_TO_KAFKA_PYTHON: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "bootstrap.servers": ("bootstrap_servers", str),
    "client.id": ("client_id", str),
    "client.dns.lookup": ("client_dns_lookup", str),
    "connections.max.idle.ms": ("connections_max_idle_ms", int),
    "metadata.max.age.ms": ("metadata_max_age_ms", int),
    "reconnect.backoff.max.ms": ("reconnect_backoff_max_ms", int),
    "reconnect.backoff.ms": ("reconnect_backoff_ms", int),
    "sasl.kerberos.service.name": ("sasl_kerberos_service_name", str),
    "sasl.mechanism": ("sasl_mechanism", _upper),
    "sasl.mechanisms": ("sasl_mechanism", _upper),
    "sasl.password": ("sasl_plain_password", str),
    "sasl.username": ("sasl_plain_username", str),
    "security.protocol": ("security_protocol", _upper),
    "socket.connection.setup.timeout.ms": ("socket_connection_setup_timeout_ms", int),
    "ssl.ca.location": ("ssl_cafile", str),
    "ssl.certificate.location": ("ssl_certfile", str),
    "ssl.crl.location": ("ssl_crlfile", str),
    "ssl.endpoint.identification.algorithm": ("ssl_check_hostname", _checks_hostname),
    "ssl.key.location": ("ssl_keyfile", str),
    "ssl.key.password": ("ssl_password", str),
}
_VERIFY: Final = "enable.ssl.certificate.verification"
_SECURED_BY: Final = ("sasl.", "ssl.", "enable.sasl.", "enable.ssl.")
_ONLY_LIBRDKAFKA: Final = (
    "allow.auto.create.topics",
    "api.version.request.timeout.ms",
    "broker.address.family",
    "broker.address.ttl",
    "debug",
    "log_level",
    "message.max.bytes",
    "receive.message.max.bytes",
    "socket.keepalive.enable",
    "socket.max.fails",
    "socket.nagle.disable",
    "socket.timeout.ms",
    "statistics.interval.ms",
    "topic.metadata.refresh.interval.ms",
)
KNOWN: Final = frozenset({*_TO_KAFKA_PYTHON, _VERIFY, *_ONLY_LIBRDKAFKA})


def for_librdkafka(kafka: Mapping[str, str]) -> dict[str, str]:
    """The settings for confluent-kafka's AdminClient."""
    return {"client.id": "samerack", "allow.auto.create.topics": "false", **kafka}


def for_kafka_python(kafka: Mapping[str, str]) -> dict[str, Any]:
    """The settings for kafka-python's KafkaNetClient.

    Raises:
        SettingsError: A value has the wrong type, or a security setting has no counterpart there.
    """
    result: dict[str, Any] = {"client_id": "samerack"}
    for key, text in kafka.items():
        if key in _TO_KAFKA_PYTHON:
            name, convert = _TO_KAFKA_PYTHON[key]
            try:
                result[name] = convert(text)
            except (ValueError, KeyError):
                raise SettingsError(f"kafka.{key}: {text!r} is not a {convert.__name__}") from None
        elif key.startswith(_SECURED_BY) and key != _VERIFY:
            raise SettingsError(f"kafka.{key}: the client that leads groups has no counterpart{nearest(key)}")
    if kafka.get(_VERIFY, "true").lower() == "false":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        result["ssl_context"] = context
    return result


def nearest(key: str) -> str:
    """A hint at the known setting that is most like `key`, or nothing."""
    close = get_close_matches(key, KNOWN, n=1, cutoff=0.6)
    return f"; did you mean kafka.{close[0]}?" if close else ""
