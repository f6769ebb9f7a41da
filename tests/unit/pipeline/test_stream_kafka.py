"""Kafka settings translated for Spark's source, and brokers that do not answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from samerack.common.errors import AgentError, SettingsError
from samerack.pipeline import stream
from samerack.pipeline.stream import check_topics, source_options, without_secrets
from samerack.settings.pipeline import PipelineSettings


def test_a_secured_connection_has_javas_names(tmp_path: Path) -> None:
    """Certificates are passed as text, because workers lack the files; passwords are quoted."""
    for name in ("ca", "certificate", "key"):
        (tmp_path / name).write_text(f"PEM of {name}")
    found = source_options(
        {
            "bootstrap.servers": "kafka:9093",
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "scram-sha-512",
            "sasl.username": "fleet",
            "sasl.password": 'a"b\\c',
            "ssl.ca.location": str(tmp_path / "ca"),
            "ssl.certificate.location": str(tmp_path / "certificate"),
            "ssl.key.location": str(tmp_path / "key"),
            "ssl.endpoint.identification.algorithm": "none",
            "socket.nagle.disable": "true",
        }
    )
    assert found == {
        "kafka.bootstrap.servers": "kafka:9093",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="fleet" password="a\\"b\\\\c";',
        "kafka.ssl.truststore.certificates": "PEM of ca",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": "PEM of certificate",
        "kafka.ssl.keystore.key": "PEM of key",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.endpoint.identification.algorithm": "",
    }


@pytest.mark.parametrize(
    ("cause", "cure"),
    [
        ("TopicAuthorizationException: Not authorized to access topics: [samerack-traffic]", "allow its user READ on"),
        ("GroupAuthorizationException: Not authorized to access group: spark-4f0c", "remove spark.sql.streaming.kafka"),
    ],
)
def test_a_missing_permission_has_a_cure(cause: str, cure: str) -> None:
    """Without READ the stream fails at every restart, so the message does not advise one alone."""
    error = stream._explained(Exception(f"Job aborted\nCaused by: org.apache.kafka.common.errors.{cause}\n\tat x"))
    assert str(error).startswith(f"the brokers refuse the stream ({cause.partition(': ')[2]}): {cure}")
    assert "docs/permissions.md" in str(error)


@pytest.mark.parametrize(
    ("kafka", "words"),
    [
        ({"enable.ssl.certificate.verification": "false"}, "enable.ssl.certificate.verification: .* no equivalent"),
        ({"sasl.username": "fleet"}, "sasl.mechanism: missing; .* PLAIN"),
        (
            {"sasl.mechanism": "aws_msk_iam"},
            "sasl.mechanism: Spark's Kafka client has no AWS_MSK_IAM; use SCRAM or TLS",
        ),
        ({"ssl.ca.location": "/nowhere/ca.pem"}, "ssl.ca.location: /nowhere/ca.pem cannot be read"),
    ],
)
def test_what_would_secure_less_than_it_says_is_refused(kafka: dict[str, str], words: str) -> None:
    """A security setting without a counterpart is an error and never dropped."""
    with pytest.raises(SettingsError, match=words):
        source_options(kafka)


def test_a_password_with_a_line_end_stays_one_text() -> None:
    """A file may end with a line end: unescaped, Java would read the following text as a key, and show it."""
    found = source_options({"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "first\nsecond\r\n"})
    assert found["kafka.sasl.jaas.config"].endswith(' username="u" password="first\\nsecond\\r\\n";')


def test_errors_show_no_secret_of_the_settings() -> None:
    """Secrets are masked, both plain and escaped for Java; everything else stays."""
    kafka = {"bootstrap.servers": "kafka:9093", "sasl.username": "fleet", "sasl.password": 'pass"word'}
    error = AgentError('kafka:9093 refuses fleet: password="pass\\"word", pass"word')
    with pytest.raises(AgentError) as raised, without_secrets(kafka):
        raise error
    assert str(raised.value) == 'kafka:9093 refuses fleet: password="***", ***'


def test_brokers_that_do_not_answer_are_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait is limited, and the error names the address."""
    monkeypatch.setattr(stream, "_REQUEST_SECONDS", 0.2)
    with pytest.raises(AgentError, match=r"no broker answers at 127\.0\.0\.1:1 "):
        check_topics({"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}, PipelineSettings())
