"""Which kind of failure an error is, the cure of its kind in all places, and the message of a refusal."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import partial

import pytest
from kafka import errors as kafka_errors

from samerack.auth.identities import AwsIdentity, TokenError
from samerack.auth.tokens import tokens
from samerack.cluster.broker_configs import read_broker_configs
from samerack.cluster.errors import (
    CoordinatorMovesError,
    ErrorKind,
    NotAcceptedError,
    NotAllowedError,
    cure_of,
    error_text,
    explained,
    is_refusal,
    kind_of,
    refusal,
)
from samerack.cluster.group_protocols import ask_members
from samerack.cluster.group_questions import GroupTypes
from samerack.cluster.wire import BrokerClient
from samerack.common.errors import AgentError, RefusedError
from samerack.traffic.gaps import LACKS, failed, refused
from samerack.traffic.snapshot import Family
from tests.unit.cluster.scripted_wire import ScriptedBrokerClient

UNREACHABLE = (
    kafka_errors.KafkaConnectionError("Connection refused"),
    kafka_errors.NodeNotReadyError(2),
    kafka_errors.KafkaTimeoutError("late"),
    kafka_errors.RequestTimedOutError(),
    kafka_errors.UnknownBrokerIdError(2),
    ConnectionRefusedError(111, "Connection refused"),
    TimeoutError("late"),
)
NOT_ALLOWED = (
    kafka_errors.ClusterAuthorizationFailedError(),
    kafka_errors.GroupAuthorizationFailedError("orders"),
    kafka_errors.TopicAuthorizationFailedError("t"),
)


def _gap(family: Family, error: Exception) -> str:
    """What a gap of the family lacks, and the cure."""
    return failed(family, "broker 2", error).consequence


def _raised(ask: Callable[[BrokerClient], object], error: Exception) -> str:
    """The text of what is raised when a request fails with this error."""
    with pytest.raises(AgentError) as found:
        ask(ScriptedBrokerClient(lambda _: error))
    assert is_refusal(found.value) is is_refusal(error)
    return str(found.value)


PLACES: dict[str, Callable[[Exception], str]] = {
    **{f"gap of {family}": partial(_gap, family) for family, (_, permission) in LACKS.items() if permission},
    "a member's failure": explained,
    "a request's failure": lambda error: error_text(error, 5.0),
    "the brokers' settings": lambda error: _raised(lambda wire: read_broker_configs(wire, [2]), error),
    "a group's type": lambda error: _raised(lambda wire: GroupTypes(wire).find("orders", patience=0.0), error),
    "a group's members": lambda error: _raised(lambda wire: ask_members(wire, "orders"), error),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("error", UNREACHABLE, ids=lambda error: type(error).__name__)
def test_a_broker_that_is_down_is_no_missing_permission(place: str, error: Exception) -> None:
    """Wherever a failed connection or a timeout is explained, it is the broker that is to be checked."""
    text = PLACES[place](error)
    assert "allow" not in text
    assert "check that the broker runs" in text


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("error", NOT_ALLOWED, ids=lambda error: type(error).__name__)
def test_a_missing_permission_is_always_named(place: str, error: Exception) -> None:
    """Wherever an authorization error is explained, it says what to allow."""
    assert "allow " in PLACES[place](error)


@pytest.mark.parametrize("place", ["gap of groups", "a group's type", "a group's members"])
def test_a_group_that_is_hidden_for_one_of_its_topics_names_the_topics(place: str) -> None:
    """Brokers describe no group of the newer types to whoever may not describe one of its topics."""
    assert PLACES[place](kafka_errors.TopicAuthorizationFailedError()).endswith(
        "; allow DESCRIBE on all of the group's topics"
    )
    text = PLACES[place](kafka_errors.GroupAuthorizationFailedError())
    assert text.endswith(("; allow DESCRIBE on the groups", "; allow DESCRIBE on the group"))


@pytest.mark.parametrize("family", Family)
def test_a_gap_is_refused_only_by_a_missing_permission(family: Family) -> None:
    """A gap counts as a missing permission by the kind of its error, whether an answer or a request has it."""
    assert failed(family, "", NotAllowedError("no")).refused
    assert [one.refused for one in refused(family, "t", kafka_errors.TopicAuthorizationFailedError.errno)] == [True]
    assert not any(failed(family, "", error).refused for error in UNREACHABLE)
    assert not failed(family, "", "a reason in words").refused


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (NotAcceptedError("x"), ErrorKind.NOT_ACCEPTED),
        (RefusedError("x"), ErrorKind.NOT_ACCEPTED),
        (kafka_errors.IncompatibleBrokerVersion(), ErrorKind.UNSUPPORTED),
        (kafka_errors.NotCoordinatorError(), ErrorKind.PASSING),
        (kafka_errors.InvalidRequestError(), ErrorKind.OTHER),
        (AgentError("x"), ErrorKind.OTHER),
    ],
)
def test_other_errors_have_no_permission(error: Exception, kind: ErrorKind) -> None:
    """Errors of other kinds have their own cure, or none."""
    assert kind_of(error) is kind
    assert "allow" not in cure_of(error, "allow it")


def test_an_error_of_the_agent_is_of_the_kind_of_its_cause() -> None:
    """An error with a text of the agent's is what the library's error was from which it was raised."""
    error = AgentError("kafka: no answer")
    error.__cause__ = TimeoutError()
    assert kind_of(error) is ErrorKind.UNREACHABLE


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
