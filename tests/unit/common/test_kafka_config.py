"""One set of Kafka settings for two clients: what is translated, what is refused, and the TLS context."""

from __future__ import annotations

import ssl

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl import get_sasl_mechanism

from samerack.common.errors import SettingsError
from samerack.common.identities import AWS_MSK_IAM, KEYS
from samerack.common.kafka_config import FOR_BOTH, KNOWN, MECHANISMS, for_kafka_python, for_librdkafka

SAMPLES = {
    "bootstrap.servers": "127.0.0.1:9092",
    "client.dns.lookup": "use_all_dns_ips",
    "security.protocol": "plaintext",
    "sasl.mechanism": "PLAIN",
    "sasl.mechanisms": "PLAIN",
    "ssl.endpoint.identification.algorithm": "https",
    "enable.ssl.certificate.verification": "true",
}
TOKENS = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.token.endpoint.url": "https://tokens.example/token",
    "sasl.oauthbearer.client.id": "agent",
    "sasl.oauthbearer.client.secret": "hidden",
}
OF_TOKENS = {*TOKENS, *KEYS}
"""Keys that become one object with OAUTHBEARER, and nothing alone."""
MSK = {"bootstrap.servers": "b-1.c.kafka.eu-west-1.amazonaws.com:9098", "security.protocol": "SASL_SSL"}
VERIFY_OFF = {"enable.ssl.certificate.verification": "false"}


def sample(key: str) -> str:
    """A value that fits the key."""
    return SAMPLES.get(key, "5000" if key.endswith(".ms") else "text")


@pytest.mark.parametrize("key", sorted(FOR_BOTH))
def test_every_translated_key_is_one_of_the_leading_client(key: str) -> None:
    """Every key becomes a setting that kafka-python has, since it ignores others silently."""
    names = for_kafka_python({key: sample(key)}).keys() - {"client_id"}
    assert names <= KafkaConnectionManager.DEFAULT_CONFIG.keys()
    assert names or key in {"client.id", "enable.ssl.certificate.verification"} or key in OF_TOKENS


@pytest.mark.parametrize("mechanism", [one for one in MECHANISMS if one != AWS_MSK_IAM])
def test_every_mechanism_is_one_of_the_leading_client(mechanism: str) -> None:
    """Mechanisms are written as kafka-python knows them, in whatever case they are given."""
    others = {key: value for key, value in TOKENS.items() if key != "sasl.mechanism"}
    assert for_kafka_python({**others, "sasl.mechanism": mechanism.lower()})["sasl_mechanism"] == mechanism
    assert for_kafka_python({**others, "sasl.mechanisms": mechanism})["sasl_mechanism"] == mechanism
    assert get_sasl_mechanism(mechanism)


def test_a_whole_configuration_is_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    """SASL over TLS is translated to the names and types of the other client."""
    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", lambda *_: None)
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_: None)
    assert for_kafka_python(
        {
            "bootstrap.servers": "a:1,b:2",
            "client.id": "mine",
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "agent",
            "sasl.password": "pass",
            "ssl.ca.location": "/ca.pem",
            "ssl.certificate.location": "/me.pem",
            "ssl.key.location": "/me.key",
            "ssl.key.password": "key",
            "ssl.crl.location": "/crl.pem",
            "ssl.endpoint.identification.algorithm": "none",
            "reconnect.backoff.ms": "100",
        }
    ) == {
        "bootstrap_servers": "a:1,b:2",
        "client_id": "mine",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "agent",
        "sasl_plain_password": "pass",
        "ssl_cafile": "/ca.pem",
        "ssl_certfile": "/me.pem",
        "ssl_keyfile": "/me.key",
        "ssl_password": "key",
        "ssl_crlfile": "/crl.pem",
        "ssl_check_hostname": False,
        "reconnect_backoff_ms": 100,
    }


def test_the_watching_client_takes_keys_as_they_are() -> None:
    """The watching client gets the keys as they are; the defaults for client id and topic creation can be set."""
    assert for_librdkafka({"bootstrap.servers": "a:1"}) == {
        "bootstrap.servers": "a:1",
        "client.id": "samerack",
        "allow.auto.create.topics": "false",
    }
    assert for_librdkafka({"client.id": "mine"})["client.id"] == "mine"


def test_keys_that_secure_nothing_are_the_watching_clients_alone() -> None:
    """A tuning setting without a counterpart is passed to librdkafka only."""
    assert for_kafka_python({"socket.timeout.ms": "1000", "debug": "all"}) == {"client_id": "samerack"}


def test_an_unknown_key_is_wrong_input() -> None:
    """It is refused with the nearest known key as a hint; each client alone would ignore it, or end later."""
    with pytest.raises(SettingsError) as raised:
        for_kafka_python({"clientid": "x"})
    assert str(raised.value) == "kafka.clientid: there is no such setting; did you mean kafka.client.id?"


@pytest.mark.parametrize("key", sorted(KNOWN))
def test_every_known_key_is_one_of_librdkafka(key: str) -> None:
    """The publishing client takes every key that is accepted, so that publishing works with the same settings."""
    try:
        AdminClient({"bootstrap.servers": "127.0.0.1:1", "debug": "", key: sample(key)})
    except KafkaException as error:
        assert "No such configuration" not in str(error)  # noqa: PT017 - a wrong value is allowed here, an unknown key not
