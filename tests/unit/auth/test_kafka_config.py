"""One set of Kafka settings for two clients: what is translated, what is refused, and the TLS context."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl import get_sasl_mechanism

from samerack.auth.identities import AWS_MSK_IAM, KEYS, identity
from samerack.auth.kafka_config import (
    FOR_BOTH,
    KNOWN,
    MECHANISMS,
    for_kafka_python,
    for_librdkafka,
    over,
    tls_context,
)
from samerack.common.errors import SettingsError

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
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.token.endpoint.url": "https://tokens.example/token",
    "sasl.oauthbearer.client.id": "agent",
    "sasl.oauthbearer.client.secret": "hidden",
}
OF_TOKENS = {*TOKENS, *KEYS}
"""Keys that become one object with OAUTHBEARER, and nothing alone."""
MSK = {"bootstrap.servers": "b-1.c.kafka.eu-west-1.amazonaws.com:9098", "security.protocol": "SASL_SSL"}
VERIFY_OFF = {"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"}


def sample(key: str) -> str:
    """A value that fits the key."""
    return SAMPLES.get(key, "5000" if key.endswith(".ms") else "text")


@pytest.mark.parametrize("key", sorted(FOR_BOTH))
def test_every_translated_key_is_one_of_the_leading_client(key: str) -> None:
    """Every key becomes a setting that is read: by kafka-python, which ignores others silently, or by this project."""
    kafka = {"security.protocol": "plaintext", key: sample(key)}
    names = for_kafka_python(kafka).keys() - ({"client_id", "security_protocol"} if len(kafka) > 1 else {"client_id"})
    assert names <= {*KafkaConnectionManager.DEFAULT_CONFIG, "ssl_verifies"}
    assert names or key == "client.id" or key in OF_TOKENS


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


def test_librdkafka_takes_keys_as_they_are() -> None:
    """The publishing client gets the keys as they are; the defaults for client id and topic creation can be set."""
    assert for_librdkafka({"bootstrap.servers": "a:1"}) == {
        "bootstrap.servers": "a:1",
        "client.id": "samerack",
        "allow.auto.create.topics": "false",
    }
    assert for_librdkafka({"client.id": "mine"})["client.id"] == "mine"


def test_keys_that_secure_nothing_are_librdkafkas_alone() -> None:
    """A tuning setting without a counterpart is passed to librdkafka only."""
    assert for_kafka_python({"socket.timeout.ms": "1000", "debug": "all"}) == {"client_id": "samerack"}


def test_all_connections_share_a_token() -> None:
    """Equal settings share one token provider, which shows no secret; other settings have another one."""
    first = for_kafka_python(TOKENS)["sasl_oauth_token_provider"]
    assert for_kafka_python(TOKENS)["sasl_oauth_token_provider"] is first
    other = for_kafka_python({**TOKENS, "sasl.oauthbearer.extensions": "logicalCluster=a,pool=b"})
    assert other["sasl_oauth_token_provider"].extensions() == {"logicalCluster": "a", "pool": "b"}
    assert "hidden" not in repr(identity(TOKENS))


def test_a_role_of_aws_is_a_token_for_both_clients() -> None:
    """AWS_MSK_IAM becomes OAUTHBEARER with one token provider for both clients; librdkafka gets no other key."""
    kafka = {**MSK, "sasl.mechanism": "aws_msk_iam", "sasl.oauthbearer.config": "region=eu-west-1"}
    leading, publishing = for_kafka_python(kafka), for_librdkafka(kafka)
    provider = leading["sasl_oauth_token_provider"]
    assert leading["sasl_mechanism"] == publishing["sasl.mechanism"] == "OAUTHBEARER"
    assert publishing["oauth_cb"] == provider.for_librdkafka
    assert publishing.keys() == {*MSK, "sasl.mechanism", "oauth_cb", "client.id", "allow.auto.create.topics"}
    assert "kafka-cluster:Connect" in provider.cure


def test_librdkafka_has_no_kerberos() -> None:
    """confluent-kafka's packages have no Kerberos; if they had, the mechanism would not have to be refused."""
    with pytest.raises(KafkaException, match="No provider for SASL mechanism GSSAPI"):
        AdminClient({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"})


@pytest.mark.parametrize("key", ["ssl.ca.location", "ssl.crl.location", "ssl.certificate.location"])
def test_files_of_tls_are_read_at_once(tmp_path: Path, key: str) -> None:
    """A missing TLS file is named by its key and path before any connection is made."""
    own = {"ssl.key.location": "/me.key"} if key == "ssl.certificate.location" else {}
    with pytest.raises(SettingsError, match=rf"^kafka\.{key}: .*absent\.pem: No such file or directory"):
        for_kafka_python({"security.protocol": "SSL", key: str(tmp_path / "absent.pem"), **own})


PASSWORD = {"sasl.mechanism": "PLAIN", "sasl.username": "agent", "sasl.password": "hidden"}


@pytest.mark.parametrize("translate", [for_kafka_python, for_librdkafka])
@pytest.mark.parametrize(
    ("kafka", "why"),
    [
        (PASSWORD, "protocol: is missing, so kafka.sasl.mechanism has no effect; set it to SASL_SSL"),
        ({**PASSWORD, "ssl.ca.location": "/no"}, "protocol: is missing, so kafka.sasl.mechanism has no effect; set"),
        (
            {"ssl.ca.location": "/no/such"},
            "protocol: is missing, so kafka.ssl.ca.location has no effect; set it to SSL",
        ),
        (
            {"enable.ssl.certificate.verification": "false", "ssl.ca.location": ""},
            "protocol: is missing, so kafka.enable.ssl.certificate.verification has no effect; set it to SSL",
        ),
        (
            {**PASSWORD, "security.protocol": "ssl"},
            "protocol: ssl, so kafka.sasl.mechanism has no effect; set it to SASL_SSL",
        ),
        (
            {**PASSWORD, **VERIFY_OFF, "security.protocol": "SASL_PLAINTEXT"},
            "protocol: SASL_PLAINTEXT, so kafka.enable.ssl.certificate.verification has no effect; set it to SASL_SSL",
        ),
    ],
)
def test_no_connection_is_less_secure_than_its_settings(
    translate: Callable[[dict[str, str]], object], kafka: dict[str, str], why: str
) -> None:
    """Without the protocol for it a password or an authority had no effect, and the connection was open."""
    with pytest.raises(SettingsError) as raised:
        translate(kafka)
    assert str(raised.value).startswith(f"kafka.security.{why}")
    assert "hidden" not in str(raised.value)


@pytest.mark.parametrize("translate", [for_kafka_python, for_librdkafka])
@pytest.mark.parametrize(("given", "missing"), [("key", "certificate"), ("certificate", "key")])
def test_a_certificate_and_its_key_belong_together(
    translate: Callable[[dict[str, str]], object], given: str, missing: str
) -> None:
    """A key alone was ignored, and librdkafka ignores a certificate alone."""
    with pytest.raises(SettingsError, match=rf"^kafka\.ssl\.{missing}\.location: is missing"):
        translate({"security.protocol": "SSL", f"ssl.{given}.location": "/no/such"})


def test_a_common_mechanism_by_its_other_name_does_not_win() -> None:
    """A cluster, or the producer, has the mechanism that is its own, and librdkafka gets one name."""
    assert over({"sasl.mechanisms": "PLAIN"}, {"sasl.mechanism": "SCRAM-SHA-512"}) == {
        "sasl.mechanism": "SCRAM-SHA-512"
    }
    assert over({"sasl.mechanism": "PLAIN"}, {"sasl.username": "u"}) == {
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
    }


def test_an_open_connection_may_be_set_over_a_secured_one() -> None:
    """A command can name another protocol than its file, whose password is then not used; so can a cluster."""
    assert for_kafka_python({**PASSWORD, "security.protocol": "plaintext"})["security_protocol"] == "PLAINTEXT"
    common = {**PASSWORD, "security.protocol": "SASL_SSL", "ssl.ca.location": "/ca.pem", "client.id": "me"}
    assert over(common, {"client.id": "you"}) == {**common, "client.id": "you"}
    own = {"security.protocol": "SSL"}
    assert over(common, own) == {**own, "ssl.ca.location": "/ca.pem", "client.id": "me"}
    own = {**PASSWORD, "security.protocol": "SASL_PLAINTEXT"}
    assert over(common, own) == {**own, "client.id": "me"}


def test_verification_off_still_shows_the_own_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has certificate, key and password."""
    loaded: list[tuple[Any, ...]] = []
    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", lambda _, *arguments: loaded.append(arguments))
    for_kafka_python(
        {
            **VERIFY_OFF,
            "ssl.certificate.location": "/me.pem",
            "ssl.key.location": "/me.key",
            "ssl.key.password": "key",
        }
    )
    for_kafka_python({**VERIFY_OFF, "ssl.certificate.location": "/both.pem", "ssl.key.location": "/both.pem"})
    assert loaded == [("/me.pem", "/me.key", "key"), ("/both.pem", "/both.pem", "")]


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_certificate_that_cannot_be_read(tmp_path: Path, content: str | None) -> None:
    """A missing or broken file is named when the settings are read, not at the first connection."""
    path = tmp_path / "me.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SettingsError, match=r"kafka\.ssl\.certificate\.location: .*me\.pem") as raised:
        for_kafka_python({**VERIFY_OFF, "ssl.certificate.location": str(path), "ssl.key.location": str(path)})
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("key", sorted(KNOWN))
def test_every_known_key_is_one_of_librdkafka(key: str) -> None:
    """The publishing client takes every key that is accepted, so that publishing works with the same settings."""
    try:
        AdminClient({"bootstrap.servers": "127.0.0.1:1", "debug": "", key: sample(key)})
    except KafkaException as error:
        assert "No such configuration" not in str(error)  # noqa: PT017 - a wrong value is allowed here, an unknown key not


@pytest.mark.parametrize(("word", "is_off"), [("false", True), ("F", True), ("0", True), ("True", False), ("1", False)])
def test_verification_off_trusts_any_broker(word: str, *, is_off: bool) -> None:
    """As librdkafka reads it: only where it is off the TLS context checks nothing."""
    context = tls_context(for_kafka_python({**VERIFY_OFF, "enable.ssl.certificate.verification": word}))
    assert (context.check_hostname, context.verify_mode) == (
        (False, ssl.CERT_NONE) if is_off else (True, ssl.CERT_REQUIRED)
    )


@pytest.mark.parametrize("translate", [for_kafka_python, for_librdkafka])
def test_kerberos_is_refused_for_both_clients(translate: Callable[[dict[str, str]], object]) -> None:
    """Confluent-kafka's packages are built without it."""
    for key in ("sasl.mechanism", "sasl.mechanisms"):
        with pytest.raises(SettingsError, match=rf"^kafka\.{key}: 'GSSAPI' is Kerberos"):
            translate({key: "GSSAPI"})


NO_COUNTERPART, NONE_OF = "the client that leads groups has no equivalent", "is not one of"


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("ssl.keystore.location", "x", f"{NO_COUNTERPART}; did"),
        ("sasl.oauthbearer.assertion.file", "x", NO_COUNTERPART),
        ("enable.sasl.oauthbearer.unsecure.jwt", "true", NO_COUNTERPART),
        ("ssl.ca.pem", "x", NO_COUNTERPART),
        ("sasl.usrname", "x", f"{NO_COUNTERPART}; did you mean kafka.sasl.username?"),
        ("clientid", "x", "no such setting; did you mean kafka.client.id?"),
        ("xyzzy", "x", "no such setting"),
        ("sasl.mechanism", "DIGEST", "'DIGEST' is not supported"),
        ("reconnect.backoff.ms", "soon", "'soon' is not a whole number"),
        ("security.protocol", "TLS", NONE_OF),
        ("client.dns.lookup", "default", NONE_OF),
        ("ssl.endpoint.identification.algorithm", "yes", NONE_OF),
        ("enable.ssl.certificate.verification", "no", NONE_OF),
    ],
)
def test_what_no_client_or_one_client_only_has_is_refused(key: str, value: str, why: str) -> None:
    """A setting that would secure one connection only, an unknown one and a wrong value are refused by key."""
    with pytest.raises(SettingsError) as raised:
        for_kafka_python({key: value})
    assert str(raised.value).startswith(f"kafka.{key}: ")
    assert why in str(raised.value)
    if why == NONE_OF:  # as librdkafka does, but only where the agent publishes
        with pytest.raises(KafkaException):
            AdminClient({key: value})


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("method", "default", "set it to oidc"),
        ("client.secret", "", "is missing"),
        ("token.endpoint.url", "file:///etc/passwd", "'file:"),
        ("token.endpoint.url", "https://u:hidden@h/x", "has a user or password; use sasl.oauthbearer.client.id and"),
        ("extensions", "cluster", "expected NAME=VALUE"),
        ("config", "region=eu-west-1", "has no effect when tokens"),
    ],
)
def test_tokens_need_to_know_where_from(key: str, value: str, why: str) -> None:
    """A missing or wrong token setting is named by its key, and no secret is shown."""
    with pytest.raises(SettingsError) as raised:
        for_kafka_python({**TOKENS, f"sasl.oauthbearer.{key}": value})
    assert str(raised.value).startswith(f"kafka.sasl.oauthbearer.{key}: {why}")
    assert "hidden" not in str(raised.value)
