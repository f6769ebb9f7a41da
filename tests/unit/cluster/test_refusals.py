"""The message of a refusal, whichever layer of a client reports it."""

from __future__ import annotations

import ssl

import pytest
from kafka import errors as kafka_errors

from samerack.auth.identities import AwsIdentity, TokenError
from samerack.auth.tokens import tokens
from samerack.cluster.errors import CoordinatorMovesError, NotAcceptedError, NotAllowedError
from samerack.cluster.refusals import explained, is_refusal, refusal
from samerack.common.errors import AgentError, RefusedError

CONFIG = {"sasl_mechanism": "PLAIN"}


def unverified(code: int) -> ssl.SSLCertVerificationError:
    """Python's error for a certificate that OpenSSL does not accept."""
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, "what OpenSSL says"
    return error


def alert(reason: str) -> ssl.SSLError:
    """Python's error for an alert of the other side."""
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (unverified(10), "the broker's certificate has expired; renew it on the broker"),
        (unverified(19), "set kafka.ssl.ca.location"),
        (unverified(20), "set kafka.ssl.ca.location"),
        (unverified(62), "is for another host name"),
        (unverified(64), "is for another host name"),
        (unverified(99), "is not accepted: what OpenSSL says; renew it"),
        (
            alert("TLSV13_ALERT_CERTIFICATE_REQUIRED"),
            "refuse the agent's certificate (certificate required); set kafka",
        ),
        (alert("SSLV3_ALERT_CERTIFICATE_EXPIRED"), "refuse the agent's certificate (certificate expired)"),
        (alert("WRONG_VERSION_NUMBER"), "the server does not use TLS; check the port and kafka.security.protocol"),
        (kafka_errors.SaslAuthenticationFailedError("no"), "refuse SASL PLAIN: no; check kafka.sasl.username"),
        (TokenError("no token; check it"), "no token; check it"),
    ],
)
def test_a_refusal_in_words(error: Exception, words: str) -> None:
    """Cause and cure are found in the error itself and in the client's wrapper of it."""
    assert words in refusal(error, CONFIG)
    assert words in refusal(kafka_errors.KafkaConnectionError(error), CONFIG)
    wrapped = kafka_errors.KafkaConnectionError("Handshake failed")
    wrapped.__context__ = error
    assert words in refusal(wrapped, CONFIG)


@pytest.mark.parametrize("error", [None, ConnectionResetError(), alert("UNEXPECTED_EOF_WHILE_READING"), TimeoutError()])
def test_an_outage_is_no_refusal(error: Exception | None) -> None:
    """An error that may pass by itself is retried soon."""
    assert refusal(error, CONFIG) == ""


def test_a_mechanism_that_is_not_offered() -> None:
    """The message names the setting to change."""
    words = refusal(kafka_errors.UnsupportedSaslMechanismError(), CONFIG)
    assert words == "the brokers do not offer SASL PLAIN there; set kafka.sasl.mechanism to one that they offer"


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (RefusedError("x"), True),
        (NotAllowedError("x"), True),
        (NotAcceptedError("x"), True),
        (kafka_errors.GroupAuthorizationFailedError("orders"), True),
        (kafka_errors.NotCoordinatorError("orders"), False),
        (CoordinatorMovesError("x"), False),
        (AgentError("x"), False),
    ],
)
def test_who_waits_longer(error: Exception, refused: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Only errors that need an administrator are refusals."""
    assert is_refusal(error) is refused


def test_a_missing_permission_names_itself() -> None:
    """Errors of the agent are shown as they are, the library's with their name and the permission to give."""
    assert explained(AgentError("a; b")) == "a; b"
    assert explained(kafka_errors.GroupAuthorizationFailedError("orders")).endswith("; allow READ on the group")
    assert explained(kafka_errors.NotCoordinatorError("orders")).startswith("NotCoordinatorError: ")


def test_a_refused_token_has_the_cure_of_whoever_gave_it() -> None:
    """The cure depends on the source of tokens: the permissions of a role, or an issuer and its keys."""
    error = kafka_errors.SaslAuthenticationFailedError("Access denied")
    provider = tokens(AwsIdentity(region="eu-west-1"))
    words = refusal(error, {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": provider})
    assert words.startswith("the brokers refuse SASL OAUTHBEARER: Access denied; check that the role's IAM policy")
